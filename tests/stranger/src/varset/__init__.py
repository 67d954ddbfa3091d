"""varset: sorted rows as varints of their differences.

::

    "vs" | u8 version = 1 | varint count | varint first, then varint difference - 1 ... | u32 CRC-32, little-endian

Varints are LEB128, of the fewest bytes. The checksum covers all that is before it.
"""

from __future__ import annotations

import zlib

import numpy as np

from dvcodec import BadMagic, ChecksumMismatch, Format, NotCanonical, RowSet, Truncated, UsageError

MAGIC = b"vs\x01"
HIGHEST = 2**48 - 1
_CRC_BYTES = 4


def encode(rows):
    """Encode rows."""
    if rows and rows.max > HIGHEST:
        raise UsageError(f"row {rows.max} does not fit a varset (at most {HIGHEST})")
    body = MAGIC + _varint(len(rows))
    before = -1
    for row in rows.to_numpy().tolist():
        body += _varint(row - before - 1)
        before = row
    return body + zlib.crc32(body).to_bytes(_CRC_BYTES, "little")


def decode(buf, *, limits, source=None, base=0):
    """Decode exactly one vector."""
    data = bytes(buf)

    def error(kind, what, at, expected, actual):
        return kind(what, source=source, offset=base + at, expected=expected, actual=actual)

    if len(data) > limits.max_vector_bytes:
        raise limits.exceeded("max_vector_bytes", len(data), source, base)
    if data[:3] != MAGIC:
        raise error(BadMagic, "magic", 0, MAGIC.hex(" "), data[:3].hex(" "))
    end = len(data) - _CRC_BYTES
    if end <= len(MAGIC):
        raise error(Truncated, "length", 0, "at least 8 bytes", len(data))
    stored = int.from_bytes(data[end:], "little")
    if zlib.crc32(data[:end]) != stored:
        raise error(ChecksumMismatch, "CRC-32", end, f"{stored:08x}", f"{zlib.crc32(data[:end]):08x}")
    values, at = [], len(MAGIC)
    while at < end:
        value = shift = 0
        start = at
        while at < end and (byte := data[at]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
        if at == end or shift > 42 or (shift and not data[at]):
            raise error(NotCanonical, "varint", start, "the fewest bytes, at most 7", data[start : at + 1].hex(" "))
        values.append(value | data[at] << shift)
        at += 1
    count = values[0]
    if count > limits.max_cardinality:
        raise limits.exceeded("max_cardinality", count, source, base)
    if count != len(values) - 1:
        raise error(NotCanonical, "count", len(MAGIC), count, len(values) - 1)
    if (highest := sum(values[1:]) + count - 1) > HIGHEST:
        raise error(NotCanonical, "highest row", end, f"at most {HIGHEST}", highest)
    return RowSet(np.cumsum(np.array(values[1:], np.int64) + 1) - 1)


def _varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


FORMAT = Format(
    name="varset",
    title="varset, rows as varints",
    decode=decode,
    encode=encode,
    sniff=lambda _source, head, _limits: head[:3] == MAGIC,
    checksum=True,
    highest=HIGHEST,
)
