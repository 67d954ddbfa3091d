"""Thesauri: both ways, every kind of bitmap, and every way for lists and names to be wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Truncated
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap import sections
from dvcodec.zap.sections import Thesaurus, decode_thesaurus, encode_thesaurus
from dvcodec.zap.vellum import build
from samples.zap.parts import footer, plain, segment
from samples.zap.segments import NOT, docs_of, uv

FRONT = b"\x03" * 9
TOP = 2**64 - 1
Book = dict[bytes, dict[int, list[int]]]
"""Term -> synonym id -> documents."""
Names = dict[int, bytes]


def thesaurus_of(book: Book, names: Names) -> Thesaurus:
    members = [
        (number, doc) for term in sorted(book) for number in sorted(book[term]) for doc in sorted(book[term][number])
    ]
    return Thesaurus(
        ByteStrings.from_list(sorted(book)),
        np.array([sum(map(len, book[term].values())) for term in sorted(book)], np.int64),
        np.array([member[0] for member in members], np.int64),
        np.array([member[1] for member in members], np.int64),
        np.array(sorted(names), np.int64),
        ByteStrings.from_list([names[number] for number in sorted(names)]),
    )


def roaring64(lists: dict[int, list[int]], bitmap: Callable[[list[int]], bytes] = docs_of) -> bytes:
    return struct.pack("<Q", len(lists)) + b"".join(
        struct.pack("<I", number) + bitmap(sorted(lists[number])) for number in sorted(lists)
    )


def lay(lists: dict[bytes, bytes], names: bytes, addresses: dict[bytes, int] | None = None) -> tuple[bytes, int]:
    """Lists, terms, names and section; and where the section is."""
    base, out, found = len(FRONT), b"", {}
    for term in sorted(lists):
        found[term] = base + len(out)
        out += uv(len(lists[term])) + lists[term]
    found |= addresses or {}
    terms = build(sorted(found), np.array([found[term] for term in sorted(found)], np.uint64))
    address = base + len(out)
    out += uv(len(terms)) + terms + names
    return out + uv(NOT, NOT, address), base + len(out)


def names_of(version: int, names: Names, size: int | None = None) -> bytes:
    body = b"".join(uv(number, len(name)) + name for number, name in names.items())
    if version == 16:
        return uv(len(names)) + body if names else b""
    return uv(len(names), len(body) if size is None else size) + body


def write(version: int, book: Book, names: Names) -> tuple[bytes, int]:
    return lay({term: roaring64(book[term]) for term in book}, names_of(version, names))


def decode(raw: bytes, at: int, version: int = 17, num_docs: int = 200_000, limits: Limits | None = None) -> Thesaurus:
    return decode_thesaurus(segment(FRONT + raw), footer(version, num_docs), at, limits=limits or Limits())


def optimized(docs: list[int]) -> bytes:
    bitmap = BitMap(docs)
    bitmap.run_optimize()
    return bitmap.serialize()


ONE = roaring64({1: [0]})
NAMES = names_of(17, {1: b"s"})


def bucket(number: int, body: bytes) -> bytes:
    return struct.pack("<I", number) + body


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
    raw, at = lay(lists, names_of(17, names, 0))
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
        (uv(1, 2, 1, 1, 115), Truncated, "synonym"),
        (uv(1, 4, 1, 1, 115, 0), NotCanonical, "bytes of the synonyms"),
        (uv(1, 3, 1, 2, 115), Truncated, "synonym"),
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
    raw, at = lay({b"t": ONE}, names)
    with pytest.raises(kind, match=what) as caught:
        decode(raw, at, num_docs=5000)
    assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)


def test_every_kind_of_bitmap() -> None:
    """Arrays, bitsets, runs, a full container, several containers: next to each other in one list."""
    docs = {
        0: list(range(0, 180_000, 2)),
        1: [7],
        2: list(range(65_536)),
        5: list(range(100, 70_000)),
        9: [0, 65_536, 131_072],
        11: list(range(4096)),
        12: list(range(0, 3 * 4097, 3)),
    }
    names = {number: b"name %d" % number for number in docs}
    book = {b"all": docs, b"even": {number: [number, number + 1] for number in docs}, b"one": {9: [3]}, b"two": {}}
    expected = thesaurus_of(book, names)
    for version in (16, 17):
        raw, at = encode_thesaurus(version, expected, len(FRONT))
        assert plain(decode(raw, at, version)) == plain(expected)
    lists = {term: roaring64(found, optimized) for term, found in book.items()}
    assert plain(decode(*lay(lists, names_of(17, names)))) == plain(expected)


EMPTY = struct.pack("<II", 12346, 0)
DOC0 = BitMap([0]).serialize()


@each(
    ("listed", "kind", "what"),
    [
        (b"", Truncated, "synonym list"),
        (ONE + b"\0", NotCanonical, "bytes after the end of a synonym list"),
        (ONE[:-1], Truncated, "."),
        (struct.pack("<Q", 2) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(1, DOC0), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(0, DOC0), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 1) + bucket(1, EMPTY), NotCanonical, "documents of a synonym"),
        (roaring64({1: [5000]}), NotCanonical, "document of a synonym"),
        (struct.pack("<Q", 1) + bucket(1, BitMap(range(5001)).serialize()), NotCanonical, "document of a synonym"),
        (roaring64({1: [0], 2: [0]}), NotCanonical, "synonym of a term"),  # without a name
        (struct.pack("<Q", 1) + bucket(1, b"\x3a\x31" + DOC0[2:]), DecodeError, "roaring cookie"),
        (struct.pack("<Q", 1) + bucket(1, DOC0[:12] + b"\x99" + DOC0[13:]), DecodeError, "offset"),
        (struct.pack("<Q", 3) + bucket(1, BitMap([0, 1, 2, 3]).serialize() + bytes(20)), DecodeError, "."),
    ],
)
def test_lists_refused(listed: bytes, kind: type[DecodeError], what: str) -> None:
    for term, others in ((b"b", {}), (b"b", {b"a": ONE}), (b"b", {b"c": ONE, b"a": ONE})):
        raw, at = lay({term: listed, **others}, NAMES)
        with pytest.raises(kind, match=what) as caught:
            decode(raw, at, num_docs=5000)
        assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)
        assert caught.value.source == "crafted"


@pytest.mark.parametrize("address", [TOP, 2**63, 10_000])
def test_addresses_refused(address: int) -> None:
    raw, at = lay({b"a": ONE}, NAMES, addresses={b"b": address})
    with pytest.raises(NotCanonical, match="address of a synonym list"):
        decode(raw, at)


@pytest.mark.parametrize("shift", [0, 1, 9])
def test_lists_that_share_bytes(shift: int) -> None:
    raw, at = lay({b"a": ONE, b"b": ONE}, NAMES, addresses={b"c": len(FRONT) + shift})
    with pytest.raises(DecodeError, match="synonym list" if shift != 9 else "."):
        decode(raw, at)


def test_limits() -> None:
    """Few bytes stand for many members where bitmaps have runs."""

    def made(count: int) -> tuple[bytes, int]:
        runs = BitMap(range(60_000))
        runs.run_optimize()
        listed = struct.pack("<Q", count) + b"".join(bucket(number, runs.serialize()) for number in range(count))
        return lay({b"t": listed}, names_of(17, {number: b"%d" % number for number in range(count)}))

    members = 30 * 60_000
    assert len(decode(*made(30), limits=Limits(max_blob_bytes=members * 16)).docs) == members
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        decode(*made(30), limits=Limits(max_blob_bytes=members * 16 - 1))
    with pytest.raises(LimitExceeded, match=r"max_keys: .* found 24000\d\d for .* bytes of the segment"):
        decode(*made(40), limits=Limits(max_keys=30 * 60_000))
