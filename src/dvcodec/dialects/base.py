"""What the modules of the dialects share: the two functions of each, and portable bitmaps inside wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import DecodeError, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.core.roaring import ARRAY_MAX, BitmapView, ContainerKind, Containers, serialize_containers
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


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Containers that a wrapper stores apart from their descriptors; arrays have one entry per container.

    Attributes:
        keys: high half of the values of a bitmap of 32 bits, or the 48 high bits of values of 64.
        cards: number of values.
        kinds: a `ContainerKind`.
        sizes: bytes of the payload, as in a portable bitmap.
        payload: uint8, the payloads.
    """

    keys: NDArray[np.int64]
    cards: NDArray[np.int64]
    kinds: NDArray[np.int64]
    sizes: NDArray[np.int64]
    payload: NDArray[np.uint8]

    def load(self, cursor: Cursor, limits: Limits) -> RowSet:
        """Build the row set; everything that a portable bitmap must fulfil is checked.

        Raises:
            NotCanonical: keys that do not ascend, a bitset of at most 4,096 values, an array of more, or wrong values.
            LimitExceeded: more values than `limits` allow.
        """
        limits.check("max_cardinality", int(self.cards.sum()), cursor, 0)
        misfit = (self.kinds == ContainerKind.BITSET) != (self.cards > ARRAY_MAX)
        wrong = first_true(misfit & (self.kinds != ContainerKind.RUN))
        if wrong is not None:
            kind = ContainerKind(int(self.kinds[wrong])).name.lower()
            what = f"cardinality of {kind} container {wrong}"
            expected = f"at most {ARRAY_MAX} in arrays, more in bitsets"
            raise cursor.error(NotCanonical, what, at=0, expected=expected, actual=int(self.cards[wrong]))
        highs = self.keys >> 16
        bounds = [0, *(np.flatnonzero(highs[1:] != highs[:-1]) + 1).tolist(), len(highs)]
        ends = np.cumsum(self.sizes)
        bitmaps = {}
        for first, stop in pairwise(bounds):
            part = slice(first, stop)
            payload = self.payload[int(ends[first] - self.sizes[first]) : int(ends[stop - 1])]
            is_run = self.kinds[part] == ContainerKind.RUN
            one = Containers(self.keys[part] & 0xFFFF, self.cards[part], self.sizes[part], is_run, [payload])
            try:
                view = roaring.walk(Cursor(b"".join(serialize_containers([one])), source=cursor.source))
                bitmaps[int(highs[first])] = view.load()
            except DecodeError as error:  # its offset is that in the bytes made here
                raise cursor.error(
                    type(error), error.what, at=0, expected=error.expected, actual=error.actual
                ) from None
        return RowSet.from_bitmaps(bitmaps)


def read_values(cursor: Cursor, count: int, width: int) -> RowSet:
    """Read a list of little-endian integers of a width in bytes."""
    return RowSet(np.frombuffer(cursor.take(count * width, "values"), f"<u{width}").astype(np.uint64))


def write32(rows: RowSet) -> bytes:
    """Encode a portable bitmap of 32 bits."""
    return b"".join(rows.serialized().get(0, [roaring.EMPTY_BITMAP]))


def views_of(rows: RowSet) -> Iterator[tuple[int, BitmapView]]:
    """Return the high half of the values, and the canonical bitmap of 32 bits for each, walked."""
    for high, pieces in rows.serialized().items():
        yield high, roaring.walk(Cursor(b"".join(pieces)))


def write64(rows: RowSet) -> bytes:
    """Encode a portable bitmap of 64 bits, with the keys that have values alone."""
    return b"".join(roaring.pieces_of(rows.serialized(), gap_keys=False))
