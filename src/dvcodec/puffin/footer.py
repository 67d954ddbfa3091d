"""Decodes and encodes the footer: magics, flags and sizes around its payload."""

from __future__ import annotations

import struct

from dvcodec.core.compress import decompress
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, Truncated, Unsupported
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.usage import check_type
from dvcodec.io import Source, SourceTarget, StorageOptions, open_source, read_window
from dvcodec.puffin.metadata import MAGIC, Footer
from dvcodec.puffin.payload import decode_payload, encode_payload

__all__ = ["decode_footer", "encode_footer"]

TAIL_BYTES = 12
"""Payload size, flags and magic at the end of the footer."""
MIN_FILE_BYTES = len(MAGIC) + len(MAGIC) + TAIL_BYTES
FLAG_LZ4 = 0x01
"""Bit 0 of flag byte 0: the footer payload is one LZ4 frame."""

_TAIL = struct.Struct("<i4s4s")
_TAIL_READ = 8192
"""Bytes of the first read at the end of the file: enough for most footers."""


def decode_footer(
    source: SourceTarget, *, limits: Limits = DEFAULT_LIMITS, storage_options: StorageOptions = None
) -> Footer:
    """Read and decode the footer of a Puffin file by byte ranges.

    Checked: the three magics, flags, sizes, the JSON and the types of its members. Not checked: whether blobs are
    inside the file (reading one does), overlap, or are valid vectors (`iceberg.lint`).

    Args:
        source: bytes, path, URL, open file or `Source`.
        limits: bounds on what the bytes may claim.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        Truncated: too short for a Puffin file, or for its footer.
        BadMagic: no ``PFA1`` at the start, at the end, or before the footer payload.
        Unsupported: a flag that the specification does not define.
        NotCanonical: the payload is not JSON as specified.
        LimitExceeded: see `Limits.max_footer_bytes` and `Limits.max_blobs`; or too many JSON values for its size.
        UsageError: not a source, or `limits` is not `Limits`.
        OSError: the file cannot be opened or read.
    """
    check_limits(limits)
    with open_source(source, storage_options=storage_options) as opened:
        return _decode(opened, limits)


def _decode(source: Source, limits: Limits) -> Footer:
    if source.size < MIN_FILE_BYTES:
        raise Truncated(
            "Puffin file", source=source.name, expected=f"at least {MIN_FILE_BYTES} bytes", actual=source.size
        )
    tail = read_window(source, max(0, source.size - _TAIL_READ))
    tail.seek(tail.end - TAIL_BYTES, "footer tail")
    start = tail.pos
    size, flags, magic = _TAIL.unpack(tail.take(TAIL_BYTES, "footer tail"))
    _expect_magic(tail, start + 8, magic, "magic at the end of the file")
    if flags[0] & ~FLAG_LZ4 or any(flags[1:]):
        raise tail.error(
            Unsupported, "footer flags", at=start + 4, expected="00 00 00 00 or 01 00 00 00", actual=flags.hex(" ")
        )
    room = source.size - MIN_FILE_BYTES
    if not 0 <= size <= room:
        raise tail.error(Truncated, "footer payload size", at=start, expected=f"0 to {room}", actual=size)
    limits.check("max_footer_bytes", size, tail, start)
    start = source.size - TAIL_BYTES - size - len(MAGIC)
    footer = tail if start >= tail.base else read_window(source, start)
    footer.seek(start - footer.base, "footer")
    _expect_magic(footer, footer.pos, bytes(footer.take(len(MAGIC), "magic")), "magic before the footer payload")
    head = footer if footer.base == 0 else read_window(source, 0, len(MAGIC))
    _expect_magic(head, 0, bytes(head.view[: len(MAGIC)]), "magic at the start of the file")
    payload = Cursor(footer.take(size, "footer payload"), source=source.name, base=start + len(MAGIC))
    compressed = bool(flags[0] & FLAG_LZ4)
    text = decompress(payload, "lz4", limit="max_footer_bytes", limits=limits) if compressed else payload.view
    return decode_payload(bytes(text), payload, start, compressed, limits)


def _expect_magic(cursor: Cursor, offset: int, found: bytes, what: str) -> None:
    if found != MAGIC:
        raise cursor.error(BadMagic, what, at=offset, expected=f"{MAGIC.hex(' ')} (PFA1)", actual=found.hex(" "))


def encode_footer(footer: Footer) -> bytes:
    """Encode a footer, magic to magic, with the bytes that Iceberg Java writes for it (uncompressed).

    Not checked: whether its blobs are inside a file, and whether its numbers fit 64 bits.

    Raises:
        UsageError: not a `Footer`.
    """
    check_type(footer, Footer, "footer", "a Footer")
    payload = encode_payload(footer)
    return b"".join([MAGIC, payload, _TAIL.pack(len(payload), bytes(4), MAGIC)])
