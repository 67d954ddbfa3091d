"""LZ4 and Zstandard frames as Puffin uses them: one frame that states its content size.

The stated size is checked against a limit before anything is allocated, and the output buffer has exactly that
size: a frame that lies about it is refused, whichever way.
"""

from __future__ import annotations

import cramjam
import numpy as np

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits

__all__ = ["CODECS", "compress", "decompress"]

CODECS = ("lz4", "zstd")
LZ4_MAGIC = 0x184D2204
ZSTD_MAGIC = 0xFD2FB528


def decompress(
    cursor: Cursor, codec: str, *, limit: str = "max_blob_bytes", limits: Limits = DEFAULT_LIMITS
) -> memoryview:
    """Decompress the whole window of the cursor.

    Args:
        cursor: the frame, and nothing else.
        codec: ``lz4`` or ``zstd``.
        limit: name of the `Limits` field that bounds the content size.
        limits: the limits.

    Raises:
        BadMagic: not a frame of that codec.
        NotCanonical: the frame states no content size, or another one than it has, or is damaged.
        LimitExceeded: the stated content size is over the limit.
    """
    frame = cursor.view[cursor.pos : cursor.end]
    start = cursor.pos
    size = _lz4_content_size(cursor) if codec == "lz4" else _zstd_content_size(cursor)
    if size is None:
        raise cursor.error(NotCanonical, f"{codec} frame", at=start, expected="a content size in its header")
    limits.check(limit, size, cursor, start)
    out = np.empty(size, np.uint8)
    module = cramjam.lz4 if codec == "lz4" else cramjam.zstd
    try:
        found = module.decompress_into(frame, out) if size else len(module.decompress(frame, output_len=0))
    except cramjam.DecompressionError as err:
        raise cursor.error(
            NotCanonical, f"{codec} frame", at=start, expected=f"a sound frame of {size} bytes", actual=str(err)
        ) from None
    if found != size:
        raise cursor.error(NotCanonical, f"{codec} content size", at=start, expected=size, actual=found)
    return out.data


def compress(data: bytes | memoryview, codec: str) -> bytes:
    """Compress into one frame that states its content size; only ``zstd`` is written (as by Iceberg Java)."""
    if codec != "zstd":
        raise UsageError(f"blobs are written uncompressed or as zstd, not as {codec!r}")
    return bytes(cramjam.zstd.compress(data))


def _lz4_content_size(cursor: Cursor) -> int | None:
    """Read the header of an LZ4 frame (LZ4 Frame Format 1.6, "Frame Descriptor")."""
    magic = cursor.u32le("lz4 frame magic")
    if magic != LZ4_MAGIC:
        raise cursor.error(
            BadMagic, "lz4 frame magic", at=cursor.pos - 4, expected=f"{LZ4_MAGIC:#010x}", actual=f"{magic:#010x}"
        )
    flags = cursor.u8("lz4 frame flags")
    cursor.u8("lz4 block descriptor")
    return cursor.u64le("lz4 content size") if flags & 0x08 else None


def _zstd_content_size(cursor: Cursor) -> int | None:
    """Read the header of a Zstandard frame (RFC 8878, section 3.1.1.1)."""
    magic = cursor.u32le("zstd frame magic")
    if magic != ZSTD_MAGIC:
        raise cursor.error(
            BadMagic, "zstd frame magic", at=cursor.pos - 4, expected=f"{ZSTD_MAGIC:#010x}", actual=f"{magic:#010x}"
        )
    descriptor = cursor.u8("zstd frame header descriptor")
    single_segment = bool(descriptor & 0x20)
    if not single_segment:
        cursor.u8("zstd window descriptor")
    cursor.take((0, 1, 2, 4)[descriptor & 3], "zstd dictionary id")
    flag = descriptor >> 6
    if flag == 0 and not single_segment:
        return None
    field = int.from_bytes(cursor.take((1, 2, 4, 8)[flag], "zstd content size"), "little")
    return field + 256 if flag == 1 else field
