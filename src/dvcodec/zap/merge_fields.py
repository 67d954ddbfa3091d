"""Merge one field of several segments: terms, postings lists, synonyms.

Source: zapx ``merge.go``, ``enumerator.go``, ``section_synonym_index.go``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.zap.postings_lists import Postings
from dvcodec.zap.postings_records import ONE_HIT_DOCS, ONE_HIT_NORMS
from dvcodec.zap.synonyms import Thesaurus

__all__ = ["DROPPED", "SegmentLists", "merge_lists", "merge_thesauri"]

DROPPED = -1
"""New number of a dropped document."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentLists:
    """Terms of a segment and their lists without dropped documents, which may be empty."""

    place: int
    terms: ByteStrings
    postings: Postings


def merge_lists(read: list[SegmentLists]) -> tuple[ByteStrings, Postings, NDArray[np.bool_]]:
    """Merge the lists of each term; terms without remaining documents are dropped."""
    if len(read) == 1:
        terms, postings = read[0].terms, read[0].postings
        last = np.zeros(len(terms), np.int64)
        origin = np.zeros(len(postings), np.int64)
    else:
        terms, ranks = _rank([lists.terms for lists in read])
        last = np.zeros(len(terms), np.int64)
        for lists, rank in zip(read, ranks, strict=True):
            last[rank] = lists.place
        joined = Postings.concat([lists.postings for lists in read])
        term = np.concatenate(
            [np.zeros(0, np.int64)]
            + [np.repeat(rank, lists.postings.counts) for lists, rank in zip(read, ranks, strict=True)]
        )
        origin = np.concatenate([np.zeros(0, np.int64)] + [np.full(len(lists.postings), lists.place) for lists in read])
        # Documents ascend from segment to segment, so a stable sort by term leaves them ascending in each list.
        order = np.argsort(term, kind="stable")
        postings = joined.take(order, np.bincount(term, minlength=len(terms)))
        origin = origin[order]
    some = postings.counts > 0
    if not some.all():
        terms, last = terms.take(np.flatnonzero(some)), last[some]
        postings = replace(postings, counts=postings.counts[some])
    return terms, postings, _one_hits(postings, origin, last)


def _rank(columns: list[ByteStrings]) -> tuple[ByteStrings, list[Index]]:
    """Return the union of columns of distinct strings, in byte order, and the index of each string in it."""
    lists = [column.to_list() for column in columns]
    union = sorted(set().union(*lists))
    places = {term: i for i, term in enumerate(union)}
    return ByteStrings.from_list(union), [
        np.fromiter(map(places.__getitem__, terms), np.int64, len(terms)) for terms in lists
    ]


def _one_hits(postings: Postings, origin: Index, last: Index) -> NDArray[np.bool_]:
    """Find the lists that zapx stores in the dictionary (1-hits).

    zapx keeps the last posting only, so a list of one document qualifies only if the last segment with the term
    contributed it. Norm 0 is excluded: readers take such a 1-hit for an empty list.
    """
    single = np.flatnonzero(postings.counts == 1)
    at = offsets_of(postings.counts)[:-1][single]
    chosen = (postings.freqs[at] == 1) & (postings.location_counts[at] == 0) & (postings.docs[at] < ONE_HIT_DOCS)
    chosen &= (postings.norms[at] > 0) & (postings.norms[at] < ONE_HIT_NORMS) & (origin[at] == last[single])
    found = np.zeros(len(postings.counts), np.bool_)
    found[single[chosen]] = True
    return found


def merge_thesauri(parts: list[tuple[Thesaurus, Index]]) -> Thesaurus | None:
    """Merge thesauri; synonym ids are assigned in order of first use by term, then by segment."""
    terms, ranks = _rank([thesaurus.terms for thesaurus, _ in parts])
    names, name_ranks = _rank([thesaurus.synonyms for thesaurus, _ in parts])
    columns = []
    for place, ((thesaurus, numbers), rank, name_rank) in enumerate(zip(parts, ranks, name_ranks, strict=True)):
        docs = numbers[thesaurus.docs]
        name = name_rank[np.searchsorted(thesaurus.ids, thesaurus.synonym_ids)]
        members = np.stack([np.repeat(rank, thesaurus.counts), np.full(len(docs), place), name, docs])
        columns.append(members[:, docs != DROPPED])
    term, place, name, docs = np.concatenate(columns, axis=1)
    if not len(docs):
        return None
    order = np.lexsort((place, term))
    _, first = np.unique(name[order], return_index=True)
    seen = name[order][np.sort(first)]
    new_ids = np.empty(len(names), np.int64)
    new_ids[seen] = np.arange(len(seen))
    order = np.lexsort((docs, new_ids[name], term))
    counts = np.bincount(term, minlength=len(terms))
    return Thesaurus(
        terms.take(np.flatnonzero(counts)),
        counts[counts > 0],
        new_ids[name][order],
        docs[order],
        np.arange(len(seen)),
        names.take(seen),
    )
