"""A table as its metadata describes it: one model for Iceberg, Delta, Paimon, Lance and scorch.

A `Table` lists its snapshots. A `Snapshot` lists data files and the deletion vectors that hold for them. Of a vector
the table reads the rows, of a data file the physical rows; everything else (audit, statistics, history, live rows,
conversion) is written once, over this model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import UsageError
from dvcodec.core.location import DvLocation
from dvcodec.core.report import Check
from dvcodec.core.rowset import RowSet
from dvcodec.ops.stats import VectorStats
from dvcodec.tables.folder import Folder, StoredFile

if TYPE_CHECKING:
    import pyarrow as pa

    from dvcodec.tables.problems import Problem

__all__ = [
    "NO_SNAPSHOT",
    "DataFile",
    "DeletedRows",
    "DeletionVector",
    "PhysicalRows",
    "Snapshot",
    "SnapshotInfo",
    "Table",
    "TableKind",
    "vectors_of",
]


NO_SNAPSHOT = -1
"""Id of the current state of a table without a snapshot: no data files, but a schema. Iceberg's metadata says so."""


class TableKind(str, Enum):
    """What wrote the metadata."""

    ICEBERG = "iceberg"
    DELTA = "delta"
    PAIMON = "paimon"
    LANCE = "lance"
    SCORCH = "scorch"


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One state of a table.

    Attributes:
        id: snapshot id (Iceberg, Paimon), version (Delta, Lance), epoch (scorch); `NO_SNAPSHOT` for an Iceberg table
            that has none.
        timestamp_ms: when it was committed, milliseconds since 1970 UTC; None where the metadata does not say.
        operation: what the engine calls the commit: ``delete``, ``MERGE``, ``COMPACT``; None where it does not say.
        parent: the snapshot that it was made from, None for the first or where the metadata does not say.
    """

    id: int
    timestamp_ms: int | None = None
    operation: str | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a snapshot (of Lance: a fragment; of scorch: a segment).

    Attributes:
        path: its identity in the table: as the metadata spells it, with URL encoding undone where the format encodes.
        location: where it can be opened: path or URL. Other than `path` where that is relative, or the table moved.
        physical_rows: rows in the file, deleted ones included; None where the metadata does not say.
        size: bytes; None where the metadata does not say.
        partition: partition values as ``day=2026-01-01/part=a``, None without partitions.
        record: what the metadata says of it, by the engine's own field names.
    """

    path: str
    location: str
    physical_rows: int | None
    size: int | None = None
    partition: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """A deletion vector of a snapshot, as the metadata records it; nothing of it has been read.

    Attributes:
        format: ``iceberg``, ``delta``, ``paimon32``, ``paimon64``, ``lance``, ``scorch``, or ``position-deletes`` (an
            Iceberg v2 delete file).
        data_file: `DataFile.path` that it is for, as recorded (the data file may be gone); None for position deletes
            of a whole partition, whose rows name their data files.
        path: the file that holds it, as the metadata spells it (URL encoding undone); empty for an inline vector.
        location: where that file can be opened; empty for an inline vector.
        offset: first byte of the frame in that file; None if the vector is the whole file, or inline.
        size: bytes of the whole frame or file; None where the metadata does not say.
        cardinality: deleted rows as recorded; None where the metadata does not say.
        file_size: bytes of the whole file as recorded, None where the metadata does not say.
        record: what the metadata says of it, by the engine's own field names.
    """

    format: str
    data_file: str | None
    path: str
    location: str
    offset: int | None = None
    size: int | None = None
    cardinality: int | None = None
    file_size: int | None = None
    record: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def where(self) -> str:
        """Name the place in errors and reports: ``path@offset``, or ``inline vector``."""
        if not self.path:
            return f"inline vector of {self.data_file}"
        return self.path if self.offset is None else f"{self.path}@{self.offset}"

    def to_location(self) -> DvLocation:
        """Return the place as the rest of the library names it.

        Raises:
            UsageError: the vector stands in no file by itself, or its size or cardinality is not recorded.
        """
        if not self.path or self.offset is None or self.size is None or self.cardinality is None:
            raise UsageError(f"{self.where}: not a recorded byte range")
        return DvLocation(
            self.format, self.path, self.offset, self.size, self.cardinality, self.data_file, self.file_size
        )


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """What a deletion vector holds for one data file, read and verified.

    Attributes:
        data_file: `DataFile.path`.
        rows: the deleted rows.
        stats: numbers of the vector as stored; None for position deletes, which are no bitmap.
    """

    data_file: str
    rows: RowSet
    stats: VectorStats | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The data files of a state and the deletion vectors that hold for them.

    Attributes:
        info: which state.
        data_files: in the metadata's order; no path comes twice.
        vectors: in the metadata's order; what the metadata says, sound or not: two may be for one data file, and their
            data files may be gone.
        schema_id: the schema that its rows are read in, where the metadata numbers schemas. A state asked for by its id
            has the one that it was committed with; the current state the newest, as engines show it.
    """

    info: SnapshotInfo
    data_files: tuple[DataFile, ...]
    vectors: tuple[DeletionVector, ...]
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class PhysicalRows:
    """Rows of a data file that follow one another there.

    Attributes:
        start: 0-based physical position of the first.
        batch: the rows, in the snapshot's schema, deleted ones included.
        keep: which of them are rows of the table at all, for data files that hold other records too (Paimon's
            retractions); None = all. Deletion vectors are not applied here.
    """

    start: int
    batch: pa.RecordBatch
    keep: pa.BooleanArray | None = None


class Table(ABC):
    """A table that was found by its metadata. Methods read; a table keeps no file open.

    Attributes:
        kind: of the metadata.
        folder: the table's folder.
    """

    kind: TableKind
    folder: Folder

    @property
    def location(self) -> str:
        """The table's folder as it was named."""
        return self.folder.location

    @abstractmethod
    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the states whose metadata is still there, oldest first; the last is the current one.

        Raises:
            UsageError: there is no table (any more).
            DecodeError: the metadata is not sound.
            OSError: it cannot be read.
        """

    @abstractmethod
    def snapshot(self, id: int | None = None) -> Snapshot:  # noqa: A002  (what every format calls it)
        """Return a state; None = the current one, in the newest schema.

        Raises:
            UsageError: there is no such state.
            DecodeError: the metadata is not sound.
            Unsupported: the metadata uses what this library does not know; nothing is left out silently.
            OSError: it cannot be read.
        """

    @abstractmethod
    def read(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[DeletedRows, ...]:
        """Read a vector by its byte range and verify it: frame, CRC, structure, cardinality as recorded.

        One entry for a vector; for position deletes one for each data file of `snapshot` whose rows are deleted by it.
        Safe to call from several threads. Not checked: that positions lie below the data file's rows.

        Args:
            vector: of `snapshot`.
            snapshot: of this table.

        Raises:
            DecodeError: it is not sound.
            OSError: its file cannot be read.
        """

    def unknown_files(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[str, ...]:  # noqa: ARG002
        """Return the data files that position deletes of a whole partition name and that the snapshot does not have.

        They are gone, or spelled otherwise there: their rows are deleted for no reader, who compare plain text.

        Args:
            vector: of `snapshot`; anything but such position deletes gives no files.
            snapshot: of this table.

        Raises:
            DecodeError: the position deletes are not sound.
            OSError: their file cannot be read.
        """
        return ()

    def respelled(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[tuple[str, str], ...]:  # noqa: ARG002
        """Return the data files that position deletes name with another scheme than the metadata does.

        Their rows are deleted by `read`, while readers that compare text do not delete them.

        Args:
            vector: of `snapshot`; anything but position deletes gives no files.
            snapshot: of this table.

        Returns:
            Pairs: the path in the deletes, `DataFile.path`.

        Raises:
            DecodeError: the position deletes are corrupt.
            OSError: their file cannot be read.
        """
        return ()

    def other_deletes(self, data_file: DataFile, snapshot: Snapshot) -> str | None:  # noqa: ARG002
        """Say what else than its deletion vector keeps rows of a data file from being live; None if nothing does.

        Equality deletes, or records that readers have to merge first: what no vector expresses.

        Args:
            data_file: of `snapshot`.
            snapshot: of this table.

        Raises:
            DecodeError: the metadata is not sound.
        """
        return None

    def check_metadata(self, snapshot: Snapshot) -> Iterator[Problem]:  # noqa: ARG002
        """Find what the metadata of a state says that makes an engine refuse the table, or skip its vectors.

        What is looked at depends on the format; without checks of its own a kind of table has no problems here. The
        bytes of vectors and data files are not read.

        Args:
            snapshot: of this table.

        Raises:
            DecodeError: the metadata is not valid.
            OSError: it cannot be read.
        """
        return iter(())

    def stored_rows(self, data_file: DataFile, snapshot: Snapshot) -> int | None:  # noqa: ARG002
        """Return how many rows a data file says it has, from its footer; None where its format is not known here.

        Safe to call from several threads. Not checked: that the rows are there.

        Args:
            data_file: of `snapshot`.
            snapshot: of this table.

        Raises:
            DecodeError: the file is not valid.
            MissingExtra: what reads the file is not installed.
            OSError: it cannot be read.
        """
        return None

    def blind_spots(self, snapshot: Snapshot) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Say which damage to the vectors of a state no check can find, because of what the format does not store.

        Args:
            snapshot: of this table.

        Returns:
            A name in kebab case, as findings have, and one line of text for each.
        """
        return iter(())

    @abstractmethod
    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Check]:
        """Check what a file of vectors says of itself against the metadata's records of `vectors`, all in that file.

        Puffin: the footer, a blob for each record at its very range, with its data file and cardinality. Files
        without metadata of their own have nothing to check. Blobs that no record of the snapshot names are
        fine, unless one is a second vector of a data file.

        Args:
            location: where the file can be opened.
            vectors: those that the metadata says are in it.

        Raises:
            DecodeError: the file is not sound.
            OSError: it cannot be read.
        """

    @abstractmethod
    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that any state still needs, metadata included.

        Raises:
            UsageError: other metadata is newer: what it needs is not known here.
            DecodeError: the metadata is not sound.
            OSError: it cannot be read.
        """

    def stored_files(self) -> Iterator[StoredFile]:
        """List all files below the table's folder.

        Raises:
            OSError: a folder cannot be listed.
        """
        return self.folder.walk()

    @abstractmethod
    def schema(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a state, in order, partition columns included.

        Args:
            snapshot: of this table.
            columns: names of those to return, in this order; None = all. Only the types of these are looked at.

        Raises:
            UsageError: no such column.
            DecodeError: the schema is not sound.
            Unsupported: the type of one is not known; the message names it.
            OSError: it cannot be read.
        """

    @abstractmethod
    def physical_rows(
        self,
        data_file: DataFile,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        batch_rows: int = 1 << 16,
    ) -> Iterator[PhysicalRows]:
        """Read a data file in the schema of a state, deleted rows included, in physical order without gaps.

        Args:
            data_file: of the snapshot.
            snapshot: its schema decides: columns that the file lacks are filled as the format says.
            columns: names to read, in this order; None = all.
            batch_rows: at most so many rows in a batch; batches end with row groups.

        Raises:
            UsageError: no such column or data file.
            DecodeError: the file is not sound, or not as the metadata says.
            Unsupported: a file format or a change of schema that this library does not know.
            OSError: the file cannot be read.
        """


def vectors_of(vectors: Iterable[DeletionVector]) -> dict[str, list[DeletionVector]]:
    """Group vectors by the data file that they record, in order; those of partitions are left out."""
    groups: dict[str, list[DeletionVector]] = {}
    for vector in vectors:
        if vector.data_file is not None:
            groups.setdefault(vector.data_file, []).append(vector)
    return groups
