"""Delta tables as the model has them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dvcodec.core import vector as stored
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.report import Check
from dvcodec.core.rowset import RowSet
from dvcodec.delta import EMPTY, Descriptor, read_frames
from dvcodec.delta.inline import read_inline
from dvcodec.delta.layout import MAGICS
from dvcodec.delta.vectors import frame_at
from dvcodec.ops.stats import VectorStats, measure
from dvcodec.tables.columns import chosen
from dvcodec.tables.delta.actions import AddFile, LoggedVector, Metadata, Protocol, RemoveFile, plain_path
from dvcodec.tables.delta.checkpoint import read_checkpoint, read_sidecars
from dvcodec.tables.delta.contradictions import check_hint, contradictions
from dvcodec.tables.delta.log import LOG, Log
from dvcodec.tables.delta.partition import NULL_FOLDER
from dvcodec.tables.delta.protocol import check_protocol, declares_mapping, mapping_mode
from dvcodec.tables.delta.replay import State, commit_infos, read_commits, rebuild
from dvcodec.tables.delta.rows import read_rows
from dvcodec.tables.delta.schema import TableSchema, parse_schema
from dvcodec.tables.folder import Folder
from dvcodec.tables.members import Members
from dvcodec.tables.model import (
    DataFile,
    DeletedRows,
    DeletionVector,
    PhysicalRows,
    Snapshot,
    SnapshotInfo,
    Table,
    TableKind,
)
from dvcodec.tables.parquet import count_rows
from dvcodec.tables.problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaTable", "open"]


def open(location: Folder | str | os.PathLike[str]) -> DeltaTable:  # noqa: A001  (every kind of table has one)
    """Open a table by its folder. Its log is listed once: what is committed later is not seen.

    Args:
        location: the folder; or its path or URL, for a local table or one that the environment alone reaches.

    Raises:
        UsageError: there is no log.
        OSError: the folder cannot be read.
    """
    folder = Folder.of(location)
    names = folder.names(LOG)
    if not names:
        raise UsageError(f"{folder.location}: no Delta table (there is nothing in {LOG})")
    return DeltaTable(folder, Log.from_names(folder.join(LOG), names))


class DeltaTable(Table):
    """A Delta table; see `dvcodec.tables.Table`.

    Attributes:
        log: what lies in its log.
    """

    kind = TableKind.DELTA

    def __init__(self, folder: Folder, log: Log) -> None:
        self.folder = folder
        self.log = log
        self._last: State | None = None
        self._schemas: dict[int, tuple[TableSchema, Metadata]] = {}

    def snapshots(self) -> tuple[SnapshotInfo, ...]:
        """Return the versions that can be rebuilt, oldest first; those whose metadata was cleaned up are not there.

        Raises:
            NotCanonical: the current version cannot be rebuilt: a commit is missing.
            OSError: a commit cannot be read.
        """
        self.log.latest  # noqa: B018  (checked)
        return tuple(commit_infos(self.folder, self.log, self.log.versions))

    def snapshot(self, id: int | None = None) -> Snapshot:  # noqa: A002
        """Return a version; see `Table.snapshot`.

        A data file's ``record`` is its ``add`` action, a vector's is the ``deletionVector`` in it, with ``numRecords``
        of the file's statistics.

        Raises:
            NotCanonical: also where a data file is live both with a vector and without: its rows would be there twice.
        """
        version = self.log.latest if id is None else id
        self.log.check(version)
        state = self._state(version)
        partitions = self._partition_names(state)
        data_files: dict[str, DataFile] = {}
        vectors: list[DeletionVector] = []
        bare = set()
        for (key, _), added in state.files.items():
            if key not in data_files:
                data_files[key] = self._data_file(added, partitions)
            elif added.vector is None or key in bare:
                raise NotCanonical(
                    "add.path", source=self.log.location, expected="one live action", actual=f"two for {added.path!r}"
                )
            if added.vector is None:
                bare.add(key)
            else:
                vectors.append(self._vector(added.vector, added, data_files[key].path))
        (info,) = commit_infos(self.folder, self.log, [version])
        return Snapshot(info, tuple(data_files.values()), tuple(vectors))

    def read(self, vector: DeletionVector, snapshot: Snapshot) -> tuple[DeletedRows, ...]:  # noqa: ARG002
        """Read a vector by its byte range, or from the log, and hold it against its descriptor; see `Table.read`."""
        assert vector.data_file is not None  # noqa: S101
        descriptor = Descriptor.from_json(vector.record, source=vector.where)
        rows = vector.record.get("numRecords")
        if descriptor == EMPTY:
            return (DeletedRows(vector.data_file, RowSet(), replace(_NO_ROWS, row_count=rows)),)
        if descriptor.is_inline:
            text, size = descriptor.path_or_inline_dv, descriptor.size_in_bytes
            found = read_inline(text, size, cardinality=descriptor.cardinality, source=vector.where)
            stats = measure(found, row_count=rows, size=size)
        else:
            with self.folder.storage.open(vector.location) as source:
                cursor = frame_at(source, descriptor)
            found = stored.read(cursor, allowed=MAGICS, exact=True, cardinality=descriptor.cardinality)
            stats = measure(found, row_count=rows)
        return (DeletedRows(vector.data_file, found.load(), stats),)

    def check_metadata(self, snapshot: Snapshot) -> Iterator[Problem]:
        """Find where the log contradicts the vectors, the columns or itself; see `contradictions` and `Doubts`."""
        state = self._state(snapshot.info.id)
        yield from contradictions(state.protocol, state.metadata, vectors=bool(snapshot.vectors))
        yield from state.doubts
        if state.version == self.log.latest:
            yield from check_hint(self.folder, self.log)

    def stored_rows(self, data_file: DataFile, snapshot: Snapshot) -> int | None:
        """Return the rows of a Parquet data file by its footer; None for other formats."""
        parquet = self._state(snapshot.info.id).metadata.provider == "parquet"
        return count_rows(data_file.location, self.folder.storage) if parquet else None

    def check_container(self, location: str, vectors: Sequence[DeletionVector]) -> Iterator[Check]:
        """Check a vector file frame by frame; what superseded vectors hold is not looked at.

        Checks: ``frame`` for each record, that a frame begins at its offset, and is as long.

        Raises:
            DecodeError: the file does not begin with its version, or is not frames back to back.
            OSError: it cannot be read.
        """
        with self.folder.storage.open(location) as source:
            frames = {cursor.base: len(cursor.view) for cursor in read_frames(source)}
        for vector in vectors:
            offset = 1 if vector.offset is None else vector.offset
            size = frames.get(offset)
            if size == vector.size:
                yield Check.passed("frame", vector.where, offset)
            else:
                actual = "none" if size is None else f"one of {size} bytes"
                yield Check.failed(
                    "frame", vector.where, offset, "frame in the file", f"one of {vector.size} bytes (log)", actual
                )

    def referenced(self) -> frozenset[str]:
        """Return the locations of all files that the log names; see `Table.referenced`.

        The files of the log itself, sidecars of checkpoints, and of all versions that can be rebuilt the data files,
        vector files and change data files; tombstones too, which VACUUM keeps for as long as they are retained.

        Raises:
            DecodeError: a commit or a checkpoint is not sound.
            OSError: it cannot be read.
        """
        found = {self.folder.join(f"{LOG}/{name}") for name in self.log.names}
        for name in self.log.names:
            if ".checkpoint." in name:
                found.update(read_sidecars(self.folder, name))
        last = None
        for version in self.log.versions:
            names = self.log.checkpoints.get(version)
            if names is not None and (version not in self.log.commits or last != version - 1):
                found.update(self._named(read_checkpoint(self.folder, names, version)))
            last = version
        for actions in read_commits(
            self.folder, self.log, [one for one in self.log.versions if one in self.log.commits]
        ):
            found.update(self._named(actions))
        return frozenset(found)

    def schema(self, snapshot: Snapshot, columns: Sequence[str] | None = None) -> pa.Schema:
        """Return the columns of a version; see `Table.schema`.

        Raises:
            UsageError: no such column.
            Unsupported: a column is of a type that is not known here: variant, geometry, geography.
            NotCanonical: the schema is not sound.
        """
        schema = self._schema(snapshot)[0]
        return schema.select(chosen(schema.names, columns, self.location))

    def physical_rows(
        self,
        data_file: DataFile,
        snapshot: Snapshot,
        *,
        columns: Sequence[str] | None = None,
        batch_rows: int = 1 << 16,
    ) -> Iterator[PhysicalRows]:
        """Read a data file in the columns of a version; see `Table.physical_rows`.

        Partition columns are read from the log, columns that the file lacks are null, and narrower types are widened.
        Dates and times before 1582 are taken as they are, however the writer's calendar counted them.

        Raises:
            UsageError: no such column.
            NotCanonical: the schema or a partition value is not sound.
            Unsupported: another format than Parquet, or a change of schema that is not known.
            OSError: the file cannot be read.
        """
        schema, metadata = self._schema(snapshot)
        names = chosen(schema.names, columns, self.location)
        if metadata.provider != "parquet":
            raise Unsupported(
                "metaData.format.provider", source=metadata.source, expected="parquet", actual=metadata.provider[:60]
            )
        wanted = [schema.column(name) for name in names]
        values = data_file.record["partitionValues"]
        partition = frozenset(metadata.partition_columns)
        return read_rows(data_file.location, self.folder.storage, wanted, values, partition, batch_rows, schema)

    def _state(self, version: int) -> State:
        """Rebuild a version, from the one that was rebuilt last where that is nearer; and check its protocol."""
        known = self._last
        if known is None or known.version != version:
            nearer = known if known is not None and known.version < version else None
            known = self._last = rebuild(self.folder, self.log, version, nearer)
        check_protocol(known.protocol)
        return known

    def _schema(self, snapshot: Snapshot) -> tuple[TableSchema, Metadata]:
        version = snapshot.info.id
        if version not in self._schemas:
            self._schemas[version] = _parse_schema(self._state(version))
        return self._schemas[version]

    def _partition_names(self, state: State) -> dict[str, str]:
        """Return the partition columns: what each is called -> what it is called in ``partitionValues``."""
        if not state.metadata.partition_columns:
            return {}
        if state.version not in self._schemas:
            self._schemas[state.version] = _parse_schema(state)
        schema = self._schemas[state.version][0]
        return {name: schema.physical_name(name) for name in state.metadata.partition_columns}

    def _data_file(self, added: AddFile, partitions: Mapping[str, str]) -> DataFile:
        missing = partitions.values() - added.partition_values.keys()
        if missing:
            what, actual = f"add.partitionValues of {added.path}", f"no {min(missing)!r:.80}"
            raise NotCanonical(what, source=self.log.location, expected="all partition columns", actual=actual)
        values = {name: added.partition_values[physical] for name, physical in partitions.items()}
        label = "/".join(f"{name}={value or NULL_FOLDER}" for name, value in values.items())
        location = self.folder.locate(added.path)
        return DataFile(added.path, location, added.rows, added.size, label or None, added.record)

    def _vector(self, vector: LoggedVector, added: AddFile, data_file: str) -> DeletionVector:
        descriptor = vector.descriptor
        return DeletionVector(
            "delta",
            data_file,
            vector.path,
            self.folder.locate(vector.path) if vector.path else "",
            descriptor.offset,
            descriptor.size_in_bytes if descriptor.is_inline else descriptor.frame_size,
            descriptor.cardinality,
            record={**added.record["deletionVector"], "numRecords": added.rows},
        )

    def _named(self, actions: Iterable[Members]) -> Iterator[str]:
        """Yield the locations of the files that actions name."""
        for action in actions:
            if action.where in ("add", "remove"):
                file = RemoveFile.parse(action)
                yield self.folder.locate(file.path)
                if file.vector is not None and file.vector.path:
                    yield self.folder.locate(file.vector.path)
            elif action.where == "cdc":
                yield self.folder.locate(plain_path(action))
            elif action.where == "protocol":
                check_protocol(Protocol.parse(action))


def _parse_schema(state: State) -> tuple[TableSchema, Metadata]:
    mode = mapping_mode(state.protocol, state.metadata)
    return parse_schema(state.metadata, mode, declared=declares_mapping(state.protocol)), state.metadata


_NO_ROWS = VectorStats(0, None, None, 0, ContainerMix(0, 0, 0), 0, 0)
"""Of the descriptor that stands for no rows, and for no bytes."""
