"""Counts of tables with odd metadata: they are those of the reference implementation, bounds of them, or unknown."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cli_runner import run
from dvcodec.tables import export_live, live_batches, open_table
from dvcodec.tables.snapshots.changes import history
from dvcodec.tables.snapshots.scanning import scan, totals
from samples.iceberg_equality import by_id, craft_equality
from samples.iceberg_table import STEP
from samples.paimon_table import PaimonFile, build_paimon


def test_iceberg_with_equality_deletes(tmp_path: Path) -> None:
    """pyiceberg does not read them: the truth is what they name."""
    root = craft_equality(tmp_path / "t", {4: by_id(0, 2), 5: by_id(STEP + 8)}).folder
    table = open_table(root)
    live = pc.sum([batch.num_rows for batch in live_batches(table)]).as_py()
    found = totals(scan(table))
    assert (found.rows, live) == (65, 65 - 7)  # row 2 of the first file is in a vector too
    assert (found.deleted, found.min_deleted, found.max_live, found.other_deletes) == (None, 5, 60, 4)
    assert [(one.deleted, one.exact) for one in history(table)] == [(2, True), (1, True), (2, True)] + [(0, False)] * 2
    lines = run("table", root).out.splitlines()
    assert lines[2] == "  65 rows: at least 5 deleted, at least 7.69 %, at most 60 live"
    assert lines[4].startswith("  4 data files with other deletes, not counted: equality deletes (")
    assert [line.split()[-2:] for line in run("log", root).out.splitlines()[-2:]] == [["unknown", "unknown"]] * 2


def test_records_of_paimon_that_are_not_rows_yet(tmp_path: Path) -> None:
    """Level 0 and postponed buckets wait for compaction: batch reads of Paimon see neither, and nothing opens them."""
    columns, damaged = [(0, "id", "BIGINT")], b"not a data file"
    seen = PaimonFile("a.parquet", keyed(10, 11), [1], level=5)
    new = PaimonFile("b.parquet", damaged, [0], more={"_ROW_COUNT": 40})
    waiting = PaimonFile("c.avro", damaged, bucket=-2, more={"_ROW_COUNT": 500})
    root = build_paimon(tmp_path / "t", columns, [[seen, new, waiting]], primary_keys=["id"])
    table = open_table(root)
    assert pa.Table.from_batches(live_batches(table))["id"].to_pylist() == [10]
    assert export_live(table, tmp_path / "live.parquet") == 1
    assert list(live_batches(table, "c.avro")) == []
    found = totals(scan(table))
    assert (found.rows, found.deleted, found.max_live, found.hidden, found.other_deletes) == (2, 1, 1, 2, 0)
    lines = run("table", root).out.splitlines()
    assert lines[2] == "  2 rows: 1 deleted, 50 %"
    assert lines[4] == "  2 data files not counted: no records are visible before they are compacted"
    assert [file["hidden"] for file in run("table", root, "--json").json["data_files"]] == [False, True, True]


def keyed(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "_VALUE_KIND": pa.array([0] * len(ids), pa.int8())})
