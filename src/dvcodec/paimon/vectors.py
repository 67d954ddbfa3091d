"""Paimon deletion vectors, 32- and 64-bit; `index_file` reads and writes the files of vectors.

Specification: Paimon's "Table Index", section "Deletion Vectors Index"; Java classes ``BitmapDeletionVector`` (32-bit)
and ``Bitmap64DeletionVector`` (64-bit). Both use the frame of `core.frame`; the magic distinguishes them::

    32-bit   u32 BE length | 5E 43 F2 D0 | one 32-bit portable roaring, LE | u32 BE CRC-32
    64-bit   u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE     | u32 BE CRC-32
"""

from __future__ import annotations

from dvcodec.core import frame, vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.frame import Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_choice

__all__ = ["MAGICS", "decode", "encode", "magic_of"]

MAGICS = (Magic.PAIMON32, Magic.PORTABLE64)
_LAYOUTS = {"bitmap32": Magic.PAIMON32, "bitmap64": Magic.PORTABLE64}


def magic_of(layout: str) -> Magic:
    """Return the magic of a layout.

    Raises:
        UsageError: an unknown layout.
    """
    check_choice(layout, _LAYOUTS, "layout")
    return _LAYOUTS[layout]


def decode(
    buf: BytesLike,
    *,
    cardinality: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one framed vector, 32- or 64-bit.

    Args:
        buf: exactly the frame, length field and CRC included.
        cardinality: from the index manifest; None skips the check.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRC (as Paimon's own readers do since 1.0).
        source: name of the index file, for errors.
        base: byte offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the data file's row count.

    Raises:
        DecodeError: the frame is corrupt: `Truncated`, `ChecksumMismatch`, `BadMagic`, `NotCanonical`,
            `CardinalityMismatch` or `LimitExceeded`.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type or is negative.

    >>> decode(encode(RowSet([1, 3, 5]), layout="bitmap64"), cardinality=3)
    RowSet([1, 3, 5])
    """
    vector.check_count(cardinality)
    cursor = Cursor(buf, source=source, base=base)
    return vector.read(cursor, MAGICS, cardinality, limits, verify_checksum=verify_checksum).load()


def encode(rows: RowSet, *, layout: str = "bitmap32", run_optimize: bool = True) -> bytes:
    """Encode one framed vector.

    Args:
        rows: the deleted rows.
        layout: ``bitmap32``, Paimon's default, or ``bitmap64`` (table option ``deletion-vectors.bitmap64``): Iceberg's
            bytes.
        run_optimize: True gives Java's bytes; False writes no run containers, as pypaimon and pypaimon-rust do.

    Raises:
        UsageError: not a `RowSet`, a position above 2**31 - 1 in ``bitmap32``, a vector that is too large, or an
            unknown layout.
    """
    magic = magic_of(layout)
    return frame.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize))
