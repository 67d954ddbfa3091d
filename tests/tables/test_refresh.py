"""What a table object shows after commits, through it and by others."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import Mock

import pyarrow.compute as pc
import pytest

from dvcodec import RowSet, UsageError
from dvcodec.core.errors import CommitConflict, CommitUnknown
from dvcodec.tables import Table, audit, enable, live_batches, open_table
from dvcodec.tables.iceberg.table import IcebergTable
from samples.iceberg_table import Commit, build_iceberg
from tables.deleting.random_tables import FORMATS
from tables.deleting.random_where import random_rows

FILES = [random_rows(random.Random(number), 300 * number, 300) for number in range(3)]


def live(table: Table) -> int:
    return sum(batch.num_rows for batch in live_batches(table, columns=["key"]))


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_deletes_through_a_table_and_by_another(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    FORMATS[kind][0](folder, FILES)
    table, other = open_table(folder), open_table(folder)
    before, snapshots = table.snapshot(), len(table.snapshots())
    assert table.delete(pc.field("key") < 10, dry_run=True).rows == 10
    assert (table.snapshot().info, live(table)) == (before.info, 900)
    done = table.delete(pc.field("key") < 10)
    assert (table.snapshot().info.id, live(table)) == (done.snapshot, 890)
    assert [info.id for info in table.snapshots()][snapshots:] == [done.snapshot]
    assert audit(table).info.id == done.snapshot
    if kind in ("delta", "iceberg"):
        assert (other.snapshot().info, live(other)) == (before.info, 900)
    other.refresh()
    assert (other.snapshot().info.id, live(other)) == (done.snapshot, 890)
    still = (part.batch for file in before.data_files for part in before.rows(file, columns=["key"]))
    assert sum(batch.num_rows for batch in still) == 900
    assert not before.vectors


@pytest.mark.parametrize("error", [CommitConflict, CommitUnknown, UsageError, OSError])
def test_after_a_delete_that_fails(error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table shows what is there now if that made a commit fail, or if it may be in; else it stays as it was."""
    folder = build_iceberg(tmp_path / "t", Commit({"a": 20, "b": 20})).folder
    table, other = open_table(folder), open_table(folder)
    before, path = table.snapshot().info, table.snapshot().data_files[0].path
    done = other.delete(positions={path: RowSet([1])})
    monkeypatch.setattr("dvcodec.tables.iceberg.folder_place.put_once", Mock(side_effect=error("no")))
    with pytest.raises(error):
        table.delete(positions={path: RowSet([2])}, retries=0)
    is_new = error in (CommitConflict, CommitUnknown)
    assert table.snapshot().info.id == (done.snapshot if is_new else before.id)


def test_enabling(tmp_path: Path) -> None:
    folder = build_iceberg(tmp_path / "t", Commit({"a": 20}), version=2).folder
    table = open_table(folder)
    assert isinstance(table, IcebergTable)
    assert table.metadata.format_version == 2
    enable(table, dry_run=True)
    assert table.metadata.format_version == 2
    enable(table)
    assert table.metadata.format_version == 3
