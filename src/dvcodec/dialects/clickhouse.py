"""ClickHouse's state of ``groupBitmap``, for a column of unsigned integers of 8, 16, 32 or 64 bits.

Up to 32 values ``u8 0 | varint n | n integers of the column's width``, else ``u8 1 | varint size | bitmap``. The bitmap
is portable; it has 64 bits for a column of 64 bits. Varints are LEB128, integers little-endian.
Source: ClickHouse, ``AggregateFunctionGroupBitmapData.h``.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.core.varints import uvarints
from dvcodec.dialects.base import Wrapper, read32, read64, read_values, write32, write64

_SMALL_SET = 32
"""Values up to which a state is a list."""


def group_bitmap(width: int) -> Wrapper:
    """Return the wrapper for a column of integers of a width in bytes."""
    return Wrapper(partial(_read, width=width), partial(_write, width=width), highest=2 ** (8 * width) - 1)


def _read(cursor: Cursor, limits: Limits, width: int) -> RowSet:
    kind = cursor.u8("kind")
    if kind == 0:
        at = cursor.pos
        count = cursor.uvarint("count")
        if count > _SMALL_SET:
            raise cursor.error(NotCanonical, "count", at=at, expected=f"at most {_SMALL_SET} in a list", actual=count)
        return read_values(cursor, count, width)
    if kind != 1:
        raise cursor.error(BadMagic, "kind", at=0, expected="0 or 1", actual=kind)
    with cursor.restrict_to(cursor.uvarint("size"), "the bitmap"):
        return (read64 if width == 8 else read32)(cursor, limits)


def _write(rows: RowSet, width: int) -> bytes:
    if len(rows) <= _SMALL_SET:
        return b"\0" + uvarints(len(rows)) + rows.to_numpy(np.uint64).astype(f"<u{width}").tobytes()
    data = (write64 if width == 8 else write32)(rows)
    return b"\1" + uvarints(len(data)) + data
