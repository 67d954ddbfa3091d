"""Many framed vectors as row sets."""

from __future__ import annotations

from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.batch.decode import checksums, plain, read_one
from dvcodec.core.cursor import Cursor
from dvcodec.core.frame import Magic
from dvcodec.core.holders import Stored
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet

__all__ = ["load"]

Index = NDArray[np.int64]
_AT_ONCE = 512
"""Vectors of one pass: what it computes stays in the cache, and in memory that is at hand."""


def load(
    window: Cursor,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...],
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> list[RowSet]:
    """Read every framed vector of a window; all of each is checked now, and its bitmap built when it is first used.

    Args:
        window: holds them all. Where its bytes may change later, they are copied once.
        starts: int64[n], where each frame begins in the window.
        sizes: int64[n], bytes of each; they lie inside.
        allowed: magics the container knows.
        cardinalities: int64[n], what metadata says; negative where it says nothing.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRCs.

    Raises:
        DecodeError: the first vector that is not sound, as `core.vector` tells it.
    """
    if not isinstance(window.view.obj, bytes):  # row sets stay with what was checked, whatever becomes of the buffer
        window = Cursor(bytes(window.view), source=window.source, base=window.base)
    rows: list[RowSet] = []
    for first in range(0, len(starts), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        promised = None if cardinalities is None else cardinalities[some]
        rows += _load(window, starts[some], sizes[some], allowed, promised, limits, verify_checksum)
    return rows


def _load(
    window: Cursor,
    starts: Index,
    sizes: Index,
    allowed: tuple[Magic, ...],
    cardinalities: Index | None,
    limits: Limits,
    verify_checksum: bool,
) -> list[RowSet]:
    crc_ok = checksums(window.view, starts, sizes) if verify_checksum else None
    found = plain(np.frombuffer(window.view, np.uint8), starts, sizes, allowed, crc_ok)
    counts = found.table.cardinalities()
    alone = ~found.table.sound | (counts > limits.max_cardinality) | (sizes > limits.max_vector_bytes)
    if cardinalities is not None:
        alone |= (cardinalities >= 0) & (cardinalities != counts)
    stops = found.begins + found.sizes
    held = zip(repeat(window.view), found.keys.tolist(), found.begins.tolist(), stops.tolist())
    rows = [RowSet(Stored(one)) for one in held]
    for i in np.flatnonzero(alone | (counts == 0)).tolist():
        promised = -1 if cardinalities is None else int(cardinalities[i])
        one = read_one(window, int(starts[i]), int(sizes[i]), allowed, promised, limits, verify_checksum)
        rows[i] = one.load()
    return rows
