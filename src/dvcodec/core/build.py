"""From positions and ranges to bitmaps, without a loop over either."""

from __future__ import annotations

import itertools
import struct
from array import array
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES
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
_PIECE = 1 << 16
"""Values that are looked at together: few enough for a processor's cache, and as many as a container can have."""
_FEW_RUNS = 16
"""Values a run holds on average where runs are made."""
_CLOSE = 16
"""Rows to a value up to which a mask of the rows is smaller than twice the values."""


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
    if positions.dtype == np.int64:  # none is negative: the same bits
        return np.asarray(positions.view(np.uint64))
    return np.asarray(positions.astype(np.uint64, copy=False))


def split(values: NDArray[np.uint64]) -> dict[int, BitMap]:
    """Build one bitmap per high half, of values in any order; runs of values become runs."""
    if not len(values):
        return {}
    if not _ascends(values):
        values = _sorted(values)
    first, last = int(values[0] >> 32), int(values[-1] >> 32)
    cuts = [0, len(values)]
    if first != last:
        keys = values >> np.uint64(32)
        cuts[1:1] = (np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()
    return {int(values[a] >> 32): from_sorted(values[a:b], runs=True) for a, b in itertools.pairwise(cuts)}


def _ascends(values: NDArray[np.unsignedinteger[Any]]) -> bool:
    """Tell whether values strictly ascend; a piece at a time, as the first descent mostly comes early."""
    return all(
        bool((values[at + 1 : at + _PIECE + 1] > values[at : at + _PIECE][: len(values) - at - 1]).all())
        for at in range(0, len(values) - 1, _PIECE)
    )


def _sorted(values: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
    """Sort values, none of them twice.

    Where they lie close together they are marked in a mask and read back from it: that takes a tenth of the time.
    """
    low, high = values.min(), values.max()
    if int(high - low) < _CLOSE * len(values):
        mask = np.zeros(int(high - low) + 1, np.bool_)
        mask[values - low if low else values] = True
        return np.asarray(np.flatnonzero(mask).astype(np.uint64) + low)
    ordered = values.astype(np.uint32 if high < _KEY_ROWS else np.uint64)
    ordered.sort()  # half as wide, it sorts in half the time
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


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
        bitmaps[int(keys[a])] = _load([_run_containers(container[a:b] & 0xFFFF, start[a:b], stop[a:b])])
    return bitmaps


def merge_touching(ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge ranges that touch or overlap; `ranges` is int64[k, 2], ascending by start."""
    if not len(ranges):
        return ranges.reshape(0, 2)
    reach = np.maximum.accumulate(ranges[:, 1])
    begins = np.flatnonzero(np.append(True, ranges[1:, 0] > reach[:-1]))
    return np.stack([ranges[begins, 0], reach[np.append(begins[1:], len(ranges)) - 1]], axis=1)


def from_sorted(values: NDArray[np.unsignedinteger[Any]], *, runs: bool = False) -> BitMap:
    """Build a bitmap from strictly ascending values with one high half; the low 32 bits count.

    Args:
        values: uint32 or uint64.
        runs: True makes run containers where values mostly follow one another; False makes arrays and bitsets only.
    """
    pieces = []
    at = 0
    while at < len(values):
        stop = len(values)
        if stop - at > _PIECE:  # a piece ends where a container ends: none has more values than a piece
            stop = at + int(np.searchsorted(values[at : at + _PIECE], values[at + _PIECE] >> 16 << 16))
        low = values[at:stop].astype(np.uint32, copy=False)
        begins = _run_begins(low) if runs else None
        if begins is None:
            pieces.append(_containers(low))
        else:
            starts, stops = low[begins], low[np.append(begins[1:], len(low)) - 1]
            pieces.append(_run_containers(starts >> 16, (starts & 0xFFFF).astype(np.int64), (stops & 0xFFFF) + 1))
        at = stop
    return _load(pieces)


def _run_begins(low: NDArray[np.uint32]) -> NDArray[np.int64] | None:
    """Return where runs of strictly ascending values begin, or None if they are so many that runs do not pay.

    A run also ends where its container does.
    """
    follows = low[1:] - low[:-1] == 1
    if np.count_nonzero(follows) < len(low) - len(low) // _FEW_RUNS:
        return None
    follows &= (low[1:] & 0xFFFF) > 0
    return np.flatnonzero(np.append(True, ~follows))


class _Containers(NamedTuple):
    """Containers as they are serialized, an entry a container.

    Attributes:
        keys: high half of the values.
        cards: number of values.
        sizes: bytes of the payload.
        runs: whether they hold runs, all of them or none.
        payload: one behind the other, in parts.
    """

    keys: NDArray[Any]
    cards: NDArray[np.int64]
    sizes: NDArray[np.int64]
    runs: bool
    payload: list[NDArray[Any]]


def _containers(low: NDArray[np.uint32]) -> _Containers:
    """Make array and bitset containers of strictly ascending values."""
    high = low >> 16
    bounds = np.concatenate([[0], np.flatnonzero(high[1:] != high[:-1]) + 1, [len(low)]])
    cards = np.diff(bounds)
    dense = cards > ARRAY_MAX
    halves = low.astype("<u2")
    payload, done = [], 0
    for i in np.flatnonzero(dense).tolist():
        start, stop = int(bounds[i]), int(bounds[i + 1])
        bits = np.zeros(1 << 16, np.bool_)
        bits[halves[start:stop].astype(np.intp)] = True
        payload += [halves[done:start], np.packbits(bits, bitorder="little")]
        done = stop
    payload.append(halves[done:])
    return _Containers(high[bounds[:-1]], cards, np.where(dense, BITSET_BYTES, 2 * cards), False, payload)


def _run_containers(keys: NDArray[Any], starts: NDArray[Any], stops: NDArray[Any]) -> _Containers:
    """Make run containers (a valid form, not always the canonical one).

    Args:
        keys: container key of each run, ascending, at least one.
        starts: first value of each run within its container.
        stops: value after the last; runs of a container ascend and do not touch.
    """
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counts = np.diff(np.append(first, len(keys)))
    cards = np.add.reduceat(stops - starts, first, dtype=np.int64)
    containers = len(first)
    # Each container's words are its run count and then its pairs: the pairs move up by one word per container.
    words = np.empty(containers + 2 * len(keys), "<u2")
    shift = np.repeat(np.arange(1, containers + 1), counts) + 2 * np.arange(len(keys))
    words[first * 2 + np.arange(containers)] = counts
    words[shift] = starts
    words[shift + 1] = stops - starts - 1
    return _Containers(keys[first], cards, 2 + 4 * counts, True, [words])


def _load(pieces: list[_Containers]) -> BitMap:
    """Put containers into a bitmap: their keys ascend from piece to piece."""
    return BitMap.deserialize(_serialize(pieces)) if pieces else BitMap()


def _serialize(pieces: list[_Containers]) -> bytes:
    keys = np.concatenate([piece.keys for piece in pieces])
    cards = np.concatenate([piece.cards for piece in pieces])
    sizes = np.concatenate([piece.sizes for piece in pieces])
    is_run = np.repeat([piece.runs for piece in pieces], [len(piece.keys) for piece in pieces])
    if is_run.any():
        flags = np.packbits(is_run, bitorder="little")
        header = struct.pack("<HH", COOKIE_RUNS, len(keys) - 1) + flags.tobytes()
    else:
        header = struct.pack("<II", COOKIE_NO_RUNS, len(keys))
    has_offsets = not is_run.any() or len(keys) >= OFFSETS_FROM
    ends = len(header) + (8 if has_offsets else 4) * len(keys) + np.cumsum(sizes)
    offsets = (ends - sizes).astype("<u4") if has_offsets else np.zeros(0, "<u4")
    descriptors = np.stack([keys, cards - 1], axis=1).astype("<u2")
    payload = itertools.chain.from_iterable(piece.payload for piece in pieces)
    return b"".join([header, descriptors.data, offsets.data, *(part.data for part in payload)])
