"""Plan a conversion: find the vectors of each data file, and refuse what cannot be converted; read and verify them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from dvcodec.core import vector as core_vector
from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import DvLocation, Magic, StoredFrame
from dvcodec.iceberg.delete_files import PositionDeleteFile
from dvcodec.io import Source
from dvcodec.io.frames import read_frame
from dvcodec.ops.convert import GapKeys, encode_frame, frame_for
from dvcodec.tables.convert.record import Speller, absolute, partition_values
from dvcodec.tables.model import POSITION_DELETES, DataFile, DeletionVector, TableKind, vectors_of
from dvcodec.tables.snapshots import rules
from dvcodec.tables.snapshots.reading import Deletes
from dvcodec.tables.table import Snapshot

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
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES:
            continue
        if vector.format not in FRAMED:
            raise Unsupported(f"deletes of the kind {vector.format}", source=vector.where, expected="deletion vectors")
        if vector.data_file is None:
            raise NotCanonical("deletion vector", source=vector.where, expected="one data file", actual="none named")
        rules.refuse(rules.paths(snapshot, vector))
        rules.refuse(rules.older(vector, snapshot.files[vector.data_file]))
    deletes, named = Deletes(snapshot), vectors_of(snapshot.vectors)
    planned: list[Planned] = []
    for file in snapshot.data_files:
        own = named.get(file.path, ())
        vectors = tuple(vector for vector in own if vector.format != POSITION_DELETES)
        rules.refuse(rules.doubles(file, vectors))
        found = [] if vectors else deletes.found(file)
        if found:
            sources = tuple(vector for vector, _ in found)
            planned.append(Planned(file, sources, RowSet().union(*(deleted.rows for _, deleted in found))))
        elif vectors:
            planned.append(Planned(file, vectors))
        for _ in range(len(own) - len(vectors)):
            read()
    for vector in snapshot.vectors:
        if vector.format == POSITION_DELETES and vector.data_file not in snapshot.files:
            read()
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


class How(str, Enum):
    """How a vector was converted."""

    IN_PLACE = "in-place"
    """It stays in its file and is referenced there."""
    COPIED = "copied"
    """Its frame was copied byte for byte."""
    ENCODED = "encoded"
    """Its rows were re-encoded: it was inline, in another layout, or position deletes."""


@dataclass(frozen=True, slots=True)
class ConvertedVector:
    """A vector of the target.

    Attributes:
        data_file: the data file, as the source names it.
        how: how it was converted.
        location: location of the vector; its `data_file` is spelled as in the target.
        sources: one vector, or the position delete files that it replaces.
        record: values for the commit, by the target's own field names.
    """

    data_file: DataFile
    how: How
    location: DvLocation
    sources: tuple[DeletionVector, ...]
    record: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return a line of the file of entries."""
        return {
            "data_file": self.location.data_file,
            "data_file_location": absolute(self.data_file.location),
            "data_file_size": self.data_file.size,
            "physical_rows": self.data_file.physical_rows,
            "partition": self.data_file.partition,
            "partition_values": _partition_values(self.data_file),
            "cardinality": self.location.cardinality,
            "how": self.how.value,
            "path": self.location.path,
            "offset": self.location.offset,
            "size": self.location.size,
            "sources": [
                {"format": source.format, "path": source.path, "offset": source.offset, "size": source.size}
                for source in self.sources
            ],
        } | self.record


class Reader:
    """Reads the planned vectors; those that do not stay in place are yielded as frames, to be written.

    Attributes:
        speller: speller of the target.
        converted: vectors that are done.
        empty: vectors without rows, which are skipped.
    """

    def __init__(self, snapshot: Snapshot, speller: Speller, in_place: bool, advance: Callable[[], None]) -> None:
        self._snapshot, self.speller = snapshot, speller
        self._in_place, self._advance = in_place, advance
        self._handed: list[tuple[Planned, How]] = []
        self.converted: list[ConvertedVector] = []
        self.empty = 0
        self._gaps = GapKeys()

    def frames(self, group: Iterable[Planned]) -> Generator[StoredFrame, None, None]:
        """Read vectors, and yield the frames to be written."""
        for location, items in itertools.groupby(group, key=_container):
            if location is None:
                for item in items:
                    yield from self._encoded(item)
            else:
                with self._snapshot.table.folder.storage.open(location) as source:
                    for item in items:
                        yield from self._stored(item, source)

    def written(self, locations: Sequence[DvLocation]) -> None:
        """Record the locations of the frames that were yielded last."""
        for location in locations:
            item, how = self._handed.pop(0)
            self._convert(item, how, location, len(locations))

    def written_as_position_deletes(self, file: PositionDeleteFile) -> None:
        """Record a file of position deletes, of the rows of the frame that was yielded last."""
        ((item, _),) = self._handed
        self._handed.clear()
        entry = file.entry_in_json()
        size = entry["file_size_in_bytes"]
        (name,) = file.data_files
        location = DvLocation(POSITION_DELETES, entry["file_path"], 0, size, entry["record_count"], name, size)
        record = {"manifest_entry": entry}
        self.converted.append(ConvertedVector(item.data_file, How.ENCODED, location, item.sources, record))

    def _stored(self, item: Planned, source: Source) -> Iterator[StoredFrame]:
        (vector,) = item.sources
        offset, size = cast("int", vector.offset), cast("int", vector.size)
        limits = self._snapshot.table.folder.storage.limits
        found = core_vector.read(
            read_frame(source, offset, size, limits), FRAMED[vector.format], vector.cardinality, limits
        )
        rules.refuse(rules.positions(item.data_file, item.sources[0], found.view.max))
        data = frame_for(found, self.speller.to, item.data_file.path, self._gaps)
        self._advance()
        if self._in_place and found.cardinality and self.speller.may_stay(found.magic, offset):
            place = DvLocation(vector.format, vector.path, offset, size, found.cardinality, None, source.size)
            self._convert(item, How.IN_PLACE, self.speller.in_place(place, vector.location, item.data_file), 1)
        else:
            same = found.frame is not None and data is found.frame.data
            yield from self._hand_on(item, How.COPIED if same else How.ENCODED, found.cardinality, data)

    def _encoded(self, item: Planned) -> Iterator[StoredFrame]:
        rows = rows_of(self._snapshot, item)
        if item.rows is None:
            self._advance()
        data = encode_frame(rows, self.speller.to, item.data_file.path, self._gaps)
        yield from self._hand_on(item, How.ENCODED, rows.cardinality, data)

    def _hand_on(self, item: Planned, how: How, cardinality: int, data: BytesLike) -> Iterator[StoredFrame]:
        if not cardinality:
            self.empty += 1
            return
        self._handed.append((item, how))
        yield StoredFrame(self.speller.data_file(item.data_file), cardinality, data)

    def _convert(self, item: Planned, how: How, location: DvLocation, in_file: int) -> None:
        record = self.speller.record(location, item.data_file, in_file)
        self.converted.append(ConvertedVector(item.data_file, how, location, item.sources, record))


def _partition_values(data_file: DataFile) -> dict[str, str | None] | None:
    try:
        return partition_values(data_file)
    except UsageError:  # a target that needs them has refused the file
        return None


def _container(item: Planned) -> str | None:
    """Return the file that holds the frame of a vector; None if its rows are read otherwise."""
    vector = item.sources[0]
    framed = item.rows is None and vector.location and vector.offset is not None and vector.size is not None
    return vector.location if framed else None
