"""The footer of a zap segment: addresses of all parts, and the checksum of the file.

Source: zapx ``write.go`` (``persistFooter``) of branches v11.x to v17. Big-endian, at the end of the file::

    v11..v15  u64 docs | u64 stored index | u64 fields index | u64 doc value table            | u32 chunk mode | u32 version | u32 CRC
    v16       u64 docs | u64 stored index | u64 fields index | u64 sections index | u64 0     | u32 chunk mode | u32 version | u32 CRC
    v17       writer id | u32 its length | u64 docs | u64 stored index | u64 sections index   | u32 chunk mode | u32 version | u32 CRC

The CRC-32 covers all bytes before it. zapx writes it and never checks it.
"""  # noqa: E501

from __future__ import annotations

import struct
from dataclasses import dataclass

from dvcodec.core.checksum import crc32, crc_hex
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, ChecksumMismatch, NotCanonical, Truncated, Unsupported, UsageError
from dvcodec.io.source import Source

VERSIONS = range(11, 18)
"""Supported versions."""
NOT = 2**64 - 1
"""Stored in place of a missing address."""
DEFAULT_CHUNK_MODE = {11: 1024, 12: 1025, 13: 1025, 14: 1026, 15: 1026, 16: 1026, 17: 1026}
"""The mode that zapx writes; see `dvcodec.zap.chunks`."""
SECTIONS_FROM = 16
"""First version with a sections index."""
WRITER_ID_FROM = 17
_TAIL = 12
"""Bytes of chunk mode, version and CRC."""
_LAYOUTS = {16: struct.Struct(">5Q2I"), 17: struct.Struct(">3Q2I")} | {v: struct.Struct(">4Q2I") for v in range(11, 16)}
_CRC = struct.Struct(">I")
_CRC_PIECE = 1 << 24
MAX_DOCS = 1 << 32
_MAX_WRITER_ID = 1 << 16


@dataclass(frozen=True, slots=True)
class Footer:
    """The decoded footer.

    Attributes:
        version: 11 to 17.
        num_docs: documents, including deleted and nested ones.
        stored_index: address of the stored index.
        fields_index: address of the fields index (from version 16 on: sections index).
        doc_value_table: address of the table of doc value blocks; None if there is none (a merge that kept no
            document), and from version 16 on.
        chunk_mode: rule for chunk sizes; in version 11 the size itself.
        crc: CRC-32 of all bytes before it.
        writer_id: program that transformed the contents, version 17; usually empty.
    """

    version: int
    num_docs: int
    stored_index: int
    fields_index: int
    doc_value_table: int | None
    chunk_mode: int
    crc: int = 0
    writer_id: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of the footer."""
        extra = 4 + len(self.writer_id) if self.version >= WRITER_ID_FROM else 0
        return extra + _LAYOUTS[self.version].size + _CRC.size


def decode_footer(source: Source) -> Footer:
    """Read the footer from the end of a file.

    Checked: the version, all addresses, the number of documents (at most 2**32), and the room for the stored index.
    Not checked: the CRC (see `verify_checksum`).

    Raises:
        Truncated: the file is shorter than a footer.
        BadMagic: not version 11 to 17.
        NotCanonical: an invalid address or count.
    """
    if source.size < _TAIL:
        raise Truncated(
            "zap footer", source=source.name, offset=0, expected=f"at least {_TAIL} bytes", actual=source.size
        )
    window = min(source.size, _LAYOUTS[16].size + _CRC.size)
    cursor = Cursor(source.read(source.size - window, window), source=source.name, base=source.size - window)
    cursor.seek(window - 8, "zap version")
    version = cursor.u32be("zap version")
    if version not in VERSIONS:
        raise cursor.error(BadMagic, "zap version", at=window - 8, expected="11 to 17", actual=version)
    crc = cursor.u32be("zap CRC")
    layout = _LAYOUTS[version]
    start = window - _CRC.size - layout.size
    if start < 0:
        raise cursor.error(Truncated, "zap footer", at=0, expected=f"{layout.size + 4} bytes", actual=window)
    *places, chunk_mode, _ = layout.unpack(cursor.view[start : window - _CRC.size])
    docs, stored, fields = places[:3]
    table = None if version >= SECTIONS_FROM or places[3] == NOT else places[3]
    if version == 16:
        fields = places[3]
    writer_id = _read_writer_id(source, source.size - window + start) if version >= WRITER_ID_FROM else b""
    footer = Footer(version, docs, stored, fields, table, chunk_mode, crc, writer_id)
    end = source.size - footer.size
    at = source.size - window + start

    def refuse(what: str, expected: object, actual: object) -> NotCanonical:
        return NotCanonical(what, source=source.name, offset=at, expected=expected, actual=actual)

    if docs > MAX_DOCS:
        raise refuse("number of documents", f"at most {MAX_DOCS}", docs)
    if stored > end or 8 * docs > end - stored:
        raise refuse("stored index", f"8 * {docs} bytes in front of byte {end}", f"address {stored}")
    if fields > end:
        raise refuse("sections index" if version >= SECTIONS_FROM else "fields index", f"at most {end}", fields)
    if table is not None and table > end:
        raise refuse("doc value table", f"at most {end}", table)
    return footer


def _read_writer_id(source: Source, at: int) -> bytes:
    """Read the writer id, whose length ends at `at`."""
    if at < 4:
        raise Truncated("zap writer id", source=source.name, offset=0, expected="4 bytes of length", actual=at)
    size = int.from_bytes(source.read(at - 4, 4), "big")
    if size > at - 4:
        raise Truncated("zap writer id", source=source.name, offset=at - 4, expected=f"{size} bytes", actual=at - 4)
    if size > _MAX_WRITER_ID:
        expected = f"at most {_MAX_WRITER_ID} bytes"
        raise NotCanonical("zap writer id", source=source.name, offset=at - 4, expected=expected, actual=size)
    return bytes(source.read(at - 4 - size, size))


def encode_footer(footer: Footer, crc: int) -> bytes:
    """Encode a footer.

    Args:
        footer: `crc` is ignored.
        crc: CRC-32 of all bytes before the footer.

    Raises:
        UsageError: a version other than 11 to 17.
    """
    if footer.version not in VERSIONS:
        raise UsageError(f"zap versions are 11 to 17, not {footer.version}")
    table = NOT if footer.doc_value_table is None else footer.doc_value_table
    places = {
        16: (footer.num_docs, footer.stored_index, footer.fields_index, footer.fields_index, 0),
        17: (footer.num_docs, footer.stored_index, footer.fields_index),
    }.get(footer.version, (footer.num_docs, footer.stored_index, footer.fields_index, table))
    data = _LAYOUTS[footer.version].pack(*places, footer.chunk_mode, footer.version)
    if footer.version >= WRITER_ID_FROM:
        data = footer.writer_id + len(footer.writer_id).to_bytes(4, "big") + data
    return data + _CRC.pack(crc32(data, crc))


def verify_checksum(source: Source, footer: Footer) -> None:
    """Check the CRC; reads the whole file, in pieces.

    Raises:
        ChecksumMismatch: they differ.
    """
    crc, end = 0, source.size - _CRC.size
    for start in range(0, end, _CRC_PIECE):
        crc = crc32(source.read(start, min(_CRC_PIECE, end - start)), crc)
    if crc != footer.crc:
        raise ChecksumMismatch(
            "CRC-32 of the segment",
            source=source.name,
            offset=end,
            expected=f"{crc_hex(footer.crc)} (stored)",
            actual=f"{crc_hex(crc)} (computed)",
        )


def refuse_writer_id(source: Source, footer: Footer) -> None:
    """Raise `Unsupported` if a program transformed the contents (``writer id``, version 17)."""
    if footer.writer_id:
        raise Unsupported(
            "contents transformed by a custom writer",
            source=source.name,
            offset=source.size - footer.size,
            expected="an empty writer id",
            actual=repr(footer.writer_id[:40]),
        )
