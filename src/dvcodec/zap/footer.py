"""The footer of a zap segment, with the addresses of all parts and the checksum of the file, and its fields.

Source: zapx ``write.go`` (``persistFooter``) of branches v11.x to v17. Big-endian, at the end of the file::

    v11..v15  u64 docs | u64 stored index | u64 fields index | u64 doc value table            | u32 chunk mode | u32 version | u32 CRC
    v16       u64 docs | u64 stored index | u64 fields index | u64 sections index | u64 0     | u32 chunk mode | u32 version | u32 CRC
    v17       writer id | u32 its length | u64 docs | u64 stored index | u64 sections index   | u32 chunk mode | u32 version | u32 CRC

The CRC-32 covers all bytes before it. zapx writes it and never checks it.

Parts in front of the footer are read through bounded windows. Writers give each bytes of its own, so parts that
together have more bytes than the segment are refused.

Fields have names, and the addresses of their sections. Source: zapx ``write.go``, ``section.go``, ``segment.go``
(``loadFields``)::

    v11..v15  record    uv dictionary | uv name length | name
              index     u64 BE address of a record, of every field, up to the footer
              table     uv start | uv end of the doc value block, of every field; in front of the first record
    v16, v17  record    uv name length | name | [v17: uv options] | uv sections | sections * (u16 BE type | u64 BE address)
              index     uv fields | fields * u64 BE address of a record, up to the footer
              text      uv start | uv end of the doc value block | uv dictionary                    section type 0

The id of a field is its index in the fields index. ``_id`` is field 0, the others follow in the order of their names.
"""  # noqa: E501

from __future__ import annotations

import struct
import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor, crc32, crc_hex, first_true
from dvcodec.core.errors import (
    BadMagic,
    ChecksumMismatch,
    DecodeError,
    NotCanonical,
    Truncated,
)
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import Index, gather, offsets_of
from dvcodec.core.varints import bytes_of, uvarints
from dvcodec.io.source import Source
from dvcodec.zap.documents import FieldOptions

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
    """
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


class _Claims:
    """How much the parts of a segment have of something, by kind of part. Safe to use from several threads.

    Parts that share bytes would make a small file as slow to read as a large one: each is read by itself.
    """

    __slots__ = ("_lock", "_sizes", "_totals")

    def __init__(self) -> None:
        self._sizes: dict[tuple[str, Hashable], int] = {}
        self._totals: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, kind: str, part: Hashable, size: int, most: int) -> int | None:
        """Note what was read of a part so far; one that is read again adds nothing.

        Args:
            kind: of the part.
            part: what tells it from others.
            size: all of it that was read so far.
            most: what all parts of this kind may have together.

        Returns:
            None; or what they would have together, if that is more. It is not noted then.
        """
        with self._lock:  # two threads may read one part
            more = size - self._sizes.get((kind, part), 0)
            if more <= 0:
                return None
            total = self._totals.get(kind, 0) + more
            if total > most:
                return total
            self._totals[kind], self._sizes[kind, part] = total, size
            return None


E = TypeVar("E", bound=DecodeError)


class Pieces(Cursor):
    """A cursor over concatenated pieces of the file, whose errors carry file offsets."""

    __slots__ = ("offsets", "places")

    def __init__(self, joined: NDArray[np.uint8], starts: Index, sizes: Index, source: str) -> None:
        super().__init__(joined, source=source)
        self.places = starts
        self.offsets = offsets_of(sizes)

    def error(self, kind: type[E], what: str, *, at: int | None = None, expected: Any = None, actual: Any = None) -> E:
        """See `Cursor.error`; `at` is a position in the concatenated bytes."""
        here = self.pos if at is None else at
        piece = int(np.searchsorted(self.offsets[1:-1], here, side="right")) if len(self.places) else 0
        place = int(self.places[piece] - self.offsets[piece]) if len(self.places) else 0
        return kind(what, source=self.source, offset=place + here, expected=expected, actual=actual)


@dataclass(frozen=True, slots=True)
class SegmentData:
    """Bounded reads of a segment; addresses are bytes from the start of the file.

    Attributes:
        source: the file.
        end: bytes before the footer.
        salvage: whether to read chunks that zapx misplaced; see `Segment.open`.
    """

    source: Source
    end: int
    salvage: bool = False
    _claims: _Claims = field(default_factory=_Claims, init=False, repr=False, compare=False)

    def claim(self, kind: str, part: int, size: int) -> None:
        """Note the bytes of a part, before they are read or as they are.

        Args:
            kind: of the part.
            part: its address.
            size: its bytes, or those of them that were read so far, at least.

        Raises:
            NotCanonical: all parts of that kind together have more bytes than the segment.
        """
        if (total := self._claims.add(kind, part, size, self.end)) is not None:
            raise self.error(f"{kind} overlap", part, expected=f"at most {self.end} bytes", actual=total)

    def count_keys(self, address: int, count: int, limits: Limits, size: int = 0) -> None:
        """Count the keys of the dictionary at an address, and check those of all dictionaries together.

        Keys share states, so that the bytes of a dictionary bound neither their number nor their lengths. A dictionary
        that is read again is not counted again.

        Args:
            address: of the dictionary.
            count: its keys.
            limits: `Limits.max_keys` and `Limits.max_blob_bytes`; each byte of the segment allows one more.
            size: bytes of the keys that were read so far.

        Raises:
            LimitExceeded: more keys, or more bytes of keys.
        """
        self._count("max_keys", "dictionary", address, count, limits)
        self._count("max_blob_bytes", "dictionary", address, size, limits)

    def count_members(self, section: int, count: int, limits: Limits) -> None:
        """Count what a thesaurus lists as keys: bitmaps may list any number of documents in few bytes.

        Args:
            section: its address; several may share terms or names, which are read for each.
            count: its terms, names, and documents of its lists.
            limits: see `count_keys`.

        Raises:
            LimitExceeded: more than these allow.
        """
        self._count("max_keys", "thesaurus", section, count, limits)

    def _count(self, limit: str, kind: str, address: int, count: int, limits: Limits) -> None:
        total = self._claims.add(limit, (kind, address), count, getattr(limits, limit) + self.end)
        if total is not None:
            raise limits.exceeded(limit, f"{total} for {self.end} bytes of the segment", self.source.name, address)

    def window(self, start: int, stop: int, what: str) -> Cursor:
        """Return a cursor over ``[start, stop)``; its `base` is `start`.

        Raises:
            Truncated: the window is not before the footer.
        """
        if not 0 <= start <= stop <= self.end:
            raise self.outside(what, start, stop - start)
        return Cursor(self.source.read(start, stop - start), source=self.source.name, base=start)

    def at(self, start: int, room: int, what: str) -> Cursor:
        """Return a cursor over at most `room` bytes from `start`, and at least one.

        Raises:
            Truncated: `start` is not before the footer.
        """
        if not 0 <= start < self.end:
            raise self.outside(what, start, 1)
        return self.window(start, min(start + room, self.end), what)

    def section(self, start: int, room: int, what: str) -> Cursor:
        """Return a cursor after the two addresses of doc values that begin a section; it must have none.

        Raises:
            Truncated: `start` is not before the footer.
            NotCanonical: the section has doc values.
        """
        cursor = self.at(start, room, what)
        for _ in range(2):
            at, place = cursor.pos, cursor.uvarint(f"start of a {what}")
            if place != NOT:
                raise cursor.error(NotCanonical, f"start of a {what}", at=at, expected="no doc values", actual=place)
        return cursor

    def around(self, starts: Index, rooms: NDArray[Any] | int, what: str) -> Cursor:
        """Return one window with `rooms` bytes from each address in `starts`, clipped at the footer.

        Raises:
            Truncated: an address is not before the footer.
        """
        if not len(starts):
            return self.window(0, 0, what)
        low, high = int(starts.min()), int(starts.max())
        if low < 0 or high >= self.end:
            raise self.outside(what, low if low < 0 else high, 1)
        return self.window(low, min(int((starts + rooms).max()), self.end), what)

    def pieces(self, starts: Index, sizes: Index, what: str) -> Pieces:
        """Copy pieces of the file into one window.

        Raises:
            Truncated: one is not before the footer.
            NotCanonical: they overlap: together they are larger than the file.
        """
        if (i := first_true((starts < 0) | (sizes > self.end - starts))) is not None:
            raise self.outside(what, starts[i], sizes[i])
        if int(sizes.sum()) > self.end:
            raise self.error(f"{what} overlap", int(starts[0]), expected=f"at most {self.end}", actual=int(sizes.sum()))
        window = self.around(starts[sizes > 0], sizes[sizes > 0], what)
        joined = gather(bytes_of(window), starts - window.base, sizes) if sizes.any() else np.zeros(0, np.uint8)
        return Pieces(joined, starts, sizes, self.source.name)

    def outside(self, what: str, at: int, size: int) -> DecodeError:
        """Return the error for an address outside the bytes before the footer."""
        actual = f"{max(self.end - at, 0)} left" if at >= 0 else "an address above 2**63"
        return self.error(what, at, Truncated, expected=f"{size} bytes before the footer", actual=actual)

    def error(
        self, what: str, at: int, kind: type[DecodeError] = NotCanonical, *, expected: Any = None, actual: Any = None
    ) -> DecodeError:
        """Return an error at an address."""
        return kind(what, source=self.source.name, offset=at, expected=expected, actual=actual)


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
