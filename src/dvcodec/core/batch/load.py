"""Reads many framed vectors as row sets."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from dvcodec.core.batch.decode import Frames, read_small
from dvcodec.core.cursor import Cursor
from dvcodec.core.frame import Magic
from dvcodec.core.holders import Stored
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.ragged import Index
from dvcodec.core.rowset import RowSet

__all__ = ["load"]

_VECTORS = 512
"""Vectors per pass: its arrays fit the CPU caches."""


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
    """Read all framed vectors of a window. They are fully checked now; a bitmap is built when first used.

    Args:
        window: contains the frames. It is copied once if its bytes are mutable.
        starts: int64[n], offset of each frame in the window.
        sizes: int64[n], bytes of each frame, within the window.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.

    Raises:
        DecodeError: a vector is corrupt; the error is that of the first one, see `core.vector.read`.
    """
    if not isinstance(window.view.obj, bytes):  # row sets keep the checked bytes
        window = Cursor(bytes(window.view), source=window.source, base=window.base)
    rows: list[RowSet] = []
    for first in range(0, len(starts), _VECTORS):
        some = slice(first, first + _VECTORS)
        stated = None if cardinalities is None else cardinalities[some]
        with enough_memory("the vectors", window.source):
            rows += _load(Frames(window, starts[some], sizes[some], allowed, stated, limits, verify_checksum))
    return rows


def _load(frames: Frames) -> list[RowSet]:
    found = read_small(frames)
    stops = found.begins + found.sizes
    stored = zip(repeat(frames.window.view), found.keys.tolist(), found.begins.tolist(), stops.tolist())
    rows = [RowSet(Stored(one)) for one in stored]
    for i in np.flatnonzero(found.others | (found.rows == 0)).tolist():
        rows[i] = frames.read(i).load()
    return rows
