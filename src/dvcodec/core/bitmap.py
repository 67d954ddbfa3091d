"""32-bit roaring bitmaps: a walked one, checks of its values, and bitmaps built from positions and ranges.

`roaring.walk` builds the view, checks the structure, and documents the format.
What builds bitmaps has no Python loop over positions.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core.cursor import first_true
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import too_little_memory
from dvcodec.core.ragged import gather

ARRAY_MAX = 4096
"""Largest cardinality of an array container (values)."""
BITSET_BYTES = 8192


def payload_sizes(cards: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes of array and bitset containers with these cardinalities."""
    return np.where(cards <= ARRAY_MAX, 2 * cards, BITSET_BYTES)


class ContainerKind(IntEnum):
    """The three container kinds of the specification."""

    ARRAY = 0
    BITSET = 1
    RUN = 2


class ContainerMix(NamedTuple):
    """The number of containers of each kind."""

    arrays: int = 0
    bitsets: int = 0
    runs: int = 0

    def plus(self, other: ContainerMix) -> ContainerMix:
        """Return the sum of both."""
        return ContainerMix(self.arrays + other.arrays, self.bitsets + other.bitsets, self.runs + other.runs)


class Runs(NamedTuple):
    """All runs of a bitmap's run containers, in order."""

    starts: NDArray[np.int64]
    """First value of each run, within its container."""
    lengths: NDArray[np.int64]
    """Number of values of each run."""
    owner: NDArray[np.int64]
    """Index of the run's container."""


@dataclass(frozen=True, slots=True, eq=False)
class BitmapView:
    """A serialized 32-bit bitmap and the positions of its containers; arrays have one entry per container.

    Attributes:
        data: exactly the bitmap's bytes.
        keys: uint16, high half of the container's values.
        cards: int64, number of values.
        kinds: uint8, a `ContainerKind`.
        starts: int64, offset of the payload in `data`.
        sizes: int64, bytes of the payload.
        source: name of the source, for errors.
        base: offset of `data` in the source, for errors.
    """

    data: memoryview
    keys: NDArray[np.uint16]
    cards: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    source: str | None = None
    base: int = 0

    @property
    def cardinality(self) -> int:
        """Number of values, from the descriptors."""
        return int(self.cards.sum())

    @property
    def mix(self) -> ContainerMix:
        """How many containers of each kind."""
        return ContainerMix(*np.bincount(self.kinds, minlength=3).tolist())

    @property
    def min(self) -> int | None:
        """Lowest value, None if the bitmap is empty.

        Raises:
            NotCanonical: it is in a bitset without any bit set.
        """
        return self._edge(0) if len(self.keys) else None

    @property
    def max(self) -> int | None:
        """Highest value, None if the bitmap is empty.

        Raises:
            NotCanonical: it is in a bitset without any bit set.
        """
        return self._edge(-1) if len(self.keys) else None

    def _edge(self, container: int) -> int:
        """Lowest value of the first container (0) or highest of the last (-1)."""
        start, size = int(self.starts[container]), int(self.sizes[container])
        words = np.frombuffer(self.data[start : start + size], "<u2")
        kind = int(self.kinds[container])
        if kind == ContainerKind.ARRAY:
            low = int(words[container])
        elif kind == ContainerKind.RUN:
            low = int(words[1]) if container == 0 else int(words[-2]) + int(words[-1])
        else:
            found = np.flatnonzero(words)
            if not len(found):
                raise self._fail(
                    container % len(self.keys),
                    "population is not the cardinality in the header",
                    expected=int(self.cards[container]),
                    actual=0,
                )
            word = int(found[container])
            bits = int(words[word])
            low = 16 * word + ((bits & -bits) if container == 0 else bits).bit_length() - 1
        return int(self.keys[container]) << 16 | low

    @property
    def words(self) -> NDArray[np.uint16]:
        """The payloads of the view's containers, as little-endian 16-bit words (every payload has an even size)."""
        if not len(self.starts):
            return np.zeros(0, np.uint16)
        return np.frombuffer(self.data[int(self.starts[0]) : int(self.starts[-1] + self.sizes[-1])], "<u2")

    @property
    def word_starts(self) -> NDArray[np.int64]:
        """Index of each container's first word in `words`."""
        return (self.starts - self.starts[0]) >> 1 if len(self.starts) else self.starts

    def runs(self) -> Runs:
        """Return the runs of all run containers, in order."""
        chosen, counts, pairs = self._run_pairs()
        return Runs(pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64) + 1, np.repeat(chosen, counts))

    def _run_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16]]:
        """Return the run containers, how many runs each has, and all runs as stored: first value, length - 1."""
        chosen = np.flatnonzero(self.kinds == ContainerKind.RUN)
        counts = (self.sizes[chosen] - 2) >> 2
        words, firsts = self.words, self.word_starts[chosen]
        if len(chosen) < len(self.kinds):
            return chosen, counts, gather(words, firsts + 1, 2 * counts).reshape(-1, 2)
        kept = np.ones(len(words), np.bool_)  # nothing but runs and their counts: faster than `gather`
        kept[firsts] = False
        return chosen, counts, words[kept].reshape(-1, 2)

    def check(self) -> None:
        """Check what `roaring.walk` does not: array order and bitset population.

        Raises:
            NotCanonical: an array is not strictly ascending, or a bitset's population is not its cardinality.
        """
        if (self.kinds == ContainerKind.BITSET).any():
            self.load()  # CRoaring counts bits many times faster than NumPy
        else:
            self._check_arrays()

    def load(self) -> FrozenBitMap:
        """Build the bitmap; checks array order and bitset population.

        Raises:
            NotCanonical: see `check`.
            LimitExceeded: there is too little memory for it.
        """
        if not len(self.keys):
            return FrozenBitMap()
        try:
            return FrozenBitMap.deserialize(self.data)  # type: ignore[arg-type]  # takes any buffer
        except ValueError as err:
            self._check_arrays()
            self._check_bitsets()
            # The bitmap is valid, so CRoaring could not allocate it: pyroaring raises the same error for both.
            raise too_little_memory("the bitmap", self.source, err) from None

    def _fail(self, container: int, what: str, offset: int | None = None, **values: object) -> NotCanonical:
        """Build an error at `offset` in the data, by default at the container's payload."""
        kind = ContainerKind(int(self.kinds[container])).name.lower()
        where = f"{kind} container {container} (key 0x{int(self.keys[container]):04x})"
        offset = int(self.starts[container]) if offset is None else offset
        return NotCanonical(f"{what} in {where}", source=self.source, offset=self.base + offset, **values)

    def _check_arrays(self) -> None:
        words = self.words
        # One pass over all payloads: descents between containers, or in containers of other kinds, are fine.
        descends = words[1:] <= words[:-1]
        descends[self.word_starts[1:] - 1] = False
        if not descends.any():
            return
        descents = np.flatnonzero(descends)
        owner = np.searchsorted(self.word_starts, descents, side="right") - 1
        if (i := first_true(self.kinds[owner] == ContainerKind.ARRAY)) is not None:
            word = descents[i]
            raise self._fail(
                owner[i],
                "values not strictly ascending",
                self.starts[0] + 2 * word + 2,
                expected=f"a value above {words[word]}",
                actual=words[word + 1],
            )

    def _check_bitsets(self) -> None:
        chosen = np.flatnonzero(self.kinds == ContainerKind.BITSET)
        if not len(chosen):
            return
        bits = np.bitwise_count(self.words)
        bounds = np.stack([self.word_starts[chosen], self.word_starts[chosen] + BITSET_BYTES // 2], axis=1).ravel()
        found = np.add.reduceat(np.append(bits, np.uint8(0)), bounds, dtype=np.int64)[::2]
        self._check_cards(chosen, found, "population is not the cardinality in the header")

    def _check_cards(self, chosen: NDArray[np.int64], counted: NDArray[np.int64], problem: str) -> None:
        """Compare the values counted in the `chosen` containers with the header."""
        if (i := first_true(counted != self.cards[chosen])) is not None:
            raise self._fail(chosen[i], problem, expected=self.cards[chosen[i]], actual=counted[i])

    def check_runs(self) -> None:
        """Check every run container; `roaring.walk` calls this, as no library compares runs with the header.

        Raises:
            NotCanonical: a container without runs, a run past 65535, runs that overlap, touch or descend, or lengths
                whose sum is not the cardinality in the header.
        """
        chosen, counts, pairs = self._run_pairs()
        if not len(chosen):
            return
        if (i := first_true(counts == 0)) is not None:
            raise self._fail(chosen[i], "no run", expected="at least 1 run", actual=0)
        starts, lengths = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32) + 1
        ends = starts + lengths
        first = np.cumsum(counts) - counts

        def fail(run: int, problem: str, expected: str, actual: int) -> NotCanonical:
            nth = int(np.searchsorted(first, run, side="right")) - 1
            container = int(chosen[nth])
            offset = int(self.starts[container]) + 2 + 4 * (run - int(first[nth]))
            return self._fail(container, problem, offset, expected=expected, actual=actual)

        if (i := first_true(ends > 1 << 16)) is not None:
            raise fail(i, "run ends past 65535", "a last value of at most 65535", ends[i] - 1)
        descends = starts[1:] <= ends[:-1]
        descends[first[1:] - 1] = False  # between containers
        if (i := first_true(descends)) is not None:
            raise fail(i + 1, "runs unsorted, overlapping or unmerged", f"a start above {ends[i]}", starts[i + 1])
        sums = np.add.reduceat(lengths, first, dtype=np.int64)
        self._check_cards(chosen, sums, "run lengths do not add up to the cardinality in the header")


COOKIE_NO_RUNS = 12346
COOKIE_RUNS = 12347
OFFSETS_FROM = 4
"""A bitmap with run containers has an offset table if it has at least this many containers."""
MAX_CONTAINERS = 1 << 16
MAX_RANGE_CONTAINERS = 1 << 24
"""Upper bound on the blocks of 65,536 rows that `from_ranges` covers: 2**40 rows."""
_KEY_ROWS = 1 << 32
Pieces: TypeAlias = list[bytes | memoryview]
"""Pieces of bytes, joined once at the end."""
_PIECE = 1 << 18
"""Values per step: they fit the CPU caches; at least as many as a container can have."""
_CLOSE = 16
"""Values are dense if their range is less than this many times their number: a mask of the range, one byte a row, then
takes less than twice the memory of the values, eight bytes each."""


def ascending(values: NDArray[np.uint64]) -> NDArray[np.unsignedinteger[Any]]:
    """Return the distinct values in ascending order; there must be at least one, and `values` is not modified."""
    return values if _ascends(values) else _sorted(values)


def _ascends(values: NDArray[np.unsignedinteger[Any]]) -> bool:
    """Return whether values strictly ascend; piece by piece, as the first descent is usually early."""
    return all(
        bool((values[at + 1 : at + _PIECE + 1] > values[at : at + _PIECE][: len(values) - at - 1]).all())
        for at in range(0, len(values) - 1, _PIECE)
    )


def _sorted(values: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
    """Sort values and drop duplicates.

    Dense values are set in a mask and read back from it, which takes a tenth of the time.
    """
    low, high = values.min(), values.max()
    if int(high - low) < _CLOSE * len(values):
        mask = np.zeros(int(high - low) + 1, np.bool_)
        mask[values - low if low else values] = True
        return np.asarray(np.flatnonzero(mask).astype(np.uint64) + low)
    ordered = values.astype(np.uint32 if high < _KEY_ROWS else np.uint64)
    ordered.sort()  # half the width sorts in half the time
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


def from_ranges(ranges: NDArray[np.int64]) -> dict[int, FrozenBitMap]:
    """Build bitmaps of run containers from disjoint ascending ranges, without a loop over ranges.

    Args:
        ranges: int64[k, 2], start and stop of each, none empty; order is not checked.

    Returns:
        High half of the positions -> bitmap of the low halves, keys ascending.

    Raises:
        UsageError: the ranges span more than 2**24 blocks of 65,536 rows (2**40 rows).
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
        data = serialize_containers([_run_containers(container[a:b] & 0xFFFF, start[a:b], stop[a:b])])
        bitmaps[int(keys[a])] = FrozenBitMap.deserialize(b"".join(data))
    return bitmaps


def merge_touching(ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge ranges that touch or overlap; `ranges` is int64[k, 2], ascending by start."""
    if not len(ranges):
        return ranges.reshape(0, 2)
    reach = np.maximum.accumulate(ranges[:, 1])
    begins = np.flatnonzero(np.append(True, ranges[1:, 0] > reach[:-1]))
    return np.stack([ranges[begins, 0], reach[np.append(begins[1:], len(ranges)) - 1]], axis=1)


def from_sorted(values: NDArray[np.uint32]) -> FrozenBitMap:
    """Build a bitmap of array and bitset containers from strictly ascending values (not checked)."""
    values = np.asarray(values, np.uint32)
    return FrozenBitMap.deserialize(b"".join(serialize_sorted(values, runs=False))) if len(values) else FrozenBitMap()


def serialize_sorted(values: NDArray[np.unsignedinteger[Any]], *, runs: bool) -> Pieces:
    """Serialize the low 32 bits of strictly ascending values that share their high half.

    Twice as fast as adding the values to a bitmap and serializing that.
    """
    pieces = []
    start = 0
    while start < len(values):
        stop = len(values)
        if stop - start > _PIECE:  # cut between containers: none has more values than a piece
            stop = start + int(np.searchsorted(values[start : start + _PIECE], values[start + _PIECE] >> 16 << 16))
        pieces.append(_containers(values[start:stop], runs=runs))
        start = stop
    return serialize_containers(pieces)


class Containers(NamedTuple):
    """Containers in serialized form, one entry per container.

    Attributes:
        keys: high half of the values.
        cards: number of values.
        sizes: bytes of the payload.
        is_run: whether it is a run container.
        payload: the payloads in container order, in parts.
    """

    keys: NDArray[Any]
    cards: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_run: NDArray[np.bool_]
    payload: list[NDArray[Any]]


def _containers(values: NDArray[np.unsignedinteger[Any]], *, runs: bool) -> Containers:
    """Build containers from strictly ascending values; with `runs`, run containers where they are the smallest."""
    blocks, bounds = _blocks(values)
    low = values.astype("<u2")
    cards = np.diff(bounds)
    sizes = payload_sizes(cards)
    is_run = np.zeros(len(blocks), np.bool_)
    words, ends = np.zeros(0, "<u2"), np.zeros(len(blocks) + 1, np.int64)
    if runs:
        follows = np.empty(len(low), np.bool_)
        np.equal(low[1:] - low[:-1], 1, out=follows[1:])
        follows[bounds[:-1]] = False
        counts = cards - np.add.reduceat(follows, bounds[:-1], dtype=np.uint32)
        is_run = 2 + 4 * counts < sizes
        if is_run.any():
            begins = np.append(np.flatnonzero(~follows), len(low))
            chosen = np.flatnonzero(np.repeat(is_run, counts))
            starts, stops = begins[chosen], begins[chosen + 1]
            words = _run_words(low[starts], stops - starts, counts[is_run])
            sizes = np.where(is_run, 2 + 4 * counts, sizes)
            np.cumsum(np.where(is_run, sizes >> 1, 0), out=ends[1:])
    kinds = np.where(is_run, ContainerKind.RUN, cards > ARRAY_MAX)
    payload: list[NDArray[Any]] = []
    cuts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    for a, b in itertools.pairwise(cuts):
        if kinds[a] == ContainerKind.ARRAY:
            payload.append(low[bounds[a] : bounds[b]])
        elif kinds[a] == ContainerKind.RUN:
            payload.append(words[ends[a] : ends[b]])
        else:
            payload += [_bitset(low[bounds[i] : bounds[i + 1]]) for i in range(a, b)]
    return Containers(blocks & 0xFFFF, cards, sizes, is_run, payload)


def _blocks(values: NDArray[np.unsignedinteger[Any]]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the blocks of 65,536 with ascending values, and the index where each begins: [n], int64[n + 1]."""
    first, last = int(values[0]) >> 16, int(values[-1]) >> 16
    if last - first > len(values) >> 3:  # sparse: comparing all values is faster than a search per block
        blocks = values >> 16
        begins = np.flatnonzero(blocks[1:] != blocks[:-1]) + 1
        bounds = np.concatenate([[0], begins, [len(values)]])
        return blocks[bounds[:-1]], bounds
    blocks = np.arange(first, last + 1).astype(values.dtype)
    bounds = np.full(len(blocks) + 1, len(values))
    bounds[:-1] = np.searchsorted(values, blocks << 16)
    filled = bounds[1:] > bounds[:-1]
    return (blocks, bounds) if filled.all() else (blocks[filled], np.append(bounds[:-1][filled], len(values)))


def _bitset(low: NDArray[np.uint16]) -> NDArray[np.uint8]:
    bits = np.zeros(1 << 16, np.bool_)
    bits[low.astype(np.intp)] = True
    return np.packbits(bits, bitorder="little")


def _run_containers(keys: NDArray[Any], starts: NDArray[Any], stops: NDArray[Any]) -> Containers:
    """Build run containers (valid, but not always canonical).

    Args:
        keys: container key of each run, ascending, at least one.
        starts: first value of each run within its container.
        stops: value after the last; runs of a container ascend and do not touch.
    """
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counts = np.diff(np.append(first, len(keys)))
    cards = np.add.reduceat(stops - starts, first)
    words = _run_words(starts, stops - starts, counts)
    return Containers(keys[first], cards, 2 + 4 * counts, np.ones(len(first), np.bool_), [words])


def _run_words(starts: NDArray[Any], lengths: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.uint16]:
    """Write the payloads of run containers with `counts[i]` runs each: the number of runs, then the runs."""
    first = np.cumsum(counts) - counts
    # One word per container, its number of runs, comes before its pairs.
    words = np.empty(len(counts) + 2 * len(starts), "<u2")
    shift = np.repeat(np.arange(1, len(counts) + 1), counts) + 2 * np.arange(len(starts))
    words[first * 2 + np.arange(len(counts))] = counts
    words[shift] = starts
    words[shift + 1] = lengths - 1
    return words


def serialize_containers(pieces: list[Containers]) -> Pieces:
    """Serialize a bitmap from pieces of containers, whose keys must ascend."""
    keys = np.concatenate([piece.keys for piece in pieces])
    cards = np.concatenate([piece.cards for piece in pieces])
    sizes = np.concatenate([piece.sizes for piece in pieces])
    is_run = np.concatenate([piece.is_run for piece in pieces])
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
    return [header, *(part.reshape(-1).view(np.uint8).data.toreadonly() for part in (descriptors, offsets, *payload))]
