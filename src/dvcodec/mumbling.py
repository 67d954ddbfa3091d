"""Mumbling bitmaps, version 1: the small bitmaps that manifests of Iceberg v4 embed as deletion vectors.

Specification: Apache Iceberg, "Mumbling Bitmap Spec"; docs/formats/mumbling.md says where Iceberg Java 1.12 differs.
Integers are unsigned, little-endian::

    u8 version = 1 | u24 cardinality | u16 container count
    one descriptor a container, PFOR-encoded
    containers: container i holds the positions 256 i .. 256 i + 255

A descriptor below 32 is the size of a sparse container: as many bytes, each a position in it, ascending. One of 32 is a
dense container: 256 bits, the most significant first. A container is dense if it has 32 positions or more.

PFOR takes the descriptors in chunks of 256, the last of which may be shorter::

    u8 b1 | b2 << 4 | u8 e | u8 m
    the low b1 bits of each descriptor less m
    e bytes: which descriptors are exceptions
    the b2 bits above the low b1 of each exception

Bits are packed from the most significant on; each section fills whole bytes.
"""

from __future__ import annotations

import numpy as np

from dvcodec.core.cursor import BytesLike, Cursor, first_true
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import Bytes, Index, spread
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.vector import check_count

__all__ = ["MAX_POSITIONS", "decode", "encode"]

VERSION = 1
HEADER_BYTES = 6
MAX_CONTAINERS = 8192
_CONTAINER = 256
MAX_POSITIONS = MAX_CONTAINERS * _CONTAINER
"""Positions that a bitmap can have: 0 .. 2,097,151."""
MAX_BYTES = 1 << 19
"""More bytes than a bitmap can have: a header, and for each container its descriptor and at most 32 bytes."""
EMPTY = VERSION.to_bytes(HEADER_BYTES, "little")
"""The bitmap without positions."""

_DENSE = 32
"""Positions from which a container is dense, its bytes, and its descriptor."""
_CHUNK = 256
"""Descriptors of a chunk."""
_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, 8), axis=1, bitorder="little")[:, 0]
"""Each byte with its bits in the other order."""


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one bitmap. It has no checksum; every rule of the specification is checked.

    Args:
        buf: exactly the bitmap.
        cardinality: rows according to the metadata, besides those that the bitmap states; None skips the check.
        limits: bounds on what the bytes may claim.
        source: name of the file, for errors.
        base: byte offset of the bitmap in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the bitmap is corrupt: `Truncated`, `NotCanonical`, `CardinalityMismatch` or `LimitExceeded`.
        Unsupported: another version, or a container of a kind that version 1 reserves.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(bytes.fromhex("01 03 00 00 02 00 01 00 01 80 00 22 ff"))
    RowSet([0, 34, 511])
    """
    check_count(cardinality)
    check_limits(limits)
    cursor = Cursor(buf, source=source, base=base)
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    version = cursor.u8("version")
    if version != VERSION:
        raise cursor.error(Unsupported, "version of a Mumbling bitmap", at=0, expected=VERSION, actual=version)
    stated = int.from_bytes(cursor.take(3, "cardinality"), "little")
    at = cursor.pos
    count = int.from_bytes(cursor.take(2, "container count"), "little")
    if count > MAX_CONTAINERS:
        raise cursor.error(NotCanonical, "container count", at=at, expected=f"at most {MAX_CONTAINERS}", actual=count)
    positions = _read_containers(cursor, _read_descriptors(cursor, count))
    cursor.expect_end("the bitmap")
    found = len(positions)
    limits.check("max_cardinality", found, cursor, 1)
    for expected, who in ((stated, "stored"), (cardinality, "metadata")):
        if expected not in (None, found):
            raise cursor.error(CardinalityMismatch, "cardinality", at=1, expected=f"{expected} ({who})", actual=found)
    return RowSet(positions)


def encode(rows: RowSet) -> bytes:
    """Encode one bitmap. The descriptors have the bytes of Iceberg Java's encoder, which prefers fewer exceptions.

    Raises:
        UsageError: not a `RowSet`, or a position above 2,097,151: other formats take it.

    >>> encode(RowSet([0, 34, 511])).hex(" ")
    '01 03 00 00 02 00 01 00 01 80 00 22 ff'
    """
    check_rows(rows)
    highest = rows.max
    if highest is None:
        return EMPTY
    if highest >= MAX_POSITIONS:
        raise UsageError(f"position {highest} does not fit a Mumbling bitmap (at most {MAX_POSITIONS - 1})")
    containers = (highest >> 8) + 1
    packed = rows.packed_mask(0, containers << 8).reshape(containers, _DENSE)
    held = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
    dense = held >= _DENSE
    sizes = np.where(dense, _DENSE, held)
    in_dense = np.repeat(dense, sizes)
    out = np.empty(len(in_dense), np.uint8)
    out[in_dense] = _REVERSED[packed[dense]].reshape(-1)
    out[~in_dense] = rows.to_numpy().astype(np.uint8)[np.repeat(~dense, held)]
    header = VERSION.to_bytes(1, "little") + int(held.sum()).to_bytes(3, "little") + containers.to_bytes(2, "little")
    chunks = np.split(sizes.astype(np.uint8), range(_CHUNK, containers, _CHUNK))
    return header + b"".join(map(_encode_chunk, chunks)) + out.tobytes()


def _read_containers(cursor: Cursor, descriptors: Index) -> Index:
    """Read all containers; return their positions, ascending."""
    dense = descriptors >= _DENSE
    sizes = np.minimum(descriptors, _DENSE)
    firsts = np.cumsum(sizes) - sizes
    start = cursor.pos
    data = np.frombuffer(cursor.take(int(sizes.sum()), "containers"), np.uint8)
    in_dense = np.repeat(dense, sizes)
    descends = np.zeros(len(data), np.bool_)
    descends[1:] = data[1:] <= data[:-1]
    descends[firsts[sizes > 0]] = False
    wrong = first_true(descends & ~in_dense)
    if wrong is not None:
        expected = f"above {int(data[wrong - 1])}, the position before"
        raise cursor.error(
            NotCanonical, "sparse container", at=start + wrong, expected=expected, actual=int(data[wrong])
        )
    bits = data[in_dense].reshape(-1, _DENSE)
    held = np.bitwise_count(bits).sum(axis=1)
    wrong = first_true(held < _DENSE)
    if wrong is not None:
        at, actual = start + int(firsts[dense][wrong]), int(held[wrong])
        raise cursor.error(NotCanonical, "dense container", at=at, expected="32 positions or more", actual=actual)
    positions: Index = np.repeat(np.arange(len(sizes)) * _CONTAINER, sizes) | data
    if not dense.any():
        return positions
    mask = np.zeros((len(sizes), _CONTAINER), np.bool_)
    mask[dense] = np.unpackbits(bits, axis=1)
    mask.reshape(-1)[positions[~in_dense]] = True
    return np.flatnonzero(mask)


# ------------------------------------------------------------------ PFOR


def _read_descriptors(cursor: Cursor, count: int) -> Index:
    """Read as many descriptors; the low bits of those of dense containers are ignored."""
    if not count:
        return np.zeros(0, np.int64)
    counts, widths, high_widths, exceptions, least, starts = _read_headers(cursor, count)
    data = np.frombuffer(cursor.view, np.uint8)
    found = _unpack(cursor, data, starts, widths, counts, "descriptors")
    if exceptions.any():
        listed = starts + (widths * counts + 7) // 8
        at = spread(listed, exceptions)
        places = data[at].astype(np.int64)
        owner = np.repeat(np.arange(len(counts)), exceptions)
        invalid = places >= counts[owner]
        invalid[1:] |= (places[1:] <= places[:-1]) & (owner[1:] == owner[:-1])
        wrong = first_true(invalid)
        if wrong is not None:
            expected = f"ascending, below {int(counts[owner][wrong])}"
            raise cursor.error(
                NotCanonical,
                "exception of descriptors",
                at=int(at[wrong]),
                expected=expected,
                actual=int(places[wrong]),
            )
        high = _unpack(cursor, data, listed + exceptions, high_widths, exceptions, "exceptions")
        found[owner * _CHUNK + places] |= high << widths[owner]
    total: Index = found + np.repeat(least, counts)
    wrong = first_true(total >= 2 * _DENSE)
    if wrong is not None:
        at_header, actual = int(starts[wrong // _CHUNK]) - 3, f"{int(total[wrong])} (container {wrong})"
        raise cursor.error(Unsupported, "descriptor", at=at_header, expected="at most 63 in version 1", actual=actual)
    return total


def _read_headers(cursor: Cursor, count: int) -> Index:
    """Read the headers of the chunks of as many descriptors, and pass by what follows each.

    Returns:
        int64[6, chunks]: descriptors, bits of each, bits of an exception, exceptions, least descriptor, and where the
        descriptors begin in the window.
    """
    chunks = []
    for first in range(0, count, _CHUNK):
        held = min(_CHUNK, count - first)
        start = cursor.pos
        widths, exceptions, least = cursor.take(3, "header of a chunk of descriptors")
        low, high = widths & 0xF, widths >> 4
        if low + high > 8 or (low == 8 and exceptions):
            expected = "at most 8 bits together, and no exceptions to 8"
            actual = f"{low} and {high} bits, {exceptions} exceptions"
            raise cursor.error(
                NotCanonical, "widths of a chunk of descriptors", at=start, expected=expected, actual=actual
            )
        chunks.append((held, low, high, exceptions, least, start + 3))
        cursor.take((low * held + 7) // 8 + exceptions + (high * exceptions + 7) // 8, "chunk of descriptors")
    return np.asarray(np.array(chunks, np.int64).reshape(-1, 6).T)


def _unpack(cursor: Cursor, data: Bytes, starts: Index, widths: Index, counts: Index, what: str) -> Index:
    """Read packed values of all chunks.

    Args:
        cursor: the window, for errors.
        data: its bytes.
        starts: where the values of each chunk begin.
        widths: bits of a value, at most 8.
        counts: number of values.
        what: what they are.

    Raises:
        NotCanonical: a chunk's last byte is not padded with zeros.
    """
    data = np.append(data[: int((starts + widths * counts // 8).max()) + 2], np.zeros(2, np.uint8))
    ends = 8 * starts + widths * counts
    spare = -ends & 7
    wrong = first_true((data[ends >> 3] & (1 << spare) - 1) * (spare > 0) > 0)
    if wrong is not None:
        raise cursor.error(NotCanonical, f"padding of {what}", at=int(ends[wrong] >> 3), expected="zeros")
    width = np.repeat(widths, counts)
    rank = spread(np.zeros(len(counts), np.int64), counts)
    bits: Index = np.repeat(8 * starts, counts) + rank * width
    at = bits >> 3
    pairs = data[at].astype(np.int64) << 8 | data[at + 1]
    return np.asarray(pairs >> 16 - (bits & 7) - width & (1 << width) - 1)


def _encode_chunk(descriptors: Bytes) -> bytes:
    """Encode descriptors with the widths that take the fewest bytes; of equals, the one with the fewest exceptions."""
    least = int(descriptors.min())
    values = descriptors - np.uint8(least)
    widest = int(values.max()).bit_length()
    widths = np.arange(widest + 1)
    over = len(values) - np.searchsorted(np.sort(values), 1 << widths)  # values that do not fit each width
    sizes = (widths * len(values) + 7) // 8 + over + ((widest - widths) * over + 7) // 8
    low = widest - int(sizes[::-1].argmin())
    high = widest - low
    exceptions = np.flatnonzero(values >> low)
    header = bytes([high << 4 | low, len(exceptions), least])
    return header + _pack(values, low) + exceptions.astype(np.uint8).tobytes() + _pack(values[exceptions] >> low, high)


def _pack(values: Bytes, width: int) -> bytes:
    """Pack the low bits of values."""
    return np.packbits(np.unpackbits(values.reshape(-1, 1), axis=1)[:, 8 - width :]).tobytes()
