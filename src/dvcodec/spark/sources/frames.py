"""The frames that a container takes, from a batch of vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec import paimon
from dvcodec.core import frame, vector
from dvcodec.core.batch import Survey, encode, expand, survey
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic, StoredFrame
from dvcodec.ops.convert import portable_frame
from dvcodec.spark.columns import BinaryColumn, binary_column, pieces
from dvcodec.spark.sources.options import Target

__all__ = ["stored_frames"]

_MAX_32 = 2**31 - 1
"""Highest position of a 32-bit vector."""
_MAX_KEY0 = 2**32 - 1
_EXPANDED = 1 << 20
"""Positions that are expanded at once."""
_SMALL = 1 << 16
"""Rows up to which a vector is encoded together with others."""
_BITMAP = 20
"""Bytes of a 64-bit frame before its only bitmap: length, magic, count of bitmaps, key."""
_CRC = 4


def stored_frames(batch: pa.RecordBatch, target: Target) -> Iterator[StoredFrame]:
    """Verify the vectors of a batch and yield them as a kind of container holds them.

    Args:
        batch: with the columns ``data_file`` and ``dv``; ``cardinality`` is checked where it is there and not null.
        target: kind of container. Frames of its layout are passed on as they are, others re-encoded.

    Raises:
        UsageError: a null, or rows that the layout cannot hold.
        DecodeError: a vector that is corrupt. Either names the data file.
    """
    names = batch.column("data_file").to_pylist()
    column = binary_column(batch.column("dv"))
    _refuse_nulls(batch, names, column)
    found = survey(column.data, column.starts, column.sizes, cardinalities=_promised(batch))
    for i, error in sorted(found.errors.items()):
        error.source = f"vector of {names[i]}"
        if error.offset is not None:
            error.offset -= int(column.starts[i])
        raise error.with_traceback(None)
    wanted = Magic.PAIMON32 if target == "paimon32" else Magic.PORTABLE64
    fits = _magics(column) == int.from_bytes(wanted.value, "little")
    if wanted is Magic.PAIMON32:
        fits &= found.max <= _MAX_32
    for piece in pieces(np.where(fits, 0, found.cardinality), _EXPANDED):
        others = np.flatnonzero(~fits[piece]) + piece.start
        encoded = _encoded(column, found, others, wanted, names) if len(others) else {}
        for i in range(piece.start, piece.stop):
            data = encoded[i] if i in encoded else column.view(i)
            yield StoredFrame(names[i], int(found.cardinality[i]), data)


def _magics(column: BinaryColumn) -> NDArray[np.int64]:
    """Return the four bytes behind the length field of each, as little-endian numbers."""
    raw = column.data[(column.starts[:, None] + 4) + np.arange(4)]
    return np.asarray(raw.astype(np.int64) @ (1 << np.arange(0, 32, 8)), np.int64)


def _refuse_nulls(batch: pa.RecordBatch, names: list[str | None], column: BinaryColumn) -> None:
    if None in names:
        raise UsageError("a vector has no data file: data_file is null")
    if not column.valid.all():
        i = int(np.flatnonzero(~column.valid)[0])
        why = batch.column("error")[i].as_py() if "error" in batch.schema.names else None
        raise UsageError(f"the vector of {names[i]} is null{f': {why}' if why else ''}")


def _promised(batch: pa.RecordBatch) -> NDArray[np.int64] | None:
    if "cardinality" not in batch.schema.names:
        return None
    column = batch.column("cardinality")
    if not pa.types.is_integer(column.type):
        raise UsageError(f"the column cardinality is {column.type}, not an integer")
    return np.asarray(column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _encoded(
    column: BinaryColumn, found: Survey, index: NDArray[np.int64], wanted: Magic, names: list[str | None]
) -> dict[int, BytesLike]:
    """Encode vectors anew, in Java's bytes: small ones together, for the two layouts share their 32-bit bitmaps."""
    rows, last = found.cardinality[index], found.max[index]
    plain = (rows <= _SMALL) & (last <= (_MAX_32 if wanted is Magic.PAIMON32 else _MAX_KEY0))
    if wanted is Magic.PAIMON32:
        plain &= rows > 0  # a 64-bit vector without rows has no bitmap
    small = index[plain]
    positions, counts = expand(column.data, column.starts[small], column.sizes[small], verify_checksum=False)
    frames: list[bytes] = encode(positions, counts).to_list()
    if wanted is Magic.PAIMON32:
        frames = [frame.build(wanted, data[_BITMAP:-_CRC]) for data in frames]
    encoded: dict[int, BytesLike] = dict(zip(small.tolist(), frames, strict=True))
    for i in index[~plain].tolist():
        loaded = vector.read(Cursor(column.view(i)), verify_checksum=False)
        try:
            encoded[i] = portable_frame(loaded) if wanted is Magic.PORTABLE64 else paimon.encode(loaded.load())
        except UsageError as err:
            raise UsageError(f"vector of {names[i]}: {err}") from None
    return encoded
