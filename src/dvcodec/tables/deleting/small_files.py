"""Rows of many small local data files, found together.

Opened, checked and searched alone, a data file costs a millisecond of processor time, most of it in Python and however
few rows it has; a table of streams has tens of thousands. So each is read at once, what follows from a schema is found
out once for all files that have it, integers in footers are compared as they are stored, and the rows of many files are
searched together.

What is unusual in any way is left out, to be searched alone: large files, several row groups, whatever is damaged or
contradicts the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.extras import pa, pq, types
from dvcodec.core.rowset import RowSet
from dvcodec.io.parquet import ColumnChunks, Path, footer_of, small_parquet
from dvcodec.io.target import is_local
from dvcodec.tables.columns import UNKNOWN
from dvcodec.tables.model import DataFile
from dvcodec.tables.rows.bounds import ColumnBounds, Range
from dvcodec.tables.rows.columns import Evolution
from dvcodec.tables.rows.data_file import GroupBounds
from dvcodec.tables.table import Snapshot

_LEAST_FILES = 16
_MOST_BYTES = 1 << 17
"""Of a file: as much as Linux reads of it, whatever is asked for."""
_MOST_ROWS = 1 << 16
_JOINED_ROWS, _JOINED_BYTES = 1 << 16, 1 << 25
"""Of batches that are searched together."""
_MOST_SHAPES = 64
"""Each costs as much as a file that is searched alone."""
_WIDTHS = {"INT32": 4, "INT64": 8}
_NOTHING = RowSet()

Matching = Callable[[Sequence["pa.Array[Any]"], int], NDArray[np.int64]]
"""Takes the columns of a condition and the number of rows, and returns the rows that meet it, in any order."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """How data files of one schema are read.

    Attributes:
        schema: the schema in their footers.
        arrow: its columns, as pyarrow reads them.
        evolution: makes columns of the table of them.
        chunks: finds the bounds of columns.
        ranges: the columns, the bytes of a bound, and what it is compared with.
    """

    schema: pq.ParquetSchema
    arrow: pa.Schema
    evolution: Evolution
    chunks: ColumnChunks
    ranges: Sequence[tuple[Path, int, Range]]

    def rules_out(self, footer: bytes, rows: int) -> bool:
        """Whether all rows of a file of one row group are outside of a range."""
        known = self.chunks.find(footer, 1)
        for path, width, wanted in self.ranges:
            for chunk in known.get(path, ()):
                if chunk.nulls == rows:
                    return True
                low, high = (
                    None if end is None or len(end) != width else int.from_bytes(end, "little", signed=True)
                    for end in (chunk.low, chunk.high)
                )
                if low is not None and wanted.high is not None and low > wanted.high:
                    return True
                if high is not None and wanted.low is not None and high < wanted.low:
                    return True
        return False


class SmallFiles:
    """Searches small data files of a snapshot.

    Args:
        snapshot: the snapshot.
        columns: names of those of the condition.
        ranges: of integer columns: no row outside of them meets it.
        matching: evaluates it.
    """

    def __init__(
        self, snapshot: Snapshot, columns: Sequence[str], ranges: Mapping[str, Range], matching: Matching
    ) -> None:
        self._snapshot, self._columns, self._ranges, self._matching = snapshot, columns, ranges, matching
        self._storage = snapshot.table.folder.storage
        self._most_bytes = min(_MOST_BYTES, self._storage.limits.max_metadata_bytes)
        self._shapes: dict[Hashable, list[_Shape]] = {}
        self._learned = 0
        self._found: dict[str, tuple[RowSet, int]] = {}

    def __call__(self, paths: Sequence[str]) -> Mapping[str, tuple[RowSet, int]]:
        """Return the matching rows of data files by path, and how many row groups were ruled out; some are left out."""
        snapshot = self._snapshot
        if len(paths) < _LEAST_FILES or not self._columns or not is_local(snapshot.table.location):
            return {}
        columns = snapshot.file_columns
        numbers = np.array([snapshot.numbers[path] for path in paths])
        numbers = numbers[columns.sizes[numbers] <= self._most_bytes]
        waiting: list[tuple[str, pa.RecordBatch]] = []
        count = size = 0
        for number, batch in chain(self._each(numbers[columns.single[numbers]]), self._several(numbers)):
            waiting.append((columns.paths[number], batch))
            count += batch.num_rows
            size += batch.nbytes
            if count >= _JOINED_ROWS or size >= _JOINED_BYTES:
                self._search(waiting)
                waiting, count, size = [], 0, 0
        if waiting:
            self._search(waiting)
        return self._found

    def _several(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of data files that their library reads together, until one of them has an error."""
        with suppress(DvcodecError, OSError):
            yield from self._snapshot.read_together(numbers.tolist(), self._columns)

    def _each(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of Parquet files that are neither ruled out nor left out."""
        alike = self._snapshot.read_alike(numbers.tolist(), self._columns)
        rows = self._snapshot.file_columns.rows[numbers].tolist()
        for number, one, recorded in zip(numbers.tolist(), alike, rows, strict=True):
            batch = None
            if one is not None:
                with suppress(DvcodecError, OSError, MemoryError, pa.ArrowException, UnicodeDecodeError, KeyError):
                    batch = self._read(number, one, recorded)
            if batch is not None:
                yield number, batch

    def _read(self, number: int, alike: Hashable, recorded: int) -> pa.RecordBatch | None:
        """Return the rows of a data file; None if it is ruled out, or left out.

        Args:
            number: of the file.
            alike: see `Snapshot.read_alike`.
            recorded: its rows; see `numbers_of`.
        """
        files = self._snapshot.file_columns
        data = self._storage.read_small(files.locations[number], self._most_bytes)
        if not isinstance(data, bytes):
            return None
        parquet = small_parquet(data)
        rows = parquet.metadata.num_rows
        if not 0 < rows <= _MOST_ROWS or recorded not in (UNKNOWN, rows):
            return None
        if parquet.num_row_groups != 1 or parquet.metadata.row_group(0).num_rows != rows:
            return None
        shape = self._shape(number, parquet, alike)
        if shape is None:
            return None
        if shape.ranges and shape.rules_out(footer_of(data), rows):
            self._found[files.paths[number]] = _NOTHING, 1
            return None
        names = shape.evolution.names
        batches = list(islice(parquet.iter_batches(rows, row_groups=[0], columns=names, use_threads=False), 2))
        if not names or len(batches) != 1 or batches[0].num_rows != rows:
            return None
        return shape.evolution.apply(batches[0])

    def _search(self, waiting: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        """Search batches of rows together, each all those of a data file."""
        try:
            batch = pa.Table.from_batches([one for _, one in waiting]).combine_chunks().to_batches()[0]
            positions = np.sort(self._matching(batch.columns, batch.num_rows))
        except (UsageError, pa.ArrowException):  # of one of them: searched alone, its error names it
            return
        starts = np.cumsum([0, *(one.num_rows for _, one in waiting)])
        cuts = np.searchsorted(positions, starts).tolist()
        for number, (path, _) in enumerate(waiting):
            rows = positions[cuts[number] : cuts[number + 1]]
            self._found[path] = RowSet(rows - starts[number]) if len(rows) else _NOTHING, 0

    def _shape(self, number: int, parquet: pq.ParquetFile, alike: Hashable) -> _Shape | None:
        """Return how a data file is read."""
        schema, arrow = parquet.schema, parquet.schema_arrow.remove_metadata()
        shapes = self._shapes.setdefault(alike, [])
        for shape in shapes:
            if shape.schema.equals(schema) and shape.arrow.equals(arrow, check_metadata=True):
                return shape
        if self._learned == _MOST_SHAPES:
            return None
        self._learned += 1
        leaves = [schema.column(i) for i in range(len(schema))]
        evolution = self._evolution(self._snapshot.data_files[number])
        if evolution is None or any(leaf.physical_type == "INT96" for leaf in leaves):  # read in various units
            return None
        widths = {leaf.path: _WIDTHS.get(leaf.physical_type) for leaf in leaves}
        ranges = []
        for column, stored in evolution.stored:
            width, wanted = widths.get(stored.name), self._ranges.get(column.name)
            if width is not None and wanted is not None and _is_integer(stored.type) and _is_integer(column.type):
                ranges.append(((stored.name,), width, wanted))
        shape = _Shape(schema, arrow, evolution, ColumnChunks(schema, [path for path, _, _ in ranges]), ranges)
        shapes.append(shape)
        return shape

    def _evolution(self, file: DataFile) -> Evolution | None:
        """Return how the columns of a data file become those of the table, after all checks but those of its rows.

        Raises:
            DvcodecError, OSError: see `Snapshot.rows`.
        """
        noted: list[Evolution] = []

        def note(_start: int, _rows: int, known: Mapping[str, ColumnBounds]) -> bool:
            if isinstance(known, GroupBounds):
                noted.append(known.evolution)
            return False

        read = any(True for _ in self._snapshot.row_reader(file, self._columns)(_MOST_ROWS, wanted=note))
        return noted[0] if noted and not read else None


def _is_integer(kind: pa.DataType) -> bool:
    return bool(types.is_signed_integer(kind))
