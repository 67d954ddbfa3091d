from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all
from cases import each
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import (
    NotCanonical,
    UsageError,
)
from dvcodec.core.limits import Limits
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Magic
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


VECTORS: dict[str, tuple[Magic, bytes, RowSet]] = {
    "portable, empty": (Magic.PORTABLE64, vector64(), RowSet()),
    "portable": (Magic.PORTABLE64, vector64((0, SOME)), TAKEN),
    "portable with a gap": (
        Magic.PORTABLE64,
        vector64((0, EMPTY), (1, SOME)),
        RowSet([2**32 + 1, 2**32 + 5, 2**32 + 9]),
    ),
    "portable run": (
        Magic.PORTABLE64,
        vector64((0, bitmap(runs(0, [(7, 90)])))),
        RowSet.from_ranges([(7, 97)]),
    ),
    "native, empty": (Magic.NATIVE64, native64(), RowSet()),
    "native": (Magic.NATIVE64, native64(SOME), TAKEN),
    "native with gaps": (
        Magic.NATIVE64,
        native64(EMPTY, EMPTY, bitmap(array(0, [7]), runs(1, [(0, 100)]))),
        RowSet([2**33 + 7]) | RowSet.from_ranges([(2**33 + 2**16, 2**33 + 2**16 + 100)]),
    ),
    "Paimon 32, empty": (Magic.PAIMON32, EMPTY, RowSet()),
    "Paimon 32": (Magic.PAIMON32, SOME, TAKEN),
    "Paimon 32 run": (Magic.PAIMON32, bitmap(runs(0, [(7, 90)])), RowSet.from_ranges([(7, 97)])),
}
vectors_of_each_magic = pytest.mark.parametrize(("magic", "body", "rows"), VECTORS.values(), ids=VECTORS)


@vectors_of_each_magic
def test_frames_of_every_magic_pass_the_battery(magic: Magic, body: bytes, rows: RowSet) -> None:
    data = frame(RAW[magic], body)
    assert decode(data) == rows
    check_all(decode, data)


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
