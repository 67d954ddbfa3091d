"""Vectors against vectors."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import (
    Diff,
    RowSet,
    UsageError,
    diff,
    merge,
    read_rows,
)
from samples.containers import SAMPLES

POSITIONS = st.integers(0, 40) | st.integers(0, 1 << 34)
ROW_SETS = st.lists(POSITIONS, max_size=30).map(RowSet)
MAPPINGS = st.dictionaries(st.sampled_from(["a", "b", "c", None]), ROW_SETS)


# ---------------------------------------------------------------------- diff


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
