"""The heads of many serialized 32-bit bitmaps at once: cookie and container count; see `roaring` for the format."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.build import COOKIE_NO_RUNS, COOKIE_RUNS, MAX_CONTAINERS
from dvcodec.core.gather_scatter import u32

__all__ = ["MIN_BITMAP", "Heads", "read_heads"]

MIN_BITMAP = 8
"""Bytes of the smallest bitmap."""


class Heads(NamedTuple):
    """One entry per bitmap.

    Attributes:
        valid: bool[n], whether cookie and container count are valid.
        has_runs: bool[n], whether the cookie announces run containers.
        counts: int64[n], number of containers.
        descriptors: int64[n], offset of the descriptors in the bitmap.
    """

    valid: NDArray[np.bool_]
    has_runs: NDArray[np.bool_]
    counts: NDArray[np.int64]
    descriptors: NDArray[np.int64]


def read_heads(data: NDArray[np.uint8], starts: NDArray[np.int64]) -> Heads:
    """Read the heads at the offsets `starts` of `data`; each must have `MIN_BITMAP` bytes (not checked)."""
    cookies = u32(data, starts)
    has_runs = (cookies & 0xFFFF) == COOKIE_RUNS
    counts = np.where(has_runs, (cookies >> 16) + 1, u32(data, starts + 4))
    valid = (has_runs | (cookies == COOKIE_NO_RUNS)) & (counts <= MAX_CONTAINERS)
    return Heads(valid, has_runs, counts, np.where(has_runs, 4 + (counts + 7) // 8, MIN_BITMAP))
