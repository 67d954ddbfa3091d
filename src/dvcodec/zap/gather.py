"""From documents to columns: the one place where a Python loop runs over terms, for that is what documents are made of.

Source: zapx ``new.go`` (``processDocument``, ``writeStoredFields``), ``section_synonym_index.go`` (``realloc``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, offsets_of, spread
from dvcodec.zap.assemble import FieldContent
from dvcodec.zap.chunks import interleave
from dvcodec.zap.doc_values import TERM_END, DocValues
from dvcodec.zap.documents import Document, Field, FieldOptions, Location, Term
from dvcodec.zap.fields import ID
from dvcodec.zap.footer import SECTIONS_FROM
from dvcodec.zap.lists import Postings
from dvcodec.zap.locations import Locations
from dvcodec.zap.norms import norms_from_lengths
from dvcodec.zap.stored import StoredColumns
from dvcodec.zap.synonyms import Thesaurus

__all__ = ["ID_OPTIONS", "FieldColumns", "add_document", "stored_columns", "with_synonyms"]

ID_OPTIONS = int(FieldOptions.INDEXED | FieldOptions.STORED)
"""Also where no document is: merges of version 17 fail on a segment that says otherwise."""
_STORED, _DOC_VALUES = int(FieldOptions.STORED), int(FieldOptions.DOC_VALUES)
"""Plain integers: the operators of `FieldOptions` cost a microsecond each, and there are some a value."""
_SINGLE_SHAPE_BEFORE = 16
"""Up to the version before, a document keeps the last extra doc value of a field only."""
_DOCS_AT_ONCE = 1 << 14

_TERM, _FREQUENCY, _LOCATIONS = attrgetter("term"), attrgetter("frequency"), attrgetter("locations")


@dataclass(slots=True)
class FieldColumns:
    """What has been read of one field so far: one entry a posting, in document order."""

    name: str
    options: int = 0
    has_doc_values: bool = False
    composite_doc_values: bool = False
    term_ids: dict[bytes, int] = field(default_factory=dict)
    terms: list[int] = field(default_factory=list)
    freqs: list[int] = field(default_factory=list)
    locations: list[tuple[Location, ...]] = field(default_factory=list)
    docs: list[int] = field(default_factory=list)
    """Document of each group of postings; the next two have an entry a group too."""
    group_sizes: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    extras: list[tuple[int, bytes]] = field(default_factory=list)

    def add(self, doc: int, terms: Iterable[Term], length: int) -> None:
        """Add what one document has in the field."""
        terms = tuple(terms)
        known = self.term_ids
        before = len(self.terms)
        self.terms.extend([known.setdefault(term.term, len(known)) for term in terms])
        self.freqs.extend(map(_FREQUENCY, terms))
        self.locations.extend(map(_LOCATIONS, terms))
        self.docs.append(doc)
        self.group_sizes.append(len(self.terms) - before)
        self.lengths.append(length)

    def content(self, version: int, ids: dict[str, int]) -> FieldContent:
        """Turn the field into lists by term."""
        names = sorted(self.term_ids)
        ranks = np.empty(len(names), np.int64)
        ranks[np.fromiter(map(self.term_ids.__getitem__, names), np.int64, len(names))] = np.arange(len(names))
        term = ranks[np.array(self.terms, np.int64)]
        order = np.argsort(term, kind="stable")
        groups = np.repeat(np.arange(len(self.docs)), self.group_sizes)
        docs = np.array(self.docs, np.int64)[groups]
        location_counts = np.fromiter(map(len, self.locations), np.int64, len(self.locations))
        located = _columns_of(list(chain.from_iterable(self.locations)), ids, ids[self.name])
        postings = Postings(
            np.bincount(term, minlength=len(names)),
            docs[order],
            np.array(self.freqs, np.uint64)[order],
            norms_from_lengths(version, np.array(self.lengths, np.uint64))[groups][order],
            location_counts[order],
            located.take(spread(offsets_of(location_counts)[:-1][order], location_counts[order])),
        )
        terms = ByteStrings.from_list(names)
        kept = self.has_doc_values or (version >= SECTIONS_FROM and self.composite_doc_values)
        doc_values = self._doc_values(version, terms, postings) if kept else None
        return FieldContent(
            self.name, FieldOptions(self.options), terms, postings, np.zeros(len(names), np.bool_), doc_values
        )

    def _doc_values(self, version: int, terms: ByteStrings, postings: Postings) -> DocValues:
        """Gather each document's terms, in byte order, each followed by a separator; then its extra value."""
        by_doc = np.argsort(postings.docs, kind="stable")
        docs = postings.docs[by_doc]
        values = _separated(terms.take(postings.owner[by_doc]))
        if self.extras:
            last = dict(self.extras).items() if version < _SINGLE_SHAPE_BEFORE else self.extras
            docs = np.append(docs, [doc for doc, _ in last])
            values = ByteStrings.concat([values, _separated(ByteStrings.from_list([extra for _, extra in last]))])
            by_doc = np.argsort(docs, kind="stable")
            docs, values = docs[by_doc], values.take(by_doc)
        found, first = np.unique(docs, return_index=True)
        return DocValues(found, ByteStrings(values.offsets[np.append(first, len(docs))], values.data))


def _separated(values: ByteStrings) -> ByteStrings:
    marks = np.full(len(values), TERM_END, np.uint8)
    return interleave([values, ByteStrings(np.arange(len(values) + 1), marks)])


def _columns_of(locations: list[Location], ids: dict[str, int], own: int) -> Locations:
    ids = {**ids, "": own}
    try:
        fields = [ids[location.field] for location in locations]
    except KeyError as err:
        raise UsageError(f"a location is in field {err.args[0]!r}, which no document has") from None
    arrays = [location.array_positions for location in locations]
    return Locations(
        np.array(fields, np.int64),
        np.array([location.position for location in locations], np.uint64),
        np.array([location.start for location in locations], np.uint64),
        np.array([location.end for location in locations], np.uint64),
        np.fromiter(map(len, arrays), np.int64, len(arrays)),
        np.array(list(chain.from_iterable(arrays)), np.uint64),
    )


def add_document(document: Document, number: int, columns: list[FieldColumns], ids: dict[str, int]) -> None:
    """Add one document to the columns of its fields."""
    columns[0].add(number, (Term(document.id),), 1)
    grouped: dict[int, list[Field]] = {}
    for composite, instances in ((True, document.composites), (False, document.fields)):
        for instance in instances:
            column = columns[ids[instance.name]]
            options = int(instance.options)
            column.options |= options
            if options & _DOC_VALUES:
                column.composite_doc_values |= composite
                column.has_doc_values |= not composite
            if instance.doc_value_extra is not None:
                column.extras.append((number, instance.doc_value_extra))
            grouped.setdefault(ids[instance.name], []).append(instance)
    for place, instances_of_field in grouped.items():
        length = sum(instance.length for instance in instances_of_field)
        if len(instances_of_field) == 1 and _distinct(instances_of_field[0].terms):
            columns[place].add(number, instances_of_field[0].terms, length)
        else:
            columns[place].add(number, _rolled_up(instances_of_field), length)


def _distinct(terms: tuple[Term, ...]) -> bool:
    return len(set(map(_TERM, terms))) == len(terms)


def _rolled_up(instances: list[Field]) -> Iterator[Term]:
    """Unite the terms of several instances of a field: frequencies add up, locations follow one another."""
    united: dict[bytes, Term] = {}
    for term in chain.from_iterable(instance.terms for instance in instances):
        old = united.get(term.term)
        united[term.term] = (
            term if old is None else Term(term.term, old.frequency + term.frequency, old.locations + term.locations)
        )
    return iter(united.values())


def stored_columns(flat: list[Document], ids: dict[str, int]) -> Iterator[StoredColumns]:
    """Gather the stored values, some documents at a time."""
    for start in range(0, len(flat), _DOCS_AT_ONCE):
        docs: list[int] = []
        fields: list[int] = []
        instances: list[Field] = []
        for number, document in enumerate(flat[start : start + _DOCS_AT_ONCE], start):
            kept = [instance for instance in document.fields if int(instance.options) & _STORED]
            kept.sort(key=lambda instance: ids[instance.name])  # by field; of one field as they came
            instances.append(Field(ID, document.id))
            instances.extend(kept)
            fields.append(0)
            fields.extend([ids[instance.name] for instance in kept])
            docs.extend([number] * (1 + len(kept)))
        yield StoredColumns(
            np.array(docs, np.int64),
            np.array(fields, np.int64),
            _types(instances),
            ByteStrings.from_list([instance.value for instance in instances]),
            np.array([len(instance.array_positions) for instance in instances], np.int64),
            np.array(list(chain.from_iterable(instance.array_positions for instance in instances)), np.uint64),
        )


def _types(instances: list[Field]) -> NDArray[np.uint8]:
    letters = "".join([instance.type for instance in instances])
    if not letters.isascii() or any(len(instance.type) != 1 for instance in instances):
        wrong = next(one for one in instances if len(one.type) != 1 or not one.type.isascii())
        raise UsageError(f"field {wrong.name!r}: its type is one ASCII letter, not {wrong.type!r}")
    return np.frombuffer(letters.encode(), np.uint8)


def with_synonyms(contents: Iterable[FieldContent], flat: list[Document]) -> Iterator[FieldContent]:
    """Add the thesauri that documents define; ids of synonyms are counted through all of them."""
    lists: dict[str, dict[bytes, list[tuple[int, int]]]] = {}
    known: dict[str, dict[bytes, int]] = {}
    count = 0
    for number, document in enumerate(flat):
        for defined in document.synonyms:
            of_terms = lists.setdefault(defined.thesaurus, {})
            ids = known.setdefault(defined.thesaurus, {})
            for term, synonyms in defined.terms:
                members = of_terms.setdefault(term, [])
                for synonym in synonyms:
                    if synonym not in ids:
                        ids[synonym] = count
                        count += 1
                    members.append((ids[synonym], number))
    for content in contents:
        if content.name in lists:
            yield replace(content, thesaurus=_thesaurus(lists[content.name], known[content.name]))
        else:
            yield content


def _thesaurus(lists: dict[bytes, list[tuple[int, int]]], ids: dict[bytes, int]) -> Thesaurus | None:
    """Put the members of each term in order; a thesaurus without any is not written, for no reader opens it."""
    terms = sorted(term for term, members in lists.items() if members)
    members = [sorted(set(lists[term])) for term in terms]
    pairs = np.array(list(chain.from_iterable(members)), np.int64).reshape(-1, 2)
    if not len(pairs):
        return None
    names = sorted(ids, key=ids.__getitem__)
    return Thesaurus(
        ByteStrings.from_list(terms),
        np.fromiter(map(len, members), np.int64, len(members)),
        pairs[:, 0],
        pairs[:, 1],
        np.array([ids[name] for name in names], np.int64),
        ByteStrings.from_list(names),
    )
