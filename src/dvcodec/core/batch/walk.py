"""Walks many serialized 32-bit bitmaps at once: the bulk counterpart of `roaring.walk`.

The table has only valid bitmaps; `roaring.walk` raises the error of an invalid one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dvcodec.core.batch.containers import ContainerTable
from dvcodec.core.bitmap import ARRAY_MAX, ContainerKind, payload_sizes
from dvcodec.core.build import OFFSETS_FROM
from dvcodec.core.gather_scatter import u16, u32
from dvcodec.core.heads import MIN_BITMAP, read_heads
from dvcodec.core.ragged import Bytes, Flags, Index, offsets_of, sums

__all__ = ["walk_many"]


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
