"""Paimon's hash index: hashes of the primary keys in a bucket of a dynamic-bucket table.

Specification: Paimon's "Table Index", section "Dynamic Bucket Index"; Java class ``HashIndexFile``. No header::

    i32 BE | i32 BE | ...            one hash per primary key; the index manifest has their number
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import CardinalityMismatch, Truncated, UsageError
from dvcodec.core.usage import as_count

HASH_BYTES = 4
_INT32 = np.iinfo(np.int32)


def decode_hash_index(buf: BytesLike, *, row_count: int | None = None, source: str | None = None) -> NDArray[np.int32]:
    """Decode a whole file: int32[n], native byte order, in file order.

    Args:
        buf: the file.
        row_count: number of hashes from the index manifest (`row_count` of the entry); None skips the check.
        source: name of the file, for errors.

    Raises:
        Truncated: the last hash is incomplete (Paimon's reader drops it silently).
        CardinalityMismatch: the number of hashes is not `row_count`.
        UsageError: `buf` is not a contiguous buffer, or `row_count` is not a count.
    """
    row_count = None if row_count is None else as_count(row_count, "row_count")
    cursor = Cursor(buf, source=source)
    left = cursor.remaining % HASH_BYTES
    if left:
        start = cursor.remaining - left
        raise cursor.error(Truncated, "hash", at=start, expected=f"{HASH_BYTES} bytes", actual=f"{left} left")
    hashes = np.frombuffer(cursor.view, ">i4").astype(np.int32)
    if row_count is not None and row_count != len(hashes):
        raise cursor.error(CardinalityMismatch, "hashes", expected=f"{row_count} (metadata)", actual=len(hashes))
    return hashes


def encode_hash_index(hashes: ArrayLike) -> bytes:
    """Encode hashes in the order given.

    Raises:
        UsageError: not a flat sequence of integers from -2**31 to 2**31 - 1.
    """
    try:
        values: NDArray[Any] = np.asarray(hashes)
    except (ValueError, OverflowError) as err:
        raise UsageError(f"hashes must be a flat array of integers: {err}") from None
    if not values.size:
        return b""
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise UsageError(f"hashes must be a flat array of integers, got {values.dtype} of shape {values.shape}")
    low, high = int(values.min()), int(values.max())
    if low < _INT32.min or high > _INT32.max:
        raise UsageError(f"hash {low if low < _INT32.min else high} is not a signed 32-bit integer")
    return values.astype(">i4").tobytes()
