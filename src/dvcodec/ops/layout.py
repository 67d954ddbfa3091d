"""The layout of a search segment: its parts, and the bytes of each field in them.

Computed from addresses; no postings, documents or values are read. Gaps between known parts are assigned by the order
in which zapx and dvcodec write: postings before their dictionary, synonyms before their section. The end of a section
of vectors or shapes is not recorded, so it is taken to extend to the next postings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dvcodec.core import varints
from dvcodec.zap import FieldInfo, Segment
from dvcodec.zap.fields import encode_text
from dvcodec.zap.footer import SECTIONS_FROM
from dvcodec.zap.nested import NESTED_FROM, encode_edges


class Part(str, Enum):
    """A part of a segment."""

    STORED = "stored"
    """Stored documents, their index, and their nesting."""
    POSTINGS = "postings"
    DICTIONARY = "dictionary"
    DOC_VALUES = "doc-values"
    SYNONYMS = "synonyms"
    VECTORS = "vectors"
    SHAPES = "shapes"
    FIELDS = "fields"
    """Names and addresses of the fields, and the footer."""
    OTHER = "other"
    """Not referenced by anything known."""


@dataclass(frozen=True, slots=True)
class Span:
    """A contiguous range of one part.

    Attributes:
        part: the part.
        start: address of the first byte.
        stop: address after the last byte.
        field: name of the field, None if shared by all fields.
    """

    part: Part
    start: int
    stop: int
    field: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.stop - self.start


def layout(segment: Segment) -> tuple[Span, ...]:
    """Return the parts of a segment in file order; together they cover every byte.

    Raises:
        DecodeError: an address, the edge list or a dictionary is corrupt.
    """
    size = segment.contents.data.source.size
    spans: list[Span] = []

    def add(part: Part, stop: int, field: str | None) -> None:
        start, stop = spans[-1].stop if spans else 0, min(stop, size)
        if spans and (spans[-1].part, spans[-1].field) == (part, field):
            spans[-1] = Span(part, spans[-1].start, max(start, stop), field)
        elif stop > start:
            spans.append(Span(part, start, stop, field))

    for span in sorted(_known(segment), key=lambda span: (span.start, span.stop)):
        part, field = _BEFORE.get(span.part, Part.OTHER), span.field
        if spans and spans[-1].part in _OPEN and span.start > spans[-1].stop:
            first = _first_postings(segment, span)
            add(spans[-1].part, span.start if first is None else first, spans[-1].field)
        add(part, span.start, None if part is Part.OTHER else field)
        add(span.part, span.stop, field)
    return tuple(spans)


_BEFORE = {Part.DICTIONARY: Part.POSTINGS, Part.SYNONYMS: Part.SYNONYMS}
_OPEN = (Part.VECTORS, Part.SHAPES)
"""Parts whose end is not recorded."""


def _first_postings(segment: Segment, dictionary: Span) -> int | None:
    """Return the address of the first postings of a dictionary; None if it has none, or is another part."""
    if dictionary.part is not Part.DICTIONARY:
        return None
    firsts = []
    lists = segment.contents.reader(dictionary.start)
    for block in segment.contents.term_blocks(dictionary.start):
        records = lists.records(block.values)
        firsts += records.freq_at[~records.one_hit].tolist()
    return min(firsts, default=None)


def _known(segment: Segment) -> Iterator[Span]:
    footer = segment.footer
    stored = footer.stored_index + 8 * footer.num_docs
    if footer.version >= NESTED_FROM and footer.num_docs:
        stored += len(encode_edges(segment.edges))
    yield Span(Part.STORED, 0, stored)
    yield Span(Part.FIELDS, _fields_start(segment), segment.contents.data.source.size)
    for info in segment.fields:
        yield from _known_of(segment, info)


def _fields_start(segment: Segment) -> int:
    """Return the address of the field records, or of the doc value table before them."""
    footer, data = segment.footer, segment.contents.data
    index = data.window(footer.fields_index, data.end, "fields index")
    if footer.version >= SECTIONS_FROM:
        index.uvarint("number of fields")
    addresses = np.frombuffer(index.take(index.remaining // 8 * 8, "fields index"), ">u8").tolist()
    table = [] if footer.doc_value_table is None else [footer.doc_value_table]
    return int(min([footer.fields_index, *table, *addresses]))


def _known_of(segment: Segment, info: FieldInfo) -> Iterator[Span]:
    stop = 0
    if info.dictionary is not None:
        head = segment.contents.data.at(info.dictionary, varints.MAX_BYTES, "bytes of a dictionary")
        size = head.uvarint("bytes of a dictionary")
        stop = info.dictionary + head.pos + size
        yield Span(Part.DICTIONARY, info.dictionary, stop, info.name)
    if info.doc_values is not None:
        yield Span(Part.DOC_VALUES, *info.doc_values, info.name)
        stop = max(stop, info.doc_values[1])
    if segment.version >= SECTIONS_FROM and info.dictionary is not None:
        yield Span(Part.FIELDS, stop, stop + len(encode_text(info.dictionary, info.doc_values)))
    for part, address in ((Part.VECTORS, info.vectors), (Part.SHAPES, info.shapes)):
        if address is not None:
            yield Span(part, address, address + 1, info.name)
    if info.synonyms is not None:
        section = segment.contents.data.at(info.synonyms, 3 * varints.MAX_BYTES, "section of synonyms")
        for what in ("start of doc values", "end of doc values", "address of a thesaurus"):
            section.uvarint(what)
        yield Span(Part.SYNONYMS, info.synonyms, info.synonyms + section.pos, info.name)
