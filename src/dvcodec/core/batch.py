"""Many framed vectors at once: a table has one per data file, most with a few rows.

A NumPy pass over all of them replaces a call for each: one table of all containers, from which they are checked,
expanded and made row sets. Large, multi-bitmap or corrupt vectors fall back to `core.vector`, one at a time. Row sets
are encoded in the same way, with the bytes of Java's writers.

The table has only valid bitmaps; `roaring.walk` raises the error of an invalid one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import vector
from dvcodec.core.bitmap import (
    ARRAY_MAX,
    BITSET_BYTES,
    COOKIE_NO_RUNS,
    COOKIE_RUNS,
    OFFSETS_FROM,
    ContainerKind,
    from_sorted,
    payload_sizes,
)
from dvcodec.core.bitmaps import MIN_BITMAP, read_heads
from dvcodec.core.checksum import crc32
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import ChecksumMismatch, DecodeError, LimitExceeded, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
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
from dvcodec.core.roaring import MAX_DV_KEY, MIN_BUCKET
from dvcodec.core.rowset import DEFAULT_MAX_ROWS, RowSet, Stored
from dvcodec.core.vector import CRC_BYTES, FRAME_OVERHEAD, LENGTH_BYTES, UNCOUNTED, Magic, Vector

__all__ = ["Survey", "encode", "expand", "load", "survey"]


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


_LARGE_FRAME = 1 << 18
"""For vectors of more than this many bytes, the cost of a separate call is negligible."""
_BITMAP64 = 20
"""Bytes of a frame before the bitmap of a 64-bit vector with a single one: length, magic, count, key."""
_BITMAP32 = 8
"""Bytes of a frame before the bitmap of a 32-bit vector."""


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Statistics and errors of many framed vectors, one entry per vector.

    Attributes:
        cardinality: int64[n], rows; 0 for corrupt vectors.
        min: int64[n], lowest position, -1 for empty or corrupt vectors.
        max: int64[n], highest position, -1 for empty or corrupt vectors.
        mix: int64[n, 3], number of array, bitset and run containers.
        crc_ok: bool[n]; False if the CRC differs, or the frame is too short for one.
        errors: index of the vector -> its error.
    """

    cardinality: Index
    min: Index
    max: Index
    mix: Index
    crc_ok: Flags
    errors: dict[int, DecodeError]


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Framed vectors in a window, and what they are checked against.

    Attributes:
        window: contains the frames.
        starts: int64[n], offset of each frame in the window.
        sizes: int64[n], bytes of each frame, within the window.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown. None if all are unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
    """

    window: Cursor
    starts: Index
    sizes: Index
    allowed: tuple[Magic, ...] = tuple(Magic)
    cardinalities: Index | None = None
    limits: Limits = DEFAULT_LIMITS
    verify_checksum: bool = True

    def read(self, i: int) -> Vector:
        """Read a single vector.

        Raises:
            DecodeError: see `core.vector.read`.
        """
        start, stop = int(self.starts[i]), int(self.starts[i] + self.sizes[i])
        frame = Cursor(self.window.view[start:stop], source=self.window.source, base=self.window.base + start)
        stated = -1 if self.cardinalities is None else int(self.cardinalities[i])
        expected = stated if stated >= 0 else None
        return vector.read(frame, self.allowed, expected, self.limits, verify_checksum=self.verify_checksum)


@dataclass(frozen=True, slots=True, eq=False)
class SmallVectors:
    """The small valid vectors of a single bitmap among n vectors.

    Attributes:
        data: uint8, the buffer with all vectors.
        table: their containers.
        keys: int64[n], high half of the positions.
        begins: int64[n], offset of the bitmap in `data`.
        sizes: int64[n], bytes of the bitmap.
        rows: int64[n], number of positions.
        crc_ok: bool[n]; False if the CRC differs, or the frame is too short for one.
        others: bool[n], the vectors to read one at a time: not small, invalid, or beyond a limit or their metadata.
    """

    data: NDArray[np.uint8]
    table: ContainerTable
    keys: Index
    begins: Index
    sizes: Index
    rows: Index
    crc_ok: Flags
    others: Flags


def read_small(frames: Frames) -> SmallVectors:
    """Walk and check the small vectors of a single bitmap."""
    data, starts, sizes = np.frombuffer(frames.window.view, np.uint8), frames.starts, frames.sizes
    limits, allowed, stated = frames.limits, frames.allowed, frames.cardinalities
    n = len(starts)
    key = np.zeros(n, np.int64)
    begin, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    crc_ok = _checksums(frames.window.view, starts, sizes) if frames.verify_checksum else np.ones(n, np.bool_)
    whole = np.flatnonzero((sizes >= FRAME_OVERHEAD + _BITMAP32) & (sizes <= _LARGE_FRAME) & crc_ok)
    length = u32(data, starts[whole]).astype("<u4").byteswap().astype(np.int64)
    magic = u32(data, starts[whole] + 4)
    framed = length == sizes[whole] - UNCOUNTED
    if Magic.PAIMON32 in allowed:
        small = whole[framed & (magic == int.from_bytes(Magic.PAIMON32.value, "little"))]
        begin[small], size[small] = starts[small] + _BITMAP32, sizes[small] - _BITMAP32 - CRC_BYTES
    if Magic.PORTABLE64 in allowed:
        framed &= magic == int.from_bytes(Magic.PORTABLE64.value, "little")
        framed &= sizes[whole] >= _BITMAP64 + MIN_BITMAP + CRC_BYTES
        wide = whole[framed]
        single = (u32(data, starts[wide] + 8) == 1) & (u32(data, starts[wide] + 12) == 0)
        keys = u32(data, starts[wide] + 16)
        wide, keys = wide[single & (keys <= MAX_DV_KEY)], keys[single & (keys <= MAX_DV_KEY)]
        key[wide] = keys
        begin[wide], size[wide] = starts[wide] + _BITMAP64, sizes[wide] - _BITMAP64 - CRC_BYTES
    table = walk_many(data, begin, size)
    table = table.without(table.broken(data))
    rows = table.cardinalities()
    others = ~table.valid | (rows > limits.max_cardinality) | (sizes > limits.max_vector_bytes)
    if stated is not None:
        others |= (stated >= 0) & (stated != rows)
    return SmallVectors(data, table, key, begin, size, rows, crc_ok, others)


def _checksums(view: memoryview, starts: Index, sizes: Index) -> Flags:
    """Return whether the CRC of each frame matches: bool[n]; False for frames too short for one."""
    ok = sizes >= FRAME_OVERHEAD
    begins, ends = starts[ok] + LENGTH_BYTES, (starts + sizes)[ok] - CRC_BYTES
    computed = [crc32(view[a:b]) for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
    stored = u32(np.frombuffer(view, np.uint8), ends).astype("<u4").byteswap()
    ok[ok] = stored == np.array(computed, np.uint32)
    return ok


@enough_memory("the vectors", None)
def survey(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> Survey:
    """Check all framed vectors of a buffer: length, CRC, magic, structure, values, cardinality.

    Errors of vectors are returned, not raised; their offsets count from the start of the buffer. Nothing is expanded.

    Args:
        data: the buffer.
        starts: int64[n], offset of each frame.
        sizes: int64[n], bytes of each frame, within the buffer.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs; `crc_ok` is all True then.

    Raises:
        LimitExceeded: there is too little memory for the vectors.
        UsageError: `data` is not a contiguous buffer.
    """
    frames = Frames(Cursor(data), starts, sizes, allowed, cardinalities, limits, verify_checksum)
    found = read_small(frames)
    rows, crc_ok = found.rows, found.crc_ok
    low, high = found.table.edges(found.data)
    base_row = found.keys << 32
    low, high = np.where(low >= 0, low | base_row, -1), np.where(high >= 0, high | base_row, -1)
    mix, errors = found.table.mix(), {}
    for i in np.flatnonzero(found.others).tolist():
        rows[i], low[i], high[i], mix[i] = 0, -1, -1, 0
        try:
            one = frames.read(i)
            one.check()
        except DecodeError as err:
            errors[i] = err
            crc_ok[i] &= not isinstance(err, ChecksumMismatch)
            continue
        rows[i], mix[i] = one.cardinality, one.view.mix
        if rows[i]:
            low[i], high[i] = one.view.min or 0, one.view.max or 0
    return Survey(rows, low, high, mix, crc_ok, errors)


@enough_memory("the positions", None)
def expand(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    max_rows: int | None = DEFAULT_MAX_ROWS,
) -> tuple[Index, Index]:
    """Read the positions of all framed vectors of a buffer.

    Args:
        data: the buffer.
        starts: int64[n], offset of each frame.
        sizes: int64[n], bytes of each frame, within the buffer.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        max_rows: upper bound on all rows together; None for no bound.

    Returns:
        int64, the positions of all vectors one after the other, ascending in each; and int64[n], the number of
        positions of each.

    Raises:
        DecodeError: a vector is corrupt; the error is that of the first one.
        LimitExceeded: more than `max_rows` rows, or too little memory for them.
        UsageError: `data` is not a contiguous buffer.
    """
    frames = Frames(Cursor(data), starts, sizes, limits=limits, verify_checksum=verify_checksum)
    found = read_small(frames)
    others = {i: frames.read(i).load() for i in np.flatnonzero(found.others).tolist()}
    counts = np.where(found.others, 0, found.rows)
    rows = counts.copy()
    for i, found_rows in others.items():
        rows[i] = found_rows.cardinality
    total = int(rows.sum())
    if max_rows is not None and total > max_rows:
        raise LimitExceeded("rows to expand (max_rows)", expected=f"at most {max_rows}", actual=total)
    values = found.table.without(found.others).expand(found.data).astype(np.int64)
    if found.keys.any():
        values |= np.repeat(found.keys << 32, counts)
    if not others:
        return values, rows
    return merge_pieces(rows, values, ((i, one.to_numpy(max_rows=None)) for i, one in others.items())), rows


_VECTORS = 512
"""Vectors per pass: its arrays fit the CPU caches."""


def load(
    window: Cursor,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...],
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> list[RowSet]:
    """Read all framed vectors of a window. They are fully checked now; a bitmap is built when first used.

    Args:
        window: contains the frames. It is copied once if its bytes are mutable.
        starts: int64[n], offset of each frame in the window.
        sizes: int64[n], bytes of each frame, within the window.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.

    Raises:
        DecodeError: a vector is corrupt; the error is that of the first one, see `core.vector.read`.
    """
    if not isinstance(window.view.obj, bytes):  # row sets keep the checked bytes
        window = Cursor(bytes(window.view), source=window.source, base=window.base)
    rows: list[RowSet] = []
    for first in range(0, len(starts), _VECTORS):
        some = slice(first, first + _VECTORS)
        stated = None if cardinalities is None else cardinalities[some]
        with enough_memory("the vectors", window.source):
            rows += _load(Frames(window, starts[some], sizes[some], allowed, stated, limits, verify_checksum))
    return rows


def _load(frames: Frames) -> list[RowSet]:
    found = read_small(frames)
    stops = found.begins + found.sizes
    stored = zip(repeat(frames.window.view), found.keys.tolist(), found.begins.tolist(), stops.tolist())
    rows = [RowSet(Stored(one)) for one in stored]
    for i in np.flatnonzero(found.others | (found.rows == 0)).tolist():
        rows[i] = frames.read(i).load()
    return rows


_MANY_ROWS = 1 << 14
"""For row sets of more than this many positions, a call to pyroaring is faster."""
_HEAD = 20
"""Bytes of a frame before the bitmap: length, magic, count of bitmaps, key 0."""
_BITSETS_AT_ONCE = 256


@enough_memory("the vectors", None)
def encode(positions: NDArray[np.int64], counts: NDArray[np.int64]) -> ByteStrings:
    """Encode many row sets, each as the frame that Iceberg, Delta and Paimon 64-bit share.

    The bytes are those of `dvcodec.iceberg.encode`.

    Args:
        positions: int64, the positions of all row sets one after the other, strictly ascending in each (not checked).
        counts: int64[n], number of positions of each.

    Raises:
        UsageError: a position above 0x7ffffffe80000000, or positions so high that the empty bitmaps below them fill
            more than 2**31 - 1 bytes in total.
        LimitExceeded: the vectors need more memory than the process has.
    """
    bounds = offsets_of(counts)
    filled = np.flatnonzero(counts)
    last = np.zeros(len(counts), np.int64)
    last[filled] = positions[bounds[1:][filled] - 1]
    alone = (counts == 0) | (counts > _MANY_ROWS) | (last >> 32 > 0)
    if not alone.any():
        return _encode_small(positions, counts)
    vector.check_highest(int(last.max()), Magic.PORTABLE64)
    gaps = MIN_BUCKET * int((last >> 32).sum())
    if gaps > vector.MAX_FRAME:  # a file of a kilobyte may ask for 2 GB a row
        raise UsageError(
            f"positions up to {int(last.max())}: the empty bitmaps below them would have {gaps} bytes, more than the "
            f"{vector.MAX_FRAME} that fit"
        )
    small = np.flatnonzero(~alone)
    parts = ByteStrings.from_list([])
    if len(small):
        parts = _encode_small(positions[np.repeat(~alone, counts)], counts[small])
    others = {i: _encode_one(positions[bounds[i] : bounds[i + 1]]) for i in np.flatnonzero(alone).tolist()}
    lengths = np.zeros(len(counts), np.int64)
    lengths[small] = parts.lengths
    for i, data in others.items():
        lengths[i] = len(data)
    frames = ((i, np.frombuffer(data, np.uint8)) for i, data in others.items())
    return ByteStrings(offsets_of(lengths), merge_pieces(lengths, parts.data, frames))


def _encode_one(positions: Index) -> bytes:
    if len(positions) and not int(positions[-1]) >> 32:  # the positions ascend: no need to check and sort them
        rows = RowSet.from_bitmaps({0: from_sorted(positions.astype(np.uint32))})
    else:
        rows = RowSet(positions)
    return vector.build(Magic.PORTABLE64, *vector.encode_pieces(rows, Magic.PORTABLE64))


def _encode_small(positions: Index, counts: Index) -> ByteStrings:
    """Encode non-empty row sets of positions below 2**32, all containers at once.

    Container kinds are those of Java: arrays up to 4,096 values, else bitsets; runs where they are strictly smaller.
    """
    n = len(counts)
    low = positions.astype(np.uint32)
    of_set = np.repeat(np.arange(n, dtype=np.int64), counts)
    block = of_set << 16 | positions >> 16
    new = np.empty(len(low), np.bool_)
    new[:1] = True
    np.not_equal(block[1:], block[:-1], out=new[1:])
    heads = np.flatnonzero(new)  # the first value of each container
    cards = np.diff(heads, append=len(low))
    new[1:] |= low[1:] != low[:-1] + np.uint32(1)
    run_heads = np.flatnonzero(new)  # the first value of each run: runs end at container borders
    runs = np.diff(np.searchsorted(run_heads, heads), append=len(run_heads)) if len(run_heads) else cards
    plain = payload_sizes(cards)
    kinds = np.where(2 + 4 * runs < plain, ContainerKind.RUN, cards > ARRAY_MAX).astype(np.uint8)
    payload = np.where(kinds == ContainerKind.RUN, 2 + 4 * runs, plain)

    owner = block[heads] >> 16
    containers = np.bincount(owner, minlength=n)
    first = offsets_of(containers)[:-1]
    with_runs = np.bincount(owner, weights=kinds == ContainerKind.RUN, minlength=n) > 0
    flags = np.where(with_runs, 4 + (containers + 7) // 8, 8)
    tabled = ~with_runs | (containers >= OFFSETS_FROM)
    header = flags + 4 * containers * (1 + tabled)
    before = np.cumsum(payload) - payload
    place = header[owner] + before - before[first[owner]]
    ends = place + payload
    sizes = _HEAD + ends[first + containers - 1] + 4
    bounds = offsets_of(sizes)
    begin = bounds[:-1]
    out = np.zeros(int(bounds[-1]), np.uint8)

    nth = np.arange(len(owner)) - first[owner]
    bitmap = begin + _HEAD
    put(out, begin, (sizes - 8).astype(">u4").view("<u4"), 4)
    put(out, begin + 4, int.from_bytes(Magic.PORTABLE64.value, "little"), 4)
    out[begin + 8] = 1  # one bitmap, of key 0
    put(out, bitmap, np.where(with_runs, COOKIE_RUNS | (containers - 1) << 16, COOKIE_NO_RUNS), 4)
    put(out, bitmap[~with_runs] + 4, containers[~with_runs], 4)
    run_containers = np.flatnonzero(kinds == ContainerKind.RUN)
    flag_pos = bitmap[owner[run_containers]] + 4 + (nth[run_containers] >> 3)
    np.bitwise_or.at(out, flag_pos, np.left_shift(1, nth[run_containers] & 7).astype(np.uint8))
    descriptors = (bitmap + flags)[owner] + 4 * nth
    put(out, descriptors, block[heads] & 0xFFFF | (cards - 1) << 16, 4)
    in_table = np.flatnonzero(tabled[owner])
    put(out, descriptors[in_table] + 4 * containers[owner[in_table]], place[in_table], 4)
    _put_payloads(out, bitmap[owner] + place, low, heads, cards, kinds, run_heads, runs)

    view = out.data
    crcs = [crc32(view[a + 4 : b - 4]) for a, b in zip(begin.tolist(), bounds[1:].tolist(), strict=True)]
    put(out, bounds[1:] - 4, np.array(crcs, ">u4").view("<u4"), 4)
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
