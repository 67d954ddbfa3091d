"""Rows of a data file, with their physical order checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.bounds import ColumnBounds
from dvcodec.tables.model import WHOLE, DataFile, Part, PhysicalRows, RowReader
from dvcodec.tables.table import Snapshot

__all__ = ["MayMatch", "RowsSeen", "checked_rows", "rows_in_order"]

MayMatch: TypeAlias = Callable[[Mapping[str, ColumnBounds]], bool]
"""Whether rows of a row group are wanted, by what its statistics say; its rows are not read if not."""


@dataclass(slots=True)
class RowsSeen:
    """Counts what was read of a data file.

    Attributes:
        rows: read or skipped.
        groups_skipped: row groups that were skipped.
    """

    rows: int = 0
    groups_skipped: int = 0


def checked_rows(
    snapshot: Snapshot,
    file: DataFile,
    columns: Sequence[str] | None,
    batch_rows: int,
    may_match: MayMatch | None = None,
    seen: RowsSeen | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file, see `Snapshot.rows`, and check that its rows come without gaps and are as many as recorded.

    Args:
        snapshot: that has it.
        file: the data file.
        columns: names to read.
        batch_rows: maximum rows in a batch.
        may_match: see `MayMatch`; None = all are wanted.
        seen: counts.

    Raises:
        NotCanonical: they are not.
        DvcodecError, OSError: see `Snapshot.rows`.
    """
    seen = RowsSeen() if seen is None else seen
    yield from rows_in_order(snapshot.row_reader(file, columns), file.path, batch_rows, may_match, seen)
    if file.physical_rows not in (None, seen.rows):
        expected = f"{file.physical_rows} rows (metadata)"
        raise NotCanonical("rows of the data file", source=file.location, expected=expected, actual=seen.rows)


def rows_in_order(
    reader: RowReader, source: str, batch_rows: int, may_match: MayMatch | None, seen: RowsSeen, part: Part = WHOLE
) -> Iterator[PhysicalRows]:
    """Read a part of a data file, and check that its rows come without gaps.

    Args:
        reader: reads the data file.
        source: its path, for errors.
        batch_rows: maximum rows in a batch.
        may_match: see `MayMatch`; None = all are wanted.
        seen: counts.
        part: of the data file.

    Raises:
        NotCanonical: there are gaps, or the whole file does not begin with row 0.
        DvcodecError, OSError: see `Snapshot.rows`.
    """
    skipped: dict[int, int] = {}

    def wanted(start: int, rows: int, known: Mapping[str, ColumnBounds]) -> bool:
        if may_match is None or may_match(known):
            return True
        skipped[start] = rows
        return False

    stop = None if part.number else 0
    for rows in reader(batch_rows, part, None if may_match is None else wanted):
        stop = None if stop is None else _beyond(stop, skipped)
        if stop not in (None, rows.start):
            raise NotCanonical("rows in physical order", source=source, expected=f"row {stop}", actual=rows.start)
        stop = rows.start + rows.batch.num_rows
        seen.rows += rows.batch.num_rows
        yield rows
    seen.rows += sum(skipped.values())
    seen.groups_skipped += len(skipped)


def _beyond(stop: int, skipped: dict[int, int]) -> int:
    """Return the first row after the skipped row groups."""
    while rows := skipped.get(stop):
        stop += rows
    return stop
