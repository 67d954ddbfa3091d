"""What the files of a snapshot hold, read and checked: many vectors, with a few threads and bounded memory; rows.

`Deletes` has the deleted rows of a data file: all vectors, position deletes and equality deletes taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

from dvcodec.core.errors import DvcodecError, MissingExtra, NotCanonical
from dvcodec.core.rowset import RowSet
from dvcodec.io import Storage
from dvcodec.io.storage import run_bounded
from dvcodec.tables.model import WHOLE, DataFile, DeletedRows, DeletionVector, Part, PhysicalRows, RowReader, vectors_of
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.rules import VectorRows
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


Progress: TypeAlias = Callable[[int, int], object]
"""Called with the number done, and the total."""

_TASK_BYTES = 4 << 20
_TASK_VECTORS, _LOCAL_TASK_VECTORS = 64, 256
"""Remote vectors that are far apart are requested one after another in a task; tasks run concurrently."""
_URL = "://"
"""In a location that may be remote."""
_MANY, _SMALL = 32, 4 << 10
"""Vectors in a task on average, above which, and bytes of a vector, below which reading is mostly Python."""


@dataclass(frozen=True, slots=True)
class VectorRead:
    """The result of reading a vector.

    Attributes:
        vector: the vector.
        found: its rows by data file; empty if it could not be read.
        error: why it could not be read.
    """

    vector: DeletionVector
    found: tuple[DeletedRows, ...]
    error: DvcodecError | OSError | None = None


def by_container(vectors: Iterable[DeletionVector]) -> dict[str, list[DeletionVector]]:
    """Group vectors by the file that holds them, each group in file order; inline vectors are one group, ``""``."""
    groups: dict[str, list[DeletionVector]] = {}
    for vector in vectors:
        groups.setdefault(vector.location, []).append(vector)
    for group in groups.values():
        group.sort(key=lambda vector: vector.offset or 0)
    return groups


def read_vectors(
    snapshot: Snapshot,
    vectors: Sequence[DeletionVector],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Iterator[VectorRead]:
    """Read vectors of a snapshot, container by container, each in file order.

    A vector that cannot be read is a result with an error; it does not stop the others.

    Args:
        snapshot: the snapshot that has the vectors.
        vectors: to be read.
        threads: number of concurrent readers; None = 8, 1 for many small vectors in few local files, or for remote
            files the maximum of the storage. At most twice as many tasks, of about 4 MiB each, or of one larger vector,
            are held.
        progress: called after each task.

    Raises:
        MissingExtra: a package that reads them is not installed.
    """
    table = snapshot.table
    storage = table.folder.storage

    def work(task: Sequence[DeletionVector]) -> list[VectorRead]:
        with _held(storage, task):
            return [_read(snapshot, vector) for vector in task]

    tasks = list(_tasks(vectors))
    if threads is None and _are_small_and_local(tasks):
        threads = 1
    done = 0
    for results in run_bounded(work, tasks, storage.threads(table.location, threads)):
        yield from results
        done += len(results)
        if progress is not None:
            progress(done, len(vectors))


@contextmanager
def _held(storage: Storage, task: Sequence[DeletionVector]) -> Iterator[None]:
    """Open the file of a task once, and read its vectors with one request if there are no large gaps."""
    ranges = [(v.offset, v.size) for v in task if v.offset is not None and v.size is not None]
    ahead = None
    if len(ranges) == len(task):
        start, stop = min(offset for offset, _ in ranges), max(offset + size for offset, size in ranges)
        sizes = [size for _, size in ranges]
        if start >= 0 and min(sizes) >= 0 and stop - start <= min(2 * sum(sizes), 4 * _TASK_BYTES):
            ahead = start, stop - start
    with ExitStack() as stack:
        if len(task) > 1 and task[0].location:
            with suppress(DvcodecError, OSError):  # each vector's own read reports the file error
                stack.enter_context(storage.hold(task[0].location, ahead))
        yield


def _read(snapshot: Snapshot, vector: DeletionVector) -> VectorRead:
    try:
        return VectorRead(vector, snapshot.read(vector))
    except MissingExtra:
        raise
    except (DvcodecError, OSError) as error:  # also UsageError: metadata may have an invalid path
        error.__traceback__ = error.__context__ = None  # they keep every frame alive, and each has an error's frames
        return VectorRead(vector, (), error)


def _are_small_and_local(tasks: Sequence[Sequence[DeletionVector]]) -> bool:
    """Whether tasks have many small vectors each, of one local file, for which threads only wait for each other."""
    if any(_URL in task[0].location for task in tasks):
        return False
    count = sum(map(len, tasks))
    size = sum(_TASK_BYTES if vector.size is None else vector.size for task in tasks for vector in task)
    return count > len(tasks) * _MANY and size < count * _SMALL


def _tasks(vectors: Iterable[DeletionVector]) -> Iterator[list[DeletionVector]]:
    """Split each container's vectors into tasks: of at most 8 MiB, or of one vector."""
    for location, group in by_container(vectors).items():
        most = _TASK_VECTORS if _URL in location else _LOCAL_TASK_VECTORS
        task: list[DeletionVector] = []
        size = 0
        for vector in group:
            own = _TASK_BYTES if vector.size is None else max(vector.size, 0)
            if task and (size >= _TASK_BYTES or size + own > 2 * _TASK_BYTES or len(task) == most):
                yield task
                task, size = [], 0
            task.append(vector)
            size += own
        if task:
            yield task


class Deletes:
    """The deleted rows of a snapshot, by data file. Safe to use from several threads.

    Deletes that name no data file are read first, all others when their data file is asked for.

    Raises:
        Refused: a vector is for a data file that has another path now: its deleted rows would be live again.
        DecodeError, OSError: deletes that name no data file are corrupt, or cannot be read.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        apart = () if snapshot.has_vectors_with_files else snapshot.vectors
        for vector in apart:
            rules.refuse(rules.paths(snapshot, vector), "gone-data-file")
        self._snapshot = snapshot
        self._named = vectors_of(snapshot.vectors)
        self._wide: dict[str, list[VectorRows]] = {}
        for vector in apart:
            if vector.data_file is None:
                for deleted in snapshot.read(vector):
                    self._wide.setdefault(deleted.data_file, []).append((vector, deleted))

    def __call__(self, file: DataFile) -> RowSet:
        """Return the deleted rows of a data file: those of vectors, position deletes and equality deletes.

        Raises:
            DecodeError: see `found`; or equality deletes are corrupt or not supported.
            OSError: a file cannot be read.
        """
        return RowSet().union(*(deleted.rows for _, deleted in self.found(file)), self._snapshot.deleted_by_value(file))

    def found(self, file: DataFile) -> list[VectorRows]:
        """Return the vectors and position deletes of a data file, and which rows each deletes.

        Raises:
            DecodeError: one is corrupt, or there are two vectors of different rows, or positions beyond the file.
            OSError: a file cannot be read.
        """
        vectors = self._named.get(file.path, ())
        found = [*self._wide.get(file.path, ())]
        found += [(vector, deleted) for vector in vectors for deleted in self._snapshot.read(vector)]
        rules.refuse(rules.of_data_file(file, vectors, found), "equal-vectors")
        return found
