"""Thesauri: real files, a slow writer, and every way for sections, terms and names to be wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.cursor import Cursor
from dvcodec.zap import sections
from dvcodec.zap.sections import Thesaurus, decode_thesaurus, encode_thesaurus
from dvcodec.zap.vellum import Fst
from samples.zap.parts import Sample, plain
from samples.zap.segments import take, uv
from samples.zap.synonyms import (
    BOOK,
    BOOK_NAMES,
    FRONT,
    ONE,
    TOP,
    Book,
    Names,
    decode,
    lay,
    names_of,
    roaring64,
    thesaurus_of,
    write,
)


def test_real_files(samples: list[Sample]) -> None:
    for sample in samples:
        found: dict[str, dict[str, list[list[str | int]]]] = {}
        for field in sample.fields:
            if field.synonyms is None:
                continue
            thesaurus = decode_thesaurus(sample.data, sample.footer, field.synonyms)
            names = dict(zip(thesaurus.ids.tolist(), thesaurus.synonyms, strict=True))
            members = list(zip(thesaurus.synonym_ids.tolist(), thesaurus.docs.tolist(), strict=True))
            found[field.name] = {}
            for term, count in zip(thesaurus.terms, thesaurus.counts.tolist(), strict=True):
                found[field.name][term.decode()] = [[names[number].decode(), doc] for number, doc in members[:count]]
                members = members[count:]
            assert not members
            check_bytes(sample, field.synonyms, thesaurus)
        assert found == sample.dump.get("thesauri", {})


def check_bytes(sample: Sample, section: int, thesaurus: Thesaurus) -> None:
    """The bytes are those of zapx, but for the names: there they stand in random order."""
    version = sample.footer.version
    address = take(sample.raw, section + 20)[0]
    size, terms = take(sample.raw, address)
    base = min(build_values(sample.raw[terms : terms + size]))
    raw, at = encode_thesaurus(version, thesaurus, base)
    theirs = sample.raw[base : base + len(raw)]
    assert at == section
    names = terms + size - base
    assert raw[:names] == theirs[:names]
    assert raw[at - base :] == theirs[at - base :]
    entries = []
    for data in (raw, theirs):
        count, place = take(data, names)
        if version == 17:
            size, place = take(data, place)
            assert size == at - base - place
        found = []
        for _ in range(count):
            number, place = take(data, place)
            size, place = take(data, place)
            found.append((number, data[place : place + size]))
            place += size
        assert place == at - base
        entries.append(found)
    assert entries[0] == sorted(entries[1])


def build_values(terms: bytes) -> list[int]:
    return [int(value) for value in Fst.open(Cursor(terms)).to_block().values]


@st.composite
def books(draw: st.DrawFn) -> tuple[Book, Names]:
    numbers = draw(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 300), min_size=1, max_size=8, unique=True))
    docs = st.lists(st.integers(0, 199_999) | st.integers(0, 5), min_size=1, max_size=5, unique=True)
    book = draw(
        st.dictionaries(
            st.binary(max_size=6),
            st.dictionaries(st.sampled_from(numbers), docs, max_size=8),
            max_size=6,
        )
    )
    names = st.one_of(st.binary(max_size=4), st.text(max_size=90).map(str.encode))
    count = len(numbers)
    distinct = draw(st.lists(names, min_size=count, max_size=count, unique=True))
    return book, dict(zip(numbers, distinct, strict=True)) if book else {}


@pytest.mark.parametrize("version", [16, 17])
@pytest.mark.parametrize("piece", [40, 1 << 20])
@given(case=books(), dice=st.randoms())
def test_both_ways(version: int, piece: int, case: tuple[Book, Names], dice: np.random.Generator) -> None:
    book, names = case
    expected = thesaurus_of(book, names)
    raw, at = encode_thesaurus(version, expected, len(FRONT))
    assert (raw, at) == write(version, book, dict(sorted(names.items())))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "_PIECE", piece)
        assert plain(decode(raw, at, version)) == plain(expected)
        # The names stand in any order in files by zapx.
        mixed = list(names.items())
        dice.shuffle(mixed)
        assert plain(decode(*write(version, book, dict(mixed)), version)) == plain(expected)


def test_sizes_of_zero() -> None:
    """zapx v17.0.0 to v17.0.8 wrote 0 for the bytes of the names."""
    book, names = {b"big": {1: [0], 300: [1, 2]}}, {300: b"large", 1: b"huge"}
    lists = {term: roaring64(book[term]) for term in book}
    raw, at = lay(17, lists, names_of(17, names, 0))
    assert plain(decode(raw, at)) == plain(thesaurus_of(book, names))


@each(
    ("names", "kind", "what"),
    [
        (uv(1), Truncated, "synonyms"),
        (uv(0, 0), NotCanonical, "synonym of a term"),
        (uv(0, 1, 0), NotCanonical, "bytes of the synonyms"),
        (uv(TOP, 3, 1, 1, 115), Truncated, f"synonyms: expected {TOP} synonyms in 3 bytes"),
        (uv(TOP, 0, 1, 1, 115), Truncated, f"synonyms: expected {TOP} synonyms in some bytes"),
        (uv(2, 3, 1, 1, 115), Truncated, "synonyms"),
        (uv(1, TOP, 1, 1, 115), Truncated, "synonyms"),
        (uv(1, 100, 1, 1, 115), Truncated, "synonyms"),
        (uv(1, 2, 1, 1, 115), Truncated, "synonym"),
        (uv(1, 4, 1, 1, 115, 0), NotCanonical, "bytes of the synonyms"),
        (uv(1, 3, 1, 2, 115), Truncated, "synonym"),
        (uv(1, 12, 1, TOP, 115), Truncated, "synonym"),
        (uv(1, 7, 2**32, 1, 115), NotCanonical, "id of a synonym"),
        (uv(2, 6, 1, 1, 115, 1, 1, 116), NotCanonical, "ids of the synonyms"),
        (
            uv(2, 6, 1, 1, 115, 2, 1, 115),
            NotCanonical,
            "names of the synonyms: expected every one once, found b's' twice",
        ),
        (uv(1, 3, 2, 1, 115), NotCanonical, "synonym of a term"),
        (uv(1, 14) + b"\x80" * 10 + uv(1, 1, 115) + b"\0", NotCanonical, "id of a synonym"),
    ],
)
def test_names_refused(names: bytes, kind: type[DecodeError], what: str) -> None:
    raw, at = lay(17, {b"t": ONE}, names)
    with pytest.raises(kind, match=what) as caught:
        decode(raw, at, num_docs=5000)
    assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)


@each(
    ("change", "match"),
    [
        (lambda t: {"counts": t.counts[1:]}, "a count for every term"),
        (lambda t: {"ids": t.ids[1:]}, "an id for every synonym"),
        (lambda t: {"counts": t.counts + 1}, "as many members"),
        (lambda t: {"docs": t.docs[1:]}, "as many members"),
        (lambda t: {"ids": t.ids[::-1]}, "ids of synonyms must ascend"),
        (lambda t: {"ids": t.ids * 0 + 1}, "ids of synonyms must ascend"),
        (lambda t: {"ids": t.ids - 1}, "ids of synonyms must ascend"),
        (lambda t: {"ids": t.ids + 2**32}, "ids of synonyms must ascend"),
        (lambda t: {"synonym_ids": t.synonym_ids + 3}, "without a name"),
        (lambda t: {"docs": t.docs - 1}, "documents of synonyms"),
        (lambda t: {"docs": t.docs + 2**32}, "documents of synonyms"),
        (lambda t: {"docs": t.docs * 0}, "members of a term must ascend"),
        (lambda t: {"synonym_ids": t.synonym_ids[::-1]}, "members of a term must ascend"),
        (
            lambda t: {"synonyms": t.synonyms.take(np.zeros(len(t.ids), np.int64))},
            "synonyms of a thesaurus must be distinct",
        ),
        (lambda t: {"terms": t.terms[::-1]}, "."),
    ],
)
def test_thesauri_that_cannot_be_written(change: Callable[[Thesaurus], dict[str, object]], match: str) -> None:
    good = thesaurus_of(BOOK, BOOK_NAMES)
    parts = {name: getattr(good, name) for name in Thesaurus.__slots__} | change(good)
    with pytest.raises(UsageError, match=match):
        encode_thesaurus(17, Thesaurus(**parts), 0)


@pytest.mark.parametrize("version", [11, 15])
def test_older_versions_have_none(version: int) -> None:
    with pytest.raises(UsageError, match="has no synonyms"):
        encode_thesaurus(version, thesaurus_of(BOOK, BOOK_NAMES), 0)
