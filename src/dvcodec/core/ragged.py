"""Many byte strings, or pieces of numbers, in one flat array with offsets: Arrow's variable-size layout.

Every function is a few NumPy passes over all pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import jit
from dvcodec.core.errors import UsageError

T = TypeVar("T", bound=np.generic)
Index = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Values = NDArray[np.uint64]
_LONG = 256
"""A piece of at least this many items is copied as a slice, not item by item."""


def offsets_of(lengths: NDArray[Any]) -> Index:
    """Return the offsets of adjacent pieces with these lengths, and their end: int64[n + 1]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.add.accumulate(lengths, out=offsets[1:])  # np.cumsum takes twice as long for a few
    return offsets


def cut_by_weight(weights: NDArray[Any], most: int) -> Iterator[slice]:
    """Cut weighted items into slices of at most `most` weight each; a heavier item gets its own."""
    bounds = offsets_of(weights)
    start = 0
    while start < len(weights):
        stop = max(int(np.searchsorted(bounds, bounds[start] + most, side="right")) - 1, start + 1)
        yield slice(start, stop)
        start = stop


def sums(values: NDArray[Any], counts: Index) -> Index:
    """Return the sums of adjacent pieces of `counts[i]` values, which may be 0."""
    totals = offsets_of(values)
    bounds = offsets_of(counts)
    return totals[bounds[1:]] - totals[bounds[:-1]]


def spread(starts: NDArray[Any], lengths: NDArray[Any]) -> Index:
    """Return the indexes of all pieces: ``starts[0], starts[0] + 1, ..`` (`lengths[0]` of them), ``starts[1], ..``."""
    starts, lengths = np.asarray(starts, np.int64), np.asarray(lengths, np.int64)
    if len(lengths) == 1:
        return np.arange(starts[0], starts[0] + lengths[0])
    some = lengths > 0
    if not some.all():
        starts, lengths = starts[some], lengths[some]
    if not len(lengths):
        return np.zeros(0, np.int64)
    # A cumulative sum of steps is several times faster than repeating each start.
    firsts = np.add.accumulate(lengths)
    steps = np.ones(int(firsts[-1]), np.int64)
    steps[0] = starts[0]
    steps[firsts[:-1]] = starts[1:] - starts[:-1] - lengths[:-1] + 1
    return np.add.accumulate(steps, out=steps)


def gather(values: NDArray[T], starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[T]:
    """Concatenate pieces of a flat array. They must be within it: not checked."""
    if len(starts) and bool((starts[1:] == starts[:-1] + lengths[:-1]).all()):  # already adjacent
        return values[int(starts[0]) : int(starts[-1] + lengths[-1])]
    if int(lengths.max(initial=0)) < _LONG and not jit.worth(0):
        return values[spread(starts, lengths)]
    bounds = offsets_of(lengths)
    out = np.empty(int(bounds[-1]), values.dtype)
    copy_pieces(out, bounds[:-1], values, starts, lengths)
    return out


def copy_pieces(
    out: NDArray[T], places: NDArray[Any], values: NDArray[T], starts: NDArray[Any], lengths: NDArray[Any]
) -> None:
    """Copy pieces of a flat array to `places` of another. Both must be within their array: not checked."""
    if jit.worth(0) and _are_within(len(out), places, lengths) and _are_within(len(values), starts, lengths):
        sides = (np.ascontiguousarray(one, np.int64) for one in (places, starts, lengths))
        if _copy.run(out, jit.frozen(values), *sides) is not None:
            return
    long = lengths >= _LONG
    if long.any():
        pieces = (places[long].tolist(), starts[long].tolist(), lengths[long].tolist())
        for place, start, length in zip(*pieces, strict=True):
            out[place : place + length] = values[start : start + length]
        places, starts, lengths = places[~long], starts[~long], lengths[~long]
    out[spread(places, lengths)] = values[spread(starts, lengths)]


def _are_within(size: int, starts: Index, lengths: Index) -> bool:
    """Whether these pieces are within an array."""
    if not len(starts):
        return True
    return int(starts.min()) >= 0 and int(lengths.min()) >= 0 and int((starts + lengths).max()) <= size


@jit.Kernel
def _copy(out: NDArray[Any], values: NDArray[Any], places: Index, starts: Index, lengths: Index) -> int:
    """Copy pieces, all within the arrays, as `copy_pieces`; return how many."""
    for i in range(len(lengths)):
        place, start = places[i], starts[i]
        for k in range(lengths[i]):
            out[place + k] = values[start + k]
    return len(lengths)


def merge_pieces(lengths: Index, values: NDArray[T], others: Iterable[tuple[int, NDArray[T]]]) -> NDArray[T]:
    """Join pieces, some of which are built one at a time.

    Args:
        lengths: int64[n], number of items of each piece.
        values: the items of all other pieces, adjacent.
        others: index and items of each piece that is built separately.
    """
    bounds = offsets_of(lengths)
    out = np.empty(int(bounds[-1]), values.dtype)
    inside = np.ones(len(lengths), np.bool_)
    for i, piece in others:
        inside[i] = False
        out[bounds[i] : bounds[i + 1]] = piece
    out[spread(bounds[:-1][inside], lengths[inside])] = values
    return out


@dataclass(frozen=True, slots=True, eq=False)
class ByteStrings(Sequence[bytes]):
    """Byte strings in one array.

    Attributes:
        offsets: int64[n + 1], in bytes; ascending from 0 to the length of `data`.
        data: uint8, the strings one after the other.
    """

    offsets: Index
    data: NDArray[np.uint8]

    @classmethod
    def from_list(cls, strings: Sequence[bytes]) -> ByteStrings:
        """Build from a sequence of byte strings.

        Raises:
            UsageError: an item is not bytes.
        """
        try:
            data = np.frombuffer(b"".join(strings), np.uint8)
        except TypeError as err:
            raise UsageError(f"not a sequence of bytes: {err}") from None
        return cls(offsets_of(np.fromiter(map(len, strings), np.int64, len(strings))), data)

    @classmethod
    def cut(cls, data: NDArray[np.uint8], starts: NDArray[Any], lengths: NDArray[Any]) -> ByteStrings:
        """Copy pieces of a flat array; they must be within it (not checked)."""
        return cls(offsets_of(lengths), gather(data, starts, lengths))

    @classmethod
    def concat(cls, parts: Sequence[ByteStrings]) -> ByteStrings:
        """Concatenate the strings of several."""
        lengths = np.concatenate([np.zeros(0, np.int64), *(part.lengths for part in parts)])
        return cls(offsets_of(lengths), np.concatenate([np.zeros(0, np.uint8), *(part.data for part in parts)]))

    @property
    def lengths(self) -> Index:
        """Bytes of each string."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            start, stop, step = i.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            offsets = self.offsets[start : max(start, stop) + 1]
            return ByteStrings(offsets - offsets[0], self.data[offsets[0] : offsets[-1]])
        index = range(len(self))[i]
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.to_list())

    def to_list(self) -> list[bytes]:
        """Return the strings as bytes objects."""
        flat, bounds = self.data.tobytes(), self.offsets.tolist()
        return [flat[a:b] for a, b in pairwise(bounds)]

    def take(self, index: NDArray[Any]) -> ByteStrings:
        """Return the strings with these indexes, in that order."""
        return ByteStrings.cut(self.data, self.offsets[:-1][index], self.lengths[index])


_LONG_RUNS = 16
"""Pieces of more than this many words on average are copied as slices, not word by word."""


def _read(data: Bytes, at: Index, dtype: str, size: int) -> Index:
    """Read values at many offsets, through an overlapping view with a value at every byte."""
    if not len(at):
        return np.zeros(0, np.int64)
    anywhere = np.ndarray((len(data) - size + 1,), dtype, np.ascontiguousarray(data), strides=(1,))
    return np.asarray(anywhere[at], np.int64)


def u16(data: Bytes, at: Index) -> Index:
    """Read 16-bit values at byte offsets, which must be within `data` (not checked): int64[n]."""
    return _read(data, at, "<u2", 2)


def u32(data: Bytes, at: Index) -> Index:
    """Read 32-bit values at byte offsets, which must be within `data` (not checked): int64[n]."""
    return _read(data, at, "<u4", 4)


def put(out: Bytes, at: Index, values: Any, width: int) -> None:
    """Write values of `width` bytes at byte offsets; `values` is an array, or one number for all."""
    column = np.broadcast_to(np.asarray(values, np.int64), at.shape)
    for k in range(width):
        out[at + k] = (column >> 8 * k) & 0xFF


def words_at(data: Bytes, starts: Index, counts: Index) -> NDArray[np.uint16]:
    """Concatenate pieces of 16-bit words: `counts[i]` words at byte `starts[i]`."""
    stops = starts + 2 * counts
    breaks = np.flatnonzero(starts[1:] != stops[:-1])  # containers of one bitmap are adjacent
    begins, ends = np.append(starts[:1], starts[breaks + 1]), np.append(stops[breaks], stops[-1:])
    if int(counts.sum()) > _LONG_RUNS * len(begins):
        view = data.data
        return np.frombuffer(b"".join([view[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]), "<u2")
    at = spread(begins, (ends - begins) >> 1)
    at += at - np.repeat(begins, (ends - begins) >> 1)
    return u16(data, at).astype(np.uint16)


def put_words(out: Bytes, starts: Index, counts: Index, words: NDArray[np.uint16]) -> None:
    """Write pieces of 16-bit words: the next `counts[i]` of `words` at byte `starts[i]`."""
    odd = starts & 1
    if not odd.any():  # unless a vector has run flags of odd length: one aligned scatter
        out[: len(out) & ~1].view("<u2")[spread(starts >> 1, counts)] = words
        return
    at = (spread(starts >> 1, counts) << 1) + np.repeat(odd, counts)
    out[at] = words & 0xFF
    out[at + 1] = words >> 8
