"""Bytes that any format may have to face: little that unpacks to much, and JSON that promises much."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import cramjam

HUGE = 2**63 - 1
MEGA = 1 << 20
BOMB = 300 * MEGA
"""Bytes that a bomb unpacks to: more than the cap, so that what unpacks it first and counts then is found as well."""

# ------------------------------------------------------------------------------------------------------------- bombs


def deflated(size: int, content: bytes = b"\0") -> bytes:
    """A raw stream: a megabyte is compressed once, and stands in it again and again."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    piece = squeezer.compress(content * MEGA) + squeezer.flush(zlib.Z_FULL_FLUSH)
    return piece * (size // MEGA) + squeezer.flush()


def gzipped(size: int, content: bytes) -> bytes:
    crc = zlib.crc32(content * size)
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + deflated(size, content) + struct.pack("<II", crc, size)


def lz4(size: int) -> bytes:
    """A frame of so many zeros that states its size."""
    return lz4_header(size) + bytes(cramjam.lz4.compress(bytes(size)))[7:]


def lz4_header(size: int) -> bytes:
    return struct.pack("<IBBQB", 0x184D2204, 0x68, 0x70, size, 0)


def snappy(size: int) -> bytes:
    """A raw block of so many zeros."""
    return bytes(cramjam.snappy.compress_raw(bytes(size)))


def zstd(size: int) -> bytes:
    """A frame of so many zeros."""
    return bytes(cramjam.zstd.compress(bytes(size)))


def zstd_header(size: int) -> bytes:
    """Of a frame with one raw block of no bytes, which states a size."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\1\0\0"


def zstd_of_no_size(size: int) -> bytes:
    """A frame that does not state its size, of blocks that stand for one byte again and again."""
    blocks = [struct.pack("<I", 1 << 17 << 3 | 1 << 1)[:3] + b"\0"] * (size >> 17)
    return b"\x28\xb5\x2f\xfd\0\x58" + b"".join(blocks) + b"\1\0\0"


# -------------------------------------------------------------------------------------------------------------- JSON


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def digits(count: int) -> bytes:
    return b"9" * count


JSONS: dict[str, Callable[[], bytes]] = {
    "deep": lambda: nested(200_000),
    "deep in an object": lambda: b'{"a":' * 100_000 + b"0" + b"}" * 100_000,
    "million digits": lambda: b'{"location":' + digits(MEGA) + b"}",
    "exponent": lambda: b'{"location":1e999999999}',
    "not a number": lambda: b'{"location":NaN}',
    "unfinished": lambda: b'{"a":"' + b"x" * MEGA,
    "names that come again": lambda: b"{" + b",".join([b'"location":1'] * 50_000) + b"}",
}
