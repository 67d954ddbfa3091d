"""What a table holds: the deleted rows of its data files, and the values of the live ones."""

from __future__ import annotations

import os

from dvcodec import RowSet
from dvcodec.tables import Snapshot, Table, live_batches, open_table

__all__ = ["deleted", "ids"]


def deleted(snapshot: Snapshot) -> dict[str, RowSet]:
    """Deleted rows by bare name of the data file, of those that have vectors or deletes."""
    rows: dict[str, RowSet] = {}
    for vector in snapshot.vectors:
        for found in snapshot.read(vector):
            name = found.data_file.rpartition("/")[2]
            rows[name] = rows.get(name, RowSet()) | found.rows
    return rows


def ids(table: Table | str | os.PathLike[str], snapshot: int | None = None, column: str = "id") -> list[int]:
    """Values of a column in the live rows, sorted; of the current snapshot unless one is named."""
    opened = table if isinstance(table, Table) else open_table(table)
    batches = live_batches(opened, snapshot_id=snapshot, columns=[column])
    return sorted(value for batch in batches for value in batch.column(column).to_pylist())
