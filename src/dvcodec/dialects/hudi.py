"""Hudi's record positions in the header of a log block: Base64 text of a 64-bit portable bitmap.

Source: Hudi, ``LogReaderUtils.encodePositions``.
"""

from __future__ import annotations

import base64
import binascii

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Wrapper, read64, write64


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    text = bytes(cursor.take(cursor.remaining, "text"))
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise cursor.error(NotCanonical, "Base64", at=0, actual=str(error)) from None
    inner = Cursor(data, source=cursor.source)
    rows = read64(inner, limits)
    inner.expect_end("the bitmap")
    return rows


def _write(rows: RowSet) -> bytes:
    return base64.b64encode(write64(rows))


RECORD_POSITIONS = Wrapper(_read, _write)
"""The text of a header."""
