"""Compression of the blocks of Avro container files.

Specification: Avro 1.12, "Required Codecs" and "Optional Codecs": deflate blocks have no zlib header, snappy blocks end
with the big-endian CRC-32 of their content.
"""

from __future__ import annotations

import sys
import zlib

import cramjam

from dvcodec.core import compress as zstd
from dvcodec.core.checksum import check_crc, crc32
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import Limits, enough_memory

CODECS = ("zstandard", "deflate", "snappy", "null")
_CRC_BYTES = 4


def decompress(cursor: Cursor, codec: str, limits: Limits) -> memoryview:
    """Return the content of a block, the whole window of the cursor.

    Raises:
        DecodeError: the block is damaged.
        LimitExceeded: content of more than `Limits.max_metadata_bytes`, or more than the memory.
    """
    if codec == "null":
        return cursor.view
    if codec == "zstandard":
        return zstd.decompress(cursor, "zstd", limit="max_metadata_bytes", limits=limits, sized=False)
    if codec == "deflate":
        return _inflate(cursor, limits)
    return _unsnap(cursor, limits)


def _inflate(cursor: Cursor, limits: Limits) -> memoryview:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    most = limits.max_metadata_bytes
    try:
        with enough_memory("the content of a deflate block", cursor.source):
            content = inflater.decompress(cursor.view, min(most + 1, sys.maxsize))
    except zlib.error as err:
        raise cursor.error(NotCanonical, "deflate block", expected="a valid block", actual=str(err)) from None
    if len(content) > most:
        raise limits.exceeded("max_metadata_bytes", f"more than {most}", cursor)
    if not inflater.eof:
        raise cursor.error(NotCanonical, "deflate block", expected="one whole stream", actual="no end")
    rest = inflater.unused_data
    if rest and rest != zlib.adler32(content).to_bytes(4, "big")[:3]:  # fastavro appends these three bytes
        raise cursor.error(NotCanonical, "deflate block", expected="one stream", actual=f"{len(rest)} bytes after it")
    return memoryview(content)


def _unsnap(cursor: Cursor, limits: Limits) -> memoryview:
    """Decompress a raw snappy block and check the CRC-32 of its content, big-endian after the block."""
    body = cursor.take(max(cursor.remaining - _CRC_BYTES, 0), "snappy block")
    crc_pos = cursor.pos
    stored = cursor.u32be("CRC-32 of a snappy block")
    size = Cursor(body, source=cursor.source, base=cursor.base).uvarint("snappy content size")
    limits.check("max_metadata_bytes", size, cursor, 0)
    most = len(body) * 64  # a copy of 64 bytes takes at least 2
    if size > most:
        raise cursor.error(NotCanonical, "snappy content size", at=0, expected=f"at most {most}", actual=size)
    with enough_memory("the content of a snappy block", cursor.source):
        out = memoryview(bytearray(size))
    try:
        found = cramjam.snappy.decompress_raw_into(body, out)
    except cramjam.DecompressionError as err:
        raise cursor.error(NotCanonical, "snappy block", at=0, expected="a valid block", actual=str(err)) from None
    if found != size:
        raise cursor.error(NotCanonical, "snappy content size", at=0, expected=size, actual=found)
    check_crc(cursor, crc_pos, "a snappy block", stored, out)
    return out


def compress(data: bytes, codec: str) -> bytes:
    """Return a block with this content."""
    if codec == "zstandard":
        return zstd.compress(data, "zstd")
    if codec == "deflate":
        deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return deflater.compress(data) + deflater.flush()
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data)) + crc32(data).to_bytes(_CRC_BYTES, "big")
    return data
