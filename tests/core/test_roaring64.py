from __future__ import annotations

import random
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import AbstractBitMap, BitMap, BitMap64

from battery import answers_limited, check_buffers, check_truncations, outcome, run_limited
from cases import each
from core.test_roaring import mutate
from dvcodec import RowSet
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, DecodeError, LimitExceeded, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import Limits
from dvcodec.core.roaring64 import MAX_DV_KEY, MAX_DV_POSITION, MAX_KEY, VectorView, encoded_size, pieces_of, walk64
from samples.bitmaps import EMPTY, array, bitmap, bitset, gaps, runs, small_bitmaps, vector64

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


def test_bounds_are_those_of_java() -> None:
    assert MAX_DV_KEY == 0x7FFFFFFE
    assert MAX_DV_POSITION == 0x7FFFFFFE_80000000
    assert MAX_KEY == 0xFFFFFFFF


# ------------------------------------------------------------------ hazard 16: count and keys


@pytest.mark.parametrize("count", [2**32, 2**32 + 1, 2**63, 2**64 - 1])
def test_hazard_count_above_2_to_the_32(count: int) -> None:
    error = refusal(vector64((0, SOME), count=count), 0)
    assert type(error) is NotCanonical
    assert (error.what, error.expected, error.actual) == ("bitmap count", f"at most {2**32 - 1}", count)


@pytest.mark.parametrize("count", [3, 4, 1000, 2**31, 2**32 - 1])
def test_hazard_count_larger_than_the_bytes_can_hold(count: int) -> None:
    data = vector64((0, SOME), (1, EMPTY), count=count)
    error = refusal(data, 0) if count > 3 else refusal(data, len(data))
    assert type(error) is Truncated
    if count > 3:
        assert error.expected == f"at most {(len(data) - 8) // 12} in {len(data) - 8} bytes"
        assert error.actual == count


def test_hazard_count_smaller_than_present_leaves_trailing_bytes() -> None:
    data = vector64((0, SOME), (1, SOME), count=1)
    with pytest.raises(NotCanonical) as caught:
        decode(data)
    assert caught.value.what == "bytes after the end of the vector"
    assert (caught.value.offset, caught.value.actual) == (8 + 4 + len(SOME), str(4 + len(SOME)))
    assert pyroaring_reads(data) == BitMap64([1, 5, 9])


def test_hazard_count_zero_with_bitmaps_present() -> None:
    with pytest.raises(NotCanonical, match="bytes after the end of the vector"):
        decode(vector64((0, SOME), count=0))


@pytest.mark.parametrize("tail", [b"\x00", b"\xff" * 11, bytes(1000)])
def test_hazard_trailing_bytes(tail: bytes) -> None:
    data = vector64((0, SOME), (3, SOME))
    with pytest.raises(NotCanonical) as caught:
        decode(data + tail)
    assert (caught.value.offset, caught.value.actual) == (len(data), str(len(tail)))
    assert pyroaring_reads(data + tail) is not None


@each("key", [0, 3, 4])
@each("content", [SOME, EMPTY], ids=["rows", "gap"])
def test_hazard_keys_descending_or_duplicate(key: int, content: bytes) -> None:
    error = refusal(vector64((4, SOME), (key, content)), 8 + 4 + len(SOME))
    assert type(error) is NotCanonical
    assert error.what == "bitmap keys not strictly ascending"
    assert (error.expected, error.actual) == ("a key above 4", key)


@each("key", [2**31 - 1, 2**31, 2**32 - 1])
@each("content", [SOME, EMPTY], ids=["rows", "gap"])
def test_hazard_key_above_those_of_deletion_vectors(key: int, content: bytes) -> None:
    data = vector64((4, SOME), (key, content))
    error = refusal(data, 8 + 4 + len(SOME))
    assert type(error) is NotCanonical
    assert (error.what, error.expected, error.actual) == ("bitmap key", "at most 0x7ffffffe", f"{key:#x}")
    assert pyroaring_reads(data) is not None
    assert list(decode(data, max_key=MAX_KEY)) == ([4, key] if content == SOME else [4])


def test_the_highest_key_of_a_deletion_vector_is_read() -> None:
    assert decode(vector64((0x7FFFFFFE, SOME))) == {0x7FFFFFFE: BitMap([1, 5, 9])}


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


def test_a_key_out_of_range_within_a_stretch_of_gaps_is_found() -> None:
    keys = [*range(50), 2**31 - 1, 2**31]
    error = refusal(struct.pack("<Q", len(keys)) + gaps(keys), 8 + 12 * 50)
    assert (error.what, error.actual) == ("bitmap key", "0x7fffffff")


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_gaps_that_follow_in_the_buffer_but_not_in_the_window_are_not_read() -> None:
    output = run_limited(
        """
        data = bitmaps.vector64((0, bitmaps.bitmap(bitmaps.array(0, [1, 5, 9]))), count=2)
        cursor = Cursor(data + bitmaps.gaps([1]))
        try:
            with cursor.restrict_to(len(data) + 4, "the vector"):
                roaring64.walk64(cursor)
        except DecodeError as error:
            print(error)
        """,
        megabytes=50,
    )
    assert output == f"at byte {8 + 4 + len(SOME) + 4}: roaring cookie: expected 4 bytes, found 0 left\n"


# ------------------------------------------------------------------ faults inside a bitmap


def test_an_error_inside_a_bitmap_gives_the_offset_in_the_source() -> None:
    head = vector64((0, SOME), (1, EMPTY), count=3) + struct.pack("<I", 2)
    assert type(refusal(head + bytes(100), len(head))) is BadMagic
    unsorted = bitmap(array(0, [9, 3]))
    error = refusal(head + unsorted, len(head) + 16 + 2)
    assert (error.expected, error.actual) == ("a value above 9", 3)


@pytest.mark.parametrize("key", [0, 2])
def test_unsorted_values_are_refused_by_check_and_by_load(key: int) -> None:
    view = walk64(Cursor(vector64((key, bitmap(array(0, [5, 5]))))))
    for refuse in (view.check, view.load):
        with pytest.raises(NotCanonical, match="not strictly ascending"):
            refuse()


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


def test_a_view_says_what_is_in_a_vector_without_expanding_it() -> None:
    data = vector64(
        (0, EMPTY), (1, bitmap(runs(3, [(7, 100)]))), (5, EMPTY), (9, bitmap(array(0, [4]), bitset(9, range(5000))))
    )
    view = walk64(Cursor(data))
    assert [key for key, _ in view.bitmaps] == [1, 9]
    assert view.gaps == 2
    assert view.cardinality == 100 + 1 + 5000
    assert view.min == 1 << 32 | 3 << 16 | 7
    assert view.max == 9 << 32 | 9 << 16 | 4999
    assert view.mix == ContainerMix(arrays=1, bitsets=1, runs=1)
    assert bytes(view.data) == data
    empty = walk64(Cursor(VECTORS["one gap"]))
    assert (empty.cardinality, empty.min, empty.max, empty.mix, empty.gaps) == (0, None, None, ContainerMix(), 1)


def test_a_position_of_0_is_a_minimum() -> None:
    view = walk64(Cursor(vector64((0, bitmap(array(0, [0]))))))
    assert (view.min, view.max) == (0, 0)


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


@pytest.mark.parametrize("gap_keys", [True, False])
def test_no_rows_are_eight_zero_bytes(gap_keys: bool) -> None:
    assert encode({}, gap_keys=gap_keys) == bytes(8)
    assert encoded_size({}, gap_keys) == 8


@each("gap_keys", [True, False])
@each("keys", [[0], [0, 1], [3], [1, 7, 2000]])
def test_the_size_is_known_before_encoding(keys: list[int], gap_keys: bool) -> None:
    rows = {key: BitMap([key]) for key in keys}
    parts = {key: bitmap(array(0, [key])) for key in keys}
    assert encoded_size({key: len(data) for key, data in parts.items()}, gap_keys) == len(
        encode(rows, gap_keys=gap_keys)
    )


def test_run_optimize_reaches_every_bitmap() -> None:
    rows = {0: BitMap(range(100)), 1: BitMap(range(200))}
    assert encode(rows) == vector64((0, bitmap(runs(0, [(0, 100)]))), (1, bitmap(runs(0, [(0, 200)]))))
    assert encode(rows, run_optimize=False) == vector64(
        (0, bitmap(array(0, range(100)))), (1, bitmap(array(0, range(200))))
    )


def test_a_vector_larger_than_it_may_be_is_not_written() -> None:
    rows = {0: BitMap([1, 5, 9])}
    size = len(encode(rows))
    assert len(encode(rows, max_size=size)) == size
    with pytest.raises(UsageError, match=f"would have {size} bytes, more than the {size - 1} that fit$"):
        encode(rows, max_size=size - 1)


def test_the_refusal_says_when_gap_keys_are_to_blame() -> None:
    rows = {0x7FFFFFFE: BitMap([1, 5, 9])}
    with pytest.raises(UsageError, match="the gap keys below key 2147483646 take most of it, gap_keys=False"):
        encode(rows)
    assert encode(rows, gap_keys=False) == vector64((0x7FFFFFFE, SOME))


@given(st.dictionaries(st.integers(0, 40), st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=5), max_size=6))
def test_what_is_written_is_read_back(rows: dict[int, set[int]]) -> None:
    bitmaps = {key: BitMap(rows[key]) for key in sorted(rows)}
    for gap_keys in (True, False):
        data = encode(bitmaps, gap_keys=gap_keys)
        assert decode(data) == bitmaps
        assert pyroaring_reads(data) == BitMap64(key << 32 | low for key, lows in rows.items() for low in lows)
        assert walk64(Cursor(data)).gaps == (max(rows, default=-1) + 1 - len(rows) if gap_keys else 0)


# ------------------------------------------------------------------ real files


def positions(rows: Positions) -> set[int]:
    return {key << 32 | low for key, lows in rows.items() for low in lows}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("64mapempty", set()),
        ("64map32bitvals", set(range(10))),
        ("64mapspreadvals", {high << 32 | low for high in range(10) for low in range(10)}),
        (
            "64maphighvals",
            {high << 32 | low for high in range(2**32 - 11, 2**32) for low in range(2**32 - 11, 2**32)},
        ),
    ],
)
def test_croarings_maps_hold_what_its_tests_say(vectors: Path, name: str, expected: set[int]) -> None:
    data = (vectors / "roaring" / "croaring" / f"{name}.bin").read_bytes()
    theirs = pyroaring_reads(data)
    assert theirs is not None
    assert positions(decode(data, max_key=MAX_KEY)) == set(theirs) == expected


def test_croarings_high_keys_are_no_deletion_vector(vectors: Path) -> None:
    with pytest.raises(NotCanonical, match="bitmap key"):
        decode((vectors / "roaring" / "croaring" / "64maphighvals.bin").read_bytes())


@pytest.mark.parametrize("name", ["64mapemptyinput", "64mapinvalidsize", "64mapkeytoosmall", "64mapsizetoosmall"])
def test_croarings_broken_maps_are_refused(vectors: Path, name: str) -> None:
    with pytest.raises(DecodeError):
        decode((vectors / "roaring" / "croaring" / f"{name}.bin").read_bytes(), max_key=MAX_KEY)


def test_the_specifications_64_bit_sample_holds_what_it_says(vectors: Path) -> None:
    data = (vectors / "roaring" / "format-spec" / "bitmap64.bin").read_bytes()
    rows = decode(data)
    assert rows == {0: BitMap(range(0, 65536, 2)), 1: BitMap(range(1_000_000)), 65536: BitMap([0])}
    assert [view.mix for _, view in walk64(Cursor(data)).bitmaps] == [
        ContainerMix(bitsets=1),
        ContainerMix(runs=16),
        ContainerMix(arrays=1),
    ]
    assert encode(rows, gap_keys=False) == data


def test_the_specifications_portable_sample_holds_what_it_says(vectors: Path) -> None:
    data = (vectors / "roaring" / "format-spec" / "portable_bitmap64.bin").read_bytes()
    rows = decode(data)
    half = BitMap(range(0x9001)) | BitMap(range(0xA000, 0x10001)) | BitMap([0x20000, 0x20005])
    half |= BitMap(range(0x80000, 0x90000, 2))
    assert rows == {0: half, 1: half}
    assert sum(map(len, rows.values())) == 188_424
    assert encode(rows, gap_keys=False) == data


# ------------------------------------------------------------------ any bytes whatever


def agree_with_pyroaring(data: bytes) -> bool:
    """Whether the bytes are accepted; if so, pyroaring has to read the same rows."""

    def checked(body: bytes) -> VectorView:
        view = walk64(Cursor(body), max_key=MAX_KEY)
        view.check()
        return view

    view = outcome(checked, data)
    if isinstance(view, DecodeError):
        return False
    theirs = BitMap64.deserialize(data)
    assert view.cardinality == len(theirs)
    assert positions(view.load()) == set(theirs)
    assert (view.min, view.max) == ((theirs.min(), theirs.max()) if theirs else (None, None))
    return True


def test_damaged_vectors_are_accepted_only_where_pyroaring_reads_the_same() -> None:
    rng = random.Random(7)
    small = [data for data in VECTORS.values() if walk64(Cursor(data)).cardinality < 100]
    accepted = sum(agree_with_pyroaring(mutate(rng.choice(small), rng)) for _ in range(8000))
    assert 200 < accepted < 7000


@given(st.binary(max_size=120), st.integers(0, 4))
def test_any_bytes_end_in_a_vector_or_a_decode_error(data: bytes, count: int) -> None:
    outcome(decode, data)
    outcome(decode, struct.pack("<Q", count) + data)
    outcome(decode, struct.pack("<QI", count, 0) + EMPTY + data)


# ------------------------------------------------------------------ hazard 18: bombs


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_hazard_bombs_are_answered_in_little_memory() -> None:
    bombs = [
        ("bitmaps.vector64((0x7ffffffe, bitmaps.bitmap(bitmaps.array(0, [1]))))", "1 rows, 0 gaps"),
        ("bitmaps.vector64((0, bitmaps.EMPTY), count=2**63) + bytes(60)", "NotCanonical"),
        ("bitmaps.vector64((0, bitmaps.EMPTY), count=2**32 - 1) + bytes(60)", "Truncated"),
        ("np.uint64(3_000_000).tobytes() + bitmaps.gaps(range(3_000_000))", "0 rows, 3000000 gaps"),
        ("np.uint64(3_000_000).tobytes() + bitmaps.gaps([*range(2_999_999), 0])", "NotCanonical"),
        (
            "bitmaps.vector64(*((k, bitmaps.bitmap(bitmaps.runs(0, [(0, 65536)]))) for k in range(4096)))",
            "268435456 rows, 0 gaps",
        ),
        ("bitmaps.vector64(*((k, bitmaps.bitmap(bitmaps.array(0, [1]))) for k in range(5_000)))", "5000 rows, 0 gaps"),
        ("(b'\\x3a\\x30\\x00\\x00\\x00\\x00\\x01\\x00')[::-1] * 100_000", "NotCanonical"),
    ]
    call = """
        view = roaring64.walk64(Cursor(bomb))
        view.check()
        rows = view.load()
        print(sum(map(len, rows.values())), "rows,", view.gaps, "gaps")
    """
    assert answers_limited((f"bomb = {bomb}", call) for bomb, _ in bombs) == [answer for _, answer in bombs]


def test_gap_keys_are_written_without_a_loop_over_them() -> None:
    data = encode({1_000_000: BitMap([1, 5, 9])})
    assert data == struct.pack("<Q", 1_000_001) + gaps(np.arange(1_000_000)) + struct.pack("<I", 1_000_000) + SOME
    assert decode(data) == {1_000_000: BitMap([1, 5, 9])}
