"""CRC-32 as zlib and ``java.util.zip.CRC32`` compute it (polynomial 0x04C11DB7, reflected, inverted)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import cast

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import ChecksumMismatch


def _fastest() -> Callable[..., int]:
    """Return ISA-L's CRC if installed, an order of magnitude faster than zlib's."""
    try:
        from isal import isal_zlib  # noqa: PLC0415  (optional)
    except ImportError:
        return zlib.crc32
    return cast("Callable[..., int]", isal_zlib.crc32)


crc32: Callable[..., int] = _fastest()


def crc_hex(value: int) -> str:
    """Format a CRC: ``0x0a1b2c3d``."""
    return f"0x{value:08x}"


def check_crc(cursor: Cursor, offset: int, what: str, stored: int, data: memoryview) -> None:
    """Compare the CRC of `data` with the one stored at `offset` of the cursor's window.

    Raises:
        ChecksumMismatch: the CRCs differ.
    """
    computed = crc32(data)
    if computed != stored:
        expected, actual = f"{crc_hex(stored)} (stored)", f"{crc_hex(computed)} (computed)"
        raise cursor.error(ChecksumMismatch, f"CRC-32 of {what}", at=offset, expected=expected, actual=actual)
