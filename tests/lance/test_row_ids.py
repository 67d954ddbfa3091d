"""Row-id sequences: real ones, laws against lists, what is refused and where, and bytes that come back as they were."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from dvcodec import LimitExceeded, RowSet, UsageError
from dvcodec.lance import (
    ArraySegment,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
    RowIdSequence,
    Segment,
    SortedArray,
    decode_row_ids,
    encode_row_ids,
    rechunk,
)
from samples.lance import (
    TOP,
    Seg,
    as_array,
    expand,
    field,
    id_lists,
    join,
    scalar,
    segment,
    sequence_bytes,
    sequences,
    u16,
    write,
    write_array,
)

KIND_NAMES: dict[str, type[Segment]] = {
    "range": RangeSegment,
    "range_with_holes": RangeWithHoles,
    "range_with_bitmap": RangeWithBitmap,
    "sorted_array": SortedArray,
    "array": ArraySegment,
}


# ---------------------------------------------------------------------- real bytes


def corpus(vectors: Path) -> list[dict[str, Any]]:
    path = vectors / "lance" / "rowidsequence_corpus.json"
    cases: list[dict[str, Any]] = json.loads(path.read_text())["cases"]
    return cases


def ids_of(case: dict[str, Any]) -> list[int]:
    if "values_runs" in case:
        return [value for start, stop in case["values_runs"] for value in range(start, stop)]
    ids: list[int] = case["values"]
    return ids


def test_corpus_of_pylance_both_ways(vectors: Path) -> None:
    cases = corpus(vectors)
    assert len(cases) == 251
    for case in cases:
        ids, data = ids_of(case), bytes.fromhex(case["hex"])
        assert encode_row_ids(RowIdSequence.from_values(ids)) == data, case["name"]
        found = decode_row_ids(data)
        assert found.to_numpy().tolist() == ids, case["name"]
        assert encode_row_ids(found) == data, case["name"]
        assert encode_row_ids(RowIdSequence(found.segments)) == data, case["name"]
        if case["kind"] is not None:
            assert type(found.segments[0]) is KIND_NAMES[case["kind"]], case["name"]


# ---------------------------------------------------------------------- laws


@settings(max_examples=examples(300))
@given(sequences)
def test_sequence_is_its_list(specs: list[Seg]) -> None:
    data, model = sequence_bytes(specs), expand(specs)
    found = decode_row_ids(data)
    assert found == RowIdSequence(tuple(spec.ours() for spec in specs))
    assert encode_row_ids(found) == data
    assert encode_row_ids(RowIdSequence(found.segments)) == data
    assert found.to_numpy().tolist() == model
    assert found.to_numpy().dtype == np.uint64
    assert found.count == len(found) == len(model)
    assert [found.get(i) for i in range(-1, len(model) + 1)] == [None, *model, None]
    for value in {known + by for known in model for by in (-1, 0, 1)} | {0, TOP, -1}:
        assert found.position(value) == (model.index(value) if value in model else None)


@settings(max_examples=examples(200))
@given(sequences, st.data())
def test_slice(specs: list[Seg], data: st.DataObject) -> None:
    model = expand(specs)
    lo = data.draw(st.integers(0, len(model)))
    hi = data.draw(st.integers(lo, len(model)))
    found = decode_row_ids(sequence_bytes(specs)).slice(lo, hi - lo)
    pieces, at = [], 0
    for spec in specs:
        values = spec.values()
        pieces.append(write(values[max(lo - at, 0) : max(hi - at, 0)]))
        at += len(values)
    assert found.to_numpy().tolist() == model[lo:hi]
    assert encode_row_ids(found) == sequence_bytes(join(pieces))


@settings(max_examples=examples(200))
@given(sequences, st.data())
def test_mask(specs: list[Seg], data: st.DataObject) -> None:
    model = expand(specs)
    gone = data.draw(st.sets(st.integers(0, len(model) - 1))) if model else set()
    found = decode_row_ids(sequence_bytes(specs)).mask(gone)
    assert found.to_numpy().tolist() == [value for i, value in enumerate(model) if i not in gone]
    wanted, at = [], 0
    for spec in specs:
        values = spec.values()
        rest = [value for i, value in enumerate(values, at) if i not in gone]
        if rest == values:
            wanted += [spec] if rest else []
        elif rest:
            # The form is chosen anew, but what was in any order stays an array.
            ordered = write(rest)
            wanted.append(Seg("array", array=write_array(rest)) if spec.kind == "array" else ordered)
        at += len(values)
    assert encode_row_ids(found) == sequence_bytes(wanted)
    assert found == decode_row_ids(sequence_bytes(specs)).mask(RowSet(gone))


@settings(max_examples=examples(100))
@given(st.lists(sequences, max_size=3), st.data())
def test_rechunk(groups: list[list[Seg]], data: st.DataObject) -> None:
    specs = [spec for group in groups for spec in group]
    model = expand(specs)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(model)), max_size=4)))
    sizes = [b - a for a, b in pairwise([0, *cuts, len(model)])]
    found = rechunk([decode_row_ids(sequence_bytes(group)) for group in groups], sizes)
    whole = decode_row_ids(sequence_bytes(specs))
    at = 0
    for size, chunk in zip(sizes, found, strict=True):
        assert chunk.to_numpy().tolist() == model[at : at + size]
        assert chunk == whole.slice(at, size)
        at += size


@settings(max_examples=examples(300))
@given(id_lists())
def test_from_values_is_the_writers_rule(ids: list[int]) -> None:
    found = RowIdSequence.from_values(ids)
    assert found.to_numpy().tolist() == ids
    assert encode_row_ids(found) == (sequence_bytes([write(ids)]) if ids else b"")
    assert decode_row_ids(encode_row_ids(found)) == found
    assert RowIdSequence.from_values(as_array(ids)) == found
    assert RowIdSequence.from_values(iter(ids)) == found


@pytest.mark.parametrize("rows", [[10], [2, 11], [2**40]])
def test_mask_of_rows_that_are_not_there(rows: list[int]) -> None:
    with pytest.raises(UsageError, match="sequence of 10"):
        RowIdSequence.from_values(range(10)).mask(rows)
    with pytest.raises(UsageError):
        RowIdSequence().mask([0])


@pytest.mark.parametrize("sizes", [[], [9], [5, 6], [11, -1], [-1, 11]])
def test_rechunk_into_other_rows(sizes: list[int]) -> None:
    with pytest.raises(UsageError):
        rechunk([RowIdSequence.from_values(range(10))], sizes)


# ---------------------------------------------------------------------- damage


# ---------------------------------------------------------------------- hazards


def test_hazard_ranges_are_not_expanded_beyond_the_limit() -> None:
    found = decode_row_ids(segment(1, scalar(2, TOP)))
    assert found.count == TOP
    tracemalloc.start()
    for sequence in (found, decode_row_ids(segment(2, scalar(2, TOP), field(3, u16(5))))):
        with pytest.raises(LimitExceeded) as caught:
            sequence.to_numpy()
        assert "max_rows" in caught.value.what
        assert caught.value.actual == sequence.count
        assert sequence.get(4) == 4
        assert sequence.position(2**62) == 2**62 - (sequence is not found)
        assert sequence.slice(1, 3).to_numpy().tolist() == [1, 2, 3]
        assert sequence.slice(2**62, 2).count == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    with pytest.raises(LimitExceeded):
        RowIdSequence.from_values(range(5)).to_numpy(max_rows=4)
    assert len(RowIdSequence.from_values(range(5)).to_numpy(max_rows=5)) == 5
