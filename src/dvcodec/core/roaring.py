"""Roaring bitmaps in the portable formats of 32 and 64 bits, walked and checked without expanding them.

Specification: RoaringFormatSpec, https://github.com/RoaringBitmap/RoaringFormatSpec. All values are little-endian::

    no run container    u32 12346 | u32 n                              n in 0..65536
    with run containers u16 12347 | u16 n - 1 | ceil(n/8) flag bytes    bit i: container i holds runs
    descriptors         n x (u16 key, u16 cardinality - 1)              keys strictly ascending
    offsets             n x u32, from the first cookie byte             absent if there are runs and n < 4
    containers          array   c x u16 ascending                       c <= 4096
                        bitset  8192 bytes, bit v & 7 of byte v >> 3    c > 4096
                        runs    u16 r, r x (u16 start, u16 length - 1)

Libraries differ in what they check; `walk` and `BitmapView.check` together check everything.

Positions of 64 bits have the format of "Extension for 64-bit implementations"::

    u64 count | count x ( u32 key | one complete 32-bit bitmap )      keys ascending, unsigned, distinct

`key` is the high half of the row positions in the bitmap that follows. There are no lengths: only
walking the bitmap finds the next key. Java's deletion vectors have every key from 0 to the highest; keys without rows
("gap keys") have the 8-byte empty bitmap.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap, FrozenBitMap

from dvcodec.core.bitmap import (
    ARRAY_MAX,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    MAX_CONTAINERS,
    OFFSETS_FROM,
    BitmapView,
    ContainerKind,
    ContainerMix,
    Pieces,
    from_sorted,
    payload_sizes,
)
from dvcodec.core.cursor import BytesLike, Cursor, first_true
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits

EMPTY_BITMAP = COOKIE_NO_RUNS.to_bytes(4, "little") + bytes(4)
"""The only valid encoding of the empty bitmap, 8 bytes."""
_SOME_VALUES = 1 << 22
"""Values that are expanded at a time."""


def walk(cursor: Cursor) -> BitmapView:
    """Walk one bitmap at the cursor and move past it; nothing is expanded.

    Checked: cookie, container count, flag padding, a run cookie without runs, key order, the offset table, payloads
    within the window, and all runs (see `BitmapView.check_runs`). Not checked: array order and bitset population
    (`BitmapView.check` or `load`).

    Raises:
        Truncated: the window ends first.
        BadMagic: not a roaring cookie.
        NotCanonical: the structure breaks a rule of the specification.
    """
    start = cursor.pos
    count, is_run = _read_cookie(cursor)
    if not count:
        none = np.zeros(0, np.int64)
        empty = cursor.view[start : cursor.pos]
        return BitmapView(empty, none.astype(np.uint16), none, none.astype(np.uint8), none, none)
    descriptors_pos = cursor.pos
    descriptors = np.frombuffer(cursor.take(4 * count, "roaring descriptors"), "<u2").reshape(count, 2)
    keys, cards = descriptors[:, 0], descriptors[:, 1].astype(np.int64) + 1
    if (i := first_true(keys[1:] <= keys[:-1])) is not None:
        raise cursor.error(
            NotCanonical,
            "container keys not strictly ascending",
            at=descriptors_pos + 4 * (i + 1),
            expected=f"a key above {keys[i]}",
            actual=keys[i + 1],
        )
    table_pos, table = cursor.pos, None
    if is_run is None or count >= OFFSETS_FROM:
        table = np.frombuffer(cursor.take(4 * count, "roaring offset table"), "<u4").astype(np.int64)
    header = cursor.pos - start
    sizes = payload_sizes(cards)
    if is_run is not None:
        sizes = _with_run_sizes(cursor, start, header, sizes, is_run, table)
    ends = header + np.cumsum(sizes)
    starts = ends - sizes
    if table is not None:
        offsets = table
        # From the first container beyond the window on, `take` reports the error.
        if (i := first_true((offsets != starts) & (starts <= cursor.end - start))) is not None:
            raise cursor.error(
                NotCanonical, f"offset of container {i}", at=table_pos + 4 * i, expected=starts[i], actual=offsets[i]
            )
    cursor.take(int(ends[-1]) - header, "roaring containers")
    kinds = (cards > ARRAY_MAX).astype(np.uint8)
    if is_run is not None:
        kinds[is_run] = ContainerKind.RUN
    data = cursor.view[start : cursor.pos]
    view = BitmapView(data, keys, cards, kinds, starts, sizes, cursor.source, cursor.base + start)
    view.check_runs()
    return view


def _read_cookie(cursor: Cursor) -> tuple[int, NDArray[np.bool_] | None]:
    """Return the container count and, if the cookie announces runs, which containers have them."""
    start = cursor.pos
    cookie = cursor.u32le("roaring cookie")
    if cookie == COOKIE_NO_RUNS:
        count = cursor.u32le("roaring container count")
        if count > MAX_CONTAINERS:
            raise cursor.error(
                NotCanonical, "container count", at=start + 4, expected=f"at most {MAX_CONTAINERS}", actual=count
            )
        return count, None
    if cookie & 0xFFFF != COOKIE_RUNS:
        raise cursor.error(
            BadMagic, "roaring cookie", at=start, expected=f"{COOKIE_NO_RUNS} or {COOKIE_RUNS}", actual=f"{cookie:#x}"
        )
    count = (cookie >> 16) + 1
    flags_pos = cursor.pos
    flags = np.frombuffer(cursor.take((count + 7) // 8, "run flags"), np.uint8)
    bits = np.unpackbits(flags, bitorder="little").view(np.bool_)
    if bits[count:].any():
        raise cursor.error(
            NotCanonical,
            "padding bits of the run flags",
            at=flags_pos + len(flags) - 1,
            expected="0 bits",
            actual=f"{int(flags[-1]):#04x}",
        )
    if not bits.any():
        # Valid roaring, but Iceberg and Delta in Java re-serialize to find the next bitmap, and then miss it.
        raise cursor.error(NotCanonical, "run cookie without a run container", at=start)
    return count, bits[:count]


def _with_run_sizes(
    cursor: Cursor,
    start: int,
    header: int,
    sizes: NDArray[np.int64],
    is_run: NDArray[np.bool_],
    table: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Fill in the payload sizes of run containers: 2 + 4 r bytes, where r is the first word of the payload.

    With an offset table, all r are read at once, by its offsets; `walk` then compares the table with the sizes. Without
    one there are at most three containers.
    """
    sizes = sizes.copy()
    window = np.frombuffer(cursor.view[start : cursor.end], np.uint8)
    if table is not None:
        # An offset outside the window is either corrupt, or the window is too short: `walk` reports which.
        hints = np.minimum(table[is_run], len(window) - 2)
        sizes[is_run] = 2 + 4 * (window[hints].astype(np.int64) | window[hints + 1].astype(np.int64) << 8)
        return sizes
    pos = header
    for i in range(len(sizes)):
        if is_run[i]:
            if pos + 2 > len(window):
                raise cursor.error(Truncated, "roaring containers", at=start + pos, expected="2 bytes")
            sizes[i] = 2 + 4 * (int(window[pos]) | int(window[pos + 1]) << 8)
        pos += int(sizes[i])
    return sizes


_WRITTEN_AGAIN = 1 << 20
"""Bytes up to which building and writing a bitmap takes less time than walking it."""


def read_written(data: memoryview) -> FrozenBitMap | None:
    """Build a bitmap whose bytes are those that CRoaring writes for it; None for all others, which `walk` judges.

    CRoaring checks sizes, keys, array order, runs and populations. What it does not compare (cookie, padding, offset
    table, the cardinalities of runs) it writes itself, so the same bytes are what `walk` and `load` accept. Those take
    six times as long for run containers, and for few values.
    """
    if not 0 < len(data) <= _WRITTEN_AGAIN:  # pyroaring takes no empty buffer
        return None
    try:
        bitmap = FrozenBitMap.deserialize(data)  # type: ignore[arg-type]  # takes any buffer
    except ValueError:
        return None
    written = bitmap.serialize()
    # `startswith` compares with a view in one call, where `==` takes them apart by the byte.
    return bitmap if len(written) == len(data) and written.startswith(data) else None


def serialize(bitmap: AbstractBitMap, *, run_optimize: bool = True) -> bytes:
    """Serialize a bitmap in a form that depends only on its values.

    Args:
        bitmap: any 32-bit bitmap; not modified.
        run_optimize: True gives the bytes of Java's ``RoaringBitmap``: values added one by one, then
            ``runOptimize()``, then ``serialize()``. False gives no run container, like roaring-rs
            without ``optimize()`` and CRoaring without ``run_optimize``.
    """
    if not run_optimize:
        return _without_runs(bitmap).serialize()
    copy = BitMap(bitmap, optimize=False)
    copy.run_optimize()
    data = copy.serialize()
    if data.startswith(EMPTY_BITMAP[:4]):  # no run container
        return data
    ties = _tied_runs(data)
    if not len(ties):
        return data
    span = BitMap()
    for key in ties.tolist():
        span.add_range(key << 16, (key + 1) << 16)
    tied = copy & span
    copy -= span
    copy |= from_sorted(np.frombuffer(tied.to_array(), np.uint32))
    return copy.serialize()


def _without_runs(bitmap: AbstractBitMap) -> AbstractBitMap:
    """Return the values in array and bitset containers, expanded a few at a time: a run of four bytes has 65,536."""
    cuts = [bitmap[i] >> 16 << 16 for i in range(_SOME_VALUES, len(bitmap), _SOME_VALUES)]  # between containers
    if not cuts:
        return from_sorted(np.frombuffer(bitmap.to_array(), np.uint32))
    ranges = itertools.pairwise([0, *cuts, bitmap.max() + 1])
    parts = (bitmap & BitMap(range(start, stop)) for start, stop in ranges)
    return BitMap().union(*(from_sorted(np.frombuffer(part.to_array(), np.uint32)) for part in parts))


def _tied_runs(data: BytesLike) -> NDArray[np.uint16]:
    """Return the keys of run containers whose array form has the same size.

    Java turns an array of c values into r runs only if 2c > 2 + 4r; at a tie (c = 2r + 1), both Java and CRoaring keep
    the container that was there before.
    """
    view = walk(Cursor(data))
    counts = (view.sizes - 2) >> 2
    tied = (view.kinds == ContainerKind.RUN) & (view.cards <= 2 * counts + 1)
    return np.asarray(view.keys[tied])


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
