"""Find where protocol and properties contradict a table's vectors, so that engines refuse it or skip the vectors.

Specification: Delta's PROTOCOL.md, "Deletion Vectors" (reader version 3, writer version 7, the table feature in both
lists), "Table Features", "Column Mapping" and "Append-only Tables".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.json_text import parse_json
from dvcodec.tables.delta.actions import Metadata, Protocol
from dvcodec.tables.delta.log import LAST_CHECKPOINT, LOG, Log
from dvcodec.tables.delta.protocol import (
    FEATURE,
    FIELD_ID,
    MAPPING,
    MAPPING_MODE,
    PHYSICAL_NAME,
    PROPERTY,
    READER_VERSION,
    WRITER_VERSION,
    is_on,
)
from dvcodec.tables.delta.replay import is_empty
from dvcodec.tables.delta.schema import read_schema
from dvcodec.tables.folder import Folder
from dvcodec.tables.snapshots.findings import Finding

MAPPING_READER, MAPPING_WRITER = 2, 5
"""Versions with column mapping that do not list it as a feature."""
NTZ = "timestampNtz"
_TYPES = ("type", "elementType", "keyType", "valueType")
APPEND_ONLY = "delta.appendOnly"


def contradictions(protocol: Protocol, metadata: Metadata, *, vectors: bool) -> Iterator[Finding]:
    """Find where protocol and properties contradict the data.

    Checks:

    - ``delta-protocol``: vectors, but not reader version 3 and writer version 7. Readers that follow the protocol
      return the deleted rows; or a writer version above 7, which deltalake refuses;
    - ``delta-feature``: vectors, or a property or column that needs a table feature, without the feature; or a reader
      feature that is not a writer feature. Spark refuses a table whose protocol lacks the feature of an active
      property, other readers one that has it in a single list;
    - ``delta-schema``: columns that readers refuse: two whose names differ only in case, or mapped columns without the
      names and ids that they have in data files;
    - ``delta-column-mapping``: a column mapping mode that the protocol does not have. Readers that follow the protocol
      look for the columns under the wrong names and return nulls;
    - ``delta-append-only``: vectors where rows must not be deleted. Readers return the right rows;
    - ``delta-property``: vectors, but new deletes do not write them. The existing ones stay valid.

    Args:
        protocol: protocol of the version.
        metadata: metadata of the version.
        vectors: whether a data file has one.
    """
    properties = metadata.configuration
    if vectors:
        yield from _versions(protocol)
    yield from _features(protocol, metadata, vectors=vectors)
    yield from _mapping(protocol, metadata)
    yield from _lists(protocol)
    yield from _schema(protocol, metadata)
    if vectors and is_on(metadata, APPEND_ONLY):
        yield _finding("delta-append-only", metadata.source, APPEND_ONLY, "no deleted rows", "true, and vectors")
    if vectors and not is_on(metadata, PROPERTY):
        actual = properties.get(PROPERTY) or "not set"
        yield _finding("delta-property", metadata.source, f"{PROPERTY} of a table with vectors", "true", actual)


def _versions(protocol: Protocol) -> Iterator[Finding]:
    reader, writer = protocol.reader_version, protocol.writer_version
    if reader < READER_VERSION or (writer is not None and writer < WRITER_VERSION):
        expected = f"reader version {READER_VERSION} and writer version {WRITER_VERSION}"
        actual = f"reader version {reader} and writer version {writer}"
        yield _finding("delta-protocol", protocol.source, "protocol of a table with vectors", expected, actual)


def _features(protocol: Protocol, metadata: Metadata, *, vectors: bool) -> Iterator[Finding]:
    if protocol.writer_version is None or protocol.writer_version < WRITER_VERSION:
        return
    if vectors or is_on(metadata, PROPERTY):
        lists = {"writerFeatures": protocol.writer_features}
        if protocol.reader_version >= READER_VERSION:
            lists["readerFeatures"] = protocol.reader_features
        missing = [name for name, features in lists.items() if FEATURE not in features]
        if missing:
            what = "protocol of a table with vectors" if vectors else f"protocol of a table with {PROPERTY}=true"
            expected = f"{FEATURE} in readerFeatures and writerFeatures"
            yield _finding("delta-feature", protocol.source, what, expected, f"none in {' and '.join(sorted(missing))}")
    if is_on(metadata, APPEND_ONLY) and "appendOnly" not in protocol.writer_features:
        what = f"protocol of a table with {APPEND_ONLY}=true"
        yield _finding("delta-feature", protocol.source, what, "appendOnly in writerFeatures", "none there")


def _mapping(protocol: Protocol, metadata: Metadata) -> Iterator[Finding]:
    mode = metadata.configuration.get(MAPPING_MODE) or "none"
    if mode == "none":
        return
    reader, writer = protocol.reader_version, protocol.writer_version
    missing = []
    if reader < MAPPING_READER:
        missing.append(f"reader version {reader}")
    elif reader >= READER_VERSION and MAPPING not in protocol.reader_features:
        missing.append("none in readerFeatures")
    if writer is not None and writer < MAPPING_WRITER:
        missing.append(f"writer version {writer}")
    elif (writer or 0) >= WRITER_VERSION and MAPPING not in protocol.writer_features:
        missing.append("none in writerFeatures")
    if missing:
        what = f"protocol of a table with {MAPPING_MODE}={mode!r:.40}"
        expected = f"{MAPPING} in readerFeatures and writerFeatures"
        yield _finding("delta-column-mapping", protocol.source, what, expected, ", ".join(missing))


def _lists(protocol: Protocol) -> Iterator[Finding]:
    """Find invalid versions and lists; `_features` and `_mapping` check those of vectors and column mapping."""
    writer = protocol.writer_version or 0
    if writer > WRITER_VERSION:
        expected = f"a writer version of at most {WRITER_VERSION}"
        yield _finding("delta-protocol", protocol.source, "protocol", expected, f"writer version {writer}")
    missing = set(protocol.reader_features) - {*protocol.writer_features, FEATURE, MAPPING}
    if writer >= WRITER_VERSION and missing:
        expected = "the readerFeatures in writerFeatures too"
        yield _finding("delta-feature", protocol.source, "protocol", expected, f"no {', '.join(sorted(missing))} there")


def _schema(protocol: Protocol, metadata: Metadata) -> Iterator[Finding]:
    """Find columns that readers refuse. Unknown types and properties are ignored."""
    try:
        mode = read_schema(protocol, metadata).mode
    except Unsupported:
        return
    except NotCanonical as error:
        yield Finding.from_error("delta-schema", error, metadata.source)
        return
    nodes = list(_nodes(json.loads(metadata.schema)))
    bare = None if mode == "none" else next((node for node in nodes if "name" in node and not _is_mapped(node)), None)
    if bare is not None:
        actual = f"not both of {str(bare['name'])!r:.60}"
        yield _finding("delta-schema", metadata.source, "mapped column", f"{PHYSICAL_NAME} and {FIELD_ID}", actual)
    writer = protocol.writer_version or 0
    lists = [protocol.reader_features, *([protocol.writer_features] if writer >= WRITER_VERSION else [])]
    types = {node.get(key) for node in nodes for key in _TYPES if isinstance(node.get(key), str)}
    if "timestamp_ntz" in types and not all(NTZ in features for features in lists):
        expected = f"{NTZ} in readerFeatures and writerFeatures"
        what = "protocol of a table with a column of timestamp_ntz"
        yield _finding("delta-feature", protocol.source, what, expected, "not in both")


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the nested types of a schema, and the fields of structs: everything that is an object in its JSON."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            yield node
            waiting += [node.get(key) for key in ("fields", *_TYPES)]


def _is_mapped(field: dict[str, Any]) -> bool:
    metadata = field.get("metadata")
    if not isinstance(metadata, dict):
        return False
    return isinstance(metadata.get(PHYSICAL_NAME), str) and type(metadata.get(FIELD_ID)) is int


def check_hint(folder: Folder, log: Log) -> Iterator[Finding]:
    """Find a ``_last_checkpoint`` that names a missing or empty checkpoint (``delta-checkpoint``).

    delta-kernel-rs, and deltalake with it, opens no such table: it lists the log from that version on. A hint that is
    not JSON with a version is ignored, by them too.

    Raises:
        LimitExceeded: the hint has too many values for its size.
        OSError: it cannot be read.
    """
    if LAST_CHECKPOINT not in log.names:
        return
    name = f"{LOG}/{LAST_CHECKPOINT}"
    try:
        version = parse_json(folder.read(name), folder.join(name), "hint")["version"]
    except (NotCanonical, KeyError, TypeError):
        return
    if type(version) is not int:
        return
    there = (names for found in log.checkpoints if found >= version for names in log.checkpoints[found])
    if all(is_empty(folder, names) for names in there):
        what, expected = "checkpoint that is named as the last", f"version {version}"
        yield _finding("delta-checkpoint", folder.join(name), what, expected, "none from there on")


def _finding(check: str, source: str, what: str, expected: str, actual: str) -> Finding:
    return Finding.failed(check, what, expected, actual, path=source)
