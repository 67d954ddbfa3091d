"""`RowSet`, an immutable set of row positions: what every format decodes to and encodes from.

Positions, ranges, masks and bounds that callers pass are checked and converted here.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import index, itemgetter, xor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray
from pyroaring import AbstractBitMap, BitMap, FrozenBitMap

from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.limits import enough_memory, too_little_memory
from dvcodec.core.roaring import ContainerMix, Pieces, ascending, from_ranges, merge_touching, serialize_sorted
from dvcodec.core.text import counted
from dvcodec.core.usage import as_count, check_integer, check_type, integer_text

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

    Positions: TypeAlias = Iterable[int] | NDArray[Any] | pa.Array | pa.ChunkedArray


def as_positions(positions: Any) -> NDArray[np.uint64]:
    """Convert positions to a flat uint64 array, in the order given; duplicates are kept.

    Args:
        positions: an iterable of ints, a NumPy array of an integer dtype, or a pyarrow integer array without nulls.

    Raises:
        UsageError: a negative position, one above 2**64 - 1, a null or masked one, or values that are not integers.
    """
    if not isinstance(positions, np.ndarray):
        if isinstance(positions, str):
            raise UsageError("positions must be integers, not str")
        if isinstance(positions, (bytes, bytearray, memoryview)):
            raise UsageError("positions must be integers, not bytes: decode a vector with the module of its format")
        if isinstance(getattr(positions, "null_count", None), int):  # pyarrow
            if positions.null_count:
                raise UsageError(f"positions contain {positions.null_count} nulls")
            kwargs = {} if hasattr(positions, "num_chunks") else {"zero_copy_only": False}
            positions = positions.to_numpy(**kwargs)
        else:
            try:
                check_type(positions, Iterable, "positions", "integers in an iterable or an array")
                return np.frombuffer(array("Q", positions), np.uint64)
            except OverflowError:
                raise UsageError(_out_of_range(positions)) from None
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
    if positions.dtype == np.int64:  # none is negative, so the bits are the same
        return np.asarray(positions.view(np.uint64))
    return np.asarray(positions.astype(np.uint64, copy=False))


def _out_of_range(positions: Iterable[int]) -> str:
    if not isinstance(positions, Collection):  # an iterator, which is now exhausted
        return "a position is negative or above 2**64 - 1"
    lowest = min(positions)
    if lowest < 0:
        return f"position {integer_text(lowest)} is negative"
    return f"position {integer_text(max(positions))} is above 2**64 - 1"


def as_ranges(ranges: Iterable[tuple[int, int]] | NDArray[Any]) -> NDArray[np.int64]:
    """Convert half-open ranges ``[start, stop)`` to int64[k, 2], ascending by start, without empty ranges.

    Overlaps remain; `bitmap.merge_touching` merges them.

    Raises:
        UsageError: not pairs of integers below 2**63, a negative start, or a stop below its start.
    """
    problem = "ranges must be pairs (start, stop) of integers below 2**63"
    try:
        table = np.asarray(ranges if isinstance(ranges, np.ndarray) else list(ranges))
    except (TypeError, ValueError, NotImplementedError):  # no iterable; pairs and triples mixed; an odd memoryview
        raise UsageError(problem) from None
    if table.size == 0:
        return np.zeros((0, 2), np.int64)
    if table.ndim != 2 or table.shape[1] != 2 or table.dtype.kind not in "iu":
        raise UsageError(problem)
    table = table.astype(np.int64)
    if (table[:, 0] < 0).any() or (table[:, 1] < table[:, 0]).any():
        raise UsageError("every range needs 0 <= start <= stop")
    table = table[table[:, 1] > table[:, 0]]
    return np.asarray(table[np.argsort(table[:, 0], kind="stable")])


def positions_of(mask: NDArray[np.bool_] | Iterable[bool], start: int) -> NDArray[np.uint64]:
    """Return the positions where a mask is True, ascending; `mask[0]` is position `start`.

    Raises:
        UsageError: the mask is not a flat array of booleans, or extends beyond positions 0 to 2**64 - 1.
    """
    check_type(mask, (np.ndarray, Iterable), "mask", "a flat array of booleans")
    start = as_count(start, "start")
    try:
        bools = np.asarray(mask if isinstance(mask, np.ndarray) else list(mask))
    except (TypeError, ValueError, NotImplementedError):  # ragged items; an odd memoryview
        raise UsageError("mask must be a flat array of booleans") from None
    if bools.size and (bools.dtype != np.bool_ or bools.ndim != 1):
        raise UsageError("mask must be a flat array of booleans")
    if not 0 <= start <= 2**64 - max(bools.size, 1):
        raise UsageError(f"a mask of {bools.size} rows from {start} extends beyond positions 0 to 2**64 - 1")
    return np.asarray(np.flatnonzero(bools).astype(np.uint64) + np.uint64(start))


def as_bounds(start: int, stop: int) -> tuple[int, int]:
    """Check a half-open range of positions and convert it to Python ints (NumPy's integers overflow silently).

    Raises:
        UsageError: not integers, or not 0 <= start <= stop.
    """
    try:
        start, stop = index(start), index(stop)
    except TypeError:
        kinds = f"{type(start).__name__} and {type(stop).__name__}"
        raise UsageError(f"start and stop must be integers, not {kinds}") from None
    if not 0 <= start <= stop:
        raise UsageError(
            f"a range of rows needs 0 <= start <= stop, got {integer_text(start)} and {integer_text(stop)}"
        )
    return start, stop


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
    values = ascending(values)
    low, high = int(values[0]), int(values[-1])
    if len(values) <= _FEW_VALUES and low >> 32 == high >> 32:
        return Loaded({low >> 32: FrozenBitMap((values & _LOW_HALF).tolist())})
    cuts = [0, len(values)]
    if low >> 32 != high >> 32:
        keys = values >> np.uint64(32)
        cuts[1:1] = (np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()
    bounds: list[tuple[Any, Any]] = list(itertools.pairwise(cuts))
    parts = {int(values[a]) >> 32: serialize_sorted(values[a:b], runs=True) for a, b in bounds}
    return Canonical(parts, len(values), low, high)


def _unpickle(kind: type[RowSet], bitmaps: dict[int, bytes]) -> RowSet:
    return kind(Loaded({key: FrozenBitMap.deserialize(data) for key, data in bitmaps.items()}))


_BINS = 96
_HEIGHT = 24


def _strip(counts: NDArray[np.int64], high: int) -> str:
    """Draw deleted rows per slice from position 0 to the last, as bars; the densest slice has full height."""
    heights = np.ceil(counts * (_HEIGHT / int(counts.max()))).astype(int).tolist()
    bars = "".join(
        f'<rect x="{x}" y="{_HEIGHT - height}" width="1" height="{height}"/>'
        for x, height in enumerate(heights)
        if height
    )
    return (
        f'<svg viewBox="0 0 {_BINS} {_HEIGHT}" width="{4 * _BINS}" height="{_HEIGHT}" preserveAspectRatio="none" '
        f'fill="currentColor" role="img" style="display:block;background:#8882">'
        f"<title>rows per slice of 0..{high:,}</title>{bars}</svg>"
    )


_CONTAINER_ROWS, _KEY_ROWS = 1 << 16, 1 << 32
_ROWS_AT_ONCE = 1 << 20
"""Values expanded per step."""
DEFAULT_MAX_ROWS = 1 << 30
"""Default upper bound on expanded rows: 8 GiB of positions."""


class RowSet:
    """An immutable, hashable set of 0-based physical row positions in one data file.

    Positions are unsigned 64-bit values; deletion vectors use 0 .. 0x7ffffffe80000000, which their encoders check.
    Each high half maps to one 32-bit roaring bitmap, so a set takes about as much memory as its serialized form.
    Positions are not checked against the row count of the data file.

    >>> rows = RowSet([3, 1, 4, 1, 5])
    >>> rows
    RowSet([1, 3, 4, 5])
    >>> len(rows), 4 in rows, rows.min, rows.max
    (4, True, 1, 5)
    >>> rows - {4} | RowSet.from_ranges([(10, 13)])
    RowSet([1, 3, 5, 10, 11, 12])
    """

    __slots__ = ("_hash", "_holder")
    __array_ufunc__ = None  # otherwise NumPy operators would expand the set to an array
    _holder: Holder
    _hash: int | None

    def __init__(self, positions: Positions | Holder = ()) -> None:
        """Build from positions in any order; a `Holder`, as decoders pass, is used directly."""
        if isinstance(positions, Holder):
            self._holder = positions
        elif isinstance(positions, RowSet):
            self._holder = positions.holder
        elif isinstance(positions, range) and positions.step == 1 and positions.start >= 0 and positions.stop < 2**63:
            bounds = np.array([(positions.start, positions.stop)] if positions else [], np.int64)
            self._holder = Loaded(from_ranges(bounds))
        else:
            self._holder = canonical(as_positions(positions))
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
            UsageError: a negative start, a stop before its start, a range that is not a pair of integers, or ranges
                that span more than 2**40 rows.
        """
        return cls(Loaded(from_ranges(merge_touching(as_ranges(ranges)))))

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_] | Iterable[bool], start: int = 0) -> RowSet:
        """Build from booleans, True = row is in the set; `mask[0]` is position `start`.

        Raises:
            UsageError: the mask is not a flat array of booleans, or extends beyond positions 0 to 2**64 - 1.
        """
        return cls(positions_of(mask, start))

    @classmethod
    def from_arrow(cls, positions: Any) -> RowSet:
        """Build from an Arrow array of integers (extra ``arrow``).

        Args:
            positions: a pyarrow array, chunked or not, or an array or series of another library that exports
                Arrow's PyCapsule interface (Polars, pandas, nanoarrow), without nulls.

        Raises:
            UsageError: not an Arrow array of integers, a null, or a negative position.
            MissingExtra: pyarrow is not installed.
        """
        pa = require_extra("pyarrow", "arrow")
        if not isinstance(positions, (pa.Array, pa.ChunkedArray)):
            if hasattr(positions, "__arrow_c_stream__"):
                positions = pa.chunked_array(positions)
            elif hasattr(positions, "__arrow_c_array__"):
                positions = pa.array(positions)
            else:
                raise UsageError(f"positions must be an Arrow array, got {type(positions).__name__}")
        return cls(positions)

    # ------------------------------------------------------------------ counts

    @property
    def containers(self) -> ContainerMix:
        """Number of array, bitset and run containers in the canonical encoding."""
        mix = ContainerMix()
        for data in self.serialized().values():
            mix = mix.plus(roaring.walk(Cursor(b"".join(data))).mix)
        return mix

    def count(self, start: int, stop: int) -> int:
        """Return the number of positions in ``[start, stop)``.

        Raises:
            UsageError: not 0 <= start <= stop.
        """
        start, stop = as_bounds(start, stop)
        parts = (
            (bitmap, max(start - (key << 32), 0), min(stop - (key << 32), _KEY_ROWS))
            for key, bitmap in self._load().items()
        )
        return sum(bitmap.range_cardinality(low, high) for bitmap, low, high in parts if low < high)

    def histogram(self, stop: int, bins: int) -> NDArray[np.int64]:
        """Count positions in `bins` equal slices of ``[0, stop)``: int64[bins]. Positions are not expanded.

        Raises:
            UsageError: fewer than one bin, a negative stop, or not integers.
            LimitExceeded: there is too little memory for the bins.
        """
        stop, bins = as_count(stop, "stop"), as_count(bins, "bins", 1)
        within = _zeros(bins + 1, np.int64, "the bins")  # positions before an edge, in a bitmap that the edge divides
        whole = _zeros(bins + 2, np.int64, "the bins")  # positions of bitmaps, at the first edge not before their end
        edges = [stop * i // bins for i in range(bins + 1)]
        for key, bitmap in self._load().items():
            base = key << 32
            first, last = bisect_right(edges, base), bisect_left(edges, base + _KEY_ROWS)
            whole[last] += len(bitmap)
            if first < last:
                within[first:last] += [bitmap.rank(edge - base - 1) for edge in edges[first:last]]
        return np.asarray(np.diff(within + np.cumsum(whole[:-1])))

    def contains(self, positions: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return whether each position is in the set: bool[n]; positions may be in any order.

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
        index = np.minimum(np.searchsorted(common, wanted), len(common) - 1)
        return np.asarray(common[index] == wanted)

    # ------------------------------------------------------------------ out

    @overload
    def to_numpy(self, dtype: type[np.int64] = np.int64, *, max_rows: int | None = ...) -> NDArray[np.int64]: ...
    @overload
    def to_numpy(self, dtype: type[np.uint64], *, max_rows: int | None = ...) -> NDArray[np.uint64]: ...
    def to_numpy(self, dtype: type[Any] = np.int64, *, max_rows: int | None = DEFAULT_MAX_ROWS) -> NDArray[Any]:
        """Return all positions, ascending, as int64[n] (or uint64[n]).

        Args:
            dtype: ``np.int64``, or ``np.uint64`` for positions from 2**63 on.
            max_rows: upper bound on expanded rows, because a few bytes of runs can encode billions; None for no bound.
                Use `chunks`, `ranges` or `mask` for larger sets.

        Raises:
            LimitExceeded: the set has more than `max_rows` rows.
            UsageError: not an integer dtype, or a position does not fit it.
        """
        dtype = _integer_type(dtype)
        if max_rows is not None:
            max_rows = as_count(max_rows, "max_rows")
        loaded = self._load()
        count = loaded.cardinality
        if max_rows is not None and count > max_rows:
            raise LimitExceeded("rows to expand (max_rows)", expected=f"at most {max_rows}", actual=count)
        kind = np.dtype(dtype)
        most = (1 << (8 * kind.itemsize - (kind.kind == "i"))) - 1  # np.iinfo takes ten times as long
        if loaded and next(reversed(loaded)) >= most >> 32 and (loaded.high or 0) > most:
            raise UsageError(f"position {loaded.high} does not fit {kind.name}: ask for np.uint64")
        if count <= _ROWS_AT_ONCE and list(loaded) == [0]:
            return np.frombuffer(loaded[0].to_array(), np.uint32).astype(dtype)
        out = np.empty(count, dtype)
        start = 0
        for key, bitmap in loaded.items():
            for low in _pieces(bitmap, _ROWS_AT_ONCE):
                piece = out[start : start + len(low)]
                piece[:] = low
                if key:
                    piece += dtype(key << 32)
                start += len(low)
        return out

    def to_arrow(self) -> pa.Array:
        """Return all positions, ascending, as a pyarrow int64 array (extra ``arrow``).

        Raises:
            LimitExceeded: the set has more than 2**30 rows.
            UsageError: a position does not fit int64.
            MissingExtra: pyarrow is not installed.
        """
        return require_extra("pyarrow", "arrow").array(self.to_numpy())

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Return all positions as an Arrow array: Arrow's PyCapsule interface, which Polars and others take.

        Args:
            requested_schema: type that the consumer prefers.

        Raises:
            LimitExceeded, UsageError, MissingExtra: see `to_arrow`.
        """
        found: tuple[object, object] = self.to_arrow().__arrow_c_array__(requested_schema)
        return found

    def chunks(self, rows: int = 1 << 20) -> Iterator[NDArray[Any]]:
        """Iterate over all positions, ascending, as arrays of at most `rows` rows (at least 65,536).

        The arrays are int64, or uint64 if a position of the set is above 2**63 - 1.

        Raises:
            UsageError: `rows` is not an integer.
        """
        check_integer(rows, "rows")
        wide = (self.max or 0) > np.iinfo(np.int64).max
        dtype, most = np.uint64 if wide else np.int64, max(rows, _CONTAINER_ROWS)
        return (low + dtype(key << 32) for key, bitmap in self._load().items() for low in _pieces(bitmap, most))

    def ranges(self) -> NDArray[Any]:
        """Return the maximal ranges ``[start, stop)``, ascending, as int64[k, 2].

        They are Python integers (dtype object) if one ends above 2**63 - 1. Runs are not expanded: 2**32 consecutive
        rows are one range.
        """
        wide = (self.max or 0) >= np.iinfo(np.int64).max
        dtype: type[Any] = object if wide else np.int64
        views = ((key, roaring.walk(Cursor(bitmap.serialize()))) for key, bitmap in self._load().items())
        parts = [roaring.ranges_of(view).astype(dtype, copy=False) + (key << 32) for key, view in views]
        return merge_touching(np.concatenate(parts)) if parts else np.zeros((0, 2), np.int64)

    def mask(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return bool[stop - start]; element i is True if position ``start + i`` is in the set.

        Args:
            start: first position, absolute in the data file.
            stop: position after the last.

        Raises:
            UsageError: not 0 <= start <= stop.
            LimitExceeded: there is too little memory for the mask.
        """
        start, stop = as_bounds(start, stop)
        packed = self.packed_mask(start, stop)
        with enough_memory("the mask", None):
            bits = np.unpackbits(packed, count=(start & 7) + stop - start, bitorder="little")
        return bits[start & 7 :].view(np.bool_)

    def packed_mask(self, start: int, stop: int, *, keep: bool = False) -> NDArray[np.uint8]:
        """Return `mask` packed into bits, least significant first, without expanding positions: uint8.

        Bit 0 of the first byte is position ``start & ~7``; bit ``start & 7`` is `start`.

        Args:
            start: first position, absolute in the data file.
            stop: position after the last.
            keep: True inverts: set bits are rows *not* in the set.

        Raises:
            UsageError: not 0 <= start <= stop.
            LimitExceeded: there is too little memory for the mask.
        """
        start, stop = as_bounds(start, stop)
        first = start >> 3
        size = ((stop + 7) >> 3) - first
        packed = _zeros((size + 7) & ~7, np.uint8, "the mask")
        for key, bitmap in self._load().items():
            lo, hi = max(start - (key << 32), 0), min(stop - (key << 32), _KEY_ROWS)
            if lo < hi and (lo > bitmap.min() or bitmap.max() >= hi):
                bitmap &= BitMap(range(lo, hi))  # noqa: PLW2901
            if lo < hi and bitmap:
                roaring.pack_into(roaring.walk(Cursor(bitmap.serialize())), packed, first - (key << 29))
        return (np.invert(packed, out=packed) if keep else packed)[:size]

    def arrow_mask(self, start: int, stop: int, *, keep: bool = False) -> pa.BooleanArray:
        """Return a packed pyarrow.BooleanArray of length ``stop - start`` (extra ``arrow``); see `packed_mask`.

        Args:
            start: first position, absolute in the data file.
            stop: position after the last.
            keep: True inverts: set bits are rows *not* in the set.

        Raises:
            UsageError: not 0 <= start <= stop.
            LimitExceeded: there is too little memory for the mask.
            MissingExtra: pyarrow is not installed.
        """
        pa = require_extra("pyarrow", "arrow")
        start, stop = as_bounds(start, stop)
        buffer = pa.py_buffer(self.packed_mask(start, stop, keep=keep))
        return pa.BooleanArray.from_buffers(pa.bool_(), stop - start, [None, buffer], offset=start & 7)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all positions for ``np.asarray``: int64, or uint64 if one is above 2**63 - 1; see `to_numpy`.

        Raises:
            UsageError: ``copy=False``, or a position does not fit the integer dtype.
        """
        if copy is False:
            raise UsageError("a row set is not backed by an array: copy=False is not possible")
        if dtype is not None and np.dtype(dtype).kind in "iu":
            return self.to_numpy(dtype)
        wide = (self.max or 0) > np.iinfo(np.int64).max
        array = self.to_numpy(np.uint64) if wide else self.to_numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    # ------------------------------------------------------------------ display

    def __repr__(self) -> str:
        if self.cardinality <= 8:
            return f"RowSet([{', '.join(map(str, self))}])"
        return f"RowSet({self.cardinality:,} rows in {self.min}..{self.max})"

    def _repr_html_(self) -> str:
        """Return an HTML card for notebooks: cardinality, first and last row, containers, and a histogram."""
        low, high = self.min, self.max
        if low is None or high is None:
            return "<div><b>RowSet</b> empty</div>"
        kinds = ", ".join(f"{count:,} {name}" for name, count in self.containers._asdict().items() if count)
        return (
            f"<div><b>RowSet</b> {counted(self.cardinality, 'row')} in {low:,}..{high:,}"
            f"<br><small>containers: {kinds}</small>{_strip(self.histogram(high + 1, _BINS), high)}</div>"
        )

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
        if not isinstance(bitmaps, dict):  # checking for any mapping takes longer
            check_type(bitmaps, Mapping, "bitmaps", "a mapping of integers to pyroaring.BitMap")
        for key in bitmaps:
            check_integer(key, "a key of bitmaps")
        frozen = Loaded()
        for key in sorted(bitmaps):
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
        if isinstance(other, RowSet):
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
        sets = [self._as_set(other).bitmaps for other in others]
        mine = self._load().items()
        return all(key in theirs and bitmap.issubset(theirs[key]) for theirs in sets for key, bitmap in mine)

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
        sets = [self._as_set(other).bitmaps for other in others]
        mine = self._load().items()
        return not any(key in theirs and bitmap.intersect(theirs[key]) for theirs in sets for key, bitmap in mine)

    def _of(self, bitmaps: dict[int, FrozenBitMap]) -> Self:
        """Return the set of these bitmaps, with ascending keys; empty ones are dropped."""
        return type(self)(Loaded({key: bitmap for key, bitmap in bitmaps.items() if bitmap}))

    def _as_set(self, positions: Positions) -> RowSet:
        return positions if isinstance(positions, RowSet) else type(self)(positions)

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


def _integer_type(dtype: Any) -> Any:
    """Return the NumPy type of an integer dtype."""
    if dtype is np.int64 or dtype is np.uint64:
        return dtype
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "iu":
        raise UsageError(f"dtype must be an integer type such as np.int64, not {dtype!r:.60}")
    return found.type


def _pieces(bitmap: AbstractBitMap, rows: int) -> Iterator[NDArray[np.uint32]]:
    """Yield the values of a bitmap, `rows` at a time: small pieces stay in the CPU caches."""
    if len(bitmap) <= rows:
        yield np.frombuffer(bitmap.to_array(), np.uint32)
        return
    starts = [bitmap[i] for i in range(0, len(bitmap), rows)]
    for start, stop in itertools.pairwise([*starts, bitmap.max() + 1]):
        yield np.frombuffer((bitmap & BitMap(range(start, stop))).to_array(), np.uint32)


def _zeros(size: int, dtype: type[Any], what: str) -> NDArray[Any]:
    try:
        return np.zeros(size, dtype)
    except (MemoryError, ValueError) as err:  # a size beyond 2**63 is a ValueError
        raise too_little_memory(what, None, err) from None


_ROWS = "a RowSet (dvcodec.RowSet(positions) makes one)"


def check_rows(rows: object, name: str = "rows") -> None:
    """Refuse an argument that is not a row set.

    Raises:
        UsageError: it is not a `RowSet`.
    """
    check_type(rows, RowSet, name, _ROWS)


def check_vectors(vectors: object) -> None:
    """Refuse an argument that does not map data files to row sets.

    Raises:
        UsageError: it is not a mapping, a key is not a str, or a value is not a `RowSet`.
    """
    check_type(vectors, Mapping, "vectors", "a mapping of data files to row sets")
    for path, rows in vectors.items():  # type: ignore[attr-defined]  # a mapping, as just checked
        if not isinstance(path, str):
            check_type(path, str, "the data file of a vector", "a str")
        if not isinstance(rows, RowSet):
            check_rows(rows, f"vectors[{path!r:.200}]")
