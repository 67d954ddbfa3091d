"""Which tables can be read: Delta's reader versions and features.

Specification: Delta's PROTOCOL.md, "Table Features" and "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.tables.delta.actions import Metadata, Protocol

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
MAPPING, MAPPING_MODE = "columnMapping", "delta.columnMapping.mode"
"""Of column mapping, likewise."""
PHYSICAL_NAME, FIELD_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
"""What the metadata of a mapped column has."""
MODES = ("none", "name", "id")


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


def declares_mapping(protocol: Protocol) -> bool:
    """Whether the protocol declares column mapping."""
    return protocol.reader_version == 2 or MAPPING in protocol.reader_features


def mapping_mode(protocol: Protocol, metadata: Metadata) -> str:
    """Return how columns are found in data files: by ``name`` (physical), by ``id``, or by their own names (``none``).

    The table's property decides, whatever the protocol says, as in Delta Spark: Delta 3.1 wrote tables of IcebergCompat
    with an empty list of reader features. If the protocol does not declare the feature, the schema may lack the
    annotations: see `parse_schema`.

    Raises:
        Unsupported: another mode.
    """
    mode = metadata.configuration.get(MAPPING_MODE) or "none"
    if mode not in MODES and not declares_mapping(protocol):
        return "none"
    if mode not in MODES:
        raise Unsupported(MAPPING_MODE, source=metadata.source, expected=" or ".join(MODES), actual=repr(mode)[:60])
    return mode
