"""History of a table: the rows that each snapshot deleted and restored, compared with the one before."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_integer
from dvcodec.io.target import is_local
from dvcodec.ops.algebra import diff
from dvcodec.tables.arguments import check_table
from dvcodec.tables.history_rows import RowsReader, SnapshotRows, identified
from dvcodec.tables.model import DataFile, DeletionVector, SnapshotInfo
from dvcodec.tables.table import Snapshot, Table

__all__ = ["FileChange", "SnapshotChange", "history"]

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
        unreadable: vectors of this snapshot and the one before that had to be read and could not be, with the reason.
        other_deletes: whether the snapshot has other equality deletes than the one before (Iceberg); the rows that they
            delete are not counted.
    """

    info: SnapshotInfo
    previous: SnapshotInfo | None
    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]
    files: tuple[FileChange, ...]
    unreadable: tuple[tuple[DeletionVector, str], ...] = ()
    other_deletes: bool = False

    @property
    def exact(self) -> bool:
        """Whether the changes are known exactly; if not, `deleted` and `restored` are lower bounds."""
        return not (self.unreadable or self.other_deletes) and all(file.exact for file in self.files)

    @property
    def deleted(self) -> int:
        """Rows deleted in all data files."""
        return sum(file.deleted for file in self.files)

    @property
    def restored(self) -> int:
        """Rows that are live again, in all data files."""
        return sum(file.restored for file in self.files)

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
    reader = RowsReader(threads)
    for old, new in _prefetched(table, table.compared(pairs)):
        yield _change(old, new, reader, keep_rows=keep_rows)


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


def _change(old: Snapshot | None, new: Snapshot, reader: RowsReader, *, keep_rows: bool) -> SnapshotChange:
    if old is not None and old.data_files is new.data_files and old.vectors is new.vectors:  # of one manifest list
        return SnapshotChange(new.info, old.info, (), (), ())
    before, after = {} if old is None else old.files, new.files
    then = identified(old) if old is not None else {}
    now = identified(new)
    changed = [vector.data_file for key, vector in [*then.items(), *now.items()] if (key in then) != (key in now)]
    # Position deletes of a partition name no data file: if they change, any data file may have changed.
    touched = after.keys() if None in changed else (after.keys() - before.keys()).union(changed) & after.keys()

    def rows_of(snapshot: Snapshot, vectors: Mapping[Hashable, DeletionVector]) -> SnapshotRows:
        of_any = {key: one for key, one in vectors.items() if one.data_file is None or one.data_file in touched}
        return reader.read(snapshot, of_any if touched else {})

    old_rows = rows_of(old, then) if old is not None else SnapshotRows()
    new_rows = rows_of(new, now)
    files = []
    for path, file in after.items() if old_rows or new_rows else ():
        then_rows, now_rows = old_rows.rows.get(path) if path in before else None, new_rows.rows.get(path)
        unread = path in touched and (new_rows.is_unread(file) or (path in before and old_rows.is_unread(file)))
        if then_rows == now_rows and not unread:
            continue
        then_doubtful, now_doubtful = path in before and old_rows.in_doubt(file), new_rows.in_doubt(file)
        found = diff(old_rows.of(file) if path in before else RowSet(), new_rows.of(file))
        if then_doubtful or now_doubtful:
            deleted = 0 if then_doubtful else found.added.cardinality
            restored = 0 if now_doubtful else found.restored.cardinality
            files.append(FileChange(file, deleted, restored, exact=False))
        elif found.added or found.restored:
            kept = found if keep_rows else (None, None)
            files.append(FileChange(file, found.added.cardinality, found.restored.cardinality, *kept))
    return SnapshotChange(
        new.info,
        None if old is None else old.info,
        tuple(file for path, file in after.items() if path not in before),
        tuple(file for path, file in before.items() if path not in after),
        tuple(files),
        (*old_rows.unreadable, *new_rows.unreadable),
        new.equality_deletes != (frozenset() if old is None else old.equality_deletes),
    )
