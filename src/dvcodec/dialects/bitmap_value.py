"""Values of BITMAP columns, as Doris and StarRocks store them.

``u8 code``, then nothing (0), a u32 (1), a 32-bit bitmap (2), a u64 (3), ``varint n | n x (u32 key | 32-bit bitmap)``
(4), ``u8 n | n x u64`` (5, Doris), ``u32 n | n x u64`` (10); 12 and 13 are 2 and 4 with bitmaps in CRoaring's form.
Integers are little-endian. Written are 0 to 4, which all releases read. Base64 of these bytes is what
``bitmap_from_base64`` takes. Source: ``bitmap_value.h`` of both.
"""

from __future__ import annotations

import struct

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.varints import uvarints
from dvcodec.dialects.base import Wrapper, read_bitmap, read_map, read_values, rows_of, write32
from dvcodec.dialects.croaring import read_either


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    code = cursor.u8("code")
    if code == 0:
        return RowSet()
    if code in (1, 3):
        return read_values(cursor, 1, 4 if code == 1 else 8)
    if code in (2, 12):
        return rows_of((read_bitmap if code == 2 else read_either)(cursor, limits))
    if code in (4, 13):
        read_one = read_bitmap if code == 4 else read_either
        return read_map(cursor, cursor.uvarint("bitmap count"), limits, lambda cursor: cursor.u32le("key"), read_one)
    if code in (5, 10):
        return read_values(cursor, cursor.u8("count") if code == 5 else cursor.u32le("count"), 8)
    raise cursor.error(BadMagic, "code", at=0, expected="0 to 5, 10, 12 or 13", actual=code)


def _write(rows: RowSet) -> bytes:
    highest = rows.max
    if highest is None:
        return b"\0"
    wide = highest >> 32 > 0
    if len(rows) == 1:
        return bytes([3 if wide else 1]) + highest.to_bytes(8 if wide else 4, "little")
    if not wide:
        return b"\2" + write32(rows)
    parts = rows.serialized()
    entries = (struct.pack("<I", key) + b"".join(pieces) for key, pieces in parts.items())
    return b"\4" + uvarints(len(parts)) + b"".join(entries)


VALUE = Wrapper(_read, _write)
"""A value of a BITMAP column."""
