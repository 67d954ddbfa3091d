"""Data files cut into the tasks of a Spark job, and the rows that its tasks find.

The driver plans; a task gets the readers of its files (`RowReader`), so that workers read no metadata of the table. A
file is cut by row groups, small files share a task. What a task returns is one row for each part of a file; the driver
counts them, because a part that is missing would be rows that stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from dvcodec.core import vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, NotCanonical
from dvcodec.core.ragged import cut_by_weight
from dvcodec.core.rowset import RowSet
from dvcodec.spark.columns import BINARY, INT, LONG, STRING, arrow_schema, struct
from dvcodec.spark.tasks import Tasks, pack
from dvcodec.spark.vectors import encode
from dvcodec.tables.deleting.matching import Condition, matching_rows
from dvcodec.tables.deleting.run import Found
from dvcodec.tables.model import DataFile, Part, PhysicalRows, RowReader
from dvcodec.tables.snapshots.reading import MayMatch, RowsSeen, rows_in_order
from dvcodec.tables.table import Snapshot

PART_BYTES = 32 << 20
"""Bytes of a data file in a part."""
TASK_BYTES, _FEW_TASKS = 128 << 20, 8
"""Bytes of data files in a task, as in Spark's own scans; and the number of tasks of a smaller table: each costs Spark
0.1 s beside its work."""
_OPEN_COST = 1 << 20
_ROW_BYTES = 16
"""Assumed where the size of a file is not recorded."""

FOUND = struct(file=INT, part=INT, rows=LONG, groups_skipped=LONG, dv=BINARY, missing=STRING)
"""The result for one part of a file: its rows, skipped row groups, and the vector of the rows that were found; or why
the file is missing."""
_FOUND = arrow_schema(FOUND)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a data file.

    Attributes:
        file: number of the data file.
        path: its path.
        reader: reads it.
        part: which part.
        rows: of the file; None if that is not recorded.
    """

    file: int
    path: str
    reader: RowReader
    part: Part
    rows: int | None

    def read(self, batch_rows: int, may_match: MayMatch | None, seen: RowsSeen) -> Iterator[PhysicalRows]:
        """Read it, and check that its rows come without gaps; see `rows_in_order`.

        Raises:
            NotCanonical: they do not, or the whole file has more or fewer rows than is recorded.
            DvcodecError, OSError: see `Snapshot.rows`.
        """
        yield from rows_in_order(self.reader, self.path, batch_rows, may_match, seen, self.part)
        if self.part.of == 1 and self.rows not in (None, seen.rows):
            expected = f"{self.rows} rows (metadata)"
            raise NotCanonical("rows of the data file", source=self.path, expected=expected, actual=seen.rows)


def pieces_of(tasks: Tasks[list[Piece]], numbers: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    """Yield the pieces of some tasks, whose numbers are the first column of batches."""
    return chain.from_iterable(tasks.values(numbers))


def bytes_of(file: DataFile) -> int:
    """Return the size of a data file in bytes, by its rows if it is not recorded."""
    return (file.physical_rows or 0) * _ROW_BYTES if file.size is None else file.size


def jobs_of(snapshot: Snapshot, files: Sequence[DataFile], columns: Sequence[str]) -> Iterator[Tasks[list[Piece]]]:
    """Cut data files into tasks, and those into jobs.

    Raises:
        UsageError, DecodeError, Unsupported: see `Snapshot.row_reader`.
    """
    pieces, costs = [], []
    for number, file in enumerate(files):
        size = bytes_of(file)
        count = max(-(-size // PART_BYTES), 1)
        reader = snapshot.row_reader(file, columns)
        pieces += [Piece(number, file.path, reader, Part(i, count), file.physical_rows) for i in range(count)]
        costs += [size // count + _OPEN_COST] * count
    most = min(max(sum(costs) // _FEW_TASKS, PART_BYTES + _OPEN_COST), TASK_BYTES)
    return pack(pieces[cut] for cut in cut_by_weight(np.array(costs, np.int64), most))


@dataclass(frozen=True)
class Search:
    """Evaluates a condition in a worker.

    Attributes:
        tasks: of the job.
        condition: bound to the snapshot.
    """

    tasks: Tasks[list[Piece]]
    condition: Condition

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield `FOUND` for each piece of the tasks."""
        yield from map(self._search, pieces_of(self.tasks, batches))

    def _search(self, piece: Piece) -> pa.RecordBatch:
        rows, missing, seen = RowSet(), None, RowsSeen()
        try:
            parts = piece.read(self.condition.batch_rows, self.condition.may_match, seen)
            rows = matching_rows(parts, self.condition, {}, piece.path)
        except FileNotFoundError as err:
            missing = str(err)[:1000] or piece.path
        values = [[piece.file], [piece.part.number], [seen.rows], [seen.groups_skipped], [encode(rows)], [missing]]
        return pa.record_batch(values, schema=_FOUND)


class Collected:
    """The vectors that the tasks have found, and the count of what they read.

    Args:
        files: the data files, by number.
    """

    def __init__(self, files: Sequence[DataFile]) -> None:
        self._files = files
        self._frames: dict[str, list[bytes]] = {}
        self._parts: dict[int, set[int]] = {}
        self._seen: dict[str, RowsSeen] = {}

    def add(self, found: pa.Table) -> None:
        """Add rows of `FOUND`.

        Raises:
            FileNotFoundError: a data file is missing.
            DecodeError: a part came twice.
        """
        for number, part, rows, skipped, frame, missing in zip(
            *(one.to_pylist() for one in found.columns), strict=True
        ):
            path = self._files[number].path
            if missing is not None:
                raise FileNotFoundError(missing)
            parts = self._parts.setdefault(number, set())
            if part in parts:
                raise NotCanonical("parts of a data file", source=path, expected="each once", actual=f"{part} twice")
            parts.add(part)
            seen = self._seen.setdefault(path, RowsSeen())
            seen.rows += rows
            seen.groups_skipped += skipped
            self._frames.setdefault(path, []).append(frame)

    def check(self) -> None:
        """Check that every row of every data file was looked at.

        Raises:
            DecodeError: one was not, or there are more than the metadata says.
        """
        for file in self._files:
            seen = self._seen.get(file.path)
            if seen is None or file.physical_rows not in (None, seen.rows):
                stated = "its rows" if file.physical_rows is None else f"{file.physical_rows} rows (metadata)"
                actual = "none" if seen is None else seen.rows
                raise NotCanonical("rows of the data file", source=file.path, expected=stated, actual=actual)

    def found(self, path: str) -> Found:
        """Return what was found in a data file."""
        rows = RowSet().union(*(decode(frame, path) for frame in self._frames.get(path, ())))
        return Found(rows, self._seen.get(path, RowsSeen()).groups_skipped)


def decode(frame: bytes, path: str) -> RowSet:
    """Return the rows of a vector that a task returned.

    Raises:
        DecodeError: it is corrupt.
    """
    try:
        return vector.read(Cursor(memoryview(frame))).load()
    except DecodeError as err:
        err.source = err.source or f"vector of {path}"
        raise
