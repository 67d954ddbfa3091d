"""From positions and ranges to bitmaps, without a loop over either."""

from __future__ import annotations

import itertools
import struct
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from dvcodec.core.errors import UsageError

__all__ = [
    "COOKIE_NO_RUNS",
    "COOKIE_RUNS",
    "OFFSETS_FROM",
    "as_positions",
    "from_ranges",
    "from_sorted",
    "merge_touching",
    "split",
]

COOKIE_NO_RUNS = 12346
COOKIE_RUNS = 12347
OFFSETS_FROM = 4
"""A bitmap with run containers has an offset table from this many containers on."""
MAX_RANGE_CONTAINERS = 1 << 24
"""Blocks of 65,536 rows that `from_ranges` is willing to touch: 2**40 rows."""
_KEY_ROWS = 1 << 32


def as_positions(positions: Any) -> NDArray[np.uint64]:
    """Bring any accepted form of positions to a flat uint64 array, refusing what is not a row position."""
    if not isinstance(positions, np.ndarray):
        if isinstance(positions, (bytes, bytearray, memoryview)):
            raise UsageError("positions must be integers, not bytes: decode a vector with the module of its format")
        if isinstance(getattr(positions, "null_count", None), int):  # pyarrow
            if positions.null_count:
                raise UsageError(f"positions hold {positions.null_count} nulls")
            kwargs = {} if hasattr(positions, "num_chunks") else {"zero_copy_only": False}
            positions = positions.to_numpy(**kwargs)
        else:
            try:
                return np.frombuffer(array("Q", positions), np.uint64)
            except OverflowError:
                raise UsageError("a position is negative or above 2**64 - 1") from None
            except TypeError as err:
                raise UsageError(f"positions must be integers: {err}") from None
    if isinstance(positions, np.ma.MaskedArray) and np.ma.is_masked(positions):
        raise UsageError("positions are masked")
    if positions.size == 0:
        return np.zeros(0, np.uint64)
    if positions.dtype.kind not in "iu" or positions.ndim != 1:
        hint = "; for booleans see RowSet.from_mask" if positions.dtype == np.bool_ else ""
        raise UsageError(
            f"positions must be a flat array of integers, got {positions.dtype} of shape {positions.shape}{hint}"
        )
    if positions.dtype.kind == "i" and int(positions.min()) < 0:
        raise UsageError(f"position {int(positions.min())} is negative")
    return np.asarray(positions.astype(np.uint64, copy=False))


def _ascends(values: NDArray[np.unsignedinteger[Any]]) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def split(values: NDArray[np.uint64]) -> dict[int, BitMap]:
    """Build one bitmap per high half."""
    if not len(values):
        return {}
    if int(values.max()) < _KEY_ROWS:
        low = values.astype(np.uint32)
        if not _ascends(low):
            low.sort()  # half as wide, it sorts in half the time
        return {0: from_sorted(low)}
    if not _ascends(values):
        values = np.sort(values)
    keys = values >> np.uint64(32)
    cuts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), len(values)]
    low = values.astype(np.uint32)
    return {int(keys[a]): from_sorted(low[a:b]) for a, b in itertools.pairwise(cuts)}


def from_ranges(ranges: NDArray[np.int64]) -> dict[int, BitMap]:
    """Build bitmaps from disjoint ascending ranges, as run containers, without a loop over ranges.

    Ranges are cut at container borders; every container then is a run container, which pyroaring reads.
    """
    if not len(ranges):
        return {}
    first, last = ranges[:, 0] >> 16, (ranges[:, 1] - 1) >> 16
    count = last - first + 1
    total = int(count.sum())
    if total > MAX_RANGE_CONTAINERS:
        raise UsageError(f"the ranges span {total} blocks of 65,536 rows, more than the {MAX_RANGE_CONTAINERS} allowed")
    container = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(total)
    start = np.maximum(np.repeat(ranges[:, 0], count), container << 16) & 0xFFFF
    stop = np.minimum(np.repeat(ranges[:, 1], count) - (container << 16), 1 << 16)
    bitmaps = {}
    keys = container >> 16
    cuts = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist(), total]
    for a, b in itertools.pairwise(cuts):
        data = _serialize_runs(container[a:b] & 0xFFFF, start[a:b], stop[a:b])
        bitmaps[int(keys[a])] = BitMap.deserialize(data)
    return bitmaps


def merge_touching(ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge ranges that touch or overlap; `ranges` is int64[k, 2], ascending by start."""
    if not len(ranges):
        return ranges.reshape(0, 2)
    reach = np.maximum.accumulate(ranges[:, 1])
    begins = np.flatnonzero(np.append(True, ranges[1:, 0] > reach[:-1]))
    return np.stack([ranges[begins, 0], reach[np.append(begins[1:], len(ranges)) - 1]], axis=1)


def from_sorted(values: NDArray[np.uint32]) -> BitMap:
    """Build a bitmap of array and bitset containers from ascending values (duplicates are fine)."""
    items = array("I")
    items.frombytes(np.ascontiguousarray(values, np.uint32).view(np.uint8).data)
    return BitMap(items, optimize=False)


def _serialize_runs(keys: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> bytes:
    """Serialize a bitmap made of run containers alone (a valid form, not the canonical one).

    Args:
        keys: container key of each run, ascending, at least one.
        starts: first value of each run within its container.
        stops: value after the last; runs of a container ascend and do not touch.
    """
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counts = np.diff(np.append(first, len(keys)))
    cards = np.add.reduceat(stops - starts, first)
    containers = len(first)
    flags = np.packbits(np.ones(containers, np.bool_), bitorder="little")
    header = struct.pack("<HH", COOKIE_RUNS, containers - 1) + flags.tobytes()
    descriptors = np.stack([keys[first], cards - 1], axis=1).astype("<u2")
    sizes = 2 + 4 * counts
    ends = len(header) + (8 if containers >= OFFSETS_FROM else 4) * containers + np.cumsum(sizes)
    offsets = (ends - sizes).astype("<u4") if containers >= OFFSETS_FROM else np.zeros(0, "<u4")
    # Each container's words are its run count and then its pairs: the pairs move up by one word per container.
    words = np.empty(containers + 2 * len(keys), "<u2")
    shift = np.repeat(np.arange(1, containers + 1), counts) + 2 * np.arange(len(keys))
    words[first * 2 + np.arange(containers)] = counts
    words[shift] = starts
    words[shift + 1] = stops - starts - 1
    return b"".join([header, descriptors.tobytes(), offsets.tobytes(), words.tobytes()])
