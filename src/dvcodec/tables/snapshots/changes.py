"""History of a table: the rows that each snapshot deleted and restored, compared with the one before.

A vector that several snapshots have is read once; a small one of the first snapshot, once more if it is replaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import numpy as np

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_integer
from dvcodec.io.target import is_local
from dvcodec.ops.convert import diff
from dvcodec.tables.metadata import Cache
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, OnDemand, SnapshotInfo, TableKind
from dvcodec.tables.snapshots.reading import FewRead, VectorRead, read_and_count, read_vectors
from dvcodec.tables.table import Snapshot, Table, check_table

__all__ = ["FileChange", "SnapshotChange", "SnapshotRows", "history"]


_KEPT = 64 << 20
"""Approximate bytes of rows that are kept."""
_KEPT_VECTOR, _KEPT_PER_BYTE = 1024, 8
"""Bytes of memory of a vector, and for each byte of it: a container of ten bytes has 73."""


@dataclass(slots=True)
class SnapshotRows:
    """Deleted rows of a snapshot by data file.

    Attributes:
        rows: as read; of vectors of one data file that contradict each other, the rows that all have.
        with_vector: data files with a vector that was read, position deletes aside.
        contradicted: data files with such vectors.
        unread: data files of vectors that could not be read; None stands for position deletes of partitions.
        unreadable: the vectors that could not be read, with the reason.
    """

    rows: dict[str, RowSet] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)
    unread: set[str | None] = field(default_factory=set)
    with_vector: set[str] = field(default_factory=set)
    unreadable: list[tuple[DeletionVector, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether any vector was read, or could not be."""
        return bool(self.rows or self.unread)

    def is_unread(self, file: DataFile) -> bool:
        """Whether a vector that may be for a data file could not be read."""
        return file.path in self.unread or None in self.unread

    def in_doubt(self, file: DataFile) -> bool:
        """Whether the deleted rows of a data file may be others than those read, or are beyond the file."""
        return self._is_beyond(file) or file.path in self.contradicted or self.is_unread(file)

    def of(self, file: DataFile) -> RowSet:
        """Return the rows of a data file that are deleted for certain."""
        rows = self.rows.get(file.path, RowSet())
        return rows & RowSet.from_ranges([(0, file.physical_rows or 0)]) if self._is_beyond(file) else rows

    def _is_beyond(self, file: DataFile) -> bool:
        highest = self.rows.get(file.path, RowSet()).max
        return highest is not None and file.physical_rows is not None and highest >= file.physical_rows

    def add(self, vector: DeletionVector, read: VectorRead) -> None:
        """Take what was read of a vector."""
        if read.error is not None:
            self.unreadable.append((vector, str(read.error)))
            self.unread.add(vector.data_file)
        is_vector = vector.format != POSITION_DELETES
        for part in read.found:
            path, rows, earlier = part.data_file, part.rows, self.rows.get(part.data_file)
            twice = is_vector and path in self.with_vector
            if is_vector:
                self.with_vector.add(path)
            if twice and earlier != rows:
                self.contradicted.add(path)
            if earlier is not None:
                rows = earlier & rows if twice else earlier | rows
            self.rows[path] = rows


def _identified(snapshot: Snapshot) -> dict[Hashable, DeletionVector]:
    """Give each vector of a snapshot a key that it shares with a vector of the same bytes in another snapshot."""
    keys: dict[Hashable, DeletionVector] = {}
    for index, vector in enumerate(snapshot.vectors):
        key = _place(vector)
        keys[key if _lasts(snapshot, vector) else (*key, snapshot.info.id, index)] = vector
    return keys


def _place(vector: DeletionVector) -> tuple[Hashable, ...]:
    return vector.format, vector.path, vector.offset, vector.size, vector.cardinality, vector.data_file


def _lasts(snapshot: Snapshot, vector: DeletionVector) -> bool:
    """Whether its place identifies it: inline vectors have none, and pages of an index's root file are rewritten."""
    return bool(vector.path) and snapshot.table.kind is not TableKind.SCORCH


class _RowsReader:
    """Reads vectors of snapshots, and keeps those that it read last: snapshots may have the same ones by turns.

    Args:
        threads: see `read_vectors`.
    """

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._kept: Cache[Hashable, VectorRead] = Cache(_KEPT, _memory)

    def read(self, snapshot: Snapshot, vectors: Mapping[Hashable, DeletionVector]) -> SnapshotRows:
        """Read vectors.

        Args:
            snapshot: the snapshot that has the vectors.
            vectors: some of those that `_identified` returns.
        """
        known = {key: kept for key in vectors if (kept := self._kept.find(key)) is not None}
        wanted = [vector for key, vector in vectors.items() if key not in known]
        found = SnapshotRows()
        for read in read_vectors(snapshot, wanted, threads=self._threads):
            self._take(snapshot, read, found)
        for key, read in known.items():
            found.add(vectors[key], read)
        return found

    def read_first(self, snapshot: Snapshot) -> tuple[list[FewRead], SnapshotRows]:
        """Read all vectors of a snapshot, most of them many at once: those are not kept."""
        few, found = [], SnapshotRows()
        for read in read_and_count(snapshot, threads=self._threads):
            if isinstance(read, FewRead):
                few.append(read)
            else:
                self._take(snapshot, read, found)
        return few, found

    def _take(self, snapshot: Snapshot, read: VectorRead, found: SnapshotRows) -> None:
        """Add what was read, and keep it; position deletes are for other data files in another snapshot."""
        vector = read.vector
        if vector.format != POSITION_DELETES and _lasts(snapshot, vector):
            self._kept.add(_place(vector), read)
        found.add(vector, read)


def _memory(read: VectorRead) -> int:
    return _KEPT_VECTOR + (0 if read.error is not None else _KEPT_PER_BYTE * (read.vector.size or 0))


Pair: TypeAlias = tuple[Snapshot | None, Snapshot]
"""A snapshot, after the one that it is compared with."""
_WAITING, _WAITING_FILES = 64, 100_000
"""Snapshots whose vectors are read ahead, and data files in them."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of a data file's deleted rows in a snapshot.

    Attributes:
        data_file: the data file, in the snapshot.
        deleted: number of rows deleted since the snapshot before; for an added file, those that it came with.
        restored: number of rows that are live again.
        deleted_rows: which were deleted; None without `keep_rows`.
        restored_rows: which are live again; None without `keep_rows`.
        exact: False if a vector could not be read, or contradicts another one or the rows of the file: `deleted` and
            `restored` are then lower bounds, and the rows themselves are unknown.
    """

    data_file: DataFile
    deleted: int
    restored: int
    deleted_rows: RowSet | None = None
    restored_rows: RowSet | None = None
    exact: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; rows as ranges ``[start, stop)``, if they were kept."""
        values: dict[str, Any] = {
            "data_file": self.data_file.path,
            "deleted": self.deleted,
            "restored": self.restored,
            "exact": self.exact,
        }
        for name, rows in (("deleted_ranges", self.deleted_rows), ("restored_ranges", self.restored_rows)):
            if rows is not None:
                values[name] = rows.ranges().tolist()
        return values


@dataclass(frozen=True, slots=True)
class SnapshotChange:
    """The changes of a snapshot since the one before.

    Attributes:
        info: which snapshot.
        previous: the one before; None for the first, or if its metadata is gone: then all counts as added.
        added: new data files.
        removed: data files that are not in this snapshot any more; their deleted rows are not counted.
        files: data files whose deleted rows changed, or may have, in the order of the metadata that records it.
        deleted: rows deleted in all of them.
        restored: rows that are live again, in all of them.
        exact: whether the changes are known exactly; if not, `deleted` and `restored` are lower bounds.
        unreadable: vectors of this snapshot and the one before that had to be read and could not be, with the reason.
        other_deletes: whether the snapshot has other equality deletes than the one before (Iceberg); the rows that they
            delete are not counted.
    """

    info: SnapshotInfo
    previous: SnapshotInfo | None
    added: Sequence[DataFile]
    removed: Sequence[DataFile]
    files: Sequence[FileChange]
    deleted: int
    restored: int
    exact: bool
    unreadable: tuple[tuple[DeletionVector, str], ...] = ()
    other_deletes: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "snapshot": asdict(self.info),
            "previous": None if self.previous is None else self.previous.id,
            "added": [file.path for file in self.added],
            "removed": [file.path for file in self.removed],
            "deleted": self.deleted,
            "restored": self.restored,
            "exact": self.exact,
            "other_deletes": self.other_deletes,
            "unreadable": [{"vector": vector.where, "error": error} for vector, error in self.unreadable],
            "files": [file.to_dict() for file in self.files],
        }


def history(
    table: Table,
    *,
    since: int | None = None,
    until: int | None = None,
    keep_rows: bool = False,
    threads: int | None = None,
) -> Iterator[SnapshotChange]:
    """Yield what each snapshot changed, oldest first.

    A snapshot is compared with its parent, or, without a recorded parent, with the one before it in the list. Vectors
    of both (same file, offset and size) are not read. An unreadable vector does not stop the others: see
    `SnapshotChange.unreadable`.

    Args:
        table: see `open_table`.
        since: id of the first snapshot to report; None = the oldest.
        until: id of the last; None = the current one.
        keep_rows: True keeps which rows were deleted and restored.
        threads: number of concurrent readers; None = 8, or for remote tables the maximum of the storage.

    Raises:
        UsageError: the table has no such snapshot, or `until` comes before `since`.
        DecodeError: the metadata is not valid.
        OSError: it cannot be read.
    """
    check_table(table)
    for name, id_ in (("since", since), ("until", until)):
        if id_ is not None:
            check_integer(id_, name)
    infos = table.snapshots()
    places = {info.id: place for place, info in enumerate(infos)}
    for asked in (since, until):
        if asked is not None and asked not in places:
            raise UsageError(f"{table.location}: no snapshot {asked}")
    first = 0 if since is None else places[since]
    last = len(infos) - 1 if until is None else places[until]
    if first > last and infos:
        raise UsageError(f"{table.location}: snapshot {until} comes before {since}")
    pairs = _pairs(infos, places, range(first, last + 1))
    reader, nothing_read = _RowsReader(threads), True
    for old, new in _prefetched(table, table.compared(pairs)):
        if not keep_rows and (old is None or (nothing_read and not old.vectors)):
            yield _first(old, new, reader)
        else:
            yield _change(old, new, reader, keep_rows=keep_rows)
        nothing_read = nothing_read and not new.vectors


def _pairs(
    infos: Sequence[SnapshotInfo], places: Mapping[int, int], chosen: Iterable[int]
) -> Iterator[tuple[SnapshotInfo | None, SnapshotInfo]]:
    """Yield snapshots, each after the one that it is compared with."""
    for place in chosen:
        info = infos[place]
        before = infos[place - 1] if place else None
        if info.parent is not None:
            before = infos[places[info.parent]] if info.parent in places else None
        yield before, info


def _prefetched(table: Table, pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Yield pairs; for a remote table, prefetch the vector files of the next ones.

    The data files of the waiting snapshots bound the prefetch.
    """
    storage = table.folder.storage
    if is_local(table.location):
        yield from pairs
        return
    waiting: deque[Pair] = deque()
    size = 0
    known: set[str] = set()
    with ThreadPoolExecutor(storage.options.max_concurrency) as pool:
        for pair in pairs:
            waiting.append(pair)
            size += len(pair[1].data_files) + 1
            for location in {vector.location for vector in pair[1].vectors if vector.location} - known:
                known.add(location)
                pool.submit(storage.remote(location).prefetch)
            while len(waiting) > _WAITING or (size > _WAITING_FILES and len(waiting) > 1):
                size -= len(waiting[0][1].data_files) + 1
                yield waiting.popleft()
        yield from waiting


def _change(old: Snapshot | None, new: Snapshot, reader: _RowsReader, *, keep_rows: bool) -> SnapshotChange:
    if old is not None and old.data_files is new.data_files and old.vectors is new.vectors:  # of one manifest list
        return SnapshotChange(new.info, old.info, (), (), (), 0, 0, exact=True)
    before, after = {} if old is None else old.files, new.files
    then = _identified(old) if old is not None else {}
    now = _identified(new)
    changed = [vector.data_file for key, vector in [*then.items(), *now.items()] if (key in then) != (key in now)]
    # Position deletes of a partition name no data file: if they change, any data file may have changed.
    touched = after.keys() if None in changed else (after.keys() - before.keys()).union(changed) & after.keys()

    def rows_of(snapshot: Snapshot, vectors: Mapping[Hashable, DeletionVector]) -> SnapshotRows:
        of_any = {key: one for key, one in vectors.items() if one.data_file is None or one.data_file in touched}
        return reader.read(snapshot, of_any if touched else {})

    old_rows = rows_of(old, then) if old is not None else SnapshotRows()
    new_rows = rows_of(new, now)
    nothing = SnapshotRows()
    files = [
        change
        for path, file in (after.items() if old_rows or new_rows else ())
        if (change := _of_file(file, old_rows if path in before else nothing, new_rows, path in touched, keep_rows))
    ]
    deleted = sum(one.deleted for one in files)
    return _changed(old, new, tuple(files), deleted, files, (*old_rows.unreadable, *new_rows.unreadable))


def _changed(
    old: Snapshot | None,
    new: Snapshot,
    files: Sequence[FileChange],
    deleted: int,
    compared: Collection[FileChange],
    unreadable: Sequence[tuple[DeletionVector, str]],
) -> SnapshotChange:
    """Return the change since a snapshot.

    Args:
        old: the one before, None for the first.
        new: the snapshot.
        files: data files whose deleted rows changed.
        deleted: rows deleted in all of them.
        compared: those of `files` that may have restored rows, or be inexact.
        unreadable: see `SnapshotChange`.
    """
    other_deletes = new.equality_deletes != (frozenset() if old is None else old.equality_deletes)
    return SnapshotChange(
        new.info,
        None if old is None else old.info,
        new.data_files if old is None else _not_in(new, old),
        () if old is None else _not_in(old, new),
        files,
        deleted,
        sum(one.restored for one in compared),
        not unreadable and not other_deletes and all(one.exact for one in compared),
        tuple(unreadable),
        other_deletes,
    )


def _of_file(
    file: DataFile, old: SnapshotRows, new: SnapshotRows, is_touched: bool, keep_rows: bool
) -> FileChange | None:
    """Compare the rows of a data file; return None if they are the same.

    Args:
        file: the data file.
        old: deleted rows of the snapshot before; none if it does not have the file.
        new: deleted rows of the snapshot.
        is_touched: whether its vectors are others.
        keep_rows: whether the rows are kept.
    """
    unread = is_touched and (new.is_unread(file) or old.is_unread(file))
    if old.rows.get(file.path) == new.rows.get(file.path) and not unread:
        return None
    then_doubtful, now_doubtful = old.in_doubt(file), new.in_doubt(file)
    found = diff(old.of(file), new.of(file))
    if then_doubtful or now_doubtful:
        deleted = 0 if then_doubtful else found.added.cardinality
        restored = 0 if now_doubtful else found.restored.cardinality
        return FileChange(file, deleted, restored, exact=False)
    if not found.added and not found.restored:
        return None
    return FileChange(
        file, found.added.cardinality, found.restored.cardinality, *(found if keep_rows else (None, None))
    )


def _first(old: Snapshot | None, new: Snapshot, reader: _RowsReader) -> SnapshotChange:
    """Return the change since a snapshot without vectors, or since none: all rows that it deletes were deleted in it.

    Objects are made of few files.
    """
    few, rows = reader.read_first(new)
    deleted, nothing = np.zeros(len(new.data_files), np.int64), SnapshotRows()
    for one in few:
        deleted[new.vector_columns.files[one.numbers]] = one.few.cardinality
    others: dict[int, FileChange] = {}
    paths = new.numbers.keys() if None in rows.unread else {*rows.rows, *rows.unread} & new.numbers.keys()
    for path in paths:
        number = new.numbers[str(path)]
        change = _of_file(new.data_files[number], nothing, rows, True, keep_rows=False)
        if change is not None:
            others[number] = change
            deleted[number] = change.deleted
    numbers = np.union1d(np.flatnonzero(deleted), np.fromiter(others, np.int64))

    def make(place: int) -> FileChange:
        number = int(numbers[place])
        return others.get(number) or FileChange(new.data_files[number], int(deleted[number]), 0)

    return _changed(old, new, OnDemand(len(numbers), make), int(deleted.sum()), others.values(), rows.unreadable)


def _not_in(one: Snapshot, other: Snapshot) -> tuple[DataFile, ...]:
    """Return the data files of one snapshot that another lacks."""
    known = other.numbers
    return tuple(one.data_files[number] for path, number in one.numbers.items() if path not in known)
