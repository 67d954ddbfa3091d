"""The value that every format decodes to and encodes from: an immutable set of row positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from dvcodec.core import build, expand64, roaring
from dvcodec.core.arguments import as_bounds, as_positions, as_ranges, positions_of
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, MissingExtra, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    Positions: TypeAlias = Iterable[int] | NDArray[Any] | pa.Array | pa.ChunkedArray

__all__ = ["RowSet"]

_CONTAINER_ROWS = 1 << 16
DEFAULT_MAX_ROWS = 1 << 30
"""Rows that are expanded unless a caller asks for more: 8 GiB of positions."""


class RowSet:
    """An immutable, hashable set of 0-based physical row positions in one data file.

    Positions are unsigned 64-bit values; deletion vectors use 0 .. 0x7ffffffe80000000, which their encoders check.
    Inside, each high half maps to one 32-bit roaring bitmap, so a set costs what its serialized form costs, however
    many rows it holds. Not checked: whether the data file has as many rows.

    >>> rows = RowSet([3, 1, 4, 1, 5])
    >>> rows
    RowSet([1, 3, 4, 5])
    >>> len(rows), 4 in rows, rows.min, rows.max
    (4, True, 1, 5)
    >>> rows - {4} | RowSet.from_ranges([(10, 13)])
    RowSet([1, 3, 5, 10, 11, 12])
    """

    __slots__ = ("_hash", "_held")
    _held: dict[int, BitMap] | build.Canonical | tuple[memoryview, int, int, int]
    _hash: int | None

    def __init__(self, positions: Positions = ()) -> None:
        """Build from row positions, or from another row set; see `from_positions`."""
        if isinstance(positions, RowSet):
            self._held = positions._held
        elif isinstance(positions, range) and positions.step == 1 and positions.start >= 0 and positions.stop < 2**63:
            self._held = RowSet.from_ranges([(positions.start, positions.stop)] if positions else [])._held
        else:
            values = as_positions(positions)
            self._held = build.canonical(values) if len(values) else {}
        self._hash = None

    # ------------------------------------------------------------------ building

    @classmethod
    def from_positions(cls, positions: Positions) -> RowSet:
        """Build from row positions in any order; duplicates are fine.

        Args:
            positions: an iterable of ints, a NumPy array of an integer dtype, or a pyarrow integer array
                (chunked or not) without nulls.

        Raises:
            UsageError: a negative position, one above 2**64 - 1, a null, or values that are not integers.
        """
        return cls(positions)

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]] | NDArray[np.int64]) -> RowSet:
        """Build from half-open ranges ``[start, stop)`` in any order; overlaps and empty ranges are fine.

        Raises:
            UsageError: a negative start, a stop before its start, what is no pair of integers, or ranges that span
                more than 2**40 rows.
        """
        return cls._wrap(build.from_ranges(build.merge_touching(as_ranges(ranges))))

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_] | Iterable[bool], start: int = 0) -> RowSet:
        """Build from booleans, True = row is in the set; `mask[0]` stands for position `start`.

        Raises:
            UsageError: the mask is no flat array of booleans, or leaves the positions 0 to 2**64 - 1.
        """
        return cls(positions_of(mask, start))

    @classmethod
    def _wrap(cls, bitmaps: Mapping[int, BitMap]) -> RowSet:
        """Take over bitmaps nobody else holds. Formats use it; keys become ascending, empty bitmaps leave."""
        rows = cls.__new__(cls)
        rows._held = {key: bitmaps[key] for key in sorted(bitmaps) if bitmaps[key]}
        rows._hash = None
        return rows

    @classmethod
    def _stored(cls, data: memoryview, keys: list[int], starts: list[int], stops: list[int]) -> list[RowSet]:
        """Take over serialized bitmaps, none empty, all of them checked, in bytes that never change.

        Each is built when it is first used: of the thousands of vectors in a file, most wait long for that.
        """
        sets = []
        for held in zip(repeat(data), keys, starts, stops):
            rows = cls.__new__(cls)
            rows._held = held
            rows._hash = None
            sets.append(rows)
        return sets

    @property
    def _bitmaps(self) -> dict[int, BitMap]:
        held = self._held
        if isinstance(held, tuple):
            data, key, start, stop = held
            held = self._held = {key: BitMap.deserialize(data[start:stop])}  # type: ignore[arg-type]  # takes any buffer
        elif isinstance(held, build.Canonical):
            held = self._held = held.load()
        return held

    def _serialized(self, *, run_optimize: bool = True) -> dict[int, build.Pieces]:
        """Return the bitmap of each key as it is written, in pieces; see `roaring.serialize`."""
        held = self._held
        if run_optimize and isinstance(held, build.Canonical):
            return held.parts
        return {key: [roaring.serialize(bitmap, run_optimize=run_optimize)] for key, bitmap in self._bitmaps.items()}

    # ------------------------------------------------------------------ as a set

    def __len__(self) -> int:
        return self.cardinality

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, (int, np.integer)) or position < 0:
            return False
        bitmap = self._bitmaps.get(int(position) >> 32)
        return bitmap is not None and (int(position) & 0xFFFFFFFF) in bitmap

    def __iter__(self) -> Iterator[int]:
        for key, bitmap in self._bitmaps.items():
            base = key << 32
            for low in bitmap:
                yield base + low

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RowSet):
            return self._bitmaps == other._bitmaps
        if isinstance(other, set):  # not frozenset: equal things must have equal hashes
            return len(self) == len(other) and all(position in self for position in other)
        return NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple((key, len(b), b.min(), b.max()) for key, b in self._bitmaps.items()))
        return self._hash

    def __le__(self, other: Positions) -> bool:
        """Whether every position is in `other`."""
        theirs = RowSet(other)._bitmaps
        return all(key in theirs and bitmap.issubset(theirs[key]) for key, bitmap in self._bitmaps.items())

    def __ge__(self, other: Positions) -> bool:
        return RowSet(other) <= self

    def __lt__(self, other: Positions) -> bool:
        rows = RowSet(other)
        return self <= rows and self != rows

    def __gt__(self, other: Positions) -> bool:
        return RowSet(other) < self

    def __or__(self, other: Positions) -> RowSet:
        return RowSet.union(self, RowSet(other))

    def __and__(self, other: Positions) -> RowSet:
        theirs = RowSet(other)._bitmaps
        return RowSet._wrap({key: bitmap & theirs[key] for key, bitmap in self._bitmaps.items() if key in theirs})

    def __sub__(self, other: Positions) -> RowSet:
        theirs = RowSet(other)._bitmaps
        return RowSet._wrap(
            {key: bitmap - theirs[key] if key in theirs else bitmap for key, bitmap in self._bitmaps.items()}
        )

    def __xor__(self, other: Positions) -> RowSet:
        rows = RowSet(other)
        return (self - rows) | (rows - self)

    def isdisjoint(self, other: Positions) -> bool:
        """Whether no position is in both.

        Raises:
            UsageError: `other` holds what is no row position; see `from_positions`.
        """
        theirs = RowSet(other)._bitmaps
        return not any(key in theirs and bitmap.intersect(theirs[key]) for key, bitmap in self._bitmaps.items())

    @classmethod
    def union(cls, *sets: RowSet) -> RowSet:
        """Return the positions that are in any of `sets`."""
        by_key: dict[int, list[BitMap]] = {}
        for rows in sets:
            for key, bitmap in rows._bitmaps.items():
                by_key.setdefault(key, []).append(bitmap)
        return cls._wrap({key: BitMap.union(*maps) if len(maps) > 1 else maps[0] for key, maps in by_key.items()})

    # ------------------------------------------------------------------ properties

    @property
    def cardinality(self) -> int:
        """Number of rows (``len`` stops at 2**63 - 1, as everywhere in Python)."""
        if isinstance(self._held, build.Canonical):
            return self._held.cardinality
        return sum(map(len, self._bitmaps.values()))

    @property
    def min(self) -> int | None:
        """Lowest position, None if the set is empty."""
        if isinstance(self._held, build.Canonical):
            return self._held.low
        for key, bitmap in self._bitmaps.items():
            return key << 32 | bitmap.min()
        return None

    @property
    def max(self) -> int | None:
        """Highest position, None if the set is empty."""
        if isinstance(self._held, build.Canonical):
            return self._held.high
        for key in reversed(self._bitmaps):
            return key << 32 | self._bitmaps[key].max()
        return None

    @property
    def containers(self) -> ContainerMix:
        """How many array, bitset and run containers the canonical encoding has."""
        mix = ContainerMix()
        for data in self._serialized().values():
            mix = mix.plus(roaring.walk(Cursor(b"".join(data))).mix)
        return mix

    def count(self, start: int, stop: int) -> int:
        """Return how many positions lie in ``[start, stop)``.

        Raises:
            UsageError: not 0 <= start <= stop.
        """
        return expand64.count(self._bitmaps, *as_bounds(start, stop))

    def histogram(self, stop: int, bins: int) -> NDArray[np.int64]:
        """Count positions in `bins` equal slices of ``[0, stop)``: int64[bins]. Nothing is expanded.

        Raises:
            UsageError: no bin, or a negative stop.
        """
        if bins < 1 or stop < 0:
            raise UsageError("a histogram needs at least one bin and stop >= 0")
        return expand64.histogram(self._bitmaps, index(stop), index(bins))

    def contains(self, positions: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Tell for each position whether it is in the set: bool[n], for positions in any order.

        Raises:
            UsageError: a negative position, or not a flat array of integers.
        """
        wanted = as_positions(positions)
        if not len(wanted) or not self:
            return np.zeros(len(wanted), np.bool_)
        low, high = int(wanted.min()), int(wanted.max())
        if high - low <= 64 * len(wanted) + _CONTAINER_ROWS:  # dense enough to look up in a mask
            found: NDArray[np.bool_] = self.mask(low, high + 1)[wanted - np.uint64(low)]
            return found
        common = (self & RowSet(wanted)).to_numpy(np.uint64, max_rows=None)
        if not len(common):
            return np.zeros(len(wanted), np.bool_)
        at = np.minimum(np.searchsorted(common, wanted), len(common) - 1)
        return np.asarray(common[at] == wanted)

    # ------------------------------------------------------------------ out

    @overload
    def to_numpy(self, dtype: type[np.int64] = np.int64, *, max_rows: int | None = ...) -> NDArray[np.int64]: ...
    @overload
    def to_numpy(self, dtype: type[np.uint64], *, max_rows: int | None = ...) -> NDArray[np.uint64]: ...
    def to_numpy(self, dtype: type[Any] = np.int64, *, max_rows: int | None = DEFAULT_MAX_ROWS) -> NDArray[Any]:
        """Return all positions, ascending, as int64[n] (or uint64[n]).

        Args:
            dtype: ``np.int64``, or ``np.uint64`` for positions from 2**63 on.
            max_rows: refuse to expand more rows than this; a few bytes of runs can stand for billions.
                Read such a set by `chunks`, `ranges` or `mask`, or pass None.

        Raises:
            LimitExceeded: the set has more than `max_rows` rows.
            UsageError: a position does not fit the dtype.
        """
        count = self.cardinality
        if max_rows is not None and count > max_rows:
            raise LimitExceeded("rows to expand (max_rows)", expected=f"at most {max_rows}", actual=count)
        if self._bitmaps and (self.max or 0) > np.iinfo(dtype).max:
            raise UsageError(f"position {self.max} does not fit {np.dtype(dtype).name}: ask for np.uint64")
        return expand64.positions(self._bitmaps, count, dtype)

    def to_arrow(self) -> pa.Array:
        """Return all positions, ascending, as a pyarrow int64 array (extra ``arrow``).

        Raises:
            LimitExceeded: the set has more than 2**30 rows.
            UsageError: a position does not fit int64.
            MissingExtra: pyarrow is not installed.
        """
        return _pyarrow().array(self.to_numpy())

    def chunks(self, rows: int = 1 << 20) -> Iterator[NDArray[np.int64]]:
        """Return all positions, ascending, as int64 arrays of at most `rows` (at least 65,536) rows, one at a time.

        Raises:
            UsageError: a position does not fit int64.
        """
        if (self.max or 0) > np.iinfo(np.int64).max:
            raise UsageError(f"position {self.max} does not fit int64")
        return expand64.chunks(self._bitmaps, max(rows, _CONTAINER_ROWS))

    def ranges(self) -> NDArray[np.int64]:
        """Return the maximal ranges ``[start, stop)``, ascending, as int64[k, 2].

        Runs are never expanded: 2**32 rows in a row are one range.

        Raises:
            UsageError: a range ends above 2**63 - 1.
        """
        if (self.max or 0) >= 2**63 - 1:
            raise UsageError(f"position {self.max} ends a range that does not fit int64")
        return expand64.ranges(self._bitmaps)

    def mask(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return bool[stop - start]; element i is True if position ``start + i`` is in the set.

        Args:
            start: first position, absolute in the data file.
            stop: position after the last.

        Raises:
            UsageError: not 0 <= start <= stop.
        """
        start, stop = as_bounds(start, stop)
        packed = expand64.packed_mask(self._bitmaps, start, stop)
        bits = np.unpackbits(packed, count=(start & 7) + stop - start, bitorder="little")
        return bits[start & 7 :].view(np.bool_)

    def packed_mask(self, start: int, stop: int, *, keep: bool = False) -> NDArray[np.uint8]:
        """Return the mask of `mask` as bits, least significant first, without expanding positions: uint8.

        The first bit belongs to position ``start & ~7``: bit ``start & 7`` of the first byte is `start`.

        Args:
            start: first position, absolute in the data file.
            stop: position after the last.
            keep: True inverts: a set bit is a row that is *not* in the set.

        Raises:
            UsageError: not 0 <= start <= stop.
        """
        start, stop = as_bounds(start, stop)
        packed = expand64.packed_mask(self._bitmaps, start, stop)
        return (np.invert(packed, out=packed) if keep else packed)[: ((stop + 7) >> 3) - (start >> 3)]

    def arrow_mask(self, start: int, stop: int, *, keep: bool = False) -> pa.BooleanArray:
        """Return a packed pyarrow.BooleanArray of length ``stop - start`` (extra ``arrow``); see `packed_mask`.

        Args:
            start: first position, absolute in the data file.
            stop: position after the last.
            keep: True inverts: a set bit is a row that is *not* in the set.

        Raises:
            UsageError: not 0 <= start <= stop.
            MissingExtra: pyarrow is not installed.
        """
        pa = _pyarrow()
        start, stop = as_bounds(start, stop)
        buffer = pa.py_buffer(self.packed_mask(start, stop, keep=keep))
        return pa.BooleanArray.from_buffers(pa.bool_(), stop - start, [None, buffer], offset=start & 7)

    # ------------------------------------------------------------------ house-keeping

    def __repr__(self) -> str:
        if self.cardinality <= 8:
            return f"RowSet([{', '.join(map(str, self))}])"
        return f"RowSet({self.cardinality:,} rows in {self.min}..{self.max})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpickle, ({key: bitmap.serialize() for key, bitmap in self._bitmaps.items()},))


def _unpickle(bitmaps: dict[int, bytes]) -> RowSet:
    return RowSet._wrap({key: BitMap.deserialize(data) for key, data in bitmaps.items()})


def _pyarrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415  (extra "arrow")
    except ImportError:
        raise MissingExtra("pyarrow", "arrow") from None
    return pa
