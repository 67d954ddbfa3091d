"""The parts of a deletion vector's footer entry that reading needs; `lint` checks all of it.

Specification: Apache Iceberg, "Puffin file format", blob type deletion-vector-v1.
"""

from __future__ import annotations

from dvcodec.core.errors import NotCanonical
from dvcodec.core.frame import FRAME_OVERHEAD
from dvcodec.puffin import BlobMetadata, Footer

__all__ = [
    "BLOB_TYPE",
    "CARDINALITY",
    "DRAFT_BLOB_TYPE",
    "NO_ID",
    "ROW_POSITION_FIELD",
    "blob_cardinality",
    "check_blob",
    "corrupt",
    "vector_blobs",
]

BLOB_TYPE = "deletion-vector-v1"
"""Type of a vector's blob in a Puffin footer."""
DRAFT_BLOB_TYPE = "delete-vector-v1"
"""Type in drafts of the specification; not used by any released writer."""
ROW_POSITION_FIELD = 2147483645
"""Field id of the metadata column _pos: Java writes it to `fields`; Trino and DuckDB leave `fields` empty."""
CARDINALITY = "cardinality"
"""Blob property: number of rows, as a decimal string."""
NO_ID = -1
"""snapshot-id and sequence-number of a deletion vector: the manifest has the real ones after the commit."""


def vector_blobs(footer: Footer, source: str | None = None) -> list[BlobMetadata]:
    """Return the deletion vectors among the blobs of a footer.

    Raises:
        NotCanonical: together the vectors are larger than the file, with 12 bytes or more each; many entries for the
            same bytes, or for none, would take very long to read. (A single wrong length is reported when that blob is
            read.)
    """
    blobs = [blob for blob in footer.blobs if blob.type == BLOB_TYPE]
    lengths = sorted(max(blob.length, FRAME_OVERHEAD) for blob in blobs)
    if sum(lengths[:-1]) > footer.offset:
        raise NotCanonical(
            "lengths of all vectors",
            source=source,
            offset=footer.offset,
            expected=f"at most the {footer.offset} bytes before the footer, at least {FRAME_OVERHEAD} for each",
            actual=sum(lengths),
        )
    return blobs


def corrupt(blob: BlobMetadata, source: str | None, what: str, expected: str, actual: str) -> NotCanonical:
    """Return the error for a blob, with its offset."""
    return NotCanonical(what, source=source, offset=blob.offset, expected=expected, actual=actual)


def blob_cardinality(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Return the blob's `cardinality` property (rows), None if it has none.

    Raises:
        NotCanonical: the property is not a decimal number.
    """
    text = blob.properties.get(CARDINALITY)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise corrupt(blob, source, "blob property cardinality", "a decimal number", repr(text[:40]))
    return int(text)


def check_blob(blob: BlobMetadata, source: str | None = None) -> int | None:
    """Check codec and cardinality in the footer entry of a vector; return its `cardinality`.

    Raises:
        NotCanonical: the blob is compressed, or its cardinality is not a number.
    """
    if blob.compression_codec is not None:
        what, expected = "compression-codec of a deletion vector", "none: deletion vectors are not compressed"
        raise corrupt(blob, source, what, expected, repr(blob.compression_codec))
    return blob_cardinality(blob, source)
