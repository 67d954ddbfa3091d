"""Rows of a data file, with their physical order checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dvcodec.core.errors import NotCanonical
from dvcodec.core.rowset import RowSet
from dvcodec.tables.model import WHOLE, DataFile, Part, PhysicalRows, RowReader
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.table import Snapshot

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
        raise _other_count(file, seen.rows)


def are_all_rows(snapshot: Snapshot, file: DataFile, rows: RowSet) -> bool:
    """Whether rows are all of a data file, which may be removed then; its own footer counts them.

    If metadata state too few rows, the others would be lost.

    Args:
        snapshot: that has the data file.
        file: the data file.
        rows: 0-based physical positions; not those of a search, which counts all rows itself.

    Returns:
        False also if its format has no count to compare (Avro, ORC): a vector of all rows is as good.

    Raises:
        NotCanonical: the data file has another number of rows than its metadata state.
        DecodeError, OSError: it is corrupt or cannot be read.
    """
    if not rows or rows.cardinality != file.physical_rows:
        return False
    stored = snapshot.stored_rows(file)
    if stored not in (None, file.physical_rows):
        raise _other_count(file, stored)
    return stored is not None


def _other_count(file: DataFile, found: int) -> NotCanonical:
    expected = f"{file.physical_rows} rows (metadata)"
    return NotCanonical("rows of the data file", source=file.location, expected=expected, actual=found)


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
