"""Tables written by engines: whatever lies in the folder of real files, and what deltalake reads of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec import RowSet
from dvcodec.tables import Snapshot
from dvcodec.tables.delta import DeltaTable
from dvcodec.tables.delta import open as open_delta

KNOWN = ("cdf-table-with-cdc-and-dvs", "table-with-dv-small", "table_with_deletion_logs")


def live_rows(table: DeltaTable, snapshot: Snapshot) -> pa.Table:
    """The rows that are left, in the columns of the table."""
    deleted: dict[str, RowSet] = {}
    for vector in snapshot.vectors:
        for found in snapshot.read(vector):
            deleted[found.data_file] = found.rows
    batches = []
    for file in snapshot.data_files:
        rows = deleted.get(file.path, RowSet())
        for part in snapshot.rows(file):
            part.batch.validate(full=True)
            mask = rows.arrow_mask(part.start, part.start + part.batch.num_rows, keep=True)
            batches.append(part.batch.filter(mask))
    return pa.Table.from_batches(batches, snapshot.schema())


def as_set(rows: pa.Table) -> list[str]:
    """Rows in an order that does not depend on the reader."""
    return sorted(repr(row) for row in rows.to_pylist())


def test_what_is_known(vectors: Path) -> None:
    table = open_delta(str(vectors / "delta" / "table-with-dv-small"))
    assert [(info.id, info.operation) for info in table.snapshots()] == [(0, "WRITE"), (1, "DELETE")]
    assert live_rows(table, table.snapshot())["value"].to_pylist() == [1, 2, 3, 4, 5, 6, 7, 8]
    table = open_delta(str(vectors / "delta" / "table_with_deletion_logs"))
    assert [info.id for info in table.snapshots()] == list(range(21))
    assert live_rows(table, table.snapshot()).num_rows == 98


@pytest.mark.interop
@pytest.mark.parametrize("name", KNOWN)
def test_deltalake_reads_the_same_rows(vectors: Path, name: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    root = str(vectors / "delta" / name)
    table = open_delta(root)
    for info in table.snapshots():
        theirs = deltalake.DeltaTable(root, version=info.id)
        query = deltalake.QueryBuilder().register("t", theirs).execute("select * from t")
        rows = live_rows(table, table.snapshot(info.id))
        assert as_set(rows) == as_set(pa.table(query.read_all()).select(rows.schema.names).cast(rows.schema))
