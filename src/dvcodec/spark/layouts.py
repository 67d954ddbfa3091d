"""Re-encode verified vectors in another layout, in the bytes of Java's writers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import batch, frame, vector
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.ragged import Index, cut_by_weight
from dvcodec.core.rowset import RowSet
from dvcodec.spark.vectors import NamedVectors

__all__ = ["EMPTY", "encode", "has_magic", "narrow", "reencode", "refuse_far"]


_MAX_32 = 2**31 - 1
"""Highest position in a 32-bit vector."""
_SMALL = 1 << 14
"""Vectors of at most this many rows are re-encoded together with others."""
_AT_ONCE = 1 << 21
"""Positions expanded at once."""
_BITMAP = 20
"""Bytes of a 64-bit frame before its only bitmap: length, magic, count of bitmaps, key."""


def encode(rows: RowSet, magic: Magic = Magic.PORTABLE64) -> bytes:
    """Return the frame of a row set."""
    return frame.build(magic, *vector.encode_pieces(rows, magic))


EMPTY = encode(RowSet())
"""The frame of a vector without rows."""


def has_magic(vectors: NamedVectors, magic: Magic) -> NDArray[np.bool_]:
    """Return which vectors have this layout."""
    column = vectors.column
    found = column.data[column.starts[:, None] + np.arange(4, 8)] if len(column.starts) else np.zeros((0, 4), np.uint8)
    return np.asarray((found == np.frombuffer(magic.value, np.uint8)).all(axis=1))


def refuse_far(vectors: NamedVectors, magic: Magic) -> None:
    """Refuse positions that the layout cannot hold.

    Raises:
        UsageError: a position above 2**31 - 1 in 32 bits; the message names the data file.
    """
    far = np.flatnonzero(vectors.found.max > _MAX_32)
    if magic is Magic.PAIMON32 and len(far):
        raise UsageError(
            f"data file {vectors.files[int(far[0])]!r}: position {int(vectors.found.max[far[0]])} does not fit a "
            f"32-bit vector (at most {_MAX_32}): use paimon64"
        )


def reencode(vectors: NamedVectors, index: Index, magic: Magic) -> dict[int, bytes]:
    """Return the frames of some vectors in a layout, by index."""
    frames: dict[int, bytes] = {}
    small = vectors.found.cardinality[index] <= _SMALL
    for i in index[~small].tolist():
        frames[i] = encode(vectors.load(i), magic)
    index = index[small]
    for part in cut_by_weight(vectors.found.cardinality[index] + 1, _AT_ONCE):
        encoded = batch.encode(*vectors.expand(index[part])).to_list()
        if magic is Magic.PAIMON32:
            encoded = list(map(narrow, encoded))
        frames.update(zip(index[part].tolist(), encoded, strict=True))
    return frames


def narrow(data: bytes) -> bytes:
    """Return a canonical 64-bit vector of at most one bitmap as a 32-bit one: the bitmap has the same bytes."""
    bitmap = data[_BITMAP:-4]
    return frame.build(Magic.PAIMON32, bitmap) if bitmap else encode(RowSet(), Magic.PAIMON32)
