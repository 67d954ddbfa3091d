"""From serialized containers to ranges and packed masks, all containers of a kind at once.

Neither goes through positions one by one: a run of a million rows is two numbers in the one and a
span of 0xFF bytes in the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import BITSET_BYTES, BitmapView, ContainerKind
from dvcodec.core.build import merge_touching

__all__ = ["pack_into", "ranges_of"]


def ranges_of(view: BitmapView) -> NDArray[np.int64]:
    """Return the maximal ranges ``[start, stop)`` of a 32-bit bitmap, int64[k, 2], ascending."""
    high = view.keys.astype(np.int64) << 16
    runs = view.runs()
    first = runs.starts + high[runs.owner]
    parts = [np.stack([first, first + runs.lengths], axis=1), _array_ranges(view, high)]
    parts += [
        _bitset_ranges(view, int(i)) + high[i] for i in np.flatnonzero(view.kinds == ContainerKind.BITSET).tolist()
    ]
    ranges = np.concatenate(parts)
    return merge_touching(ranges[np.argsort(ranges[:, 0], kind="stable")])


def _payload_values(view: BitmapView) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gather the values of all array containers: (value within the container, index of the container)."""
    chosen = np.flatnonzero(view.kinds == ContainerKind.ARRAY)
    cards = view.cards[chosen]
    owner = np.repeat(chosen, cards)
    before = np.cumsum(cards) - cards
    index = np.arange(len(owner), dtype=np.int64) + np.repeat(view.word_starts[chosen] - before, cards)
    return view.words[index].astype(np.int64), owner


def _array_ranges(view: BitmapView, high: NDArray[np.int64]) -> NDArray[np.int64]:
    low, owner = _payload_values(view)
    values = low + high[owner]
    if not len(values):
        return np.zeros((0, 2), np.int64)
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1] + 1))
    return np.stack([values[begins], values[np.append(begins[1:], len(values)) - 1] + 1], axis=1)


def _bitset_ranges(view: BitmapView, container: int) -> NDArray[np.int64]:
    at = int(view.starts[container])
    bits = np.unpackbits(np.frombuffer(view.data[at : at + BITSET_BYTES], np.uint8), bitorder="little")
    edges = np.flatnonzero(np.diff(bits.view(np.int8), prepend=np.int8(0), append=np.int8(0)))
    return edges.astype(np.int64).reshape(-1, 2)


def pack_into(view: BitmapView, out: NDArray[np.uint8], first: int) -> None:
    """Set the bits of a bitmap's values in `out`: bit ``v & 7`` of byte ``(v >> 3) - first``.

    Args:
        view: the bitmap.
        out: packed bits, least significant first, to be set; others are left.
        first: the byte, counted from value 0, that `out` begins with. Values outside of `out` are ignored.
    """
    # Containers are laid out whole in a frame of their own where they stick out of `out`.
    base = (view.keys.astype(np.int64) * BITSET_BYTES) - first
    for i in np.flatnonzero(view.kinds == ContainerKind.BITSET).tolist():
        at, to = int(view.starts[i]), int(base[i])
        skip, stop = max(0, -to), min(BITSET_BYTES, len(out) - to)
        if skip < stop:
            bits = np.frombuffer(view.data[at + skip : at + stop], np.uint8)
            np.bitwise_or(out[to + skip : to + stop], bits, out=out[to + skip : to + stop])
    low, owner = _payload_values(view)
    _set_bits(out, (low >> 3) + base[owner], np.left_shift(1, low & 7).astype(np.uint8))
    _set_runs(view, out, base)


def _set_bits(out: NDArray[np.uint8], where: NDArray[np.int64], bits: NDArray[np.uint8]) -> None:
    if len(where) and (where[0] < 0 or where[-1] >= len(out)):
        inside = (where >= 0) & (where < len(out))
        where, bits = where[inside], bits[inside]
    np.bitwise_or.at(out, where, bits)


def _set_runs(view: BitmapView, out: NDArray[np.uint8], base: NDArray[np.int64]) -> None:
    """Set whole runs: the bytes between a run's ends by one running sum, its two ragged ends by masks."""
    runs = view.runs()
    if not len(runs.starts):
        return
    start = runs.starts + 8 * base[runs.owner]
    stop = np.minimum(start + runs.lengths, 8 * len(out))
    start = np.maximum(start, 0)
    start, stop = start[start < stop], stop[start < stop]
    head, tail = start >> 3, stop >> 3
    head_bits = (0xFF << (start & 7)) & 0xFF
    tail_bits = (1 << (stop & 7)) - 1
    single = head == tail
    _set_bits(out, head, np.where(single, head_bits & tail_bits, head_bits).astype(np.uint8))
    _set_bits(out, tail[~single & (tail_bits > 0)], tail_bits[~single & (tail_bits > 0)].astype(np.uint8))
    whole = tail > head + 1
    if not whole.any():
        return
    head, tail = head[whole] + 1, tail[whole]
    lo, hi = int(head[0]), int(tail[-1])
    # Runs are disjoint, so each begin and each end is a byte of its own: plain assignment is enough.
    depth = np.zeros(hi - lo + 1, np.int8)
    depth[head - lo] += 1
    depth[tail - lo] -= 1
    np.bitwise_or(out[lo:hi], np.negative(np.cumsum(depth[:-1], dtype=np.int8)).view(np.uint8), out=out[lo:hi])
