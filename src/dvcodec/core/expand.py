"""Expands bitmaps to positions, ranges, masks and counts: all containers of a kind at once.

Runs are not expanded to positions: a run of a million rows becomes one range, or a span of 0xFF bytes. Bitmaps by
key are those of a row set: a key is the high half of the positions in its bitmap; keys ascend, and no bitmap is empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap

from dvcodec.core import roaring
from dvcodec.core.bitmap import BITSET_BYTES, BitmapView, ContainerKind, merge_touching
from dvcodec.core.cursor import Cursor
from dvcodec.core.limits import too_little_memory
from dvcodec.core.ragged import gather

_ALL = np.uint64(2**64 - 1)
_PIECE = 1 << 17
"""Values per step: they fit the CPU caches."""


def ranges_of(view: BitmapView) -> NDArray[np.int64]:
    """Return the maximal ranges ``[start, stop)`` of a 32-bit bitmap, int64[k, 2], ascending."""
    high = view.keys.astype(np.int64) << 16
    runs = view.runs()
    first = runs.starts + high[runs.owner]
    arrays = np.flatnonzero(view.kinds == ContainerKind.ARRAY)
    parts = [np.stack([first, first + runs.lengths], axis=1), _value_ranges(_array_values(view, arrays, high)[0])]
    parts += [
        _bitset_ranges(view, int(i)) + high[i] for i in np.flatnonzero(view.kinds == ContainerKind.BITSET).tolist()
    ]
    ranges = np.concatenate(parts)
    return merge_touching(ranges[np.argsort(ranges[:, 0], kind="stable")])


def _array_values(
    view: BitmapView, chosen: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return the values of array containers, each plus its container's `high`, and separately the low 16 bits."""
    cards = view.cards[chosen]
    low = gather(view.words, view.word_starts[chosen], cards)
    values = np.repeat(high[chosen], cards)
    values += low
    return values, low


def _value_ranges(values: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(values):
        return np.zeros((0, 2), np.int64)
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1] + 1))
    return np.stack([values[begins], values[np.append(begins[1:], len(values)) - 1] + 1], axis=1)


def _bitset_ranges(view: BitmapView, container: int) -> NDArray[np.int64]:
    start = int(view.starts[container])
    bits = np.unpackbits(np.frombuffer(view.data[start : start + BITSET_BYTES], np.uint8), bitorder="little")
    edges = np.flatnonzero(np.diff(bits.view(np.int8), prepend=np.int8(0), append=np.int8(0)))
    return edges.astype(np.int64).reshape(-1, 2)


def pack_into(view: BitmapView, out: NDArray[np.uint8], first: int) -> None:
    """Set the bits of a bitmap's values in `out`: bit ``v & 7`` of byte ``(v >> 3) - first``.

    Args:
        view: the bitmap.
        out: packed bits, least significant first, a multiple of 8 bytes. No bit of the values is set yet.
        first: index of the first byte of `out`, counted from value 0. Values outside of `out` are ignored.
    """
    base = view.keys.astype(np.int64) * BITSET_BYTES - first
    for i in np.flatnonzero(view.kinds == ContainerKind.BITSET).tolist():
        start, to = int(view.starts[i]), int(base[i])
        skip, stop = max(0, -to), min(BITSET_BYTES, len(out) - to)
        if skip < stop:
            bits = np.frombuffer(view.data[start + skip : start + stop], np.uint8)
            np.bitwise_or(out[to + skip : to + stop], bits, out=out[to + skip : to + stop])
    arrays = np.flatnonzero(view.kinds == ContainerKind.ARRAY)
    pieces = np.cumsum(view.cards[arrays]) // _PIECE
    for chosen in np.split(arrays, np.flatnonzero(pieces[1:] != pieces[:-1]) + 1):
        values, low = _array_values(view, chosen, 8 * base)
        values >>= 3
        _add_bits(out, values, np.left_shift(np.uint8(1), low.astype(np.uint8) & np.uint8(7)))
    _set_runs(view, out.view("<u8"), base)


def _add_bits(out: NDArray[Any], where: NDArray[np.int64], bits: NDArray[Any]) -> None:
    """Set bits that are not set yet. Adding them is equivalent, and ten times faster in NumPy."""
    if len(where) and (where[0] < 0 or where[-1] >= len(out)):
        inside = (where >= 0) & (where < len(out))
        where, bits = where[inside], bits[inside]
    np.add.at(out, where, bits)


def _set_runs(view: BitmapView, out: NDArray[np.uint64], base: NDArray[np.int64]) -> None:
    """Set the bits of runs: whole words by repetition, the partial words at both ends by masks."""
    runs = view.runs()
    start = runs.starts + 8 * base[runs.owner]
    stop = np.minimum(start + runs.lengths, 64 * len(out))
    start = np.maximum(start, 0)
    start, stop = start[start < stop], stop[start < stop]
    head, tail = start >> 6, stop >> 6
    below_start, below_stop = (np.left_shift(np.uint64(1), (at & 63).astype(np.uint64)) - 1 for at in (start, stop))
    single = head == tail
    _add_bits(out, head, np.where(single, below_stop, _ALL) - below_start)
    ragged = ~single & (below_stop > 0)
    _add_bits(out, tail[ragged], below_stop[ragged])
    whole = tail > head + 1
    if whole.any():
        bounds = np.stack([head[whole] + 1, tail[whole]], axis=1).ravel()
        fill = np.repeat(np.resize(np.array([_ALL, 0], np.uint64), len(bounds) - 1), np.diff(bounds))
        between = out[bounds[0] : bounds[-1]]
        np.bitwise_or(between, fill, out=between)


Bitmaps: TypeAlias = Mapping[int, AbstractBitMap]
_KEY_ROWS = 1 << 32
_ROWS_AT_ONCE = 1 << 20
"""Values expanded per step."""


def positions(bitmaps: Bitmaps, size: int, dtype: type[Any]) -> NDArray[Any]:
    """Return all positions, ascending; the caller has checked their number, `size`, and that they fit the dtype."""
    if size <= _ROWS_AT_ONCE and list(bitmaps) == [0]:
        return np.frombuffer(bitmaps[0].to_array(), np.uint32).astype(dtype)
    out = np.empty(size, dtype)
    start = 0
    for key, bitmap in bitmaps.items():
        for low in _pieces(bitmap, _ROWS_AT_ONCE):
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
        ranges_of(roaring.walk(Cursor(bitmap.serialize()))).astype(dtype, copy=False) + (key << 32)
        for key, bitmap in bitmaps.items()
    ]
    return merge_touching(np.concatenate(parts)) if parts else np.zeros((0, 2), np.int64)


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
        pack_into(view, out, first - (key << 29))
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
            within[first:last] += [bitmap.rank(edge - base - 1) for edge in edges[first:last]]
    return np.asarray(np.diff(within + np.cumsum(whole[:-1])))


def _zeros(size: int, dtype: type[Any], what: str) -> NDArray[Any]:
    try:
        return np.zeros(size, dtype)
    except (MemoryError, ValueError) as err:  # a size beyond 2**63 is a ValueError
        raise too_little_memory(what, None, err) from None
