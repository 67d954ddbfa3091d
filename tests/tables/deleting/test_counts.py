"""Metadata that state too few rows: a data file is not removed for the rows that they know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dvcodec import NotCanonical, RowSet
from dvcodec.tables import audit, commit_repair, delete, open_table, repair_plan
from dvcodec.tables.iceberg.upgrade_deletes import upgrade_deletes
from samples.delta_table import DeltaBuilder, rows_from
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon

STATED = 3


def state(entry: dict[str, Any]) -> dict[str, Any]:
    file = entry["data_file"]
    file["record_count"] = STATED if not file["content"] else file["record_count"]
    return entry


def iceberg(folder: Path) -> str:
    return build_iceberg(folder, Commit(data={"a": 20}), tweak_entry=state).paths["a"]


def delta(folder: Path) -> str:
    made = DeltaBuilder(folder)
    made.create()
    add = made.write_file("a.parquet", rows_from(0))
    made.commit({"add": add | {"stats": json.dumps({"numRecords": STATED})}})
    return "a.parquet"


def paimon(folder: Path) -> str:
    file = PaimonFile("a.parquet", pa.table({"id": range(10)}), more={"_ROW_COUNT": STATED})
    build_paimon(folder, [(0, "id", "BIGINT")], [[file]])
    return "bucket-0/a.parquet"


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("craft", [iceberg, delta, paimon])
def test_positions_that_are_all_that_metadata_state(craft: Callable[[Path], str], tmp_path: Path) -> None:
    path = craft(tmp_path / "t")
    before = files_of(tmp_path)
    with pytest.raises(NotCanonical, match=r"rows of the data file: expected 3 rows \(metadata\), found \d+"):
        delete(open_table(tmp_path / "t"), positions={path: RowSet(range(STATED))})
    assert files_of(tmp_path) == before
    delete(open_table(tmp_path / "t"), positions={path: RowSet([1])})  # a vector loses no other row


def test_position_deletes_that_are_all_that_metadata_state(tmp_path: Path) -> None:
    deletes = Commit(deletes=[{"a": RowSet(range(STATED))}])
    build_iceberg(tmp_path / "t", Commit(data={"a": 20}), deletes, tweak_entry=state)
    before = files_of(tmp_path)
    with pytest.raises(NotCanonical, match=r"rows of the data file: expected 3 rows \(metadata\), found 20"):
        upgrade_deletes(open_table(tmp_path / "t"))
    assert files_of(tmp_path) == before


def test_a_repair_removes_no_such_file(tmp_path: Path) -> None:
    def wrong(entry: dict[str, Any]) -> dict[str, Any]:
        entry["data_file"]["record_count"] = STATED - bool(entry["data_file"]["content"])
        return entry

    folder = build_iceberg(
        tmp_path / "t", Commit(data={"a": 20}, vectors={"a": RowSet(range(STATED))}), tweak_entry=wrong
    ).folder
    table = open_table(folder)
    done = commit_repair(repair_plan(audit(table), table), table)
    assert not done.committed
    assert "expected 3 rows (metadata), found 20" in str(done)
