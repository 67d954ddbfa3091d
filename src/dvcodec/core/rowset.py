"""`RowSet`, an immutable set of row positions: what every format decodes to and encodes from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import build, expand64, roaring
from dvcodec.core.arguments import as_bounds, as_positions, as_ranges, positions_of
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.bitmap_set import BitmapSet, Loaded
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.limits import enough_memory
from dvcodec.core.usage import as_count, check_integer

if TYPE_CHECKING:
    import pyarrow as pa

    from dvcodec.core.bitmap_set import Positions

_BINS = 96
_HEIGHT = 24


def card(
    cardinality: int,
    low: int | None,
    high: int | None,
    mix: ContainerMix,
    histogram: Callable[[int, int], NDArray[np.int64]],
) -> str:
    """Return HTML with inline SVG. It contains no text from outside this module, only numbers.

    Args:
        cardinality: number of rows.
        low: first row, None if there is none.
        high: last row.
        mix: containers of each kind.
        histogram: counts rows in equal slices; see `RowSet.histogram`.
    """
    if low is None or high is None:
        return "<div><b>RowSet</b> empty</div>"
    kinds = ", ".join(f"{count:,} {name}" for name, count in mix._asdict().items() if count)
    return (
        f"<div><b>RowSet</b> {cardinality:,} row{'s' * (cardinality != 1)} in {low:,}..{high:,}"
        f"<br><small>containers: {kinds}</small>{_strip(histogram(high + 1, _BINS), high)}</div>"
    )


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


_CONTAINER_ROWS = 1 << 16
DEFAULT_MAX_ROWS = 1 << 30
"""Default upper bound on expanded rows: 8 GiB of positions."""


class RowSet(BitmapSet):
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

    __slots__ = ()
    __array_ufunc__ = None  # otherwise NumPy operators would expand the set to an array

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
        return cls(Loaded(build.from_ranges(build.merge_touching(as_ranges(ranges)))))

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
        return expand64.count(self._load(), *as_bounds(start, stop))

    def histogram(self, stop: int, bins: int) -> NDArray[np.int64]:
        """Count positions in `bins` equal slices of ``[0, stop)``: int64[bins]. Positions are not expanded.

        Raises:
            UsageError: fewer than one bin, a negative stop, or not integers.
            LimitExceeded: there is too little memory for the bins.
        """
        return expand64.histogram(self._load(), as_count(stop, "stop"), as_count(bins, "bins", 1))

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
        count = self.cardinality
        if max_rows is not None and count > max_rows:
            raise LimitExceeded("rows to expand (max_rows)", expected=f"at most {max_rows}", actual=count)
        if self._load() and (self.max or 0) > np.iinfo(dtype).max:
            raise UsageError(f"position {self.max} does not fit {np.dtype(dtype).name}: ask for np.uint64")
        return expand64.positions(self._load(), count, dtype)

    def to_arrow(self) -> pa.Array:
        """Return all positions, ascending, as a pyarrow int64 array (extra ``arrow``).

        Raises:
            LimitExceeded: the set has more than 2**30 rows.
            UsageError: a position does not fit int64.
            MissingExtra: pyarrow is not installed.
        """
        return require_extra("pyarrow", "arrow").array(self.to_numpy())

    def chunks(self, rows: int = 1 << 20) -> Iterator[NDArray[Any]]:
        """Iterate over all positions, ascending, as arrays of at most `rows` rows (at least 65,536).

        The arrays are int64, or uint64 if a position of the set is above 2**63 - 1.

        Raises:
            UsageError: `rows` is not an integer.
        """
        check_integer(rows, "rows")
        wide = (self.max or 0) > np.iinfo(np.int64).max
        return expand64.chunks(self._load(), max(rows, _CONTAINER_ROWS), np.uint64 if wide else np.int64)

    def ranges(self) -> NDArray[Any]:
        """Return the maximal ranges ``[start, stop)``, ascending, as int64[k, 2].

        They are Python integers (dtype object) if one ends above 2**63 - 1. Runs are not expanded: 2**32 consecutive
        rows are one range.
        """
        wide = (self.max or 0) >= np.iinfo(np.int64).max
        return expand64.ranges(self._load(), object if wide else np.int64)

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
        packed = expand64.packed_mask(self._load(), start, stop)
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
        packed = expand64.packed_mask(self._load(), start, stop)
        return (np.invert(packed, out=packed) if keep else packed)[: ((stop + 7) >> 3) - (start >> 3)]

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
        return card(self.cardinality, self.min, self.max, self.containers, self.histogram)


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
