"""Delta Lake deletion vectors: descriptors, vector files, inline vectors.

`descriptor` is the log entry, `vectors` the vectors in files and in the log, in either layout, and `z85` the
text encoding of UUIDs and inline vectors.
"""

from dvcodec.delta.descriptor import EMPTY, Descriptor, new_file
from dvcodec.delta.vectors import (
    decode,
    decode_inline,
    encode,
    encode_inline,
    load,
    load_frames,
    read_deletion_vectors,
    write_deletion_vectors,
    write_stored_vectors,
)
from dvcodec.io.frames import read_frames

__all__ = [
    "EMPTY",
    "Descriptor",
    "decode",
    "decode_inline",
    "encode",
    "encode_inline",
    "load",
    "load_frames",
    "new_file",
    "read_deletion_vectors",
    "read_frames",
    "write_deletion_vectors",
    "write_stored_vectors",
]
