"""A set of 64-bit integers with the interface of `frozenset`, stored as one roaring bitmap per high half."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import index, itemgetter, xor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, FrozenBitMap

from dvcodec.core import build, roaring
from dvcodec.core.arguments import as_positions
from dvcodec.core.build import Pieces
from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_integer, check_type

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

    Positions: TypeAlias = Iterable[int] | NDArray[Any] | pa.Array | pa.ChunkedArray


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


class BitmapSet:
    """An immutable, hashable set of unsigned 64-bit integers; each high half maps to a 32-bit roaring bitmap."""

    __slots__ = ("_hash", "_holder")
    _holder: Holder
    _hash: int | None

    def __init__(self, positions: Positions | Holder = ()) -> None:
        """Build from positions in any order; a `Holder`, as decoders pass, is used directly."""
        if isinstance(positions, Holder):
            self._holder = positions
        elif isinstance(positions, BitmapSet):
            self._holder = positions.holder
        elif isinstance(positions, range) and positions.step == 1 and positions.start >= 0 and positions.stop < 2**63:
            bounds = np.array([(positions.start, positions.stop)] if positions else [], np.int64)
            self._holder = Loaded(build.from_ranges(bounds))
        else:
            self._holder = canonical(as_positions(positions))
        self._hash = None

    # ------------------------------------------------------------------ bitmaps

    @classmethod
    def from_bitmaps(cls, bitmaps: Mapping[int, AbstractBitMap]) -> Self:
        """Build from pyroaring's 32-bit bitmaps.

        Args:
            bitmaps: high half of the positions -> bitmap of the low halves, in any order; empty bitmaps are fine.
                A ``BitMap`` is copied, a ``FrozenBitMap`` is shared.

        Raises:
            UsageError: a key outside 0 to 2**32 - 1, or a value that is not a 32-bit bitmap.
        """
        frozen = Loaded()
        for key in _sorted_keys(bitmaps):
            bitmap = bitmaps[key]
            if not isinstance(bitmap, AbstractBitMap) or not 0 <= index(key) < 1 << 32:  # type: ignore[redundant-expr]
                raise UsageError(
                    f"bitmaps must map 0 to 2**32 - 1 to pyroaring.BitMap, got {key!r}: {type(bitmap).__name__}"
                )
            if bitmap:
                frozen[index(key)] = (
                    bitmap if isinstance(bitmap, FrozenBitMap) else FrozenBitMap(bitmap, optimize=False)
                )
        return cls(frozen)

    @property
    def bitmaps(self) -> Mapping[int, FrozenBitMap]:
        """High half of the positions -> bitmap of the low halves, keys ascending; read-only, nothing is copied."""
        return MappingProxyType(self._load())

    @property
    def holder(self) -> Holder:
        """The current representation of the bitmaps; see `Holder`."""
        return self._holder

    def serialized(self, *, run_optimize: bool = True) -> dict[int, Pieces]:
        """Return the serialized bitmaps by high half, each in pieces; see `roaring.serialize`."""
        return self._measure().pieces() if run_optimize else self._load().pieces(run_optimize=False)

    def _load(self) -> Loaded:
        loaded = self._holder = self._holder.load()
        return loaded

    def _measure(self) -> Loaded | Canonical:
        measured = self._holder = self._holder.measured()
        return measured

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpickle, (type(self), {key: bitmap.serialize() for key, bitmap in self._load().items()}))

    # ------------------------------------------------------------------ as a collection

    @property
    def cardinality(self) -> int:
        """Number of rows (``len`` is limited to 2**63 - 1)."""
        return self._measure().cardinality

    @property
    def min(self) -> int | None:
        """Lowest position, None if the set is empty."""
        return self._measure().low

    @property
    def max(self) -> int | None:
        """Highest position, None if the set is empty."""
        return self._measure().high

    def __len__(self) -> int:
        return self.cardinality

    def __bool__(self) -> bool:
        return bool(self._holder)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, (int, np.integer)) or position < 0:
            return False
        bitmap = self._load().get(int(position) >> 32)
        return bitmap is not None and (int(position) & 0xFFFFFFFF) in bitmap

    def __iter__(self) -> Iterator[int]:
        for key, bitmap in self._load().items():
            base = key << 32
            for low in bitmap:
                yield base + low

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BitmapSet):
            return self.bitmaps == other.bitmaps
        if isinstance(other, set):  # not frozenset: equal things must have equal hashes
            return len(self) == len(other) and all(position in self for position in other)
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple((key, len(b), b.min(), b.max()) for key, b in self._load().items()))
        return self._hash

    # ------------------------------------------------------------------ as a set

    def union(self, *others: Positions) -> Self:
        """Return the positions that are in this set or in any of `others`.

        Raises:
            UsageError: a value in `others` is not a row position; see `from_positions`.
        """
        return self._of(
            {key: FrozenBitMap.union(*maps) if len(maps) > 1 else maps[0] for key, maps in self._by_key(others)}
        )

    def intersection(self, *others: Positions) -> Self:
        """Return the positions that are in this set and in all of `others`.

        Raises:
            UsageError: see `union`.
        """
        sets = [self._load(), *(self._as_set(other).bitmaps for other in others)]
        keys = min(sets, key=len)  # the others may have any number of keys
        return self._of(
            {
                key: FrozenBitMap.intersection(*(bitmaps[key] for bitmaps in sets))
                for key in keys
                if all(key in bitmaps for bitmaps in sets)
            }
        )

    def difference(self, *others: Positions) -> Self:
        """Return the positions of this set that are in none of `others`.

        Raises:
            UsageError: see `union`.
        """
        removed = [self._as_set(other).bitmaps for other in others]
        return self._of(
            {
                key: FrozenBitMap.difference(bitmap, *(bitmaps[key] for bitmaps in removed if key in bitmaps))
                for key, bitmap in self._load().items()
            }
        )

    def symmetric_difference(self, *others: Positions) -> Self:
        """Return the positions that are in an odd number of the sets; with one other set, in exactly one of the two.

        Raises:
            UsageError: see `union`.
        """
        return self._of({key: reduce(xor, maps) for key, maps in self._by_key(others)})

    def issubset(self, *others: Positions) -> bool:
        """Return whether every position is in each of `others`.

        Raises:
            UsageError: see `union`.
        """
        return all(self._is_in(self._as_set(other)) for other in others)

    def issuperset(self, *others: Positions) -> bool:
        """Return whether every position of each of `others` is in this set.

        Raises:
            UsageError: see `union`.
        """
        return all(self._as_set(other).issubset(self) for other in others)

    def isdisjoint(self, *others: Positions) -> bool:
        """Return whether no position of this set is in any of `others`.

        Raises:
            UsageError: see `union`.
        """
        return not any(self._meets(self._as_set(other)) for other in others)

    def _is_in(self, other: BitmapSet) -> bool:
        theirs = other.bitmaps
        return all(key in theirs and bitmap.issubset(theirs[key]) for key, bitmap in self._load().items())

    def _meets(self, other: BitmapSet) -> bool:
        theirs = other.bitmaps
        return any(key in theirs and bitmap.intersect(theirs[key]) for key, bitmap in self._load().items())

    def _of(self, bitmaps: dict[int, FrozenBitMap]) -> Self:
        """Return the set of these bitmaps, with ascending keys; empty ones are dropped."""
        return type(self)(Loaded({key: bitmap for key, bitmap in bitmaps.items() if bitmap}))

    def _as_set(self, positions: Positions) -> BitmapSet:
        return positions if isinstance(positions, BitmapSet) else type(self)(positions)

    def _by_key(self, others: Iterable[Positions]) -> Iterable[tuple[int, list[FrozenBitMap]]]:
        """Group the bitmaps of all sets by key, ascending; those of this set come first."""
        by_key = {key: [bitmap] for key, bitmap in self._load().items()}
        for other in others:
            for key, bitmap in self._as_set(other).bitmaps.items():
                by_key.setdefault(key, []).append(bitmap)
        return sorted(by_key.items(), key=itemgetter(0)) if len(by_key) > 1 else by_key.items()

    __or__ = __ror__ = union
    __and__ = __rand__ = intersection
    __sub__ = difference
    __xor__ = __rxor__ = symmetric_difference
    __le__ = issubset
    __ge__ = issuperset

    def __rsub__(self, other: Positions) -> Self:
        return type(self)(other).difference(self)

    def __lt__(self, other: Positions) -> bool:
        rows = self._as_set(other)
        return self.issubset(rows) and self != rows

    def __gt__(self, other: Positions) -> bool:
        return self._as_set(other) < self


def _sorted_keys(bitmaps: Mapping[int, AbstractBitMap]) -> list[int]:
    """Return the high halves of positions, ascending.

    Raises:
        UsageError: not a mapping, or a key that is not an integer.
    """
    if not isinstance(bitmaps, dict):  # checking for any mapping takes longer
        check_type(bitmaps, Mapping, "bitmaps", "a mapping of integers to pyroaring.BitMap")
    for key in bitmaps:
        check_integer(key, "a key of bitmaps")
    return sorted(bitmaps)


def _unpickle(kind: type[BitmapSet], bitmaps: dict[int, bytes]) -> BitmapSet:
    return kind(Loaded({key: FrozenBitMap.deserialize(data) for key, data in bitmaps.items()}))
