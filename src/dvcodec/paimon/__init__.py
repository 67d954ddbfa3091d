"""Apache Paimon: deletion vectors, index files, the index manifest, the hash index.

`vectors`: vectors, 32- or 64-bit, and their files. `manifest`: the index manifest, with their data
files. `hash_index`: the index files of dynamic-bucket tables.
"""

from dvcodec.paimon.hash_index import decode_hash_index, encode_hash_index
from dvcodec.paimon.manifest import (
    DELETION_VECTORS,
    EMPTY_PARTITION,
    HASH,
    GlobalIndexMeta,
    IndexManifestEntry,
    read_index_manifest,
    write_index_manifest,
)
from dvcodec.paimon.vectors import (
    TARGET_SIZE,
    DeletionVectorMeta,
    IndexFile,
    decode,
    encode,
    load,
    load_frames,
    read_deletion_vectors,
    write_deletion_vectors,
    write_index_files,
    write_stored_vectors,
)

__all__ = [
    "DELETION_VECTORS",
    "EMPTY_PARTITION",
    "HASH",
    "TARGET_SIZE",
    "DeletionVectorMeta",
    "GlobalIndexMeta",
    "IndexFile",
    "IndexManifestEntry",
    "decode",
    "decode_hash_index",
    "encode",
    "encode_hash_index",
    "load",
    "load_frames",
    "read_deletion_vectors",
    "read_index_manifest",
    "write_deletion_vectors",
    "write_index_files",
    "write_index_manifest",
    "write_stored_vectors",
]
