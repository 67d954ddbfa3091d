"""Synonym lists: every kind of bitmap, another roaring library, and every way to be wrong."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from pyroaring import BitMap

from cases import each
from dvcodec import DecodeError, LimitExceeded, Limits, NotCanonical, Truncated
from dvcodec.core.bitmap import BitmapView
from dvcodec.core.cursor import Cursor
from dvcodec.core.roaring import walk
from dvcodec.zap.sections import encode_thesaurus
from samples.zap.parts import plain
from samples.zap.synonyms import (
    FRONT,
    NAMES,
    ONE,
    TOP,
    Book,
    arrays,
    bucket,
    decode,
    lay,
    names_of,
    optimized,
    roaring64,
    thesaurus_of,
    write,
)


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
    assert plain(decode(*lay(17, lists, names_of(17, names)))) == plain(expected)


def test_a_cookie_directly_behind_another() -> None:
    """The second is the number of containers of the first; no bitmap is that short."""
    listed = struct.pack("<QII", 2, 1, 12346) + DOC0
    raw, at = lay(17, {b"a": listed}, names_of(17, {1: b"s", 12346: b"t"}))
    with pytest.raises(Truncated, match="roaring descriptors") as caught:
        decode(raw, at)
    assert caught.value.offset == (FRONT + raw).index(DOC0) + 4


def test_many_uneven_bitmaps(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []

    def watched(cursor: Cursor) -> BitmapView:
        walked.append(cursor.pos)
        return walk(cursor)

    monkeypatch.setattr("dvcodec.zap.sections.walk", watched)
    dice = np.random.default_rng(1)
    book: Book = {
        b"term %d" % term: {
            int(number): sorted(set(dice.integers(0, 200_000, dice.integers(1, 4)).tolist()))
            for number in dice.integers(0, 1000, dice.integers(0, 60))
        }
        for term in range(200)
    }
    names = {number: b"name %d" % number for number in range(1000)}
    expected = thesaurus_of(book, names)
    raw, at = write(17, book, names)
    assert plain(decode(raw, at)) == plain(expected)
    assert not walked
    # One with runs among them is read one at a time.
    book[b"term 7"][5] = list(range(5000))
    lists = {term: roaring64(found, optimized if term == b"term 7" else arrays) for term, found in book.items()}
    assert plain(decode(*lay(17, lists, names_of(17, names)))) == plain(thesaurus_of(book, names))
    assert len(walked) == len(book[b"term 7"])


EMPTY = struct.pack("<II", 12346, 0)
DOC0 = BitMap([0]).serialize()


@each(
    ("listed", "kind", "what"),
    [
        (b"", Truncated, "synonym list"),
        (bytes(7), Truncated, "synonym list"),
        (ONE + b"\0", NotCanonical, "bytes after the end of a synonym list"),
        (bytes(8) + b"\0", NotCanonical, "bytes after the end of a synonym list"),
        (ONE[:-1], Truncated, "."),
        (struct.pack("<Q", 2) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", 2**32 + 1) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", TOP) + ONE[8:], NotCanonical, "number of synonyms"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(1, DOC0), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(0, DOC0), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 1) + bucket(1, EMPTY), NotCanonical, "documents of a synonym"),
        (roaring64({1: [5000]}), NotCanonical, "document of a synonym"),
        (struct.pack("<Q", 1) + bucket(1, BitMap(range(5001)).serialize()), NotCanonical, "documents of a synonym"),
        (roaring64({1: [2**32 - 1]}), NotCanonical, "document of a synonym"),
        (roaring64({1: [0], 2: [0]}), NotCanonical, "synonym of a term"),  # without a name
        (roaring64({0: [0]}), NotCanonical, "synonym of a term"),
        (struct.pack("<Q", 1) + bucket(1, b"\x3a\x31" + DOC0[2:]), DecodeError, "roaring cookie"),
        (struct.pack("<Q", 1) + bucket(1, DOC0[:4] + b"\xff\xff\xff\xff" + DOC0[8:]), DecodeError, "."),
        (struct.pack("<Q", 1) + bucket(1, DOC0[:12] + b"\x99" + DOC0[13:]), DecodeError, "offset"),
        (struct.pack("<Q", 2) + bucket(1, DOC0) + bucket(2, DOC0[:-3]), Truncated, "."),
        (struct.pack("<Q", 3) + bucket(1, BitMap([0, 1, 2, 3]).serialize() + bytes(20)), DecodeError, "."),
    ],
)
def test_lists_refused(listed: bytes, kind: type[DecodeError], what: str) -> None:
    for term, others in ((b"b", {}), (b"b", {b"a": ONE}), (b"b", {b"c": ONE, b"a": ONE})):
        raw, at = lay(17, {term: listed, **others}, NAMES)
        with pytest.raises(kind, match=what) as caught:
            decode(raw, at, num_docs=5000)
        assert len(FRONT) <= (caught.value.offset or 0) < len(FRONT + raw)
        assert caught.value.source == "crafted"


@pytest.mark.parametrize("address", [TOP, 2**63, 10_000])
def test_addresses_refused(address: int) -> None:
    raw, at = lay(17, {b"a": ONE}, NAMES, addresses={b"b": address})
    with pytest.raises(NotCanonical, match="address of a synonym list"):
        decode(raw, at)


@pytest.mark.parametrize("shift", [0, 1, 9])
def test_lists_that_share_bytes(shift: int) -> None:
    raw, at = lay(17, {b"a": ONE, b"b": ONE}, NAMES, addresses={b"c": len(FRONT) + shift})
    with pytest.raises(DecodeError, match="synonym list" if shift != 9 else "."):
        decode(raw, at)


def test_limits() -> None:
    """Few bytes stand for many members where bitmaps have runs."""

    def made(count: int) -> tuple[bytes, int]:
        runs = BitMap(range(60_000))
        runs.run_optimize()
        listed = struct.pack("<Q", count) + b"".join(bucket(number, runs.serialize()) for number in range(count))
        return lay(17, {b"t": listed}, names_of(17, {number: b"%d" % number for number in range(count)}))

    members = 30 * 60_000
    assert len(decode(*made(30), limits=Limits(max_blob_bytes=members * 16)).docs) == members
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        decode(*made(30), limits=Limits(max_blob_bytes=members * 16 - 1))
    with pytest.raises(LimitExceeded, match=r"max_keys: .* found 24000\d\d for .* bytes of the segment"):
        decode(*made(40), limits=Limits(max_keys=30 * 60_000))
