"""Delta tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Unsupported, UsageError
from dvcodec.tables.deleting import WritableTable
from dvcodec.tables.delta.actions import AddFile, LoggedVector, LogicalFile, Protocol, plain_path
from dvcodec.tables.delta.checkpoint import read_checkpoint, read_sidecars
from dvcodec.tables.delta.log import LOG, Log
from dvcodec.tables.delta.partition import PartitionReader
from dvcodec.tables.delta.protocol import check_protocol
from dvcodec.tables.delta.replay import ActionChecks, Replay, State, commit_infos, read_commits, rebuild
from dvcodec.tables.delta.schema import read_schema
from dvcodec.tables.delta.snapshot import DeltaSnapshot
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import DataFile, DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.snapshots.older import checks_snapshot
from dvcodec.tables.table import Contents, Snapshot, Walk


def open(location: Folder | str | os.PathLike[str]) -> DeltaTable:  # noqa: A001  (every kind of table has one)
    """Open a table by its folder. Its log is listed once: later commits are not seen.

    Args:
        location: the `Folder`; or its path or URL, if it needs no storage options.

    Raises:
        UsageError: there is no log.
        OSError: the folder cannot be read.
    """
    folder = Folder.of(location)
    return DeltaTable(folder, _read_log(folder))


def _read_log(folder: Folder) -> Log:
    log = _list(folder)
    if log.is_broken:  # a listing may miss a commit and have the next one, if both come while it is made
        folder.storage.forget()
        log = _list(folder)
    return log


def _list(folder: Folder) -> Log:
    names = folder.names(LOG)
    if not names:
        raise UsageError(f"{folder.location}: not a Delta table ({LOG} is empty or missing)")
    return Log.from_names(folder.join(LOG), names)


class DeltaTable(WritableTable):
    """A Delta table; see `dvcodec.tables.Table`.

    Attributes:
        last: the last rebuilt version, from which later ones are rebuilt; None before the first.
    """

    kind = TableKind.DELTA

    def __init__(self, folder: Folder, log: Log) -> None:
        self.folder = folder
        self._log: Log | None = log
        self.last: State | None = None

    @property
    def log(self) -> Log:
        """The log as it was listed when the table was opened, or last refreshed."""
        if self._log is None:
            self._log = _read_log(self.folder)
        return self._log

    def refresh(self) -> None:
        """List the log again with the next call; see `Table.refresh`."""
        super().refresh()
        self._log = self.last = None

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
        current = max({*self.log.commits, *self.log.checkpoints}, default=0)
        yield from (version for version in reversed(self.log.versions) if version < current)

    def walk_from(self, snapshot: Snapshot) -> Walk:
        """Return what replays the commits after a version; see `Table.walk_from`."""
        return LogWalk(self, self._state(snapshot.info.id), snapshot.info)

    def snapshot_of(self, state: State, info: SnapshotInfo) -> DeltaSnapshot:
        """Return a version by its state, or by some files of it."""
        partitions = PartitionReader(_partition_names(state), self.log.location)
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
        files = tuple(data_files.values())
        return DeltaSnapshot(
            self,
            info,
            files,
            tuple(vectors),
            protocol=state.protocol,
            metadata=state.metadata,
            action_findings=tuple(state.checks),
            log=self.log,
            transactions=state.transactions,
        )

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
        for actions in read_commits(self.folder, self.log, commits):
            found.update(self._named(actions))
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
                    found.update(self._named(read_checkpoint(self.folder, names, version, sidecars)))
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
        label, values = partitions.read(added)
        return DataFile(added.path, self.folder.locate(added.path), added.rows, added.size, label, values, record=added)

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
            record=added,
        )

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
        self._contents: Contents[AddFile] = Contents(dict(state.files.items()))

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
        parts = self._contents.step(
            {key: was for key, was in changed.items() if was is not None},
            {key: replay.files[key] for key in changed if key in replay.files},
        )
        self.info = info
        return _part(table, old, before, parts[0]), _part(table, new, info, parts[1])


def _part(table: DeltaTable, state: State, info: SnapshotInfo, files: Iterable[AddFile]) -> DeltaSnapshot:
    some = {file.key: file for file in files}
    return table.snapshot_of(replace(state, files=some, transactions={}, checks=ActionChecks()), info)


def _partition_names(state: State) -> dict[str, str]:
    """Return the partition columns: name -> name in ``partitionValues``."""
    if not state.metadata.partition_columns:
        return {}
    schema = read_schema(state.protocol, state.metadata)
    return {name: schema.physical_name(name) for name in state.metadata.partition_columns}
