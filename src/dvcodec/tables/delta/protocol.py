"""Which tables can be read: Delta's reader versions and features.

Specification: Delta's PROTOCOL.md, "Table Features" and "Valid Feature Names in Table Features".
"""

from __future__ import annotations

from dvcodec.core.errors import Unsupported
from dvcodec.tables.delta.actions import Metadata, Protocol

__all__ = ["check_protocol", "declares_mapping", "mapping_mode"]

READER_VERSION = 3
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
"""Writer features, which readers may ignore even where they are listed among the reader features."""
MODES = ("none", "name", "id")


def check_protocol(protocol: Protocol) -> None:
    """Check that all features are known that readers have to support.

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


def declares_mapping(protocol: Protocol) -> bool:
    """Whether the protocol says that columns may be mapped."""
    return protocol.reader_version == 2 or "columnMapping" in protocol.reader_features


def mapping_mode(protocol: Protocol, metadata: Metadata) -> str:
    """Return how columns are found in data files: by ``name`` (physical), by ``id``, or by their own names (``none``).

    The table's property decides, whatever the protocol says, as in Delta Spark: Delta 3.1 wrote tables of IcebergCompat
    with an empty list of reader features. If the protocol does not declare the feature, the schema may lack the
    annotations: see `parse_schema`.

    Raises:
        Unsupported: another mode.
    """
    mode = metadata.configuration.get("delta.columnMapping.mode") or "none"
    if mode not in MODES and not declares_mapping(protocol):
        return "none"
    if mode not in MODES:
        raise Unsupported(
            "delta.columnMapping.mode", source=metadata.source, expected=" or ".join(MODES), actual=repr(mode)[:60]
        )
    return mode
