"""Single LZ4 and Zstandard frames, as Puffin and Avro use them.

Puffin's frames state their content size. Before anything is allocated, it is checked against a limit and against the
bytes of the frame; a frame with another size is an error. Avro's Zstandard frames may omit the size (Java's do); then
the number of blocks bounds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import cramjam
import numpy as np

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory

CODECS = ("lz4", "zstd")
LZ4_MAGIC = 0x184D2204
ZSTD_MAGIC = 0xFD2FB528
_ZSTD_RLE = 1
"""Type of a block that repeats a single stored byte."""
_ZSTD_BLOCK = 1 << 17
"""Maximum content bytes of one block."""
MAX_EXPANSION = {"lz4": 255, "zstd": 1 << 15}
"""Maximum content bytes per byte of a frame: an LZ4 match length; a 4-byte zstd block of 128 KiB."""


def decompress(
    cursor: Cursor,
    codec: str,
    *,
    limit: str = "max_blob_bytes",
    limits: Limits = DEFAULT_LIMITS,
    sized: bool = True,
) -> memoryview:
    """Decompress the whole window of the cursor.

    Args:
        cursor: exactly the frame.
        codec: ``lz4`` or ``zstd``.
        limit: name of the `Limits` field that bounds the content size.
        limits: the limits.
        sized: whether the frame must state its content size; only ``zstd`` frames can be read without it.

    Raises:
        Truncated: the window ends inside the frame.
        BadMagic: not a frame of that codec.
        NotCanonical: the frame is damaged, or its content size is missing or wrong.
        LimitExceeded: the content size is above the limit, or exceeds the memory.
    """
    frame = cursor.view[cursor.pos : cursor.end]
    start = cursor.pos
    size, skip_blocks = _lz4_header(cursor) if codec == "lz4" else _zstd_header(cursor)
    if size is None and (sized or codec == "lz4"):
        raise cursor.error(NotCanonical, f"{codec} frame", at=start, expected="a content size in its header")
    if size is not None:
        limits.check(limit, size, cursor, start)
        most = len(frame) * MAX_EXPANSION[codec]
        if size > most:
            raise cursor.error(
                NotCanonical,
                f"{codec} content size",
                at=start,
                expected=f"at most {most} in {len(frame)} bytes",
                actual=size,
            )
    blocks = skip_blocks(cursor)
    cursor.expect_end(f"the {codec} frame")
    room = size if size is not None else min(blocks * _ZSTD_BLOCK, getattr(limits, limit))
    with enough_memory(f"the content of a {codec} frame", cursor.source):
        out = np.empty(room, np.uint8)
    module = cramjam.lz4 if codec == "lz4" else cramjam.zstd
    try:
        found = module.decompress_into(frame, out)
    except cramjam.DecompressionError as err:
        if size is None and room < blocks * _ZSTD_BLOCK:
            raise limits.exceeded(limit, f"more than {room}, or a damaged frame", cursor, start) from None
        raise cursor.error(
            NotCanonical, f"{codec} frame", at=start, expected=f"a valid frame of {room} bytes", actual=str(err)
        ) from None
    if size is not None and found != size:
        raise cursor.error(NotCanonical, f"{codec} content size", at=start, expected=size, actual=found)
    return out.data[:found]


def compress(data: bytes | memoryview, codec: str) -> bytes:
    """Compress into one frame that states its content size; only ``zstd`` is written (as by Iceberg Java).

    Raises:
        UsageError: another codec.
    """
    if codec != "zstd":
        raise UsageError(f"blobs are written uncompressed or as zstd, not as {codec!r}")
    return bytes(cramjam.zstd.compress(data))


_SkipBlocks: TypeAlias = Callable[[Cursor], int]
"""Skips the rest of a frame and returns its number of blocks. (Libraries differ in what they allow after a frame.)"""


def _expect_magic(cursor: Cursor, what: str, expected: int) -> None:
    start, magic = cursor.pos, cursor.u32le(what)
    if magic != expected:
        raise cursor.error(BadMagic, what, at=start, expected=f"{expected:#010x}", actual=f"{magic:#010x}")


def _lz4_header(cursor: Cursor) -> tuple[int | None, _SkipBlocks]:
    """Read the header of an LZ4 frame (LZ4 Frame Format 1.6, "Frame Descriptor")."""
    _expect_magic(cursor, "lz4 frame magic", LZ4_MAGIC)
    flags = cursor.u8("lz4 frame flags")
    cursor.u8("lz4 block descriptor")
    size = cursor.u64le("lz4 content size") if flags & 0x08 else None

    def skip_blocks(cursor: Cursor) -> int:
        cursor.take((4 if flags & 0x01 else 0) + 1, "lz4 dictionary id and header checksum")
        blocks = 0
        while block := cursor.u32le("lz4 block size"):
            cursor.take((block & 0x7FFFFFFF) + (4 if flags & 0x10 else 0), "lz4 block")
            blocks += 1
        cursor.take(4 if flags & 0x04 else 0, "lz4 content checksum")
        return blocks

    return size, skip_blocks


def _zstd_header(cursor: Cursor) -> tuple[int | None, _SkipBlocks]:
    """Read the header of a Zstandard frame (RFC 8878, section 3.1.1.1)."""
    _expect_magic(cursor, "zstd frame magic", ZSTD_MAGIC)
    descriptor = cursor.u8("zstd frame header descriptor")
    single_segment = bool(descriptor & 0x20)
    if not single_segment:
        cursor.u8("zstd window descriptor")
    cursor.take((0, 1, 2, 4)[descriptor & 3], "zstd dictionary id")
    flag = descriptor >> 6
    size = None
    if flag or single_segment:
        size = int.from_bytes(cursor.take((1, 2, 4, 8)[flag], "zstd content size"), "little")
        size += 256 if flag == 1 else 0

    def skip_blocks(cursor: Cursor) -> int:
        last = False
        blocks = 0
        while not last:
            blocks += 1
            header = int.from_bytes(cursor.take(3, "zstd block header"), "little")
            last = bool(header & 1)
            cursor.take(1 if header >> 1 & 3 == _ZSTD_RLE else header >> 3, "zstd block")
        cursor.take(4 if descriptor & 0x04 else 0, "zstd content checksum")
        return blocks

    return size, skip_blocks
