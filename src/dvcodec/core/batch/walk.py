"""Walking many serialized 32-bit bitmaps: what `roaring.walk` does for one, for all of them.

A bitmap is in the table if everything about it is right; who reads the others one by one learns what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.batch.containers import ContainerTable
from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES, ContainerKind
from dvcodec.core.build import COOKIE_NO_RUNS, COOKIE_RUNS, OFFSETS_FROM
from dvcodec.core.ragged import offsets_of, sums
from dvcodec.core.scattered import u16, u32

__all__ = ["walk_many"]

Index = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
_BLOCK = 1 << 16
_MIN_BITMAP = 8


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
