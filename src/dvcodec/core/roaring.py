"""The 32-bit roaring bitmap in its portable serialized form: walked and checked without being expanded.

Specification: RoaringFormatSpec, https://github.com/RoaringBitmap/RoaringFormatSpec. All values are little-endian::

    no run container    u32 12346 | u32 n                              n in 0..65536
    with run containers u16 12347 | u16 n - 1 | ceil(n/8) flag bytes    bit i: container i holds runs
    descriptors         n x (u16 key, u16 cardinality - 1)              keys strictly ascending
    offsets             n x u32, from the first cookie byte             absent if there are runs and n < 4
    containers          array   c x u16 ascending                       c <= 4096
                        bitset  8192 bytes, bit v & 7 of byte v >> 3    c > 4096
                        runs    u16 r, r x (u16 start, u16 length - 1)

Libraries differ in what they check; `walk` and `BitmapView.check` together check everything: see the docstrings.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated

__all__ = [
    "EMPTY_BITMAP",
    "BitmapView",
    "ContainerKind",
    "ContainerMix",
    "Runs",
    "from_sorted",
    "serialize",
    "serialize_runs",
    "walk",
]

COOKIE_NO_RUNS = 12346
COOKIE_RUNS = 12347
MAX_CONTAINERS = 1 << 16
OFFSETS_FROM = 4
"""A bitmap with run containers has an offset table from this many containers on."""
ARRAY_MAX = 4096
"""Largest cardinality of an array container (values)."""
BITSET_BYTES = 8192
EMPTY_BITMAP = struct.pack("<II", COOKIE_NO_RUNS, 0)
"""The one form of the empty bitmap, 8 bytes."""


class ContainerKind(IntEnum):
    """The three container kinds of the specification."""

    ARRAY = 0
    BITSET = 1
    RUN = 2


class ContainerMix(NamedTuple):
    """How many containers of each kind."""

    arrays: int = 0
    bitsets: int = 0
    runs: int = 0

    def plus(self, other: ContainerMix) -> ContainerMix:
        """Return the counts of both together."""
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
    """A serialized 32-bit bitmap and where its containers are; arrays have one entry a container.

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
        """Lowest value, None if the bitmap is empty."""
        return self._edge(0) if len(self.keys) else None

    @property
    def max(self) -> int | None:
        """Highest value, None if the bitmap is empty."""
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
            at = int(np.flatnonzero(words)[container])
            bits = int(words[at])
            low = 16 * at + ((bits & -bits) if container == 0 else bits).bit_length() - 1
        return int(self.keys[container]) << 16 | low

    @property
    def words(self) -> NDArray[np.uint16]:
        """All payloads as one run of little-endian 16-bit words (every payload has an even size)."""
        header = int(self.starts[0]) if len(self.starts) else len(self.data)
        return np.frombuffer(self.data[header:], "<u2")

    @property
    def word_starts(self) -> NDArray[np.int64]:
        """Index of each container's first word in `words`."""
        return (self.starts - self.starts[0]) >> 1 if len(self.starts) else self.starts

    def runs(self) -> Runs:
        """Gather the runs of all run containers, in order."""
        chosen = np.flatnonzero(self.kinds == ContainerKind.RUN)
        words, first = self.words, self.word_starts[chosen]
        counts = words[first].astype(np.int64)
        before = np.cumsum(counts) - counts
        index = np.repeat(first + 1 - 2 * before, counts) + 2 * np.arange(int(counts.sum()), dtype=np.int64)
        return Runs(words[index].astype(np.int64), words[index + 1].astype(np.int64) + 1, np.repeat(chosen, counts))

    def check(self) -> None:
        """Check what `walk` leaves to the reader of the values: array order and bitset cardinality.

        Raises:
            NotCanonical: an array is not strictly ascending, or a bitset's population is not its cardinality.
        """
        self._check_arrays()
        self._check_bitsets()

    def load(self) -> BitMap:
        """Build the bitmap. pyroaring checks array order and bitset population; `check` finds the words for it."""
        if not len(self.keys):
            return BitMap()
        try:
            return BitMap.deserialize(self.data)  # type: ignore[arg-type]  # takes any buffer
        except ValueError as err:
            self.check()
            raise NotCanonical(f"roaring bitmap refused: {err}", source=self.source, offset=self.base) from err

    def _fail(self, container: int, what: str, at: int | None = None, **values: object) -> NotCanonical:
        kind = ContainerKind(int(self.kinds[container])).name.lower()
        where = f"{kind} container {container} (key 0x{int(self.keys[container]):04x})"
        offset = self.base + (int(self.starts[container]) if at is None else at)
        return NotCanonical(f"{what} in {where}", source=self.source, offset=offset, **values)

    def _check_arrays(self) -> None:
        words = self.words
        # One pass over all payloads: a descent may only stand between two containers, or in another kind's bytes.
        descents = np.flatnonzero(words[1:] <= words[:-1])
        owner = np.searchsorted(self.word_starts, descents, side="right") - 1
        last = (self.word_starts + (self.sizes >> 1) - 1)[owner]
        bad = np.flatnonzero((self.kinds[owner] == ContainerKind.ARRAY) & (descents != last))
        if len(bad):
            at = int(descents[bad[0]])
            raise self._fail(
                int(owner[bad[0]]),
                "values not strictly ascending",
                at=int(self.starts[0]) + 2 * at + 2,
                expected=f"a value above {int(words[at])}",
                actual=int(words[at + 1]),
            )

    def _check_bitsets(self) -> None:
        chosen = np.flatnonzero(self.kinds == ContainerKind.BITSET)
        if not len(chosen):
            return
        bits = np.bitwise_count(self.words)
        bounds = np.stack([self.word_starts[chosen], self.word_starts[chosen] + BITSET_BYTES // 2], axis=1).ravel()
        found = np.add.reduceat(np.append(bits, np.uint8(0)), bounds, dtype=np.int64)[::2]
        bad = np.flatnonzero(found != self.cards[chosen])
        if len(bad):
            container = int(chosen[bad[0]])
            raise self._fail(
                container,
                "population is not the cardinality in the header",
                expected=int(self.cards[container]),
                actual=int(found[bad[0]]),
            )

    def check_runs(self) -> None:
        """Check every run container: `walk` calls this, for no library compares runs with the header.

        Raises:
            NotCanonical: no run, a run past 65535, runs that overlap, touch or descend, or lengths that do
                not add up to the cardinality in the header.
        """
        chosen = np.flatnonzero(self.kinds == ContainerKind.RUN)
        if not len(chosen):
            return
        starts, lengths, owner = self.runs()
        counts = (self.sizes[chosen] - 2) >> 2
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            raise self._fail(int(chosen[empty[0]]), "no run", expected="at least 1 run", actual=0)
        ends = starts + lengths
        first = np.cumsum(counts) - counts

        def place(run: int) -> int:
            container = int(owner[run])
            return int(self.starts[container]) + 2 + 4 * (run - int(first[np.searchsorted(chosen, container)]))

        bad = np.flatnonzero(ends > 1 << 16)
        if len(bad):
            run = int(bad[0])
            raise self._fail(
                int(owner[run]),
                "run ends past 65535",
                at=place(run),
                expected="a last value of at most 65535",
                actual=int(ends[run]) - 1,
            )
        bad = np.flatnonzero((owner[1:] == owner[:-1]) & (starts[1:] <= ends[:-1])) + 1
        if len(bad):
            run = int(bad[0])
            raise self._fail(
                int(owner[run]),
                "runs unsorted, overlapping or unmerged",
                at=place(run),
                expected=f"a start above {int(ends[run - 1])}",
                actual=int(starts[run]),
            )
        sums = np.add.reduceat(lengths, first)
        bad = np.flatnonzero(sums != self.cards[chosen])
        if len(bad):
            container = int(chosen[bad[0]])
            raise self._fail(
                container,
                "run lengths do not add up to the cardinality in the header",
                expected=int(self.cards[container]),
                actual=int(sums[bad[0]]),
            )


def walk(cursor: Cursor) -> BitmapView:
    """Walk one bitmap at the cursor and move past it. Nothing is expanded, no bitmap is built.

    Checked here: cookie, container count, flag padding, a run cookie without runs, key order, the offset
    table against the containers, every payload inside the window, and everything about runs (see
    `BitmapView.check_runs`). Left to `BitmapView.check` or `load`: array order and bitset population.

    Raises:
        Truncated: the window ends first.
        BadMagic: no roaring cookie.
        NotCanonical: the structure breaks a rule of the specification.
    """
    start = cursor.pos
    count, is_run = _read_cookie(cursor)
    if not count:
        none = np.zeros(0, np.int64)
        empty = cursor.view[start : cursor.pos]
        return BitmapView(empty, none.astype(np.uint16), none, none.astype(np.uint8), none, none)
    at = cursor.pos
    descriptors = np.frombuffer(cursor.take(4 * count, "roaring descriptors"), "<u2").reshape(count, 2)
    keys, cards = descriptors[:, 0], descriptors[:, 1].astype(np.int64) + 1
    descents = np.flatnonzero(keys[1:] <= keys[:-1])
    if len(descents):
        i = int(descents[0])
        raise cursor.error(
            NotCanonical,
            "container keys not strictly ascending",
            at=at + 4 * (i + 1),
            expected=f"a key above {int(keys[i])}",
            actual=int(keys[i + 1]),
        )
    table_at, table = cursor.pos, None
    if is_run is None or count >= OFFSETS_FROM:
        table = np.frombuffer(cursor.take(4 * count, "roaring offset table"), "<u4").astype(np.int64)
    header = cursor.pos - start
    sizes = np.where(cards <= ARRAY_MAX, 2 * cards, BITSET_BYTES)
    if is_run is not None:
        sizes = _with_run_sizes(cursor, start, header, sizes, is_run, table)
    ends = header + np.cumsum(sizes)
    starts = ends - sizes
    if table is not None and not np.array_equal(table, starts):
        i = int(np.flatnonzero(table != starts)[0])
        raise cursor.error(
            NotCanonical,
            f"offset of container {i}",
            at=table_at + 4 * i,
            expected=int(starts[i]),
            actual=int(table[i]),
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
    """Return the container count and, if the cookie announces runs, which containers hold them."""
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
    at = cursor.pos
    flags = np.frombuffer(cursor.take((count + 7) // 8, "run flags"), np.uint8)
    bits = np.unpackbits(flags, bitorder="little").view(np.bool_)
    if bits[count:].any():
        raise cursor.error(
            NotCanonical,
            "padding bits of the run flags",
            at=at + len(flags) - 1,
            expected="0 bits",
            actual=f"{int(flags[-1]):#04x}",
        )
    if not bits.any():
        # Legal roaring, but Iceberg and Delta in Java re-serialize to find the next bitmap, and lose their place.
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
    """Fill in the payload sizes of run containers: 2 + 4 r bytes, r standing at the payload's start.

    With an offset table, all r are gathered at once from where it points (`walk` compares the table with
    the sizes that follow from it). Without one there are at most three containers to hop over.
    """
    sizes = sizes.copy()
    window = np.frombuffer(cursor.view[start : cursor.end], np.uint8)
    if table is not None:
        hints = table[is_run]
        if not (hints + 2 <= len(window)).all():
            outside = int(hints[hints + 2 > len(window)][0])
            raise cursor.error(
                Truncated,
                "offset of a run container",
                expected=f"at most {len(window) - 2}",
                actual=outside,
            )
        sizes[is_run] = 2 + 4 * (window[hints].astype(np.int64) | window[hints + 1].astype(np.int64) << 8)
        return sizes
    at = header
    for i in range(len(sizes)):
        if is_run[i]:
            if at + 2 > len(window):
                raise cursor.error(Truncated, "roaring containers", at=start + at, expected="2 bytes")
            sizes[i] = 2 + 4 * (int(window[at]) | int(window[at + 1]) << 8)
        at += int(sizes[i])
    return sizes


def serialize(bitmap: BitMap, *, run_optimize: bool = True) -> bytes:
    """Serialize a bitmap in the one form that depends on its values alone.

    Args:
        bitmap: any 32-bit bitmap; left as it is.
        run_optimize: True gives the bytes of Java's ``RoaringBitmap``: values added one by one, then
            ``runOptimize()``, then ``serialize()``. False gives no run container, like roaring-rs
            without ``optimize()`` and CRoaring without ``run_optimize``.
    """
    if not run_optimize:
        return from_sorted(np.frombuffer(bitmap.to_array(), np.uint32)).serialize()
    copy = bitmap.copy()
    copy.run_optimize()
    data = copy.serialize()
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


def _tied_runs(data: BytesLike) -> NDArray[np.uint16]:
    """Find run containers whose array form is as small: a run there is history, not content.

    Java turns an array of c values into r runs only if 2c > 2 + 4r, but both Java and CRoaring keep a run
    container that came as one when the two are equal. c = 2r + 1 is that tie.
    """
    view = walk(Cursor(data))
    counts = (view.sizes - 2) >> 2
    tied = (view.kinds == ContainerKind.RUN) & (view.cards <= ARRAY_MAX) & (view.cards <= 2 * counts + 1)
    return np.asarray(view.keys[tied])


def from_sorted(values: NDArray[np.uint32]) -> BitMap:
    """Build a bitmap of array and bitset containers from ascending values (duplicates are fine)."""
    items = array("I")
    items.frombytes(np.ascontiguousarray(values, np.uint32).view(np.uint8).data)
    return BitMap(items, optimize=False)


def serialize_runs(keys: NDArray[np.int64], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> bytes:
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
