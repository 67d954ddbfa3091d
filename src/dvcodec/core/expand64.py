"""Positions, ranges, masks and counts of a row set, from its bitmaps by key; `expand` does the same for one bitmap.

A key is the high half of the positions in its bitmap; keys ascend, and no bitmap is empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from dvcodec.core import build, expand, roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import too_little_memory

Bitmaps: TypeAlias = Mapping[int, AbstractBitMap]
_KEY_ROWS = 1 << 32
_PIECE = 1 << 20
"""Values expanded per step."""
_FEW_EDGES = 256
"""Most edges that are ranked one by one, each in time proportional to the containers. One pass over the bytes of a
bitmap takes as long as 20 edges of many short containers, and as 1,000 edges of bitsets."""


def positions(bitmaps: Bitmaps, size: int, dtype: type[Any]) -> NDArray[Any]:
    """Return all positions, ascending; the caller has checked their number, `size`, and that they fit the dtype."""
    out = np.empty(size, dtype)
    start = 0
    for key, bitmap in bitmaps.items():
        for low in _pieces(bitmap, _PIECE):
            piece = out[start : start + len(low)]
            piece[:] = low
            if key:
                piece += dtype(key << 32)
            start += len(low)
    return out


def chunks(bitmaps: Bitmaps, rows: int, dtype: type[Any]) -> Iterator[NDArray[Any]]:
    """Yield all positions, ascending, at most `rows` at a time; all must fit the dtype."""
    for key, bitmap in bitmaps.items():
        for low in _pieces(bitmap, rows):
            yield low + dtype(key << 32)


def _pieces(bitmap: AbstractBitMap, rows: int) -> Iterator[NDArray[np.uint32]]:
    """Yield the values of a bitmap, `rows` at a time: small pieces stay in the CPU caches."""
    if len(bitmap) <= rows:
        yield np.frombuffer(bitmap.to_array(), np.uint32)
        return
    starts = [bitmap[i] for i in range(0, len(bitmap), rows)]
    for start, stop in pairwise([*starts, bitmap.max() + 1]):
        yield np.frombuffer((bitmap & BitMap(range(start, stop))).to_array(), np.uint32)


def ranges(bitmaps: Bitmaps, dtype: type[Any]) -> NDArray[Any]:
    """Return the maximal ranges ``[start, stop)``, ascending, as dtype[k, 2]; all must fit it."""
    parts = [
        expand.ranges_of(roaring.walk(Cursor(bitmap.serialize()))).astype(dtype, copy=False) + (key << 32)
        for key, bitmap in bitmaps.items()
    ]
    return build.merge_touching(np.concatenate(parts)) if parts else np.zeros((0, 2), np.int64)


def packed_mask(bitmaps: Bitmaps, start: int, stop: int) -> NDArray[np.uint8]:
    """Return the positions in ``[start, stop)`` as bits, least significant first; bit 0 is position ``start & ~7``.

    The result ends with the byte of the last position, zero-padded to a multiple of 8 bytes.

    Raises:
        LimitExceeded: there is too little memory for it.
    """
    first = start >> 3
    size = ((stop + 7) >> 3) - first
    out = _zeros((size + 7) & ~7, np.uint8, "the mask")
    for key, bitmap in _within(bitmaps, start, stop):
        view = roaring.walk(Cursor(bitmap.serialize()))
        expand.pack_into(view, out, first - (key << 29))
    return out


def _within(bitmaps: Bitmaps, start: int, stop: int) -> Iterator[tuple[int, AbstractBitMap]]:
    """Yield the bitmaps with positions in ``[start, stop)``, cut to that range."""
    for key, bitmap in bitmaps.items():
        base = key << 32
        lo, hi = max(start - base, 0), min(stop - base, _KEY_ROWS)
        if lo >= hi:
            continue
        if lo <= bitmap.min() and bitmap.max() < hi:
            yield key, bitmap
        else:
            cut = bitmap & BitMap(range(lo, hi))
            if cut:
                yield key, cut


def count(bitmaps: Bitmaps, start: int, stop: int) -> int:
    """Return the number of positions in ``[start, stop)``."""
    total = 0
    for key, bitmap in bitmaps.items():
        lo, hi = max(start - (key << 32), 0), min(stop - (key << 32), _KEY_ROWS)
        total += bitmap.range_cardinality(lo, hi) if lo < hi else 0
    return total


def histogram(bitmaps: Bitmaps, stop: int, bins: int) -> NDArray[np.int64]:
    """Count positions in `bins` equal slices of ``[0, stop)``: int64[bins].

    Raises:
        LimitExceeded: there is too little memory for them.
    """
    within = _zeros(bins + 1, np.int64, "the bins")  # positions before an edge, in a bitmap that the edge divides
    whole = _zeros(bins + 2, np.int64, "the bins")  # positions of bitmaps, at the first edge not before their end
    edges = [stop * i // bins for i in range(bins + 1)]
    for key, bitmap in bitmaps.items():
        base = key << 32
        first, last = bisect_right(edges, base), bisect_left(edges, base + _KEY_ROWS)
        whole[last] += len(bitmap)
        if first < last:
            within[first:last] += _ranks(bitmap, [edge - base for edge in edges[first:last]])
    return np.asarray(np.diff(within + np.cumsum(whole[:-1])))


def _ranks(bitmap: AbstractBitMap, edges: list[int]) -> NDArray[np.int64]:
    """Return how many values of a bitmap are below each edge; edges ascend from 1 or more."""
    if len(edges) <= _FEW_EDGES:
        return np.array([bitmap.rank(edge - 1) for edge in edges], np.int64)
    return expand.ranks_of(roaring.walk(Cursor(bitmap.serialize())), np.array(edges, np.int64))


def _zeros(size: int, dtype: type[Any], what: str) -> NDArray[Any]:
    try:
        return np.zeros(size, dtype)
    except (MemoryError, ValueError) as err:  # a size beyond 2**63 is a ValueError
        raise too_little_memory(what, None, err) from None
