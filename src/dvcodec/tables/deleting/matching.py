"""Physical positions of the rows of a data file that match, batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import pa, pc
from dvcodec.core.rowset import RowSet
from dvcodec.tables.deleting.run import Finder, Found
from dvcodec.tables.deleting.small_files import SmallFiles
from dvcodec.tables.model import DataFile, OnDemand, PhysicalRows, paths_of
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds, Range
from dvcodec.tables.snapshots.reading import RowsSeen, checked_rows
from dvcodec.tables.table import Snapshot

BATCH_ROWS = 1 << 18
"""Rows evaluated together: each query costs an engine milliseconds."""
_JOINED_ROWS = 1 << 14
"""Maximum rows of batches that are joined."""
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
        condition = self.condition

        def matching(columns: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
            return condition.positions(_numbered(condition, 0, columns, rows), {})

        search = SmallFiles(snapshot, condition.columns, condition.ranges, matching)
        return {path: Found(*found) for path, found in search(paths_of(data_files)).items()}

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
