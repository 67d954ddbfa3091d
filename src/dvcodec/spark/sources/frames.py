"""Vectors of a batch as the frames of a container."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic, StoredFrame
from dvcodec.core.ragged import Index, cut_by_weight
from dvcodec.spark.columns import numbers
from dvcodec.spark.layouts import has_magic, reencode, refuse_far
from dvcodec.spark.sources.options import Target
from dvcodec.spark.vectors import NamedVectors

__all__ = ["stored_frames"]

_EXPANDED = 1 << 20
"""Positions that are expanded at once."""


def stored_frames(batch: pa.RecordBatch, target: Target) -> Iterator[StoredFrame]:
    """Verify the vectors of a batch and yield them in the layout of a container.

    Args:
        batch: with the columns ``data_file`` and ``dv``; ``cardinality`` is checked if present and not null.
        target: kind of container. Frames of its layout are passed on unchanged, others re-encoded.

    Raises:
        UsageError: a null, or rows that the layout cannot hold.
        DecodeError: a corrupt vector. Both errors name the data file.
    """
    errors = batch.column("error") if "error" in batch.schema.names else None
    vectors = NamedVectors.of(batch.column("data_file"), batch.column("dv"), errors, _promised(batch))
    magic = Magic.PAIMON32 if target == "paimon32" else Magic.PORTABLE64
    refuse_far(vectors, magic)
    fits, cardinality = has_magic(vectors, magic), vectors.found.cardinality
    for piece in cut_by_weight(np.where(fits, 0, cardinality), _EXPANDED):
        encoded = reencode(vectors, np.flatnonzero(~fits[piece]) + piece.start, magic)
        for i in range(piece.start, piece.stop):
            yield StoredFrame(vectors.files[i], int(cardinality[i]), encoded.get(i) or vectors.column.view(i))


def _promised(batch: pa.RecordBatch) -> Index | None:
    if "cardinality" not in batch.schema.names:
        return None
    column = batch.column("cardinality")
    if not pa.types.is_integer(column.type):
        raise UsageError(f"column cardinality: expected integers, found {column.type}")
    return numbers(column)
