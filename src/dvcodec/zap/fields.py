"""Fields: their names, and the addresses of their sections.

Source: zapx ``write.go``, ``section.go``, ``segment.go`` (``loadFields``)::

    v11..v15  record    uv dictionary | uv name length | name
              index     u64 BE address of a record, of every field, up to the footer
              table     uv start | uv end of the doc value block, of every field; in front of the first record
    v16, v17  record    uv name length | name | [v17: uv options] | uv sections | sections * (u16 BE type | u64 BE address)
              index     uv fields | fields * u64 BE address of a record, up to the footer
              text      uv start | uv end of the doc value block | uv dictionary                    section type 0

The id of a field is its index in the fields index. ``_id`` is field 0, the others follow in the order of their names.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.varints import uvarints
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import NOT, SECTIONS_FROM, WRITER_ID_FROM, Footer, SegmentData

ID = "_id"
MAX_FIELDS = 65534
"""zapx stores id + 1 in 16 bits."""
_MAX_INDEX = 10 + 8 * MAX_FIELDS
"""Bytes of the largest index: a varint, and an address for each field."""
TEXT, VECTORS, SYNONYMS, SHAPES = range(4)
"""Types of sections; `SHAPES` since zapx 17.2, without a version bump."""
_ROOM = 1 << 12
"""Bytes first read for a field record."""
_BEHIND_NAME = 64
"""Maximum bytes of a record after its name."""
_SHORT = 40
"""Characters of a name shown in errors."""
_MIN_BLOCK = 17
"""Bytes of the shortest doc value block."""


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field of a segment.

    Attributes:
        id: its index in the fields index.
        name: its name.
        dictionary: address of its dictionary, None if it has none.
        doc_values: addresses ``(start, end)`` of its doc value block, None if it has none.
        options: `FieldOptions`; None before version 17.
        vectors: address of its vector section, None if it has none.
        synonyms: address of its synonym section, None if it has none.
        shapes: address of its section of geo shapes, None if it has none; its contents are not read.
    """

    id: int
    name: str
    dictionary: int | None = None
    doc_values: tuple[int, int] | None = None
    options: FieldOptions | None = None
    vectors: int | None = None
    synonyms: int | None = None
    shapes: int | None = None


def decode_fields(data: SegmentData, footer: Footer) -> tuple[FieldInfo, ...]:
    """Read the fields.

    Raises:
        Truncated: an address or a length extends beyond the footer.
        NotCanonical: ``_id`` is not the first field, a name is repeated or not UTF-8, fields share a dictionary, a
            vector section or doc values, a section type is unknown or repeated, or a doc value block is too short or
            ends before it begins.
    """
    sections = footer.version >= SECTIONS_FROM
    what = "sections index" if sections else "fields index"
    start = footer.fields_index
    index = data.window(start, min(start + _MAX_INDEX, data.end), what)
    count = index.uvarint("number of fields") if sections else (data.end - start) // 8
    left = data.end - start - index.pos
    if left != 8 * count:
        raise index.error(NotCanonical, what, expected=f"8 * {count} bytes up to the footer", actual=left)
    if count > MAX_FIELDS:
        raise index.error(NotCanonical, "number of fields", expected=f"at most {MAX_FIELDS}", actual=count)
    addresses = np.frombuffer(index.take(8 * count, what), ">u8").tolist()
    blocks: list[tuple[int, int] | None] = [None] * count if sections else _decode_table(data, footer, count)
    fields: dict[str, FieldInfo] = {}
    shared: set[tuple[str, int]] = set()
    room = data.end
    for i, at in enumerate(addresses):
        field = _decode_sections(data, footer, i, at) if sections else _decode_record(data, i, at, blocks[i])
        if field.name in fields:
            raise index.error(NotCanonical, "fields", at=0, expected="every name once", actual=f"{_short(field)} twice")
        fields[field.name] = field
        for what, address in (
            ("dictionary", field.dictionary),
            ("dictionary", field.synonyms),
            ("vector section", field.vectors),
        ):
            if (what, address) in shared:
                expected = "one for each field"
                raise data.error(f"address of a {what}", at, expected=expected, actual=f"{address} again")
            if address is not None:
                shared.add((what, address))
        room -= len(field.name)
        if room < 0:  # overlapping records would amplify a small file
            raise data.error("field records overlap", at, expected=f"names of {data.end} bytes at most")
    _refuse_shared_blocks(data, fields.values())
    first = next(iter(fields.values()), None)
    if footer.num_docs and (first is None or first.name != ID):
        actual = "no field" if first is None else _short(first)
        raise index.error(NotCanonical, "first field", at=0, expected=ID, actual=actual)
    return tuple(fields.values())


def _refuse_shared_blocks(data: SegmentData, fields: Iterable[FieldInfo]) -> None:
    """Raise `NotCanonical` for doc values that several fields have: each would be read by itself."""
    blocks = sorted(field.doc_values for field in fields if field.doc_values is not None)
    for (_, stop), (start, end) in pairwise(blocks):
        if start < stop:
            expected = f"from byte {stop} on, where another one ends"
            raise data.error("doc value blocks overlap", start, expected=expected, actual=f"bytes {start} to {end}")


def _short(field: FieldInfo) -> str:
    return repr(field.name[:_SHORT])


def _read_name(data: SegmentData, cursor: Cursor, at: int) -> tuple[str, Cursor]:
    """Read the name of a field; return it and a cursor over the rest of the record."""
    size = cursor.uvarint("length of a field name")
    if size > cursor.remaining - _BEHIND_NAME:  # a long name, or a corrupt length
        start = cursor.base + cursor.pos
        data.window(start, min(start + size, 2**63), "field name")
        cursor = data.at(start, size + _ROOM, "field name")
    name = bytes(cursor.take(size, "field name"))
    try:
        return name.decode(), cursor
    except UnicodeDecodeError:
        raise data.error("field name", at, expected="UTF-8", actual=repr(name[:40])) from None


def _decode_record(data: SegmentData, number: int, at: int, block: tuple[int, int] | None) -> FieldInfo:
    cursor = data.at(at, _ROOM, "field record")
    dictionary = cursor.uvarint("address of a dictionary")
    name, _ = _read_name(data, cursor, at)
    return FieldInfo(number, name, _dictionary(data, dictionary, at), block)


def _dictionary(data: SegmentData, address: int, at: int) -> int | None:
    if address >= data.end:
        raise data.error("address of a dictionary", at, expected=f"below {data.end}", actual=address)
    return address or None


def encode_record(name: str, dictionary: int) -> bytes:
    """Encode the record of a field, versions 11 to 15; `dictionary` is 0 without a dictionary."""
    raw = name.encode()
    return uvarints(dictionary, len(raw)) + raw


def _decode_table(data: SegmentData, footer: Footer, count: int) -> list[tuple[int, int] | None]:
    if footer.doc_value_table is None or not footer.num_docs:
        return [None] * count
    cursor = data.window(footer.doc_value_table, data.end, "doc value table")
    return [_read_block(data, cursor) for _ in range(count)]


def _read_block(data: SegmentData, cursor: Cursor) -> tuple[int, int] | None:
    """Read the two addresses of a doc value block."""
    at = cursor.pos
    start = cursor.uvarint("start of a doc value block")
    stop = cursor.uvarint("end of a doc value block")
    if start == stop == NOT:
        return None
    if start > data.end or stop > data.end or stop - start < _MIN_BLOCK:
        raise cursor.error(
            NotCanonical,
            "doc value block",
            at=at,
            expected=f"at least {_MIN_BLOCK} bytes in front of byte {data.end}",
            actual=f"bytes {start} to {stop}",
        )
    return start, stop


def encode_block(block: tuple[int, int] | None) -> bytes:
    """Encode the two addresses of a doc value block."""
    return uvarints(*(block or (NOT, NOT)))


def _decode_sections(data: SegmentData, footer: Footer, number: int, at: int) -> FieldInfo:
    cursor = data.at(at, _ROOM, "field record")
    name, cursor = _read_name(data, cursor, at)
    options = None
    if footer.version >= WRITER_ID_FROM:
        bits = cursor.uvarint("options of a field")
        if bits >= 1 << 8:
            raise cursor.error(NotCanonical, "options of a field", expected="below 256", actual=bits)
        options = FieldOptions(bits)
    count = cursor.uvarint("number of sections")
    if count > SHAPES + 1:
        raise cursor.error(NotCanonical, "number of sections", expected="at most 4", actual=count)
    places: dict[int, int] = {}
    for _ in range(count):
        kind = int.from_bytes(cursor.take(2, "type of a section"), "big")
        if kind > SHAPES or kind in places:
            raise cursor.error(NotCanonical, "type of a section", expected="0 to 3, each once", actual=kind)
        places[kind] = cursor.u64be("address of a section")
        if places[kind] >= data.end:
            raise data.error("address of a section", at, expected=f"below {data.end}", actual=places[kind])
    dictionary, block = None, None
    if text := places.get(TEXT):
        section = data.at(text, 30, "text section")
        block = _read_block(data, section)
        dictionary = _dictionary(data, section.uvarint("address of a dictionary"), text)
    vectors, synonyms, shapes = (places.get(kind) or None for kind in (VECTORS, SYNONYMS, SHAPES))
    return FieldInfo(number, name, dictionary, block, options, vectors, synonyms, shapes)


def encode_text(dictionary: int, block: tuple[int, int] | None) -> bytes:
    """Encode the record of a text section."""
    return encode_block(block) + uvarints(dictionary)


def encode_field(name: str, options: FieldOptions | None, sections: dict[int, int]) -> bytes:
    """Encode the record of a field, from version 16 on.

    Args:
        name: its name.
        options: `FieldOptions`; None in version 16.
        sections: type -> address, 0 for a missing section; written in ascending order (zapx: in any order).
    """
    raw = name.encode()
    head = uvarints(len(raw)) + raw + (b"" if options is None else uvarints(int(options))) + uvarints(len(sections))
    return head + b"".join(kind.to_bytes(2, "big") + at.to_bytes(8, "big") for kind, at in sorted(sections.items()))


def encode_fields_index(version: int, addresses: list[int]) -> bytes:
    """Encode the fields index, from version 16 on the sections index."""
    index = np.array(addresses, ">u8").tobytes()
    return uvarints(len(addresses)) + index if version >= SECTIONS_FROM else index
