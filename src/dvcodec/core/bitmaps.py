"""Many small serialized bitmaps at once: an index has one a term, and most hold a handful of values.

Bitmaps of array containers only are read and written together, in a few NumPy passes over all of them. What is not so
plain goes through `roaring.walk`, one by one: it holds thousands of values, or it is wrong, and `walk` says how.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from dvcodec.core.bitmap import ARRAY_MAX
from dvcodec.core.build import COOKIE_NO_RUNS, COOKIE_RUNS, from_sorted
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import Truncated
from dvcodec.core.ragged import ByteStrings, gather, offsets_of, spread, sums
from dvcodec.core.roaring import walk
from dvcodec.core.scattered import put, u16, u32
from dvcodec.core.varints import bytes_of

__all__ = ["cardinalities", "expand", "serialize"]

Index = NDArray[np.int64]
_HEADER = 8
"""Bytes of cookie and container count."""
_CONTAINER_HEADER = 8
"""Bytes of a container's descriptor and offset."""
_BLOCK = 1 << 16


def cardinalities(cursor: Cursor, starts: Index, sizes: Index) -> Index:
    """Return how many values the descriptors of each bitmap announce: int64[n].

    Args:
        cursor: a window that holds the bitmaps.
        starts: int64[n], where each begins in the window.
        sizes: int64[n], bytes of each; they lie inside.

    Raises:
        Truncated: the bytes end in the descriptors.
        NotCanonical: no roaring cookie, or more than 65,536 containers.
    """
    data = bytes_of(cursor)
    short = np.flatnonzero(sizes < _HEADER)
    if len(short):
        at = int(starts[short[0]])
        raise cursor.error(Truncated, "roaring bitmap", at=at, expected="8 bytes", actual=int(sizes[short[0]]))
    cookies = u32(data, starts)
    runs = (cookies & 0xFFFF) == COOKIE_RUNS
    counts = np.where(runs, (cookies >> 16) + 1, u32(data, starts + 4))
    headers = np.where(runs, 4 + (counts + 7) // 8, _HEADER)
    bad = np.flatnonzero((~runs & (cookies != COOKIE_NO_RUNS)) | (counts > _BLOCK) | (headers + 4 * counts > sizes))
    if len(bad):
        _explain(cursor, int(starts[bad[0]]), int(sizes[bad[0]]))
    cards = u16(data, spread(starts + headers, 4 * counts)[2::4]) + 1
    return sums(cards, counts)


def _explain(cursor: Cursor, start: int, size: int) -> AbstractBitMap:
    """Read one bitmap by itself: it comes out right, or the error says what is wrong with it."""
    window = Cursor(cursor.view[start : start + size], source=cursor.source, base=cursor.base + start)
    view = walk(window)
    window.expect_end("the bitmap")
    return view.load()


def expand(cursor: Cursor, starts: Index, sizes: Index) -> tuple[NDArray[np.uint32], Index]:
    """Read the values of many bitmaps.

    Args:
        cursor: a window that holds them.
        starts: int64[n], where each begins in the window.
        sizes: int64[n], bytes of each; they lie inside, and are used up exactly.

    Returns:
        uint32 values, ascending in each bitmap, one bitmap behind the other; and int64[n] values of each.
        Their number is what `cardinalities` says: bound it before.

    Raises:
        DecodeError: as `roaring.walk` and `BitmapView.load`.
    """
    data = bytes_of(cursor)
    plain = np.flatnonzero(sizes >= _HEADER + _CONTAINER_HEADER)
    plain = plain[u32(data, starts[plain]) == COOKIE_NO_RUNS]
    counts = u32(data, starts[plain] + 4)
    fits = (counts > 0) & (counts <= _BLOCK) & (_HEADER + _CONTAINER_HEADER * counts <= sizes[plain])
    plain, counts = plain[fits], counts[fits]
    values, cards, sound = _expand_plain(data, starts[plain], sizes[plain], counts)
    if len(plain) == len(starts) and sound.all():
        return values, cards
    of_each = np.zeros(len(starts), np.int64)
    of_each[plain[sound]] = cards
    by_itself = np.ones(len(starts), np.bool_)
    by_itself[plain[sound]] = False
    others = {int(i): _explain(cursor, int(starts[i]), int(sizes[i])) for i in np.flatnonzero(by_itself)}
    for i, bitmap in others.items():
        of_each[i] = len(bitmap)
    bounds = offsets_of(of_each)
    out = np.empty(int(bounds[-1]), np.uint32)
    out[spread(bounds[plain[sound]], cards)] = values
    for i, bitmap in others.items():
        out[bounds[i] : bounds[i + 1]] = np.frombuffer(bitmap.to_array(), np.uint32)
    return out, of_each


def _expand_plain(
    data: NDArray[np.uint8], starts: Index, sizes: Index, counts: Index
) -> tuple[NDArray[np.uint32], Index, NDArray[np.bool_]]:
    """Expand those that hold nothing but sound array containers; the last result tells which those are."""
    descriptors = spread(starts + _HEADER, 4 * counts)[::4]
    keys, cards = u16(data, descriptors), u16(data, descriptors + 2) + 1
    owner = np.repeat(np.arange(len(starts)), counts)
    total = sums(cards, counts)
    sound = _HEADER + _CONTAINER_HEADER * counts + 2 * total == sizes
    wrong = cards > ARRAY_MAX
    before = np.cumsum(2 * cards) - 2 * cards
    first = offsets_of(counts)[:-1]
    offsets = _HEADER + _CONTAINER_HEADER * counts[owner] + before - before[first][owner]
    wrong |= u32(data, spread(starts + _HEADER + 4 * counts, 4 * counts)[::4]) != offsets
    wrong[1:] |= (keys[1:] <= keys[:-1]) & (owner[1:] == owner[:-1])
    sound[owner[wrong]] = False
    total, keep = total[sound], sound[owner]
    begins = starts[sound] + _HEADER + _CONTAINER_HEADER * counts[sound]
    low = gather(data, begins, 2 * total).view("<u2") if len(total) else np.zeros(0, np.uint16)
    values = np.repeat(keys[keep] << 16, cards[keep]).astype(np.uint32) | low
    bounds = offsets_of(total)
    descents = np.flatnonzero(values[1:] <= values[:-1]) + 1
    if len(descents):
        inside = np.ones(len(values) + 1, np.bool_)
        inside[bounds] = False  # between two bitmaps the values may descend
        broken = descents[inside[descents]]
        if len(broken):
            bad = np.unique(np.searchsorted(bounds, broken, side="right") - 1)
            chosen = np.ones(len(total), np.bool_)
            chosen[bad] = False
            values = values[np.repeat(chosen, total)]
            sound[np.flatnonzero(sound)[bad]] = False
            total = total[chosen]
    return values, total, sound


def serialize(values: NDArray[Any], counts: Index) -> ByteStrings:
    """Serialize many bitmaps as Go's ``roaring`` does after adding their values one by one.

    That is without runs, except for a container of all 65,536 values, which is one run.

    Args:
        values: below 2**32, strictly ascending in each bitmap, one bitmap behind the other.
        counts: int64[n], values of each; none is empty.
    """
    values = np.asarray(values, np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    blocks = values >> 16
    heads = np.flatnonzero(np.diff(blocks, prepend=-1) | np.diff(owner, prepend=-1))
    cards = np.diff(heads, append=len(values))
    containers = np.bincount(owner[heads], minlength=len(counts))
    large = np.unique(owner[heads[cards > ARRAY_MAX]])
    header = _HEADER + _CONTAINER_HEADER * containers
    lengths = header + 2 * np.asarray(counts, np.int64)
    place = offsets_of(counts)
    alone = {i: _serialize_large(values[place[i] : place[i + 1]]) for i in large.tolist()}
    for i, data in alone.items():
        lengths[i] = len(data)
    bounds = offsets_of(lengths)
    out = np.empty(int(bounds[-1]), np.uint8)
    plain = np.ones(len(counts), np.bool_)
    plain[large] = False
    begins, n = bounds[:-1][plain], containers[plain]
    put(out, begins, COOKIE_NO_RUNS, 4)
    put(out, begins + 4, n, 4)
    chosen = plain[owner[heads]]
    keys, cards = blocks[heads][chosen], cards[chosen]
    put(out, spread(begins + _HEADER, 4 * n)[::4], keys | (cards - 1) << 16, 4)
    before = np.cumsum(2 * cards) - 2 * cards
    mine = np.repeat(np.arange(len(n)), n)
    offsets = header[plain][mine] + before - before[offsets_of(n)[:-1]][mine]
    put(out, spread(begins + _HEADER + 4 * n, 4 * n)[::4], offsets, 4)
    payload = (values[plain[owner]] & 0xFFFF).astype("<u2").view(np.uint8)
    out[spread(bounds[:-1][plain] + header[plain], 2 * np.asarray(counts)[plain])] = payload
    for i, data in alone.items():
        out[bounds[i] : bounds[i + 1]] = np.frombuffer(data, np.uint8)
    return ByteStrings(bounds, out)


def _serialize_large(values: Index) -> bytes:
    blocks, counts = np.unique(values >> 16, return_counts=True)
    full = blocks[counts == _BLOCK]
    bitmap = BitMap(from_sorted(values[~np.isin(values >> 16, full)].astype(np.uint32)), optimize=False)
    for block in full.tolist():
        bitmap.add_range(block << 16, (block + 1) << 16)
    return bitmap.serialize()
