"""The deleted rows of a snapshot's data files: all vectors, position deletes and equality deletes taken together."""

from __future__ import annotations

from dvcodec.core.rowset import RowSet
from dvcodec.tables import rules
from dvcodec.tables.model import DataFile, DeletionVector, vectors_of
from dvcodec.tables.rules import Part
from dvcodec.tables.table import Snapshot

__all__ = ["Deletes"]


class Deletes:
    """Reads the deleted rows of data files, one at a time. Safe to use from several threads.

    Refuses vectors for a data file that has another path now: its deleted rows would be live again.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        for vector in snapshot.vectors:
            rules.refuse(rules.paths(snapshot, vector), "gone-data-file")
        self._snapshot = snapshot
        self._named = vectors_of(snapshot.vectors)
        self._wide: dict[str, list[Part]] = {}
        for vector in snapshot.vectors:
            if vector.data_file is None:
                for part in self._read(vector):
                    self._wide.setdefault(part.found.data_file, []).append(part)

    def __call__(self, file: DataFile) -> RowSet:
        """Return the deleted rows of a data file.

        Raises:
            DecodeError: a vector is corrupt, or there are two of different rows, or positions beyond the file; or
                equality deletes are corrupt or not supported.
            OSError: a file cannot be read.
        """
        vectors = self._named.get(file.path, ())
        parts = [*self._wide.get(file.path, ()), *(part for vector in vectors for part in self._read(vector))]
        rules.refuse(rules.of_data_file(file, vectors, parts), "equal-vectors")
        return RowSet().union(*(part.found.rows for part in parts), self._snapshot.deleted_by_value(file))

    def _read(self, vector: DeletionVector) -> list[Part]:
        found = self._snapshot.read(vector)
        total = sum(one.rows.cardinality for one in found)
        return [Part(vector, one, total) for one in found]
