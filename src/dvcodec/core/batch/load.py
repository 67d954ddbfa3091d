"""Many framed vectors as row sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.batch.decode import checksums, plain, read_one
from dvcodec.core.cursor import BytesLike, as_view
from dvcodec.core.frame import Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet

__all__ = ["load"]

Index = NDArray[np.int64]
_AT_ONCE = 512
"""Vectors of one pass: what it computes stays in the cache, and in memory that is at hand."""


def load(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> list[RowSet]:
    """Read every framed vector of a buffer; all of each is checked now, and its bitmap built when it is first used.

    Arguments are those of `survey`.

    Raises:
        DecodeError: the first vector that is not sound, as `core.vector` tells it.
    """
    view = as_view(data)
    if not isinstance(view.obj, bytes):  # row sets stay with what was checked, whatever becomes of the buffer
        view = memoryview(bytes(view))
    rows: list[RowSet] = []
    for first in range(0, len(starts), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        promised = None if cardinalities is None else cardinalities[some]
        rows += _load(view, starts[some], sizes[some], allowed, promised, limits, verify_checksum, source, base)
    return rows


def _load(
    view: memoryview,
    starts: Index,
    sizes: Index,
    allowed: tuple[Magic, ...],
    cardinalities: Index | None,
    limits: Limits,
    verify_checksum: bool,
    source: str | None,
    base: int,
) -> list[RowSet]:
    found = plain(
        np.frombuffer(view, np.uint8),
        starts,
        sizes,
        allowed,
        checksums(view, starts, sizes) if verify_checksum else None,
    )
    counts = found.table.cardinalities()
    alone = ~found.table.sound | (counts > limits.max_cardinality) | (sizes > limits.max_vector_bytes)
    if cardinalities is not None:
        alone |= (cardinalities >= 0) & (cardinalities != counts)
    stops = found.begins + found.sizes
    rows = RowSet._stored(view, found.keys.tolist(), found.begins.tolist(), stops.tolist())
    for i in np.flatnonzero(alone | (counts == 0)).tolist():
        promised = None if cardinalities is None or cardinalities[i] < 0 else int(cardinalities[i])
        one = read_one(
            view, int(starts[i]), int(starts[i] + sizes[i]), allowed, promised, limits, verify_checksum, source, base
        )
        rows[i] = one.load()
    return rows
