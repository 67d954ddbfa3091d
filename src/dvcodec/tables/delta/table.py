"""Delta tables, and versions of them: their vectors and rows."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, cast

import numpy as np

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Unsupported, UsageError
from dvcodec.core.extras import pa
from dvcodec.core.ragged import Flags, Index
from dvcodec.core.roaring import ContainerMix
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import UNCOUNTED, Magic
from dvcodec.delta import EMPTY, MAGICS, read_frames, read_inline, read_vector
from dvcodec.ops.convert import VectorStats, measure
from dvcodec.tables.columns import UNKNOWN, FileColumns, Places, VectorColumns, VectorGroup, distinct
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.delta.actions import Actions, Columns, read_batches, read_sidecars
from dvcodec.tables.delta.log import LOG, AddFile, Log, LoggedVector, LogicalFile, Metadata, Protocol, plain_path
from dvcodec.tables.delta.protocol import (
    TableSchema,
    check_protocol,
    check_provider,
    contradictions,
    has_own_names,
    read_schema,
)
from dvcodec.tables.delta.replay import (
    ActionChecks,
    Listed,
    LogicalFiles,
    Replay,
    State,
    check_hint,
    commit_infos,
    read_commits,
    rebuild,
)
from dvcodec.tables.delta.rows import (
    MAY_BE_SHORT_OFFSET,
    SHORT_OFFSET,
    PartitionReader,
    bounds_of,
    in_folders,
    parse_statistics,
    partition_scalar,
    read_rows,
)
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata import Cache
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import (
    DataFile,
    DeletedRows,
    DeletionVector,
    OnDemand,
    RowReader,
    SnapshotInfo,
    StoredNames,
    TableKind,
)
from dvcodec.tables.rows.bounds import ColumnBounds, Range
from dvcodec.tables.rows.columns import chosen
from dvcodec.tables.rows.data_file import count_rows
from dvcodec.tables.snapshots.findings import Finding
from dvcodec.tables.table import Contents, Key, Snapshot, Walk, checks_snapshot

_KEPT_STATISTICS = 16
"""Of data files."""


@dataclass(frozen=True, repr=False, kw_only=True)
class DeltaSnapshot(Snapshot):
    """A version of a Delta table; see `Snapshot`.

    The record of a data file and of its vector is the `AddFile` that has both.

    Attributes:
        protocol: the protocol in effect.
        metadata: the metadata in effect.
        action_findings: findings in the commits up to this version; see `ActionChecks`.
        log: the table's log.
        transactions: see `State`.
        listed: the live logical files.
        first: int64, the number in `listed` of each data file.
        file_of: int64, the number of the data file of each vector.
        partitions: reads the partitions of data files.
    """

    protocol: Protocol = field(repr=False, compare=False)
    metadata: Metadata = field(repr=False, compare=False)
    action_findings: tuple[Finding, ...] = field(repr=False, compare=False)
    log: Log = field(repr=False, compare=False)
    transactions: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    listed: Listed = field(repr=False, compare=False)
    first: Index = field(repr=False, compare=False)
    file_of: Index = field(repr=False, compare=False)
    partitions: PartitionReader = field(repr=False, compare=False)

    has_vectors_with_files = True

    @property
    def frame_magics(self) -> tuple[Magic, ...]:
        """What vectors may begin with; see `Snapshot.frame_magics`."""
        return MAGICS

    @cached_property
    def file_columns(self) -> FileColumns:
        """What is recorded of the data files, by column; see `Snapshot.file_columns`."""
        return _FileColumns(self)

    @cached_property
    def vector_columns(self) -> VectorColumns:
        """What is recorded of the vectors, by column; see `Snapshot.vector_columns`."""
        return _VectorColumns(self)

    def _has_vector(self, vector: DeletionVector) -> bool:
        location = self.table.folder.locate(vector.path) if vector.path else ""
        return vector.data_file in self.files and vector.location == location

    def files_in(self, ranges: Mapping[str, Range]) -> Sequence[int]:
        """Return the data files that may have rows in ranges, by their statistics; see `Snapshot.files_in`."""
        schema = self._columns
        may = np.ones(len(self.listed), np.bool_)
        for name in chosen(schema.names, list(ranges), self.table.location):
            column = schema.column(name)
            if pa.types.is_integer(column.type) and name not in self.metadata.partition_columns:
                may &= self.listed.in_range(column.stored_name, column.type, ranges[name])
        found: list[int] = np.flatnonzero(may[self.first]).tolist()
        return found

    def with_bounds(self, columns: Sequence[str]) -> Flags | None:
        """Return the data files with statistics; see `Snapshot.with_bounds`."""
        if set(columns) & set(self.metadata.partition_columns):
            return None
        return self.listed.have_statistics[self.first]

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Finding]:
        """Check the frames of a vector file; those of superseded vectors are not checked.

        Check: ``frame`` for each vector, that a frame of its size begins at its offset.

        Raises:
            DecodeError: the file does not begin with its version, or is not frames back to back.
            OSError: it cannot be read.
        """
        with self.table.folder.storage.open(location) as source:
            frames = {
                cursor.base: len(cursor.view) for cursor in read_frames(source, limits=self.table.folder.storage.limits)
            }
        group = VectorGroup.of(vectors)
        places = np.where(group.offsets == UNKNOWN, 1, group.offsets).tolist()
        for number, (place, stated) in enumerate(zip(places, group.sizes.tolist(), strict=True)):
            if frames.get(place) == stated:
                continue
            vector = vectors[number]
            size = frames.get(1 if vector.offset is None else vector.offset)
            if size != vector.size:
                expected = f"one of {vector.size} bytes (log)"
                actual = "none" if size is None else f"one of {size} bytes"
                yield Finding.of_vector("frame", vector, "frame in the file", expected, actual)

    def read(self, vector: DeletionVector) -> tuple[DeletedRows, ...]:
        """Read a vector by its byte range, or from the log, and verify it by its descriptor; see `Snapshot.read`."""
        added = self._record(vector, AddFile)
        path, rows, descriptor = str(vector.data_file), added.rows, _logged(added).descriptor
        limits = self.table.folder.storage.limits
        if descriptor == EMPTY:
            return (DeletedRows(path, RowSet(), replace(_NO_ROWS, row_count=rows)),)
        if descriptor.is_inline:
            text, size = descriptor.path_or_inline_dv, descriptor.size_in_bytes
            found = read_inline(text, size, cardinality=vector.cardinality, limits=limits, source=vector.where)
            return (DeletedRows(path, found.load(), measure(found, row_count=rows, size=size)),)
        with self.table.folder.storage.open(vector.location) as source:
            found = read_vector(source, replace(descriptor, cardinality=vector.cardinality or 0), limits)
            return (DeletedRows(path, found.load(), measure(found, row_count=rows)),)

    def has_columns_of(self, other: DeltaSnapshot) -> bool:
        """Compare the schemas as they are recorded, names in data files included; see `Snapshot.has_columns_of`."""
        return self.metadata.schema == other.metadata.schema

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a version; see `Snapshot.schema`.

        Raises:
            UsageError: no such column.
            Unsupported: a column has an unsupported type: variant, geometry, geography.
            NotCanonical: the schema is corrupt.
        """
        return self._columns.select(chosen(self._columns.names, columns, self.table.location))

    def row_reader(self, data_file: DataFile, columns: Sequence[str] | None = None) -> RowReader:
        """Return what reads a data file in the columns of a version; see `Snapshot.rows`.

        Partition columns are read from the log, columns that the file lacks are null, and narrower types are widened.
        Dates and times before 1582 are read as stored, in the writer's calendar.

        Raises:
            UsageError: no such column.
            NotCanonical: the schema or a partition value is corrupt.
            Unsupported: another format than Parquet, or an unknown change of schema.
        """
        schema, metadata = self._columns, self.metadata
        names = chosen(schema.names, columns, self.table.location)
        check_provider(metadata)
        fields = [schema.column(name) for name in names]
        values = self._record(data_file, AddFile).partition_values
        partition = frozenset(metadata.partition_columns)
        location, storage = data_file.location, self.table.folder.storage
        return RowReader(partial(read_rows, location, storage, fields, values, partition, schema=schema))

    def read_alike(self, numbers: Sequence[int], columns: Sequence[str]) -> Sequence[Hashable | None]:
        """Return the partition values, if one of them is read; see `Snapshot.read_alike`."""
        if not set(columns) & set(self.metadata.partition_columns):
            return [()] * len(numbers)
        codes, _ = self.listed.partitions()
        of_file: list[int] = codes[self.first[numbers]].tolist()
        return of_file

    def stored_names(self, data_file: DataFile, columns: Sequence[str]) -> StoredNames | None:
        """Return where a program that finds columns by name reads them; see `Snapshot.stored_names`.

        Delta Spark reads data files itself in this way: missing columns are null, and types are widened.
        """
        schema = self._columns
        found = [schema.column(name) for name in chosen(schema.names, columns, self.table.location)]
        partition = [column for column in found if column.name in self.metadata.partition_columns]
        by_name = self.metadata.provider == "parquet" and schema.mode != "id" and all(map(has_own_names, found))
        if not by_name or (partition and not in_folders(data_file, partition)):
            return None
        return StoredNames(tuple(column.stored_name for column in found), bool(partition))

    def bounds(self, data_file: DataFile, columns: Sequence[str]) -> Mapping[str, ColumnBounds]:
        """Return the bounds of columns by the log: partition values, and the statistics of the data file."""
        added, found = self._record(data_file, AddFile), {}
        for name in chosen(self._columns.names, columns, self.table.location):
            column = self._columns.column(name)
            if name in self.metadata.partition_columns:
                found[name] = ColumnBounds.of_partition(
                    partition_scalar(added.partition_values, column, data_file.location)
                )
            else:
                found[name] = bounds_of(column, self._statistics_of(added))
        return found

    def _statistics_of(self, added: AddFile) -> Mapping[str, Any]:
        text = added.action.get("stats")
        return self._statistics.get(text, lambda: parse_statistics(text)) if isinstance(text, str) else {}

    @cached_property
    def _statistics(self) -> Cache[str, Mapping[str, Any]]:
        """Parsed statistics by their text, which thousands of data files may share."""
        return Cache(_KEPT_STATISTICS, lambda _: 1)

    def stored_rows(self, data_file: DataFile) -> int | None:
        """Return the row count in the footer of a Parquet data file; None for other formats."""
        parquet = self.metadata.provider == "parquet"
        return count_rows(data_file.location, self.table.folder.storage) if parquet else None

    def check_metadata(self) -> Iterator[Finding]:
        """Find where the log contradicts the vectors, the columns or itself; see `contradictions`."""
        yield from contradictions(self.protocol, self.metadata, vectors=bool(self.vectors))
        yield from self.action_findings
        yield from self._short_offsets()
        if not self.log.is_broken and self.info.id == self.log.latest:
            yield from check_hint(self.table.folder, self.log)

    def _short_offsets(self) -> Iterator[Finding]:
        """Find statistics whose times may be off by seconds (``delta-statistics``): Delta Spark skips files by them."""
        if '"timestamp"' not in self.metadata.schema:
            return
        for number in np.flatnonzero(self.listed.may_match(MAY_BE_SHORT_OFFSET)[self.first]).tolist():
            file = self.data_files[number]
            text = self._record(file, AddFile).action.get("stats")
            if isinstance(text, str) and (found := SHORT_OFFSET.search(text)):
                what, expected = "statistics of a data file", "offsets with the seconds that they had before 1973"
                yield Finding.failed(
                    "delta-statistics", what, expected, found[0], data_file=file.path, path=self.log.location
                )

    @cached_property
    def _columns(self) -> TableSchema:
        return read_schema(self.protocol, self.metadata)


def _logged(added: AddFile) -> LoggedVector:
    """Return the vector of a logical file that has one."""
    return cast("LoggedVector", added.vector)


class _FileColumns(FileColumns):
    def __init__(self, snapshot: DeltaSnapshot) -> None:
        super().__init__(snapshot.data_files)
        self._snapshot, paths = snapshot, snapshot.listed.paths
        self.paths = [paths[number] for number in snapshot.first.tolist()]
        self.single = np.ones(len(self.files), np.bool_)

    @cached_property
    def locations(self) -> Sequence[str]:
        return self._snapshot.table.folder.locate_each(self.paths)

    @cached_property
    def partitions(self) -> Sequence[str | None]:
        codes, values = self._snapshot.listed.partitions()
        labels = [self._snapshot.partitions.read(one, "")[0] for one in values]
        return [labels[code] for code in codes[self._snapshot.first].tolist()]

    @cached_property
    def rows(self) -> Index:
        return self._snapshot.listed.rows[self._snapshot.first]

    @cached_property
    def sizes(self) -> Index:
        return self._snapshot.listed.sizes[self._snapshot.first]


class _VectorColumns(VectorColumns):
    have_wide = False

    def __init__(self, snapshot: DeltaSnapshot) -> None:
        super().__init__(snapshot.vectors, snapshot.numbers)
        self._snapshot = snapshot
        self.files, self.bitmaps = snapshot.file_of, np.ones(len(self.vectors), np.bool_)
        self.file_sizes = np.full(len(self.vectors), UNKNOWN, np.int64)

    @cached_property
    def places(self) -> Places:
        folder = self._snapshot.table.folder
        paths, path_of = distinct(self._snapshot.listed.vector_paths())
        locations, location_of = distinct(folder.locate(path) if path else "" for path in paths)
        return Places(paths, path_of, locations, location_of[path_of])

    @cached_property
    def offsets(self) -> Index:
        return self._snapshot.listed.vector_numbers("offset", lambda one: one.descriptor.offset)

    @cached_property
    def sizes(self) -> Index:
        in_files = np.array([path != "" for path in self.places.paths], np.bool_)[self.places.path_of]
        sizes = self._snapshot.listed.vector_numbers("sizeInBytes", lambda one: one.descriptor.size_in_bytes)
        return sizes + np.where(in_files, UNCOUNTED, 0)

    @cached_property
    def cardinalities(self) -> Index:
        return self._snapshot.listed.vector_numbers("cardinality", lambda one: one.descriptor.cardinality)


_NO_ROWS = VectorStats(0, None, None, 0, ContainerMix(0, 0, 0), 0, 0)
"""Statistics for the descriptor of no rows, which has no bytes."""


def open(location: Folder | str | os.PathLike[str]) -> DeltaTable:  # noqa: A001  (every kind of table has one)
    """Open a table by its folder. Its log is listed once: later commits are not seen.

    Args:
        location: the `Folder`; or its path or URL, if it needs no storage options.

    Raises:
        UsageError: there is no log.
        OSError: the folder cannot be read.
    """
    table = DeltaTable(Folder.of(location))
    table.log  # noqa: B018  (listed)
    return table


class DeltaTable(WritableTable):
    """A Delta table; see `dvcodec.tables.Table`.

    Attributes:
        last: the last rebuilt version, from which later ones are rebuilt; None before the first.
    """

    kind = TableKind.DELTA

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.last: State | None = None

    @cached_property
    def log(self) -> Log:
        """The log as it was listed when the table was opened, or last refreshed."""
        log = self._list()
        if log.is_broken:  # a listing may miss a commit and have the next one, if both come while it is made
            self.folder.storage.forget()
            log = self._list()
        return log

    def _list(self) -> Log:
        names = self.folder.names(LOG)
        if not names:
            raise UsageError(f"{self.location}: not a Delta table ({LOG} is empty or missing)")
        return Log.from_names(self.folder.join(LOG), names)

    def refresh(self) -> None:
        """List the log again with the next call; see `Table.refresh`."""
        super().refresh()
        self.__dict__.pop("log", None)
        self.last = None

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the versions that can be rebuilt, oldest first; those whose metadata was cleaned up are omitted.

        Raises:
            NotCanonical: the current version cannot be rebuilt: a commit is missing.
            OSError: a commit cannot be read.
        """
        self.log.latest  # noqa: B018  (checked)
        return tuple(commit_infos(self.folder, self.log, self.log.versions))

    @checks_snapshot
    def snapshot(self, id: int | None = None) -> DeltaSnapshot:  # noqa: A002
        """Return a version; see `Table.snapshot`.

        Raises:
            NotCanonical: also if a data file is live both with and without a vector: its rows would appear twice.
        """
        version = self.log.latest if id is None else id
        self.log.check(version)
        (info,) = commit_infos(self.folder, self.log, [version])
        return self.snapshot_of(self._state(version), info)

    def older_ids(self) -> Iterator[int]:
        """Yield the versions before the current one that can be rebuilt; see `Table.older_ids`."""
        yield from (version for version in reversed(self.log.versions) if version < self.log.newest)

    def walk_from(self, snapshot: Snapshot) -> Walk:
        """Return what replays the commits after a version; see `Table.walk_from`."""
        return LogWalk(self, self._state(snapshot.info.id), snapshot.info)

    def snapshot_of(self, state: State, info: SnapshotInfo) -> DeltaSnapshot:
        """Return a version by its state, or by some files of it."""
        partitions, listed = PartitionReader(_partition_names(state), self.log.location), state.files.listed()
        paths, with_vector = listed.paths, np.flatnonzero(listed.has_vector)
        file_of = self._file_of_each(listed)
        first = np.flatnonzero(file_of == np.arange(len(file_of)))
        data_file_of = [paths[number] for number in file_of[with_vector].tolist()]
        if len(first) < len(paths):
            paths = [paths[number] for number in first.tolist()]

        def file(number: int) -> DataFile:
            return self._data_file(listed[int(first[number])], partitions)

        def vector(number: int) -> DeletionVector:
            return self._vector(listed[int(with_vector[number])], data_file_of[number])

        files, vectors = OnDemand(len(first), file, paths), OnDemand(len(with_vector), vector, data_file_of)
        # What was parsed may be wrong in ways that only these values tell; all else, in its partition values alone.
        parsed = np.fromiter(listed.parsed(), np.int64)
        for number in np.flatnonzero(np.isin(first, parsed)).tolist():
            files[number]
        for number in np.flatnonzero(np.isin(with_vector, parsed)).tolist():
            vectors[number]
        if partitions.names:
            codes, values = listed.partitions()
            for code, number in enumerate(np.unique(codes, return_index=True)[1].tolist()):
                partitions.read(values[code], listed.paths[number])
        return DeltaSnapshot(
            self,
            info,
            files,
            vectors,
            protocol=state.protocol,
            metadata=state.metadata,
            action_findings=tuple(state.checks),
            log=self.log,
            transactions=state.transactions,
            listed=listed,
            first=first,
            file_of=np.searchsorted(first, file_of[with_vector]),
            partitions=partitions,
        )

    def _file_of_each(self, listed: Listed) -> Index:
        """Return the number of the first logical file of the data file of each: two may have different vectors.

        Raises:
            NotCanonical: a data file is live with and without a vector.
        """
        keys = listed.path_keys()
        if len(set(keys)) == len(keys):
            return np.arange(len(keys))
        has_vector, first = listed.has_vector.tolist(), dict[str, int]()
        found = [first.setdefault(key, number) for number, key in enumerate(keys)]
        for number, one in enumerate(found):
            if number != one and not (has_vector[one] and has_vector[number]):
                what, actual = "add.path", f"two for {listed[number].path!r}"
                raise NotCanonical(what, source=self.log.location, expected="one live action", actual=actual)
        return np.array(found, np.int64)

    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that the log names; see `Table.referenced`.

        These are the log's own files, sidecars of checkpoints, and the data files, vector files and change data files
        of all versions that can be rebuilt, including tombstones, which VACUUM keeps as long as they are retained.

        Raises:
            DecodeError: a commit or a checkpoint is corrupt.
            OSError: it cannot be read.
        """
        found = {self.folder.join(f"{LOG}/{name}") for name in self.log.names}
        sidecars: set[str] = set()  # checkpoints may share them
        for version, several in self.log.checkpoints.items():
            found.update(self._of_checkpoints(version, several, sidecars))
        commits = [version for version in self.log.versions if version in self.log.commits]
        for actions in chain.from_iterable(read_commits(self.folder, self.log, commits)):
            found.update(self._named_in_columns(actions))
        return frozenset(found)

    def _of_checkpoints(self, version: int, several: Iterable[tuple[str, ...]], sidecars: set[str]) -> set[str]:
        """Return the files that the checkpoints of a version name, as far as no commits do."""
        found: set[str] = set()
        failed = None
        needed = self.log.needs(version)
        for names in several:
            try:
                for name in names:
                    found.update(read_sidecars(self.folder, name))
                if needed:
                    for actions in read_batches(self.folder, names, version, sidecars):
                        found.update(self._named_in_columns(actions))
                    needed = False
            except (LimitExceeded, Unsupported):
                raise
            except (DecodeError, FileNotFoundError) as error:
                failed = error
        if needed and failed is not None:
            raise failed
        return found

    def _state(self, version: int) -> State:
        """Rebuild a version, from the last rebuilt one if that is nearer, and check its protocol."""
        known = self.last
        if known is None or known.version != version:
            nearer = known if known is not None and known.version < version else None
            known = self.last = rebuild(self.folder, self.log, version, nearer)
        check_protocol(known.protocol)
        return known

    def _data_file(self, added: AddFile, partitions: PartitionReader) -> DataFile:
        label, values = partitions.read(tuple(added.partition_values.items()), added.path)
        return DataFile(added.path, self.folder.locate(added.path), added.rows, added.size, label, values, record=added)

    def _vector(self, added: AddFile, data_file: str) -> DeletionVector:
        logged = _logged(added)
        return DeletionVector(
            "delta",
            data_file,
            logged.path,
            self.folder.locate(logged.path) if logged.path else "",
            logged.descriptor.offset,
            logged.stored_size,
            logged.descriptor.cardinality,
            record=added,
        )

    def _named_in_columns(self, actions: Actions) -> Iterable[str]:
        """Return the locations of the files that actions name: of usual ones without looking at each."""
        if not isinstance(actions, Columns) or not actions.are_usual:
            return self._named(actions)
        vectors = map(self.folder.locate, actions.vector_paths())
        return chain(self.folder.locate_each(actions.paths), vectors)

    def _named(self, actions: Iterable[JsonFields]) -> Iterator[str]:
        """Yield the locations of the files that actions name."""
        for action in actions:
            if action.where in ("add", "remove"):
                file = LogicalFile.parse(action)
                yield self.folder.locate(file.path)
                if file.vector is not None and file.vector.path:
                    yield self.folder.locate(file.vector.path)
            elif action.where == "cdc":
                yield self.folder.locate(plain_path(action))
            elif action.where == "protocol":
                check_protocol(Protocol.parse(action))


class LogWalk(Walk):
    """Replays one commit after another.

    Args:
        table: whose log.
        state: where it starts.
        info: which version that is.
    """

    def __init__(self, table: DeltaTable, state: State, info: SnapshotInfo) -> None:
        self.info = info
        self._table = table
        self._replay = Replay.after(state)
        self._contents: Contents[AddFile] = Contents(dict[Key, AddFile](state.files.parsed().items()))

    def step(self, info: SnapshotInfo) -> tuple[DeltaSnapshot, DeltaSnapshot] | None:
        """Go to the next version, if it has a commit; see `Walk.step`."""
        table, replay, before = self._table, self._replay, self.info
        if info.id != before.id + 1 or info.id not in table.log.commits:
            return None
        (actions,) = read_commits(table.folder, table.log, [info.id])
        old = replay.state(before.id, table.log.location)
        changed = replay.apply(actions)
        new = replay.state(info.id, table.log.location)
        check_protocol(new.protocol)
        gone: dict[Key, AddFile] = {key: was for key, was in changed.items() if was is not None}
        for path, _ in changed:
            self._contents.add(dict[Key, AddFile](replay.files.in_columns(path).items()))
        self._contents.add({key: was for key, was in gone.items() if key not in self._contents.items})
        parts = self._contents.step(
            gone,
            {key: replay.files[key] for key in changed if key in replay.files},
        )
        self.info = info
        return _part(table, old, before, parts[0]), _part(table, new, info, parts[1])


def _part(table: DeltaTable, state: State, info: SnapshotInfo, files: Iterable[AddFile]) -> DeltaSnapshot:
    some = LogicalFiles({file.key: file for file in files})
    return table.snapshot_of(replace(state, files=some, transactions={}, checks=ActionChecks()), info)


def _partition_names(state: State) -> dict[str, str]:
    """Return the partition columns: name -> name in ``partitionValues``."""
    if not state.metadata.partition_columns:
        return {}
    schema = read_schema(state.protocol, state.metadata)
    return {name: schema.physical_name(name) for name in state.metadata.partition_columns}
