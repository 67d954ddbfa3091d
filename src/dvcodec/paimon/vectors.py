"""Paimon deletion vectors, 32- and 64-bit: the vector alone; `index_file` has the files of many.

Specification: Paimon's "Table Index", section "Deletion Vectors Index"; Java classes ``BitmapDeletionVector`` (32-bit)
and ``Bitmap64DeletionVector`` (64-bit). Both stand in the frame of `core.frame`; the magic tells them apart::

    32-bit   u32 BE length | 5E 43 F2 D0 | one 32-bit portable roaring, LE | u32 BE CRC-32
    64-bit   u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE     | u32 BE CRC-32
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from dvcodec.core import frame, vector
from dvcodec.core.cursor import BytesLike
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet

__all__ = ["MAGICS", "Bits", "decode", "encode", "magic_of"]

MAGICS = (Magic.PAIMON32, Magic.PORTABLE64)
Bits: TypeAlias = Literal[32, 64]


def magic_of(bits: int) -> Magic:
    """Return the magic of the 32- or the 64-bit vector.

    Raises:
        UsageError: other `bits`.
    """
    if bits not in (32, 64):
        raise UsageError(f"a Paimon vector has 32 or 64 bits, not {bits}")
    return Magic.PAIMON32 if bits == 32 else Magic.PORTABLE64


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
        cardinality: rows that the index manifest promises; None leaves it unchecked.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRC (as Paimon's own readers have done since 1.0).
        source: name of the file, for errors.
        base: byte offset of the frame in that file, for errors.

    Returns:
        The deleted rows, 0-based physical positions. Not checked: positions against the file's row count.

    Raises:
        DecodeError: the bytes are no sound vector.
        UsageError: `buf` is no contiguous buffer.
    """
    return vector.read_whole(buf, MAGICS, cardinality, limits, verify_checksum, source, base).load()


def encode(rows: RowSet, *, bits: Bits = 32, run_optimize: bool = True) -> bytes:
    """Encode one framed vector.

    Args:
        rows: the deleted rows.
        bits: 32, Paimon's default, or 64 (table option ``deletion-vectors.bitmap64``), the bytes of Iceberg.
        run_optimize: True gives Java's bytes; False writes no run containers, as pypaimon and pypaimon-rust do.

    Raises:
        UsageError: a position above 2**31 - 1 with 32 bits, or what a frame cannot hold.
    """
    magic = magic_of(bits)
    return frame.build(magic, *vector.encode_pieces(rows, magic, run_optimize=run_optimize))
