"""A stored deletion vector: framed or bare, in any of the three layouts, walked but not expanded.

Shared by all formats, which differ only in magic and metadata. Checks run in this order: length, CRC, magic, structure,
cardinality; array order and bitset population last (`check`, `load`).
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass

import numpy as np

from dvcodec.core import frame as framing
from dvcodec.core import roaring, roaring64
from dvcodec.core.bitmap import BitmapView
from dvcodec.core.build import Pieces
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import CardinalityMismatch, NotCanonical, Truncated, UsageError
from dvcodec.core.frame import MAGIC_BYTES, Frame, Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits, too_little_memory
from dvcodec.core.roaring64 import MAX_DV_KEY, MAX_DV_POSITION, MIN_BUCKET, VectorView
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_integer
from dvcodec.core.vector_arguments import check_rows

_MIN_NATIVE = 12
"""Bytes of the smallest entry of a native array: an i32 length and the empty bitmap."""
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
        DecodeError: see `frame.read` and `read_payload`.
        UsageError: `limits` is not `Limits`, or `cardinality` not an integer.
    """
    check_limits(limits)
    start = cursor.pos
    limits.check("max_vector_bytes", min(framing.peek_size(cursor), cursor.remaining), cursor, start)
    frame = framing.read(cursor, allowed=allowed, verify_checksum=verify_checksum)
    view = walk(frame.magic, frame.vector, limits)
    check_cardinality(cursor, start, view, cardinality)
    return Vector(frame.magic, view, frame)


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
    magic = framing.check_magic(cursor, start, bytes(cursor.take(MAGIC_BYTES, "magic")), allowed)
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


def check_cardinality(cursor: Cursor, offset: int, view: VectorView, expected: int | None) -> None:
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
        DecodeError: see `roaring64.walk64` and `roaring.walk`; or bytes follow the vector.
        LimitExceeded: there is too little memory for its containers.
    """
    try:
        view = _walk(magic, cursor, limits, max_key)
    except MemoryError as err:
        raise too_little_memory("the containers", cursor.source, err) from None
    cursor.expect_end("the bitmap")
    return view


def _walk(magic: Magic, cursor: Cursor, limits: Limits, max_key: int) -> VectorView:
    if magic is Magic.PORTABLE64:
        return roaring64.walk64(cursor, limits=limits, max_key=max_key)
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
    most = cursor.remaining // _MIN_NATIVE
    if not 0 <= count <= most:
        expected = f"0 to {most} in {cursor.remaining} bytes"
        raise cursor.error(Truncated, "bitmap count", at=start, expected=expected, actual=count)
    bitmaps: list[tuple[int, BitmapView]] = []
    cardinality = 0
    key = 0
    while (key := key + _skip_native_gaps(cursor, count - key)) < count:
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


def _skip_native_gaps(cursor: Cursor, left: int) -> int:
    """Skip consecutive empty bitmaps, in growing steps; return their number, at most `left`."""
    total, size = 0, 1
    while size:
        size = min(8 * size, left - total, cursor.remaining // _MIN_NATIVE)
        records = np.frombuffer(cursor.view[cursor.pos : cursor.pos + size * _MIN_NATIVE], _NATIVE_GAP.dtype)
        others = np.flatnonzero((records.reshape(size, 3) != _NATIVE_GAP).any(axis=1))
        gaps = int(others[0]) if len(others) else size
        cursor.pos += gaps * _MIN_NATIVE
        total += gaps
        if gaps < size:
            break
    return total


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
    """Encode the vector that follows `magic` in a frame, in pieces, which `frame.build` joins.

    Args:
        rows: the positions.
        magic: the layout.
        run_optimize: see `roaring.serialize`.
        gap_keys: see `roaring64.pieces_of`; the native layout always has them, the 32-bit layout never.

    Raises:
        UsageError: not a row set, a position that does not fit the layout, or more than 2**31 - 1 bytes.
    """
    check_rows(rows)
    check_highest(rows.max or 0, magic)
    if magic is Magic.PAIMON32:
        return rows.serialized(run_optimize=run_optimize)[0] if rows else [roaring.EMPTY_BITMAP]
    room = framing.MAX_FRAME - framing.FRAME_OVERHEAD
    parts = rows.serialized(run_optimize=run_optimize)
    if magic is Magic.PORTABLE64:
        return roaring64.pieces_of(parts, gap_keys=gap_keys, max_size=room)
    count = max(parts) + 1 if parts else 0
    if count > min(room // MIN_BUCKET, MAX_DV_KEY + 1):
        raise UsageError(f"a native vector up to key {count - 1} would have more than {room} bytes")
    out: Pieces = [struct.pack("<i", count)]
    for last, key in itertools.pairwise([-1, *parts]):
        size = sum(map(len, parts[key]))
        out += [_NATIVE_GAP.tobytes() * (key - last - 1), struct.pack("<i", size), *parts[key]]
    return out
