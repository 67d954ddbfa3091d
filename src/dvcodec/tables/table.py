"""Tables and their snapshots: one model for Iceberg, Delta, Paimon, Lance and scorch.

A `Table` lists its snapshots and opens one as a `Snapshot`, which lists data files and deletion vectors and reads them.
Everything else (audit, statistics, history, live rows, conversion, repair) is written once, over these two.
A `Walk` goes from snapshot to snapshot by what differs, as `Contents` finds it. Where the current snapshot is damaged,
errors name an older one that can be read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar, cast

from dvcodec.core.errors import DecodeError, DvcodecError, LimitExceeded, Unsupported, UsageError
from dvcodec.core.extras import pa, pc
from dvcodec.core.ragged import Flags
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, card, counted
from dvcodec.core.usage import as_count, check_callable, check_integer, check_type
from dvcodec.core.vector import Magic
from dvcodec.io import ListedFiles
from dvcodec.tables.columns import FileColumns, VectorColumns
from dvcodec.tables.folder import FileNames, Folder, PathMatcher
from dvcodec.tables.model import (
    NO_SNAPSHOT,
    ByPath,
    DataFile,
    DeletedRows,
    Deletion,
    DeletionVector,
    PhysicalRows,
    Record,
    RowReader,
    SnapshotInfo,
    StoredNames,
    TableKind,
    moment,
)
from dvcodec.tables.rows.bounds import ColumnBounds, Range, RowGroupFilter
from dvcodec.tables.snapshots.findings import Finding, Severity

if TYPE_CHECKING:
    from typing_extensions import Self


R = TypeVar("R", bound=Record)


class LiveRows(ABC):
    """Live rows as other libraries take them: those of a snapshot, or of a table's current one."""

    @abstractmethod
    def _shown(self) -> Snapshot:
        """Return the snapshot."""

    def to_reader(
        self, columns: Sequence[str] | None = None, where: pc.Expression | str | None = None
    ) -> pa.RecordBatchReader:
        """Return the live rows as a stream of Arrow batches, which may be larger than memory.

        Rows come data file by data file, each in physical order. A batch has at most 65,536 rows.

        Args:
            columns: names to read, in this order; None = all.
            where: the rows for which this is true: a pyarrow expression, as its datasets take it, or SQL text (extra
                ``sql``); None = all. It may name other columns. Data files and row groups that statistics rule out are
                not read.

        Raises:
            UsageError: no such column, or a condition that cannot be evaluated.
            MissingExtra: a package is not installed.
            DecodeError: the metadata are corrupt. The reader raises what `live_batches` raises.
            OSError: they cannot be read.
        """
        found: pa.RecordBatchReader = _live().live_reader(self._shown(), columns, where)
        return found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the live rows as an Arrow stream: Arrow's PyCapsule interface, which many libraries take.

        Args:
            requested_schema: types that the consumer prefers.

        Raises:
            UsageError, MissingExtra, DecodeError, OSError: see `to_reader`.
        """
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self, columns: Sequence[str] | None = None, where: pc.Expression | str | None = None) -> Any:
        """Return the live rows as a pandas DataFrame (extra ``frames``).

        Args:
            columns: see `to_reader`.
            where: see `to_reader`.

        Raises:
            UsageError, MissingExtra, DecodeError, OSError: see `live_batches`.
        """
        return _live().to_pandas(self.to_reader(columns, where))

    def to_polars(self) -> Any:
        """Return the live rows as a Polars LazyFrame (extra ``frames``), read when it is collected.

        It stays with the snapshot that the table shows now, also after a commit.

        Only the columns that a query needs are read. Polars evaluates its filters; those that compare integers, text or
        days with values, or ask for null, leave out data files and row groups by their statistics, too.

        Raises:
            UsageError, MissingExtra, DecodeError, OSError: see `to_reader`; those of rows are Polars' own.
        """
        return _live().to_polars(self._shown())

    def to_duckdb(self, connection: Any, name: str) -> Any:
        """Let SQL in DuckDB read the live rows: as a view, which reads them anew in each query.

        The view stays with the snapshot that the table shows now: after a commit, make it again.

        DuckDB asks for the columns that a query needs, and for rows by the conditions that pyarrow evaluates alike.

        Args:
            connection: of DuckDB.
            name: of the view, replaced if there is one.

        Returns:
            The view, as a relation.

        Raises:
            UsageError: not a connection; see also `to_reader`. Errors of rows are DuckDB's own.
            MissingExtra, DecodeError, OSError: see `to_reader`.
        """
        return _live().to_duckdb(self._shown(), connection, name)


def _live() -> Any:
    """What reads rows is written over snapshots, and imported when they are read."""
    return import_module("dvcodec.tables.snapshots.live")


@dataclass(frozen=True, repr=False)
class Snapshot(LiveRows):
    """A snapshot of a table: its data files and the deletion vectors that apply to them.

    Methods read, and may be called from several threads; a snapshot keeps no file open.

    Attributes:
        table: its table.
        info: its id, time and operation.
        data_files: in the metadata's order; each path occurs once.
        vectors: in the metadata's order, valid or not: two may be for one data file, and their data files may be gone.
        schema_id: the schema in which its rows are read, if the metadata numbers schemas. A snapshot opened by its
            id has the one that it was committed with; the current one has the newest, as in engines.
        has_vectors_with_files: whether each vector is recorded with its data file, so that none can be of another one.
    """

    has_vectors_with_files: ClassVar[bool] = False

    table: Table = field(repr=False, compare=False)
    info: SnapshotInfo
    data_files: Sequence[DataFile]
    vectors: Sequence[DeletionVector]
    schema_id: int | None = None

    def _shown(self) -> Snapshot:
        return self

    def __repr__(self) -> str:
        which = "no snapshot" if self.info.id == NO_SNAPSHOT else f"snapshot {self.info.id}"
        return f"<{which} of {self.table!r:.200}: {', '.join(self._counts)}>"

    def _repr_html_(self) -> str:
        """Return what the metadata says, as HTML for notebooks; no vector is read."""
        facts = (f"snapshot {self.info.id}", self.info.operation, moment(self.info), *self._counts)
        return card(repr(self.table)[1:-1], filter(None, facts))

    @property
    def _counts(self) -> tuple[str, str]:
        return counted(len(self.data_files), "data file"), counted(len(self.vectors), "vector")

    @property
    def frame_magics(self) -> tuple[Magic, ...]:
        """What those of `VectorColumns.frames` may begin with at their byte ranges; none if they are read otherwise."""
        return ()

    @cached_property
    def files(self) -> Mapping[str, DataFile]:
        """The data files by path."""
        return ByPath(self.data_files, self.numbers)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the data files by path."""
        return {path: number for number, path in enumerate(self.file_columns.paths)}

    @cached_property
    def file_columns(self) -> FileColumns:
        """What is recorded of the data files, by column."""
        return FileColumns(self.data_files)

    @cached_property
    def vector_columns(self) -> VectorColumns:
        """What is recorded of the vectors, by column."""
        return VectorColumns(self.vectors, self.numbers)

    def vectors_of(self, data_file: DataFile) -> Sequence[DeletionVector]:
        """Return the vectors that name a data file of the snapshot, in order."""
        return self.vector_columns.of_file(self.numbers[data_file.path])

    @cached_property
    def path_matcher(self) -> PathMatcher:
        """Finds the data file that a path of a moved table refers to."""
        return PathMatcher(self.table.folder, self.files)

    @cached_property
    def file_names(self) -> FileNames:
        """Finds data files by the names that users give."""
        return FileNames(self.table.folder, self.files, self.info.id)

    @cached_property
    def _containers(self) -> frozenset[str]:
        return frozenset(self.vector_columns.places.locations)

    def _has_vector(self, vector: DeletionVector) -> bool:
        return vector.location in self._containers

    def _record(self, one: DataFile | DeletionVector, kind: type[R]) -> R:
        """Return the record of a data file or a vector of this snapshot.

        Raises:
            UsageError: it belongs to another table, or has another format.
        """
        check_type(one, (DataFile, DeletionVector), "what is read", "a data file or a vector of the snapshot")
        is_file = isinstance(one, DataFile)
        if not (one.path in self.files if isinstance(one, DataFile) else self._has_vector(one)):
            what = "data file" if is_file else "vector"
            raise UsageError(f"{one.path}: no {what} of snapshot {self.info.id} of {self.table.location}")
        return kind.of(one)

    @abstractmethod
    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a vector by its byte range and verify it: frame, CRC, structure, cardinality as recorded.

        Returns one entry for a vector; for position deletes, one for each data file of the snapshot that they apply to.
        Not checked: that positions are below the data file's rows.

        Args:
            vector: a vector of this snapshot.

        Raises:
            UsageError: it belongs to another table.
            DecodeError: it is corrupt.
            OSError: its file cannot be read.
        """

    def read_ahead(self, vectors: Sequence[DeletionVector]) -> None:
        """Read vectors that are read faster together than by `read`, which is called next and says what is wrong."""

    def has_columns_of(self, other: Self) -> bool:
        """Whether another snapshot of the table reads the same columns; one that was added anew is another.

        Raises:
            DecodeError, OSError: the other's can no longer be read.
        """
        return self.schema_id == other.schema_id

    @abstractmethod
    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns in order, partition columns included.

        Args:
            columns: names of those to return, in this order; None = all. Only their types are parsed.

        Raises:
            UsageError: no such column.
            DecodeError: the schema is corrupt.
            Unsupported: a column has an unknown type; the message names it.
            MissingExtra: pyarrow is not installed.
            OSError: it cannot be read.
        """

    def rows(
        self,
        data_file: DataFile,
        *,
        columns: Sequence[str] | None = None,
        batch_rows: int = 1 << 16,
        wanted: RowGroupFilter | None = None,
    ) -> Iterator[PhysicalRows]:
        """Read a data file in the schema of the snapshot, deleted rows included, in physical order without gaps.

        Columns that the file lacks are filled as the format says.

        Args:
            data_file: a data file of this snapshot.
            columns: names to read, in this order; None = all.
            batch_rows: maximum rows in a batch; batches end with row groups.
            wanted: row groups of a Parquet file that it does not want are skipped: their rows are missing from the
                result. Other formats have none. None = all.

        Raises:
            UsageError: no such column or data file.
            DecodeError: the file is corrupt, or differs from the metadata.
            Unsupported: a file format or a change of schema that this library does not know.
            OSError: the file cannot be read.
        """
        batch_rows = as_count(batch_rows, "batch_rows", 1)
        if wanted is not None:
            check_callable(wanted, "wanted")
        return self.row_reader(data_file, columns)(batch_rows, wanted=wanted)

    @abstractmethod
    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a data file, here or in another process.

        Args:
            data_file: see `rows`.
            columns: see `rows`.

        Raises:
            UsageError, DecodeError, Unsupported: see `rows`.
        """

    def bounds(
        self,
        data_file: DataFile,  # noqa: ARG002  (of the formats that have it)
        columns: Sequence[str],  # noqa: ARG002
    ) -> Mapping[str, ColumnBounds]:
        """Return what the metadata records of the values of columns in a data file, which is not opened.

        Args:
            data_file: of this snapshot.
            columns: names of top-level columns.

        Returns:
            By name; nothing is known of columns that are left out.

        Raises:
            UsageError: no such column.
            DecodeError: the metadata is corrupt.
            OSError: it cannot be read.
        """
        return {}

    def files_in(self, ranges: Mapping[str, Range]) -> Sequence[int] | None:  # noqa: ARG002  (of the formats that have it)
        """Return the data files that may have rows in ranges of columns, found for all of them at once.

        Args:
            ranges: by name of a top-level column; those of columns that are not integers rule nothing out.

        Returns:
            Their numbers, ascending; `bounds` may rule out more. None: not known.
        """
        return None

    def stated_bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return `bounds`, and what else the metadata records that only other readers skip files by.

        Args:
            data_file: of this snapshot.
            columns: names of top-level columns.

        Raises:
            UsageError, DecodeError, OSError: see `bounds`.
        """
        return self.bounds(data_file, columns)

    def with_bounds(self, columns: Sequence[str]) -> Flags | None:  # noqa: ARG002  (of the formats that have it)
        """Return of which data files `bounds` may know something, found for all of them at once: bool[n].

        Args:
            columns: names of top-level columns.

        Returns:
            None: not known.

        Raises:
            UsageError, DecodeError, Unsupported: see `schema`.
        """
        return None

    def read_alike(self, numbers: Sequence[int], columns: Sequence[str]) -> Sequence[Hashable | None]:  # noqa: ARG002
        """Return what decides, besides the schema in its footer, how columns of each of some data files are read.

        Args:
            numbers: of the data files.
            columns: names of top-level columns.

        Returns:
            Data files of which this is equal, and the footers' schemas too, are read alike. None: that is not known, it
            is not a Parquet file, or some of its records are not rows.

        Raises:
            UsageError, DecodeError, Unsupported: see `rows`.
        """
        return [None] * len(numbers)

    def read_together(
        self,
        numbers: Sequence[int],  # noqa: ARG002  (of the formats that do)
        columns: Sequence[str],  # noqa: ARG002
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read small data files, many at once, and yield the number and all physical rows of each.

        Args:
            numbers: of the data files; some may be left out.
            columns: names of top-level columns.

        Raises:
            DvcodecError, OSError: see `rows`.
        """
        return iter(())

    def stored_rows(self, data_file: DataFile) -> int | None:  # noqa: ARG002  (of the formats that have it)
        """Return the row count in the footer of a data file; None for an unknown format.

        The rows themselves are not checked.

        Args:
            data_file: a data file of this snapshot.

        Raises:
            DecodeError: the file is corrupt.
            MissingExtra: a package that reads the file is not installed.
            OSError: it cannot be read.
        """
        return None

    def stored_names(
        self,
        data_file: DataFile,  # noqa: ARG002  (of the formats that have it)
        columns: Sequence[str],  # noqa: ARG002
    ) -> StoredNames | None:
        """Return where a program that finds columns by name reads those of a Parquet data file as the table has them.

        Args:
            data_file: of this snapshot.
            columns: names of top-level columns.

        Returns:
            None if it would read others, or if that is not known: another format of file, another type, defaults,
            values in metadata.

        Raises:
            UsageError: no such column.
            DecodeError: the metadata or the file is corrupt.
            OSError: it cannot be read.
        """
        return None

    def other_deletes(self, data_file: DataFile) -> str | None:  # noqa: ARG002  (of the formats that have it)
        """Describe what else deletes rows of a data file, besides deletion vectors; None if nothing does.

        This is what no vector can express: equality deletes, or records that readers have to merge first.

        Args:
            data_file: a data file of this snapshot.

        Raises:
            DecodeError: the metadata is corrupt.
        """
        return None

    @property
    def equality_deletes(self) -> frozenset[str]:
        """Files of equality deletes (Iceberg's alone)."""
        return frozenset()

    def is_hidden(self, data_file: DataFile) -> bool:  # noqa: ARG002  (Paimon's alone)
        """Whether no record of a data file is a row yet, as they wait for compaction: nothing needs the file.

        Args:
            data_file: a data file of this snapshot.
        """
        return False

    def with_other_deletes(self) -> Sequence[int]:
        """Return the numbers of the data files that may have `other_deletes` or be hidden."""
        kind = type(self)
        never = kind.other_deletes is Snapshot.other_deletes and kind.is_hidden is Snapshot.is_hidden
        return () if never else range(len(self.data_files))

    def deleted_by_value(self, data_file: DataFile) -> RowSet:  # noqa: ARG002  (Iceberg's alone)
        """Return the rows of a data file that equality deletes delete: 0-based physical positions.

        Args:
            data_file: a data file of this snapshot.

        Raises:
            Unsupported: their columns are compared by rules that are not known here.
            DecodeError: a file is corrupt.
            OSError: a file cannot be read.
        """
        return RowSet()

    def unknown_files(self, vector: DeletionVector) -> tuple[str, ...]:  # noqa: ARG002  (Iceberg's alone)
        """Return the data files that position deletes of a whole partition name and that the snapshot does not have.

        They are gone, or spelled differently in the metadata: readers that compare plain text do not delete their rows.

        Args:
            vector: a vector of this snapshot; other vectors have no such files.

        Raises:
            DecodeError, OSError: the position deletes are corrupt, or cannot be read.
        """
        return ()

    def respelled(self, vector: DeletionVector) -> tuple[tuple[str, str], ...]:  # noqa: ARG002  (Iceberg's alone)
        """Return the data files that position deletes name with another scheme than the metadata does.

        Their rows are deleted by `read`, while readers that compare text do not delete them.

        Args:
            vector: a vector of this snapshot; other vectors have no such files.

        Returns:
            Pairs: the path in the deletes, `DataFile.path`.

        Raises:
            DecodeError, OSError: the position deletes are corrupt, or cannot be read.
        """
        return ()

    def check_metadata(self) -> Iterator[Finding]:
        """Find metadata that makes an engine refuse the table or skip its vectors.

        The checks depend on the format; some have none. The bytes of vectors and data files are not read.

        Raises:
            DecodeError, OSError: the metadata is corrupt, or cannot be read.
        """
        return iter(())

    def check_container(
        self,
        location: str,  # noqa: ARG002  (of the formats that have it)
        vectors: Sequence[DeletionVector],  # noqa: ARG002
    ) -> Iterator[Finding]:
        """Compare what a file of vectors records about itself with the metadata of its vectors.

        Puffin: the footer has a blob at the exact range of each vector, with its data file and cardinality. Other blobs
        are ignored, except a second blob for the same data file. The checks depend on the format; some have none. The
        size of the file and overlaps of vectors are not checked here, see `rules`.

        Args:
            location: where the file can be opened.
            vectors: all that the snapshot records in it.

        Raises:
            DecodeError, OSError: the file is corrupt, or cannot be read.
        """
        return iter(())

    def damaged_files(self) -> Mapping[str, DvcodecError | OSError]:
        """Return the data files whose damage is known from opening the snapshot, with the reason, by path."""
        return {}

    def check_contents(self, data_file: DataFile) -> Iterator[Finding]:  # noqa: ARG002  (of the formats that have it)
        """Check all bytes of a data file, of a format that dvcodec verifies (search segments).

        Args:
            data_file: a data file of this snapshot.

        Raises:
            OSError: it cannot be read.
        """
        return iter(())

    def blind_spots(self, *, deep: bool = False) -> Iterator[tuple[str, str]]:  # noqa: ARG002
        """Return the damage that no check finds: the format does not store enough, or the audit is not `deep`.

        Returns:
            A name in kebab case, as findings have, and one line of text for each.
        """
        return iter(())


class Walk(ABC):
    """Goes from snapshot to snapshot. A step costs what differs, however many data files the table has.

    Attributes:
        info: the snapshot that it is at.
    """

    info: SnapshotInfo

    @abstractmethod
    def step(self, info: SnapshotInfo) -> tuple[Snapshot, Snapshot] | None:
        """Go to another snapshot.

        Returns:
            The snapshot that it was at and the new one, of the data files alone that are only in one of them or have
            other vectors. None if the difference is not known by metadata alone, which ends the walk.

        Raises:
            DecodeError: metadata is corrupt.
            OSError: it cannot be read.
        """


_INNER = {"compared", "last", "log", "metadata", "older_ids", "opener", "referenced", "snapshot_of", "walk_from"}


class Table(LiveRows):
    """A table found by its metadata. Methods read; a table keeps no file open.

    Attributes:
        kind: format of the metadata.
        folder: the table's folder.
    """

    kind: TableKind
    folder: Folder

    def __repr__(self) -> str:
        return f"<{self.kind.value} table {self.location}>"

    def _shown(self) -> Snapshot:
        return self.snapshot()

    def _repr_html_(self) -> str:
        """Return the snapshots, newest first, as HTML for notebooks."""
        infos = self.snapshots()[::-1]
        rows = ((str(info.id), moment(info) or NOTHING, info.operation or NOTHING) for info in infos)
        return card(repr(self)[1:-1], (), ("snapshot", "committed", "operation"), rows, len(infos))

    def __dir__(self) -> list[str]:
        """Return what users call: what the rooms of this package call is left out."""
        return sorted({*super().__dir__()} - _INNER)

    @property
    def location(self) -> str:
        """The table's folder as it was named."""
        return self.folder.location

    def refresh(self) -> None:
        """Let the next call read the newest metadata.

        An Iceberg or Delta table is as it was when it was opened, or when something was last committed through this
        object; the others always are as they are now. Snapshots that were opened before do not change.
        """
        self.folder.storage.reopen(self.location)

    @abstractmethod
    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the snapshots that still have metadata, oldest first; the last is the current one.

        Raises:
            UsageError: the folder does not have a table (any more).
            DecodeError: the metadata is corrupt.
            OSError: it cannot be read.
        """

    @abstractmethod
    def snapshot(self, id: int | None = None) -> Snapshot:  # noqa: A002  (what every format calls it)
        """Return a snapshot; None = the current one, in the newest schema.

        Raises:
            UsageError: the table has no such snapshot.
            DecodeError: the metadata is corrupt.
            Unsupported: the metadata uses an unknown feature; nothing is skipped silently.
            OSError: it cannot be read.
        """

    def older_ids(self) -> Iterator[int]:
        """Yield the ids of the snapshots before the current one, newest first, which may be damaged.

        Raises:
            DecodeError, OSError: their list cannot be read.
        """
        yield from (info.id for info in reversed(self.snapshots()[:-1]))

    def compared(
        self, pairs: Iterable[tuple[SnapshotInfo | None, SnapshotInfo]]
    ) -> Iterator[tuple[Snapshot | None, Snapshot]]:
        """Open pairs of snapshots to find what changed from one to the other, reading no more than metadata records.

        Both of a pair may lack data files that are the same in both, with the same vectors.

        Args:
            pairs: a snapshot's predecessor, or None, and the snapshot; `snapshots` has both.

        Raises:
            DecodeError, Unsupported, OSError: see `snapshot`.
        """
        opened = self.opener()
        walk: Walk | None = None
        last: Snapshot | None = None
        for before, info in pairs:
            old = last if before is not None and last is not None and last.info.id == before.id else None
            if before is not None and old is None and (walk is None or walk.info.id != before.id):
                old = opened(before.id)
            if old is not None:
                walk = self.walk_from(old)
            found = walk.step(info) if walk is not None and before is not None else None
            last = None
            if found is not None:
                yield found
                continue
            if before is not None and old is None:
                old = opened(before.id)
            last = opened(info.id)
            yield old, last

    def walk_from(self, snapshot: Snapshot) -> Walk | None:  # noqa: ARG002  (of the formats whose metadata has commits)
        """Return what goes on to other snapshots by the metadata that they do not share; None if each is read whole.

        Args:
            snapshot: of this table, whole.
        """
        return None

    def opener(self) -> Callable[[int], Snapshot]:
        """Return what opens many snapshots, as `snapshot` does; what they share is read once."""
        return self.snapshot

    @abstractmethod
    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that any snapshot still needs, metadata included.

        Raises:
            UsageError: other metadata is newer: what it needs is unknown.
            DecodeError: the metadata is corrupt.
            OSError: it cannot be read.
        """

    def delete(self, *arguments: Any, **options: Any) -> Deletion:  # noqa: ARG002
        """Delete rows and commit; see `dvcodec.tables.delete`.

        Args:
            arguments: those of that function, without the table.
            options: those of that function.

        Raises:
            UsageError: also for a format whose deletes only its own library commits (scorch).
        """
        raise UsageError(f"{self.location}: rows of this format are deleted by its own library")

    def stored_files(self) -> ListedFiles:
        """List all files below the table's folder.

        Raises:
            OSError: a folder cannot be listed.
        """
        return self.folder.walk()


def check_table(table: object, name: str = "table") -> None:
    """Refuse an argument that is not an open table.

    Raises:
        UsageError: it is not a `Table`.
    """
    check_type(table, Table, name, "a Table (open_table(folder) opens one)")


def check_progress(progress: object) -> None:
    """Refuse an argument that is neither None nor callable.

    Raises:
        UsageError: it is not callable.
    """
    if progress is not None:
        check_callable(progress, "progress")


Item = TypeVar("Item")
Key: TypeAlias = tuple[Hashable, Hashable]
"""The data file that something is of, None if it names none, and its own identity."""


class Contents(Generic[Item]):
    """What a snapshot records of data files and vectors.

    Attributes:
        items: each by the data file that it is of, None if it names none, and by its own identity.
    """

    def __init__(self, items: Mapping[Key, Item]) -> None:
        self.items: dict[Key, Item] = {}
        self._of_file: dict[Hashable, dict[Key, None]] = {}
        self.add(items)

    def step(self, gone: Mapping[Key, Item], new: Mapping[Key, Item]) -> tuple[list[Item], list[Item]]:
        """Take out and put in items; those that come again in the same form are not a change.

        Returns:
            All items of the data files that change: before, and now.
        """
        changed = [key for key in gone if key not in new]
        changed += [key for key, item in new.items() if key not in gone or gone[key] != item]
        files = dict.fromkeys(file for file, _ in changed if file is not None)
        before = self.of(files)
        for key in gone:
            if self.items.pop(key, None) is not None:
                left = self._of_file[key[0]]
                del left[key]
                if not left:
                    del self._of_file[key[0]]
        self.add(new)
        return before, self.of(files)

    def of(self, files: Iterable[Hashable]) -> list[Item]:
        """Return the items of data files."""
        return [self.items[key] for file in files for key in self._of_file.get(file, ())]

    def add(self, items: Mapping[Key, Item]) -> None:
        """Put in items."""
        self.items.update(items)
        for key in items:
            self._of_file.setdefault(key[0], {})[key] = None


Method = TypeVar("Method", bound=Callable[..., Snapshot])
_MOST_TRIED = 10
"""Snapshots that are tried: each may take as long to open as the current one."""


def older_without(table: Table, findings: Iterable[Finding]) -> int | None:
    """Return the newest snapshot before the current one that has no vector or data file of these errors.

    Returns:
        Its id; None if there are no such errors, or it is not among the last few. It has data files, none of which is
        known to be damaged.
    """
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    vectors = {vector.where for finding in errors for vector in finding.vectors}
    files = {finding.data_file for finding in errors if not finding.vectors} - {None}
    if vectors or files:
        for older in _older_snapshots(table):
            other = files.isdisjoint(older.files) and vectors.isdisjoint(vector.where for vector in older.vectors)
            if other and older.data_files and not older.damaged_files():
                return older.info.id
    return None


def _older_snapshots(table: Table) -> Iterator[Snapshot]:
    """Yield snapshots before the current one that can be opened, the newest first; of many, the first few."""
    try:
        for number in islice(table.older_ids(), _MOST_TRIED):
            try:
                yield table.snapshot(number)
            except (DvcodecError, OSError):
                continue
    except (DvcodecError, OSError):  # of the list of them
        return


def checks_snapshot(snapshot: Method) -> Method:
    """Check the id that is asked for; where the current snapshot is damaged, name an older one that can be read.

    The error of the current snapshot gets a note then.
    """

    @wraps(snapshot)
    def opened(table: Table, id: int | None = None) -> Snapshot:  # noqa: A002
        if id is not None:
            check_integer(id, "the id of a snapshot")
        try:
            return snapshot(table, id)
        except (DecodeError, FileNotFoundError) as error:
            if id is None and is_damage(error):
                older = next(_older_snapshots(table), None)
                if older is not None:
                    number = older.info.id
                    add_note(error, f"snapshot {number} can be read: --snapshot {number}, or snapshot_id={number}")
            raise

    return cast("Method", opened)


def is_damage(error: Exception) -> bool:
    """Whether an error says that a file is damaged or gone, not that this library does not read it."""
    damaged = isinstance(error, DecodeError) and not isinstance(error, (Unsupported, LimitExceeded))
    return damaged or isinstance(error, FileNotFoundError)


def add_note(error: Exception, note: str) -> None:
    """Add a note to an error, as `BaseException.add_note` of Python 3.11 does."""
    error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined, unused-ignore]
