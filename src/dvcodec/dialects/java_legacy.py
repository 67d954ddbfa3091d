"""Java's ``Roaring64NavigableMap`` in its default mode.

``u8 signed | i32 n | n x (i32 key | 32-bit bitmap)``, where the integers are big-endian. The keys are the high halves
of the values; the flag says in which order Java sorts them. Source: RoaringBitmap, ``serializeLegacy``.
"""

from __future__ import annotations

import struct

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Wrapper, read_bitmap, read_map


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    signed = cursor.u8("flag for signed values")
    if signed > 1:
        raise cursor.error(BadMagic, "flag for signed values", at=0, expected="0 or 1", actual=signed)
    return read_map(cursor, cursor.u32be("bitmap count"), limits, lambda cursor: cursor.u32be("key"), read_bitmap)


def _write(rows: RowSet) -> bytes:
    parts = rows.serialized()
    entries = (struct.pack(">I", key) + b"".join(pieces) for key, pieces in parts.items())
    return struct.pack(">BI", 0, len(parts)) + b"".join(entries)


NAVIGABLE_MAP = Wrapper(_read, _write)
"""The map; written with unsigned values."""
