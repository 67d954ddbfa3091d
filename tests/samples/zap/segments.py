"""Segments put together byte by byte, valid or wrong in one chosen way.

The layouts are written down a second time: nothing but the transducers of dictionaries comes from dvcodec.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.footer import DEFAULT_CHUNK_MODE
from dvcodec.zap.vellum import build
from samples.bitmaps import array, bitmap

NOT = 2**64 - 1
VERSIONS = range(11, 18)


def uv(*values: int) -> bytes:
    """Varints."""
    out = bytearray()
    for value in values:
        rest = value
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def take(raw: bytes, at: int) -> tuple[int, int]:
    """Read one varint: its value, and the offset behind it. Raises IndexError if there is none."""
    value = shift = 0
    start = at
    while True:
        value |= (raw[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if raw[at - 1] < 0x80:
            break
    if at - start > 10 or value >= 2**64:
        raise IndexError(start)
    return value, at


def no_location(version: int) -> int:
    return NOT if version == 12 else 0


def footer_of(
    version: int,
    docs: int,
    stored: int,
    fields: int,
    table: int = 0,
    chunk_mode: int | None = None,
    *,
    writer: bytes = b"",
    writer_size: int | None = None,
) -> bytes:
    """A footer without its CRC."""
    tail = struct.pack(">2I", DEFAULT_CHUNK_MODE[version] if chunk_mode is None else chunk_mode, version)
    if version < 16:
        return struct.pack(">4Q", docs, stored, fields, table) + tail
    if version == 16:
        return struct.pack(">5Q", docs, stored, fields, fields, table) + tail
    size = len(writer) if writer_size is None else writer_size
    return writer + struct.pack(">I3Q", size, docs, stored, fields) + tail


def sealed(data: bytes | bytearray) -> bytes:
    """With the CRC of everything behind it."""
    return bytes(data) + struct.pack(">I", zlib.crc32(data))


def chunked(chunks: Sequence[bytes]) -> bytes:
    """A chunk block."""
    return uv(len(chunks), *accumulate(map(len, chunks))) + b"".join(chunks)


def norm(version: int, length: int) -> int:
    """What stands for the length of a field."""
    if version >= 15:
        return length
    return int(np.float32(1 / np.sqrt(np.float64(length))).view(np.uint32)) if length else 0x7F800000


def docs_of(values: Iterable[int]) -> bytes:
    """A bitmap of array containers."""
    blocks: dict[int, list[int]] = {}
    for value in values:
        blocks.setdefault(value >> 16, []).append(value & 0xFFFF)
    return bitmap(*(array(key, low) for key, low in blocks.items()))


@dataclass
class SegmentBuilder:
    """A segment on its way.

    Attributes:
        version: 11 to 17.
        out: what has been written.
        docs: documents.
        stored: address of the stored index.
        records: address of each field record, or the record, not yet written.
        blocks: doc value blocks by field, up to version 15.
        chunk_mode: None is what zapx writes.
    """

    version: int
    chunk_mode: int | None = None
    out: bytearray = field(default_factory=bytearray)
    docs: int = 0
    stored: int = 0
    records: list[bytes] = field(default_factory=list)
    blocks: list[tuple[int, int] | None] = field(default_factory=list)

    def put(self, data: bytes) -> int:
        """Append; return the address."""
        at = len(self.out)
        self.out += data
        return at

    def documents(self, count: int, edges: bytes = b"\0") -> None:
        """Documents that store their number in decimal as their id; comes first."""
        addresses = []
        for i in range(count):
            name = str(i).encode()
            addresses.append(self.put(uv(1, len(name) + 1, len(name)) + name + b"\0"))
        self.docs = count
        self.stored = self.put(np.array(addresses, ">u8").tobytes())
        if self.version == 17:
            self.put(edges)

    def postings(
        self,
        docs: Iterable[int] | bytes,
        freqs: bytes | None = None,
        places: bytes | None = None,
        *,
        freq_at: int | None = None,
        location_at: int | None = None,
    ) -> int:
        """The blocks of a term and its record; return the address of that.

        Args:
            docs: its documents, or a serialized bitmap.
            freqs: the block of frequencies; default: one of a single chunk, each frequency 1 in a field of length 1.
            places: the block of locations, if there is one.
            freq_at: what the record says instead of the address.
            location_at: the same for the locations.
        """
        docs = docs if isinstance(docs, bytes) else list(docs)
        if freqs is None:
            freqs = chunked([uv(2, norm(self.version, 1)) * len(docs)])
        found = self.put(freqs)
        if places is None and self.version == 11:
            places = chunked([b""])
        located = no_location(self.version) if places is None else self.put(places)
        data = docs if isinstance(docs, bytes) else docs_of(docs)
        return self.put(
            uv(
                found if freq_at is None else freq_at,
                located if location_at is None else location_at,
                len(data),
            )
            + data
        )

    def dictionary(self, terms: Mapping[bytes, int]) -> int:
        """A dictionary; return its address."""
        keys = sorted(terms)
        fst = build(ByteStrings.from_list(keys), np.array([terms[key] for key in keys], np.uint64))
        return self.put(uv(len(fst)) + fst)

    def field(
        self,
        name: str | bytes,
        dictionary: int = 0,
        block: tuple[int, int] | None = None,
        *,
        options: int = 3,
        sections: Sequence[tuple[int, int]] | None = None,
        count: int | None = None,
    ) -> None:
        """Add a field.

        Args:
            name: its name.
            dictionary: address.
            block: of its doc values.
            options: version 17.
            sections: type and address of each, instead of the text section that is written here; from version 16 on.
            count: what the record says instead of their number.
        """
        raw = name if isinstance(name, bytes) else name.encode()
        named = uv(len(raw)) + raw
        if self.version < 16:
            self.blocks.append(block)
            self.records.append(uv(dictionary) + named)
            return
        if sections is None:
            sections = [(0, self.put(uv(*(block or (NOT, NOT)), dictionary))), (2, 0)]
        head = named + (uv(options) if self.version == 17 else b"")
        pairs = b"".join(struct.pack(">HQ", kind, at) for kind, at in sections)
        self.records.append(head + uv(len(sections) if count is None else count) + pairs)

    def ids(self) -> None:
        """The field `_id`, one list for every document."""
        self.field("_id", self.dictionary({str(i).encode(): self.postings([i]) for i in range(self.docs)}))

    def finish(
        self,
        *,
        docs: int | None = None,
        stored: int | None = None,
        addresses: Sequence[int] | None = None,
        index: bytes | None = None,
    ) -> bytes:
        """Write fields and footer; the arguments stand in for what is right."""
        data = bytearray(self.out)
        table = 0
        if self.version < 16:
            table = len(data)
            data += uv(*(at for pair in self.blocks for at in pair or (NOT, NOT)))
        found = []
        for record in self.records:
            found.append(len(data))
            data += record
        at = len(data)
        listed = found if addresses is None else addresses
        if index is None:
            index = (uv(len(listed)) if self.version >= 16 else b"") + np.array(listed, ">u8").tobytes()
        data += index
        docs = self.docs if docs is None else docs
        stored = self.stored if stored is None else stored
        return sealed(data + footer_of(self.version, docs, stored, at, table, self.chunk_mode))


def minimal(version: int, docs: int = 3) -> SegmentBuilder:
    """Documents, and the field `_id`."""
    craft = SegmentBuilder(version)
    craft.documents(docs)
    craft.ids()
    return craft
