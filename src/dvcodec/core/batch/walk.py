"""Walks many serialized 32-bit bitmaps at once: the bulk counterpart of `roaring.walk`.

The table has only valid bitmaps; `roaring.walk` raises the error of an invalid one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES, ContainerKind, payload_sizes
from dvcodec.core.bitmaps import MIN_BITMAP, read_heads
from dvcodec.core.build import OFFSETS_FROM
from dvcodec.core.ragged import Bytes, Flags, Index, offsets_of, spread, sums, u16, u32, words_at

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


@dataclass(frozen=True, slots=True, eq=False)
class _Headers:
    """Headers of bitmaps, one entry per bitmap, and the bitmap of each container.

    Attributes:
        begin: offset of the bitmap in the buffer.
        room: bytes of the bitmap.
        counts: number of containers.
        flags: bytes before the descriptors.
        size: bytes before the containers.
        has_runs: whether the cookie announces runs.
        has_table: whether there is an offset table.
        first: index of the first container.
        owner: per container: index of its bitmap.
        nth: per container: its index within the bitmap.
    """

    begin: Index
    room: Index
    counts: Index
    flags: Index
    size: Index
    has_runs: Flags
    has_table: Flags
    first: Index
    owner: Index
    nth: Index


def walk_many(data: Bytes, starts: Index, sizes: Index) -> ContainerTable:
    """Walk many bitmaps; each must fill its bytes exactly.

    Checked: what `roaring.walk` checks, except for runs (`ContainerTable.broken`).

    Args:
        data: uint8, the buffer.
        starts: int64[n], offset of each bitmap.
        sizes: int64[n], bytes of each bitmap, within the buffer.
    """
    chosen, heads = _headers(data, starts, sizes)
    owner = heads.owner
    descriptors = u32(data, (heads.begin + heads.flags)[owner] + 4 * heads.nth)
    keys, cards = descriptors & 0xFFFF, (descriptors >> 16) + 1
    bad = np.zeros(len(chosen), np.bool_)
    bad[owner[1:][(keys[1:] <= keys[:-1]) & (owner[1:] == owner[:-1])]] = True
    is_run = _run_flags(data, heads, bad)
    payload = payload_sizes(cards)
    place = _places(data, heads, is_run, payload, bad)
    kinds = np.where(is_run, ContainerKind.RUN, cards > ARRAY_MAX).astype(np.uint8)
    valid, wrong = np.zeros(len(starts), np.bool_), np.zeros(len(starts), np.bool_)
    counts = np.zeros(len(starts), np.int64)
    valid[chosen], wrong[chosen], counts[chosen] = True, bad, heads.counts
    begins = np.repeat(heads.begin, heads.counts) + place
    return ContainerTable(valid, counts, chosen[owner], keys, cards, kinds, begins, payload).without(wrong)


def _headers(data: Bytes, starts: Index, sizes: Index) -> tuple[Index, _Headers]:
    """Return the indexes of the bitmaps with a valid head whose header fits their bytes, and these headers."""
    chosen = np.flatnonzero(sizes >= MIN_BITMAP)
    valid, has_runs, counts, flags = read_heads(data, starts[chosen])
    has_table = ~has_runs | (counts >= OFFSETS_FROM)
    size = flags + 4 * counts * (1 + has_table)
    keep = valid & (size <= sizes[chosen])
    chosen, counts = chosen[keep], counts[keep]
    first = offsets_of(counts)[:-1]
    owner = np.repeat(np.arange(len(chosen)), counts)
    nth = np.arange(len(owner)) - first[owner]
    return chosen, _Headers(
        starts[chosen],
        sizes[chosen],
        counts,
        flags[keep],
        size[keep],
        has_runs[keep],
        has_table[keep],
        first,
        owner,
        nth,
    )


def _run_flags(data: Bytes, heads: _Headers, bad: Flags) -> Flags:
    """Return which containers have runs; mark in `bad` set padding bits, and a run cookie without run containers."""
    is_run = np.zeros(len(heads.owner), np.bool_)
    if not heads.has_runs.any():
        return is_run
    flagged = np.flatnonzero(heads.has_runs[heads.owner])
    nth = heads.nth[flagged]
    is_run[flagged] = (data[heads.begin[heads.owner[flagged]] + 4 + (nth >> 3)] >> (nth & 7).astype(np.uint8)) & 1
    padded = np.flatnonzero(heads.has_runs & ((heads.counts & 7) > 0))
    counts = heads.counts[padded]
    bad[padded] |= (data[heads.begin[padded] + 4 + (counts >> 3)] >> (counts & 7).astype(np.uint8)) > 0
    bad |= heads.has_runs & (sums(is_run, heads.counts) == 0)
    return is_run


def _places(data: Bytes, heads: _Headers, is_run: Flags, payload: Index, bad: Flags) -> Index:
    """Return the offset of each container in its bitmap, and write the sizes of run containers to `payload`.

    Marks in `bad` wrong offset tables, and bitmaps that do not fill their bytes.
    """
    every = bool(heads.has_table.all())
    tabled = slice(None) if every else np.flatnonzero(heads.has_table[heads.owner])
    of = heads.owner[tabled]
    table = u32(data, (heads.begin + heads.flags + 4 * heads.counts)[of] + 4 * heads.nth[tabled])
    # The number of runs is at the start of the payload. An offset outside the bitmap is found below.
    known = np.flatnonzero(is_run[tabled])
    hints = heads.begin[of[known]] + np.minimum(table[known], heads.room[of[known]] - 2)
    payload[known if isinstance(tabled, slice) else tabled[known]] = 2 + 4 * u16(data, hints)
    # Without a table there are at most three containers.
    hop = heads.begin + heads.size
    for k in range(0 if every else OFFSETS_FROM - 1):
        these = np.flatnonzero(~heads.has_table & (heads.counts > k))
        container = heads.first[these] + k
        inside = hop[these] + 2 <= heads.begin[these] + heads.room[these]
        bad[these[~inside]] = True
        runs = is_run[container] & inside
        payload[container[runs]] = 2 + 4 * u16(data, hop[these[runs]])
        hop[these] += payload[container]
    before = offsets_of(payload)
    place = before[:-1] + np.repeat(heads.size - before[heads.first], heads.counts)
    bad[of[table != place[tabled]]] = True
    bad |= heads.size + sums(payload, heads.counts) != heads.room
    return np.asarray(place)
