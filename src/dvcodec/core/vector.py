"""A stored deletion vector: framed or bare, in any of the three layouts, walked but not expanded.

Shared by all formats, which differ only in magic and metadata. Checks run in this order: length, CRC, magic, structure,
cardinality; array order and bitset population last (`check`, `load`).

Iceberg, Delta and Paimon share the frame, byte for byte::

    offset  bytes  order  content
    0       4      BE     L = 4 + length of the bitmap (without itself and the CRC)
    4       4      raw    magic: the layout of the vector
    8       L - 4  -      bitmap
    4 + L   4      BE     CRC-32 of magic and bitmap

Sources: Iceberg's Puffin specification, blob type deletion-vector-v1; Delta's PROTOCOL.md, "Deletion Vector File
Storage Format"; Paimon's ``BitmapDeletionVector`` and ``Bitmap64DeletionVector``.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from dvcodec.core import roaring
from dvcodec.core.cursor import BytesLike, Cursor, check_crc, crc32
from dvcodec.core.errors import BadMagic, CardinalityMismatch, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits, enough_memory
from dvcodec.core.roaring import MAX_DV_KEY, MAX_DV_POSITION, MIN_BUCKET, BitmapView, Pieces, VectorView
from dvcodec.core.rowset import Loaded, RowSet, check_rows
from dvcodec.core.usage import as_count, check_integer, check_type


@dataclass(frozen=True, slots=True)
class DvLocation:
    """The location of one deletion vector, and what it deletes.

    Attributes:
        format: ``iceberg``, ``mumbling``, ``delta``, ``paimon32`` or ``paimon64``: the format whose metadata
            references it.
        path: the file that holds the vector.
        offset: byte offset of the frame's length field in that file.
        size: bytes of the whole frame: length field, magic, bitmap, CRC. (Delta logs and Paimon 32-bit metadata
            record 8 less.)
        cardinality: number of deleted rows.
        data_file: the data file whose rows these are; None if unknown.
        file_size: bytes of the whole file at `path`, None if unknown.
    """

    format: str
    path: str
    offset: int
    size: int
    cardinality: int
    data_file: str | None = None
    file_size: int | None = None


LENGTH_BYTES = 4
MAGIC_BYTES = 4
CRC_BYTES = 4
FRAME_OVERHEAD = LENGTH_BYTES + MAGIC_BYTES + CRC_BYTES
"""Bytes of a frame around its vector."""
UNCOUNTED = FRAME_OVERHEAD - MAGIC_BYTES
"""Bytes of a frame that Delta's `sizeInBytes` and Paimon's 32-bit `length` leave out: length field and CRC."""
MAX_FRAME = 2**31 - 1
"""Largest frame in bytes: sizes are signed 32-bit values in all three formats."""
BITMAP32 = LENGTH_BYTES + MAGIC_BYTES
"""Bytes of a frame before the bitmap of a 32-bit vector."""
BITMAP64 = BITMAP32 + 12
"""Bytes of a frame before the bitmap of a 64-bit vector with a single one: then count and key."""

_U32BE = struct.Struct(">I")


class Magic(Enum):
    """The four bytes that identify the layout of the vector in a frame."""

    PORTABLE64 = b"\xd1\xd3\x39\x64"
    """64-bit portable roaring: Iceberg, Delta, Paimon 64-bit (1681511377, little-endian)."""
    NATIVE64 = b"\xd0\xd3\x39\x64"
    """Delta's native bitmap array (1681511376, little-endian)."""
    PAIMON32 = b"\x5e\x43\xf2\xd0"
    """32-bit portable roaring: Paimon 32-bit (1581511376, big-endian)."""

    @classmethod
    def find(cls, raw: bytes | memoryview) -> Magic | None:
        """Return the magic with these bytes, or None."""
        return _MAGICS.get(bytes(raw))


_MAGICS: Mapping[bytes, Magic] = {magic.value: magic for magic in Magic}


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One frame: length, CRC and magic are checked, the vector is not yet read."""

    magic: Magic
    vector: Cursor
    """The vector's bytes, without length, magic and CRC."""
    data: memoryview
    """The whole frame."""
    crc: int
    """The stored CRC-32."""


class StoredFrame(NamedTuple):
    """A whole frame, with the metadata that it does not contain."""

    data_file: str | None
    """The data file whose rows these are, None if unknown."""
    cardinality: int
    """Number of deleted rows."""
    data: BytesLike
    """The whole frame."""


def checked_frames(vectors: Iterable[StoredFrame]) -> Iterator[StoredFrame]:
    """Yield frames, each after its types are checked; their bytes are not.

    Raises:
        UsageError: not an iterable of `StoredFrame`, a data file that is not a str, a cardinality that is not a count.
    """
    check_type(vectors, Iterable, "vectors", "an iterable of StoredFrame")
    return map(_checked_frame, vectors)


def _checked_frame(stored: StoredFrame) -> StoredFrame:
    check_type(stored, StoredFrame, "an item of vectors", "a StoredFrame")
    check_type(stored.data_file, (str, type(None)), "StoredFrame.data_file", "a str or None")
    as_count(stored.cardinality, "StoredFrame.cardinality")
    return stored


def peek_size(cursor: Cursor) -> int:
    """Return the size in bytes that the frame at the cursor claims, unchecked. The cursor does not move.

    Raises:
        Truncated: less than 4 bytes are left.
    """
    start = cursor.pos
    length = cursor.u32be("length field")
    cursor.pos = start
    return length + LENGTH_BYTES + CRC_BYTES


def read_frame(cursor: Cursor, *, allowed: tuple[Magic, ...] = tuple(Magic), verify_checksum: bool = True) -> Frame:
    """Read the frame that fills the rest of the window. Length, CRC and magic are checked, in this order.

    Args:
        cursor: at the length field.
        allowed: the magics that the format allows.
        verify_checksum: False skips the CRC (to inspect a damaged vector).

    Raises:
        Truncated: the window ends before the frame does.
        NotCanonical: the stored length is too small, or not that of the window.
        ChecksumMismatch: the CRC differs; expected (stored) and actual (computed) are given in hex.
        BadMagic: not one of `allowed`.
    """
    start = cursor.pos
    length = cursor.u32be("length field")
    if length < MAGIC_BYTES:
        raise cursor.error(
            NotCanonical, "length field", at=start, expected=f"at least {MAGIC_BYTES} bytes", actual=length
        )
    room = cursor.remaining - CRC_BYTES
    if length > room:
        expected = f"at most {max(room, 0)} (bytes left for magic and bitmap)"
        raise cursor.error(Truncated, "length field", at=start, expected=expected, actual=length)
    if length != room:
        expected = f"{room} (bytes of magic and bitmap)"
        raise cursor.error(NotCanonical, "length field", at=start, expected=expected, actual=length)
    body = cursor.take(length, "magic and bitmap")
    crc_pos = cursor.pos
    stored = cursor.u32be("CRC-32")
    if verify_checksum:
        check_crc(cursor, crc_pos, "magic and bitmap", stored, body)
    magic = check_magic(cursor, start + LENGTH_BYTES, bytes(body[:MAGIC_BYTES]), allowed)
    base = cursor.base + start + LENGTH_BYTES + MAGIC_BYTES
    vector = Cursor(body[MAGIC_BYTES:], source=cursor.source, base=base)
    return Frame(magic, vector, cursor.view[start : cursor.pos], stored)


def check_magic(cursor: Cursor, offset: int, raw: bytes, allowed: tuple[Magic, ...]) -> Magic:
    """Return the magic with the bytes `raw`, found at `offset` of the cursor's window.

    Raises:
        BadMagic: not one of `allowed`.
    """
    magic = Magic.find(raw)
    if magic is None or magic not in allowed:
        names = " or ".join(known.value.hex(" ") for known in allowed)
        raise cursor.error(BadMagic, "magic", at=offset, expected=names, actual=raw.hex(" ") or "no bytes")
    return magic


def build(magic: Magic, *vector: bytes | memoryview) -> bytes:
    """Frame a vector, which may come in pieces.

    Raises:
        UsageError: the frame would be larger than 2**31 - 1 bytes.
    """
    size = sum(map(len, vector)) + FRAME_OVERHEAD
    if size > MAX_FRAME:
        raise UsageError(f"the framed vector would have {size} bytes, more than the {MAX_FRAME} that fit")
    crc = crc32(magic.value)
    for piece in vector:
        crc = crc32(piece, crc)
    return b"".join([_U32BE.pack(size - LENGTH_BYTES - CRC_BYTES), magic.value, *vector, _U32BE.pack(crc)])


_NATIVE_GAP = np.frombuffer(struct.pack("<i", len(roaring.EMPTY_BITMAP)) + roaring.EMPTY_BITMAP, "<u4")


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A stored vector, walked.

    Attributes:
        magic: its layout.
        view: its bitmaps and containers.
        frame: its frame; None for a bare vector.
    """

    magic: Magic
    view: VectorView
    frame: Frame | None = None

    @property
    def cardinality(self) -> int:
        """Number of rows, without expanding them."""
        return self.view.cardinality

    def check(self) -> None:
        """Check array order and bitset population.

        Raises:
            NotCanonical: see `BitmapView.check`.
        """
        self.view.check()

    def load(self) -> RowSet:
        """Build the row set; checks array order and bitset population.

        Raises:
            NotCanonical: see `BitmapView.check`.
            LimitExceeded: see `BitmapView.load`.
        """
        return RowSet.from_bitmaps(self.view.load())


def read(
    cursor: Cursor,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    verify_checksum: bool = True,
) -> Vector:
    """Read the framed vector that fills the rest of the window.

    Args:
        cursor: at the frame's length field.
        allowed: magics that the format allows.
        cardinality: rows according to the metadata; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.

    Raises:
        DecodeError: see `read_frame` and `read_payload`.
        UsageError: `limits` is not `Limits`, or `cardinality` not an integer.
    """
    check_limits(limits)
    start = cursor.pos
    limits.check("max_vector_bytes", min(peek_size(cursor), cursor.remaining), cursor, start)
    frame = read_frame(cursor, allowed=allowed, verify_checksum=verify_checksum)
    view = walk(frame.magic, frame.vector, limits)
    check_cardinality(cursor, start, view, cardinality)
    return Vector(frame.magic, view, frame)


def load(
    cursor: Cursor,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    verify_checksum: bool = True,
) -> RowSet:
    """Read the framed vector that fills the rest of the window, and build its row set: `read` and `Vector.load`.

    Raises:
        DecodeError: see `read` and `Vector.load`.
        UsageError: see `read`.
    """
    check_limits(limits)
    start = cursor.pos
    rows = _load_written(cursor.view[start : cursor.end], allowed, limits, verify_checksum=verify_checksum)
    if rows is None:
        return read(cursor, allowed, cardinality, limits, verify_checksum=verify_checksum).load()
    check_cardinality(cursor, start, rows, cardinality)
    return rows


_SINGLE = Magic.PORTABLE64.value + struct.pack("<Q", 1)


def _load_written(
    data: memoryview, allowed: tuple[Magic, ...], limits: Limits, *, verify_checksum: bool
) -> RowSet | None:
    """Return the rows of a frame as most are: one bitmap, of the bytes that CRoaring writes for it; else None.

    All that `read` and `load` check is checked. A fast path: they take 0.1 ms for 1,000 rows, as long as expanding
    100,000, and this a fifth of it.
    """
    key = 0
    if data[LENGTH_BYTES : LENGTH_BYTES + len(_SINGLE)] == _SINGLE and Magic.PORTABLE64 in allowed:
        key, bitmap = int.from_bytes(data[BITMAP64 - 4 : BITMAP64], "little"), data[BITMAP64:-CRC_BYTES]
    elif Magic.find(data[LENGTH_BYTES:BITMAP32]) is Magic.PAIMON32 and Magic.PAIMON32 in allowed:
        bitmap = data[BITMAP32:-CRC_BYTES]
    else:
        return None
    (length,), (crc,) = _U32BE.unpack(data[:LENGTH_BYTES]), _U32BE.unpack(data[-CRC_BYTES:])
    if length != len(data) - UNCOUNTED or len(data) > limits.max_vector_bytes or key > MAX_DV_KEY:
        return None
    if verify_checksum and crc32(data[LENGTH_BYTES:-CRC_BYTES]) != crc:
        return None
    values = roaring.read_written(bitmap)
    return RowSet(Loaded({key: values})) if values and len(values) <= limits.max_cardinality else None


def read_payload(
    cursor: Cursor,
    *,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Vector:
    """Read magic and bitmap, which fill the rest of the window: the body of a frame, or a Delta inline vector.

    Raises:
        Truncated: the window ends first.
        BadMagic: not one of `allowed`.
        NotCanonical: the structure breaks a rule, or bytes follow the vector.
        CardinalityMismatch: the number of rows is not `cardinality`.
        LimitExceeded: see `Limits`.
        UsageError: see `read`.
    """
    check_limits(limits)
    start = cursor.pos
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    magic = check_magic(cursor, start, bytes(cursor.take(MAGIC_BYTES, "magic")), allowed)
    view = walk(magic, cursor, limits)
    check_cardinality(cursor, start, view, cardinality)
    return Vector(magic, view)


def check_count(cardinality: int | None) -> None:
    """Refuse a `cardinality` that a caller passes, unless it is a count or None; that of metadata is not checked here.

    Raises:
        UsageError: it is not an integer, or negative.
    """
    if cardinality is not None:
        as_count(cardinality, "cardinality")


def check_cardinality(cursor: Cursor, offset: int, view: VectorView | RowSet, expected: int | None) -> None:
    """Check the rows of the vector at `offset` of the cursor's window against the metadata; None skips the check.

    Raises:
        CardinalityMismatch: they differ.
        UsageError: `expected` is not an integer.
    """
    if expected is not None and view.cardinality != expected:
        check_integer(expected, "cardinality")  # which is not the file's fault
        raise cursor.error(
            CardinalityMismatch, "cardinality", at=offset, expected=f"{expected} (metadata)", actual=view.cardinality
        )


def walk(magic: Magic, cursor: Cursor, limits: Limits, *, max_key: int = MAX_DV_KEY) -> VectorView:
    """Walk the bare vector that fills the rest of the window.

    Args:
        magic: its layout.
        cursor: at the vector, behind the magic.
        limits: bounds on what the bytes may claim.
        max_key: highest key of a 64-bit portable vector.

    Raises:
        DecodeError: see `roaring.walk64` and `roaring.walk`; or bytes follow the vector.
        LimitExceeded: there is too little memory for its containers.
    """
    with enough_memory("the containers", cursor.source):
        view = _walk(magic, cursor, limits, max_key)
    cursor.expect_end("the bitmap")
    return view


def _walk(magic: Magic, cursor: Cursor, limits: Limits, max_key: int) -> VectorView:
    if magic is Magic.PORTABLE64:
        return roaring.walk64(cursor, limits=limits, max_key=max_key)
    if magic is Magic.NATIVE64:
        return _walk_native(cursor, limits)
    start = cursor.pos
    bitmap = roaring.walk(cursor)
    limits.check("max_cardinality", bitmap.cardinality, cursor, start)
    return VectorView(bitmap.data, ((0, bitmap),) if len(bitmap.keys) else (), 0)


def _walk_native(cursor: Cursor, limits: Limits) -> VectorView:
    """Walk Delta's native array: i32 count, then per bitmap an i32 byte length and the bitmap; the index is the key."""
    start = cursor.pos
    count = cursor.i32le("bitmap count")
    most = cursor.remaining // MIN_BUCKET
    if not 0 <= count <= most:
        expected = f"0 to {most} in {cursor.remaining} bytes"
        raise cursor.error(Truncated, "bitmap count", at=start, expected=expected, actual=count)
    bitmaps: list[tuple[int, BitmapView]] = []
    cardinality = 0
    key = 0
    while (key := key + sum(map(len, roaring.leading_gaps(cursor, count - key, _NATIVE_GAP)))) < count:
        entry = cursor.pos
        size = cursor.i32le("bitmap length")
        if size < 0:
            raise cursor.error(NotCanonical, "bitmap length", at=entry, expected="0 or more", actual=size)
        with cursor.restrict_to(size, f"bitmap {key}"):
            view = roaring.walk(cursor)
        if len(view.keys):
            cardinality += view.cardinality
            limits.check("max_cardinality", cardinality, cursor, entry)
            bitmaps.append((key, view))
        key += 1
    return VectorView(cursor.view[start : cursor.pos], tuple(bitmaps), count - len(bitmaps))


def check_highest(position: int, magic: Magic) -> None:
    """Refuse positions that do not fit a layout, by the highest of them.

    Raises:
        UsageError: it does not fit.
    """
    if magic is Magic.PAIMON32 and position > 2**31 - 1:
        raise UsageError(f"position {position} does not fit a 32-bit vector (at most 2147483647): use 64 bits")
    if position > MAX_DV_POSITION:
        raise UsageError(f"position {position} is above {MAX_DV_POSITION}, the highest in a deletion vector")


def encode_payload(rows: RowSet, magic: Magic, *, run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode the vector that follows `magic` in a frame; see `encode_pieces`.

    Raises:
        UsageError: a position that does not fit the layout, or more than 2**31 - 1 bytes.
    """
    return b"".join(encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))


def encode_pieces(rows: RowSet, magic: Magic, *, run_optimize: bool = True, gap_keys: bool = True) -> Pieces:
    """Encode the vector that follows `magic` in a frame, in pieces, which `build` joins.

    Args:
        rows: the positions.
        magic: the layout.
        run_optimize: see `roaring.serialize`.
        gap_keys: see `roaring.pieces_of`; the native layout always has them, the 32-bit layout never.

    Raises:
        UsageError: not a row set, a position that does not fit the layout, or more than 2**31 - 1 bytes.
    """
    check_rows(rows)
    check_highest(rows.max or 0, magic)
    if magic is Magic.PAIMON32:
        return rows.serialized(run_optimize=run_optimize)[0] if rows else [roaring.EMPTY_BITMAP]
    room = MAX_FRAME - FRAME_OVERHEAD
    parts = rows.serialized(run_optimize=run_optimize)
    if magic is Magic.PORTABLE64:
        return roaring.pieces_of(parts, gap_keys=gap_keys, max_size=room)
    count = max(parts) + 1 if parts else 0
    if count > min(room // MIN_BUCKET, MAX_DV_KEY + 1):
        raise UsageError(f"a native vector up to key {count - 1} would have more than {room} bytes")
    out: Pieces = [struct.pack("<i", count)]
    for last, key in itertools.pairwise([-1, *parts]):
        size = sum(map(len, parts[key]))
        out += [_NATIVE_GAP.tobytes() * (key - last - 1), struct.pack("<i", size), *parts[key]]
    return out
