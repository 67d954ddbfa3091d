"""Documents at random, and what a segment of them has to hold, in Python lists."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from dvcodec.zap import Document, Field, FieldOptions, Location, Segment, Synonyms, Term, write_segment
from dvcodec.zap.postings import norm_values
from samples.zap.postings import rows
from samples.zap.segments import norm

INDEXED, STORED, LOCATED, VALUES = (FieldOptions(1 << bit) for bit in range(4))
OPTIONS = {"a": INDEXED | STORED | LOCATED | VALUES, "b": INDEXED | STORED, "c": STORED, "d": INDEXED | VALUES}
"""Every field is kept for the same everywhere, so that OR and AND of options are one."""
Stored = tuple[str, str, bytes, tuple[int, ...]]


class Posting(NamedTuple):
    doc: int
    freq: int
    norm: float
    places: tuple[tuple[str, int, int, int, tuple[int, ...]], ...] = ()


class Content(NamedTuple):
    """What a segment holds, without what differs from writer to writer."""

    stored: list[list[Stored]]
    terms: dict[str, dict[bytes, list[Posting]]]
    values: dict[str, dict[int, tuple[bytes, ...]]]
    thesauri: dict[str, dict[bytes, set[tuple[bytes, int]]]]
    edges: list[tuple[int, int]]


words = st.sampled_from([b"", b"x", b"y", b"zz", b"\xfe", "\u00fc".encode(), b"x" * 70])
arrays = st.lists(st.integers(0, 300), max_size=2).map(tuple)


@st.composite
def fields(draw: st.DrawFn, name: str, version: int) -> Field:
    options = OPTIONS[name]
    terms: list[Term] = []
    if options & INDEXED:
        for word in draw(st.lists(words, max_size=3)):
            places: tuple[Location, ...] = ()
            if options & LOCATED:
                source = st.sampled_from(["", "_id"])
                place = st.builds(Location, st.integers(1, 9), st.integers(0, 200), st.integers(0, 300), source, arrays)
                places = tuple(draw(st.lists(place, max_size=2)))
            terms.append(Term(word, max(draw(st.integers(1, 3)), len(places)), places))
    return Field(
        name,
        draw(words),
        draw(st.sampled_from("tnb")),
        options,
        tuple(terms),
        draw(st.integers(0, 9)),
        draw(arrays),
    )


@st.composite
def documents(draw: st.DrawFn, version: int, *, most: int = 4, nested: bool = True) -> list[Document]:
    found = []
    for _ in range(draw(st.integers(0, most))):
        instances = tuple(draw(fields(name, version)) for name in draw(st.lists(st.sampled_from("abcd"), max_size=4)))
        composites: tuple[Field, ...] = ()
        if draw(st.booleans()):
            composites = (Field("all", type="c", options=INDEXED, terms=(Term(draw(words), 2),), length=3),)
        synonyms: tuple[Synonyms, ...] = ()
        if version >= 16 and draw(st.booleans()):
            entries = st.tuples(words, st.lists(words, max_size=3).map(tuple))
            synonyms = (Synonyms(draw(st.sampled_from("st")), tuple(draw(st.lists(entries, max_size=2)))),)
        children: tuple[Document, ...] = ()
        if version >= 17 and nested and draw(st.integers(0, 3)) == 0:
            children = tuple(draw(documents(version, most=2)))
        found.append(Document(draw(words), instances, composites, children, synonyms))
    return found


def written(version: int, found: Iterable[Document] | None = None, chunk_mode: int | None = None) -> bytes:
    """A segment of these documents, by default of `three_documents`."""
    sink = io.BytesIO()
    write_segment(sink, three_documents() if found is None else found, version, chunk_mode=chunk_mode)
    return sink.getvalue()


# ------------------------------------------------------------------ what documents hold


def flatten(found: Iterable[Document]) -> tuple[list[Document], list[tuple[int, int]]]:
    flat: list[Document] = []
    edges: list[tuple[int, int]] = []

    def add(document: Document, parent: int | None) -> None:
        number = len(flat)
        flat.append(document)
        if parent is not None:
            edges.append((number, parent))
        for child in document.children:
            add(child, number)

    for document in found:
        add(document, None)
    return flat, edges


def norm_of(version: int, length: int) -> float:
    return float(norm_values(version, np.array([norm(version, length)], np.uint64))[0])


def content_of(version: int, found: Iterable[Document]) -> Content:
    """What a segment of these documents holds."""
    flat, edges = flatten(found)
    out = Content([], {}, {}, {}, edges)
    kept = {
        one.name
        for document in flat
        for one in (*document.fields, *(document.composites if version >= 16 else ()))
        if one.options & VALUES
    }
    for doc, document in enumerate(flat):
        row: list[Stored] = [("_id", "t", document.id, ())]
        stored = [one for one in document.fields if one.options & STORED]
        row += [(one.name, one.type, one.value, one.array_positions) for one in sorted(stored, key=field_key)]
        out.stored.append(row)
        out.terms.setdefault("_id", {}).setdefault(document.id, []).append(Posting(doc, 1, 1.0))
        for name in {one.name for one in (*document.composites, *document.fields)}:
            add_field(out, version, doc, name, document, name in kept)
        for synonyms in document.synonyms:
            for term, names in synonyms.terms:
                for other in names:
                    of_term = out.thesauri.setdefault(synonyms.thesaurus, {}).setdefault(term, set())
                    of_term.add((other, doc))
    for terms in out.terms.values():
        for term in sorted(terms):
            terms[term] = terms.pop(term)
    return out


def field_key(one: Field) -> bytes:
    return one.name.encode()


def add_field(out: Content, version: int, doc: int, name: str, document: Document, has_values: bool) -> None:
    instances = [one for one in (*document.composites, *document.fields) if one.name == name]
    length = sum(one.length for one in instances)
    terms: dict[bytes, tuple[int, list[Location]]] = {}
    for one in instances:
        for term in one.terms:
            freq, places = terms.get(term.term, (0, []))
            terms[term.term] = (freq + term.frequency, places + list(term.locations))
    for word, (freq, places) in terms.items():
        norm = norm_of(version, length if freq or version < 15 else 0)
        found = tuple((at.field or name, at.position, at.start, at.end, at.array_positions) for at in places)
        out.terms.setdefault(name, {}).setdefault(word, []).append(Posting(doc, freq, norm, found))
    if has_values:
        extras = [one.doc_value_extra for one in instances if one.doc_value_extra is not None]
        raw = b"".join(term + b"\xff" for term in sorted(terms))
        raw += b"".join(extra + b"\xff" for extra in (extras if version >= 16 else extras[-1:]))
        if raw:
            out.values.setdefault(name, {})[doc] = tuple(raw.split(b"\xff")[:-1])


# ------------------------------------------------------------------ what segments hold


def content(segment: Segment) -> Content:
    """What a segment holds."""
    out = Content([], {}, {}, {}, [])
    names = [info.name for info in segment.fields]
    for doc in range(segment.num_docs):
        out.stored.append([(one.field, one.type, one.value, one.array_positions) for one in segment.stored(doc)])
    for info in segment.fields:
        if terms := terms_of(segment, info.name, names):
            out.terms[info.name] = terms
        if values := dict(segment.doc_values(info.name)):
            out.values[info.name] = values
        thesaurus = segment.thesaurus(info.name)
        if thesaurus is not None:
            by_id = dict(zip(thesaurus.ids.tolist(), thesaurus.synonyms, strict=True))
            members = iter(zip(thesaurus.synonym_ids.tolist(), thesaurus.docs.tolist(), strict=True))
            out.thesauri[info.name] = {
                term: {(by_id[synonym], doc) for synonym, doc in (next(members) for _ in range(count))}
                for term, count in zip(thesaurus.terms, thesaurus.counts.tolist(), strict=True)
            }
    out.edges.extend(zip(segment.edges.children.tolist(), segment.edges.parents.tolist(), strict=True))
    return out


def terms_of(segment: Segment, name: str, names: list[str]) -> dict[bytes, list[Posting]]:
    dictionary = segment.dictionary(name)
    if dictionary is None:
        return {}
    block = dictionary.to_block()
    found = segment.contents.postings(segment.contents.records(block.values), locations=True)
    norms = iter(norm_values(segment.version, found.norms).tolist())
    lists = [
        [
            Posting(one.doc, one.freq, next(norms), tuple((names[place[0]], *place[1:]) for place in one.places))
            for one in postings
        ]
        for postings in rows(found)
    ]
    return dict(zip(block.keys, lists, strict=True))


def one_hits(segment: Segment) -> dict[str, set[bytes]]:
    """The terms whose list is in the dictionary."""
    found: dict[str, set[bytes]] = {}
    for info in segment.fields:
        dictionary = segment.dictionary(info.name)
        hits = {term for term, value in dictionary.range() if value >> 63} if dictionary is not None else set()
        if hits:
            found[info.name] = hits
    return found


def renumbered(found: Content, numbers: Sequence[int]) -> Content:
    """What is left when documents get new numbers, or -1 for none."""
    terms = {
        name: {
            term: [one._replace(doc=numbers[one.doc]) for one in postings if numbers[one.doc] >= 0]
            for term, postings in of_field.items()
        }
        for name, of_field in found.terms.items()
    }
    values = {
        name: {numbers[doc]: value for doc, value in of_field.items() if numbers[doc] >= 0}
        for name, of_field in found.values.items()
    }
    thesauri = {
        name: {
            term: {(other, numbers[doc]) for other, doc in members if numbers[doc] >= 0}
            for term, members in of_field.items()
        }
        for name, of_field in found.thesauri.items()
    }
    return Content(
        [row for row, number in zip(found.stored, numbers, strict=True) if number >= 0],
        {name: some for name, of_field in terms.items() if (some := nonempty(of_field))},
        {name: of_field for name, of_field in values.items() if of_field},
        {name: some for name, of_field in thesauri.items() if (some := nonempty(of_field))},
        [(numbers[a], numbers[b]) for a, b in found.edges if numbers[a] >= 0 and numbers[b] >= 0],
    )


def nonempty(found: dict[bytes, Any]) -> dict[bytes, Any]:
    return {key: value for key, value in found.items() if value}


def united(parts: Sequence[Content]) -> Content:
    """All of them, whose documents already have their numbers."""
    out = Content([], {}, {}, {}, [])
    for part in parts:
        out.stored.extend(part.stored)
        out.edges.extend(part.edges)
        for name, terms in part.terms.items():
            for term, postings in terms.items():
                out.terms.setdefault(name, {}).setdefault(term, []).extend(postings)
        for name, values in part.values.items():
            out.values.setdefault(name, {}).update(values)
        for name, thesaurus in part.thesauri.items():
            for term, members in thesaurus.items():
                out.thesauri.setdefault(name, {}).setdefault(term, set()).update(members)
    return out


def three_documents() -> list[Document]:
    """A small segment's worth: one field with locations, one without, one document without fields."""
    options = FieldOptions.INDEXED | FieldOptions.STORED | FieldOptions.TERM_VECTORS | FieldOptions.DOC_VALUES
    first = (Term(b"one", 2, (Location(1, 0, 3, array_positions=(4,)), Location(3, 8, 11))), Term(b"two", 1))
    return [
        Document(b"a", (Field("text", b"one two one", "t", options, first, 3, (0, 7)),)),
        Document(b"b", (Field("plain", b"x", "n"), Field("text", b"two", "t", options, (Term(b"two"),), 1))),
        Document(b"c"),
    ]
