"""Reads and writes little-endian numbers at many offsets of a buffer at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import Bytes, Index, spread

__all__ = ["put", "put_words", "u16", "u32", "words_at"]

_LONG = 16
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
    if int(counts.sum()) > _LONG * len(begins):
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
