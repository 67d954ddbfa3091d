"""Roaring bitmaps in the portable formats of 32 and 64 bits, walked and checked without expanding them.

Specification: RoaringFormatSpec, https://github.com/RoaringBitmap/RoaringFormatSpec. All values are little-endian::

    no run container    u32 12346 | u32 n                              n in 0..65536
    with run containers u16 12347 | u16 n - 1 | ceil(n/8) flag bytes    bit i: container i holds runs
    descriptors         n x (u16 key, u16 cardinality - 1)              keys strictly ascending
    offsets             n x u32, from the first cookie byte             absent if there are runs and n < 4
    containers          array   c x u16 ascending                       c <= 4096
                        bitset  8192 bytes, bit v & 7 of byte v >> 3    c > 4096
                        runs    u16 r, r x (u16 start, u16 length - 1)

Libraries differ in what they check; `walk` and `BitmapView.check` together check everything.

Positions of 64 bits have the format of "Extension for 64-bit implementations"::

    u64 count | count x ( u32 key | one complete 32-bit bitmap )      keys ascending, unsigned, distinct

`key` is the high half of the row positions in the bitmap that follows. There are no lengths: only
walking the bitmap finds the next key. Java's deletion vectors have every key from 0 to the highest; keys without rows
("gap keys") have the 8-byte empty bitmap.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap, FrozenBitMap

from dvcodec.core.cursor import BytesLike, Cursor, first_true
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, too_little_memory
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


EMPTY_BITMAP = COOKIE_NO_RUNS.to_bytes(4, "little") + bytes(4)
"""The only valid encoding of the empty bitmap, 8 bytes."""
_SOME_VALUES = 1 << 22
"""Values that are expanded at a time."""


def walk(cursor: Cursor) -> BitmapView:
    """Walk one bitmap at the cursor and move past it; nothing is expanded.

    Checked: cookie, container count, flag padding, a run cookie without runs, key order, the offset table, payloads
    within the window, and all runs (see `BitmapView.check_runs`). Not checked: array order and bitset population
    (`BitmapView.check` or `load`).

    Raises:
        Truncated: the window ends first.
        BadMagic: not a roaring cookie.
        NotCanonical: the structure breaks a rule of the specification.
    """
    start = cursor.pos
    count, is_run = _read_cookie(cursor)
    if not count:
        none = np.zeros(0, np.int64)
        empty = cursor.view[start : cursor.pos]
        return BitmapView(empty, none.astype(np.uint16), none, none.astype(np.uint8), none, none)
    descriptors_pos = cursor.pos
    descriptors = np.frombuffer(cursor.take(4 * count, "roaring descriptors"), "<u2").reshape(count, 2)
    keys, cards = descriptors[:, 0], descriptors[:, 1].astype(np.int64) + 1
    if (i := first_true(keys[1:] <= keys[:-1])) is not None:
        raise cursor.error(
            NotCanonical,
            "container keys not strictly ascending",
            at=descriptors_pos + 4 * (i + 1),
            expected=f"a key above {keys[i]}",
            actual=keys[i + 1],
        )
    table_pos, table = cursor.pos, None
    if is_run is None or count >= OFFSETS_FROM:
        table = np.frombuffer(cursor.take(4 * count, "roaring offset table"), "<u4").astype(np.int64)
    header = cursor.pos - start
    sizes = payload_sizes(cards)
    if is_run is not None:
        sizes = _with_run_sizes(cursor, start, header, sizes, is_run, table)
    ends = header + np.cumsum(sizes)
    starts = ends - sizes
    if table is not None:
        offsets = table
        # From the first container beyond the window on, `take` reports the error.
        if (i := first_true((offsets != starts) & (starts <= cursor.end - start))) is not None:
            raise cursor.error(
                NotCanonical, f"offset of container {i}", at=table_pos + 4 * i, expected=starts[i], actual=offsets[i]
            )
    cursor.take(int(ends[-1]) - header, "roaring containers")
    kinds = (cards > ARRAY_MAX).astype(np.uint8)
    if is_run is not None:
        kinds[is_run] = ContainerKind.RUN
    data = cursor.view[start : cursor.pos]
    view = BitmapView(data, keys, cards, kinds, starts, sizes, cursor.source, cursor.base + start)
    view.check_runs()
    return view


def _read_cookie(cursor: Cursor) -> tuple[int, NDArray[np.bool_] | None]:
    """Return the container count and, if the cookie announces runs, which containers have them."""
    start = cursor.pos
    cookie = cursor.u32le("roaring cookie")
    if cookie == COOKIE_NO_RUNS:
        count = cursor.u32le("roaring container count")
        if count > MAX_CONTAINERS:
            raise cursor.error(
                NotCanonical, "container count", at=start + 4, expected=f"at most {MAX_CONTAINERS}", actual=count
            )
        return count, None
    if cookie & 0xFFFF != COOKIE_RUNS:
        raise cursor.error(
            BadMagic, "roaring cookie", at=start, expected=f"{COOKIE_NO_RUNS} or {COOKIE_RUNS}", actual=f"{cookie:#x}"
        )
    count = (cookie >> 16) + 1
    flags_pos = cursor.pos
    flags = np.frombuffer(cursor.take((count + 7) // 8, "run flags"), np.uint8)
    bits = np.unpackbits(flags, bitorder="little").view(np.bool_)
    if bits[count:].any():
        raise cursor.error(
            NotCanonical,
            "padding bits of the run flags",
            at=flags_pos + len(flags) - 1,
            expected="0 bits",
            actual=f"{int(flags[-1]):#04x}",
        )
    if not bits.any():
        # Valid roaring, but Iceberg and Delta in Java re-serialize to find the next bitmap, and then miss it.
        raise cursor.error(NotCanonical, "run cookie without a run container", at=start)
    return count, bits[:count]


def _with_run_sizes(
    cursor: Cursor,
    start: int,
    header: int,
    sizes: NDArray[np.int64],
    is_run: NDArray[np.bool_],
    table: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Fill in the payload sizes of run containers: 2 + 4 r bytes, where r is the first word of the payload.

    With an offset table, all r are read at once, by its offsets; `walk` then compares the table with the sizes. Without
    one there are at most three containers.
    """
    sizes = sizes.copy()
    window = np.frombuffer(cursor.view[start : cursor.end], np.uint8)
    if table is not None:
        # An offset outside the window is either corrupt, or the window is too short: `walk` reports which.
        hints = np.minimum(table[is_run], len(window) - 2)
        sizes[is_run] = 2 + 4 * (window[hints].astype(np.int64) | window[hints + 1].astype(np.int64) << 8)
        return sizes
    pos = header
    for i in range(len(sizes)):
        if is_run[i]:
            if pos + 2 > len(window):
                raise cursor.error(Truncated, "roaring containers", at=start + pos, expected="2 bytes")
            sizes[i] = 2 + 4 * (int(window[pos]) | int(window[pos + 1]) << 8)
        pos += int(sizes[i])
    return sizes


_WRITTEN_AGAIN = 1 << 20
"""Bytes up to which building and writing a bitmap takes less time than walking it."""


def read_written(data: memoryview) -> FrozenBitMap | None:
    """Build a bitmap whose bytes are those that CRoaring writes for it; None for all others, which `walk` judges.

    CRoaring checks sizes, keys, array order, runs and populations. What it does not compare (cookie, padding, offset
    table, the cardinalities of runs) it writes itself, so the same bytes are what `walk` and `load` accept. Those take
    six times as long for run containers, and for few values.
    """
    if not 0 < len(data) <= _WRITTEN_AGAIN:  # pyroaring takes no empty buffer
        return None
    try:
        bitmap = FrozenBitMap.deserialize(data)  # type: ignore[arg-type]  # takes any buffer
    except ValueError:
        return None
    written = bitmap.serialize()
    # `startswith` compares with a view in one call, where `==` takes them apart by the byte.
    return bitmap if len(written) == len(data) and written.startswith(data) else None


def serialize(bitmap: AbstractBitMap, *, run_optimize: bool = True) -> bytes:
    """Serialize a bitmap in a form that depends only on its values.

    Args:
        bitmap: any 32-bit bitmap; not modified.
        run_optimize: True gives the bytes of Java's ``RoaringBitmap``: values added one by one, then
            ``runOptimize()``, then ``serialize()``. False gives no run container, like roaring-rs
            without ``optimize()`` and CRoaring without ``run_optimize``.
    """
    if not run_optimize:
        return _without_runs(bitmap).serialize()
    copy = BitMap(bitmap, optimize=False)
    copy.run_optimize()
    data = copy.serialize()
    if data.startswith(EMPTY_BITMAP[:4]):  # no run container
        return data
    ties = _tied_runs(data)
    if not len(ties):
        return data
    span = BitMap()
    for key in ties.tolist():
        span.add_range(key << 16, (key + 1) << 16)
    tied = copy & span
    copy -= span
    copy |= from_sorted(np.frombuffer(tied.to_array(), np.uint32))
    return copy.serialize()


def _without_runs(bitmap: AbstractBitMap) -> AbstractBitMap:
    """Return the values in array and bitset containers, expanded a few at a time: a run of four bytes has 65,536."""
    cuts = [bitmap[i] >> 16 << 16 for i in range(_SOME_VALUES, len(bitmap), _SOME_VALUES)]  # between containers
    if not cuts:
        return from_sorted(np.frombuffer(bitmap.to_array(), np.uint32))
    ranges = itertools.pairwise([0, *cuts, bitmap.max() + 1])
    parts = (bitmap & BitMap(range(start, stop)) for start, stop in ranges)
    return BitMap().union(*(from_sorted(np.frombuffer(part.to_array(), np.uint32)) for part in parts))


def _tied_runs(data: BytesLike) -> NDArray[np.uint16]:
    """Return the keys of run containers whose array form has the same size.

    Java turns an array of c values into r runs only if 2c > 2 + 4r; at a tie (c = 2r + 1), both Java and CRoaring keep
    the container that was there before.
    """
    view = walk(Cursor(data))
    counts = (view.sizes - 2) >> 2
    tied = (view.kinds == ContainerKind.RUN) & (view.cards <= 2 * counts + 1)
    return np.asarray(view.keys[tied])


MAX_KEY = 2**32 - 1
"""Highest key in the 64-bit format."""
MAX_DV_KEY = 2**31 - 2
"""Highest key of a deletion vector (Iceberg ``RoaringPositionBitmap.MAX_POSITION``, Delta's ``RoaringBitmapArray``)."""
MAX_DV_POSITION = MAX_DV_KEY << 32 | 1 << 31
"""Highest row position of a deletion vector, 0x7ffffffe80000000 (from the same constants)."""
MIN_BUCKET = 12
"""Bytes of the smallest bucket: a key and the empty bitmap."""

_GAP = np.frombuffer(EMPTY_BITMAP, "<u4")


@dataclass(frozen=True, slots=True, eq=False)
class VectorView:
    """A serialized 64-bit bitmap, walked but not expanded.

    Attributes:
        data: exactly the vector's bytes.
        bitmaps: (key, bitmap) of every non-empty bitmap, ascending.
        gaps: number of keys with the empty bitmap.
    """

    data: memoryview
    bitmaps: tuple[tuple[int, BitmapView], ...]
    gaps: int

    @property
    def cardinality(self) -> int:
        """Number of rows."""
        return sum(view.cardinality for _, view in self.bitmaps)

    @property
    def min(self) -> int | None:
        """Lowest position, None if the vector is empty.

        Raises:
            NotCanonical: see `BitmapView.min`.
        """
        return None if not self.bitmaps else self.bitmaps[0][0] << 32 | (self.bitmaps[0][1].min or 0)

    @property
    def max(self) -> int | None:
        """Highest position, None if the vector is empty.

        Raises:
            NotCanonical: see `BitmapView.max`.
        """
        return None if not self.bitmaps else self.bitmaps[-1][0] << 32 | (self.bitmaps[-1][1].max or 0)

    @property
    def mix(self) -> ContainerMix:
        """How many containers of each kind."""
        mix = ContainerMix()
        for _, view in self.bitmaps:
            mix = mix.plus(view.mix)
        return mix

    def check(self) -> None:
        """Check what `walk64` does not: array order and bitset population.

        Raises:
            NotCanonical: see `BitmapView.check`.
        """
        for _, view in self.bitmaps:
            view.check()

    def load(self) -> dict[int, FrozenBitMap]:
        """Build one bitmap per key; checks array order and bitset population.

        Raises:
            NotCanonical: see `BitmapView.check`.
        """
        return {key: view.load() for key, view in self.bitmaps}


def walk64(cursor: Cursor, *, limits: Limits = DEFAULT_LIMITS, max_key: int = MAX_DV_KEY) -> VectorView:
    """Walk a 64-bit bitmap at the cursor and move past it.

    Checked: the count against the remaining bytes, key order and range, every bitmap (see `roaring.walk`), and
    `limits`. Not checked: array order and bitset population (`VectorView.check`), bytes after the vector.

    Raises:
        Truncated: the window ends first, or is too short for the announced number of bitmaps.
        NotCanonical: keys out of order or range, or a bitmap that breaks its rules.
        LimitExceeded: more rows than `limits` allow.
    """
    start = cursor.pos
    count = cursor.u64le("bitmap count")
    if count > MAX_KEY:
        raise cursor.error(NotCanonical, "bitmap count", at=start, expected=f"at most {MAX_KEY}", actual=count)
    most = cursor.remaining // MIN_BUCKET
    if count > most:
        expected = f"at most {most} in {cursor.remaining} bytes"
        raise cursor.error(Truncated, "bitmap count", at=start, expected=expected, actual=count)
    bitmaps: list[tuple[int, BitmapView]] = []
    left, last, cardinality = count, -1, 0
    while left:
        if cursor.view[cursor.pos + 4 : min(cursor.pos + 12, cursor.end)] == EMPTY_BITMAP:
            gaps, last = _skip_gaps(cursor, left, last, max_key)
            left -= gaps
            continue
        bucket = cursor.pos
        key = cursor.u32le("bitmap key")
        if key <= last or key > max_key:
            raise _key_error(cursor, bucket, key, last, max_key)
        view = walk(cursor)
        cardinality += view.cardinality
        limits.check("max_cardinality", cardinality, cursor, bucket)
        bitmaps.append((key, view))
        left, last = left - 1, key
    return VectorView(cursor.view[start : cursor.pos], tuple(bitmaps), count - len(bitmaps))


def _key_error(cursor: Cursor, offset: int, key: int, last: int, max_key: int) -> NotCanonical:
    """Return the error for a key that is not above `last`, or above `max_key`."""
    if key <= last:
        return cursor.error(
            NotCanonical, "bitmap keys not strictly ascending", at=offset, expected=f"a key above {last}", actual=key
        )
    return cursor.error(NotCanonical, "bitmap key", at=offset, expected=f"at most {max_key:#x}", actual=f"{key:#x}")


def _skip_gaps(cursor: Cursor, left: int, last: int, max_key: int) -> tuple[int, int]:
    """Skip consecutive gap keys; return their number and the last key."""
    total = 0
    for records in leading_gaps(cursor, left, _GAP):
        keys = records[:, 0].astype(np.int64)
        if (i := first_true((np.diff(keys, prepend=last) <= 0) | (keys > max_key))) is not None:
            before = keys[i - 1] if i else last
            raise _key_error(cursor, cursor.pos + i * MIN_BUCKET, keys[i], before, max_key)
        total += len(keys)
        last = int(keys[-1]) if len(keys) else last
    return total, last


def leading_gaps(cursor: Cursor, left: int, gap: NDArray[np.uint32]) -> Iterator[NDArray[np.uint32]]:
    """Yield up to `left` records of three words at the cursor that end with `gap`, in growing steps; move past them.

    A vector of 2 GiB may have over a hundred million of them: one at a time would take minutes.
    """
    step = 16
    while left:
        size = min(step, left, cursor.remaining // MIN_BUCKET)
        records = np.frombuffer(cursor.view[cursor.pos : cursor.pos + size * MIN_BUCKET], "<u4").reshape(size, 3)
        differs = records[:, 2] != gap[-1]
        for i in range(2, len(gap) + 1):  # by column: `any` of three words each takes seven times as long
            differs |= records[:, 3 - i] != gap[-i]
        others = np.flatnonzero(differs)
        gaps = int(others[0]) if len(others) else size
        yield records[:gaps]
        cursor.pos += gaps * MIN_BUCKET
        if gaps < step:
            return
        left -= gaps
        step = min(step * 8, 1 << 20)


def encoded_size(sizes: dict[int, int], gap_keys: bool) -> int:
    """Return the bytes of the encoded vector; `sizes` has the bytes of each key's serialized bitmap."""
    size = 8 + sum(4 + size for size in sizes.values())
    gaps = max(sizes) + 1 - len(sizes) if sizes and gap_keys else 0
    return size + gaps * MIN_BUCKET


def pieces_of(parts: dict[int, Pieces], *, gap_keys: bool = True, max_size: int = 2**31 - 1) -> Pieces:
    """Encode a 64-bit bitmap, in pieces.

    Args:
        parts: high half of the positions -> serialized bitmap of the low halves, see `RowSet.serialized`; keys ascend.
        gap_keys: True writes every key from 0 to the highest, the missing ones as empty bitmaps (Java's
            deletion vectors); False writes only keys with rows (roaring-rs, CRoaring, ``Roaring64NavigableMap``).
        max_size: upper bound on the bytes of the vector.

    Raises:
        UsageError: the vector would be larger than `max_size` bytes.
    """
    sizes = {key: sum(map(len, pieces)) for key, pieces in parts.items()}
    size = encoded_size(sizes, gap_keys)
    if size > max_size:
        hint = ""
        if gap_keys and encoded_size(sizes, gap_keys=False) <= max_size:
            hint = f": the gap keys below key {max(parts)} take most of it, gap_keys=False omits them"
        raise UsageError(f"the encoded vector would have {size} bytes, more than the {max_size} that fit{hint}")
    count = max(parts) + 1 if parts and gap_keys else len(parts)
    out: Pieces = [struct.pack("<Q", count)]
    for last, key in itertools.pairwise([-1, *parts]):
        if gap_keys and key > last + 1:
            out.append(_gap_records(last + 1, key))
        out += (struct.pack("<I", key), *parts[key])
    return out


def _gap_records(first: int, stop: int) -> memoryview:
    records = np.empty((stop - first, 3), "<u4")
    records[:, 0] = np.arange(first, stop)
    records[:, 1:] = _GAP
    return records.data.cast("B")


_ALL = np.uint64(2**64 - 1)
_BITS_AT_ONCE = 1 << 17
"""Values set in a mask per step: they fit the CPU caches."""


def ranges_of(view: BitmapView) -> NDArray[np.int64]:
    """Return the maximal ranges ``[start, stop)`` of a 32-bit bitmap, int64[k, 2], ascending."""
    high = view.keys.astype(np.int64) << 16
    runs = view.runs()
    first = runs.starts + high[runs.owner]
    arrays = np.flatnonzero(view.kinds == ContainerKind.ARRAY)
    parts = [np.stack([first, first + runs.lengths], axis=1), _value_ranges(_array_values(view, arrays, high)[0])]
    parts += [
        _bitset_ranges(view, int(i)) + high[i] for i in np.flatnonzero(view.kinds == ContainerKind.BITSET).tolist()
    ]
    ranges = np.concatenate(parts)
    return merge_touching(ranges[np.argsort(ranges[:, 0], kind="stable")])


def _array_values(
    view: BitmapView, chosen: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Return the values of array containers, each plus its container's `high`, and separately the low 16 bits."""
    cards = view.cards[chosen]
    low = gather(view.words, view.word_starts[chosen], cards)
    values = np.repeat(high[chosen], cards)
    values += low
    return values, low


def _value_ranges(values: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(values):
        return np.zeros((0, 2), np.int64)
    begins = np.flatnonzero(np.append(True, values[1:] != values[:-1] + 1))
    return np.stack([values[begins], values[np.append(begins[1:], len(values)) - 1] + 1], axis=1)


def _bitset_ranges(view: BitmapView, container: int) -> NDArray[np.int64]:
    start = int(view.starts[container])
    bits = np.unpackbits(np.frombuffer(view.data[start : start + BITSET_BYTES], np.uint8), bitorder="little")
    edges = np.flatnonzero(np.diff(bits.view(np.int8), prepend=np.int8(0), append=np.int8(0)))
    return edges.astype(np.int64).reshape(-1, 2)


def pack_into(view: BitmapView, out: NDArray[np.uint8], first: int) -> None:
    """Set the bits of a bitmap's values in `out`: bit ``v & 7`` of byte ``(v >> 3) - first``.

    Args:
        view: the bitmap.
        out: packed bits, least significant first, a multiple of 8 bytes. No bit of the values is set yet.
        first: index of the first byte of `out`, counted from value 0. Values outside of `out` are ignored.
    """
    base = view.keys.astype(np.int64) * BITSET_BYTES - first
    for i in np.flatnonzero(view.kinds == ContainerKind.BITSET).tolist():
        start, to = int(view.starts[i]), int(base[i])
        skip, stop = max(0, -to), min(BITSET_BYTES, len(out) - to)
        if skip < stop:
            bits = np.frombuffer(view.data[start + skip : start + stop], np.uint8)
            np.bitwise_or(out[to + skip : to + stop], bits, out=out[to + skip : to + stop])
    arrays = np.flatnonzero(view.kinds == ContainerKind.ARRAY)
    pieces = np.cumsum(view.cards[arrays]) // _BITS_AT_ONCE
    for chosen in np.split(arrays, np.flatnonzero(pieces[1:] != pieces[:-1]) + 1):
        values, low = _array_values(view, chosen, 8 * base)
        values >>= 3
        _add_bits(out, values, np.left_shift(np.uint8(1), low.astype(np.uint8) & np.uint8(7)))
    _set_runs(view, out.view("<u8"), base)


def _add_bits(out: NDArray[Any], where: NDArray[np.int64], bits: NDArray[Any]) -> None:
    """Set bits that are not set yet. Adding them is equivalent, and ten times faster in NumPy."""
    if len(where) and (where[0] < 0 or where[-1] >= len(out)):
        inside = (where >= 0) & (where < len(out))
        where, bits = where[inside], bits[inside]
    np.add.at(out, where, bits)


def _set_runs(view: BitmapView, out: NDArray[np.uint64], base: NDArray[np.int64]) -> None:
    """Set the bits of runs: whole words by repetition, the partial words at both ends by masks."""
    runs = view.runs()
    start = runs.starts + 8 * base[runs.owner]
    stop = np.minimum(start + runs.lengths, 64 * len(out))
    start = np.maximum(start, 0)
    start, stop = start[start < stop], stop[start < stop]
    head, tail = start >> 6, stop >> 6
    below_start, below_stop = (np.left_shift(np.uint64(1), (at & 63).astype(np.uint64)) - 1 for at in (start, stop))
    single = head == tail
    _add_bits(out, head, np.where(single, below_stop, _ALL) - below_start)
    ragged = ~single & (below_stop > 0)
    _add_bits(out, tail[ragged], below_stop[ragged])
    whole = tail > head + 1
    if whole.any():
        bounds = np.stack([head[whole] + 1, tail[whole]], axis=1).ravel()
        fill = np.repeat(np.resize(np.array([_ALL, 0], np.uint64), len(bounds) - 1), np.diff(bounds))
        between = out[bounds[0] : bounds[-1]]
        np.bitwise_or(between, fill, out=between)
