"""The metadata of a Puffin file: blob entries and file properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CREATED_BY", "MAGIC", "REFERENCED_DATA_FILE", "BlobMetadata", "Footer"]

MAGIC = b"PFA1"
"""At the start of the file and at both ends of the footer (section "File structure")."""
CREATED_BY = "created-by"
"""File property that names the writer."""
REFERENCED_DATA_FILE = "referenced-data-file"
"""Blob property of deletion-vector-v1: the data file whose rows the vector deletes."""


@dataclass(frozen=True, slots=True)
class BlobMetadata:
    """One blob as the footer describes it (section "BlobMetadata").

    Attributes:
        type: blob type, such as ``deletion-vector-v1``.
        fields: field ids the blob was computed for.
        snapshot_id: snapshot it belongs to; -1 for deletion vectors.
        sequence_number: that snapshot's; -1 for deletion vectors.
        offset: first byte in the file.
        length: bytes in the file (compressed, if the blob is).
        compression_codec: None, ``lz4`` or ``zstd``.
        properties: further properties of the blob.
        unknown: members of the JSON object that are not in the specification; kept on rewrite.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Footer:
    """The decoded footer (section "FileMetadata").

    Attributes:
        blobs: in footer order; a tuple, or for large uniform footers `UniformBlobs`, which compares equal to one.
        properties: file properties, ``created-by`` among them.
        offset: byte offset of the footer in the file; blobs end before it.
        compressed: whether the payload is stored LZ4-compressed.
        unknown: members that are not in the specification.
    """

    blobs: Sequence[BlobMetadata] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    offset: int = len(MAGIC)
    compressed: bool = False
    unknown: Mapping[str, Any] = field(default_factory=dict, hash=False)
