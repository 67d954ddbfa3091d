"""Ranges of a file that are read together: one request for what lies close, and no more than some megabytes at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOW_BYTES", "WINDOW_VECTORS", "stretches"]

Index = NDArray[np.int64]

WINDOW_BYTES = 1 << 24
WINDOW_VECTORS = 1 << 15
_GAP = 1 << 17
"""Bytes between two vectors that are read rather than jumped over."""


def stretches(offsets: Index, lengths: Index) -> Iterator[tuple[int, int, int, int]]:
    """Cut vectors in file order into stretches to be read at once: first, one past the last, first byte, end.

    Args:
        offsets: int64[n], first byte of each vector, ascending (not checked).
        lengths: int64[n], bytes of each.
    """
    ends = np.maximum.accumulate(offsets + lengths) if len(offsets) else offsets
    breaks = np.flatnonzero(offsets[1:] > ends[:-1] + _GAP) + 1
    first = 0
    while first < len(offsets):
        start = int(offsets[first])
        last = max(int(np.searchsorted(ends, start + WINDOW_BYTES, side="right")), first + 1)
        gap = int(np.searchsorted(breaks, first, side="right"))
        last = min(last, first + WINDOW_VECTORS, int(breaks[gap]) if gap < len(breaks) else len(offsets))
        yield first, last, start, int((offsets + lengths)[first:last].max())
        first = last
