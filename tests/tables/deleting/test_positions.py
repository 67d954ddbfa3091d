"""Rows by positions: any spelling of a data file, nothing beyond its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.tables.deleting.positions import positions_finder
from samples.memory_table import ROWS, FakeTable, make_table


def found(table: FakeTable, positions: Any) -> list[RowSet]:
    finder = positions_finder(positions)
    snapshot = table.snapshot()
    finder.prepare(snapshot)
    assert not finder.can_search_again
    parts = [finder.find(snapshot, file) for file in snapshot.data_files]
    assert not any(part.groups_skipped for part in parts)
    rows = [part.rows for part in parts]
    assert [finder.may_match(snapshot, file) for file in snapshot.data_files] == [bool(one) for one in rows]
    return rows


def test_spellings(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    path = table.snapshot().data_files[1].path
    spelled = {path: RowSet([1, 2]), f"file://{path}": [3], "b.parquet": np.array([4, 4]), "data/a.parquet": RowSet()}
    assert found(table, spelled) == [RowSet(), RowSet([1, 2, 3, 4]), RowSet(), RowSet()]


def test_arrow_and_parquet(tmp_path: Path) -> None:
    table = make_table(tmp_path / "table")
    paths = [file.path for file in table.snapshot().data_files]
    rows = pa.table({"file_path": [paths[2], paths[0], paths[2]], "pos": [7, 0, 5], "row": [None] * 3})
    pq.write_table(rows, tmp_path / "deletes.parquet")
    wanted = [RowSet([0]), RowSet(), RowSet([5, 7]), RowSet()]
    for form in (rows, rows.to_reader(1), rows.to_batches()[0], tmp_path / "deletes.parquet"):
        assert found(table, form) == wanted


@each(
    ("positions", "message"),
    [
        ({"a.parquet": RowSet([ROWS])}, r"a.parquet: position 1000 is beyond its 1000 rows"),
        ({"nope.parquet": RowSet([1])}, "no data file nope.parquet in snapshot 2"),
        ({"a.parquet": [-1]}, "negative"),
        (pa.table({"file_path": ["a.parquet"]}), "positions: expected a column 'pos', found 0"),
        (pa.table({"file_path": ["a.parquet"], "pos": [None]}), "null"),
        (pa.table({"file_path": [1], "pos": [1]}), "expected strings"),
        ({"a.parquet": RowSet([2**40])}, "beyond"),
        ([1, 2], "not list"),
    ],
)
def test_refused(positions: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        found(make_table(tmp_path), positions)


def test_unknown_count(tmp_path: Path) -> None:
    """Rows that the metadata does not count are counted in the file, if that is possible."""
    table = make_table(tmp_path)
    last = table.states[-1]
    table.states[-1] = replace(last, data_files=(replace(last.data_files[0], physical_rows=None),), vectors=())
    with pytest.raises(UsageError, match="its number of rows is not known"):
        found(table, {"a.parquet": RowSet([1])})
    assert found(table, {"a.parquet": RowSet()}) == [RowSet()]
