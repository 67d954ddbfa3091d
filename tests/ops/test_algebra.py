"""Vectors against vectors."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import outcome
from cases import each
from dvcodec import (
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    Diff,
    LimitExceeded,
    Limits,
    RowSet,
    Unsupported,
    UsageError,
    delta,
    diff,
    iceberg,
    merge,
    read_rows,
)
from samples.containers import SAMPLES, A, B, C, puffin_file

POSITIONS = st.integers(0, 40) | st.integers(0, 1 << 34)
ROW_SETS = st.lists(POSITIONS, max_size=30).map(RowSet)
MAPPINGS = st.dictionaries(st.sampled_from(["a", "b", "c", None]), ROW_SETS)


# ---------------------------------------------------------------------- diff


@pytest.mark.parametrize(
    ("old", "new", "added", "restored"),
    [
        ([], [], [], []),
        ([], [1], [1], []),
        ([1], [], [], [1]),
        ([1, 2], [2, 3], [3], [1]),
        ([1, 1 << 33], [1, (1 << 33) + 1], [(1 << 33) + 1], [1 << 33]),
    ],
)
def test_diff_says_what_was_added_and_restored(
    old: list[int], new: list[int], added: list[int], restored: list[int]
) -> None:
    found = diff(RowSet(old), RowSet(new))
    assert found == Diff(RowSet(added), RowSet(restored))
    assert (list(found.added), list(found.restored)) == (added, restored)


@given(ROW_SETS, ROW_SETS)
def test_diff_laws(old: RowSet, new: RowSet) -> None:
    added, restored = diff(old, new)
    assert set(added) == set(new) - set(old)
    assert set(restored) == set(old) - set(new)
    assert (old | added) - restored == new
    assert added.isdisjoint(old)
    assert diff(new, old) == (restored, added)
    assert diff(old, old) == Diff(RowSet(), RowSet())


# ---------------------------------------------------------------------- merge


def test_merge_unites_by_data_file() -> None:
    assert merge([]) == {}
    assert merge([{}, {}]) == {}
    with_none: list[dict[str | None, RowSet]] = [{"a": A}, {None: B, "a": C}]
    assert merge(with_none) == {"a": A | C, None: B}
    assert merge([{"a": RowSet()}]) == {"a": RowSet()}


@given(st.lists(MAPPINGS, max_size=5))
def test_merge_laws(mappings: list[dict[str | None, RowSet]]) -> None:
    merged = merge(mappings)
    assert list(merged) == list(dict.fromkeys(path for mapping in mappings for path in mapping))
    for path, rows in merged.items():
        assert set(rows) == {row for mapping in mappings for row in mapping.get(path, ())}
    assert merge(reversed(mappings)) == merged
    assert merge([*mappings, *mappings]) == merged
    assert merge([merged]) == merged
    assert merge([merge(mappings[:2]), merge(mappings[2:])]) == merged


def test_merge_leaves_its_arguments_alone() -> None:
    first, second = {"a": RowSet([1])}, {"a": RowSet([2])}
    merged = merge([first, second])
    assert (first, second) == ({"a": RowSet([1])}, {"a": RowSet([2])})
    assert merged == {"a": RowSet([1, 2])}


# ---------------------------------------------------------------------- read_rows


@each("name", SAMPLES)
def test_rows_of_any_container_are_read(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name]
    expected: dict[str | None, RowSet]
    if sample.data_files:
        expected = dict(zip(sample.data_files, sample.rows, strict=True))
    else:
        if len(sample.rows) > 1:
            with pytest.raises(UsageError, match="without data file names"):
                read_rows(sample.data)
            return
        expected = {None: sample.rows[0]} if sample.vectors else {}
    assert read_rows(sample.data) == expected
    path = tmp_path / "x"
    path.write_bytes(sample.data)
    assert read_rows(path) == expected
    with path.open("rb") as file:
        assert read_rows(file) == expected


def test_vectors_of_one_data_file_are_united() -> None:
    blobs = [iceberg.encode(rows) for rows in (A, C)]
    two = puffin_file({"a": A, "b": C})
    payload = two[4 + sum(map(len, blobs)) + 4 : -12].replace(b'"b"', b'"a"')
    data = two[: 4 + sum(map(len, blobs)) + 4] + payload + struct.pack("<i", len(payload)) + two[-8:]
    assert read_rows(data) == {"a": A | C}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("roaring/format-spec/bitmapwithruns.bin", 200_100),
        ("roaring/format-spec/bitmapwithoutruns.bin", 200_100),
        ("roaring/format-spec/portable_bitmap64.bin", 188_424),
    ],
)
def test_bitmap_of_the_specification_is_read(vectors: Path, name: str, rows: int) -> None:
    assert [len(found) for found in read_rows(vectors / name).values()] == [rows]


def test_both_bitmaps_of_the_specification_hold_the_same_rows(vectors: Path) -> None:
    folder = vectors / "roaring/format-spec"
    assert read_rows(folder / "bitmapwithruns.bin") == read_rows(folder / "bitmapwithoutruns.bin")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", Unsupported),
        (iceberg.encode(A)[:-1] + b"\0", ChecksumMismatch),
        (b"\1" + delta.encode(B)[:-1] + b"\0", ChecksumMismatch),
        (SAMPLES["puffin"].data.replace(b'"cardinality":"3"', b'"cardinality":"4"'), CardinalityMismatch),
    ],
)
def test_corrupt_container_is_refused(data: bytes, kind: type[DecodeError]) -> None:
    with pytest.raises(kind):
        read_rows(data)


def test_limits_are_kept() -> None:
    for limits in (Limits(max_cardinality=100), Limits(max_records=2)):
        with pytest.raises(LimitExceeded):
            read_rows(SAMPLES["puffin"].data, limits=limits)


@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 1 << 20), st.integers(0, 255))
def test_any_damage_ends_in_rows_or_a_decode_error(name: str, at: int, byte: int) -> None:
    data = bytearray(SAMPLES[name].data)
    data[at % len(data)] = byte
    with suppress(UsageError):  # of a valid file that does not name its data files
        outcome(read_rows, bytes(data))
