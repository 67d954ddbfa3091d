"""Row sets as positions, ranges, masks and counts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from amounts import examples
from cases import each
from core.test_rowset import as_ranges, near_borders, sets, spans, with_runs
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.rowset import RowSet

# ------------------------------------------------------------------ expanding


@each("rows", [1, 65_536, 70_000, 131_072, 200_000, 10**9])
def test_chunks_are_all_positions_in_order_and_of_the_size_asked_for(rows: int) -> None:
    whole = (
        RowSet(range(300_000)) | RowSet(range(2**32 - 5, 2**32 + 100_000)) | RowSet(range(2**40, 2**40 + 300_000, 3))
    )
    chunks = list(whole.chunks(rows))
    assert all(0 < len(chunk) <= max(rows, 65_536) for chunk in chunks)
    assert all(chunk.dtype == np.int64 for chunk in chunks)
    assert np.array_equal(np.concatenate(chunks), whole.to_numpy())
    if rows == 70_000:
        assert len(chunks) < 20


@given(sets)
def test_ranges_are_maximal_and_cross_borders(values: frozenset[int]) -> None:
    rows = RowSet(values)
    for form in (rows, with_runs(rows)):
        ranges = form.ranges()
        assert [tuple(pair) for pair in ranges.tolist()] == as_ranges(values)
        assert ranges.dtype == (np.int64 if max(values, default=0) < 2**63 - 1 else object)
    if rows.ranges().dtype == np.int64:
        assert RowSet.from_ranges(rows.ranges()) == rows


# ------------------------------------------------------------------ masks

MASKED = {
    "sparse": RowSet([0, 1, 7, 8, 9, 63, 64, 65_535, 65_536, 2**32 - 1, 2**32, 2**32 + 9, 2**33]),
    "run": RowSet(range(3, 200_000)) | RowSet(range(2**32 - 77, 2**32 + 1000)),
    "bitset": RowSet(range(0, 150_000, 2)) | RowSet(range(2**32 - 20_001, 2**32 + 20_000, 2)),
    "all": RowSet(range(2**32 - 300_000, 2**32 + 300_000)) | RowSet(range(300_000)),
    "none": RowSet(),
    "high": RowSet([2**63 - 1, 2**63, 2**64 - 1]),
}
WINDOWS = [
    (0, 0), (5, 5), (0, 1), (0, 8), (1, 8), (7, 9), (3, 70), (0, 65_536), (65_535, 65_537), (65_533, 131_079),
    (13, 200_003), (199_999, 200_001), (2**32 - 1, 2**32), (2**32 - 1, 2**32 + 1), (2**32, 2**32 + 1),
    (2**32 - 13, 2**32 + 21), (2**32 - 100_003, 2**32 + 100_005), (2**33 - 3, 2**33 + 3), (2**63 - 3, 2**63 + 4),
    (2**64 - 9, 2**64),
]  # fmt: skip
masked = pytest.mark.parametrize("rows", MASKED.values(), ids=MASKED)


def mask_one_by_one(rows: RowSet, start: int, stop: int) -> NDArray[np.bool_]:
    out = np.zeros(stop - start, np.bool_)
    inside = (rows & RowSet(range(start, stop))).to_numpy(np.uint64)
    out[(inside - np.uint64(start)).astype(np.int64)] = True
    return out


@masked
def test_masks_are_true_where_a_row_is_in_the_set(rows: RowSet) -> None:
    """Packed ones begin with the byte of the start, and have no bit outside of the window."""
    for start, stop in WINDOWS:
        expected = mask_one_by_one(rows, start, stop)
        found = rows.mask(start, stop)
        assert found.dtype == np.bool_
        assert np.array_equal(found, expected)
        assert rows.count(start, stop) == np.unpackbits(rows.packed_mask(start, stop)).sum() == expected.sum()
        for keep in (False, True):
            packed = rows.arrow_mask(start, stop, keep=keep)
            packed.validate(full=True)
            assert (packed.type, len(packed), packed.null_count) == (pa.bool_(), stop - start, 0)
            assert np.array_equal(packed.to_numpy(zero_copy_only=False), ~expected if keep else expected)
            assert len(packed.buffers()[1]) == (stop + 7) // 8 - start // 8


@settings(max_examples=examples(200))
@given(sets, st.lists(spans, max_size=4), near_borders, st.integers(0, 100_000))
def test_any_window_of_any_set(values: frozenset[int], ranges: list[tuple[int, int]], start: int, size: int) -> None:
    rows = RowSet(values) | RowSet.from_ranges(ranges)
    stop = min(start + size, 2**64)
    expected = mask_one_by_one(rows, start, stop)
    assert np.array_equal(rows.mask(start, stop), expected)
    assert rows.count(start, stop) == int(expected.sum())


@pytest.mark.parametrize("kind", [np.int16, np.uint64])
def test_bounds_may_be_numpy_integers(kind: type[np.integer[Any]]) -> None:
    rows = RowSet([5, 9, 2**32 + 1, 2**63])
    start, stop = kind(3), kind(10)
    assert rows.count(start, stop) == 2
    assert np.flatnonzero(rows.mask(start, stop)).tolist() == [2, 6]
    assert rows.packed_mask(start, stop).tolist() == [0b0010_0000, 0b0000_0010]
    assert rows.arrow_mask(start, stop).true_count == 2
    assert rows.histogram(kind(10), kind(2)).tolist() == [0, 2]
    assert rows.count(np.int64(3), np.uint64(2**33)) == 3


@each(("start", "stop"), [(-1, 5), (5, 4), (-3, -1)])
@each("method", ["count", "mask", "packed_mask", "arrow_mask"])
def test_a_window_that_is_none_is_refused(method: str, start: int, stop: int) -> None:
    with pytest.raises(UsageError, match=f"0 <= start <= stop, got {start} and {stop}"):
        getattr(RowSet([1]), method)(start, stop)


# ------------------------------------------------------------------ counting


@given(sets, st.integers(1, 2**64), st.integers(1, 40))
def test_a_histogram_counts_every_position_below_its_end_once(values: frozenset[int], stop: int, bins: int) -> None:
    found = RowSet(values).histogram(stop, bins)
    assert (found.dtype, len(found)) == (np.dtype(np.int64), bins)
    expected = [0] * bins
    edges = [stop * i // bins for i in range(bins + 1)]
    for value in values:
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            expected[i] += low <= value < high
    assert found.tolist() == expected


@pytest.mark.parametrize("size", [2**62, 2**63, 2**70])
def test_what_no_memory_holds_exceeds_a_limit(size: int) -> None:
    rows = RowSet([1])
    for call in (rows.mask, rows.packed_mask, rows.arrow_mask):
        with pytest.raises(LimitExceeded, match="memory: expected enough for the mask"):
            call(1, size)
    with pytest.raises(LimitExceeded, match="memory: expected enough for the bins"):
        rows.histogram(5, size)
