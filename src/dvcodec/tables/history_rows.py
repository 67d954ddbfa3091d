"""The deleted rows of snapshots, for a history: a vector that several snapshots have is read once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from dvcodec.core.rowset import RowSet
from dvcodec.tables.cache import Cache
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, TableKind
from dvcodec.tables.reading import VectorRead, read_vectors
from dvcodec.tables.table import Snapshot

__all__ = ["RowsReader", "SnapshotRows", "identified"]

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
        rows = self.rows.get(file.path)
        beyond = rows is not None and file.physical_rows is not None and (rows.max or 0) >= file.physical_rows
        return beyond or file.path in self.contradicted or self.is_unread(file)

    def of(self, file: DataFile) -> RowSet:
        """Return the rows of a data file that are deleted for certain."""
        rows = self.rows.get(file.path, RowSet())
        if file.physical_rows is not None and (rows.max or 0) >= file.physical_rows:
            return rows & RowSet.from_ranges([(0, file.physical_rows)])
        return rows


def identified(snapshot: Snapshot) -> dict[Hashable, DeletionVector]:
    """Give each vector of a snapshot a key that it shares with a vector of the same bytes in another snapshot."""
    keys: dict[Hashable, DeletionVector] = {}
    for index, vector in enumerate(snapshot.vectors):
        key = (vector.format, vector.path, vector.offset, vector.size, vector.cardinality, vector.data_file)
        keys[key if _lasts(snapshot, vector) else (*key, snapshot.info.id, index)] = vector
    return keys


def _lasts(snapshot: Snapshot, vector: DeletionVector) -> bool:
    """Whether its place identifies it: inline vectors have none, and pages of an index's root file are rewritten."""
    return bool(vector.path) and snapshot.table.kind is not TableKind.SCORCH


class RowsReader:
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
            vectors: some of those that `identified` returns.
        """
        known = {key: kept for key in vectors if (kept := self._kept.find(key)) is not None}
        keys = {id(vector): key for key, vector in vectors.items() if key not in known}
        wanted = [vector for key, vector in vectors.items() if key not in known]
        found = SnapshotRows()
        for read in read_vectors(snapshot, wanted, threads=self._threads):
            vector = read.vector
            # Position deletes are for other data files in another snapshot.
            if vector.format != POSITION_DELETES and _lasts(snapshot, vector):
                self._kept.get(keys[id(vector)], lambda read=read: read)  # type: ignore[misc]
            _add(found, vector, read)
        for key, read in known.items():
            _add(found, vectors[key], read)
        return found


def _memory(read: VectorRead) -> int:
    return _KEPT_VECTOR + (0 if read.error is not None else _KEPT_PER_BYTE * (read.vector.size or 0))


def _add(found: SnapshotRows, vector: DeletionVector, read: VectorRead) -> None:
    if read.error is not None:
        found.unreadable.append((vector, str(read.error)))
        found.unread.add(vector.data_file)
    is_vector = vector.format != POSITION_DELETES
    for part in read.found:
        path, rows, earlier = part.data_file, part.rows, found.rows.get(part.data_file)
        twice = is_vector and path in found.with_vector
        if is_vector:
            found.with_vector.add(path)
        if twice and earlier != rows:
            found.contradicted.add(path)
        if earlier is not None:
            rows = earlier & rows if twice else earlier | rows
        found.rows[path] = rows
