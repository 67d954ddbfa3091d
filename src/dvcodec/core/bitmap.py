"""A serialized 32-bit roaring bitmap that has been walked: where its containers are, and whether they are sound.

`roaring.walk` makes the view and describes the bytes; `BitmapView.check` is the other half of the checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core.errors import NotCanonical

__all__ = ["ARRAY_MAX", "BITSET_BYTES", "BitmapView", "ContainerKind", "ContainerMix", "Runs"]

ARRAY_MAX = 4096
"""Largest cardinality of an array container (values)."""
BITSET_BYTES = 8192


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
        """Lowest value, None if the bitmap is empty.

        Raises:
            NotCanonical: it stands in a bitset without a bit.
        """
        return self._edge(0) if len(self.keys) else None

    @property
    def max(self) -> int | None:
        """Highest value, None if the bitmap is empty.

        Raises:
            NotCanonical: it stands in a bitset without a bit.
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
            at = int(found[container])
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
        if (self.kinds == ContainerKind.BITSET).any():
            self.load()  # CRoaring counts bits many times as fast as NumPy
        else:
            self._check_arrays()

    def load(self) -> FrozenBitMap:
        """Build the bitmap; array order and bitset population are checked on the way.

        Raises:
            NotCanonical: see `check`.
        """
        if not len(self.keys):
            return FrozenBitMap()
        try:
            return FrozenBitMap.deserialize(self.data)  # type: ignore[arg-type]  # takes any buffer
        except ValueError as err:
            self._check_arrays()
            self._check_bitsets()
            raise NotCanonical(f"roaring bitmap refused: {err}", source=self.source, offset=self.base) from err

    def _fail(self, container: int, what: str, at: int | None = None, **values: object) -> NotCanonical:
        kind = ContainerKind(int(self.kinds[container])).name.lower()
        where = f"{kind} container {container} (key 0x{int(self.keys[container]):04x})"
        offset = self.base + (int(self.starts[container]) if at is None else at)
        return NotCanonical(f"{what} in {where}", source=self.source, offset=offset, **values)

    def _check_arrays(self) -> None:
        words = self.words
        # One pass over all payloads: a descent may only stand between two containers, or in another kind's bytes.
        descends = words[1:] <= words[:-1]
        descends[self.word_starts[1:] - 1] = False
        if not descends.any():
            return
        descents = np.flatnonzero(descends)
        owner = np.searchsorted(self.word_starts, descents, side="right") - 1
        bad = np.flatnonzero(self.kinds[owner] == ContainerKind.ARRAY)
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
