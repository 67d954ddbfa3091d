"""Segments of huge spans, and holes wherever they are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from cases import each
from dvcodec.lance import (
    EncodedArray,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
)
from dvcodec.lance.segments import from_values
from samples.lance import TOP, as_array

MANY = 2**60


# ---------------------------------------------------------------------- huge spans


@pytest.mark.parametrize("start", [0, 5, 2**63, TOP - MANY])
def test_huge_range_with_few_holes_is_never_expanded(start: int) -> None:
    end = start + MANY
    holes = [start + 3, start + 4, start + 1000, end - 9, end - 2]
    segment = RangeWithHoles(start, end, EncodedArray.from_values(as_array(holes)))
    tracemalloc.start()
    assert segment.count == MANY - 5
    assert segment.get(0) == start
    assert segment.get(3) == start + 5
    assert segment.get(997) == start + 999
    assert segment.get(998) == start + 1001
    assert segment.get(MANY - 6) == end - 1
    assert segment.get(MANY - 5) is None
    assert segment.position(end - 1) == MANY - 6
    assert segment.position(end - 2) is None
    assert segment.position(start + 2**59) == 2**59 - 3
    assert segment.slice(3, 100) == RangeSegment(start + 5, start + 105)
    assert segment.slice(10, MANY - 40) == RangeWithHoles(
        start + 12, end - 27, EncodedArray.from_values(as_array([start + 1000]))
    )
    assert segment.slice(MANY - 8, 3) == RangeWithBitmap(end - 4, end, b"\x0b")
    # Positions 0 to 2 leave the front, which the two holes that follow then lengthen; the same at the back.
    masked = segment.mask(np.array([0, 1, 2, 500, MANY - 6], np.int64))
    assert masked == RangeWithHoles(
        start + 5, end - 2, EncodedArray.from_values(as_array([start + 502, start + 1000, end - 9]))
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_nothing_is_left() -> None:
    holes = EncodedArray.from_values(as_array([4]))
    for segment in (RangeSegment(3, 5), RangeWithHoles(3, 6, holes), RangeWithBitmap(3, 6, b"\x05")):
        assert segment.mask(np.array([0, 1], np.int64)) == RangeSegment(0, 0)


@each("hole", [1, 16_383, 16_384, 16_385, 32_769, 39_999])
def test_a_hole_is_found_once_wherever_it_is(hole: int) -> None:
    """The values are looked at in blocks of 2**14."""
    values = np.arange(40_000, dtype=np.uint64)
    values[hole:] += np.uint64(1)
    assert from_values(values) == RangeWithHoles(0, 40_001, EncodedArray.from_values(as_array([hole])))
