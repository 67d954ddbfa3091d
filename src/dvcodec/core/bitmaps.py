"""Many serialized bitmaps at once, in a few NumPy passes over a table of all their containers.

A table of deletion vectors has one bitmap per data file, the postings of an index one per term; most have a few values.
The table has only valid bitmaps; `roaring.walk` raises the error of an invalid one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import Truncated
from dvcodec.core.ragged import (
    Bytes,
    ByteStrings,
    Flags,
    Index,
    merge_pieces,
    offsets_of,
    put,
    put_words,
    spread,
    sums,
    u16,
    u32,
    words_at,
)
from dvcodec.core.roaring import (
    ARRAY_MAX,
    BITSET_BYTES,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    MAX_CONTAINERS,
    OFFSETS_FROM,
    ContainerKind,
    payload_sizes,
    walk,
)
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


_BLOCK = 1 << 16


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
        _refuse(cursor, int(starts[i]), int(sizes[i]))
    cards = u16(data, spread(starts + heads.descriptors, 4 * heads.counts)[2::4]) + 1
    return sums(cards, heads.counts)


def _refuse(cursor: Cursor, start: int, size: int) -> NoReturn:
    """Raise the error of an invalid bitmap."""
    window = Cursor(cursor.view[start : start + size], source=cursor.source, base=cursor.base + start)
    view = walk(window)
    window.expect_end("the bitmap")
    view.check()
    raise AssertionError(f"bitmap at byte {window.base}")


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
    table = walk_many(data, starts, sizes)
    table = table.without(table.broken(data, arrays=False))
    if (i := first_true(~table.valid)) is not None:
        _refuse(cursor, int(starts[i]), int(sizes[i]))
    counts = table.cardinalities()
    large = np.zeros(len(starts), np.bool_)
    large[table.owner[table.of(ContainerKind.BITSET)]] = True
    small = table.without(large)
    values = small.expand(data)
    ascend = values[1:] > values[:-1]
    ascend[np.cumsum(small.cards[:-1])[np.diff(small.owner) > 0] - 1] = True  # from one bitmap to the next
    if (i := first_true(~ascend)) is not None:
        i = int(np.searchsorted(np.cumsum(np.where(large, 0, counts)), i, side="right"))
        _refuse(cursor, int(starts[i]), int(sizes[i]))
    if not large.any():
        return values, counts

    def read(i: int) -> NDArray[np.uint32]:
        bitmap = FrozenBitMap.deserialize(bytes(cursor.view[starts[i] : starts[i] + sizes[i]]))
        return np.frombuffer(bitmap.to_array(), np.uint32)

    return merge_pieces(counts, values, ((i, read(i)) for i in np.flatnonzero(large).tolist())), counts


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

    def broken(self, data: Bytes, *, arrays: bool = True) -> Flags:
        """Return which bitmaps have invalid values: bool[n]. See `BitmapView.check` and `check_runs`."""
        bad = np.zeros(len(self.counts), np.bool_)
        bad[self.owner[self._broken_bitsets(data)]] = True
        bad[self.owner[self._broken_runs(data)]] = True
        if arrays:
            bad[self.owner[self._broken_arrays(data)]] = True
        return bad

    def _broken_arrays(self, data: Bytes) -> Index:
        chosen = np.flatnonzero((self.kinds == ContainerKind.ARRAY) & (self.cards > 1))
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
            bits = np.unpackbits(data[start : start + BITSET_BYTES], bitorder="little").view(np.bool_)
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


_BITSETS_AT_ONCE = 256


def serialize(
    values: NDArray[Any], counts: Index, *, runs: bool = False, before: int = 0, after: int = 0
) -> ByteStrings:
    """Serialize many bitmaps, all containers at once: arrays up to 4,096 values, else bitsets.

    Args:
        values: the values of all bitmaps one after the other, below 2**32, strictly ascending in each.
        counts: int64[n], number of values of each, at least 1.
        runs: True: containers have runs where they are strictly smaller, as in Java's deletion vectors. False: only a
            container of all 65,536 values has, as of Go's ``roaring`` after adding values one by one.
        before: zero bytes in front of each bitmap, for the caller to fill.
        after: zero bytes behind each.
    """
    n = len(counts)
    low = np.asarray(values, np.uint32)
    block = np.repeat(np.arange(n, dtype=np.int64), counts) << 16 | low >> 16
    new = np.empty(len(low), np.bool_)
    new[:1] = True
    np.not_equal(block[1:], block[:-1], out=new[1:])
    heads = np.flatnonzero(new)  # the first value of each container
    cards = np.diff(heads, append=len(low))
    if runs:
        new[1:] |= low[1:] != low[:-1] + np.uint32(1)
    run_heads = np.flatnonzero(new)  # the first value of each run: runs end at container borders
    run_counts = np.diff(np.searchsorted(run_heads, heads), append=len(run_heads)) if runs else np.ones_like(cards)
    plain = payload_sizes(cards)
    is_run = 2 + 4 * run_counts < plain if runs else cards == _BLOCK
    kinds = np.where(is_run, ContainerKind.RUN, cards > ARRAY_MAX).astype(np.uint8)
    payload = np.where(is_run, 2 + 4 * run_counts, plain)

    owner = block[heads] >> 16
    containers = np.bincount(owner, minlength=n)
    first = offsets_of(containers)[:-1]
    with_runs = np.bincount(owner, weights=is_run, minlength=n) > 0
    flags = np.where(with_runs, 4 + (containers + 7) // 8, 8)
    tabled = ~with_runs | (containers >= OFFSETS_FROM)
    header = flags + 4 * containers * (1 + tabled)
    ends = np.cumsum(payload)
    place = header[owner] + ends - payload - (ends - payload)[first[owner]]
    bounds = offsets_of(before + (place + payload)[first + containers - 1] + after)
    out = np.zeros(int(bounds[-1]), np.uint8)

    nth = np.arange(len(owner)) - first[owner]
    bitmap = bounds[:-1] + before
    put(out, bitmap, np.where(with_runs, COOKIE_RUNS | (containers - 1) << 16, COOKIE_NO_RUNS), 4)
    put(out, bitmap[~with_runs] + 4, containers[~with_runs], 4)
    run_containers = np.flatnonzero(is_run)
    flag_pos = bitmap[owner[run_containers]] + 4 + (nth[run_containers] >> 3)
    np.bitwise_or.at(out, flag_pos, np.left_shift(1, nth[run_containers] & 7).astype(np.uint8))
    descriptors = (bitmap + flags)[owner] + 4 * nth
    put(out, descriptors, block[heads] & 0xFFFF | (cards - 1) << 16, 4)
    in_table = np.flatnonzero(tabled[owner])
    put(out, descriptors[in_table] + 4 * containers[owner[in_table]], place[in_table], 4)
    _put_payloads(out, bitmap[owner] + place, low, heads, cards, kinds, run_heads, run_counts)
    return ByteStrings(bounds, out)


def _put_payloads(
    out: NDArray[np.uint8],
    starts: Index,
    low: NDArray[np.uint32],
    heads: Index,
    cards: Index,
    kinds: NDArray[np.uint8],
    run_heads: Index,
    runs: Index,
) -> None:
    """Write the payloads of all containers, at the offsets `starts` of `out`."""
    arrays = np.flatnonzero(kinds == ContainerKind.ARRAY)
    values = low if len(arrays) == len(kinds) else low[spread(heads[arrays], cards[arrays])]
    put_words(out, starts[arrays], cards[arrays], values.astype("<u2"))
    chosen = np.flatnonzero(kinds == ContainerKind.RUN)
    if len(chosen):
        put(out, starts[chosen], runs[chosen], 2)
        which = spread(offsets_of(runs)[:-1][chosen], runs[chosen])
        stops = np.append(run_heads[1:], len(low))
        pairs = np.stack([low[run_heads[which]] & 0xFFFF, stops[which] - run_heads[which] - 1], axis=1)
        put_words(out, starts[chosen] + 2, 2 * runs[chosen], pairs.ravel().astype("<u2"))
    bitsets = np.flatnonzero(kinds == ContainerKind.BITSET)
    for some in np.split(bitsets, range(_BITSETS_AT_ONCE, len(bitsets), _BITSETS_AT_ONCE)):
        bits = np.zeros((len(some), 1 << 16), np.bool_)
        which = spread(heads[some], cards[some])
        bits[np.repeat(np.arange(len(some)), cards[some]), low[which] & 0xFFFF] = True
        packed = np.packbits(bits, axis=1, bitorder="little")
        out[spread(starts[some], np.full(len(some), BITSET_BYTES))] = packed.ravel()
