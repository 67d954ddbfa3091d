"""64-bit roaring bitmaps in the portable format, walked bitmap by bitmap.

Specification: RoaringFormatSpec, "Extension for 64-bit implementations". Little-endian throughout::

    u64 count | count x ( u32 key | one complete 32-bit bitmap )      keys ascending, unsigned, distinct

`key` is the high half of the row positions in the bitmap that follows. There are no lengths: only
walking the bitmap finds the next key. Java's deletion vectors have every key from 0 to the highest; keys without rows
("gap keys") have the 8-byte empty bitmap.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from pyroaring import FrozenBitMap

from dvcodec.core.bitmap import BitmapView, ContainerMix
from dvcodec.core.build import Pieces
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.roaring import EMPTY_BITMAP, walk

MAX_KEY = 2**32 - 1
"""Highest key in the 64-bit format."""
MAX_DV_KEY = 2**31 - 2
"""Highest key of a deletion vector (Iceberg ``RoaringPositionBitmap.MAX_POSITION``, Delta's ``RoaringBitmapArray``)."""
MAX_DV_POSITION = MAX_DV_KEY << 32 | 1 << 31
"""Highest row position of a deletion vector, 0x7ffffffe80000000 (from the same constants)."""
MIN_BUCKET = 12
"""Bytes of the smallest bucket: a key and the empty bitmap."""

_GAP = np.frombuffer(EMPTY_BITMAP, "<u4")


@dataclass(frozen=True, slots=True, eq=False)
class VectorView:
    """A serialized 64-bit bitmap, walked but not expanded.

    Attributes:
        data: exactly the vector's bytes.
        bitmaps: (key, bitmap) of every non-empty bitmap, ascending.
        gaps: number of keys with the empty bitmap.
    """

    data: memoryview
    bitmaps: tuple[tuple[int, BitmapView], ...]
    gaps: int

    @property
    def cardinality(self) -> int:
        """Number of rows."""
        return sum(view.cardinality for _, view in self.bitmaps)

    @property
    def min(self) -> int | None:
        """Lowest position, None if the vector is empty.

        Raises:
            NotCanonical: see `BitmapView.min`.
        """
        return None if not self.bitmaps else self.bitmaps[0][0] << 32 | (self.bitmaps[0][1].min or 0)

    @property
    def max(self) -> int | None:
        """Highest position, None if the vector is empty.

        Raises:
            NotCanonical: see `BitmapView.max`.
        """
        return None if not self.bitmaps else self.bitmaps[-1][0] << 32 | (self.bitmaps[-1][1].max or 0)

    @property
    def mix(self) -> ContainerMix:
        """How many containers of each kind."""
        mix = ContainerMix()
        for _, view in self.bitmaps:
            mix = mix.plus(view.mix)
        return mix

    def check(self) -> None:
        """Check what `walk64` does not: array order and bitset population.

        Raises:
            NotCanonical: see `BitmapView.check`.
        """
        for _, view in self.bitmaps:
            view.check()

    def load(self) -> dict[int, FrozenBitMap]:
        """Build one bitmap per key; checks array order and bitset population.

        Raises:
            NotCanonical: see `BitmapView.check`.
        """
        return {key: view.load() for key, view in self.bitmaps}


def walk64(cursor: Cursor, *, limits: Limits = DEFAULT_LIMITS, max_key: int = MAX_DV_KEY) -> VectorView:
    """Walk a 64-bit bitmap at the cursor and move past it.

    Checked: the count against the remaining bytes, key order and range, every bitmap (see `roaring.walk`), and
    `limits`. Not checked: array order and bitset population (`VectorView.check`), bytes after the vector.

    Raises:
        Truncated: the window ends first, or is too short for the announced number of bitmaps.
        NotCanonical: keys out of order or range, or a bitmap that breaks its rules.
        LimitExceeded: more rows than `limits` allow.
    """
    start = cursor.pos
    count = cursor.u64le("bitmap count")
    if count > MAX_KEY:
        raise cursor.error(NotCanonical, "bitmap count", at=start, expected=f"at most {MAX_KEY}", actual=count)
    most = cursor.remaining // MIN_BUCKET
    if count > most:
        expected = f"at most {most} in {cursor.remaining} bytes"
        raise cursor.error(Truncated, "bitmap count", at=start, expected=expected, actual=count)
    bitmaps: list[tuple[int, BitmapView]] = []
    left, last, cardinality = count, -1, 0
    while left:
        if cursor.view[cursor.pos + 4 : min(cursor.pos + 12, cursor.end)] == EMPTY_BITMAP:
            gaps, last = _skip_gaps(cursor, left, last, max_key)
            left -= gaps
            continue
        bucket = cursor.pos
        key = cursor.u32le("bitmap key")
        if key <= last or key > max_key:
            raise _key_error(cursor, bucket, key, last, max_key)
        view = walk(cursor)
        cardinality += view.cardinality
        limits.check("max_cardinality", cardinality, cursor, bucket)
        bitmaps.append((key, view))
        left, last = left - 1, key
    return VectorView(cursor.view[start : cursor.pos], tuple(bitmaps), count - len(bitmaps))


def _key_error(cursor: Cursor, offset: int, key: int, last: int, max_key: int) -> NotCanonical:
    """Return the error for a key that is not above `last`, or above `max_key`."""
    if key <= last:
        return cursor.error(
            NotCanonical, "bitmap keys not strictly ascending", at=offset, expected=f"a key above {last}", actual=key
        )
    return cursor.error(NotCanonical, "bitmap key", at=offset, expected=f"at most {max_key:#x}", actual=f"{key:#x}")


def _skip_gaps(cursor: Cursor, left: int, last: int, max_key: int) -> tuple[int, int]:
    """Skip consecutive gap keys in vectorised steps; return their number and the last key.

    A vector of 2 GiB may have over a hundred million of them: one at a time would take minutes.
    """
    total, step = 0, 16
    while total < left:
        size = min(step, left - total, cursor.remaining // MIN_BUCKET)
        records = np.frombuffer(cursor.view[cursor.pos : cursor.pos + size * MIN_BUCKET], "<u4").reshape(size, 3)
        others = np.flatnonzero((records[:, 1] != _GAP[0]) | (records[:, 2] != _GAP[1]))
        gaps = int(others[0]) if len(others) else size
        keys = records[:gaps, 0].astype(np.int64)
        if (i := first_true((np.diff(keys, prepend=last) <= 0) | (keys > max_key))) is not None:
            before = keys[i - 1] if i else last
            raise _key_error(cursor, cursor.pos + i * MIN_BUCKET, keys[i], before, max_key)
        cursor.pos += gaps * MIN_BUCKET
        total += gaps
        last = int(keys[-1]) if gaps else last
        if gaps < size or not size:
            break
        step = min(step * 8, 1 << 20)
    return total, last


def encoded_size(sizes: dict[int, int], gap_keys: bool) -> int:
    """Return the bytes of the encoded vector; `sizes` has the bytes of each key's serialized bitmap."""
    size = 8 + sum(4 + size for size in sizes.values())
    gaps = max(sizes) + 1 - len(sizes) if sizes and gap_keys else 0
    return size + gaps * MIN_BUCKET


def pieces_of(parts: dict[int, Pieces], *, gap_keys: bool = True, max_size: int = 2**31 - 1) -> Pieces:
    """Encode a 64-bit bitmap, in pieces.

    Args:
        parts: high half of the positions -> serialized bitmap of the low halves, see `RowSet.serialized`; keys ascend.
        gap_keys: True writes every key from 0 to the highest, the missing ones as empty bitmaps (Java's
            deletion vectors); False writes only keys with rows (roaring-rs, CRoaring, ``Roaring64NavigableMap``).
        max_size: upper bound on the bytes of the vector.

    Raises:
        UsageError: the vector would be larger than `max_size` bytes.
    """
    sizes = {key: sum(map(len, pieces)) for key, pieces in parts.items()}
    size = encoded_size(sizes, gap_keys)
    if size > max_size:
        hint = ""
        if gap_keys and encoded_size(sizes, gap_keys=False) <= max_size:
            hint = f": the gap keys below key {max(parts)} take most of it, gap_keys=False omits them"
        raise UsageError(f"the encoded vector would have {size} bytes, more than the {max_size} that fit{hint}")
    count = max(parts) + 1 if parts and gap_keys else len(parts)
    out: Pieces = [struct.pack("<Q", count)]
    for last, key in pairwise([-1, *parts]):
        if gap_keys and key > last + 1:
            out.append(_gap_records(last + 1, key))
        out += (struct.pack("<I", key), *parts[key])
    return out


def _gap_records(first: int, stop: int) -> memoryview:
    records = np.empty((stop - first, 3), "<u4")
    records[:, 0] = np.arange(first, stop)
    records[:, 1:] = _GAP
    return records.data.cast("B")
