"""Paimon deletion vectors, 32- and 64-bit: the vector alone.

Source: Paimon's ``BitmapDeletionVector`` (32-bit) and ``Bitmap64DeletionVector`` (64-bit). Both stand in the frame of
`core.frame`; the magic tells them apart::

    32-bit   u32 BE length | 5E 43 F2 D0 | one 32-bit portable roaring, LE | u32 BE CRC-32
    64-bit   u32 BE length | D1 D3 39 64 | 64-bit portable roaring, LE     | u32 BE CRC-32

An index file is a version byte (1) and frames back to back, as in Delta; a 64-bit one is the same bytes.
"""

from __future__ import annotations

from typing import Literal

from dvcodec.core import frame, vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.frame import Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.rowset import RowSet

__all__ = ["decode", "encode"]

MAGICS = (Magic.PAIMON32, Magic.PORTABLE64)


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
        verify_checksum: False skips the CRC (as Paimon's own readers did for long).
        source: name of the file, for errors.
        base: offset of the frame in that file, for errors.

    Raises:
        DecodeError: the bytes are no sound vector.
    """
    return vector.read(
        Cursor(buf, source=source, base=base),
        allowed=MAGICS,
        exact=True,
        cardinality=cardinality,
        limits=limits,
        verify_checksum=verify_checksum,
    ).load()


def encode(rows: RowSet, *, bits: Literal[32, 64] = 32, run_optimize: bool = True) -> bytes:
    """Encode one framed vector, with Java's bytes; ``run_optimize=False`` gives pypaimon's.

    Raises:
        UsageError: a position above 2**31 - 1 with 32 bits, or what a frame cannot hold.
    """
    magic = Magic.PAIMON32 if bits == 32 else Magic.PORTABLE64
    return frame.build(magic, vector.encode_payload(rows, magic, run_optimize=run_optimize))
