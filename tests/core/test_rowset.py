from __future__ import annotations

import copy
import itertools
import pickle
import struct
from array import array as typed_array
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from amounts import examples
from battery import name_of
from cases import each
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.roaring import serialize
from dvcodec.core.rowset import RowSet, as_bounds, as_positions
from dvcodec.core.vector import Magic, encode_payload

BORDERS = [
    0, 1, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33 - 1, 2**33, 0x7FFFFFFE_80000000,
    2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip
"""Positions where something carries over."""

near_borders = st.sampled_from(BORDERS).flatmap(lambda at: st.integers(max(at - 3, 0), min(at + 3, 2**64 - 1)))
positions = st.integers(0, 30) | st.integers(0, 200_000) | near_borders
sets = st.frozensets(positions, max_size=40)
spans = st.tuples(positions.filter(lambda at: at < 2**62), st.integers(0, 150_000)).map(lambda p: (p[0], p[0] + p[1]))


def as_ranges(values: Iterable[int]) -> list[tuple[int, int]]:
    """Maximal half-open ranges of values, one by one."""
    ordered = sorted(set(values))
    groups = itertools.groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    members = [[value for _, value in group] for _, group in groups]
    return [(group[0], group[-1] + 1) for group in members]


def with_runs(rows: RowSet) -> RowSet:
    """The same set held in run containers as far as there are ranges."""
    return RowSet.from_ranges(as_ranges(rows)) if (rows.max or 0) < 2**63 - 1 else rows


# ------------------------------------------------------------------ building

INT_DTYPES = ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"]
ARROW_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def generated(values: Iterable[int]) -> Iterable[int]:
    yield from values


FORMS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": generated,
    "list of NumPy ints": lambda values: [np.int64(value) for value in values],
    "array of ints": lambda values: typed_array("i", values),
    "pandas Series": pd.Series,
    "pandas Index": pd.Index,
    "polars Series": pl.Series,
    "Arrow array": pa.array,
    "Arrow chunked array": lambda values: pa.chunked_array([values[:1], [], values[1:]], type=pa.int64()),
    "strided NumPy array": lambda values: np.repeat(values, 2)[::2],
    **{f"NumPy {dtype}": partial(np.array, dtype=dtype) for dtype in INT_DTYPES},
    **{f"Arrow {kind}": partial(pa.array, type=kind) for kind in ARROW_TYPES},
}


@each(
    ("wrong", "message"),
    [
        ([5, -7, -1], "position -7 is negative"),
        (iter([-1]), "a position is negative or above 2\\*\\*64 - 1"),
        ([2**64], f"position {2**64} is above 2\\*\\*64 - 1"),
        (np.array([5, -7]), "position -7 is negative"),
        ([1, "2"], "positions must be integers"),
        ("12", "positions must be integers"),
        (5, "positions must be integers"),
        (pl.Series([1, None]), "positions must be integers"),
        (np.array([1.0]), "flat array of integers, got float64"),
        (np.array([True]), "for booleans see RowSet.from_mask"),
        (np.array([1], "m8[s]"), "flat array of integers"),
        (np.array([[1, 2]]), "flat array of integers"),
        (pa.array(["a"]), "flat array of integers, got object"),
        (pa.array([1, None, None]), "positions contain 2 nulls"),
        (memoryview(bytes(8)), "not bytes"),
        (np.ma.masked_equal([1, 2, 3], 2), "positions are masked"),
    ],
    ids=name_of,
)
def test_invalid_row_positions_are_refused(wrong: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_positions(wrong)


def test_numbers_of_any_size_are_refused_in_a_short_line() -> None:
    for position, problem in ((10**5000, "above"), (-(10**5000), "negative")):
        with pytest.raises(UsageError, match=f"^position an integer of 16610 bits is {problem}"):
            as_positions([position])
    with pytest.raises(UsageError, match=r"got an integer of 16610 bits and 1$"):
        as_bounds(10**5000, 1)


@each("form", FORMS.values(), ids=FORMS)
def test_positions_come_in_any_form_and_order(form: Callable[[list[int]], Any]) -> None:
    values = [9, 3, 127, 0, 3]
    assert RowSet(form(values)) == RowSet.from_positions(form(values)) == {0, 3, 9, 127}


@given(st.lists(spans, max_size=12))
def test_ranges_in_any_order_with_overlaps_are_the_union_of_their_positions(ranges: list[tuple[int, int]]) -> None:
    rows = RowSet.from_ranges(ranges)
    expected = RowSet().union(*(RowSet(np.arange(start, stop, dtype=np.uint64)) for start, stop in ranges))
    assert rows == expected
    assert RowSet.from_ranges(np.array(ranges, np.int64).reshape(-1, 2)) == expected
    assert RowSet.from_ranges(iter(ranges)) == expected
    assert rows.ranges().tolist() == expected.ranges().tolist()


@each(
    "wrong",
    [
        [(-1, 5)],
        [(5, 4)],
        [(0, 2**63)],
        np.array([(2**63, 2**63 + 5)], np.uint64),
        [(0.0, 5.0)],
        [(0, 1, 2)],
        [(0, 1), 2],
        [(False, True)],
        np.zeros((2, 2, 2), np.int64),
        np.arange(8, dtype=">i8").data,  # Python reads none in this order of bytes
    ],
    ids=name_of,
)
def test_invalid_ranges_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="range"):
        RowSet.from_ranges(wrong)


@each("mask", [[1, 0], np.array([[True]]), [[True], [False]], ["a"], [[True], True]], ids=name_of)
def test_masks_are_flat_booleans(mask: Any) -> None:
    with pytest.raises(UsageError, match="flat array of booleans"):
        RowSet.from_mask(mask)


def test_masks_end_with_the_last_position() -> None:
    assert RowSet.from_mask([True, False, True], start=2**64 - 3) == {2**64 - 3, 2**64 - 1}
    assert not RowSet.from_mask([], start=2**64 - 1)
    for mask, start in (([True, False], 2**64 - 1), ([True], 2**64), ([], 2**64)):
        with pytest.raises(UsageError, match=r"beyond positions 0 to 2\*\*64 - 1"):
            RowSet.from_mask(mask, start=start)


# ------------------------------------------------------------------ laws of sets


@given(sets, sets)
def test_operators_agree_with_pythons_sets(first: frozenset[int], second: frozenset[int]) -> None:
    left, right = set(first), set(second)
    for a in (RowSet(left), with_runs(RowSet(left))):
        b = RowSet(right)
        for theirs in (b, with_runs(b), right, list(right), sorted(right)):
            assert a | theirs == left | right
            assert a & theirs == left & right
            assert a - theirs == left - right
            assert a ^ theirs == left ^ right
            assert (a <= theirs) is (left <= right)
            assert (a >= theirs) is (left >= right)
            assert (a < theirs) is (left < right)
            assert (a > theirs) is (left > right)
            for name in ("union", "intersection", "difference", "symmetric_difference"):
                assert getattr(a, name)(theirs) == getattr(left, name)(right)
            for name in ("issubset", "issuperset", "isdisjoint"):
                assert getattr(a, name)(theirs) is getattr(left, name)(right)
        assert [set(rows) for rows in (set(left) | b, set(left) & b)] == [left | right, left & right]
        assert [set(rows) for rows in (set(left) - b, set(left) ^ b)] == [left - right, left ^ right]
        assert (a == b) is (left == right)
        assert (a != b) is (left != right)
        assert (a == set(right)) is (set(right) == a) is (left == right)


@given(sets)
def test_equal_sets_have_equal_hashes_and_bytes_however_they_were_built(values: frozenset[int]) -> None:
    ordered = sorted(values)
    half = len(ordered) // 2
    rows = RowSet(values)
    for twin in (
        RowSet(reversed(ordered)),
        with_runs(rows),
        RowSet(ordered[:half]) | RowSet(ordered[half:]),
        RowSet([*values, 12345]) - ([12345] if 12345 not in values else []),
    ):
        assert twin == rows
        assert hash(twin) == hash(rows)
        if rows.max is None or rows.max <= 0x7FFFFFFE_80000000:
            assert encode_payload(twin, Magic.PORTABLE64, gap_keys=False) == encode_payload(
                rows, Magic.PORTABLE64, gap_keys=False
            )


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


def portable(values: list[int], key: int) -> bytes:
    rows = RowSet(np.array(values, np.uint64) + np.uint64(key << 32))
    return encode_payload(rows, Magic.PORTABLE64, gap_keys=False)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(blocks_of_values(), st.sampled_from([0, 7]))
def test_bytes_are_those_that_the_values_alone_decide(values: list[int], key: int) -> None:
    """Whatever order they come in, as if pyroaring had built the bitmap."""
    assert portable(values, key) == struct.pack("<QI", 1, key) + serialize(BitMap(values))


def test_bytes_of_more_values_than_are_built_at_once() -> None:
    for values in (np.flatnonzero(np.random.default_rng(1).random(1 << 20) < 0.6), np.arange(5 << 18)):
        assert portable(values.tolist(), 0) == struct.pack("<QI", 1, 0) + serialize(BitMap(values.tolist()))


@given(sets)
def test_a_set_is_what_it_holds(values: frozenset[int]) -> None:
    rows = RowSet(values)
    assert len(rows) == rows.cardinality == len(values)
    assert list(rows) == sorted(values)
    assert (rows.min, rows.max) == (min(values, default=None), max(values, default=None))
    assert bool(rows) is bool(values)
    assert all(value in rows for value in values)
    assert not any(value ^ 1 in rows for value in values if value ^ 1 not in values)


# ------------------------------------------------------------------ bitmaps, arrays, notebooks


@given(sets)
def test_bitmaps_come_back_as_the_same_set(values: frozenset[int]) -> None:
    for rows in (RowSet(values), with_runs(RowSet(values))):
        assert RowSet.from_bitmaps(rows.bitmaps) == rows
        assert sorted(rows.bitmaps) == list(rows.bitmaps)
        assert {key << 32 | low for key, bitmap in rows.bitmaps.items() for low in bitmap} == values


@pytest.mark.parametrize("wrong", [{-1: BitMap([1])}, {2**32: BitMap([1])}, {0: {1, 2}}, {0: None}, {0: BitMap64([1])}])
def test_what_is_not_bitmaps_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="bitmaps must map"):
        RowSet.from_bitmaps(wrong)


@given(sets)
def test_numpy_takes_a_set_for_an_array(values: frozenset[int]) -> None:
    rows = RowSet(values)
    array = np.asarray(rows)
    assert array.dtype == (np.uint64 if max(values, default=0) >= 2**63 else np.int64)
    assert array.tolist() == sorted(values)
    assert np.array(rows, copy=True).tolist() == sorted(values)
    assert np.asarray(rows, np.float64).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, "<i2", np.int64], ids=str)
def test_an_array_of_a_narrow_dtype_holds_the_positions_or_is_refused(dtype: Any) -> None:
    top = int(np.iinfo(dtype).max)
    array = np.asarray(RowSet([0, top]), dtype)
    assert (array.dtype, array.tolist()) == (np.dtype(dtype), [0, top])
    with pytest.raises(UsageError, match=f"position {top + 1} does not fit"):
        np.asarray(RowSet([0, top + 1]), dtype)


def test_a_set_is_an_array_only_where_one_is_asked_for() -> None:
    rows = RowSet([1, 2, 3])
    with pytest.raises(ValueError, match="copy=False"):
        np.array(rows, copy=False)
    with pytest.raises(TypeError):
        np.add(rows, 1)
    with pytest.raises(LimitExceeded):
        np.asarray(RowSet(range(2**32)))
    assert np.isin([1, 5], rows).tolist() == [True, False]


def test_arrow_arrays_of_any_library_are_positions() -> None:
    for positions in (pa.array([5, 1], pa.uint8()), pa.chunked_array([[5], [1]]), pl.Series([5, 1])):
        assert RowSet.from_arrow(positions) == {1, 5}
    assert RowSet.from_arrow(RowSet([1, 2**40]).to_arrow()) == {1, 2**40}
    bare = SimpleNamespace(__arrow_c_array__=pa.array([5, 1]).__arrow_c_array__)  # all that nanoarrow's have
    assert RowSet.from_arrow(bare) == {1, 5}
    for wrong in ([5, 1], pa.array([1, None]), pa.array([-1]), pa.array(["a"]), pa.array([True])):
        with pytest.raises(UsageError):
            RowSet.from_arrow(wrong)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (RowSet(), "empty"),
        (RowSet([2**64 - 1]), "1 row in 18,446,744,073,709,551,615..18,446,744,073,709,551,615<br>"),
        (RowSet(range(1000, 4_000_000)), "3,999,000 rows in 1,000..3,999,999<br><small>containers: 62 runs"),
    ],
)
def test_notebooks_show_a_card(rows: RowSet, words: str) -> None:
    card = rows._repr_html_()
    assert words in card
    root = ET.fromstring(card.replace("<br>", "<br/>"))
    bars = root.findall(".//rect")
    assert len(bars) <= 96
    assert all(0 < int(bar.get("height", "0")) <= 24 for bar in bars)
    assert bool(bars) is bool(rows)


# ------------------------------------------------------------------ pickling, repr


@given(sets)
def test_pickles_and_copies_are_equal(values: frozenset[int]) -> None:
    rows = with_runs(RowSet(values))
    hash(rows)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(rows, protocol))
        assert twin == rows
        assert hash(twin) == hash(rows)
    assert copy.copy(rows) == copy.deepcopy(rows) == rows


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (RowSet(), "RowSet([])"),
        (RowSet([5]), "RowSet([5])"),
        (RowSet(range(8)), "RowSet([0, 1, 2, 3, 4, 5, 6, 7])"),
        (RowSet(range(9)), "RowSet(9 rows in 0..8)"),
        (RowSet(range(7, 2**32)), "RowSet(4,294,967,289 rows in 7..4294967295)"),
    ],
)
def test_repr_spells_out_small_sets_only(rows: RowSet, text: str) -> None:
    assert repr(rows) == text


# ------------------------------------------------------------------ many positions


@given(sets, st.lists(positions, max_size=30), st.booleans())
def test_contains_answers_for_each_position(values: frozenset[int], asked: list[int], dense: bool) -> None:
    low = asked[0] if asked else 0
    wanted = [low + at % 1000 for at in asked if low < 2**64 - 1000] if dense else [*asked, *sorted(values)[:5]]
    for rows in (RowSet(values), with_runs(RowSet(values))):
        found = rows.contains(np.array(wanted, np.uint64))
        assert found.dtype == np.bool_
        assert found.tolist() == [at in values for at in wanted]


# ------------------------------------------------------------------ hazard 17: bombs


def test_positions_beyond_int64_are_not_given_as_int64() -> None:
    """They are rows of a set all the same."""
    rows = RowSet(np.arange(2**63 - 2, 2**63 + 2, dtype=np.uint64))
    assert (len(rows), 2**63 in rows) == (4, True)
    for call in (rows.to_numpy, rows.to_arrow):
        with pytest.raises(UsageError, match=f"position {2**63 + 1} does not fit int64"):
            call()
    assert [(str(part.dtype), part.tolist()) for part in rows.chunks()] == [
        ("uint64", [2**63 - 2, 2**63 - 1]),
        ("uint64", [2**63, 2**63 + 1]),
    ]
    assert [str(part.dtype) for part in (rows - [2**63, 2**63 + 1]).chunks()] == ["int64"]
    assert RowSet([2**63 - 1]).to_numpy().tolist() == [2**63 - 1]
