"""Which vectors of a snapshot hold for which data file; what cannot be converted is refused here, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.rowset import RowSet
from dvcodec.tables import rules
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, TableKind
from dvcodec.tables.table import Snapshot

__all__ = ["FRAMED", "Planned", "check_deletes", "plan"]

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
        data_file: of the snapshot.
        sources: what deletes its rows: one vector, or position delete files.
        rows: of position deletes, united; None = to be read from the one vector.
    """

    data_file: DataFile
    sources: tuple[DeletionVector, ...]
    rows: RowSet | None = None


def check_deletes(snapshot: Snapshot) -> None:
    """Check that vectors are all that deletes rows: anything else would come to life in another format.

    Raises:
        Unsupported: it is not.
        DecodeError: the metadata is not sound.
    """
    for data_file in snapshot.data_files:
        why = snapshot.other_deletes(data_file)
        if why is not None:
            raise Unsupported("deletes", source=data_file.path, expected="deletion vectors alone", actual=why)


def plan(snapshot: Snapshot, read: Callable[[], None]) -> list[Planned]:
    """Group what deletes rows by data file, in the order of the files that hold it.

    Position deletes are read here, since only they know their data files; where a data file has a vector, they no
    longer count (Iceberg table spec, "Scan Planning").

    Args:
        snapshot: what is to be converted.
        read: called for each position delete file that has been read.

    Raises:
        UsageError: a table of another kind, whose data files nobody else could have.
        NotCanonical: a vector for a data file that the snapshot does not have, or that is newer; or two for one.
            Position deletes for a data file that the snapshot spells otherwise: engines differ in whether they hold.
        Unsupported: a kind of deletes that no vector expresses.
        DecodeError: a position delete file is not sound.
    """
    table = snapshot.table
    if table.kind not in _KINDS:
        raise UsageError(
            f"{table.location}: a {table.kind.value} table has no data files that Iceberg, Delta or Paimon could have"
        )
    paths = rules.Paths(snapshot)
    files = paths.files
    vectors: dict[str, DeletionVector] = {}
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES:
            continue
        if vector.format not in FRAMED:
            raise Unsupported(f"deletes of the kind {vector.format}", source=vector.where, expected="deletion vectors")
        if vector.data_file is None:
            raise NotCanonical("deletion vector", source=vector.where, expected="one data file", actual="none named")
        rules.refuse(paths.recorded(vector))
        _check_order(vector, files[vector.data_file])
        if vector.data_file in vectors:
            rules.refuse(rules.doubles(files[vector.data_file], (vectors[vector.data_file], vector)))
        vectors[vector.data_file] = vector
    planned = [Planned(files[path], (vector,)) for path, vector in vectors.items()]
    deletes: dict[str, list[tuple[DeletionVector, RowSet]]] = {}
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES:
            rules.refuse(paths.recorded(vector), "gone-data-file")
            rules.refuse(paths.in_rows(vector))
            for found in snapshot.read(vector):
                if found.data_file not in vectors:
                    deletes.setdefault(found.data_file, []).append((vector, found.rows))
            read()
    for path, parts in deletes.items():
        sources = tuple(vector for vector, _ in parts)
        planned.append(Planned(files[path], sources, RowSet().union(*(rows for _, rows in parts))))
    planned.sort(key=lambda item: (item.sources[0].location, item.sources[0].offset or 0))
    return planned


def _check_order(vector: DeletionVector, data_file: DataFile) -> None:
    """Check that Iceberg's vector is no older than its data file: it would not hold (table spec, "Scan Planning")."""
    written, added = (found.record.get("sequence_number") for found in (vector, data_file))
    if written is not None and added is not None and written < added:
        raise NotCanonical(
            f"sequence_number of the vector of {data_file.path}",
            source=vector.where,
            expected=f"at least {added}, that of the data file",
            actual=written,
        )
