"""What the modules of the dialects share: the two functions of each, and portable bitmaps inside wrappers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from pyroaring import FrozenBitMap

from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet

ReadBitmap: TypeAlias = Callable[[Cursor, Limits], FrozenBitMap]
"""A function that reads a bitmap of 32 bits."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a system stores a bitmap.

    Attributes:
        read: reads the bitmap, and nothing after it; raises a `DecodeError` for what is wrong in its bytes.
        write: encodes values, none of which is above `highest`.
        highest: the highest value that fits.
    """

    read: Callable[[Cursor, Limits], RowSet]
    write: Callable[[RowSet], bytes]
    highest: int = 2**64 - 1


def read_bitmap(cursor: Cursor, limits: Limits) -> FrozenBitMap:
    """Read a portable bitmap of 32 bits."""
    start = cursor.pos
    view = roaring.walk(cursor)
    limits.check("max_cardinality", view.cardinality, cursor, start)
    return view.load()


def rows_of(bitmap: FrozenBitMap) -> RowSet:
    """Return the values of a bitmap of 32 bits."""
    return RowSet.from_bitmaps({0: bitmap} if bitmap else {})


def read32(cursor: Cursor, limits: Limits) -> RowSet:
    """Read a portable bitmap of 32 bits."""
    return rows_of(read_bitmap(cursor, limits))


def read64(cursor: Cursor, limits: Limits) -> RowSet:
    """Read a portable bitmap of 64 bits."""
    return RowSet.from_bitmaps(roaring.walk64(cursor, limits=limits, max_key=roaring.MAX_KEY).load())


def read_map(
    cursor: Cursor, count: int, limits: Limits, read_key: Callable[[Cursor], int], read_one: ReadBitmap
) -> RowSet:
    """Read as many bitmaps, each after its key, the high half of its values; keys may be in any order.

    Raises:
        NotCanonical: a key is there twice.
    """
    found: dict[int, FrozenBitMap] = {}
    total = 0
    for _ in range(count):
        at = cursor.pos
        key = read_key(cursor)
        if key in found:
            raise cursor.error(NotCanonical, "key", at=at, expected="each key once", actual=key)
        found[key] = read_one(cursor, limits)
        total += len(found[key])
        limits.check("max_cardinality", total, cursor, at)
    return RowSet.from_bitmaps({key: found[key] for key in sorted(found) if found[key]})


def read_values(cursor: Cursor, count: int, width: int) -> RowSet:
    """Read a list of little-endian integers of a width in bytes."""
    return RowSet(np.frombuffer(cursor.take(count * width, "values"), f"<u{width}").astype(np.uint64))


def write32(rows: RowSet) -> bytes:
    """Encode a portable bitmap of 32 bits."""
    return b"".join(rows.serialized().get(0, [roaring.EMPTY_BITMAP]))


def write64(rows: RowSet) -> bytes:
    """Encode a portable bitmap of 64 bits, with the keys that have values alone."""
    return b"".join(roaring.pieces_of(rows.serialized(), gap_keys=False))
