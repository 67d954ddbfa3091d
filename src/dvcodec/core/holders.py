"""The representations of a row set's bitmaps: loaded, encoded for writing, or as read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core import build, roaring
from dvcodec.core.build import Pieces

__all__ = ["Canonical", "Holder", "Loaded", "Stored", "canonical"]


class Holder:
    """One representation of the bitmaps of a row set, by the high half of their positions; false if empty."""

    __slots__ = ()

    def load(self) -> Loaded:
        """Return the bitmaps; build them if necessary."""
        raise NotImplementedError

    def measured(self) -> Loaded | Canonical:
        """Return a representation with cardinality, bounds and canonical bytes: this one, or the loaded one."""
        return self.load()


class Loaded(dict[int, FrozenBitMap], Holder):
    """Bitmaps by key; keys ascend, and no bitmap is empty."""

    __slots__ = ()

    def load(self) -> Loaded:
        """Return itself."""
        return self

    @property
    def cardinality(self) -> int:
        """Number of positions."""
        return sum(map(len, self.values()))

    @property
    def low(self) -> int | None:
        """Lowest position, None if there is none."""
        return next((key << 32 | bitmap.min() for key, bitmap in self.items()), None)

    @property
    def high(self) -> int | None:
        """Highest position, None if there is none."""
        return next((key << 32 | self[key].max() for key in reversed(self)), None)

    def pieces(self, *, run_optimize: bool = True) -> dict[int, Pieces]:
        """Serialize each bitmap; see `roaring.serialize`."""
        return {key: [roaring.serialize(bitmap, run_optimize=run_optimize)] for key, bitmap in self.items()}


class Stored(tuple[memoryview, int, int, int], Holder):
    """One serialized, non-empty, fully checked bitmap in immutable bytes: data, key, start, stop.

    It is built on first use. A tuple, because thousands are created at once.
    """

    __slots__ = ()

    def load(self) -> Loaded:
        """Build the bitmap."""
        data, key, start, stop = self
        return Loaded({key: FrozenBitMap.deserialize(data[start:stop])})  # type: ignore[arg-type]  # takes any buffer


@dataclass(frozen=True, slots=True, eq=False)
class Canonical(Holder):
    """Canonically serialized bitmaps, built on first use, because many row sets are encoded but never read.

    Attributes:
        parts: key -> bytes of the bitmap as from `roaring.serialize`, in pieces; keys ascend.
        cardinality: number of positions, at least 1.
        low: lowest position.
        high: highest position.
    """

    parts: dict[int, Pieces]
    cardinality: int
    low: int
    high: int

    def load(self) -> Loaded:
        """Build the bitmaps."""
        return Loaded({key: FrozenBitMap.deserialize(b"".join(pieces)) for key, pieces in self.parts.items()})

    def measured(self) -> Canonical:
        """Return itself."""
        return self

    def pieces(self) -> dict[int, Pieces]:
        """Return a copy of the parts."""
        return {key: [*pieces] for key, pieces in self.parts.items()}


_LOW_HALF = np.uint64(0xFFFFFFFF)
_FEW_VALUES = 1024
"""Values of which pyroaring builds a bitmap faster: 8 values take it 6 µs, and NumPy's thirty calls 90 µs."""


def canonical(values: NDArray[np.uint64]) -> Holder:
    """Serialize one bitmap per high half, from values in any order; duplicates are fine."""
    if not len(values):
        return Loaded()
    values = build.ascending(values)
    low, high = int(values[0]), int(values[-1])
    if len(values) <= _FEW_VALUES and low >> 32 == high >> 32:
        return Loaded({low >> 32: FrozenBitMap((values & _LOW_HALF).tolist())})
    cuts = [0, len(values)]
    if low >> 32 != high >> 32:
        keys = values >> np.uint64(32)
        cuts[1:1] = (np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()
    bounds: list[tuple[Any, Any]] = list(itertools.pairwise(cuts))
    parts = {int(values[a]) >> 32: build.serialize_sorted(values[a:b], runs=True) for a, b in bounds}
    return Canonical(parts, len(values), low, high)
