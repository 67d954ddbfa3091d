"""The five segment kinds of Lance row-id sequences, and the choice that Lance's current writer makes among them.

Specification: Lance's ``rowids.proto``, message ``U64Segment``; Rust module ``rowids/segment.rs``. One of five::

    1 Range             start = 1, end = 2                       the values start .. end - 1
    2 RangeWithHoles    start = 1, end = 2, holes = 3            without the holes (values, not offsets)
    3 RangeWithBitmap   start = 1, end = 2, bitmap = 3           values whose bit is set, least significant bit first
    4 sorted_array      an encoded array, ascending              5 array   an encoded array in any order

(rowids.proto and the web pages say most significant bit first, but no writer does that.)

Lance's ``EncodedU64Array``: unsigned 64-bit values as 16- or 32-bit offsets from a base, or in full.

Specification: Lance's ``rowids.proto``; Rust module ``rowids/encoded_array.rs``. A message of one of three::

    1 U16Array   base = 1, offsets = 2 (u16 LE)     2 U32Array   the same with u32     3 U64Array   values = 2 (u64 LE)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical, Unsupported
from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import Values, spread
from dvcodec.core.usage import as_count
from dvcodec.lance import wire

WIDTHS = {1: 2, 2: 4, 3: 8}
"""Field number -> bytes of a value."""
_NUMBERS = {width: number for number, width in WIDTHS.items()}
_FULL_WIDTH = 8
_TOP = 2**64 - 1
_MOST_VALUES = 2**60 - 1
"""Maximum number of values whose bytes NumPy can address."""


@dataclass(frozen=True, slots=True)
class EncodedArray:
    """Unsigned 64-bit values as stored.

    Attributes:
        width: bytes of a stored value: 2, 4 or 8.
        base: added to each value; 0 with 8 bytes.
        data: the stored values, little-endian, in element order.
    """

    width: int
    base: int = 0
    data: bytes = field(default=b"", repr=False)

    @classmethod
    def from_values(cls, values: Values) -> EncodedArray:
        """Encode with the narrowest width; the base is the minimum."""
        if not len(values):
            return cls(_FULL_WIDTH)
        low, high = int(values.min()), int(values.max())
        width = 2 if high - low < 1 << 16 else 4 if high - low < 1 << 32 else _FULL_WIDTH
        base = low if width < _FULL_WIDTH else 0
        return cls(
            width, base, (values - np.uint64(base) if base else values).astype(f"<u{width}", copy=False).tobytes()
        )

    def __len__(self) -> int:
        return len(self.data) // self.width

    @property
    def offsets(self) -> NDArray[Any]:
        """The stored values, without the base."""
        return np.frombuffer(self.data, f"<u{self.width}")

    def to_numpy(self) -> Values:
        """Return the values in element order: uint64[n]."""
        values: Values = self.offsets.astype(np.uint64)
        if self.base:
            values += np.uint64(self.base)
        return values

    def at(self, i: int) -> int:
        """Return one value; `i` must be in range."""
        return self.base + int.from_bytes(self.data[i * self.width : (i + 1) * self.width], "little")

    def cut(self, offset: int, length: int) -> EncodedArray:
        """Return `length` elements from index `offset`, with the same base."""
        data = self.data[offset * self.width : (offset + length) * self.width]
        return EncodedArray(self.width, self.base, data)

    def search(self, value: int) -> int:
        """Return the number of values below `value` in an ascending array."""
        wanted = value - self.base
        if wanted <= 0:
            return 0
        if wanted >= 1 << 8 * self.width:
            return len(self)
        return int(np.searchsorted(self.offsets, np.array(wanted, f"<u{self.width}")))

    @property
    def ascends(self) -> bool:
        """Whether the values ascend strictly."""
        offsets = self.offsets
        return bool((offsets[1:] > offsets[:-1]).all())

    def pieces(self) -> list[bytes]:
        """Encode the message, in pieces."""
        base = [wire.scalar(1, self.base)] if self.width < _FULL_WIDTH else []
        return wire.nested(_NUMBERS[self.width], base + wire.blob(2, self.data))

    def encode(self) -> bytes:
        """Encode the message."""
        return b"".join(self.pieces())


@dataclass(slots=True)
class ArrayParts:
    """An array being decoded: its message may come in several parts."""

    number: int = 0
    base: int = 0
    data: Cursor | None = None

    def read(self, cursor: Cursor) -> None:
        """Read one part.

        Raises:
            Truncated: the bytes end inside a field.
            NotCanonical: a field of the wrong wire type, or an invalid varint.
        """
        for entry in wire.fields(cursor):
            if entry.number not in WIDTHS:
                continue
            if entry.number != self.number:  # the last one wins
                self.number, self.base, self.data = entry.number, 0, None
            window = entry.window(cursor, "array")
            for inner in wire.fields(window):
                if inner.number == 1 and WIDTHS[self.number] < _FULL_WIDTH:
                    self.base = inner.integer(window, "base of an array")
                elif inner.number == 2:
                    self.data = inner.window(window, "values of an array")

    def finish(self, cursor: Cursor, at: int) -> EncodedArray:
        """Check the array and return it; `at` is its position in `cursor`, for errors.

        Raises:
            NotCanonical: no array, an incomplete value, or a value above 2**64 - 1.
        """
        if not self.number:
            raise cursor.error(NotCanonical, "array", at=at, expected="a U16Array, U32Array or U64Array")
        width = WIDTHS[self.number]
        array = EncodedArray(width, self.base, b"" if self.data is None else bytes(self.data.view))
        if len(array.data) % width:
            raise (self.data or cursor).error(
                NotCanonical,
                f"values of a U{8 * width}Array",
                expected=f"a multiple of {width} bytes",
                actual=len(array.data),
            )
        if len(array) and array.base + int(array.offsets.max()) > _TOP:
            highest = array.base + int(array.offsets.max())
            raise (self.data or cursor).error(
                NotCanonical, "base and offset", expected=f"a sum of at most {_TOP}", actual=highest
            )
        return array


@contextmanager
def expanding(what: str, count: int, max_rows: int | None) -> Iterator[None]:
    """Bound an expansion: a few bytes can encode any number of values.

    Args:
        what: the values, in the plural.
        count: number of values.
        max_rows: upper bound on `count`; None bounds by memory only.

    Raises:
        LimitExceeded: `count` is above `max_rows`, or an allocation in the block failed.
        UsageError: `max_rows` is not a count.
    """
    most = _MOST_VALUES if max_rows is None else as_count(max_rows, "max_rows")
    if count > most:
        raise LimitExceeded(f"{what} to expand (max_rows)", expected=f"at most {most}", actual=count)
    with enough_memory(f"{count} {what}", None):
        yield


_PART = 1 << 14


class Segment(ABC):
    """Unsigned 64-bit values in row order; the i-th belongs to the i-th row of its part of the fragment."""

    __slots__ = ()
    number: int
    """Field number in the message ``U64Segment``."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of values."""

    @abstractmethod
    def values(self) -> Values:
        """Expand to uint64[n], in row order, whatever n is."""

    @abstractmethod
    def position(self, value: int) -> int | None:
        """Return the index of `value` (the first, if an array repeats it), None if it is missing."""

    @abstractmethod
    def get(self, i: int) -> int | None:
        """Return the i-th value, None beyond the end."""

    def slice(self, offset: int, length: int) -> Segment:
        """Return `length` values from index `offset`, as the segment that Lance's current writer chooses."""
        return next(self.cut([offset, offset + length]))

    def cut(self, bounds: Sequence[int]) -> Iterator[Segment]:
        """Yield the values between consecutive indices, as `slice` does; what is stored is decoded once for all."""
        values = self.values()
        return (from_values(values[start:stop]) for start, stop in pairwise(bounds))

    def mask(self, offsets: Values) -> Segment:
        """Drop the values at `offsets` (ascending, at least one) and choose the kind again; `ArraySegment` is kept."""
        return from_values(np.delete(self.values(), offsets.astype(np.int64)))

    @abstractmethod
    def content(self) -> list[bytes]:
        """Encode the segment's own message, in pieces."""

    def pieces(self) -> list[bytes]:
        """Encode the message ``U64Segment``, in pieces."""
        return wire.nested(self.number, self.content())

    def encode(self) -> bytes:
        """Encode the message ``U64Segment``."""
        return b"".join(self.pieces())


@dataclass(frozen=True, slots=True)
class RangeSegment(Segment):
    """The values from `start` to `end` - 1."""

    start: int
    end: int
    number = 1

    @property
    def count(self) -> int:
        return self.end - self.start

    def values(self) -> Values:
        return _shifted(np.arange(self.end - self.start, dtype=np.uint64), self.start)

    def position(self, value: int) -> int | None:
        return value - self.start if self.start <= value < self.end else None

    def get(self, i: int) -> int | None:
        return self.start + i if 0 <= i < self.count else None

    def cut(self, bounds: Sequence[int]) -> Iterator[Segment]:
        return (RangeSegment(self.start + start, self.start + stop) for start, stop in pairwise(bounds))

    def mask(self, offsets: Values) -> Segment:
        return _from_interval(self.start, self.end, _shifted(offsets, self.start))

    def content(self) -> list[bytes]:
        return [wire.scalar(1, self.start), wire.scalar(2, self.end)]


@dataclass(frozen=True, slots=True)
class RangeWithHoles(Segment):
    """The values from `start` to `end` - 1, without `holes`."""

    start: int
    end: int
    holes: EncodedArray
    number = 2

    @property
    def count(self) -> int:
        return self.end - self.start - len(self.holes)

    def values(self) -> Values:
        keep = np.ones(self.end - self.start, np.bool_)
        keep[(self.holes.to_numpy() - np.uint64(self.start)).astype(np.int64)] = False
        return _shifted(np.flatnonzero(keep), self.start)

    def position(self, value: int) -> int | None:
        if not self.start <= value < self.end:
            return None
        before = self.holes.search(value)
        if before < len(self.holes) and self.holes.at(before) == value:
            return None
        return value - self.start - before

    def get(self, i: int) -> int | None:
        return int(self.at(np.array([i], np.uint64))[0]) if 0 <= i < self.count else None

    def at(self, offsets: Values) -> Values:
        """Return the values at `offsets`; `rank[k]` is the number of values before hole k."""
        holes = self.holes.to_numpy()
        rank = holes - np.uint64(self.start) - np.arange(len(holes), dtype=np.uint64)
        wanted = offsets.astype(np.uint64)
        return _shifted(wanted + np.searchsorted(rank, wanted, side="right").astype(np.uint64), self.start)

    def cut(self, bounds: Sequence[int]) -> Iterator[Segment]:
        holes = self.holes.to_numpy()
        edges = np.array(bounds, np.uint64)
        starts, stops = edges[:-1], edges[1:]
        filled = starts < stops
        firsts, lasts = self.at(starts), self.at(stops - filled.astype(np.uint64))
        holes_from, holes_to = np.searchsorted(holes, firsts), np.searchsorted(holes, lasts)
        for i, some in enumerate(filled.tolist()):
            within = holes[holes_from[i] : holes_to[i]]
            yield _from_interval(int(firsts[i]), int(lasts[i]) + 1, within) if some else RangeSegment(0, 0)

    def mask(self, offsets: Values) -> Segment:
        holes = np.concatenate([self.holes.to_numpy(), self.at(offsets)])
        holes.sort()
        return _from_interval(self.start, self.end, holes)

    def content(self) -> list[bytes]:
        return [wire.scalar(1, self.start), wire.scalar(2, self.end), *wire.nested(3, self.holes.pieces())]


@dataclass(frozen=True, slots=True)
class RangeWithBitmap(Segment):
    """The values ``start + i`` whose bit i is set: bit ``i % 8``, least significant first, of byte ``i // 8``."""

    start: int
    end: int
    bitmap: bytes = field(repr=False)
    number = 3

    @property
    def count(self) -> int:
        return _ones(self.bitmap)

    def values(self) -> Values:
        bits = np.unpackbits(np.frombuffer(self.bitmap, np.uint8), count=self.end - self.start, bitorder="little")
        return _shifted(np.flatnonzero(bits), self.start)

    def position(self, value: int) -> int | None:
        if not self.start <= value < self.end:
            return None
        byte, bit = divmod(value - self.start, 8)
        if not self.bitmap[byte] >> bit & 1:
            return None
        return _ones(self.bitmap[:byte]) + (self.bitmap[byte] & (1 << bit) - 1).bit_count()

    def get(self, i: int) -> int | None:
        total = np.cumsum(np.bitwise_count(np.frombuffer(self.bitmap, np.uint8)), dtype=np.int64)
        if not (len(total) and 0 <= i < total[-1]):
            return None
        byte = int(np.searchsorted(total, i, side="right"))
        before = int(total[byte - 1]) if byte else 0
        bits = np.flatnonzero(np.unpackbits(np.array([self.bitmap[byte]], np.uint8), bitorder="little"))
        return self.start + 8 * byte + int(bits[i - before])

    def content(self) -> list[bytes]:
        return [wire.scalar(1, self.start), wire.scalar(2, self.end), *wire.blob(3, self.bitmap)]


@dataclass(frozen=True, slots=True)
class _StoredArray(Segment):
    array: EncodedArray

    @property
    def count(self) -> int:
        return len(self.array)

    def values(self) -> Values:
        return self.array.to_numpy()

    def get(self, i: int) -> int | None:
        return self.array.at(i) if 0 <= i < len(self.array) else None

    def cut(self, bounds: Sequence[int]) -> Iterator[Segment]:
        return (from_values(self.array.cut(start, stop - start).to_numpy()) for start, stop in pairwise(bounds))

    def content(self) -> list[bytes]:
        return self.array.pieces()


@dataclass(frozen=True, slots=True)
class SortedArray(_StoredArray):
    """Ascending values."""

    number = 4

    def position(self, value: int) -> int | None:
        i = self.array.search(value)
        return i if i < len(self.array) and self.array.at(i) == value else None


@dataclass(frozen=True, slots=True)
class ArraySegment(_StoredArray):
    """Values in any order."""

    number = 5

    def position(self, value: int) -> int | None:
        wanted = value - self.array.base
        if not 0 <= wanted < 1 << 8 * self.array.width:
            return None
        found = np.flatnonzero(self.array.offsets == np.uint64(wanted))
        return int(found[0]) if len(found) else None

    def mask(self, offsets: Values) -> Segment:
        rest = np.delete(self.values(), offsets.astype(np.int64))
        return ArraySegment(EncodedArray.from_values(rest)) if len(rest) else RangeSegment(0, 0)


def from_values(values: Values) -> Segment:
    """Choose the segment that Lance's writer chooses for these values.

    Ascending values become the kind with the smallest estimated size of three, others an array. Values with equal
    neighbours become an array too (Lance's writer would lose them).
    """
    if not len(values):
        return RangeSegment(0, 0)
    if (values[1:] <= values[:-1]).any():
        return ArraySegment(EncodedArray.from_values(values))
    low, high = int(values[0]), int(values[-1])
    kind = _cheapest(low, high, len(values))
    if kind is RangeSegment:
        return RangeSegment(low, high + 1)
    if kind is SortedArray:
        return SortedArray(EncodedArray.from_values(values))
    if kind is RangeWithHoles:
        return RangeWithHoles(low, high + 1, EncodedArray.from_values(_holes(values)))
    # The range has at most 16 slots per value.
    present = np.zeros(high - low + 1, np.bool_)
    present[(values - np.uint64(low)).view(np.int64)] = True
    return RangeWithBitmap(low, high + 1, np.packbits(present, bitorder="little").tobytes())


def _holes(values: Values) -> Values:
    """Return the gaps between ascending values, block by block to stay in the CPU caches."""
    starts = range(0, len(values) - 1, _PART)
    parts = [values[start : start + _PART + 1] for start in starts]
    found = [start + np.flatnonzero(part[1:] - part[:-1] != 1) for start, part in zip(starts, parts, strict=True)]
    before = np.concatenate(found)
    low, high = values[before], values[before + 1]
    return _shifted(spread((low - values[0]).view(np.int64) + 1, (high - low).view(np.int64) - 1), int(values[0]))


def _from_interval(start: int, end: int, holes: Values) -> Segment:
    """`from_values` for a range without these ascending holes; the range is only expanded if that form is smaller."""
    index = np.arange(len(holes), dtype=np.uint64)
    head = _leading(holes == index + np.uint64(start))
    tail = _leading((holes + (np.uint64(len(holes)) - index) == np.uint64(end % 2**64))[::-1])
    if head + start == end:
        return RangeSegment(0, 0)
    start, end, holes = start + head, end - tail, holes[head : len(holes) - tail]
    kind = _cheapest(start, end - 1, end - start - len(holes))
    if kind is RangeSegment:
        return RangeSegment(start, end)
    whole = RangeWithHoles(start, end, EncodedArray.from_values(holes))
    return whole if kind is RangeWithHoles else from_values(whole.values())


def _leading(flags: NDArray[np.bool_]) -> int:
    """Return the number of leading True flags."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _cheapest(low: int, high: int, count: int) -> type[Segment]:
    """Apply the rule of Lance's writer: the kind with the smallest estimate in bytes, the first on ties.

    The estimates assume 4 bytes per hole and 2 per value, whatever their width.
    """
    if high == _TOP:  # the exclusive end of a range would not fit
        return SortedArray
    slots = high - low + 1
    holes = slots - count
    if not holes:
        return RangeSegment
    estimates = ((24 + 4 * holes, 0), (24 + -(-slots // 8), 1), (24 + 2 * count, 2))
    return (RangeWithHoles, RangeWithBitmap, SortedArray)[min(estimates)[1]]


def _shifted(offsets: NDArray[np.integer[Any]], start: int) -> Values:
    """Return `start` plus the offsets, which must not be negative; may modify `offsets`."""
    values: Values = offsets.view(np.uint64) if offsets.dtype == np.int64 else offsets.astype(np.uint64)
    if start:
        values += np.uint64(start)
    return values


def _ones(data: bytes) -> int:
    return int(np.bitwise_count(np.frombuffer(data, np.uint8)).sum(dtype=np.int64))


RANGE_WITH_RUNS = 6
"""Field number of a proposed segment kind that no release writes."""
_NAMES = {1: "Range", 2: "RangeWithHoles", 3: "RangeWithBitmap", 4: "sorted_array", 5: "array"}
_START, _END, _THIRD = 1, 2, 3


def decode_segment(parts: list[Cursor]) -> Segment:
    """Decode one segment, whose message may come in several parts.

    Raises:
        Truncated: the bytes end inside a field.
        NotCanonical: none of the five kinds, or an invalid segment.
        Unsupported: the proposed kind ``RangeWithRuns``.
    """
    number, start, end = 0, 0, 0
    third: Cursor | None = None
    array: ArrayParts | None = None
    whole = parts[0]
    for cursor in parts:
        for entry in wire.fields(cursor):
            if entry.number == RANGE_WITH_RUNS:
                raise cursor.error(
                    Unsupported,
                    "segment of kind RangeWithRuns (field 6)",
                    at=entry.at,
                    expected=f"one of {', '.join(_NAMES.values())}",
                )
            if entry.number not in _NAMES:
                continue
            if entry.number != number:  # the last one wins
                number, start, end, third, array = entry.number, 0, 0, None, None
            window = entry.window(cursor, _NAMES[number])
            if number in (SortedArray.number, ArraySegment.number):
                array = array or ArrayParts()
                array.read(window)
                continue
            for inner in wire.fields(window):
                if inner.number == _START:
                    start = inner.integer(window, "start")
                elif inner.number == _END:
                    end = inner.integer(window, "end")
                elif inner.number == _THIRD and number == RangeWithBitmap.number:
                    third = inner.window(window, "bitmap")
                elif inner.number == _THIRD and number == RangeWithHoles.number:
                    array = array or ArrayParts()
                    array.read(inner.window(window, "holes"))
    if not number:
        raise whole.error(NotCanonical, "segment", at=0, expected=f"one of {', '.join(_NAMES.values())}")
    if number in (SortedArray.number, ArraySegment.number):
        return _array_segment(number, array or ArrayParts(), whole)
    if start > end:
        raise whole.error(NotCanonical, _NAMES[number], at=0, expected="start <= end", actual=f"{start} > {end}")
    if number == RangeSegment.number:
        return RangeSegment(start, end)
    if number == RangeWithHoles.number:
        return _with_holes(start, end, array, whole)
    return _with_bitmap(start, end, third, whole)


def _array_segment(number: int, parts: ArrayParts, cursor: Cursor) -> Segment:
    array = parts.finish(cursor, 0)
    if number == ArraySegment.number:
        return ArraySegment(array)
    if not array.ascends:
        raise (parts.data or cursor).error(NotCanonical, "sorted_array", expected="values that ascend strictly")
    return SortedArray(array)


def _with_holes(start: int, end: int, parts: ArrayParts | None, cursor: Cursor) -> Segment:
    if parts is None:
        raise cursor.error(NotCanonical, "RangeWithHoles", at=0, expected="holes")
    holes = parts.finish(cursor, 0)
    where = parts.data or cursor
    if not holes.ascends:
        raise where.error(NotCanonical, "holes", expected="values that ascend strictly")
    if len(holes) and not (start <= holes.at(0) and holes.at(len(holes) - 1) < end):
        raise where.error(
            NotCanonical,
            "holes",
            expected=f"values from {start} to {end - 1}",
            actual=f"{holes.at(0)} to {holes.at(len(holes) - 1)}",
        )
    return RangeWithHoles(start, end, holes)


def _with_bitmap(start: int, end: int, bits: Cursor | None, cursor: Cursor) -> Segment:
    data = b"" if bits is None else bytes(bits.view)
    where = bits or cursor
    expected = -(-(end - start) // 8)
    if len(data) != expected:
        raise where.error(
            NotCanonical,
            "bitmap",
            at=0,
            expected=f"{expected} bytes for {end - start} values",
            actual=len(data),
        )
    padding = (end - start) % 8
    if padding and data[-1] >> padding:
        raise where.error(
            NotCanonical, "padding bits of the bitmap", at=len(data) - 1, expected="zeros", actual=f"{data[-1]:#04x}"
        )
    return RangeWithBitmap(start, end, data)
