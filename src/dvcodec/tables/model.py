"""The values of the table model: snapshots, data files, deletion vectors and rows, one shape for every format.

`dvcodec.tables.table` has the objects that return them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.extras import pa
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import TextEnum, bytes_text, card, counted
from dvcodec.core.text import number as number_text
from dvcodec.core.vector import DvLocation
from dvcodec.ops.convert import VectorStats
from dvcodec.tables.metadata.json_fields import PartitionValue
from dvcodec.tables.rows.bounds import RowGroupFilter

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
METADATA_SUFFIXES = (".metadata.json", ".metadata.json.gz")
"""Of an Iceberg table's metadata files, each of which can be opened as the table. Older compressed ones end in .gz."""


NO_SNAPSHOT = -1
"""Id of the current snapshot of a table without one: no data files, but a schema. Iceberg's metadata has this id."""


POSITION_DELETES = "position-deletes"
"""`DeletionVector.format` of Iceberg v2 delete files, several of which may apply to one data file."""


class TableKind(TextEnum):
    """The format of the metadata."""

    ICEBERG = "iceberg"
    DELTA = "delta"
    PAIMON = "paimon"
    LANCE = "lance"
    SCORCH = "scorch"


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One snapshot of a table.

    Attributes:
        id: snapshot id (Iceberg, Paimon), version (Delta, Lance), epoch (scorch); `NO_SNAPSHOT` for an Iceberg table
            that has none.
        timestamp_ms: when it was committed, milliseconds since 1970 UTC; None if not recorded.
        operation: the engine's name for the commit: ``delete``, ``MERGE``, ``COMPACT``; None if not recorded.
        parent: the snapshot that it was made from; None for the first, or if the metadata does not say.
    """

    id: int
    timestamp_ms: int | None = None
    operation: str | None = None
    parent: int | None = None


def moment(info: SnapshotInfo) -> str | None:
    """Return when a snapshot was committed, in UTC to the second; None if unknown or out of range."""
    if info.timestamp_ms is None:
        return None
    try:
        return f"{datetime.fromtimestamp(info.timestamp_ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):  # metadata may have any number
        return None


class Record:
    """What one format alone records of a data file or a vector; each format has its own types."""

    __slots__ = ()

    @classmethod
    def of(cls, one: DataFile | DeletionVector) -> Self:
        """Return the record of a data file or a vector, typed.

        Raises:
            UsageError: it has another format.
        """
        if not isinstance(one.record, cls):
            raise UsageError(f"{one.location or one.path}: its record is {one.record!r:.60}, not {cls.__name__}")
        return one.record


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a snapshot (of Lance: a fragment; of scorch: a segment).

    Attributes:
        path: its identity in the table: as the metadata spells it, with URL encoding undone where the format encodes.
        location: where it can be opened: path or URL. It differs from `path` if that is relative, or the table moved.
        physical_rows: rows in the file, deleted ones included; None if not recorded.
        size: bytes; None if not recorded.
        partition: partition values as ``day=2026-01-01/part=a``, None without partitions.
        partition_values: the same, to be written by other formats; None if not known.
        partition_key: equal for data files and vectors of one partition and partition spec; None if not known.
        sequence_number: data sequence number (Iceberg); None if not recorded.
        bucket: number of the bucket (Paimon); None without buckets.
        file_format: ``parquet``, ``orc``, ``avro`` or another word in lower case; None if not recorded.
        files: paths of all files of a fragment (Lance), overlays last; empty where the data file is one file.
        record: what the format alone records of it.
    """

    path: str
    location: str
    physical_rows: int | None
    size: int | None = None
    partition: str | None = None
    partition_values: tuple[PartitionValue, ...] | None = field(default=None, compare=False, repr=False)
    partition_key: Hashable | None = field(default=None, compare=False, repr=False)
    sequence_number: int | None = field(default=None, compare=False, repr=False)
    bucket: int | None = field(default=None, compare=False, repr=False)
    file_format: str | None = field(default=None, compare=False, repr=False)
    files: tuple[str, ...] = field(default=(), compare=False, repr=False)
    record: Record | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """A deletion vector of a snapshot, as the metadata records it; its bytes have not been read.

    Attributes:
        format: ``iceberg``, ``delta``, ``paimon32``, ``paimon64``, ``lance``, ``scorch``, or ``position-deletes`` (an
            Iceberg v2 delete file).
        data_file: `DataFile.path` of its data file, as recorded (the file may be gone); None for position deletes
            of a whole partition, whose rows name their data files.
        path: the file that holds it, as the metadata spells it (URL encoding undone); empty for an inline vector.
        location: where that file can be opened; empty for an inline vector.
        offset: first byte of the frame in that file; None if the vector is the whole file, or inline.
        size: bytes of the whole frame or file; None if not recorded.
        cardinality: deleted rows as recorded; None if not recorded.
        file_size: bytes of the whole file as recorded, None if not recorded.
        partition_key: see `DataFile`.
        sequence_number: see `DataFile`.
        bucket: see `DataFile`.
        record: what the format alone records of it.
    """

    format: str
    data_file: str | None
    path: str
    location: str
    offset: int | None = None
    size: int | None = None
    cardinality: int | None = None
    file_size: int | None = None
    partition_key: Hashable | None = field(default=None, compare=False, repr=False)
    sequence_number: int | None = field(default=None, compare=False, repr=False)
    bucket: int | None = field(default=None, compare=False, repr=False)
    record: Record | None = field(default=None, compare=False, repr=False)

    @property
    def where(self) -> str:
        """Name the place in errors and reports: ``path@offset``, or ``inline vector``."""
        if not self.path:
            return f"inline vector of {self.data_file}"
        return self.path if self.offset is None else f"{self.path}@{self.offset}"

    def to_location(self) -> DvLocation:
        """Return the location of the vector.

        Raises:
            UsageError: the vector is inline, or its offset, size or cardinality is not recorded.
        """
        if not self.path or self.offset is None or self.size is None or self.cardinality is None:
            raise UsageError(f"{self.where}: not a recorded byte range")
        return DvLocation(
            self.format, self.path, self.offset, self.size, self.cardinality, self.data_file, self.file_size
        )


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The deleted rows of one data file in a deletion vector, read and verified.

    Attributes:
        data_file: `DataFile.path`.
        rows: the deleted rows.
        stats: statistics of the stored vector; None for position deletes, which are not a bitmap.
    """

    data_file: str
    rows: RowSet
    stats: VectorStats | None = None


@dataclass(frozen=True, slots=True)
class FileDelete:
    """Rows to delete from one data file.

    Attributes:
        data_file: of the base snapshot.
        replaced: vectors of the base snapshot that apply only to this data file: the new vector includes their rows.
        before: all rows that are deleted in the base snapshot, by whatever vector.
        rows: all rows that are deleted afterwards, `before` included: 0-based physical positions. Without any, as only
            a repair may restore them, the data file gets no vector.
        whole: no live row is left: the data file is removed instead of getting a vector.
    """

    data_file: DataFile
    replaced: tuple[DeletionVector, ...]
    before: RowSet = field(repr=False)
    rows: RowSet = field(repr=False)
    whole: bool

    @property
    def gained(self) -> int:
        """Rows that live in the base snapshot and are deleted afterwards."""
        return self.rows.cardinality - self.before.cardinality


@dataclass(frozen=True, slots=True, repr=False)
class Deletion:
    """The result of a delete.

    Attributes:
        snapshot: id of the snapshot that has it; that of the base if nothing was committed.
        committed: False if no live row matched, or for a dry run.
        deletes: data files that lost rows, or would, in the order of the snapshot.
        searched: data files that may have such rows; opened unless partition values alone decide.
        skipped: data files that partition values or statistics rule out.
        groups_skipped: row groups in the data files searched that their own statistics rule out.
        retries: conflicts with other writers on the way.
        bytes_written: size of the new vector files.
        repeated: the batch of the stream was committed before, and nothing was done.
    """

    snapshot: int
    committed: bool
    deletes: tuple[FileDelete, ...]
    searched: int
    skipped: int
    groups_skipped: int = 0
    retries: int = 0
    bytes_written: int = 0
    repeated: bool = False

    def __repr__(self) -> str:
        return (
            f"Deletion(snapshot={self.snapshot}, committed={self.committed}, rows={self.rows}, files={self.files}, "
            f"removed={self.removed}, retries={self.retries}, bytes_written={self.bytes_written}, "
            f"repeated={self.repeated})"
        )

    def _repr_html_(self) -> str:
        """Return what was deleted from each data file, as HTML for notebooks."""
        state = f"snapshot {self.snapshot}" if self.committed else "not committed"
        facts = (
            state,
            counted(self.files, "data file"),
            f"{self.removed} removed whole",
            bytes_text(self.bytes_written),
        )
        rows = (
            (
                one.data_file.path,
                number_text(one.gained),
                number_text(one.rows.cardinality),
                number_text(one.data_file.physical_rows),
            )
            for one in self.deletes
        )
        title = f"{counted(self.rows, 'row')} deleted"
        return card(title, facts, ("data file", "deleted now", "deleted", "rows"), rows, self.files)

    @property
    def rows(self) -> int:
        """Rows deleted."""
        return sum(one.gained for one in self.deletes)

    @property
    def files(self) -> int:
        """Data files that lost rows."""
        return len(self.deletes)

    @property
    def removed(self) -> int:
        """Data files that lost all their rows, and are removed from the table."""
        return sum(one.whole for one in self.deletes)


@dataclass(frozen=True, slots=True)
class Consequence:
    """What a library does with a table whose deletion vectors are enabled.

    Attributes:
        library: with the version that was tried.
        reads: the live rows: "yes", or what it does instead.
        writes: "yes", or what it does instead.
    """

    library: str
    reads: str
    writes: str


@dataclass(frozen=True, slots=True)
class Enabled:
    """The result of `dvcodec.tables.enable`.

    Attributes:
        changes: what was changed in the metadata, or would be, a line for each; none if vectors were enabled before.
        path: the metadata file that has the changes; None if nothing was written.
        consequences: what libraries do with the table afterwards; none without changes.
    """

    changes: tuple[str, ...]
    path: str | None = None
    consequences: tuple[Consequence, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One of several parts of a data file, of about as many rows each; by default all of it.

    A row group is in the part that its first row is in. Files that cannot be read in parts are all in the first one.

    Attributes:
        number: counted from 0.
        of: how many parts there are.
    """

    number: int = 0
    of: int = 1

    def has(self, start: int, rows: int) -> bool:
        """Whether a row group of a file of so many rows is in it, by its first row."""
        return start * self.of // max(rows, 1) == self.number


WHOLE = Part()


@dataclass(frozen=True, slots=True)
class PhysicalRows:
    """Consecutive rows of a data file.

    Attributes:
        start: 0-based physical position of the first.
        batch: the rows, in the snapshot's schema, deleted ones included.
        keep: which of them are rows of the table, for data files that also hold other records (Paimon's
            retractions); None = all. Deletion vectors are not applied here.
    """

    start: int
    batch: pa.RecordBatch
    keep: pa.BooleanArray | None = None


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads one data file, without its snapshot; can be pickled, with the options of its storage.

    Attributes:
        read: takes ``batch_rows``, ``part`` and ``wanted``.
    """

    read: Callable[..., Iterator[PhysicalRows]] = field(repr=False)

    def __call__(
        self, batch_rows: int, part: Part = WHOLE, wanted: RowGroupFilter | None = None
    ) -> Iterator[PhysicalRows]:
        """Read the data file like `Snapshot.rows`, or a part of it."""
        return self.read(batch_rows=batch_rows, part=part, wanted=wanted)


class StoredNames(NamedTuple):
    """Under which names a Parquet data file has the values of columns, exactly as the table has them.

    Attributes:
        names: in the order of the columns; None for a column that the file lacks: its values are null.
        in_folders: whether some are the names of folders, ``name=value``, as in Hive.
    """

    names: tuple[str | None, ...]
    in_folders: bool = False


def paths_of(files: Sequence[DataFile]) -> Sequence[str]:
    """Return the paths of data files, which are not made for that."""
    known = [path for path in files.paths if path is not None] if isinstance(files, OnDemand) else []
    return known if len(known) == len(files) else [file.path for file in files]


class OnDemand(Sequence[T]):
    """Values of which each is made when it is first looked at, and kept.

    Args:
        count: how many there are.
        make: takes the number of one.
        paths: of the data file of each; None for what is of no data file alone.
    """

    def __init__(self, count: int, make: Callable[[int], T], paths: Sequence[str | None] = ()) -> None:
        self._made: list[T | None] = [None] * count
        self._make = make
        self.paths = paths

    @overload
    def __getitem__(self, number: int) -> T: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[T, ...]: ...

    def __getitem__(self, number: int | slice) -> T | tuple[T, ...]:
        if isinstance(number, slice):
            return tuple(map(self.__getitem__, range(*number.indices(len(self)))))
        found = self._made[number]
        if found is None:
            found = self._made[number] = self._make(range(len(self))[number])
        return found

    def __iter__(self) -> Iterator[T]:
        return map(self.__getitem__, range(len(self)))

    def __len__(self) -> int:
        return len(self._made)

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, (tuple, OnDemand)) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


def joined(parts: Sequence[Sequence[T]], paths: Sequence[str | None]) -> OnDemand[T]:
    """Return the values of several sequences.

    Args:
        parts: some of which make their values on demand.
        paths: of the data file of each value.
    """
    stops = list(accumulate(map(len, parts)))

    def make(number: int) -> T:
        part = bisect_right(stops, number)
        return parts[part][number - (stops[part] - len(parts[part]))]

    return OnDemand(len(paths), make, paths)


class ByPath(Mapping[str, DataFile]):
    """Data files by path.

    Args:
        files: the data files.
        numbers: the number of each, by path.
    """

    def __init__(self, files: Sequence[DataFile], numbers: Mapping[str, int]) -> None:
        self._files = files
        self._numbers = numbers

    def __getitem__(self, path: str) -> DataFile:
        return self._files[self._numbers[path]]

    def __contains__(self, path: object) -> bool:
        return path in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def refuse_twins(names: Iterable[object], what: str, source: str) -> None:
    """Refuse metadata that has two of what each name may have once.

    Args:
        names: names, ids or paths.
        what: what they name, for errors.
        source: the file of the metadata, for errors.

    Raises:
        NotCanonical: a name is repeated.
    """
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise NotCanonical(what, source=source, expected="one", actual=f"{count} of {name}")
