"""The Puffin container: blobs and a JSON footer. Other modules decode the blobs.

Specification: Apache Iceberg, "Puffin file format", version 1::

    "PFA1" | blob | blob | ... | footer
    footer = "PFA1" | payload | i32 LE payload size | 4 flag bytes | "PFA1"

The payload is a UTF-8 JSON object, LZ4-compressed if bit 0 of the first flag byte is set. It locates the blobs by
`offset` and `length`; the reader fetches the footer and the requested blobs, never the whole file. Unknown blob types
are kept and copied unchanged.
"""

from dvcodec.puffin.file import PuffinReader, PuffinWriter, open_puffin, rewrite_paths
from dvcodec.puffin.footer import (
    CREATED_BY,
    MAGIC,
    REFERENCED_DATA_FILE,
    BlobMetadata,
    Footer,
    decode_footer,
    encode_footer,
)

__all__ = [
    "CREATED_BY",
    "MAGIC",
    "REFERENCED_DATA_FILE",
    "BlobMetadata",
    "Footer",
    "PuffinReader",
    "PuffinWriter",
    "decode_footer",
    "encode_footer",
    "open_puffin",
    "rewrite_paths",
]
