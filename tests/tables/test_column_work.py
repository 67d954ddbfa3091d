"""Columns that a schema of few bytes has are charged where data files lack them, are compared or are written."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import SharedWork
from dvcodec.io import Storage
from dvcodec.tables import live_batches, open_table
from dvcodec.tables.column_work import AbsentColumns, charge_columns, charge_equality
from samples.delta_log import empty_table
from samples.iceberg_table import Commit, build_iceberg, field_ids


def wide_table(folder: Path, columns: int, files: int, stored: int) -> None:
    """A table of many columns, whose data files have some of them; only the first has values."""
    names = [f"c{i}" for i in range(columns)]
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    empty_table(folder)
    log = folder / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    data = pa.table({name: pa.array([None if i else 7], pa.int64()) for i, name in enumerate(names[:stored])})
    for i in range(files):
        pq.write_table(data, folder / f"{i}.parquet")
        add = {"path": f"{i}.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add | {"stats": '{"numRecords":1}'}})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_columns_that_data_files_lack_are_charged_together(tmp_path: Path) -> None:
    wide_table(tmp_path / "few", 2_000, 40, 1)
    table = open_table(tmp_path / "few")
    for _ in range(3):  # reading a file again draws nothing
        assert sum(batch.num_rows for batch in live_batches(table)) == 40
    wide_table(tmp_path / "many", 2_000, 300, 1)
    table = open_table(tmp_path / "many")
    with pytest.raises(
        LimitExceeded, match=r"\d\.parquet: work for columns that data files lack .* in all metadata files"
    ):
        list(live_batches(table))
    assert len(list(live_batches(table, columns=[f"c{i}" for i in range(100)]))) == 300


def test_columns_that_data_files_have_draw_nothing(tmp_path: Path) -> None:
    """Nor do a hundred that they lack, in a table that has grown."""
    wide_table(tmp_path, 2_000, 6, 1_900)
    table = open_table(tmp_path)
    table.folder.storage.metadata_work.most = 0
    assert sum(batch.num_rows for batch in live_batches(table)) == 6


def test_values_that_data_files_lack_are_charged(tmp_path: Path) -> None:
    """A default of 20 kB in every row; short ones, of any number of rows, are not."""
    for default, rows in (("x" * 20_000, 10_000), ("x" * 20_000, 40_000), ("x" * 200, 100_000)):
        ids = field_ids(pa.schema([pa.field("id", pa.int64())]), (1,))
        late = {"id": 2, "name": "late", "required": False, "type": "string", "initial-default": default}
        fields = [{"id": 1, "name": "id", "required": False, "type": "long"}, late]
        folder = tmp_path / f"{len(default)}-{rows}"
        build_iceberg(folder, Commit(data={"a": pa.table([pa.array([7] * rows, pa.int64())], ids)}), fields=fields)
        table, seen = open_table(folder), 0
        with pytest.raises(LimitExceeded, match="columns that data files lack") if rows == 40_000 else nullcontext():
            for batch in live_batches(table):
                seen += batch.num_rows
                assert batch.nbytes < 20_000_000
                assert batch["late"][0].as_py() == default
        assert seen == rows or 15_000 < seen < rows == 40_000


def test_equality_deletes_are_charged_by_what_they_compare() -> None:
    """Eight columns of 2,000 data files; twice as many have the bytes of twice the metadata."""
    charge_equality("v1", 8_000, SharedWork())
    with pytest.raises(LimitExceeded, match=r"^equality deletes of v1: work for columns that equality deletes compare"):
        charge_equality("v1", 16_000, SharedWork())
    nothing = SharedWork(0)
    nothing.note("manifest", 16_000 * 8)
    charge_equality("v1", 16_000, nothing)


def test_columns_to_write_are_charged_beyond_what_the_metadata_allows() -> None:
    shared = SharedWork()
    charge_columns("/t", 8_192, shared)
    with pytest.raises(LimitExceeded, match=r"^columns of /t: work for columns to write \(columns= and --column"):
        charge_columns("/t", 8_193, shared)
    shared.note("metadata", 16)  # 256 units for each byte
    charge_columns("/t", 8_194, shared)


@pytest.mark.parametrize(
    ("count", "repeated", "rows", "units"),
    [(100, 256, 255, 0), (101, 0, 256, 0), (101, 0, 255, 101 * 256), (0, 257, 32, 2), (101, 272, 255, 26_111)],
)
def test_work_of_a_batch(count: int, repeated: int, rows: int, units: int, tmp_path: Path) -> None:
    """Up to 100 columns and 256 bytes of values are free, and columns in batches of 256 rows or more."""
    data = tmp_path / "data"
    data.touch()
    for most in range(max(units - 1, 0), units + 1):
        storage = Storage()
        storage.metadata_work.most = most
        with pytest.raises(LimitExceeded, match="columns that data files lack") if most < units else nullcontext():
            AbsentColumns(str(data), storage, count, repeated).charge(rows)
    assert AbsentColumns(str(data), Storage(), count, repeated).rows(1 << 30) == (1 << 24) // max(repeated, 1)
    assert AbsentColumns(str(data), Storage(), count, 1 << 25).rows(7) == 1
