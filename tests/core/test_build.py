from __future__ import annotations

import itertools
from array import array as typed_array
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from battery import name_of
from core.crafting import array, bitmap, bitset, runs
from dvcodec.core import build
from dvcodec.core.bitmap import ContainerKind, ContainerMix
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import UsageError
from dvcodec.core.roaring import serialize, walk

INT_DTYPES = ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"]
ARROW_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def generated(values: Iterable[int]) -> Iterable[int]:
    yield from values


FORMS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": generated,
    "iterator": iter,
    "list of NumPy ints": lambda values: [np.int64(value) for value in values],
    "array of ints": lambda values: typed_array("i", values),
    "pandas Series": pd.Series,
    "pandas Index": pd.Index,
    "polars Series": pl.Series,
    "Arrow array": pa.array,
    "sliced Arrow array": lambda values: pa.array([99, *values, 99])[1:-1],
    "Arrow chunked array": lambda values: pa.chunked_array([values[:1], [], values[1:]], type=pa.int64()),
    "strided NumPy array": lambda values: np.repeat(values, 2)[::2],
    **{f"NumPy {dtype}": partial(np.array, dtype=dtype) for dtype in INT_DTYPES},
    **{f"Arrow {kind}": partial(pa.array, type=kind) for kind in ARROW_TYPES},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_integers_becomes_a_flat_uint64_array(form: Callable[[list[int]], Any]) -> None:
    values = [3, 0, 127, 3]
    found = build.as_positions(form(values))
    assert found.dtype == np.uint64
    assert found.tolist() == values


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        (),
        iter([]),
        range(0),
        np.zeros(0),
        np.zeros(0, np.int64),
        np.zeros(0, object),
        pa.array([], pa.int64()),
        pa.chunked_array([], pa.int64()),
        pl.Series([], dtype=pl.Int64),
    ],
    ids=lambda nothing: type(nothing).__name__,
)
def test_nothing_is_no_positions(nothing: Any) -> None:
    found = build.as_positions(nothing)
    assert found.dtype == np.uint64
    assert len(found) == 0


@pytest.mark.parametrize("top", [2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_positions_use_all_64_bits(top: int) -> None:
    assert build.as_positions([top]).tolist() == [top]
    assert build.as_positions(np.array([top], np.uint64)).tolist() == [top]
    assert build.as_positions(pa.array([top], pa.uint64())).tolist() == [top]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([-1], "negative or above 2\\*\\*64 - 1"),
        ([2**64], "negative or above 2\\*\\*64 - 1"),
        ([2**70], "negative or above 2\\*\\*64 - 1"),
        (range(-3, 3), "negative or above 2\\*\\*64 - 1"),
        (np.array([5, -7]), "position -7 is negative"),
        (np.array([-1], np.int8), "position -1 is negative"),
        (pa.array([3, -2]), "position -2 is negative"),
        ([1.0], "positions must be integers"),
        ([1, "2"], "positions must be integers"),
        ([None], "positions must be integers"),
        ("12", "positions must be integers"),
        (None, "positions must be integers"),
        (5, "positions must be integers"),
        (typed_array("d", [1.0]), "positions must be integers"),
        (pd.Series([1.0, 2.0]), "positions must be integers"),
        (pl.Series([1, None]), "positions must be integers"),
        (pl.Series([1.5]), "positions must be integers"),
        (np.array([1.0]), "flat array of integers, got float64"),
        (np.array([True]), "for booleans see RowSet.from_mask"),
        (np.array([1], object), "flat array of integers, got object"),
        (np.array([1], "m8[s]"), "flat array of integers"),
        (np.array([[1, 2]]), "flat array of integers"),
        (np.array(1), "flat array of integers"),
        (pa.array([1.5]), "flat array of integers, got float64"),
        (pa.array([True]), "for booleans see RowSet.from_mask"),
        (pa.array(["a"]), "flat array of integers, got object"),
        (pa.array([1, None, None]), "positions hold 2 nulls"),
        (pa.chunked_array([[1], [None]]), "positions hold 1 nulls"),
        (b"\x01\x02\x03", "not bytes"),
        (bytes(8), "not bytes"),
        (bytearray(8), "not bytes"),
        (memoryview(bytes(8)), "not bytes"),
        (np.ma.masked_equal([1, 2, 3], 2), "positions are masked"),
    ],
    ids=name_of,
)
def test_what_is_no_row_position_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build.as_positions(wrong)


def test_a_masked_array_without_a_masked_value_is_an_array() -> None:
    assert build.as_positions(np.ma.masked_equal([1, 2, 3], 9)).tolist() == [1, 2, 3]


def test_uint64_arrays_are_not_copied() -> None:
    values = np.arange(5, dtype=np.uint64)
    assert build.as_positions(values) is values


# ------------------------------------------------------------------ canonical


def joined(found: build.Canonical) -> dict[int, bytes]:
    return {key: b"".join(pieces) for key, pieces in found.parts.items()}


wide = st.lists(st.integers(0, 2**64 - 1) | st.integers(2**32 - 5, 2**32 + 5), min_size=1, max_size=50)


@given(wide)
def test_there_is_one_bitmap_per_high_half(values: list[int]) -> None:
    found = build.canonical(np.array(values, np.uint64))
    expected: dict[int, set[int]] = {}
    for value in values:
        expected.setdefault(value >> 32, set()).add(value & 0xFFFFFFFF)
    assert list(found.parts) == sorted(expected)
    assert {key: set(rows) for key, rows in found.load().items()} == expected
    assert (found.cardinality, found.low, found.high) == (len(set(values)), min(values), max(values))


@pytest.mark.parametrize("values", [[5, 3, 2**40, 3], [5, 3, 3, 4]])
def test_the_array_is_left_as_it_is(values: list[int]) -> None:
    given = np.array(values, np.uint64)
    build.canonical(given)
    assert given.tolist() == values


@st.composite
def blocks_of_values(draw: st.DrawFn) -> list[int]:
    """Values in a few blocks, each scattered, dense, in runs, full, or in pairs and triples, where forms are tied."""
    values: list[int] = []
    for block in draw(st.sets(st.integers(0, 9) | st.integers(60000, 65535), min_size=1, max_size=5)):
        chance = np.random.default_rng(draw(st.integers(0, 2**32)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            low = chance.integers(0, 1 << 16, draw(st.integers(1, 5000)))
        elif kind == 1:
            low = np.flatnonzero(chance.random(1 << 16) < draw(st.floats(0.05, 0.99)))
        elif kind == 2:
            starts = chance.integers(0, 60000, draw(st.integers(1, 30)))
            low = np.concatenate([np.arange(start, start + chance.integers(1, 5000)) for start in starts])
        elif kind == 3:
            low = np.arange(1 << 16)
        else:
            starts = chance.integers(0, 65000, draw(st.integers(1, 2500)))
            low = np.concatenate([starts + i for i in range(draw(st.integers(2, 4)))])
        values += (low + (block << 16)).tolist()
    return draw(st.sampled_from([values, sorted(set(values))]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(blocks_of_values(), st.sampled_from([0, 7]))
def test_the_form_is_the_one_that_depends_on_the_values_alone(values: list[int], key: int) -> None:
    bitmap = BitMap(values)
    found = build.canonical(np.array(values, np.uint64) + np.uint64(key << 32))
    assert joined(found) == {key: serialize(bitmap)}
    assert build.from_sorted(np.array(bitmap, np.uint32)).serialize() == serialize(bitmap, run_optimize=False)


def test_values_of_more_pieces_than_one_are_cut_between_containers() -> None:
    values = np.flatnonzero(np.random.default_rng(1).random(1 << 20) < 0.6).astype(np.uint64)
    assert len(values) > 2 * build._PIECE
    assert joined(build.canonical(values)) == {0: serialize(BitMap(values.tolist()))}
    full = np.arange(5 << 18, dtype=np.uint64)
    assert joined(build.canonical(full)) == {0: serialize(BitMap(range(5 << 18)))}


@pytest.mark.parametrize("start", [0, 3, 2**32 - 50, 2**63, 2**64 - 100])
@pytest.mark.parametrize("step", [1, 15, 100])
def test_values_in_any_order_are_sorted(start: int, step: int) -> None:
    ordered = [value for value in range(start, start + 100 * step, step) if value < 2**64]
    mixed = np.random.default_rng(1).permutation(np.array([*ordered, *ordered[:3]], np.uint64))
    assert build._sorted(mixed).tolist() == ordered


# ------------------------------------------------------------------ ranges

pairs = st.tuples(st.integers(0, 300_000), st.integers(0, 70_000)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(pairs, max_size=20))
def test_merging_keeps_the_positions_and_leaves_no_ranges_that_touch(ranges: list[tuple[int, int]]) -> None:
    ranges = sorted(pair for pair in ranges if pair[0] < pair[1])
    merged = build.merge_touching(np.array(ranges, np.int64).reshape(-1, 2)).tolist()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(merged))
    covered = BitMap()
    for start, stop in merged:
        covered.add_range(start, stop)
    expected = BitMap()
    for start, stop in ranges:
        expected.add_range(start, stop)
    assert covered == expected


@pytest.mark.parametrize(
    ("ranges", "merged"),
    [
        ([(0, 5), (5, 9)], [[0, 9]]),
        ([(0, 5), (6, 9)], [[0, 5], [6, 9]]),
        ([(0, 100), (5, 9), (50, 60), (100, 101)], [[0, 101]]),
        ([], []),
    ],
)
def test_ranges_that_touch_or_nest_are_merged(ranges: list[tuple[int, int]], merged: list[list[int]]) -> None:
    assert build.merge_touching(np.array(ranges, np.int64).reshape(-1, 2)).tolist() == merged


RANGES = [
    [(0, 1)],
    [(0, 2**16)],
    [(2**16 - 1, 2**16 + 1)],
    [(5, 6), (7, 9), (65530, 65536), (65537, 65538)],
    [(100, 5 * 2**16 + 7)],
    [(start, start + 1) for start in range(0, 20 * 2**16, 2**16 + 3)],
    [(2**32 - 3, 2**32 + 3)],
    [(2**31 - 1, 2**31 + 1), (2**32 + 2**31, 2**33 + 2**20)],
    [(2**63 - 70000, 2**63 - 1)],
]


@pytest.mark.parametrize("ranges", RANGES, ids=repr)
def test_ranges_become_run_containers_with_the_same_positions(ranges: list[tuple[int, int]]) -> None:
    found = build.from_ranges(np.array(ranges, np.int64))
    by_position: dict[int, BitMap] = {}
    for start, stop in ranges:
        for key in range(start >> 32, (stop - 1 >> 32) + 1):
            low, high = max(start - (key << 32), 0), min(stop - (key << 32), 2**32)
            by_position.setdefault(key, BitMap()).add_range(low, high)
    assert found == by_position
    assert list(found) == sorted(found)
    for rows in found.values():
        mix = walk(Cursor(rows.serialize())).mix
        assert mix == ContainerMix(runs=mix.runs)


def test_no_ranges_are_no_bitmaps() -> None:
    assert build.from_ranges(np.zeros((0, 2), np.int64)) == {}


def test_ranges_over_too_many_containers_are_refused() -> None:
    with pytest.raises(UsageError, match=r"span 16777217 blocks of 65,536 rows, more than the 16777216 allowed"):
        build.from_ranges(np.array([[0, 2**40 + 1]], np.int64))


# ------------------------------------------------------------------ ascending values


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([], bitmap()),
        ([1, 2, 3], bitmap(array(0, [1, 2, 3]))),
        (range(4096), bitmap(array(0, range(4096)))),
        (range(4097), bitmap(bitset(0, range(4097)))),
        ([0, 2**32 - 1], bitmap(array(0, [0]), array(65535, [65535]))),
    ],
)
def test_ascending_values_become_arrays_and_bitsets_never_runs(values: Iterable[int], form: bytes) -> None:
    assert build.from_sorted(np.array(list(values), np.uint32)).serialize() == form


def test_strided_and_big_endian_values_are_read_right() -> None:
    values = np.arange(20, dtype=">u4")[::2]
    assert list(build.from_sorted(values)) == list(range(0, 20, 2))


@pytest.mark.parametrize("containers", [1, 3, 4, 9])
def test_ranges_are_handed_over_in_a_sound_bitmap(containers: int) -> None:
    keys = np.repeat(np.arange(containers), 2)
    starts = np.tile([3, 10], containers)
    data = b"".join(build._serialize([build._run_containers(keys, starts, starts + np.tile([2, 5], containers))]))
    assert data == bitmap(*(runs(key, [(3, 2), (10, 5)]) for key in range(containers)))
    cursor = Cursor(data)
    walk(cursor)
    cursor.expect_end("the bitmap")


def test_a_run_container_is_what_from_ranges_writes() -> None:
    data = build.from_ranges(np.array([[5, 8], [9, 10]], np.int64))[0].serialize()
    assert data == bitmap(runs(0, [(5, 3), (9, 1)]))
    assert walk(Cursor(data)).kinds.tolist() == [ContainerKind.RUN]
