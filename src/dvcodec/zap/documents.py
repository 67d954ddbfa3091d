"""Analysed documents: the input of `write_segment`.

The model is bleve's (``bleve_index_api``: ``Document``, ``Field``, ``TokenFreq``, ``TokenLocation``): analysis has
split the values into terms with frequencies and locations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_type

__all__ = ["Document", "Field", "FieldOptions", "Location", "Synonyms", "Term", "utf8"]


class FieldOptions(IntFlag):
    """Options of a field (``index.FieldIndexingOptions``)."""

    INDEXED = 1
    STORED = 2
    TERM_VECTORS = 4
    """Store locations."""
    DOC_VALUES = 8
    SKIP_FREQ_NORM = 16
    SKIP_DOC_VALUE_COMPRESSION = 32
    SKIP_DOC_VALUE_CHUNKING = 64
    GPU = 128


@dataclass(frozen=True, slots=True)
class Location:
    """One occurrence of a term.

    Attributes:
        position: position of the token in the field, 1-based.
        start: first byte in the field's value.
        end: byte after the last.
        field: field of the token; empty for the field itself (composite fields have tokens of others).
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
        frequency: its frequency in the field; 0 with `FieldOptions.SKIP_FREQ_NORM`.
        locations: may be fewer than `frequency`.
    """

    term: bytes
    frequency: int = 1
    locations: tuple[Location, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """An instance of a field in a document; a document may have several with the same name.

    Attributes:
        name: name of the field.
        value: stored with `FieldOptions.STORED`.
        type: one letter: ``t`` text, ``n`` numeric, ``d`` datetime, ``b`` boolean, ``g`` geopoint, ``s`` geoshape,
            ``i`` IP, ``c`` composite; stored, but not interpreted.
        options: `FieldOptions`.
        terms: terms of the analysed value, in any order.
        length: number of tokens (not of distinct terms), stored as the norm.
        array_positions: indices in the arrays of the source document, outermost first.
        doc_value_extra: bytes after the terms in the doc values, without separator (geo shapes).
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
        thesaurus: name of the thesaurus, which is also a field.
        terms: (term, its synonyms), in order of definition.
    """

    thesaurus: str
    terms: tuple[tuple[bytes, tuple[bytes, ...]], ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One document.

    Attributes:
        id: stored, and the only term of the field ``_id``.
        fields: every instance of every field except ``_id`` and composite ones, in visiting order.
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
    """Encode a text as UTF-8.

    Raises:
        UsageError: not a str, or it has a surrogate, which UTF-8 cannot encode.
    """
    check_type(text, str, "text", "a str")
    try:
        return text.encode()
    except UnicodeEncodeError as err:
        raise UsageError(f"{text[err.start]!r} cannot be encoded as UTF-8") from None
