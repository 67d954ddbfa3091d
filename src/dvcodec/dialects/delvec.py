"""StarRocks' delete vectors, the pages of ``.delvec`` files.

``u8 1 | 32-bit bitmap``, nothing after the 1 if it is empty. Source: StarRocks, ``be/src/storage/del_vector.cpp``.
"""

from __future__ import annotations

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Wrapper, read32, write32

_VERSION = 1


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    version = cursor.u8("version")
    if version != _VERSION:
        raise cursor.error(BadMagic, "version", at=0, expected=_VERSION, actual=version)
    return read32(cursor, limits) if cursor.remaining else RowSet()


def _write(rows: RowSet) -> bytes:
    return bytes([_VERSION]) + (write32(rows) if rows else b"")


PAGE = Wrapper(_read, _write, highest=2**32 - 1)
"""A page."""
