"""The documents and dumps of interop/go (see its README), in terms of dvcodec."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from dvcodec.zap import Document, Field, FieldOptions, Location, Segment, Synonyms, Term
from dvcodec.zap.columns import SCHEMAS
from interop.driver import from_key, from_text, to_text

ID = "_id"
ALL = "_all"

# ---------------------------------------------------------------------- documents


def documents(found: Iterable[dict[str, Any]]) -> list[Document]:
    """Documents that zapx's writer is given in JSON, for dvcodec's."""
    return [_document(given) for given in found]


def _document(given: dict[str, Any]) -> Document:
    name = from_text(given["id"]) if "id" in given else None
    fields, composites, synonyms = [], [], []
    for part in given["fields"]:
        field = _field(part)
        if field.name == ID:
            assert (field.options, field.terms, field.length) == (3, (Term(field.value),), 1), "what every id is"
            name = field.value
        elif part.get("composite"):
            composites.append(field)
        else:
            fields.append(field)
            if "syn" in part:
                synonyms.append(_synonyms(part))
    assert name is not None
    if given.get("all"):
        composites.append(_all_of(fields))
    kids = tuple(documents(given.get("kids", ())))
    return Document(name, tuple(fields), tuple(composites), kids, tuple(synonyms))


def _field(given: dict[str, Any]) -> Field:
    assert "geo" not in given, "dvcodec does not write geo sections"
    value = base64.b64decode(given["value64"]) if "value64" in given else from_text(given.get("value", ""))
    options = FieldOptions(given.get("opt", 0))
    positions = tuple(given.get("ap") or ())
    composite = bool(given.get("composite"))
    terms: tuple[Term, ...] = ()
    length = 0
    if given.get("tokens") is not None:
        terms = tuple(_token(*token) for token in given["tokens"])
        length = sum(term.frequency for term in terms)
    elif options & FieldOptions.INDEXED and not composite and "syn" not in given:
        pieces = [value] if given.get("keyword") else value.split(b" ")
        counts = not options & FieldOptions.SKIP_FREQ_NORM
        terms = tuple(_tokenised(pieces, positions, counts=counts, located=bool(given.get("tv"))))
        length = len(pieces) if counts else 0
    return Field(
        name=from_text(given["name"]).decode(),
        value=value,
        type=given.get("type") or ("c" if composite else "t"),
        options=options,
        terms=terms,
        length=given.get("length", length),
        array_positions=positions,
        doc_value_extra=from_text(given["shape"]) if "shape" in given else None,
    )


def _token(term: str | dict[str, str], frequency: int, locations: list[Any] | None) -> Term:
    found = []
    for field, position, start, end, positions in locations or ():
        source = "" if field is None else from_text(field).decode()
        found.append(Location(position, start, end, source, tuple(positions or ())))
    return Term(from_text(term), frequency, tuple(found))


def _tokenised(pieces: list[bytes], positions: tuple[int, ...], *, counts: bool, located: bool) -> Iterator[Term]:
    """One term for every place where it stands: uniting them is the writer's work."""
    start = 0
    for number, piece in enumerate(pieces, 1):
        place = Location(number, start, start + len(piece), "", positions)
        yield Term(piece, int(counts), (place,) * located)
        start += len(piece) + 1


def _all_of(fields: list[Field]) -> Field:
    """The composite field of all others, as bleve makes it."""
    terms = []
    for field in fields:
        for term in field.terms:
            places = tuple(
                Location(at.position, at.start, at.end, field.name, at.array_positions) for at in term.locations
            )
            terms.append(Term(term.term, term.frequency, places))
    length = sum(field.length for field in fields)
    return Field(ALL, type="c", options=FieldOptions(5), terms=tuple(terms), length=length)


def _synonyms(given: dict[str, Any]) -> Synonyms:
    terms = tuple((from_key(key), tuple(map(from_text, values))) for key, values in given["syn"].items())
    return Synonyms(from_text(given["name"]).decode(), terms)


# ---------------------------------------------------------------------- dumps


def dump(segment: Segment, *, stale_counts: bool = False) -> dict[str, Any]:
    """What the programs' dump of a segment is, with true counts, as far as dvcodec reads it: without geo sections.

    `stale_counts`: without true counts. zapx's dictionary then says 1 of every list behind a single hit.
    """
    found: dict[str, Any] = {
        "count": segment.num_docs,
        "fields": [info.name for info in segment.fields],
        "dv_fields": sorted((info.name for info in segment.fields if info.doc_values is not None), key=str.encode),
        "stored": _stored(segment),
        "docvalues": _doc_values(segment),
        "dicts": _dictionaries(segment, stale_counts),
    }
    if segment.version >= 16:
        found["thesauri"] = _thesauri(segment)
    if ancestors := _ancestors(segment):
        found["ancestors"] = ancestors
    return found


def to_key(data: bytes) -> str:
    """Bytes as the key of an object in the JSON of interop/go."""
    text = to_text(data)
    plain = isinstance(text, str) and not text.startswith("b64:")
    return str(text) if plain else "b64:" + base64.b64encode(data).decode()


def _rows(segment: Segment, what: str) -> Iterator[tuple[Any, ...]]:
    for batch in segment.to_arrow(what):
        batch.validate(full=True)
        assert batch.schema == SCHEMAS[what]
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _stored(segment: Segment) -> list[list[Any]]:
    found: list[list[Any]] = [[] for _ in range(segment.num_docs)]
    for doc, field, kind, value, positions in _rows(segment, "stored"):
        found[doc].append([field, kind, to_text(value), positions or None])
    return found


def _doc_values(segment: Segment) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(segment.num_docs)]
    for field, doc, value in _rows(segment, "doc_values"):
        found[doc].setdefault(to_key(field.encode()), []).append(to_text(value))
    return found


def _dictionaries(segment: Segment, stale_counts: bool) -> dict[str, Any]:
    found: dict[str, Any] = {to_key(info.name.encode()): None for info in segment.fields}
    lists: dict[tuple[str, bytes], list[Any]] = {}
    stale: set[str] = set()
    for field, term, count, one_hit, _ in _rows(segment, "terms"):
        lists[field, term] = []
        key = to_key(field.encode())
        found[key] = found[key] or []
        if one_hit and stale_counts:
            stale.add(key)
        found[key].append([to_text(term), 1 if key in stale else count, lists[field, term]])
    postings: dict[tuple[str, bytes, int], list[Any]] = {}
    for field, term, doc, frequency, norm in _rows(segment, "postings"):
        postings[field, term, doc] = posting = [doc, frequency, _float(norm), None]
        lists[field, term].append(posting)
    for field, term, doc, *location in _rows(segment, "locations"):
        posting = postings[field, term, doc]
        posting[3] = posting[3] or []
        posting[3].append([*location[:4], location[4] or None])
    return found


def _float(number: float) -> str:
    """A number as Go's fmt.Sprint has it, for those that are below 2**53."""
    return f"{number:+}".title() if math.isinf(number) else repr(number).removesuffix(".0")


def _thesauri(segment: Segment) -> dict[str, Any]:
    found = {}
    for info in segment.fields:
        thesaurus = segment.thesaurus(info.name)
        if thesaurus is None or not len(thesaurus):
            continue
        names = dict(zip(thesaurus.ids.tolist(), map(to_text, thesaurus.synonyms.to_list()), strict=True))
        members = zip(thesaurus.synonym_ids.tolist(), thesaurus.docs.tolist(), strict=True)
        found[to_key(info.name.encode())] = {
            to_key(term): [[names[synonym], doc] for synonym, doc in islice(members, count)]
            for term, count in zip(thesaurus.terms.to_list(), thesaurus.counts.tolist(), strict=True)
        }
    return found


def _ancestors(segment: Segment) -> dict[str, list[int]]:
    edges = segment.edges
    parents = dict(zip(edges.children.tolist(), edges.parents.tolist(), strict=True))
    found = {}
    for child in sorted(parents):
        line = [parents[child]]
        while line[-1] in parents:
            line.append(parents[line[-1]])
        found[str(child)] = line
    return found
