"""Puffin files of deletion vectors built by hand, so that what the footer says of each can be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dvcodec import RowSet, iceberg
from dvcodec.puffin import BlobMetadata, Footer, encode_footer


def file_of(*blobs: tuple[bytes, dict[str, Any]]) -> bytes:
    """A Puffin file of blobs, the metadata of each changed as asked."""
    data, metadata = b"PFA1", []
    for stored, changes in blobs:
        known: dict[str, Any] = {
            "type": "deletion-vector-v1",
            "fields": (),
            "snapshot_id": -1,
            "sequence_number": -1,
            "offset": len(data),
            "length": len(stored),
        }
        metadata.append(BlobMetadata(**(known | changes)))
        data += stored
    return data + encode_footer(Footer(tuple(metadata)))


def vector_for(path: str | None, rows: Iterable[int], cardinality: str | None = None) -> tuple[bytes, dict[str, Any]]:
    properties = {"referenced-data-file": path, "cardinality": cardinality}
    return iceberg.encode(RowSet(rows)), {"properties": {k: v for k, v in properties.items() if v is not None}}


def with_changes(blob: tuple[bytes, dict[str, Any]], **changes: Any) -> tuple[bytes, dict[str, Any]]:
    return blob[0], blob[1] | changes


GOOD = vector_for("a", [1, 3], "2")
