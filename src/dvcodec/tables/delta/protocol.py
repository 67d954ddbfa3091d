"""Which tables can be read and written, and where protocol and properties contradict the data.

Specification: Delta's PROTOCOL.md, "Table Features", "Valid Feature Names in Table Features", "Deletion Vectors"
(reader version 3, writer version 7, the table feature in both lists), "Column Mapping" and "Append-only Tables".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.tables.delta.log import Metadata, Protocol
from dvcodec.tables.delta.schema import FIELD_ID, MAPPING, MAPPING_MODE, PHYSICAL_NAME, read_schema
from dvcodec.tables.snapshots.findings import Finding

READER_VERSION, WRITER_VERSION = 3, 7
"""The versions that list features, and the highest ones; vectors need both."""
KNOWN = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Supported reader features."""
OF_COLUMNS = frozenset(
    {
        "geospatial",
        "geospatial-dev",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""Reader features that only add column types: files and vectors do not change, and such columns are refused by type."""
OF_WRITERS = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
    }
)
"""Writer features, which readers may ignore even if they are listed among the reader features."""
CARRIED = KNOWN | OF_COLUMNS | OF_WRITERS - {"icebergCompatV1", "icebergCompatV2"}
"""Features that a delete leaves as they are: it repeats the actions of data files, and writes no rows."""
FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"
"""Of deletion vectors: what the protocol lists, and the property of the table that lets writers make new ones."""


def check_protocol(protocol: Protocol) -> None:
    """Check that all features that readers have to support are known.

    Raises:
        Unsupported: one is not. (For catalog-managed tables, the log may lack the newest commits.)
    """
    if protocol.reader_version > READER_VERSION:
        expected = f"at most {READER_VERSION}"
        raise Unsupported(
            "protocol.minReaderVersion", source=protocol.source, expected=expected, actual=protocol.reader_version
        )
    unknown = sorted(set(protocol.reader_features) - KNOWN - OF_COLUMNS - OF_WRITERS)
    if unknown:
        known = ", ".join(sorted(KNOWN | OF_COLUMNS))
        raise Unsupported(
            "protocol.readerFeatures", source=protocol.source, expected=f"of {known}", actual=", ".join(unknown)[:200]
        )


def check_features(protocol: Protocol) -> None:
    """Check the features that a writer of deletes has to support.

    Raises:
        Unsupported: an unknown writer feature.
    """
    features = {*protocol.reader_features, *protocol.writer_features}
    unknown = sorted(features - CARRIED)
    if unknown or (protocol.writer_version or 0) > WRITER_VERSION:
        actual = ", ".join(unknown)[:200] or f"writer version {protocol.writer_version}"
        raise Unsupported(
            "protocol of the table", source=protocol.source, expected="features that a delete may leave", actual=actual
        )


def check_provider(metadata: Metadata) -> None:
    """Check that the data files are Parquet.

    Raises:
        Unsupported: they are not.
    """
    if metadata.provider != "parquet":
        what, actual = "metaData.format.provider", metadata.provider[:60]
        raise Unsupported(what, source=metadata.source, expected="parquet", actual=actual)


def check_writer(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Check that a delete may commit a deletion vector.

    Raises:
        UsageError: the table does not have vectors enabled, is append-only, or has a property that forbids them.
        Unsupported: an unknown writer feature.
    """
    check_features(protocol)
    listed = FEATURE in protocol.reader_features and FEATURE in protocol.writer_features
    if not (listed and is_on(metadata, PROPERTY)):
        raise UsageError(
            f"{table}: deletion vectors are not enabled (feature {FEATURE}, {PROPERTY}): "
            "enable them first, with dvcodec enable or dvcodec.tables.enable"
        )
    for name, why in FORBIDDING.items():
        if is_on(metadata, name):
            raise UsageError(f"{table}: {name} is set: {why}")


FORBIDDING = {
    "delta.appendOnly": "its rows must not be deleted",
    "delta.enableIcebergCompatV1": "Iceberg readers of the table would not see deletion vectors",
    "delta.enableIcebergCompatV2": "Iceberg readers of the table would not see deletion vectors",
}
"""Properties that keep a table from being deleted from, and why."""


def is_on(metadata: Metadata, name: str) -> bool:
    """Whether a property of the table is true, in any case; with spaces around it, Delta does not read it as true."""
    return (metadata.configuration.get(name) or "").lower() == "true"


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


def _finding(check: str, source: str, what: str, expected: str, actual: str) -> Finding:
    return Finding.failed(check, what, expected, actual, path=source)
