"""Little-endian numbers at many places of a buffer, read and written in one pass over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import spread

__all__ = ["put", "put_words", "u16", "u32", "words_at"]

Index = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_LONG = 16
"""Words of a stretch, on average, from which it is copied by a call for itself and not word by word."""


def _read(data: Bytes, at: Index, dtype: str, size: int) -> Index:
    """Read values at many places: of all that begin at any byte, which overlap, those that begin there."""
    if not len(at):
        return np.zeros(0, np.int64)
    anywhere = np.ndarray((len(data) - size + 1,), dtype, np.ascontiguousarray(data), strides=(1,))
    return np.asarray(anywhere[at], np.int64)


def u16(data: Bytes, at: Index) -> Index:
    """Read 16-bit values at many places (bytes, inside `data`: not checked): int64[n]."""
    return _read(data, at, "<u2", 2)


def u32(data: Bytes, at: Index) -> Index:
    """Read 32-bit values at many places (bytes, inside `data`: not checked): int64[n]."""
    return _read(data, at, "<u4", 4)


def put(out: Bytes, at: Index, values: Any, width: int) -> None:
    """Write values of `width` bytes at many places; `values` is an array or one number for all."""
    column = np.broadcast_to(np.asarray(values, np.int64), at.shape)
    for k in range(width):
        out[at + k] = (column >> 8 * k) & 0xFF


def words_at(data: Bytes, starts: Index, counts: Index) -> NDArray[np.uint16]:
    """Copy runs of 16-bit words, `counts[i]` of them from byte `starts[i]`, one behind the other."""
    stops = starts + 2 * counts
    breaks = np.flatnonzero(starts[1:] != stops[:-1])  # containers of a bitmap lie one behind the other
    begins, ends = np.append(starts[:1], starts[breaks + 1]), np.append(stops[breaks], stops[-1:])
    if int(counts.sum()) > _LONG * len(begins):
        view = data.data
        return np.frombuffer(b"".join([view[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]), "<u2")
    at = spread(begins, (ends - begins) >> 1)
    at += at - np.repeat(begins, (ends - begins) >> 1)
    return u16(data, at).astype(np.uint16)


def put_words(out: Bytes, starts: Index, counts: Index, words: NDArray[np.uint16]) -> None:
    """Write runs of 16-bit words, `counts[i]` of them from byte `starts[i]`; they stand one behind the other."""
    odd = starts & 1
    if not odd.any():  # as long as no vector has run flags of an odd length: one aligned scatter
        out[: len(out) & ~1].view("<u2")[spread(starts >> 1, counts)] = words
        return
    at = (spread(starts >> 1, counts) << 1) + np.repeat(odd, counts)
    out[at] = words & 0xFF
    out[at + 1] = words >> 8
