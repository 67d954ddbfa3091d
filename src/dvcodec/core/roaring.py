"""32-bit roaring bitmaps in the portable format: walked and checked without expanding them.

Specification: RoaringFormatSpec, https://github.com/RoaringBitmap/RoaringFormatSpec. All values are little-endian::

    no run container    u32 12346 | u32 n                              n in 0..65536
    with run containers u16 12347 | u16 n - 1 | ceil(n/8) flag bytes    bit i: container i holds runs
    descriptors         n x (u16 key, u16 cardinality - 1)              keys strictly ascending
    offsets             n x u32, from the first cookie byte             absent if there are runs and n < 4
    containers          array   c x u16 ascending                       c <= 4096
                        bitset  8192 bytes, bit v & 7 of byte v >> 3    c > 4096
                        runs    u16 r, r x (u16 start, u16 length - 1)

Libraries differ in what they check; `walk` and `BitmapView.check` together check everything.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from dvcodec.core.bitmap import ARRAY_MAX, BitmapView, ContainerKind, payload_sizes
from dvcodec.core.build import COOKIE_NO_RUNS, COOKIE_RUNS, MAX_CONTAINERS, OFFSETS_FROM, from_sorted
from dvcodec.core.cursor import BytesLike, Cursor, first_true
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated

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
