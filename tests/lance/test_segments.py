"""The five segments against lists of integers, and the writer's choice among them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec.lance import (
    ArraySegment,
    EncodedArray,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
)
from dvcodec.lance.segments import from_values
from samples.lance import KINDS, TOP, Seg, as_array, id_lists, segments, segments_of, write

MANY = 2**60


def by_protobuf(spec: Seg) -> bytes:
    data: bytes = spec.message().SerializeToString()
    return data


@pytest.mark.parametrize(("kind", "width"), KINDS, ids=str)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_segment_is_its_list(kind: str, width: int, data: st.DataObject) -> None:
    spec = data.draw(segments_of(kind, width))
    segment, model = spec.ours(), spec.values()
    assert segment.encode() == by_protobuf(spec)
    assert segment.values().tolist() == model
    assert segment.values().dtype == np.uint64
    assert segment.count == len(model)
    assert [segment.get(i) for i in range(len(model))] == model
    assert segment.get(-1) is None
    assert segment.get(len(model)) is None
    around = {value + by for value in [*model, spec.start, spec.end, *spec.array.values()] for by in (-1, 0, 1)}
    for value in around | {0, TOP, -1, 2**64}:
        assert segment.position(value) == (model.index(value) if value in model else None)


@pytest.mark.parametrize(("kind", "width"), KINDS, ids=str)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_slice_and_mask_take_the_writers_form(kind: str, width: int, data: st.DataObject) -> None:
    spec = data.draw(segments_of(kind, width))
    segment, model = spec.ours(), spec.values()
    lo = data.draw(st.integers(0, len(model)))
    hi = data.draw(st.integers(lo, len(model)))
    assert segment.slice(lo, 0).count == 0
    if hi > lo:
        part = segment.slice(lo, hi - lo)
        # A piece of an array that repeats a value is beyond the writer; it stays an array.
        assert part.encode() == by_protobuf(write(model[lo:hi]))
        assert part.values().tolist() == model[lo:hi]
    if model:
        gone = data.draw(st.sets(st.integers(0, len(model) - 1), min_size=1))
        rest = [value for i, value in enumerate(model) if i not in gone]
        masked = segment.mask(np.array(sorted(gone), np.int64))
        assert masked.values().tolist() == rest
        wanted = write(rest)
        if kind == "array" and rest:
            assert isinstance(masked, ArraySegment)
            assert masked.array == EncodedArray.from_values(as_array(rest))
        else:
            assert masked.encode() == by_protobuf(wanted)


@given(id_lists())
def test_writers_choice(ids: list[int]) -> None:
    segment = from_values(as_array(ids))
    assert segment.encode() == by_protobuf(write(ids))
    assert segment.values().tolist() == ids


@given(segments, st.data())
def test_position_and_get_are_inverse(spec: Seg, data: st.DataObject) -> None:
    segment = spec.ours()
    if segment.count:
        i = data.draw(st.integers(0, segment.count - 1))
        value = segment.get(i)
        assert value is not None
        first = segment.position(value)
        assert first is not None
        assert first <= i
        assert segment.get(first) == value


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


@each("hole", [1, 16_383, 16_384, 16_385, 32_769, 39_999])
def test_a_hole_is_found_once_wherever_it_is(hole: int) -> None:
    """The values are looked at in blocks of 2**14."""
    values = np.arange(40_000, dtype=np.uint64)
    values[hole:] += np.uint64(1)
    assert from_values(values) == RangeWithHoles(0, 40_001, EncodedArray.from_values(as_array([hole])))
