"""Iceberg deletion vectors, and the position deletes that they replace.

`vectors`: the blobs and their Puffin files. `blobs`: footer entries, and rules for them. `manifest`: manifest entries.
`position_deletes`: the v2 files of (file_path, pos).
"""

from dvcodec.iceberg.blobs import BLOB_TYPE, ROW_POSITION_FIELD, lint
from dvcodec.iceberg.manifest import java_blob_order, manifest_entry
from dvcodec.iceberg.position_deletes import read_position_deletes, vectors_from_arrow, write_position_deletes
from dvcodec.iceberg.vectors import (
    decode,
    encode,
    load,
    read_deletion_vectors,
    write_deletion_vectors,
    write_stored_vectors,
)

__all__ = [
    "BLOB_TYPE",
    "ROW_POSITION_FIELD",
    "decode",
    "encode",
    "java_blob_order",
    "lint",
    "load",
    "manifest_entry",
    "read_deletion_vectors",
    "read_position_deletes",
    "vectors_from_arrow",
    "write_deletion_vectors",
    "write_position_deletes",
    "write_stored_vectors",
]
