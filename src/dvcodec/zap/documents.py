"""Analysed documents, the input of `write_segment`; and simple analysis, which makes fields from plain values.

The model is bleve's (``bleve_index_api``: ``Document``, ``Field``, ``TokenFreq``, ``TokenLocation``): analysis has
split the values into terms with frequencies and locations. Numbers are as in bleve's default mapping
(``document/field_numeric.go``, ``numeric/prefix_coded.go``, ``numeric/float.go``). Simple analysis is enough for words,
keywords and numbers. For languages, stop words and stemming, use an analyser and build `Field`s from its tokens.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag

from dvcodec.core.errors import UsageError
from dvcodec.core.usage import check_type


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


_INDEXED = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.DOC_VALUES
_LOCATED = _INDEXED | FieldOptions.TERM_VECTORS
_WORD = re.compile(r"\w+")
_PRECISION_STEP = 4
_BITS = 64
_GROUP = 7
_SHIFT_MARK = 0x20
"""The first byte of a number's term is this plus the number of dropped low bits."""


def text_field(name: str, text: str, *, options: FieldOptions = _LOCATED, array_positions: Sequence[int] = ()) -> Field:
    """Make a field of words: runs of letters, digits and underscores, in lower case, with their locations.

    Args:
        name: name of the field.
        text: the value, stored as UTF-8.
        options: options of the field. Without `FieldOptions.TERM_VECTORS` terms have no locations; with
            `FieldOptions.SKIP_FREQ_NORM` frequencies and length are 0.
        array_positions: indices in the arrays of the source document, outermost first.

    Raises:
        UsageError: the text cannot be encoded as UTF-8.

    >>> [(term.term, term.frequency) for term in text_field("title", "To be or not to be").terms]
    [(b'to', 2), (b'be', 2), (b'or', 1), (b'not', 1)]
    """
    check_type(options, int, "options", "FieldOptions")
    check_type(array_positions, Sequence, "array_positions", "a sequence of numbers")
    value, arrays = utf8(text), tuple(array_positions)
    places: dict[bytes, list[Location]] = {}
    done, offset, length = 0, 0, 0
    for word in _WORD.finditer(text):
        start = offset + len(text[done : word.start()].encode())
        done, offset = word.end(), start + len(word.group().encode())
        length += 1
        places.setdefault(word.group().lower().encode(), []).append(
            Location(length, start, offset, array_positions=arrays)
        )
    located = bool(options & FieldOptions.TERM_VECTORS)
    counted = not options & FieldOptions.SKIP_FREQ_NORM
    terms = tuple(
        Term(term, len(found) if counted else 0, tuple(found) if located else ()) for term, found in places.items()
    )
    return Field(name, value, "t", options, terms, length if counted else 0, arrays)


def keyword_field(
    name: str, value: str | bytes, *, options: FieldOptions = _INDEXED, array_positions: Sequence[int] = ()
) -> Field:
    """Make a field of one term, the value itself.

    Args:
        name: name of the field.
        value: bytes, or text to store as UTF-8.
        options: options of the field; with `FieldOptions.TERM_VECTORS` the term has a location.
        array_positions: indices in the arrays of the source document, outermost first.

    Raises:
        UsageError: a text that cannot be encoded as UTF-8.
    """
    data = utf8(value) if isinstance(value, str) else value
    arrays = tuple(array_positions)
    located = options & FieldOptions.TERM_VECTORS
    locations = (Location(1, 0, len(data), array_positions=arrays),) if located else ()
    return Field(name, data, "t", options, (Term(data, 1, locations),), 1, arrays)


def number_field(
    name: str, value: float, *, options: FieldOptions = _INDEXED, array_positions: Sequence[int] = ()
) -> Field:
    """Make a field of a number, as a 64-bit float: 16 terms; bleve's range queries use the coarsest that fit.

    Args:
        name: name of the field.
        value: an integer becomes the nearest float.
        options: options of the field; terms of numbers have no locations.
        array_positions: indices in the arrays of the source document, outermost first.

    Raises:
        UsageError: not a number, or an integer beyond the range of float.
    """
    try:
        (bits,) = struct.unpack(">q", struct.pack(">d", value))
    except struct.error:
        raise UsageError(f"field {name!r}: its value does not fit a 64-bit float") from None
    sortable = bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF
    terms = tuple(Term(_prefix_coded(sortable, shift)) for shift in range(0, _BITS, _PRECISION_STEP))
    return Field(name, terms[0].term, "n", options, terms, len(terms), tuple(array_positions))


def number_value(value: bytes) -> float:
    """Decode a stored value or a term of `number_field`; a coarse term decodes to its lower bound.

    Raises:
        UsageError: not an encoded number.

    >>> number_value(number_field("n", -2.5).value)
    -2.5
    """
    shift = value[0] - _SHIFT_MARK if value else -1
    if not 0 <= shift < _BITS or len(value) != (_BITS - 1 - shift) // _GROUP + 2 or max(value[1:]) >> _GROUP:
        raise UsageError(f"not a number in bleve's encoding: {value[:20]!r}")
    rest = 0
    for group in value[1:]:
        rest = rest << _GROUP | group
    if rest << shift >> _BITS:
        raise UsageError(f"not a number in bleve's encoding: {value[:20]!r}")
    sortable = (rest << shift) - (1 << (_BITS - 1))
    bits = sortable if sortable >= 0 else sortable ^ 0x7FFFFFFFFFFFFFFF
    (number,) = struct.unpack(">d", struct.pack(">q", bits))
    return float(number)


def _prefix_coded(value: int, shift: int) -> bytes:
    """Encode a signed 64-bit number without its lowest bits, so that terms sort as numbers do."""
    rest = (value + (1 << (_BITS - 1))) >> shift
    groups = (_BITS - 1 - shift) // _GROUP + 1
    return bytes([_SHIFT_MARK + shift, *(rest >> _GROUP * k & 0x7F for k in reversed(range(groups)))])


def composite_field(
    fields: Iterable[Field],
    *,
    name: str = "_all",
    options: FieldOptions = FieldOptions.INDEXED | FieldOptions.TERM_VECTORS,
) -> Field:
    """Make a composite field from the terms of others, for `Document.composites`; locations keep their field.

    Args:
        fields: the others; their frequencies and lengths are added.
        name: name of the composite field.
        options: options of the composite field.

    Raises:
        UsageError: not fields.
    """
    frequencies: dict[bytes, int] = {}
    places: dict[bytes, tuple[Location, ...]] = {}
    length = 0
    check_type(fields, Iterable, "fields", "an iterable of Field")
    for field in fields:
        check_type(field, Field, "an item of fields", "a Field")
        length += field.length
        for term in field.terms:
            moved = tuple(
                Location(at.position, at.start, at.end, at.field or field.name, at.array_positions)
                for at in term.locations
            )
            frequencies[term.term] = frequencies.get(term.term, 0) + term.frequency
            places[term.term] = places.get(term.term, ()) + moved
    terms = tuple(Term(term, count, places[term]) for term, count in frequencies.items())
    return Field(name, b"", "c", options, terms, length)
