"""Where a table's protocol and properties contradict its vectors: what makes engines refuse it, or skip the vectors.

Specification: Delta's PROTOCOL.md, "Deletion Vectors" (reader version 3, writer version 7, the table feature in both
lists), "Table Features", "Column Mapping" and "Append-only Tables".
"""

from __future__ import annotations

from collections.abc import Iterator

from dvcodec.core.report import Check
from dvcodec.tables.delta.actions import Metadata, Protocol
from dvcodec.tables.findings import Finding, from_check

__all__ = ["contradictions"]

VECTORS = "deletionVectors"
READER_VERSION, WRITER_VERSION = 3, 7
"""Versions from which on a protocol lists features; vectors need both."""
MAPPING, MAPPING_MODE = "columnMapping", "delta.columnMapping.mode"
MAPPING_READER, MAPPING_WRITER = 2, 5
"""Versions that have column mapping without listing it."""
ENABLED, APPEND_ONLY = "delta.enableDeletionVectors", "delta.appendOnly"


def contradictions(protocol: Protocol, metadata: Metadata, *, vectors: bool) -> Iterator[Finding]:
    """Find what of protocol and properties does not fit the data.

    Checks:

    - ``delta-protocol``: vectors, but not reader version 3 and writer version 7. Readers that go by the protocol return
      the deleted rows;
    - ``delta-feature``: vectors, or a property that needs a table feature, without the feature. Spark refuses a table
      whose protocol lacks the feature of an active property, other readers one that has it in a single list;
    - ``delta-column-mapping``: a column mapping mode that the protocol does not have. Readers that go by the protocol
      look for the columns under the wrong names and return nulls;
    - ``delta-append-only``: vectors where rows must not be deleted. Readers return the right rows;
    - ``delta-property``: vectors that new deletes do not use any more. The existing ones stay valid.

    Args:
        protocol: that holds.
        metadata: that holds.
        vectors: whether a data file has one.
    """
    properties = metadata.configuration
    if vectors:
        yield from _versions(protocol)
    yield from _features(protocol, metadata, vectors=vectors)
    yield from _mapping(protocol, metadata)
    if vectors and _is_true(metadata, APPEND_ONLY):
        yield _finding("delta-append-only", metadata.source, APPEND_ONLY, "no deleted rows", "true, and vectors")
    if vectors and not _is_true(metadata, ENABLED):
        actual = properties.get(ENABLED) or "not set"
        yield _finding("delta-property", metadata.source, f"{ENABLED} of a table with vectors", "true", actual)


def _versions(protocol: Protocol) -> Iterator[Finding]:
    reader, writer = protocol.reader_version, protocol.writer_version
    if reader < READER_VERSION or (writer is not None and writer < WRITER_VERSION):
        expected = f"reader version {READER_VERSION} and writer version {WRITER_VERSION}"
        actual = f"reader version {reader} and writer version {writer}"
        yield _finding("delta-protocol", protocol.source, "protocol of a table with vectors", expected, actual)


def _features(protocol: Protocol, metadata: Metadata, *, vectors: bool) -> Iterator[Finding]:
    if protocol.writer_version is None or protocol.writer_version < WRITER_VERSION:
        return
    if vectors or _is_true(metadata, ENABLED):
        lists = {"writerFeatures": protocol.writer_features}
        if protocol.reader_version >= READER_VERSION:
            lists["readerFeatures"] = protocol.reader_features
        missing = [name for name, features in lists.items() if VECTORS not in features]
        if missing:
            what = "protocol of a table with vectors" if vectors else f"protocol of a table with {ENABLED}=true"
            expected = f"{VECTORS} in readerFeatures and writerFeatures"
            yield _finding("delta-feature", protocol.source, what, expected, f"none in {' and '.join(sorted(missing))}")
    if _is_true(metadata, APPEND_ONLY) and "appendOnly" not in protocol.writer_features:
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


def _is_true(metadata: Metadata, name: str) -> bool:
    return (metadata.configuration.get(name) or "").strip().lower() == "true"


def _finding(check: str, source: str, what: str, expected: str, actual: str) -> Finding:
    return from_check(Check.failed(check, source, None, what, expected, actual), path=source)
