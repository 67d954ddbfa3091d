"""Enable deletion vectors in a Delta table: one commit, with a protocol and a property.

Specification: Delta's PROTOCOL.md, "Table Features" and "Deletion Vectors". From reader version 3 and writer version 7
on a table lists its features; those that the old versions implied are listed too, so that writers keep obeying them.
"""

from __future__ import annotations

import json
import time
from typing import Any

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.tables.delta.actions import Metadata, Protocol
from dvcodec.tables.delta.commit import check_next, commit_bytes, commit_info, committer
from dvcodec.tables.delta.log import LOG
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
    is_on,
)
from dvcodec.tables.delta.table import DeltaTable
from dvcodec.tables.model import Enabled
from dvcodec.tables.put import put_once

__all__ = ["enable", "with_vectors"]

_IMPLIED = (
    (2, "appendOnly"),
    (2, "invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed"),
    (4, "generatedColumns"),
    (6, "identityColumns"),
)
"""Writer versions from which on features are implied. Column mapping is implied by reader version 2."""


def enable(table: DeltaTable, *, dry_run: bool = False) -> Enabled:
    """Enable deletion vectors in the newest version; see `dvcodec.tables.enable`."""
    folder, base = table.folder, committer(table).current()
    protocol, metadata = base.protocol, base.metadata
    _check(protocol, metadata, table.location)
    check_next(base)
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
