"""Plan a conversion: find the vectors of each data file, and refuse what cannot be converted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.rowset import RowSet
from dvcodec.tables import rules
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, TableKind
from dvcodec.tables.table import Snapshot

__all__ = ["FRAMED", "Planned", "check_deletes", "plan", "rows_of"]

FRAMED = {
    "iceberg": (Magic.PORTABLE64,),
    "delta": (Magic.PORTABLE64, Magic.NATIVE64),
    "paimon32": (Magic.PAIMON32, Magic.PORTABLE64),
    "paimon64": (Magic.PAIMON32, Magic.PORTABLE64),
}
"""Formats whose vectors hold positions of rows in data files, and the layouts that they may have."""
_KINDS = (TableKind.ICEBERG, TableKind.DELTA, TableKind.PAIMON)


@dataclass(frozen=True, slots=True)
class Planned:
    """A data file with deleted rows.

    Attributes:
        data_file: a data file of the snapshot.
        sources: one vector, or the position delete files that delete its rows.
        rows: union of the position deletes; None = to be read from the one vector.
    """

    data_file: DataFile
    sources: tuple[DeletionVector, ...]
    rows: RowSet | None = None


def check_deletes(snapshot: Snapshot) -> None:
    """Check that only vectors delete rows: rows deleted otherwise would be live in the other format.

    Raises:
        Unsupported: something else deletes rows.
        DecodeError: the metadata is corrupt.
    """
    for data_file in snapshot.data_files:
        why = snapshot.other_deletes(data_file)
        if why is not None:
            raise Unsupported("deletes", source=data_file.path, expected="only deletion vectors", actual=why)


def plan(snapshot: Snapshot, read: Callable[[], None]) -> list[Planned]:
    """Group vectors and position deletes by data file, in the order of the files that hold them.

    Position deletes are read here, since only they know their data files; if a data file has a vector, they no
    longer apply (Iceberg table spec, "Scan Planning").

    Args:
        snapshot: the snapshot to convert.
        read: called for each position delete file that has been read.

    Raises:
        UsageError: a table of another kind, whose data files no other format can have.
        NotCanonical: a vector for a data file that the snapshot does not have, or that is newer; or two for one.
            Position deletes for a data file with another path in the snapshot: engines differ in applying them.
        Unsupported: deletes that a vector cannot express.
        DecodeError: a position delete file is corrupt.
    """
    table = snapshot.table
    if table.kind not in _KINDS:
        raise UsageError(
            f"{table.location}: a {table.kind.value} table has no data files that Iceberg, Delta or Paimon could have"
        )
    files = snapshot.files
    vectors: dict[str, DeletionVector] = {}
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES:
            continue
        if vector.format not in FRAMED:
            raise Unsupported(f"deletes of the kind {vector.format}", source=vector.where, expected="deletion vectors")
        if vector.data_file is None:
            raise NotCanonical("deletion vector", source=vector.where, expected="one data file", actual="none named")
        rules.refuse(rules.paths(snapshot, vector))
        rules.refuse(rules.older(vector, files[vector.data_file]))
        if vector.data_file in vectors:
            rules.refuse(rules.doubles(files[vector.data_file], (vectors[vector.data_file], vector)))
        vectors[vector.data_file] = vector
    planned = [Planned(files[path], (vector,)) for path, vector in vectors.items()]
    deletes: dict[str, list[tuple[DeletionVector, RowSet]]] = {}
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES:
            rules.refuse(rules.paths(snapshot, vector), "gone-data-file")
            for found in snapshot.read(vector):
                if found.data_file not in vectors:
                    deletes.setdefault(found.data_file, []).append((vector, found.rows))
            read()
    for path, parts in deletes.items():
        sources = tuple(vector for vector, _ in parts)
        planned.append(Planned(files[path], sources, RowSet().union(*(rows for _, rows in parts))))
    planned.sort(key=lambda item: (item.sources[0].location, item.sources[0].offset or 0))
    return planned


def rows_of(snapshot: Snapshot, item: Planned) -> RowSet:
    """Return the deleted rows of a data file; its one vector is read.

    Raises:
        DecodeError: the vector is corrupt, or a position is beyond the rows of the data file.
        OSError: it cannot be read.
    """
    rows = item.rows
    if rows is None:
        rows = RowSet().union(*(found.rows for found in snapshot.read(item.sources[0])))
    rules.refuse(rules.positions(item.data_file, item.sources[0], rows.max))
    return rows
