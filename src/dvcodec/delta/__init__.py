"""Delta Lake deletion vectors: descriptors, vector files, inline vectors.

`descriptor` is what the log says, `vectors` the bytes, `z85` the text form of both.
"""

from dvcodec.delta.descriptor import EMPTY, Descriptor, new_file
from dvcodec.delta.vectors import (
    decode,
    decode_inline,
    encode,
    encode_inline,
    load,
    read_deletion_vectors,
    read_frames,
    write_deletion_vectors,
    write_stored_vectors,
)

__all__ = [
    "EMPTY",
    "Descriptor",
    "decode",
    "decode_inline",
    "encode",
    "encode_inline",
    "load",
    "new_file",
    "read_deletion_vectors",
    "read_frames",
    "write_deletion_vectors",
    "write_stored_vectors",
]
