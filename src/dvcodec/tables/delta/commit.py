"""Commit deletes to a Delta table: one JSON file in ``_delta_log``, created only if it does not exist.

Specification: Delta's PROTOCOL.md, "Add File and Remove File", "Deletion Vectors", "Writer Requirements"; conflicts as
Delta Spark's ``ConflictChecker`` has them. deltalake cannot commit vectors: its transactions refuse to remove and add
one path, and its actions have no field for a vector.

`enable` commits a protocol and a property. Specification: "Table Features". From reader version 3 and writer version 7
on a table lists its features; those that the old versions implied are listed too, so that writers keep obeying them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dvcodec._version import __version__
from dvcodec.core.errors import CommitConflict, Unsupported, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.core.json_text import encode_json
from dvcodec.core.vector import DvLocation
from dvcodec.delta import Descriptor, new_file, read_deletion_vectors, write_deletion_vectors
from dvcodec.tables.deleting.run import Committer, StreamBatch, Written, check_next, check_read_back
from dvcodec.tables.delta.log import LOG, AddFile, Metadata, Protocol
from dvcodec.tables.delta.protocol import (
    FEATURE,
    FORBIDDING,
    KNOWN,
    MAPPING,
    OF_COLUMNS,
    PROPERTY,
    READER_VERSION,
    WRITER_VERSION,
    check_features,
    check_provider,
    check_writer,
    is_on,
)
from dvcodec.tables.delta.replay import commit_infos
from dvcodec.tables.delta.rows import loosened
from dvcodec.tables.delta.table import DeltaSnapshot, DeltaTable
from dvcodec.tables.delta.table import open as open_delta
from dvcodec.tables.model import Enabled, FileDelete, SnapshotInfo
from dvcodec.tables.writing import put_once, removed_on_error

_TIMES = "delta.enableInCommitTimestamps"
_REPEATED = ("partitionValues", "size", "tags", "baseRowId", "defaultRowCommitVersion", "deletionVector")
"""Members of a ``remove`` that repeat those of the ``add``."""


class DeltaCommitter(Committer[DeltaSnapshot]):
    """Commits deletes to a Delta table; see `Committer`."""

    def __init__(self, table: DeltaTable) -> None:
        self._folder = table.folder
        self._last: tuple[DeltaTable, DeltaSnapshot] | None = None

    def current(self) -> DeltaSnapshot:
        """Return the newest version; see `Committer.current`. The log is listed, and what is new in it is read.

        Raises:
            CommitConflict: it is another table than before.
        """
        table = self._open()
        last, before = self._last or (None, None)
        if last is not None and before is not None and _has(table, before.info):
            table.last = last.last  # go on from there
        found = table.snapshot()
        if before is not None and before.metadata.record.get("id") != found.metadata.record.get("id"):
            raise CommitConflict(f"{self._folder.location}: the table was dropped, and another one created")
        self._last = table, found
        return found

    def check(self, base: DeltaSnapshot) -> None:
        """Refuse a table without deletion vectors, append-only, or with unknown features.

        Raises:
            Unsupported: see `check_writer` and `check_next`.
        """
        check_writer(base.protocol, base.metadata, base.table.location)
        check_next_version(base)

    def last_batch(self, base: DeltaSnapshot, query: str) -> int | None:
        """Return the ``version`` of the stream's action ``txn``; see `Committer.last_batch`."""
        return base.transactions.get(query)

    def write(self, base: DeltaSnapshot, deletes: Sequence[FileDelete], written: list[str]) -> Written:
        """Write one vector file into the table's folder; see `Committer.write`."""
        folder = base.table.folder
        path = new_file(folder.location)
        written.append(path)
        rows = {one.data_file.path: one.rows for one in deletes}
        locations = write_deletion_vectors(path, rows, storage_options=folder.storage)
        check_read_back(path, rows, read_deletion_vectors(path, locations, storage_options=folder.storage))
        return Written({str(one.data_file): one for one in locations}, locations[0].file_size or 0)

    def commit(
        self,
        base: DeltaSnapshot,
        deletes: Sequence[FileDelete],
        written: Written,
        files: list[str],
    ) -> int:
        """Create the file of the next version; see `Committer.commit`.

        The absence of that file proves nothing: others may have committed it, and log cleanup removed it after a
        checkpoint; or the table may have been recreated.
        """
        folder, version = base.table.folder, base.info.id + 1
        with removed_on_error(files, folder.storage):
            data = commit_bytes(_actions(base, deletes, written, self.batch), folder.location)
            table = self._open()
        if table.log.latest != base.info.id or not _has(table, base.info):
            raise CommitConflict(f"{folder.location}: version {base.info.id} is not the newest one any more")
        put_once(folder.storage, folder.join(f"{LOG}/{version:020}.json"), data)
        return version

    def _open(self) -> DeltaTable:
        """List the log again."""
        self._folder.storage.reopen(self._folder.location)
        return open_delta(self._folder)


def commit_bytes(actions: Iterable[Mapping[str, Any]], source: str) -> bytes:
    """Return the file of a commit: a line of JSON for each action.

    Args:
        actions: in order.
        source: the table, for errors.

    Raises:
        NotCanonical: JSON cannot represent an action, see `encode_json`.
    """
    return b"".join(encode_json(action, source, "action") + b"\n" for action in actions)


def check_next_version(base: DeltaSnapshot) -> None:
    """Check that a version, and its time, can follow; see `check_next`."""
    check_next("version", base.info.id, base.log.location)
    if is_on(base.metadata, _TIMES):
        check_next("inCommitTimestamp", base.info.timestamp_ms or 0, base.log.location)


def commit_info(
    base: DeltaSnapshot,
    now: int,
    operation: str,
    *,
    parameters: Mapping[str, str],
    is_blind: bool,
    metrics: Mapping[str, int],
) -> dict[str, Any]:
    """Return the action ``commitInfo`` of the version after `base`."""
    info: dict[str, Any] = {"timestamp": now}
    if is_on(base.metadata, _TIMES):
        info = {"inCommitTimestamp": max(now, (base.info.timestamp_ms or 0) + 1)} | info
    info |= {
        "operation": operation,
        "operationParameters": parameters,
        "readVersion": base.info.id,
        "isBlindAppend": is_blind,
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
        "engineInfo": f"dvcodec/{__version__}",
        "txnId": str(uuid.uuid4()),
    }
    return {"commitInfo": info}


def _has(table: DeltaTable, info: SnapshotInfo) -> bool:
    """Whether a log has a version as it was read before."""
    versions = {*table.log.commits, *table.log.checkpoints}
    return info.id in versions and next(iter(commit_infos(table.folder, table.log, [info.id]))) == info


def _actions(
    base: DeltaSnapshot, deletes: Sequence[FileDelete], written: Written, batch: StreamBatch | None
) -> Iterator[dict[str, Any]]:
    now = int(time.time() * 1000)
    yield commit_info(base, now, "DELETE", parameters={}, is_blind=False, metrics=_metrics(deletes))
    if batch is not None:
        yield {"txn": {"appId": batch.query, "version": batch.number, "lastUpdated": now}}
    for one in deletes:
        added = _known(AddFile.of(one.data_file))
        gone = {"path": added["path"], "deletionTimestamp": now, "dataChange": True, "extendedFileMetadata": True}
        for old in [_known(AddFile.of(vector)) for vector in one.replaced] or [added]:
            yield {"remove": gone | {name: old[name] for name in _REPEATED if old.get(name) is not None}}
        if not one.whole:
            changed = added | _changed(one, written.locations.get(one.data_file.path), base)
            yield {"add": {name: value for name, value in changed.items() if value is not None}}


def _known(added: AddFile) -> dict[str, Any]:
    """Return an ``add`` without the members that a checkpoint parsed. A data file with two vectors has two of them."""
    return {name: value for name, value in added.action.items() if not name.endswith("_parsed")}


def _changed(one: FileDelete, location: DvLocation | None, base: DeltaSnapshot) -> dict[str, Any]:
    """Return the members of an ``add`` that a new vector changes, or, without a location, that of none any more."""
    if location is None:
        return {"dataChange": True, "deletionVector": None}
    rows = one.data_file.physical_rows
    if rows is None:
        rows = base.stored_rows(one.data_file)
    if rows is None:
        raise UsageError(f"{one.data_file.path}: its row count is unknown, and a vector requires numRecords")
    descriptor = Descriptor.from_location(location, base.table.location)
    return {
        "dataChange": True,
        "stats": loosened(AddFile.of(one.data_file).action.get("stats"), rows, base.log.location),
        "deletionVector": json.loads(descriptor.to_json()),
    }


def _metrics(deletes: Sequence[FileDelete]) -> dict[str, int]:
    removed = sum(one.whole for one in deletes)
    return {
        "numRemovedFiles": removed,
        "numAddedFiles": 0,
        "numDeletedRows": sum(one.gained for one in deletes),
        "numDeletionVectorsAdded": sum(not one.whole and bool(one.rows) for one in deletes),
        "numDeletionVectorsRemoved": sum(bool(one.replaced) for one in deletes),
        "numDeletionVectorsUpdated": sum(bool(one.replaced and one.rows) and not one.whole for one in deletes),
    }


_IMPLIED = (
    (2, "appendOnly"),
    (2, "invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed"),
    (4, "generatedColumns"),
    (6, "identityColumns"),
)
"""Writer versions from which on features are implied. Column mapping is implied by reader version 2."""


def enable(table: DeltaTable, dry_run: bool = False) -> Enabled:
    """Enable deletion vectors in the newest version; see `dvcodec.tables.enable`."""
    folder, base = table.folder, DeltaCommitter(table).current()
    protocol, metadata = base.protocol, base.metadata
    _check(protocol, metadata, table.location)
    check_next_version(base)
    actions: list[dict[str, Any]] = []
    changes = []
    listed = with_vectors(protocol)
    if listed != protocol.record:
        actions.append({"protocol": listed})
        changes.append(_change(protocol, listed))
    if not is_on(metadata, PROPERTY):
        properties = dict(metadata.configuration) | {PROPERTY: "true"}
        actions.append({"metaData": {**metadata.record, "configuration": properties}})
        changes.append(f"{PROPERTY}: {metadata.configuration.get(PROPERTY, 'not set')} -> true")
    if dry_run or not actions:
        return Enabled(tuple(changes))
    now = int(time.time() * 1000)
    parameters = {"properties": json.dumps({PROPERTY: "true"}, separators=(",", ":"))}
    info = commit_info(base, now, "SET TBLPROPERTIES", parameters=parameters, is_blind=True, metrics={})
    location = folder.join(f"{LOG}/{base.info.id + 1:020}.json")
    with uninterrupted():
        put_once(folder.storage, location, commit_bytes([info, *actions], folder.location))
    return Enabled(tuple(changes), location)


def with_vectors(protocol: Protocol) -> dict[str, Any]:
    """Return a ``protocol`` action with deletion vectors in addition to the features that it listed or implied."""
    version = protocol.writer_version or 0
    writer = list(protocol.writer_features)
    if version < WRITER_VERSION:
        writer += [name for least, name in _IMPLIED if version >= least]
    if protocol.reader_version == 2:
        writer.append(MAPPING)
    writer = list(dict.fromkeys([*writer, *protocol.reader_features, FEATURE]))
    of_readers = [name for name in writer if name in KNOWN | OF_COLUMNS]
    return {
        **protocol.record,
        "minReaderVersion": READER_VERSION,
        "minWriterVersion": WRITER_VERSION,
        "readerFeatures": list(dict.fromkeys([*protocol.reader_features, *of_readers])),
        "writerFeatures": writer,
    }


def _change(old: Protocol, new: dict[str, Any]) -> str:
    versions = (old.reader_version, old.writer_version), (READER_VERSION, WRITER_VERSION)
    before, after = (f"reader version {reader}, writer version {writer}" for reader, writer in versions)
    moved = f"{before} -> {after}" if versions[0] != versions[1] else after
    added = sorted({*new["readerFeatures"], *new["writerFeatures"]} - {*old.reader_features, *old.writer_features})
    return f"protocol: {moved}, features it now lists: {', '.join(added or [FEATURE])}"


def _check(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Check that the table may have vectors.

    Raises:
        UsageError: a property forbids them.
        Unsupported: an unknown feature, or another format than Parquet.
    """
    check_features(protocol)
    if protocol.writer_version is None:
        raise Unsupported("protocol.minWriterVersion", source=protocol.source, expected="a version", actual="none")
    check_provider(metadata)
    for name, why in FORBIDDING.items():
        if name.startswith("delta.enableIcebergCompat") and is_on(metadata, name):
            raise UsageError(f"{table}: {name} is set: {why}")
