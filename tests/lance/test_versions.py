"""Version sequences: real ones, runs that count by length alone, and what is refused."""

from __future__ import annotations

import json
import sys
import tracemalloc
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from battery import answers_limited, check_buffers, check_truncations, flipped, outcome
from cases import each
from dvcodec import DecodeError, LimitExceeded, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.lance import (
    ArraySegment,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
    RowDatasetVersionSequence,
    Segment,
    SortedArray,
    VersionRun,
    decode_versions,
    encode_versions,
)
from samples.lance import TOP, Seg, message, segments

KIND_NAMES: dict[str, type[Segment]] = {
    "range": RangeSegment,
    "range_with_holes": RangeWithHoles,
    "range_with_bitmap": RangeWithBitmap,
    "sorted_array": SortedArray,
    "array": ArraySegment,
}
versions = st.one_of(st.integers(0, 300), st.sampled_from([2**32, 2**63, TOP]))
runs = st.lists(st.tuples(segments, versions), max_size=6)


def run_bytes(parts: list[tuple[Seg, int]]) -> bytes:
    entries = [message("VersionRun", span=span.message(), version=version) for span, version in parts]
    data: bytes = message("VersionSequence", runs=entries).SerializeToString()
    return data


def fragments(vectors: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((vectors / "lance" / "row_versions.json").read_text())["fragments"]
    return found


def test_sequences_of_datasets(vectors: Path) -> None:
    cases = fragments(vectors)
    assert len(cases) == 50
    for case in cases:
        for name, listed in (("created_hex", "created_runs"), ("last_updated_hex", "updated_runs")):
            data = bytes.fromhex(case[name])
            found = decode_versions(data)
            assert encode_versions(found) == data
            assert encode_versions(RowDatasetVersionSequence(found.runs)) == data
            assert found.count == len(found) == case["physical_rows"]
            wanted: list[int] = []
            for run, (span, length, version) in zip(found.runs, case[listed], strict=True):
                assert type(run.span) is KIND_NAMES[span[0]]
                assert isinstance(run.span, (RangeSegment, RangeWithHoles, RangeWithBitmap))
                assert [run.span.start, run.span.end] == span[1:3]
                assert (run.count, run.version) == (length, version)
                wanted += [version] * length
            assert found.to_numpy().tolist() == wanted
            assert [found.get(i) for i in range(0, len(wanted), 7)] == wanted[::7]


def test_files_of_datasets(vectors: Path) -> None:
    names = [*(vectors / "lance").glob("*.created.bin"), *(vectors / "lance").glob("*.last_updated.bin")]
    assert len(names) >= 30
    for path in names:
        data = path.read_bytes()
        assert encode_versions(RowDatasetVersionSequence(decode_versions(data).runs)) == data


@settings(max_examples=examples(200))
@given(runs)
def test_sequence_is_its_list(parts: list[tuple[Seg, int]]) -> None:
    data = run_bytes(parts)
    found = decode_versions(data)
    model = [version for span, version in parts for _ in span.values()]
    assert found.runs == tuple(VersionRun(span.ours(), version) for span, version in parts)
    assert encode_versions(found) == data
    assert encode_versions(RowDatasetVersionSequence(found.runs)) == data
    assert found.to_numpy().tolist() == model
    assert found.to_numpy().dtype == np.uint64
    assert found.count == len(found) == len(model)
    assert [found.get(i) for i in range(-1, len(model) + 1)] == [None, *model, None]
    for run, (span, _) in zip(found.runs, parts, strict=True):
        assert run.count == len(span.values())


@given(st.lists(st.one_of(st.integers(0, 3), versions), max_size=40))
def test_from_versions(values: list[int]) -> None:
    found = RowDatasetVersionSequence.from_versions(values)
    at, wanted = 0, []
    for version, group in groupby(values):
        size = len(list(group))
        wanted.append((Seg("range", at, at + size), version))
        at += size
    assert encode_versions(found) == run_bytes(wanted)
    assert found.to_numpy().tolist() == values
    assert RowDatasetVersionSequence.from_versions(np.array(values, np.uint64)) == found
    assert decode_versions(encode_versions(found)) == found


def test_bytes_by_hand() -> None:
    assert encode_versions(RowDatasetVersionSequence.from_versions([1] * 10)) == bytes.fromhex(
        "0a08 0a04 0a02 100a 1001"
    )
    assert encode_versions(RowDatasetVersionSequence.from_versions([])) == b""
    assert decode_versions(b"") == RowDatasetVersionSequence()
    assert decode_versions(b"").to_numpy().dtype == np.uint64


def test_values_of_spans_mean_nothing() -> None:
    parts = [(Seg("bitmap", 900, 904, bits=(1, 0, 1, 1)), 3), (Seg("range", 5, 7), 3), (Seg("range", 0, 1), 9)]
    found = decode_versions(run_bytes(parts))
    assert found.to_numpy().tolist() == [3, 3, 3, 3, 3, 9]
    assert [run.version for run in found.runs] == [3, 3, 9]  # equal neighbours stay apart


@pytest.mark.parametrize("values", [[-1], [2**64], [1.5], np.array([[1]]), np.array([-1])], ids=str)
def test_invalid_versions_are_refused(values: Any) -> None:
    with pytest.raises(UsageError):
        RowDatasetVersionSequence.from_versions(values)


RANGE = b"\x0a\x04\x0a\x02\x10\x03"  # span of 3 rows


@each(
    ("data", "wanted"),
    [
        (b"\x0a\x06" + RANGE, [0, 0, 0]),
        (b"\x0a\x08" + RANGE + b"\x10\x00", [0, 0, 0]),
        (b"\x0a\x08\x10\x07" + RANGE, [7, 7, 7]),
        (b"\x0a\x0a" + RANGE + b"\x10\x01\x10\x02", [2, 2, 2]),
        (b"\x0a\x0a" + RANGE + b"\x52\x02\x00\x00", [0, 0, 0]),
        (b"\x0a\x09" + RANGE + b"\x10\x81\x00", [1, 1, 1]),
        (b"\x0a\x0c" + RANGE + b"\x0a\x04\x0a\x02\x08\x01", [0, 0]),
        (b"\x0a\x0e" + RANGE + b"\x0a\x04\x1a\x02\x10\x00\x10\x05", []),
    ],
    ids=["no version", "zero", "order", "last wins", "unknown field", "overlong", "split span", "other span wins"],
)
def test_accepted_forms_come_back_as_they_were(data: bytes, wanted: list[int]) -> None:
    found = decode_versions(data)
    assert found.to_numpy().tolist() == wanted
    assert encode_versions(found) == data
    check_buffers(decode_versions, data)


@each(
    ("data", "kind", "what", "offset"),
    [
        (b"\x12\x00", NotCanonical, "field of RowDatasetVersionSequence", 0),
        (b"\x0a\x00", NotCanonical, "run", 2),
        (b"\x0a\x02\x10\x07", NotCanonical, "run", 2),
        (b"\x0a\x02\x0a\x00", NotCanonical, "segment", 4),
        (b"\x0a\x08" + RANGE + b"\x12\x00", NotCanonical, "version", 8),
        (b"\x0a\x02\x08\x01", NotCanonical, "span", 2),
        (b"\x08\x01", NotCanonical, "run", 0),
        (b"\x0a\x06\x0a\x04\x0a\x02\x08\x03", NotCanonical, "Range", 4),
        (b"\x0a\x06\x0a\x04\x32\x02\x08\x03", Unsupported, "RangeWithRuns", 4),
        (b"\x0a\x09" + RANGE, Truncated, "field 1", 2),
    ],
)
def test_refused_with_what_and_where(data: bytes, kind: type[DecodeError], what: str, offset: int) -> None:
    for base in (0, 70):
        with pytest.raises(DecodeError) as caught:
            decode_versions(data, source="m", base=base)
        assert type(caught.value) is kind
        assert what in caught.value.what
        assert (caught.value.source, caught.value.offset) == ("m", base + offset)


def test_too_many_rows() -> None:
    whole = message("VersionRun", span=Seg("range", 0, TOP).message(), version=1)
    one = message("VersionRun", span=Seg("range", 0, 1).message(), version=2)
    data = message("VersionSequence", runs=[whole]).SerializeToString()
    found = decode_versions(data)
    assert found.count == TOP
    assert found.get(2**63) == 1
    with pytest.raises(NotCanonical) as caught:
        decode_versions(message("VersionSequence", runs=[whole, one]).SerializeToString())
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("rows", len(data), TOP + 1)


MIXED = run_bytes(
    [
        (Seg("range", 0, 300), 1),
        (Seg("bitmap", 0, 12, bits=(1, 0, 1) * 4), 2**40),
        (Seg("range", 7, 9), 3),
    ]
)


def test_cuts_are_refused_but_between_runs() -> None:
    whole = decode_versions(MIXED)
    borders = {len(encode_versions(RowDatasetVersionSequence(whole.runs[:i]))) for i in range(len(whole.runs))}
    check_truncations(
        decode_versions,
        MIXED,
        allowed=lambda found, size: size in borders and found.runs == whole.runs[: len(found.runs)],
    )


def test_every_flipped_bit_ends_in_a_value_or_a_decode_error() -> None:
    for bit in range(8 * len(MIXED)):
        damaged = flipped(MIXED, bit)
        found = outcome(decode_versions, damaged)
        if isinstance(found, RowDatasetVersionSequence):
            assert encode_versions(found) == damaged
            if found.count < 10_000:
                assert len(found.to_numpy()) == found.count


@given(st.binary(max_size=60))
def test_any_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    for form in (data, b"\x0a" + bytes([len(data)]) + data):
        found = outcome(decode_versions, form)
        assert isinstance(found, DecodeError) or encode_versions(found) == form


def test_hazard_runs_are_not_expanded_beyond_the_limit() -> None:
    found = decode_versions(run_bytes([(Seg("range", 0, 2**63), 4), (Seg("range", 0, 2**62), 5)]))
    tracemalloc.start()
    with pytest.raises(LimitExceeded) as caught:
        found.to_numpy()
    assert caught.value.actual == found.count == 2**63 + 2**62
    assert found.get(2**63 - 1) == 4
    assert found.get(2**63) == 5
    assert found.get(2**63 + 2**62) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    with pytest.raises(LimitExceeded):
        RowDatasetVersionSequence.from_versions([1] * 5).to_numpy(max_rows=4)


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_hazard_bomb_is_answered_in_little_memory() -> None:
    data = run_bytes([(Seg("range", 0, 2**40), 1)])
    setup = f"from dvcodec.lance import decode_versions; data = {data!r}"
    assert answers_limited([(setup, "print(len(decode_versions(data).to_numpy()))")]) == ["LimitExceeded"]
