"""What the files of a snapshot hold, read and checked: many vectors, with a few threads and bounded memory; rows.

`Deletes` has the deleted rows of a data file: all vectors, position deletes and equality deletes taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from dvcodec.core.batch import Few
from dvcodec.core.errors import DvcodecError, MissingExtra, NotCanonical
from dvcodec.core.ragged import Flags, Index
from dvcodec.core.rowset import RowSet
from dvcodec.io import Storage
from dvcodec.io.frames import few_at
from dvcodec.io.storage import run_bounded
from dvcodec.tables.columns import ODD, UNKNOWN, VectorColumns
from dvcodec.tables.model import WHOLE, DataFile, DeletedRows, DeletionVector, Part, PhysicalRows, RowReader
from dvcodec.tables.rows.bounds import ColumnBounds, RowGroupFilter
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.rules import VectorRows
from dvcodec.tables.table import Snapshot


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
    wanted: RowGroupFilter | None = None,
    seen: RowsSeen | None = None,
) -> Iterator[PhysicalRows]:
    """Read a data file, see `Snapshot.rows`, and check that its rows come without gaps and are as many as recorded.

    Args:
        snapshot: that has it.
        file: the data file.
        columns: names to read.
        batch_rows: maximum rows in a batch.
        wanted: the row groups to read; None = all.
        seen: counts.

    Raises:
        NotCanonical: they are not.
        DvcodecError, OSError: see `Snapshot.rows`.
    """
    seen = RowsSeen() if seen is None else seen
    yield from rows_in_order(snapshot.row_reader(file, columns), file.path, batch_rows, wanted, seen)
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
    reader: RowReader, source: str, batch_rows: int, wanted: RowGroupFilter | None, seen: RowsSeen, part: Part = WHOLE
) -> Iterator[PhysicalRows]:
    """Read a part of a data file, and check that its rows come without gaps.

    Args:
        reader: reads the data file.
        source: its path, for errors.
        batch_rows: maximum rows in a batch.
        wanted: the row groups to read; None = all.
        seen: counts.
        part: of the data file.

    Raises:
        NotCanonical: there are gaps, or the whole file does not begin with row 0.
        DvcodecError, OSError: see `Snapshot.rows`.
    """
    skipped: dict[int, int] = {}

    def noted(start: int, rows: int, known: Mapping[str, ColumnBounds]) -> bool:
        if wanted is None or wanted(start, rows, known):
            return True
        skipped[start] = rows
        return False

    stop = None if part.number else 0
    for rows in reader(batch_rows, part, None if wanted is None else noted):
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
_FEW_ROWS = 4096
"""Rows of a vector, up to which its positions are read together with those of others."""


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


@dataclass(frozen=True, slots=True)
class FewRead:
    """Vectors that were read together: valid ones of few rows, each the only one of its data file.

    Attributes:
        numbers: int64[n], which of the snapshot's vectors these are.
        few: what is in them; all are `found`.
    """

    numbers: Index
    few: Few


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
    none = np.zeros(len(vectors), np.bool_)
    return cast("Iterator[VectorRead]", _read_all(snapshot, VectorColumns(vectors, {}), none, threads, progress))


def read_and_count(
    snapshot: Snapshot, *, threads: int | None = None, progress: Progress | None = None
) -> Iterator[FewRead | VectorRead]:
    """Read the vectors of a snapshot like `read_vectors`, most of them many at once.

    Args:
        snapshot: the snapshot.
        threads: see `read_vectors`.
        progress: see `read_vectors`.

    Raises:
        MissingExtra: a package that reads them is not installed.
    """
    columns = snapshot.vector_columns
    files, sizes = columns.files, columns.sizes
    alone = np.zeros(len(files), np.bool_)
    if snapshot.frame_magics and not columns.have_wide:
        of_one = np.flatnonzero(files >= 0)
        of_one = of_one[columns.counts[files[of_one]] == 1]
        alone[of_one] = snapshot.file_columns.rows[files[of_one]] != ODD
        alone &= columns.frames & (columns.offsets >= 0) & (sizes >= 0) & (sizes <= _SMALL)
        alone &= columns.cardinalities != ODD
        if "" in columns.places.locations:
            alone &= columns.places.location_of != columns.places.locations.index("")
    yield from _read_all(snapshot, columns, alone, threads, progress)


def _read_all(
    snapshot: Snapshot, columns: VectorColumns, at_once: Flags, threads: int | None, progress: Progress | None
) -> Iterator[FewRead | VectorRead]:
    table = snapshot.table
    storage = table.folder.storage

    def work(task: Index) -> list[FewRead | VectorRead]:
        with _held(storage, columns, task):
            few = _few(snapshot, columns, task[at_once[task]])
            rest = task if few is None else task[~np.isin(task, few.numbers)]
            done: list[FewRead | VectorRead] = [] if few is None else [few]
            vectors = [columns.vectors[number] for number in rest.tolist()]
            snapshot.read_ahead(vectors)
            return done + [_read(snapshot, vector) for vector in vectors]

    tasks = list(_tasks(columns))
    if threads is None and _are_small_and_local(columns, len(tasks)):
        threads = 1
    readers = min(storage.threads(table.location, threads), max(len(tasks), 1))
    done = 0
    for task, results in zip(tasks, run_bounded(work, tasks, readers), strict=True):
        yield from results
        done += len(task)
        if progress is not None:
            progress(done, len(columns.vectors))


def _few(snapshot: Snapshot, columns: VectorColumns, task: Index) -> FewRead | None:
    """Read those vectors of a task together that have no finding; None if there are none."""
    if len(task) == 0:
        return None
    storage = snapshot.table.folder.storage
    try:
        with storage.open(columns.places.locations[columns.places.location_of[task[0]]]) as source:
            few = few_at(
                source,
                columns.offsets[task],
                columns.sizes[task],
                columns.cardinalities[task],
                allowed=snapshot.frame_magics,
                limits=storage.limits,
                most_rows=_FEW_ROWS,
            )
    except MissingExtra:
        raise
    except (DvcodecError, OSError):  # each of them says so
        return None
    rows = snapshot.file_columns.rows[columns.files[task]]
    few = few.of((rows == UNKNOWN) | (few.max < rows))
    return FewRead(task[few.found], few.taken()) if few.found.any() else None


@contextmanager
def _held(storage: Storage, columns: VectorColumns, task: Index) -> Iterator[None]:
    """Open the file of a task once, and read its vectors with one request if there are no large gaps."""
    offsets, sizes = columns.offsets[task], columns.sizes[task]
    ahead = None
    if (offsets >= 0).all() and (sizes >= 0).all():
        start, stop = int(offsets.min()), int((offsets + sizes).max())
        if stop - start <= min(2 * int(sizes.sum()), 4 * _TASK_BYTES):
            ahead = start, stop - start
    first, last = columns.places.location_of[task[[0, -1]]].tolist()
    location = columns.places.locations[first]
    with ExitStack() as stack:
        if len(task) > 1 and location and first == last:
            with suppress(DvcodecError, OSError):  # each vector's own read reports the file error
                stack.enter_context(storage.hold(location, ahead))
        yield


def _read(snapshot: Snapshot, vector: DeletionVector) -> VectorRead:
    try:
        return VectorRead(vector, snapshot.read(vector))
    except MissingExtra:
        raise
    except (DvcodecError, OSError) as error:  # also UsageError: metadata may have an invalid path
        error.__traceback__ = error.__context__ = None  # they keep every frame alive, and each has an error's frames
        return VectorRead(vector, (), error)


def _are_small_and_local(columns: VectorColumns, tasks: int) -> bool:
    """Whether tasks have many small vectors each, of one local file, for which threads only wait for each other."""
    if any(_URL in location for location in columns.places.locations):
        return False
    count, sizes = len(columns.vectors), columns.sizes
    return count > tasks * _MANY and int(np.where(sizes < 0, _TASK_BYTES, sizes).sum()) < count * _SMALL


def _tasks(columns: VectorColumns) -> Iterator[Index]:
    """Split each container's vectors into tasks: of at most 8 MiB, or of one vector; see `_groups`."""
    for location, group in _groups(columns):
        most = _TASK_VECTORS if _URL in location else _LOCAL_TASK_VECTORS
        sizes = columns.sizes[group]
        if sizes.min() >= 0 and sizes.max() <= _TASK_BYTES // most:
            yield from np.split(group, range(most, len(group), most))
            continue
        first = size = 0
        for number, stated in enumerate(sizes.tolist()):
            own = stated if stated >= 0 else _TASK_BYTES
            if number > first and (size >= _TASK_BYTES or size + own > 2 * _TASK_BYTES or number - first == most):
                yield group[first:number]
                first, size = number, 0
            size += own
        yield group[first:]


def _groups(columns: VectorColumns) -> Iterator[tuple[str, Index]]:
    """Yield files, each with its vectors; all local files of position deletes as one, which are read together."""
    together = []
    for location, group in zip(columns.places.locations, columns.containers, strict=True):
        if columns.bitmaps[group[0]] or _URL in location:
            yield location, group
        else:
            together.append(group)
    if together:
        yield "", np.concatenate(together)


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
            if vector.data_file is not None:
                rules.refuse(rules.paths(snapshot, vector), "gone-data-file")
        self._snapshot = snapshot
        self._wide: dict[str, list[VectorRows]] = {}
        for vector, deleted in self._read([vector for vector in apart if vector.data_file is None]):
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
        vectors = self._snapshot.vectors_of(file)
        found = [*self._wide.get(file.path, ())]
        found += self._read(vectors)
        rules.refuse(rules.of_data_file(file, vectors, found), "equal-vectors")
        return found

    def _read(self, vectors: Sequence[DeletionVector]) -> Iterator[VectorRows]:
        """Read vectors, position deletes many at once; those of a partition name data files by their paths."""
        snapshot = self._snapshot
        if len(vectors) == 1 and vectors[0].data_file is not None:
            yield from ((vectors[0], deleted) for deleted in snapshot.read(vectors[0]))
            return
        for read in read_vectors(snapshot, vectors):
            if read.error is not None:
                raise read.error
            if read.vector.data_file is None:
                rules.refuse(rules.paths(snapshot, read.vector), "gone-data-file")
            yield from ((read.vector, deleted) for deleted in read.found)
