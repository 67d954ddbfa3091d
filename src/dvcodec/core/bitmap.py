"""A walked 32-bit roaring bitmap: the positions of its containers in the serialized bytes, and checks of their values.

`roaring.walk` builds the view, checks the structure, and documents the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core.cursor import first_true
from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import too_little_memory

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
        """All payloads together, as little-endian 16-bit words (every payload has an even size)."""
        header = int(self.starts[0]) if len(self.starts) else len(self.data)
        return np.frombuffer(self.data[header:], "<u2")

    @property
    def word_starts(self) -> NDArray[np.int64]:
        """Index of each container's first word in `words`."""
        return (self.starts - self.starts[0]) >> 1 if len(self.starts) else self.starts

    def runs(self) -> Runs:
        """Return the runs of all run containers, in order."""
        chosen = np.flatnonzero(self.kinds == ContainerKind.RUN)
        words, first = self.words, self.word_starts[chosen]
        counts = words[first].astype(np.int64)
        before = np.cumsum(counts) - counts
        index = np.repeat(first + 1 - 2 * before, counts) + 2 * np.arange(int(counts.sum()), dtype=np.int64)
        return Runs(words[index].astype(np.int64), words[index + 1].astype(np.int64) + 1, np.repeat(chosen, counts))

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
        chosen = np.flatnonzero(self.kinds == ContainerKind.RUN)
        if not len(chosen):
            return
        starts, lengths, owner = self.runs()
        counts = (self.sizes[chosen] - 2) >> 2
        if (i := first_true(counts == 0)) is not None:
            raise self._fail(chosen[i], "no run", expected="at least 1 run", actual=0)
        ends = starts + lengths
        first = np.cumsum(counts) - counts

        def fail(run: int, problem: str, expected: str, actual: int) -> NotCanonical:
            container = int(owner[run])
            nth = run - int(first[np.searchsorted(chosen, container)])
            offset = int(self.starts[container]) + 2 + 4 * nth
            return self._fail(container, problem, offset, expected=expected, actual=actual)

        if (i := first_true(ends > 1 << 16)) is not None:
            raise fail(i, "run ends past 65535", "a last value of at most 65535", ends[i] - 1)
        if (i := first_true((owner[1:] == owner[:-1]) & (starts[1:] <= ends[:-1]))) is not None:
            raise fail(i + 1, "runs unsorted, overlapping or unmerged", f"a start above {ends[i]}", starts[i + 1])
        sums = np.add.reduceat(lengths, first)
        self._check_cards(chosen, sums, "run lengths do not add up to the cardinality in the header")
