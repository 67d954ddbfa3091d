"""The containers of many serialized 32-bit bitmaps, in one table: what `roaring.walk` does for one, for all of them.

A bitmap is in the table if everything about it is right; who reads the others one by one learns what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES, ContainerKind
from dvcodec.core.build import COOKIE_NO_RUNS, COOKIE_RUNS, OFFSETS_FROM
from dvcodec.core.ragged import offsets_of, spread

__all__ = ["ContainerTable", "sums", "u16", "u32", "walk_many", "words_at"]

Index = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
_BLOCK = 1 << 16
_MIN_BITMAP = 8
_LONG = 16
"""Words of a stretch, on average, from which it is copied by a call for itself and not word by word."""


def _read(data: Bytes, at: Index, dtype: str, size: int) -> Index:
    """Read values at many places: of all that begin at any byte, which overlap, those that begin there."""
    if not len(at):
        return np.zeros(0, np.int64)
    anywhere = np.ndarray((len(data) - size + 1,), dtype, np.ascontiguousarray(data), strides=(1,))
    return np.asarray(anywhere[at], np.int64)


def u16(data: Bytes, at: Index) -> Index:
    """Read little-endian 16-bit values at many places."""
    return _read(data, at, "<u2", 2)


def u32(data: Bytes, at: Index) -> Index:
    """Read little-endian 32-bit values at many places."""
    return _read(data, at, "<u4", 4)


def sums(values: NDArray[Any], counts: Index) -> Index:
    """Sum runs of values, `counts[i]` of them each; a run may be empty."""
    totals = offsets_of(values)
    bounds = offsets_of(counts)
    return totals[bounds[1:]] - totals[bounds[:-1]]


def words_at(data: Bytes, starts: Index, counts: Index) -> NDArray[np.uint16]:
    """Copy runs of little-endian 16-bit words, `counts[i]` of them from byte `starts[i]`, one behind the other."""
    stops = starts + 2 * counts
    breaks = np.flatnonzero(starts[1:] != stops[:-1])  # containers of a bitmap lie one behind the other
    begins, ends = np.append(starts[:1], starts[breaks + 1]), np.append(stops[breaks], stops[-1:])
    if int(counts.sum()) > _LONG * len(begins):
        view = data.data
        return np.frombuffer(b"".join([view[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]), "<u2")
    at = spread(begins, (ends - begins) >> 1)
    at += at - np.repeat(begins, (ends - begins) >> 1)
    return u16(data, at).astype(np.uint16)


def _lie_closely(starts: Index, stops: Index) -> bool:
    """Whether arrays of words lie in file order, all at even distances, and fill most of the bytes they span."""
    in_order = bool((starts[1:] >= stops[:-1]).all()) and not bool((starts - starts[0] & 1).any())
    return in_order and int(stops[-1] - starts[0]) <= 4 * int((stops - starts).sum())


@dataclass(frozen=True, slots=True, eq=False)
class ContainerTable:
    """The containers of the sound ones among many bitmaps, one entry a container.

    Attributes:
        sound: bool[n], which bitmaps these are; the others have no entries.
        counts: int64[n], containers of each bitmap, 0 where it is not sound (or empty).
        owner: int64[c], the bitmap, ascending.
        keys: int64[c], high half of the container's values.
        cards: int64[c], number of values.
        kinds: uint8[c], a `ContainerKind`.
        starts: int64[c], where the payload begins in the buffer.
        sizes: int64[c], bytes of the payload.
    """

    sound: Flags
    counts: Index
    owner: Index
    keys: Index
    cards: Index
    kinds: NDArray[np.uint8]
    starts: Index
    sizes: Index

    def without(self, bad: Flags) -> ContainerTable:
        """Leave out bitmaps: bool[n]."""
        if not bad.any():
            return self
        keep = ~bad[self.owner]
        return ContainerTable(
            self.sound & ~bad,
            np.where(bad, 0, self.counts),
            self.owner[keep],
            self.keys[keep],
            self.cards[keep],
            self.kinds[keep],
            self.starts[keep],
            self.sizes[keep],
        )

    def of(self, kind: ContainerKind) -> Index:
        """Return which containers are of a kind."""
        return np.flatnonzero(self.kinds == kind)

    def cardinalities(self) -> Index:
        """Return the number of values of each bitmap: int64[n]."""
        return sums(self.cards, self.counts)

    def mix(self) -> Index:
        """Return how many array, bitset and run containers each bitmap has: int64[n, 3]."""
        n = len(self.counts)
        return np.bincount(self.owner * 3 + self.kinds, minlength=3 * n).reshape(n, 3)

    def edges(self, data: Bytes) -> tuple[Index, Index]:
        """Return the lowest and the highest value of each bitmap: int64[n], -1 where it has none."""
        low, high = np.full(len(self.counts), -1, np.int64), np.full(len(self.counts), -1, np.int64)
        filled = np.flatnonzero(self.counts)
        bounds = offsets_of(self.counts)
        for out, at, last in ((low, bounds[:-1][filled], False), (high, bounds[1:][filled] - 1, True)):
            out[filled] = self.keys[at] << 16 | self._edge(data, at, last)
        return low, high

    def _edge(self, data: Bytes, at: Index, last: bool) -> Index:
        """Return the lowest or the highest value in each of these containers."""
        kinds, starts, sizes = self.kinds[at], self.starts[at], self.sizes[at]
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
        """Return of all runs the first value within the container, the length, and how many each container has."""
        chosen = self.of(ContainerKind.RUN)
        counts = (self.sizes[chosen] - 2) >> 2
        pairs = words_at(data, self.starts[chosen] + 2, 2 * counts).astype(np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1] + 1, counts

    def broken(self, data: Bytes) -> Flags:
        """Tell which bitmaps hold a container with wrong values: bool[n]. See `BitmapView.check` and `check_runs`."""
        bad = np.zeros(len(self.counts), np.bool_)
        for wrong in (self._broken_arrays(data), self._broken_bitsets(data), self._broken_runs(data)):
            bad[self.owner[wrong]] = True
        return bad

    def _broken_arrays(self, data: Bytes) -> Index:
        chosen = self.of(ContainerKind.ARRAY)
        starts, stops = self.starts[chosen], self.starts[chosen] + 2 * self.cards[chosen]
        if len(chosen) and _lie_closely(starts, stops):
            return self._broken_in_place(data, chosen, starts, stops)
        words = words_at(data, self.starts[chosen], self.cards[chosen])
        ends = np.cumsum(self.cards[chosen])
        descends = words[1:] <= words[:-1]
        descends[ends[:-1] - 1] = False  # from one container to the next
        return np.asarray(chosen[np.searchsorted(ends, np.flatnonzero(descends), side="right")])

    def _broken_in_place(self, data: Bytes, chosen: Index, starts: Index, stops: Index) -> Index:
        """Compare all words with the ones before them, what lies between the arrays too: copying takes longer.

        Returns:
            The first container of each stretch of arrays of a bitmap that holds a broken one.
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
        return np.array(
            [
                i
                for i, start, card in zip(
                    chosen.tolist(), self.starts[chosen].tolist(), self.cards[chosen].tolist(), strict=True
                )
                if int(np.bitwise_count(data[start : start + BITSET_BYTES]).sum()) != card
            ],
            np.int64,
        )

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
        """Return the values of all bitmaps, ascending in each. `cards` says how many there are: bound it before."""
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
class _Heads:
    """The heads of bitmaps that have room for one, an entry a bitmap; and whose each container is.

    Attributes:
        begin: where the bitmap begins in the buffer.
        room: bytes it has.
        counts: containers.
        flags: bytes before the descriptors.
        size: bytes before the containers.
        has_runs: whether the cookie announces runs.
        has_table: whether there is an offset table.
        first: index of the first container.
        owner: of each container, the bitmap.
        nth: of each container, its index in the bitmap.
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
    """Walk many bitmaps; each has to fill its bytes exactly.

    Checked: all that `roaring.walk` checks, but for what is in the containers (`ContainerTable.broken`).

    Args:
        data: uint8, holds them all.
        starts: int64[n], where each begins.
        sizes: int64[n], bytes of each; they lie inside.
    """
    chosen, heads = _heads(data, starts, sizes)
    owner = heads.owner
    at = (heads.begin + heads.flags)[owner] + 4 * heads.nth
    descriptors = u32(data, at)
    keys, cards = descriptors & 0xFFFF, (descriptors >> 16) + 1
    bad = np.zeros(len(chosen), np.bool_)
    bad[owner[1:][(keys[1:] <= keys[:-1]) & (owner[1:] == owner[:-1])]] = True
    is_run = _run_flags(data, heads, bad)
    payload = np.where(cards <= ARRAY_MAX, 2 * cards, BITSET_BYTES)
    place = _places(data, heads, is_run, payload, bad)
    sound, counts = np.zeros(len(starts), np.bool_), np.zeros(len(starts), np.int64)
    sound[chosen] = ~bad
    counts[chosen] = np.where(bad, 0, heads.counts)
    kinds = np.where(is_run, ContainerKind.RUN, cards > ARRAY_MAX).astype(np.uint8)
    good = ~bad[owner] if bad.any() else slice(None)
    return ContainerTable(
        sound,
        counts,
        chosen[owner[good]],
        keys[good],
        cards[good],
        kinds[good],
        (np.repeat(heads.begin, heads.counts) + place)[good],
        payload[good],
    )


def _heads(data: Bytes, starts: Index, sizes: Index) -> tuple[Index, _Heads]:
    """Read the cookies; the first result tells which bitmaps have a head that fits in their bytes."""
    chosen = np.flatnonzero(sizes >= _MIN_BITMAP)
    cookie = u32(data, starts[chosen])
    has_runs = (cookie & 0xFFFF) == COOKIE_RUNS
    counts = np.where(has_runs, (cookie >> 16) + 1, u32(data, starts[chosen] + 4))
    flags = np.where(has_runs, 4 + (counts + 7) // 8, _MIN_BITMAP)
    has_table = ~has_runs | (counts >= OFFSETS_FROM)
    size = flags + 4 * counts * (1 + has_table)
    keep = (has_runs | (cookie == COOKIE_NO_RUNS)) & (counts <= _BLOCK) & (size <= sizes[chosen])
    chosen, counts = chosen[keep], counts[keep]
    first = offsets_of(counts)[:-1]
    owner = np.repeat(np.arange(len(chosen)), counts)
    nth = np.arange(len(owner)) - first[owner]
    return chosen, _Heads(
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


def _run_flags(data: Bytes, heads: _Heads, bad: Flags) -> Flags:
    """Tell which containers hold runs; padding bits, and a cookie of runs without any, are `bad`."""
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


def _places(data: Bytes, heads: _Heads, is_run: Flags, payload: Index, bad: Flags) -> Index:
    """Return where each container begins in its bitmap, and put the sizes of run containers into `payload`.

    Offset tables that differ, and bitmaps that do not end where their bytes do, are `bad`.
    """
    every = bool(heads.has_table.all())
    tabled = slice(None) if every else np.flatnonzero(heads.has_table[heads.owner])
    of = heads.owner[tabled]
    table = u32(data, (heads.begin + heads.flags + 4 * heads.counts)[of] + 4 * heads.nth[tabled])
    # A run container's size stands at its start. An offset outside of the bitmap is found wrong below.
    known = np.flatnonzero(is_run[tabled])
    hints = heads.begin[of[known]] + np.minimum(table[known], heads.room[of[known]] - 2)
    payload[known if isinstance(tabled, slice) else tabled[known]] = 2 + 4 * u16(data, hints)
    # Without a table there are at most three containers to hop over.
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
