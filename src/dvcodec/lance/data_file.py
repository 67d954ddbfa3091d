"""Reads the row count of a Lance data file from its footer.

Specification: Lance's file format, version 2: the last 40 bytes are the footer, all little-endian::

    u64 first column's metadata | u64 table of columns | u64 table of global buffers | u32 global buffers | u32 columns
    u16 major version | u16 minor version | "LANC"

The first global buffer (u64 position, u64 size in the table) is a protobuf ``FileDescriptor``, whose field 2 is the
number of rows. Version 2.0 is stored as 0.3; files of version 0.2 and below have a different, legacy format.
"""

from __future__ import annotations

from dvcodec.core.errors import BadMagic, NotCanonical
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.io import SourceTarget, open_source, read_window
from dvcodec.lance import wire

__all__ = ["read_row_count"]

MAGIC = b"LANC"
FOOTER_BYTES = 40
_FIRST_VERSION = (0, 3)
_NEXT_FORMAT = 3
"""First unknown major version of the format."""
_LENGTH = 2


def read_row_count(source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS) -> int | None:
    """Return the rows of a Lance data file from its footer; None for an unknown format version.

    Not checked against the pages of the file.

    Args:
        source: bytes, path, URL or open file.
        limits: bounds on what the bytes may claim; `Limits.max_metadata_bytes` bounds the descriptor.

    Raises:
        DecodeError: not a valid Lance data file.
        OSError: the file cannot be read.
    """
    with open_source(source) as opened:
        footer = read_window(opened, max(opened.size - FOOTER_BYTES, 0))
        footer.take(max(footer.remaining - len(MAGIC) - 4, 0), "footer")
        versions = footer.take(4, "version")
        version = int.from_bytes(versions[:2], "little"), int.from_bytes(versions[2:], "little")
        magic = bytes(footer.take(len(MAGIC), "magic"))
        if magic != MAGIC:
            raise footer.error(BadMagic, "magic", at=footer.pos - len(MAGIC), expected=MAGIC, actual=magic)
        if version < _FIRST_VERSION or version[0] >= _NEXT_FORMAT:
            return None
        footer.seek(0, "footer")
        footer.take(16, "footer")
        table = footer.u64le("position of the global buffers")
        if not footer.u32le("number of global buffers"):
            raise footer.error(NotCanonical, "number of global buffers", at=24, expected="1 or more", actual=0)
        entry = read_window(opened, table, 16)
        position, size = entry.u64le("position of the descriptor"), entry.u64le("size of the descriptor")
        limits.check("max_metadata_bytes", size, entry, 8)
        found = wire.integers(read_window(opened, position, size), {_LENGTH: "rows of the file"})
        return found.get(_LENGTH, 0)
