"""Reads many framed vectors as row sets."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from dvcodec.core.batch.decode import beyond, checksums, read_one, read_small
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
        expected = None if cardinalities is None else cardinalities[some]
        with enough_memory("the vectors", window.source):
            rows += _load(window, starts[some], sizes[some], allowed, expected, limits, verify_checksum)
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
    found = read_small(np.frombuffer(window.view, np.uint8), starts, sizes, allowed, crc_ok)
    counts = found.table.cardinalities()
    one_by_one = ~found.table.valid | beyond(limits, sizes, counts)
    if cardinalities is not None:
        one_by_one |= (cardinalities >= 0) & (cardinalities != counts)
    stops = found.begins + found.sizes
    stored = zip(repeat(window.view), found.keys.tolist(), found.begins.tolist(), stops.tolist())
    rows = [RowSet(Stored(one)) for one in stored]
    for i in np.flatnonzero(one_by_one | (counts == 0)).tolist():
        expected = -1 if cardinalities is None else int(cardinalities[i])
        one = read_one(window, int(starts[i]), int(sizes[i]), allowed, expected, limits, verify_checksum)
        rows[i] = one.load()
    return rows
