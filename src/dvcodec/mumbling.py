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

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES, Containers, payload_sizes, serialize_containers
from dvcodec.core.cursor import BytesLike, Cursor, first_true
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Unsupported, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import gather, offsets_of, spread
from dvcodec.core.rowset import RowSet, Stored, check_rows
from dvcodec.core.vector import check_count

__all__ = ["MAX_POSITIONS", "decode", "encode"]

VERSION = 1
HEADER_BYTES = 6
MAX_CONTAINERS = 8192
MAX_POSITIONS = MAX_CONTAINERS * 256
"""Positions that a bitmap can have: 0 .. 2,097,151."""
MAX_BYTES = 1 << 19
"""More bytes than a bitmap can have: a header, and for each container its descriptor and at most 32 bytes."""
EMPTY = VERSION.to_bytes(HEADER_BYTES, "little")
"""The bitmap without positions."""

_CONTAINER = 256
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
    containers, found = _read_containers(cursor, _read_descriptors(cursor, count))
    cursor.expect_end("the bitmap")
    limits.check("max_cardinality", found, cursor, 1)
    for expected, who in ((stated, "stored"), (cardinality, "metadata")):
        if expected not in (None, found):
            raise cursor.error(CardinalityMismatch, "cardinality", at=1, expected=f"{expected} ({who})", actual=found)
    if not found:
        return RowSet()
    data = b"".join(serialize_containers(containers))
    return RowSet(Stored((memoryview(data), 0, 0, len(data))))


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
    return header + _encode_descriptors(sizes.astype(np.uint8)) + out.tobytes()


def _read_containers(cursor: Cursor, descriptors: NDArray[np.uint8]) -> tuple[list[Containers], int]:
    """Read all containers; return those of a roaring bitmap with the same positions, and the number of positions."""
    dense = descriptors >= _DENSE
    is_mixed = bool(dense.any())
    sizes = (np.minimum(descriptors, _DENSE) if is_mixed else descriptors).astype(np.int64)
    start = cursor.pos
    ends = np.add.accumulate(sizes)
    data = np.frombuffer(cursor.take(int(ends[-1]) if len(ends) else 0, "containers"), np.uint8)
    in_dense = np.repeat(dense, sizes) if is_mixed else np.zeros(1, np.bool_)
    descends = np.empty(len(data), np.bool_)
    np.less_equal(data[1:], data[:-1], out=descends[1:])
    descends[(ends - sizes)[sizes > 0]] = False
    wrong = first_true(descends & ~in_dense if is_mixed else descends)
    if wrong is not None:
        expected = f"above {int(data[wrong - 1])}, the position before"
        raise cursor.error(
            NotCanonical, "sparse container", at=start + wrong, expected=expected, actual=int(data[wrong])
        )
    held = sizes
    if is_mixed:
        held = sizes.copy()
        words = data[in_dense].view(np.uint64).reshape(-1, _DENSE // 8)
        held[dense] = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        wrong = first_true(held[dense] < _DENSE)
        if wrong is not None:
            at, actual = start + int((ends - sizes)[dense][wrong]), int(held[dense][wrong])
            raise cursor.error(NotCanonical, "dense container", at=at, expected="32 positions or more", actual=actual)
    return _as_roaring(_Read(np.arange(len(sizes)), data, sizes, dense, held))


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Containers as they are stored; arrays have one entry per container.

    Attributes:
        number: of the container in the bitmap.
        data: uint8, the bytes of all.
        sizes: bytes of each.
        dense: whether it is dense.
        held: its positions.
    """

    number: NDArray[np.int64]
    data: NDArray[np.uint8]
    sizes: NDArray[np.int64]
    dense: NDArray[np.bool_]
    held: NDArray[np.int64]

    def some(self, chosen: NDArray[np.bool_]) -> _Read:
        """Return some of them."""
        data = self.data[np.repeat(chosen, self.sizes)]
        return _Read(self.number[chosen], data, self.sizes[chosen], self.dense[chosen], self.held[chosen])

    def split(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the bytes of sparse containers, and those of dense ones as rows."""
        in_dense = np.repeat(self.dense, self.sizes)
        return self.data[~in_dense], self.data[in_dense].reshape(-1, _DENSE)

    def low_halves(self) -> NDArray[np.uint16]:
        """Return the low 16 bits of all positions."""
        values = np.repeat((self.number << 8).astype("<u2"), self.held)
        if not self.dense.any():
            values |= self.data
            return values
        sparse, rows = self.split()
        low = np.tile(np.arange(256, dtype=np.uint8), len(rows))[np.unpackbits(rows).view(np.bool_)]
        if len(sparse):
            are_dense = np.repeat(self.dense, self.held)
            all_low = np.empty(len(values), np.uint8)
            all_low[are_dense] = low
            all_low[~are_dense] = sparse
            low = all_low
        values |= low
        return values

    def bitsets(self, keys: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the positions of 256 containers each, of the keys given, as bits: uint8[keys, 8192]."""
        place = np.searchsorted(keys, self.number >> 8) << 8 | self.number & 0xFF
        sparse, rows = self.split()
        held = self.held[~self.dense]
        bits = np.zeros((len(held), 256), np.bool_)
        bits.reshape(-1)[np.repeat(np.arange(len(held)) << 8, held) | sparse] = True
        packed = np.zeros((len(keys) << 8, _DENSE), np.uint8)
        packed[place[~self.dense]] = np.packbits(bits, axis=1, bitorder="little")
        packed[place[self.dense]] = _REVERSED[rows]
        return packed.reshape(len(keys), -1)


def _as_roaring(read: _Read) -> tuple[list[Containers], int]:
    """Return roaring's containers, each of which takes the place of 256, and the number of all positions."""
    if not len(read.number):
        return [], 0
    all_cards = np.add.reduceat(read.held, np.arange(0, len(read.held), 256))
    keys = np.flatnonzero(all_cards)
    cards = all_cards[keys]
    as_bits = cards > ARRAY_MAX
    bitsets = np.zeros((0, BITSET_BYTES), np.uint8)
    if as_bits.any():
        chosen = np.repeat(all_cards > ARRAY_MAX, 256)[: len(read.number)]
        bitsets = read.some(chosen).bitsets(keys[as_bits])
        read = read.some(~chosen)
    values = read.low_halves()
    ends = offsets_of(np.where(as_bits, 0, cards))
    before = offsets_of(as_bits)
    cuts = [0, *(np.flatnonzero(as_bits[1:] != as_bits[:-1]) + 1).tolist(), len(keys)]
    payload: list[NDArray[Any]] = [
        bitsets[before[first] : before[stop]] if as_bits[first] else values[ends[first] : ends[stop]]
        for first, stop in pairwise(cuts)
        if first < stop
    ]
    is_run = np.zeros(len(keys), np.bool_)
    return [Containers(keys, cards, payload_sizes(cards), is_run, payload)], int(cards.sum())


# ------------------------------------------------------------------ PFOR


def _read_descriptors(cursor: Cursor, count: int) -> NDArray[np.uint8]:
    """Read as many descriptors; the low bits of those of dense containers are ignored."""
    counts, widths, high_widths, exceptions, least, starts = _read_headers(cursor, count)
    data = np.frombuffer(cursor.view, np.uint8)
    found = _unpack_chunks(cursor, data, starts, widths, counts)
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
        found[owner * _CHUNK + places] |= (high << widths[owner]).astype(np.uint8)
    total = found + np.repeat(least, counts)  # more than a byte if it is corrupt
    wrong = first_true(total >= 2 * _DENSE)
    if wrong is not None:
        at_header, actual = int(starts[wrong // _CHUNK]) - 3, f"{int(total[wrong])} (container {wrong})"
        raise cursor.error(Unsupported, "descriptor", at=at_header, expected="at most 63 in version 1", actual=actual)
    return np.asarray(total, np.uint8)


def _read_headers(cursor: Cursor, count: int) -> NDArray[np.int64]:
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


def _unpack_chunks(
    cursor: Cursor,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    widths: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.uint8]:
    """Read the low bits of all descriptors; full chunks of one width at once: 8 values are that many whole bytes."""
    if not len(counts):
        return np.zeros(0, np.uint8)
    out = np.zeros((len(counts), _CHUNK), np.uint8)
    full = counts == _CHUNK
    for width in sorted(set(widths[full].tolist()) - {0}):
        chosen = full & (widths == width)
        packed = gather(data, starts[chosen], widths[chosen] * (_CHUNK // 8)).reshape(-1, width)
        words = np.zeros((len(packed), 8), np.uint8)
        words[:, :width] = packed
        values = words.view(">u8").astype(np.uint64) >> (64 - width * np.arange(1, 9)).astype(np.uint64)
        out[chosen] = (values & np.uint64((1 << width) - 1)).reshape(-1, _CHUNK)
    if not full[-1]:  # no other is shorter
        last = slice(len(counts) - 1, None)
        out[-1, : counts[-1]] = _unpack(cursor, data, starts[last], widths[last], counts[last], "descriptors")
    return out.reshape(-1)[: int(counts.sum())]


def _unpack(
    cursor: Cursor,
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    widths: NDArray[np.int64],
    counts: NDArray[np.int64],
    what: str,
) -> NDArray[np.int64]:
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
    bits: NDArray[np.int64] = np.repeat(8 * starts, counts) + rank * width
    at = bits >> 3
    pairs = data[at].astype(np.int64) << 8 | data[at + 1]
    return np.asarray(pairs >> 16 - (bits & 7) - width & (1 << width) - 1)


def _encode_descriptors(descriptors: NDArray[np.uint8]) -> bytes:
    """Encode descriptors with the widths that take the fewest bytes; of equals, the one with the fewest exceptions."""
    return b"".join(_encode_chunk(descriptors[at : at + _CHUNK]) for at in range(0, len(descriptors), _CHUNK))


def _encode_chunk(descriptors: NDArray[np.uint8]) -> bytes:
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


def _pack(values: NDArray[np.uint8], width: int) -> bytes:
    """Pack the low bits of values."""
    return np.packbits(np.unpackbits(values.reshape(-1, 1), axis=1)[:, 8 - width :]).tobytes()
