"""Many small serialized bitmaps at once, as in the postings of an index: one per term, most with a few values.

Bitmaps with only array containers are read and written together, in a few NumPy passes over all of them. Others, large
or corrupt, fall back to `roaring.walk`, one at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from dvcodec.core.bitmap import ARRAY_MAX, COOKIE_NO_RUNS, COOKIE_RUNS, MAX_CONTAINERS, from_sorted
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import Truncated
from dvcodec.core.ragged import ByteStrings, Index, gather, merge_pieces, offsets_of, put, spread, sums, u16, u32
from dvcodec.core.roaring import walk
from dvcodec.core.varints import bytes_of

MIN_BITMAP = 8
"""Bytes of the smallest bitmap."""


class Heads(NamedTuple):
    """One entry per bitmap.

    Attributes:
        valid: bool[n], whether cookie and container count are valid.
        has_runs: bool[n], whether the cookie announces run containers.
        counts: int64[n], number of containers.
        descriptors: int64[n], offset of the descriptors in the bitmap.
    """

    valid: NDArray[np.bool_]
    has_runs: NDArray[np.bool_]
    counts: NDArray[np.int64]
    descriptors: NDArray[np.int64]


def read_heads(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> Heads:
    """Read the heads at the offsets `starts` of `data`; each must have `MIN_BITMAP` bytes (not checked)."""
    cookies = u32(data, starts)
    has_runs = (cookies & 0xFFFF) == COOKIE_RUNS
    counts = np.where(has_runs, (cookies >> 16) + 1, u32(data, starts + 4))
    valid = (has_runs | (cookies == COOKIE_NO_RUNS)) & (counts <= MAX_CONTAINERS)
    return Heads(valid, has_runs, counts, np.where(has_runs, 4 + (counts + 7) // 8, MIN_BITMAP))


_CONTAINER_HEADER = 8
"""Bytes of a container's descriptor and offset."""


def cardinalities(cursor: Cursor, starts: Index, sizes: Index) -> Index:
    """Return the cardinality of each bitmap, from its descriptors: int64[n].

    Args:
        cursor: a window with the bitmaps.
        starts: int64[n], offset of each in the window.
        sizes: int64[n], bytes of each, within the window.

    Raises:
        Truncated: a bitmap ends in its descriptors.
        BadMagic: not a roaring cookie.
        NotCanonical: more than 65,536 containers.
    """
    data = bytes_of(cursor)
    if (i := first_true(sizes < MIN_BITMAP)) is not None:
        raise cursor.error(Truncated, "roaring bitmap", at=starts[i], expected=f"{MIN_BITMAP} bytes", actual=sizes[i])
    heads = read_heads(data, starts)
    if (i := first_true(~heads.valid | (heads.descriptors + 4 * heads.counts > sizes))) is not None:
        _read_one(cursor, starts[i], sizes[i])
    cards = u16(data, spread(starts + heads.descriptors, 4 * heads.counts)[2::4]) + 1
    return sums(cards, heads.counts)


def _read_one(cursor: Cursor, start: int, size: int) -> AbstractBitMap:
    """Read a single bitmap, or raise its error."""
    window = Cursor(cursor.view[start : start + size], source=cursor.source, base=cursor.base + start)
    view = walk(window)
    window.expect_end("the bitmap")
    return view.load()


def expand(cursor: Cursor, starts: Index, sizes: Index) -> tuple[NDArray[np.uint32], Index]:
    """Read the values of many bitmaps.

    Args:
        cursor: a window with the bitmaps.
        starts: int64[n], offset of each in the window.
        sizes: int64[n], bytes of each, within the window; a bitmap must fill them exactly.

    Returns:
        uint32, the values of all bitmaps one after the other, ascending in each; and int64[n], the number of values of
        each. The total is not bounded here: check `cardinalities` first.

    Raises:
        DecodeError: see `roaring.walk` and `BitmapView.load`.
    """
    data = bytes_of(cursor)
    plain = np.flatnonzero(sizes >= MIN_BITMAP + _CONTAINER_HEADER)
    plain = plain[u32(data, starts[plain]) == COOKIE_NO_RUNS]
    counts = u32(data, starts[plain] + 4)
    fits = (counts > 0) & (counts <= MAX_CONTAINERS) & (MIN_BITMAP + _CONTAINER_HEADER * counts <= sizes[plain])
    plain, counts = plain[fits], counts[fits]
    values, cards, valid = _expand_arrays(data, starts[plain], sizes[plain], counts)
    if len(plain) == len(starts) and valid.all():
        return values, cards
    together = plain[valid]
    cardinality = np.zeros(len(starts), np.int64)
    cardinality[together] = cards
    others = np.setdiff1d(np.arange(len(starts)), together).tolist()
    bitmaps = {i: _read_one(cursor, int(starts[i]), int(sizes[i])) for i in others}
    for i, bitmap in bitmaps.items():
        cardinality[i] = len(bitmap)
    arrays = ((i, np.frombuffer(bitmap.to_array(), np.uint32)) for i, bitmap in bitmaps.items())
    return merge_pieces(cardinality, values, arrays), cardinality


def _expand_arrays(
    data: NDArray[np.uint8], starts: Index, sizes: Index, counts: Index
) -> tuple[NDArray[np.uint32], Index, NDArray[np.bool_]]:
    """Expand the bitmaps with only valid array containers; the last result is the mask of these bitmaps."""
    descriptors = spread(starts + MIN_BITMAP, 4 * counts)[::4]
    keys, cards = u16(data, descriptors), u16(data, descriptors + 2) + 1
    owner = np.repeat(np.arange(len(starts)), counts)
    total = sums(cards, counts)
    header = MIN_BITMAP + _CONTAINER_HEADER * counts
    valid = header + 2 * total == sizes
    wrong = cards > ARRAY_MAX
    before = np.cumsum(2 * cards) - 2 * cards
    first = offsets_of(counts)[:-1]
    offsets = header[owner] + before - before[first][owner]
    wrong |= u32(data, spread(starts + MIN_BITMAP + 4 * counts, 4 * counts)[::4]) != offsets
    wrong[1:] |= (keys[1:] <= keys[:-1]) & (owner[1:] == owner[:-1])
    valid[owner[wrong]] = False
    total, keep = total[valid], valid[owner]
    begins = (starts + header)[valid]
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
            valid[np.flatnonzero(valid)[bad]] = False
            total = total[chosen]
    return values, total, valid


def serialize(values: NDArray[Any], counts: Index) -> ByteStrings:
    """Serialize many bitmaps as Go's ``roaring`` does after adding their values one by one.

    That is without runs, except for a container of all 65,536 values, which is one run.

    Args:
        values: the values of all bitmaps one after the other, below 2**32, strictly ascending in each.
        counts: int64[n], number of values of each, at least 1.
    """
    values = np.asarray(values, np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    blocks = values >> 16
    heads = np.flatnonzero(np.diff(blocks, prepend=-1) | np.diff(owner, prepend=-1))
    cards = np.diff(heads, append=len(values))
    containers = np.bincount(owner[heads], minlength=len(counts))
    large = np.unique(owner[heads[cards > ARRAY_MAX]])
    header = MIN_BITMAP + _CONTAINER_HEADER * containers
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
    put(out, spread(begins + MIN_BITMAP, 4 * n)[::4], keys | (cards - 1) << 16, 4)
    before = np.cumsum(2 * cards) - 2 * cards
    mine = np.repeat(np.arange(len(n)), n)
    offsets = header[plain][mine] + before - before[offsets_of(n)[:-1]][mine]
    put(out, spread(begins + MIN_BITMAP + 4 * n, 4 * n)[::4], offsets, 4)
    payload = (values[plain[owner]] & 0xFFFF).astype("<u2").view(np.uint8)
    out[spread(bounds[:-1][plain] + header[plain], 2 * np.asarray(counts)[plain])] = payload
    for i, data in alone.items():
        out[bounds[i] : bounds[i + 1]] = np.frombuffer(data, np.uint8)
    return ByteStrings(bounds, out)


def _serialize_large(values: Index) -> bytes:
    blocks, counts = np.unique(values >> 16, return_counts=True)
    full = blocks[counts == 1 << 16]
    bitmap = BitMap(from_sorted(values[~np.isin(values >> 16, full)].astype(np.uint32)), optimize=False)
    for block in full.tolist():
        bitmap.add_range(block << 16, (block + 1) << 16)
    return bitmap.serialize()
