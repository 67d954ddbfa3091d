"""Rows of a data file, with their physical order checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.model import DataFile, PhysicalRows
from dvcodec.tables.table import Snapshot

__all__ = ["checked_rows"]


def checked_rows(
    snapshot: Snapshot, file: DataFile, columns: Sequence[str] | None, batch_rows: int
) -> Iterator[PhysicalRows]:
    """Read a data file, see `Snapshot.rows`, and check that its rows come without gaps and are as many as recorded.

    Raises:
        NotCanonical: they are not.
        DvcodecError, OSError: see `Snapshot.rows`.
    """
    stop = 0
    for part in snapshot.rows(file, columns=columns, batch_rows=batch_rows):
        if part.start != stop:
            raise NotCanonical("rows in physical order", source=file.path, expected=f"row {stop}", actual=part.start)
        stop = part.start + part.batch.num_rows
        yield part
    if file.physical_rows not in (None, stop):
        expected = f"{file.physical_rows} rows (metadata)"
        raise NotCanonical("rows of the data file", source=file.location, expected=expected, actual=stop)
