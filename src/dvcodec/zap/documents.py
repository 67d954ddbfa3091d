"""Analysed documents: what a segment is written from.

The shape is bleve's (``bleve_index_api``: ``Document``, ``Field``, ``TokenFreq``, ``TokenLocation``): analysis has
already turned the values into terms, with the frequency and locations of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from dvcodec.core.errors import UsageError

__all__ = ["Document", "Field", "FieldOptions", "Location", "Synonyms", "Term", "utf8"]


class FieldOptions(IntFlag):
    """What a field is kept for (``index.FieldIndexingOptions``)."""

    INDEXED = 1
    STORED = 2
    TERM_VECTORS = 4
    """Locations are kept."""
    DOC_VALUES = 8
    SKIP_FREQ_NORM = 16
    SKIP_DOC_VALUE_COMPRESSION = 32
    SKIP_DOC_VALUE_CHUNKING = 64
    GPU = 128


@dataclass(frozen=True, slots=True)
class Location:
    """One occurrence of a term.

    Attributes:
        position: of the token in the field, 1-based.
        start: first byte in the field's value.
        end: byte behind the last.
        field: name of the field that the token came from; empty means the field itself (others in composite fields).
        array_positions: indices in the arrays of the source document, outermost first.
    """

    position: int
    start: int
    end: int
    field: str = ""
    array_positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A term of one field in one document.

    Attributes:
        term: any bytes.
        frequency: its frequency in the field; 0 where the field does not count (`FieldOptions.SKIP_FREQ_NORM`).
        locations: where; may be fewer than `frequency`.
    """

    term: bytes
    frequency: int = 1
    locations: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One instance of a field in a document; a document may have several of one name.

    Attributes:
        name: name of the field.
        value: what is stored, if `options` say so.
        type: one letter: ``t`` text, ``n`` numeric, ``d`` datetime, ``b`` boolean, ``g`` geopoint, ``s`` geoshape,
            ``i`` IP, ``c`` composite; zap keeps it and does not interpret it.
        options: what the field is kept for.
        terms: the analysed value, in any order.
        length: number of tokens (not of distinct terms); it becomes the norm.
        array_positions: indices in the arrays of the source document, outermost first.
        doc_value_extra: bytes that follow the terms among the doc values, without the separator (geo shapes).
    """

    name: str
    value: bytes = b""
    type: str = "t"
    options: FieldOptions = FieldOptions.INDEXED | FieldOptions.STORED
    terms: tuple[Term, ...] = ()
    length: int = 0
    array_positions: tuple[int, ...] = ()
    doc_value_extra: bytes | None = None


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Synonyms that a document defines in one thesaurus, versions 16 and 17.

    Attributes:
        thesaurus: its name; it becomes a field.
        terms: (term, its synonyms), in the order in which they are defined.
    """

    thesaurus: str
    terms: tuple[tuple[bytes, tuple[bytes, ...]], ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    Attributes:
        id: what it is called; stored, and the only term of the field ``_id``.
        fields: every instance of every field but ``_id`` and the composite ones, in visiting order.
        composites: composite fields (such as ``_all``): indexed, never stored.
        children: nested documents, version 17.
        synonyms: versions 16 and 17.
    """

    id: bytes
    fields: tuple[Field, ...] = ()
    composites: tuple[Field, ...] = ()
    children: tuple[Document, ...] = ()
    synonyms: tuple[Synonyms, ...] = ()


def utf8(text: str) -> bytes:
    """Spell a text in UTF-8.

    Raises:
        UsageError: it has half of a surrogate pair, which UTF-8 does not.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as err:
        raise UsageError(f"{text[err.start]!r} cannot be encoded as UTF-8") from None
