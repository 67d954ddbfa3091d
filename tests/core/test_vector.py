from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import Limits
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet, check_rows, check_vectors
from dvcodec.core.vector import FRAME_OVERHEAD, MAX_FRAME, Magic, StoredFrame, checked_frames
from samples.bitmaps import (
    EMPTY,
    NATIVE,
    PAIMON,
    PORTABLE,
    array,
    bitmap,
    frame,
    native64,
    runs,
    vector64,
)

SOME = bitmap(array(0, [1, 5, 9]))
TAKEN = RowSet([1, 5, 9])
RAW = {Magic.PORTABLE64: PORTABLE, Magic.NATIVE64: NATIVE, Magic.PAIMON32: PAIMON}


def decode(data: BytesLike, cardinality: int | None = None) -> RowSet:
    return vector.read(Cursor(data), cardinality=cardinality).load()


def decode_payload(data: BytesLike, cardinality: int | None = None) -> RowSet:
    return vector.read_payload(Cursor(data), cardinality=cardinality).load()


RUN = RowSet.from_ranges([(7, 97)])
VECTORS: dict[str, tuple[Magic, bytes, RowSet]] = {
    "portable, empty": (Magic.PORTABLE64, vector64(), RowSet()),
    "portable": (Magic.PORTABLE64, vector64((0, SOME)), TAKEN),
    "portable with a gap": (Magic.PORTABLE64, vector64((0, EMPTY), (1, SOME)), RowSet([2**32 + i for i in (1, 5, 9)])),
    "portable run": (Magic.PORTABLE64, vector64((0, bitmap(runs(0, [(7, 90)])))), RUN),
    "native, empty": (Magic.NATIVE64, native64(), RowSet()),
    "native": (Magic.NATIVE64, native64(SOME), TAKEN),
    "native with gaps": (Magic.NATIVE64, native64(EMPTY, EMPTY, bitmap(array(0, [7]))), RowSet([2**33 + 7])),
    "Paimon 32, empty": (Magic.PAIMON32, EMPTY, RowSet()),
    "Paimon 32": (Magic.PAIMON32, SOME, TAKEN),
    "Paimon 32 run": (Magic.PAIMON32, bitmap(runs(0, [(7, 90)])), RUN),
}
vectors_of_each_magic = pytest.mark.parametrize(("magic", "body", "rows"), VECTORS.values(), ids=VECTORS)


@vectors_of_each_magic
def test_a_vector_says_what_it_is_without_being_expanded(magic: Magic, body: bytes, rows: RowSet) -> None:
    data = frame(RAW[magic], body)
    framed = vector.read(Cursor(data), cardinality=len(rows))
    assert (framed.magic, framed.cardinality) == (magic, len(rows))
    assert (framed.view.min, framed.view.max) == (rows.min, rows.max)
    assert bytes(framed.view.data) == body
    assert framed.frame is not None
    assert bytes(framed.frame.data) == data
    framed.check()
    assert framed.load() == rows
    bare = vector.read_payload(Cursor(RAW[magic] + body), cardinality=len(rows))
    assert (bare.magic, bare.cardinality, bare.frame) == (magic, len(rows), None)


# ------------------------------------------------------------------ order of checks


@pytest.mark.parametrize(
    ("name", "depth"), [("portable", 8 + 4 + 16 + 2), ("native", 4 + 4 + 16 + 2), ("Paimon 32", 16 + 2)]
)
def test_offsets_in_errors_are_those_of_the_source(name: str, depth: int) -> None:
    magic, body, _ = VECTORS[name]
    damaged = bytearray(body)
    damaged[depth : depth + 2] = b"\x00\x00"
    cursor = Cursor(b"\x01" + frame(RAW[magic], bytes(damaged)), source="x.bin", base=500)
    cursor.seek(1, "the frame")
    with pytest.raises(NotCanonical) as caught:
        vector.read(cursor).load()
    assert (caught.value.source, caught.value.offset) == ("x.bin", 501 + 8 + depth)


# ------------------------------------------------------------------ the native layout


@each("size", [0, 1, 2, 7, 8, 9, 63, 64, 65, 66, 600])
def test_native_gaps_are_counted_however_many_there_are(size: int) -> None:
    for tail in (0, 1, 8, 70):
        data = NATIVE + native64(*[EMPTY] * size, SOME, *[EMPTY] * tail, SOME)
        found = vector.read_payload(Cursor(data), limits=Limits(max_cardinality=6))
        assert found.view.gaps == size + tail
        assert [key for key, _ in found.view.bitmaps] == [size, size + 1 + tail]
    only = vector.read_payload(Cursor(NATIVE + native64(*[EMPTY] * size)))
    assert (only.view.gaps, only.cardinality) == (size, 0)


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize(
    ("magic", "highest"),
    [(Magic.PAIMON32, 2**31 - 1), (Magic.PORTABLE64, MAX_DV_POSITION)],
)
def test_the_highest_position_of_a_layout_is_written_and_the_next_is_not(magic: Magic, highest: int) -> None:
    data = vector.encode_payload(RowSet([highest]), magic, gap_keys=False)
    assert decode_payload(magic.value + data) == RowSet([highest])
    with pytest.raises(UsageError, match=f"position {highest + 1} "):
        vector.encode_payload(RowSet([5, highest + 1]), magic, gap_keys=False)


def test_a_native_vector_that_would_not_fit_is_refused_before_it_is_built() -> None:
    with pytest.raises(UsageError, match="a native vector up to key 2147483646"):
        vector.encode_payload(RowSet([MAX_DV_POSITION]), Magic.NATIVE64)
    with pytest.raises(UsageError, match=f"position {MAX_DV_POSITION + 1} is above {MAX_DV_POSITION}"):
        vector.encode_payload(RowSet([MAX_DV_POSITION + 1]), Magic.NATIVE64)
    with pytest.raises(UsageError, match="the gap keys below key 2147483646"):
        vector.encode_payload(RowSet([MAX_DV_POSITION]), Magic.PORTABLE64)


positions = st.integers(0, 70_000) | st.integers(2**31 - 3, 2**31 - 1)
wide = positions | st.integers(2**32 - 3, 2**32 + 3) | st.integers(0, 20 << 32)


@given(st.sets(wide, max_size=30))
def test_every_layout_gives_back_what_was_written(values: set[int]) -> None:
    rows = RowSet(values)
    for magic in Magic:
        if magic is Magic.PAIMON32 and max(values, default=0) >= 2**31:
            continue
        for options in ({}, {"run_optimize": False}, {"gap_keys": False}):
            data = vector.encode_payload(rows, magic, **options)
            assert decode_payload(magic.value + data, len(rows)) == rows
            assert decode(frame(magic.value, data), len(rows)) == rows


# ------------------------------------------------------------------ frames


def read_frame(data: bytes, verify_checksum: bool = True) -> tuple[Magic, bytes, int]:
    found = vector.read_frame(Cursor(data), verify_checksum=verify_checksum)
    return found.magic, bytes(found.vector.view), found.crc


def test_peeking_at_the_size_does_not_move() -> None:
    data = frame(PORTABLE, b"vector")
    cursor = Cursor(data + b"rest")
    assert vector.peek_size(cursor) == len(data)
    assert cursor.pos == 0
    with pytest.raises(Truncated) as caught:
        vector.peek_size(Cursor(b"\x00\x00\x00", base=5))
    assert caught.value.offset == 5


def refusal(data: bytes, *, allowed: tuple[Magic, ...] = tuple(Magic)) -> DecodeError:
    cursor = Cursor(b"?" * 7 + data, source="x.bin", base=100)
    cursor.seek(7, "the frame")
    with pytest.raises(DecodeError) as caught:
        vector.read_frame(cursor, allowed=allowed)
    assert caught.value.source == "x.bin"
    return caught.value


def test_the_crc_is_skipped_only_on_demand() -> None:
    data = frame(PORTABLE, b"vector", crc=1)
    assert read_frame(data, verify_checksum=False) == (Magic.PORTABLE64, b"vector", 1)
    with pytest.raises(ChecksumMismatch):
        read_frame(data)


def test_a_frame_that_is_cut_says_what_is_left() -> None:
    for size, left in ((6, 0), (8, 0), (11, 3)):
        assert refusal(frame(b"what", b"vector")[:size]).expected == f"at most {left} (bytes left for magic and bitmap)"


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (frame(b"what", b"v", length=99, crc=1), Truncated, "length field"),
        (frame(b"what", b"v", length=4, crc=1), NotCanonical, "length field"),
        (frame(b"what", b"v", crc=1), ChecksumMismatch, "CRC-32 of magic and bitmap"),
        (frame(b"what", b"v"), BadMagic, "magic"),
    ],
)
def test_length_is_checked_before_crc_before_magic(data: bytes, kind: type[DecodeError], what: str) -> None:
    error = refusal(data)
    assert (type(error), error.what) == (kind, what)


class Huge(bytes):
    """Bytes that claim a length of their own."""

    size = 0

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("size", "fits"), [(MAX_FRAME - FRAME_OVERHEAD, True), (MAX_FRAME - FRAME_OVERHEAD + 1, False)]
)
def test_a_frame_holds_no_more_than_a_signed_32_bit_size(size: int, fits: bool) -> None:
    body = Huge()
    body.size = size
    if fits:
        assert vector.build(Magic.PORTABLE64, body)[:4] == struct.pack(">I", size + 4)
    else:
        with pytest.raises(UsageError, match=f"{size + FRAME_OVERHEAD} bytes, more than the {MAX_FRAME}"):
            vector.build(Magic.PORTABLE64, body)


STORED = StoredFrame("a", 1, b"")


def test_frames_are_checked_one_by_one() -> None:
    given: list[Any] = [STORED, STORED._replace(data_file=None), 5]
    frames = checked_frames(iter(given))
    assert [next(frames), next(frames)] == given[:2]
    with pytest.raises(UsageError, match=r"^an item of vectors must be a StoredFrame, not int$"):
        next(frames)


# ------------------------------------------------------------------ arguments


ROWS = RowSet([1])


def test_rows() -> None:
    check_rows(ROWS)
    with pytest.raises(
        UsageError, match=r"^deleted must be a RowSet \(dvcodec\.RowSet\(positions\) makes one\), not set$"
    ):
        check_rows({1}, "deleted")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (None, "vectors must be a mapping of data files to row sets, not None"),
        ([("a", ROWS)], "vectors must be a mapping of data files to row sets, not list"),
        ({b"a": ROWS}, "the data file of a vector must be a str, not bytes"),
        ({"a": ROWS, "b": [1]}, r"vectors\['b'\] must be a RowSet \(.*\), not list"),
    ],
)
def test_other_vectors_are_refused(vectors: Any, message: str) -> None:
    with pytest.raises(UsageError, match=rf"^{message}$"):
        check_vectors(vectors)
