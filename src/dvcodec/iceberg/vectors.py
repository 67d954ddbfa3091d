"""Iceberg deletion vectors: the ``deletion-vector-v1`` blob; `files` reads and writes the Puffin files.

Specification: Apache Iceberg, "Puffin file format" (blob type deletion-vector-v1) and "Table spec" v3; the bytes are
those of Iceberg Java's ``BitmapPositionDeleteIndex``. A blob is one frame::

    u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE | u32 BE CRC-32

Like Java engines, `decode` needs only the byte range from the manifest (`content_offset`, `content_size_in_bytes`), not
the footer. Positions are 0-based physical row positions in the data file.
"""

from __future__ import annotations

from dvcodec.core import frame, vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.frame import Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet

__all__ = ["MAGICS", "decode", "encode"]

MAGICS = (Magic.PORTABLE64,)


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one blob.

    Args:
        buf: exactly the blob: `content_size_in_bytes` bytes from `content_offset`.
        cardinality: the manifest's `record_count`; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC.
        source: name of the file, for errors.
        base: byte offset of the vector in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the vector is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(encode(RowSet([1, 3, 5])), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum).load()


def encode(rows: RowSet, *, run_optimize: bool = True, gap_keys: bool = True) -> bytes:
    """Encode one blob.

    The defaults give the bytes of Iceberg Java (positions deleted one by one, then serialized). After
    *range* deletes and merges with an older vector, Java may write other containers for the same rows.

    Args:
        rows: the deleted rows.
        run_optimize: False writes no run containers (iceberg-rust, DuckDB).
        gap_keys: False leaves out the empty bitmaps below the highest key (all but the Java writers).

    Raises:
        UsageError: not a `RowSet`, a position above 0x7ffffffe80000000, or a blob of more than 2**31 - 1 bytes.

    >>> encode(RowSet()).hex(" ", 4)
    '0000000c d1d33964 00000000 00000000 bf18480c'
    """
    magic = Magic.PORTABLE64
    return frame.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize, gap_keys=gap_keys))
