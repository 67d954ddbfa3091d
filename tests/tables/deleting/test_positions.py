"""Rows by positions: any spelling of a data file, nothing beyond its rows; Parquet files in a folder."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.io import Storage
from dvcodec.tables.deleting.positions import list_parquet, positions_finder
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


# ---------------------------------------------------------------------- parquet files in a folder that is not a table


SEEN = {"part-0.parquet", "000000_0", "_year=2024/a.parquet", "k=1/_b=2/part-0", "deep/a"}
HIDDEN = {"_SUCCESS", "_temporary/0/part-1.parquet", ".part-0.parquet.crc", "k=1/.hidden/a.parquet", "a._COPYING_"}


def test_the_files_that_spark_reads(tmp_path: Path) -> None:
    for name in SEEN | HIDDEN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"PAR1")
    found = [file.location for file in list_parquet(str(tmp_path), Storage())]
    assert found == sorted(f"{tmp_path}/{name}" for name in SEEN)


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_linked_folder_is_refused(tmp_path: Path) -> None:
    """Spark reads what is behind it; keys or rows that are left out would be a wrong delete."""
    for name in ("t/k=1", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.parquet").touch()
    (tmp_path / "t/_hidden").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t/b.parquet").symlink_to(tmp_path / "elsewhere/a.parquet")
    found = [file.location for file in list_parquet(str(tmp_path / "t"), Storage())]
    assert found == [str(tmp_path / "t/b.parquet"), str(tmp_path / "t/k=1/a.parquet")]
    (tmp_path / "t/k=2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="k=2: a link to a folder, and links are not followed"):
        list_parquet(str(tmp_path / "t"), Storage())
