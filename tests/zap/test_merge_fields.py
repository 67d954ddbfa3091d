from __future__ import annotations

import numpy as np

from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.locations import Locations
from dvcodec.zap.merge import DROPPED, SegmentLists, merge_lists, merge_thesauri
from dvcodec.zap.postings import Postings
from dvcodec.zap.synonyms import Thesaurus


def lists(place: int, found: dict[bytes, list[int]], *, freq: int = 1, norm: int = 4) -> SegmentLists:
    docs = np.array([doc for of_term in found.values() for doc in of_term], np.int64)
    counts = np.array([len(of_term) for of_term in found.values()], np.int64)
    postings = Postings(
        counts,
        docs,
        np.full(len(docs), freq, np.uint64),
        np.full(len(docs), norm, np.uint64),
        np.zeros(len(docs), np.int64),
        Locations.none(),
    )
    return SegmentLists(place, ByteStrings.from_list(list(found)), postings)


def content(found: tuple[ByteStrings, Postings, object]) -> dict[bytes, list[int]]:
    terms, postings, _ = found
    bounds = np.append(0, np.cumsum(postings.counts)).tolist()
    return {term: postings.docs[bounds[i] : bounds[i + 1]].tolist() for i, term in enumerate(terms)}


def one_hits(*parts: SegmentLists) -> list[bytes]:
    terms, _, hits = merge_lists(list(parts))
    return [term for term, hit in zip(terms, hits, strict=True) if hit]


def test_lists_of_a_term_follow_the_order_of_segments() -> None:
    found = merge_lists([lists(0, {b"a": [0, 2], b"c": [1]}), lists(1, {b"a": [5], b"b": [3, 4]})])
    assert content(found) == {b"a": [0, 2, 5], b"b": [3, 4], b"c": [1]}


def test_terms_without_a_document_vanish() -> None:
    assert content(merge_lists([lists(0, {b"a": [], b"b": [1]})])) == {b"b": [1]}
    assert content(merge_lists([lists(0, {b"a": []}), lists(1, {b"a": []})])) == {}
    assert content(merge_lists([])) == {}


def test_a_single_posting_stands_in_the_dictionary() -> None:
    assert one_hits(lists(0, {b"a": [0], b"b": [0, 1]})) == [b"a"]
    assert one_hits(lists(0, {b"a": [2**31 - 1], b"b": [2**31]})) == [b"a"]
    assert one_hits(lists(0, {b"a": [0]}, freq=2)) == []
    assert one_hits(lists(0, {b"a": [0]}, norm=2**31)) == []
    assert one_hits(lists(0, {b"a": [0]}, norm=2**31 - 1)) == [b"a"]


def test_norm_0_never_stands_in_the_dictionary_for_readers_take_it_for_empty() -> None:
    assert one_hits(lists(0, {b"a": [0]}, norm=0)) == []


def test_the_last_segment_with_the_term_has_to_contribute_the_document() -> None:
    assert one_hits(lists(0, {b"a": [0]}), lists(1, {b"a": []})) == []
    assert one_hits(lists(0, {b"a": []}), lists(1, {b"a": [0]})) == [b"a"]
    assert one_hits(lists(0, {b"a": [0]}), lists(1, {b"b": [1]})) == [b"a", b"b"]


def thesaurus(found: dict[bytes, list[tuple[bytes, int]]]) -> Thesaurus:
    names = sorted({name for members in found.values() for name, _ in members})
    ids = {name: 7 + i for i, name in enumerate(names)}
    members = [sorted((ids[name], doc) for name, doc in of_term) for of_term in found.values()]
    flat = np.array([pair for of_term in members for pair in of_term], np.int64).reshape(-1, 2)
    return Thesaurus(
        ByteStrings.from_list(list(found)),
        np.array([len(of_term) for of_term in members], np.int64),
        flat[:, 0],
        flat[:, 1],
        np.array(sorted(ids.values()), np.int64),
        ByteStrings.from_list(names),
    )


def test_thesauri_are_united_with_ids_in_the_order_of_terms_then_segments() -> None:
    left = thesaurus({b"big": [(b"large", 0)], b"fast": [(b"quick", 0), (b"rapid", 1)]})
    right = thesaurus({b"big": [(b"huge", 0), (b"large", 0)]})
    found = merge_thesauri([(left, np.array([0, DROPPED])), (right, np.array([1]))])
    assert found is not None
    assert found.terms.to_list() == [b"big", b"fast"]
    assert found.synonyms.to_list() == [b"large", b"huge", b"quick"]
    members = list(zip(found.synonym_ids.tolist(), found.docs.tolist(), strict=True))
    assert (found.counts.tolist(), members) == ([3, 1], [(0, 0), (0, 1), (1, 1), (2, 0)])


def test_a_thesaurus_that_loses_all_its_documents_vanishes() -> None:
    gone = np.array([DROPPED])
    assert merge_thesauri([(thesaurus({b"a": [(b"b", 0)]}), gone)]) is None
    kept = merge_thesauri([(thesaurus({b"a": [(b"b", 0)]}), gone), (thesaurus({b"c": [(b"d", 0)]}), np.array([0]))])
    assert kept is not None
    assert kept.terms.to_list() == [b"c"]
