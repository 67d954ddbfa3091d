"""CRoaring's ``roaring_bitmap_serialize``: a list of values or a portable bitmap, whichever is smaller.

``u8 1 | u32 n | n x u32``, or ``u8 2 | 32-bit bitmap``; integers are little-endian.
"""

from __future__ import annotations

import struct

import numpy as np
from pyroaring import FrozenBitMap

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Wrapper, read_bitmap, rows_of, write32


def read_either(cursor: Cursor, limits: Limits) -> FrozenBitMap:
    """Read a list of values, or a portable bitmap."""
    at = cursor.pos
    kind = cursor.u8("kind")
    if kind == 1:
        count = cursor.u32le("count")
        return FrozenBitMap(np.frombuffer(cursor.take(4 * count, "values"), "<u4").tolist())
    if kind != 2:
        raise cursor.error(BadMagic, "kind", at=at, expected="1 or 2", actual=kind)
    return read_bitmap(cursor, limits)


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    return rows_of(read_either(cursor, limits))


def _write(rows: RowSet) -> bytes:
    data = write32(rows)
    if len(data) < 4 + 4 * len(rows):
        return b"\2" + data
    return b"\1" + struct.pack("<I", len(rows)) + rows.to_numpy(np.uint64).astype("<u4").tobytes()


NATIVE = Wrapper(_read, _write, highest=2**32 - 1)
"""CRoaring's own form."""
