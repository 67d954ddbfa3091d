from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from battery import name_of, run_limited
from calls import calls_of
from cases import each
from core.test_arguments import FORMS
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.roaring import walk
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import encode_payload
from samples.bitmaps import array, bitmap, runs

BORDERS = [
    0,
    1,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**32 + 1,
    2**33 - 1,
    2**33,
    0x7FFFFFFE_80000000,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
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


@each("form", FORMS.values(), ids=FORMS)
def test_positions_come_in_any_form_and_order(form: Callable[[list[int]], Any]) -> None:
    values = [9, 3, 127, 0, 3]
    assert RowSet(form(values)) == RowSet.from_positions(form(values)) == {0, 3, 9, 127}


@pytest.mark.parametrize("make", [set, frozenset, dict.fromkeys, RowSet, lambda values: np.array(values, np.uint64)])
def test_unordered_collections_give_ascending_positions(make: Callable[[list[int]], Any]) -> None:
    values = [2**40, 5, 2**63, 2**32, 0]
    assert list(RowSet(make(values))) == sorted(values)


@each(
    "numbers",
    [
        range(0),
        range(5, 5),
        range(10, 0),
        range(1),
        range(70_000),
        range(65_535, 65_537),
        range(2**32 - 2, 2**32 + 2),
        range(2**63 - 3, 2**63 - 1),
        range(2**63 - 2, 2**63 + 2),
        range(2**63, 2**63 + 3),
        range(2**64 - 3, 2**64),
        range(3, 100, 7),
        range(100, 3, -7),
        range(5, -1, -1),
    ],
    ids=repr,
)
def test_a_range_is_the_positions_it_counts(numbers: range) -> None:
    assert list(RowSet(numbers)) == sorted(numbers)


@pytest.mark.parametrize("numbers", [range(-1, 3), range(-5, -1), range(3, -3, -1), range(-9, 9, 2)], ids=repr)
def test_a_range_below_zero_is_refused(numbers: range) -> None:
    with pytest.raises(UsageError, match="negative"):
        RowSet(numbers)


def test_a_long_range_is_not_expanded() -> None:
    tracemalloc.start()
    try:
        rows = RowSet(range(10, 2**36))
        assert tracemalloc.get_traced_memory()[1] < 500 << 20
    finally:
        tracemalloc.stop()
    assert len(rows) == 2**36 - 10


@each("wrong", [[-1], [2**64], [1.0], np.array([1.5]), np.array([True]), [None], "5", b"12345678"])
def test_invalid_positions_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        RowSet(wrong)
    with pytest.raises(UsageError):
        RowSet.from_positions(wrong)


def test_no_argument_is_the_empty_set() -> None:
    rows = RowSet()
    assert not rows
    assert (len(rows), rows.cardinality, rows.min, rows.max, list(rows)) == (0, 0, None, None, [])


@each("at", BORDERS)
def test_a_position_at_a_border_is_held_exactly(at: int) -> None:
    rows = RowSet([at])
    assert (len(rows), rows.min, rows.max, list(rows)) == (1, at, at, [at])
    assert at in rows
    assert at - 1 not in rows
    assert at + 1 not in rows
    assert at ^ 1 << 32 not in rows
    assert rows.to_numpy(np.uint64).tolist() == [at]
    assert rows.count(at, at + 1) == 1
    assert rows.count(0, at) == rows.count(at + 1, 2**65) == 0
    assert rows.mask(max(at - 5, 0), at + 3).tolist() == [False] * min(at, 5) + [True, False, False]


@given(st.lists(spans, max_size=12))
def test_ranges_in_any_order_with_overlaps_are_the_union_of_their_positions(ranges: list[tuple[int, int]]) -> None:
    rows = RowSet.from_ranges(ranges)
    expected = RowSet().union(*(RowSet(np.arange(start, stop, dtype=np.uint64)) for start, stop in ranges))
    assert rows == expected
    assert RowSet.from_ranges(np.array(ranges, np.int64).reshape(-1, 2)) == expected
    assert RowSet.from_ranges(iter(ranges)) == expected
    assert rows.ranges().tolist() == expected.ranges().tolist()


@pytest.mark.parametrize(
    "ranges", [[], [(5, 5)], [(0, 0), (7, 7)], np.zeros((0, 2), np.int64), [(2**63 - 1, 2**63 - 1)]], ids=repr
)
def test_empty_ranges_are_fine(ranges: Any) -> None:
    assert RowSet.from_ranges(ranges) == RowSet()


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 2**63 - 1)],
        [(2**40, 2**41), (0, 1)],
    ],
    ids=repr,
)
def test_ranges_over_more_rows_than_fit_memory_are_refused(ranges: Any) -> None:
    with pytest.raises(UsageError, match="blocks of 65,536 rows"):
        RowSet.from_ranges(ranges)


@each(
    "wrong",
    [
        [(-1, 5)],
        [(5, 4)],
        [(-5, -1)],
        [(0, 2**63)],
        [(2**63, 2**63 + 1)],
        [(0, 2**64)],
        np.array([(0, 2**63)], np.uint64),
        np.array([(2**63, 2**63 + 5)], np.uint64),
        [(0.0, 5.0)],
        [(0, 1, 2)],
        [(0, 1), (2,)],
        [(0, 1), 2],
        [5, 6],
        [(False, True)],
        [("0", "1")],
        np.zeros((2, 2, 2), np.int64),
        np.arange(8, dtype=">i8").data,  # Python reads none in this order of bytes
    ],
    ids=name_of,
)
def test_invalid_ranges_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="range"):
        RowSet.from_ranges(wrong)


@each("start", [0, 1, 7, 65_530, 2**32 - 3, 2**63 - 2, 2**63, 2**64 - 6])
def test_a_mask_counts_from_its_start(start: int) -> None:
    mask = [True, False, True, True, False, True]
    expected = [start, start + 2, start + 3, start + 5]
    for form in (mask, tuple(mask), iter(mask), np.array(mask), [np.bool_(flag) for flag in mask]):
        assert list(RowSet.from_mask(form, start)) == expected  # type: ignore[arg-type]  # NumPy's booleans count too


@pytest.mark.parametrize("nothing", [[], np.zeros(0, np.bool_), [False], np.zeros(9, np.bool_)], ids=repr)
def test_a_mask_without_rows_is_the_empty_set(nothing: Any) -> None:
    assert RowSet.from_mask(nothing) == RowSet.from_mask(nothing, 2**64 - 9) == RowSet()


def test_a_mask_may_end_with_the_last_position() -> None:
    assert list(RowSet.from_mask([True], 2**64 - 1)) == [2**64 - 1]
    assert list(RowSet.from_mask([True, True], 2**64 - 2)) == [2**64 - 2, 2**64 - 1]


@pytest.mark.parametrize("start", [-1, 2**64 - 1, 2**64, 2**70])
def test_a_mask_may_not_leave_the_positions(start: int) -> None:
    with pytest.raises(UsageError, match=r"mask|start"):
        RowSet.from_mask([True, True], start)


@each(
    "wrong",
    [
        *([1, 0], [None], ["a"], [[True], [True, False]], np.arange(8, dtype=">i8").data),
        *(np.ones(3), np.ones((2, 2), np.bool_), np.array(5)),
    ],
    ids=name_of,
)
def test_invalid_masks_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="flat array of booleans"):
        RowSet.from_mask(wrong)


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


@given(sets, st.lists(sets, max_size=4))
def test_methods_take_several_sets_as_those_of_python_do(first: frozenset[int], others: list[frozenset[int]]) -> None:
    makers: list[Callable[[frozenset[int]], Any]] = [RowSet, sorted, set, RowSet]
    rows, forms = RowSet(first), [make(other) for make, other in zip(makers, others, strict=False)]
    assert list(rows.union(*forms)) == sorted(first.union(*others))
    assert list(rows.intersection(*forms)) == sorted(first.intersection(*others))
    assert rows.issubset(*forms) is all(first <= other for other in others)
    assert rows.issuperset(*forms) is all(first >= other for other in others)
    assert rows.isdisjoint(*forms) is all(first.isdisjoint(other) for other in others)
    assert list(rows.difference(*forms)) == sorted(first.difference(*others))
    odd = set(first)
    for other in others:
        odd ^= other
    assert list(rows.symmetric_difference(*forms)) == sorted(odd)


@pytest.mark.parametrize("name", ["intersection", "difference", "isdisjoint", "issubset"])
def test_the_other_set_may_have_any_number_of_keys(name: str) -> None:
    one = RowSet([1, 7 << 32])
    getattr(one, name)(one)  # loads it
    calls = []
    for count in (100, 200):
        many = RowSet(np.arange(count, dtype=np.uint64) << np.uint64(32))
        many.bitmaps  # noqa: B018  (loaded)
        calls.append(calls_of(lambda many=many: getattr(one, name)(many)))  # type: ignore[misc]
    assert calls[0] == calls[1]


def test_union_keeps_the_receiver() -> None:
    assert RowSet([1]).union(RowSet([2])) == {1, 2}
    assert RowSet().union() == RowSet().union(*[]) == RowSet()


@given(sets, sets, sets)
def test_algebra(a: frozenset[int], b: frozenset[int], c: frozenset[int]) -> None:
    x, y, z = RowSet(a), with_runs(RowSet(b)), RowSet(c)
    assert x | y == y | x
    assert (x | y) | z == x | (y | z) == RowSet().union(x, y, z) == RowSet().union(z, x, y, x)
    assert x & (y | z) == (x & y) | (x & z)
    assert x - (y | z) == (x - y) & (x - z)
    assert x ^ y == (x | y) - (x & y)
    assert x ^ y ^ y == x
    assert x & y <= x <= x | y


@given(sets)
def test_a_set_and_itself(values: frozenset[int]) -> None:
    rows = RowSet(values)
    same = RowSet(rows)
    assert rows | same == rows & same == rows == RowSet().union(rows)
    assert rows - same == rows ^ same == RowSet() == RowSet().union()
    assert rows <= same <= rows
    assert not rows < same
    assert rows.isdisjoint(same) is not bool(values)


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
        pickle.loads(pickle.dumps(rows)),
    ):
        assert twin == rows
        assert hash(twin) == hash(rows)
        if rows.max is None or rows.max <= 0x7FFFFFFE_80000000:
            assert encode_payload(twin, Magic.PORTABLE64, gap_keys=False) == encode_payload(
                rows, Magic.PORTABLE64, gap_keys=False
            )


@given(sets)
def test_a_set_is_what_it_holds(values: frozenset[int]) -> None:
    rows = RowSet(values)
    assert len(rows) == rows.cardinality == len(values)
    assert list(rows) == sorted(values)
    assert (rows.min, rows.max) == (min(values, default=None), max(values, default=None))
    assert bool(rows) is bool(values)
    assert all(value in rows for value in values)
    assert not any(value ^ 1 in rows for value in values if value ^ 1 not in values)


def test_other_things_are_not_equal_to_a_row_set() -> None:
    rows = RowSet([1, 2])
    assert rows != [1, 2]
    assert rows != 3
    assert rows != {1, 2, 3}
    assert rows != {1, "2"}
    assert rows == {1, 2} == rows
    assert rows != frozenset([1, 2])  # which would need the same hash


@each(
    "operator",
    [
        "__or__",
        "__and__",
        "__sub__",
        "__xor__",
        "__le__",
        "__ge__",
        "__lt__",
        "__gt__",
        "isdisjoint",
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
    ],
)
def test_operators_refuse_what_holds_no_positions(operator: str) -> None:
    with pytest.raises(UsageError):
        getattr(RowSet([1]), operator)([-1])


@each(
    ("thing", "inside"),
    [
        (5, True),
        (np.int64(5), True),
        (np.uint8(5), True),
        (2**40, True),
        (6, False),
        (-5, False),
        (2**40 + 5, False),
        (2**64 + 5, False),
        (2**100, False),
        (5.0, False),
        ("5", False),
        (None, False),
    ],
)
def test_membership(thing: object, inside: bool) -> None:
    assert (thing in RowSet([5, 2**40])) is inside


# ------------------------------------------------------------------ bitmaps, arrays, notebooks


@given(sets)
def test_bitmaps_come_back_as_the_same_set(values: frozenset[int]) -> None:
    for rows in (RowSet(values), with_runs(RowSet(values))):
        assert RowSet.from_bitmaps(rows.bitmaps) == rows
        assert sorted(rows.bitmaps) == list(rows.bitmaps)
        assert {key << 32 | low for key, bitmap in rows.bitmaps.items() for low in bitmap} == values


def test_bitmaps_cannot_change_a_set() -> None:
    rows = RowSet([1, 2])
    assert not hasattr(rows.bitmaps[0], "add")
    with pytest.raises(TypeError):
        rows.bitmaps[0] = BitMap()  # type: ignore[index]
    mine = BitMap([5])
    taken = RowSet.from_bitmaps({0: mine})
    mine.add(6)
    assert taken == {5}
    taken.serialized()[0].clear()
    RowSet([7]).serialized()[0].clear()
    assert taken == {5}
    piece = RowSet(np.arange(0, 9000, 3)).serialized()[0][1]
    assert isinstance(piece, memoryview)
    assert piece.readonly


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
    pa = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    for positions in (pa.array([5, 1], pa.uint8()), pa.chunked_array([[5], [1]]), polars.Series([5, 1])):
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


# ------------------------------------------------------------------ immutability


def test_operations_leave_their_operands_as_they_are() -> None:
    values = {1, 2, 3, 70_000, 2**32, 2**40}
    rows = RowSet(values)
    other = RowSet([2, 3, 2**40, 2**50])
    before = {key: rows.bitmaps[key].serialize() for key in rows.bitmaps}
    results = [rows | other, rows & other, rows - other, rows ^ other, RowSet().union(rows, other), RowSet(rows)]
    results += [rows - RowSet(), rows | RowSet()]
    for result in results:
        list(result.chunks())
        result.ranges()
        encode_payload(result, Magic.PORTABLE64, gap_keys=False)
        assert result | [99] != result
        assert result - result == RowSet()
    assert {key: rows.bitmaps[key].serialize() for key in rows.bitmaps} == before
    assert rows == values
    assert other == {2, 3, 2**40, 2**50}


def test_the_hash_does_not_change() -> None:
    rows = RowSet.from_ranges([(0, 100_000)])
    first = hash(rows)
    encode_payload(rows, Magic.PORTABLE64)
    rows.ranges()
    assert hash(rows) == first == hash(RowSet(range(100_000)))
    assert len({rows, RowSet(np.arange(100_000)), RowSet()}) == 2


def test_augmented_assignment_makes_a_new_set() -> None:
    rows = kept = RowSet([1, 2])
    rows |= [3]
    rows -= [1]
    assert rows == {2, 3}
    assert kept == {1, 2}


def test_what_comes_out_is_the_callers_own() -> None:
    rows = RowSet([1, 2, 3])
    rows.to_numpy()[:] = 7
    rows.mask(0, 8)[:] = True
    rows.packed_mask(0, 8)[:] = 255
    rows.ranges()[:] = 0
    assert rows == {1, 2, 3}


def test_the_array_a_set_was_built_from_may_change() -> None:
    values = np.array([1, 2, 3], np.uint64)
    rows = RowSet(values)
    values[:] = 9
    assert rows == {1, 2, 3}


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


def test_a_pickle_costs_what_the_serialized_form_costs() -> None:
    assert len(pickle.dumps(RowSet(range(10**9)))) < 300_000


def test_a_pickle_is_read_by_another_process() -> None:
    rows = RowSet([5, 2**40])
    script = "import pickle, sys; rows = pickle.load(sys.stdin.buffer); print(list(rows), hash(rows))"
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(rows), capture_output=True, check=True)
    assert done.stdout.decode().split("\n")[0] == f"[5, 1099511627776] {hash(rows)}"


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


@each("step", [1, 3, 64, 65, 1000, 10**6, 2**33])
def test_contains_looks_up_dense_and_sparse_positions_alike(step: int) -> None:
    rows = RowSet(range(2**32 - 200_000, 2**32 + 200_000)) | RowSet(range(0, 5000 * step, 2 * step))
    asked = np.arange(5000, dtype=np.int64) * step
    found = rows.contains(asked[::-1])
    assert found[::-1].tolist() == [int(at) in rows for at in asked]


def test_contains_takes_repeated_and_unsorted_positions() -> None:
    rows = RowSet([5, 2**40])
    assert rows.contains(np.array([2**40, 5, 5, 6, 2**40, 0])).tolist() == [True, True, True, False, True, False]
    assert rows.contains(np.array([2**40, 2**50, 5, 5])).tolist() == [True, False, True, True]
    assert rows.contains(np.zeros(0, np.int64)).tolist() == []
    assert RowSet().contains(np.array([0, 5])).tolist() == [False, False]
    assert rows.contains(np.array([6, 2**45])).tolist() == [False, False]


@pytest.mark.parametrize("wrong", [np.array([-1]), np.array([0.5]), np.array([True]), np.array([[1]])], ids=repr)
def test_contains_refuses_invalid_positions(wrong: Any) -> None:
    with pytest.raises(UsageError):
        RowSet([1]).contains(wrong)


# ------------------------------------------------------------------ containers


def test_containers_are_those_of_the_canonical_encoding() -> None:
    assert RowSet().containers == ContainerMix()
    assert RowSet(range(3)).containers == ContainerMix(arrays=1)
    assert RowSet(range(4)).containers == ContainerMix(runs=1)
    rows = RowSet(range(100)) | RowSet(range(65_536, 131_072, 2)) | RowSet([2**32, 2**32 + 65_536])
    assert rows.containers == ContainerMix(arrays=2, bitsets=1, runs=1)


def test_formats_hand_over_bitmaps_in_any_key_order_and_empty_ones_leave() -> None:
    rows = RowSet.from_bitmaps({3: BitMap([1]), 0: BitMap(), 1: BitMap([2])})
    assert list(rows) == [2**32 + 2, 3 * 2**32 + 1]
    assert rows == RowSet(rows)
    assert (rows.min, rows.max) == (2**32 + 2, 3 * 2**32 + 1)


def test_rows_that_came_as_a_tied_run_are_the_same_set() -> None:
    tied = RowSet.from_bitmaps({0: walk(Cursor(bitmap(runs(0, [(1, 2), (5, 3)])))).load()})
    plain = RowSet.from_bitmaps({0: walk(Cursor(bitmap(array(0, [1, 2, 5, 6, 7])))).load()})
    assert tied == plain == {1, 2, 5, 6, 7}
    assert hash(tied) == hash(plain)
    assert encode_payload(tied, Magic.PAIMON32) == encode_payload(plain, Magic.PAIMON32)


# ------------------------------------------------------------------ hazard 17: bombs


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_hazard_a_megabyte_that_holds_every_32_bit_position_is_never_expanded() -> None:
    questions: dict[str, object] = {
        "rows.cardinality": 2**32,
        "len(pickle.dumps(rows)) < 2_000_000": True,
        "rows.ranges().tolist()": [[0, 2**32]],
        "rows.count(5, 2**32 - 5)": 2**32 - 10,
        "rows.histogram(2**32, 4).tolist()": [2**30] * 4,
        "(rows.min, rows.max)": (0, 2**32 - 1),
        "rows.mask(2**32 - 2, 2**32 + 2).tolist()": [True, True, False, False],
        "rows.packed_mask(2**31, 2**31 + 2**20).sum()": 255 * 2**17,
        "rows.contains(np.array([0, 2**31, 2**32])).tolist()": [True, True, False],
        "(rows - RowSet([7])).cardinality": 2**32 - 1,
        "rows == vector.read_payload(Cursor(data)).load()": True,
        "hash(rows) == hash(rows | RowSet([7]))": True,
        "repr(rows)": "RowSet(4,294,967,296 rows in 0..4294967295)",
        "rows.containers.runs": 65536,
        "len(next(rows.chunks()))": 2**20,
        "vector.encode_payload(rows, frame.Magic.PORTABLE64) == data[4:]": True,
        "refused(lambda: rows.to_numpy())": "LimitExceeded",
        "refused(lambda: rows.to_arrow())": "LimitExceeded",
    }
    output = run_limited(
        f"""
        import pickle
        def refused(call):
            try:
                call()
            except DecodeError as error:
                return type(error).__name__
        bits = bitmaps.bitmap(*(bitmaps.runs(key, [(0, 65536)]) for key in range(65536)))
        data = bitmaps.PORTABLE + bitmaps.vector64((0, bits))
        assert len(data) < 1 << 20
        del bits
        cap()
        rows = RowSet.from_ranges([(0, 2**32)])
        for question in {list(questions)!r}:
            answer = eval(question)
            print(repr(answer.item() if isinstance(answer, np.generic) else answer))
        """,
        megabytes=50,
    )
    assert dict(zip(questions, output.splitlines(), strict=True)) == {
        q: repr(answer) for q, answer in questions.items()
    }


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
