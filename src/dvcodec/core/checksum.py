"""CRC-32 as zlib and ``java.util.zip.CRC32`` compute it (polynomial 0x04C11DB7, reflected, inverted)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import cast

__all__ = ["crc32", "crc_hex"]


def _fastest() -> Callable[..., int]:
    """ISA-L's CRC is an order of magnitude faster than zlib's; it is used where it is installed."""
    try:
        from isal import isal_zlib  # noqa: PLC0415  (optional)
    except ImportError:
        return zlib.crc32
    return cast("Callable[..., int]", isal_zlib.crc32)


crc32: Callable[..., int] = _fastest()


def crc_hex(value: int) -> str:
    """Spell a CRC the way people compare them: ``0x0a1b2c3d``."""
    return f"0x{value:08x}"
