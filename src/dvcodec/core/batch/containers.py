"""A table of the containers of many serialized 32-bit bitmaps, to check and expand them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import BITSET_BYTES, ContainerKind
from dvcodec.core.gather_scatter import u16, words_at
from dvcodec.core.ragged import Bytes, Flags, Index, offsets_of, spread, sums

__all__ = ["ContainerTable"]

_BLOCK = 1 << 16


def _are_dense(starts: Index, stops: Index) -> bool:
    """Whether arrays of words are in file order, at even distances, and fill much of the bytes they span."""
    in_order = bool((starts[1:] >= stops[:-1]).all()) and not bool((starts - starts[0] & 1).any())
    return in_order and int(stops[-1] - starts[0]) <= 4 * int((stops - starts).sum())


@dataclass(frozen=True, slots=True, eq=False)
class ContainerTable:
    """The containers of the valid ones among n bitmaps, one entry per container.

    Attributes:
        valid: bool[n], whether the bitmap is valid; only valid ones have entries.
        counts: int64[n], containers of each bitmap.
        owner: int64[c], index of the bitmap, ascending.
        keys: int64[c], high half of the container's values.
        cards: int64[c], number of values.
        kinds: uint8[c], a `ContainerKind`.
        starts: int64[c], offset of the payload in the buffer.
        sizes: int64[c], bytes of the payload.
    """

    valid: Flags
    counts: Index
    owner: Index
    keys: Index
    cards: Index
    kinds: NDArray[np.uint8]
    starts: Index
    sizes: Index

    def without(self, bad: Flags) -> ContainerTable:
        """Return the table without the entries of `bad` bitmaps: bool[n]."""
        if not bad.any():
            return self
        keep = ~bad[self.owner]
        columns = (getattr(self, name)[keep] for name in self.__slots__[2:])
        return ContainerTable(self.valid & ~bad, np.where(bad, 0, self.counts), *columns)

    def of(self, kind: ContainerKind) -> Index:
        """Return the indexes of the containers of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def cardinalities(self) -> Index:
        """Return the number of values of each bitmap: int64[n]."""
        return sums(self.cards, self.counts)

    def mix(self) -> Index:
        """Return the number of array, bitset and run containers of each bitmap: int64[n, 3]."""
        n = len(self.counts)
        return np.bincount(self.owner * 3 + self.kinds, minlength=3 * n).reshape(n, 3)

    def edges(self, data: Bytes) -> tuple[Index, Index]:
        """Return the lowest and the highest value of each bitmap: int64[n] each, -1 for empty bitmaps."""
        low, high = np.full(len(self.counts), -1, np.int64), np.full(len(self.counts), -1, np.int64)
        filled = np.flatnonzero(self.counts)
        bounds = offsets_of(self.counts)
        for out, chosen, last in ((low, bounds[:-1][filled], False), (high, bounds[1:][filled] - 1, True)):
            out[filled] = self.keys[chosen] << 16 | self._edge(data, chosen, last)
        return low, high

    def _edge(self, data: Bytes, chosen: Index, last: bool) -> Index:
        """Return the lowest or the highest value of each chosen container."""
        kinds, starts, sizes = self.kinds[chosen], self.starts[chosen], self.sizes[chosen]
        array = u16(data, starts + np.where(last, sizes - 2, 0))
        run = u16(data, starts + np.where(last, sizes - 4, 2))
        run = run + u16(data, starts + sizes - 2) if last else run
        out = np.where(kinds == ContainerKind.RUN, run, array)
        for i in np.flatnonzero(kinds == ContainerKind.BITSET).tolist():
            bits = data[starts[i] : starts[i] + BITSET_BYTES]
            byte = int(np.flatnonzero(bits)[-1 if last else 0])
            value = int(bits[byte])
            out[i] = 8 * byte + (value if last else value & -value).bit_length() - 1
        return out

    def run_bounds(self, data: Bytes) -> tuple[Index, Index, Index]:
        """Return first value (in its container) and length of all runs, and the number of runs of each container."""
        chosen = self.of(ContainerKind.RUN)
        counts = (self.sizes[chosen] - 2) >> 2
        pairs = words_at(data, self.starts[chosen] + 2, 2 * counts).astype(np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1] + 1, counts

    def broken(self, data: Bytes) -> Flags:
        """Return which bitmaps have invalid values: bool[n]. See `BitmapView.check` and `check_runs`."""
        bad = np.zeros(len(self.counts), np.bool_)
        for wrong in (self._broken_arrays(data), self._broken_bitsets(data), self._broken_runs(data)):
            bad[self.owner[wrong]] = True
        return bad

    def _broken_arrays(self, data: Bytes) -> Index:
        chosen = self.of(ContainerKind.ARRAY)
        starts, stops = self.starts[chosen], self.starts[chosen] + 2 * self.cards[chosen]
        if len(chosen) and _are_dense(starts, stops):
            return self._broken_in_place(data, chosen, starts, stops)
        words = words_at(data, self.starts[chosen], self.cards[chosen])
        ends = np.cumsum(self.cards[chosen])
        descends = words[1:] <= words[:-1]
        descends[ends[:-1] - 1] = False  # from one container to the next
        return np.asarray(chosen[np.searchsorted(ends, np.flatnonzero(descends), side="right")])

    def _broken_in_place(self, data: Bytes, chosen: Index, starts: Index, stops: Index) -> Index:
        """Compare every word with the one before, also between arrays: faster than copying the arrays first.

        Returns:
            The first container of each run of adjacent arrays (of one bitmap) with a broken one among them.
        """
        low, owner = int(starts[0]), self.owner[chosen]
        words = data[low : int(stops[-1])].view("<u2")
        descends = np.zeros(len(words), np.bool_)
        np.less_equal(words[1:], words[:-1], out=descends[:-1])
        lasts = (stops - low >> 1) - 1
        descends[lasts] = False
        breaks = np.flatnonzero((starts[1:] != stops[:-1]) | (owner[1:] != owner[:-1]))
        begins, ends = np.append(0, breaks + 1), np.append(breaks, len(chosen) - 1)
        bounds = np.stack([starts[begins] - low >> 1, lasts[ends]], axis=1).ravel()
        return np.asarray(chosen[begins[np.logical_or.reduceat(descends, bounds)[::2]]])

    def _broken_bitsets(self, data: Bytes) -> Index:
        chosen = self.of(ContainerKind.BITSET)
        words = words_at(data, self.starts[chosen], np.full(len(chosen), BITSET_BYTES // 2))
        counts = np.bitwise_count(words).reshape(len(chosen), BITSET_BYTES // 2).sum(axis=1, dtype=np.int64)
        return np.asarray(chosen[counts != self.cards[chosen]])

    def _broken_runs(self, data: Bytes) -> Index:
        chosen = self.of(ContainerKind.RUN)
        if not len(chosen):
            return chosen
        first, lengths, counts = self.run_bounds(data)
        stops = first + lengths
        owner = np.repeat(np.arange(len(chosen)), counts)
        wrong = stops > _BLOCK
        wrong[1:] |= (owner[1:] == owner[:-1]) & (first[1:] <= stops[:-1])
        bad = (counts == 0) | (sums(lengths, counts) != self.cards[chosen])
        bad[owner[wrong]] = True
        return np.asarray(chosen[bad])

    def expand(self, data: Bytes) -> NDArray[np.uint32]:
        """Return the values of all bitmaps, ascending in each. The number is not bounded here: check `cards` first."""
        bounds = offsets_of(self.cards)
        high = self.keys << 16
        arrays, runs = self.of(ContainerKind.ARRAY), self.of(ContainerKind.RUN)
        words = words_at(data, self.starts[arrays], self.cards[arrays])
        values = words | np.repeat(high[arrays].astype(np.uint32), self.cards[arrays])
        if len(arrays) == len(self.kinds):
            return values
        out = np.empty(int(bounds[-1]), np.uint32)
        out[spread(bounds[:-1][arrays], self.cards[arrays])] = values
        first, lengths, counts = self.run_bounds(data)
        out[spread(bounds[:-1][runs], self.cards[runs])] = spread(first + np.repeat(high[runs], counts), lengths)
        for i in self.of(ContainerKind.BITSET).tolist():
            start = int(self.starts[i])
            bits = np.unpackbits(data[start : start + BITSET_BYTES], bitorder="little")
            out[bounds[i] : bounds[i + 1]] = np.flatnonzero(bits) + int(high[i])
        return out
