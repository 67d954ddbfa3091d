"""Physical positions of the rows of data files that match, batch by batch; of many small local data files, together.

Opened, checked and searched alone, a data file costs a millisecond of processor time, most of it in Python and however
few rows it has; a table of streams has tens of thousands. So each is read at once, what follows from a schema is found
out once for all files that have it, integers in footers are compared as they are stored, and the rows of many files are
searched together. What is unusual in any way is left out, to be searched alone: large files, several row groups,
whatever is damaged or contradicts the metadata.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import DvcodecError, UsageError
from dvcodec.core.extras import pa, pc, pq, types
from dvcodec.core.rowset import RowSet
from dvcodec.io.parquet import ColumnChunks, Path, footer_of, small_parquet
from dvcodec.io.target import is_local
from dvcodec.tables.columns import UNKNOWN
from dvcodec.tables.deleting.run import Finder, Found
from dvcodec.tables.model import DataFile, OnDemand, PhysicalRows, paths_of
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds, Range
from dvcodec.tables.rows.columns import Evolution
from dvcodec.tables.rows.data_file import GroupBounds
from dvcodec.tables.snapshots.reading import RowsSeen, checked_rows
from dvcodec.tables.table import Snapshot

BATCH_ROWS = 1 << 18
"""Rows evaluated together: each query costs an engine milliseconds."""
_JOINED_ROWS = 1 << 14
"""Maximum rows of batches of a data file that are joined."""
_JOINED_BYTES = 1 << 25
"""Maximum bytes of these: one row may have thousands of fields."""
_POSITIONS = 1 << 20
"""Positions collected before they become a row set."""
RowMask: TypeAlias = Callable[[int, int], "pa.BooleanArray"]
"""Which rows, from one position up to another."""


class Condition(ABC):
    """A condition on rows, bound to the columns of one snapshot. Methods are called from several threads.

    Attributes:
        columns: the columns that it reads.
        position: name of the batches' column of physical positions; none of `columns` has it.
        batch_rows: maximum rows in a batch.
        ranges: of integer columns: no row outside of them meets it. By these, many data files are ruled out at once.
        bounds: what a filter that follows from it says of bounds; None if nothing is known to follow.
    """

    columns: tuple[str, ...]
    position: str
    batch_rows: int = BATCH_ROWS
    ranges: Mapping[str, Range] = MappingProxyType({})
    bounds: FilterBounds | None = None

    @cached_property
    def of_values(self) -> dict[tuple[Any, ...], bool]:
        """Whether a row with these values of all columns meets it, as far as that has been evaluated."""
        return {}

    def may_match(self, known: Mapping[str, ColumnBounds]) -> bool:
        """Whether rows may meet it, by what metadata records of the columns; True if that is not known."""
        return self.bounds is None or self.bounds.may_be_true(known)

    def wants(self, start: int, rows: int, known: Mapping[str, ColumnBounds]) -> bool:  # noqa: ARG002
        """Whether a row group may have such rows; a `RowGroupFilter`."""
        return self.may_match(known)

    @abstractmethod
    def positions(self, batch: pa.RecordBatch, known: Mapping[str, ColumnBounds]) -> NDArray[np.int64]:
        """Return the positions of the rows that meet it, in any order.

        Args:
            batch: the column of positions, and `columns` in order.
            known: what metadata records of the columns.

        Raises:
            UsageError: it cannot be evaluated.
        """


class ConditionFinder(Finder):
    """Finds rows by a condition.

    Args:
        bind: checks the question, and makes the condition for a snapshot; see `Finder.prepare`.

    Attributes:
        condition: what `prepare` has bound to a snapshot.
    """

    condition: Condition

    def __init__(self, bind: Callable[[Snapshot], Condition]) -> None:
        self._bind = bind

    def prepare(self, snapshot: Snapshot) -> None:
        """Bind the condition to a snapshot; see `Finder.prepare`."""
        self.condition = self._bind(snapshot)

    def may_match(self, snapshot: Snapshot, data_file: DataFile) -> bool:
        """Whether a data file may have such rows; see `Finder.may_match`."""
        known = snapshot.bounds(data_file, self.condition.columns)
        whole = self._whole(snapshot, known)
        return self.condition.may_match(known) if whole is None else whole

    def candidates(self, snapshot: Snapshot) -> Sequence[DataFile]:
        """Return the data files that may have such rows; see `Finder.candidates`."""
        condition, files = self.condition, snapshot.data_files
        numbers = snapshot.files_in(condition.ranges) if condition.ranges else None
        numbers = range(len(files)) if numbers is None else numbers
        bounded = snapshot.with_bounds(condition.columns)
        if bounded is None or bounded.all():
            return [file for file in map(files.__getitem__, numbers) if self.may_match(snapshot, file)]
        may = np.full(len(files), condition.may_match({}))
        may[bounded] = True
        found = [
            number
            for number in np.asarray(numbers, np.int64)[may[numbers]].tolist()
            if not bounded[number] or self.may_match(snapshot, files[number])
        ]
        paths = snapshot.file_columns.paths
        return OnDemand(len(found), lambda place: files[found[place]], [paths[number] for number in found])

    def gather(self, snapshot: Snapshot, data_files: Sequence[DataFile]) -> Mapping[str, Found]:
        """Search small local data files together; see `Finder.gather`."""
        return _SmallFiles(snapshot, self.condition).search(paths_of(data_files))

    def find(self, snapshot: Snapshot, data_file: DataFile, among: RowMask | None = None) -> Found:
        """Return the rows of a data file; see `Finder.find`.

        Args:
            snapshot: that has it.
            data_file: the data file.
            among: the rows for which the condition is evaluated, if the data file has to be opened; None = all.
        """
        condition = self.condition
        decided = self.decided(snapshot, data_file)
        if decided is not None:
            return decided
        known = snapshot.bounds(data_file, condition.columns)
        seen = RowsSeen()

        def may_match(_start: int, _rows: int, group: Mapping[str, ColumnBounds]) -> bool:
            return condition.may_match({**known, **{name: _both(known.get(name), one) for name, one in group.items()}})

        parts = checked_rows(snapshot, data_file, condition.columns, condition.batch_rows, may_match, seen)
        parts = parts if among is None else (_masked(part, among) for part in parts)
        return Found(matching_rows(parts, condition, known, data_file.path), seen.groups_skipped)

    def decided(self, snapshot: Snapshot, data_file: DataFile) -> Found | None:
        """Return the rows of a data file if partition values alone decide; None if it has to be opened."""
        if data_file.physical_rows is None:
            return None
        whole = self._whole(snapshot, snapshot.bounds(data_file, self.condition.columns))
        return None if whole is None else Found(RowSet.from_ranges([(0, data_file.physical_rows)] if whole else []))

    def _whole(self, snapshot: Snapshot, known: Mapping[str, ColumnBounds]) -> bool | None:
        """Whether all rows of a data file meet the condition, or none; None if it has to be opened to know."""
        condition = self.condition
        if not all(name in known and known[name].constant for name in condition.columns):
            return None
        key = _constants(condition, known)
        if key not in condition.of_values:
            self._decide_all(snapshot)
        return condition.of_values[key]

    def _decide_all(self, snapshot: Snapshot) -> None:
        """Evaluate the condition for all partitions together: there may be thousands, and a query takes a while."""
        condition = self.condition
        found: dict[tuple[Any, ...], Mapping[str, ColumnBounds]] = {}
        for file in snapshot.data_files:
            known = snapshot.bounds(file, condition.columns)
            if all(name in known and known[name].constant for name in condition.columns):
                found.setdefault(_constants(condition, known), known)
        schema, keys = snapshot.schema(condition.columns), list(found)
        for start in range(0, len(keys), condition.batch_rows):
            some = keys[start : start + condition.batch_rows]
            columns = [
                pa.concat_arrays([pa.repeat(found[key][one.name].value(one.type), 1) for key in some]) for one in schema
            ]
            gone = set(condition.positions(_numbered(condition, 0, columns, len(some)), {}).tolist())
            condition.of_values.update((key, number in gone) for number, key in enumerate(some))


def _masked(part: PhysicalRows, among: RowMask) -> PhysicalRows:
    mask = among(part.start, part.start + part.batch.num_rows)
    return replace(part, keep=mask if part.keep is None else pc.and_(mask, part.keep))


def _constants(condition: Condition, known: Mapping[str, ColumnBounds]) -> tuple[Any, ...]:
    return tuple(known[name].lower for name in condition.columns)


def _both(file: ColumnBounds | None, group: ColumnBounds) -> ColumnBounds:
    """Return what is known of a column in a row group by its own statistics and by those of the data file."""
    if file is None or file.constant:
        return file or group
    return ColumnBounds(
        file.lower if group.lower is None else group.lower,
        file.upper if group.upper is None else group.upper,
        nulls=file.nulls and group.nulls,
        values=file.values and group.values,
    )


def matching_rows(
    parts: Iterable[PhysicalRows], condition: Condition, known: Mapping[str, ColumnBounds], path: str
) -> RowSet:
    """Return the positions of the rows of a data file that meet a condition.

    Args:
        parts: rows with the columns of the condition.
        condition: what they have to meet.
        known: what metadata records of the columns.
        path: of the data file, for errors.

    Raises:
        UsageError: the condition cannot be evaluated.
        DecodeError, OSError: see `Snapshot.rows`.
    """
    found: list[RowSet] = []
    waiting: list[NDArray[np.int64]] = []
    numbered = (_numbered(condition, part.start, part.batch.columns, part.batch.num_rows, part.keep) for part in parts)
    for batch in _joined(numbered):
        try:
            waiting.append(condition.positions(batch, known))
        except UsageError as err:
            raise UsageError(f"{path}: {err}") from None
        if sum(map(len, waiting)) >= _POSITIONS:
            found.append(RowSet(np.concatenate(waiting)))
            waiting = []
    return RowSet().union(*found, RowSet(np.concatenate([np.empty(0, np.int64), *waiting])))


def _numbered(
    condition: Condition, start: int, columns: Sequence[Any], rows: int = 1, keep: pa.BooleanArray | None = None
) -> pa.RecordBatch:
    numbers = pa.array(np.arange(start, start + rows))
    batch = pa.RecordBatch.from_arrays([numbers, *columns], [condition.position, *condition.columns])
    return batch if keep is None else batch.filter(keep)


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, those of small row groups: a query takes a millisecond, however few rows it is of."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        more = batch.nbytes
        full = rows + batch.num_rows > _JOINED_ROWS or size + more > _JOINED_BYTES
        if waiting and (full or batch.schema != waiting[0].schema):
            yield from _join(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += more
    yield from _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name that differs from all others, whatever their case."""
    lower = {other.lower() for other in taken}
    while name.lower() in lower:
        name += "_"
    return name


def one_line(err: Exception) -> str:
    """Return the first line of an error, without the name of its kind."""
    return str(err).strip().partition("\n")[0][:300]


_LEAST_SMALL = 16
_SMALL_BYTES = 1 << 17
"""Of a file: as much as Linux reads of it, whatever is asked for."""
_SMALL_ROWS = 1 << 16
_TOGETHER_ROWS = 1 << 16
"""Rows of small files that are searched together."""
_MOST_SHAPES = 64
"""Each costs as much as a file that is searched alone."""
_WIDTHS = {"INT32": 4, "INT64": 8}
_NO_ROWS = RowSet()


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


class _SmallFiles:
    """Searches small data files of a snapshot.

    Args:
        snapshot: the snapshot.
        condition: what the rows have to meet.
    """

    def __init__(self, snapshot: Snapshot, condition: Condition) -> None:
        self._snapshot, self._condition, self._columns = snapshot, condition, condition.columns
        self._storage = snapshot.table.folder.storage
        self._most_bytes = min(_SMALL_BYTES, self._storage.limits.max_metadata_bytes)
        self._shapes: dict[Hashable, list[_Shape]] = {}
        self._learned = 0
        self._found: dict[str, Found] = {}

    def search(self, paths: Sequence[str]) -> Mapping[str, Found]:
        """Return the matching rows of data files by path; some are left out."""
        snapshot = self._snapshot
        if len(paths) < _LEAST_SMALL or not self._columns or not is_local(snapshot.table.location):
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
            if count >= _TOGETHER_ROWS or size >= _JOINED_BYTES:
                self._search_waiting(waiting)
                waiting, count, size = [], 0, 0
        if waiting:
            self._search_waiting(waiting)
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
        if not 0 < rows <= _SMALL_ROWS or recorded not in (UNKNOWN, rows):
            return None
        if parquet.num_row_groups != 1 or parquet.metadata.row_group(0).num_rows != rows:
            return None
        shape = self._shape(number, parquet, alike)
        if shape is None:
            return None
        if shape.ranges and shape.rules_out(footer_of(data), rows):
            self._found[files.paths[number]] = Found(_NO_ROWS, 1)
            return None
        names = shape.evolution.names
        batches = list(islice(parquet.iter_batches(rows, row_groups=[0], columns=names, use_threads=False), 2))
        if not names or len(batches) != 1 or batches[0].num_rows != rows:
            return None
        return shape.evolution.apply(batches[0])

    def _search_waiting(self, waiting: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        """Search batches of rows together, each all those of a data file."""
        try:
            batch = pa.Table.from_batches([one for _, one in waiting]).combine_chunks().to_batches()[0]
            numbered = _numbered(self._condition, 0, batch.columns, batch.num_rows)
            positions = np.sort(self._condition.positions(numbered, {}))
        except (UsageError, pa.ArrowException):  # of one of them: searched alone, its error names it
            return
        starts = np.cumsum([0, *(one.num_rows for _, one in waiting)])
        cuts = np.searchsorted(positions, starts).tolist()
        for number, (path, _) in enumerate(waiting):
            rows = positions[cuts[number] : cuts[number + 1]]
            self._found[path] = Found(RowSet(rows - starts[number]) if len(rows) else _NO_ROWS)

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
            width, wanted = widths.get(stored.name), self._condition.ranges.get(column.name)
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

        read = any(True for _ in self._snapshot.row_reader(file, self._columns)(_SMALL_ROWS, wanted=note))
        return noted[0] if noted and not read else None


def _is_integer(kind: pa.DataType) -> bool:
    return bool(types.is_signed_integer(kind))
