from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import AbstractBitMap, BitMap, BitMap64

from battery import check_buffers, check_truncations
from cases import each
from dvcodec import RowSet
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import Limits
from dvcodec.core.roaring import MAX_DV_KEY, pieces_of, walk64
from samples.bitmaps import EMPTY, array, bitmap, gaps, runs, small_bitmaps, vector64

SOME = bitmap(array(0, [1, 5, 9]))
PREFIX = 7
BASE = 1000

Positions = Mapping[int, AbstractBitMap]


def decode(data: BytesLike, max_key: int = MAX_DV_KEY) -> Positions:
    """Decode a vector that fills the bytes."""
    cursor = Cursor(data)
    found = walk64(cursor, max_key=max_key).load()
    cursor.expect_end("the vector")
    return found


def encode(rows: Positions, *, run_optimize: bool = True, **options: Any) -> bytes:
    return b"".join(pieces_of(RowSet.from_bitmaps(rows).serialized(run_optimize=run_optimize), **options))


def refusal(data: bytes, offset: int, *, limits: Limits | None = None) -> DecodeError:
    """Walk; return what was wrong, which must stand at that offset of `data`."""
    cursor = Cursor(b"?" * PREFIX + data, source="x.bin", base=BASE)
    cursor.seek(PREFIX, "the vector")
    with pytest.raises(DecodeError) as caught:
        walk64(cursor, limits=limits or Limits()).check()
    error = caught.value
    assert error.source == "x.bin"
    assert error.offset == BASE + PREFIX + offset
    return error


def pyroaring_reads(data: bytes) -> BitMap64 | None:
    try:
        return BitMap64.deserialize(data)
    except (ValueError, IndexError):
        return None


# ------------------------------------------------------------------ hazard 16: count and keys


@pytest.mark.parametrize("count", [3, 4, 1000, 2**31, 2**32 - 1])
def test_hazard_count_larger_than_the_bytes_can_hold(count: int) -> None:
    data = vector64((0, SOME), (1, EMPTY), count=count)
    error = refusal(data, 0) if count > 3 else refusal(data, len(data))
    assert type(error) is Truncated
    if count > 3:
        assert error.expected == f"at most {(len(data) - 8) // 12} in {len(data) - 8} bytes"
        assert error.actual == count


@each("key", [0, 3, 4])
@each("content", [SOME, EMPTY], ids=["rows", "gap"])
def test_hazard_keys_descending_or_duplicate(key: int, content: bytes) -> None:
    error = refusal(vector64((4, SOME), (key, content)), 8 + 4 + len(SOME))
    assert type(error) is NotCanonical
    assert error.what == "bitmap keys not strictly ascending"
    assert (error.expected, error.actual) == ("a key above 4", key)


@pytest.mark.parametrize("lead", [0, 1])
def test_a_wrong_key_anywhere_in_a_stretch_of_gaps_is_found(lead: int) -> None:
    for wrong in [0, 1, 2, 15, 16, 17, 143, 144, 145, 1167, 1168, 2000]:
        keys = list(range(1, 2002))
        if wrong:
            keys[wrong] = keys[wrong - 1]
        else:
            keys[0] = 0 if lead else 2**31 - 1
        buckets = vector64((0, SOME), count=len(keys) + 1) if lead else struct.pack("<Q", len(keys))
        error = refusal(buckets + gaps(keys), len(buckets) + 12 * wrong)
        assert type(error) is NotCanonical
        if wrong or lead:
            assert error.what == "bitmap keys not strictly ascending"
            assert error.actual == keys[wrong]
        else:
            assert error.what == "bitmap key"


# ------------------------------------------------------------------ faults inside a bitmap


VECTORS: dict[str, bytes] = {
    "empty": vector64(),
    "one gap": vector64((0, EMPTY)),
    "one bitmap": vector64((0, SOME)),
    "gaps before and after": vector64((0, EMPTY), (1, EMPTY), (2, SOME), (3, EMPTY)),
    "sparse keys": vector64((5, SOME), (70000, bitmap(runs(0, [(0, 65536)]))), (0x7FFFFFFE, SOME)),
    **{name: vector64((1, data)) for name, data in small_bitmaps().items()},
}


@each("name", VECTORS)
def test_valid_vectors_are_read_as_pyroaring_reads_them(name: str) -> None:
    data = VECTORS[name]
    expected = {key << 32 | low for key, rows in decode(data).items() for low in rows}
    assert BitMap64(expected) == pyroaring_reads(data)
    check_truncations(decode, data)
    check_buffers(decode, data)


# ------------------------------------------------------------------ limits


def test_rows_are_limited_over_all_bitmaps() -> None:
    data = vector64((1, SOME), (2, SOME))
    assert walk64(Cursor(data), limits=Limits(max_cardinality=6)).cardinality == 6
    error = refusal(data, 8 + 4 + len(SOME), limits=Limits(max_cardinality=5))
    assert type(error) is LimitExceeded
    assert (error.what, error.expected, error.actual) == (
        "Limits.max_cardinality",
        "at most 5 (Limits(max_cardinality=...) raises it)",
        6,
    )


# ------------------------------------------------------------------ writing


def test_java_writes_every_key_up_to_the_highest() -> None:
    rows = {2: BitMap([1, 5, 9]), 4: BitMap([7])}
    other = bitmap(array(0, [7]))
    dense = vector64((0, EMPTY), (1, EMPTY), (2, SOME), (3, EMPTY), (4, other))
    sparse = vector64((2, SOME), (4, other))
    assert encode(rows) == dense
    assert encode(rows, gap_keys=False) == sparse
    assert decode(dense) == decode(sparse) == rows


def test_a_vector_larger_than_it_may_be_is_not_written() -> None:
    rows = {0: BitMap([1, 5, 9])}
    size = len(encode(rows))
    assert len(encode(rows, max_size=size)) == size
    with pytest.raises(UsageError, match=f"would have {size} bytes, more than the {size - 1} that fit$"):
        encode(rows, max_size=size - 1)


@given(st.dictionaries(st.integers(0, 40), st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=5), max_size=6))
def test_what_is_written_is_read_back(rows: dict[int, set[int]]) -> None:
    bitmaps = {key: BitMap(rows[key]) for key in sorted(rows)}
    for gap_keys in (True, False):
        data = encode(bitmaps, gap_keys=gap_keys)
        assert decode(data) == bitmaps
        assert pyroaring_reads(data) == BitMap64(key << 32 | low for key, lows in rows.items() for low in lows)
        assert walk64(Cursor(data)).gaps == (max(rows, default=-1) + 1 - len(rows) if gap_keys else 0)
