"""Write segments from analysed documents: to columns, each attribute in one pass, and then to the parts of a file.

Source: zapx ``new.go`` (``processDocument``, ``writeStoredFields``), from version 16 on
``section_inverted_text_index.go`` and ``section_synonym_index.go``. The bytes equal zapx's, except snappy blocks and
the orders that are random in Go (see `assemble`).

Write the parts of a segment in order, for the writer and for merging.

Source: zapx ``new.go`` (``convert``), ``merge.go`` (``mergeToWriter``)::

    stored records | stored index | [v17: edge list]
    v11..v15  of each field: its postings, term by term | dictionary | [doc values]
              doc value table | field records | fields index | footer
    v16, v17  of each field: its postings, term by term | dictionary | [doc values] | text section
              of each thesaurus: its lists | dictionary | synonyms | synonym section
              field records | sections index | footer

From version 16 on some orders are random in Go (sections, a field's list of sections, edges, the synonyms of a
thesaurus); here they are ascending.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import attrgetter, or_

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import BytesLike, crc32
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, Index, Values, cut_by_weight, offsets_of, spread
from dvcodec.core.usage import as_count, check_type
from dvcodec.io import StorageOptions
from dvcodec.io.opening import open_sink
from dvcodec.io.sink import Sink, SinkTarget
from dvcodec.zap import chunks
from dvcodec.zap.chunks import interleave
from dvcodec.zap.doc_values import SKIPS, TERM_END, DocValues, encode_doc_value_block
from dvcodec.zap.documents import Document, Field, FieldOptions, Location
from dvcodec.zap.footer import (
    DEFAULT_CHUNK_MODE,
    ID,
    MAX_FIELDS,
    SECTIONS_FROM,
    SYNONYMS,
    TEXT,
    VERSIONS,
    WRITER_ID_FROM,
    Footer,
    encode_block,
    encode_field,
    encode_fields_index,
    encode_footer,
    encode_record,
    encode_text,
)
from dvcodec.zap.postings import (
    LOCATIONS_WITHIN_FREQ,
    POSTINGS_AT_ONCE,
    Locations,
    Postings,
    encode_one_hits,
    encode_postings,
    norms_from_lengths,
)
from dvcodec.zap.sections import Thesaurus, encode_thesaurus
from dvcodec.zap.stored import (
    ID_TYPE,
    NESTED_FROM,
    Edges,
    StoredColumns,
    encode_edges,
    encode_stored_index,
    encode_stored_records,
)
from dvcodec.zap.vellum import encode_dictionary

_MAX_FREQ = 2**63 - 1
"""It is stored shifted left by one bit."""


@dataclass(frozen=True, slots=True, eq=False)
class TermLists:
    """Some terms of a field with their lists.

    Attributes:
        terms: in byte order, each once.
        postings: one non-empty list per term.
        one_hits: bool[terms], lists to store in the dictionary: one document, frequency 1, no location.
    """

    terms: ByteStrings
    postings: Postings
    one_hits: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class FieldContent:
    """One field of a segment, without its stored values. Each of its parts is read once, in this order.

    Attributes:
        name: name of the field.
        lists: all terms in byte order, with their lists, in parts.
        rest: called when the lists have been read: `FieldOptions`, which version 17 stores, and the doc values in
            document order, in parts; None if the field has no doc value block.
        thesaurus: synonyms, versions 16 and 17.
    """

    name: str
    lists: Iterable[TermLists]
    rest: Callable[[], tuple[FieldOptions, Iterable[DocValues] | None]]
    thesaurus: Thesaurus | None = None

    @classmethod
    def of(
        cls,
        name: str,
        options: FieldOptions,
        terms: ByteStrings,
        postings: Postings,
        doc_values: DocValues | None = None,
    ) -> FieldContent:
        """Return a field that is in memory."""
        lists = TermLists(terms, postings, np.zeros(len(terms), np.bool_))
        return cls(name, [lists], lambda: (options, None if doc_values is None else [doc_values]))


def check_version(version: int, chunk_mode: int | None) -> int:
    """Check version and chunk mode; return the chunk mode, by default the one that zapx writes in that version.

    Raises:
        UsageError: a version other than 11 to 17, or a mode that its readers do not support.
    """
    if version not in VERSIONS:
        raise UsageError(f"zap versions are {VERSIONS[0]} to {VERSIONS[-1]}, not {version}")
    mode = DEFAULT_CHUNK_MODE[version] if chunk_mode is None else chunk_mode
    chunks.check_mode(version, mode)
    return mode


@dataclass
class _Out:
    """A sink that keeps the running CRC."""

    sink: Sink
    start: int
    crc: int = 0

    @property
    def position(self) -> int:
        return self.sink.position - self.start

    def write(self, data: BytesLike) -> int:
        """Append; return the address."""
        at = self.position
        self.crc = crc32(data, self.crc)
        self.sink.write(data)
        return at


def write_content(
    sink: Sink,
    version: int,
    chunk_mode: int,
    num_docs: int,
    stored: Iterable[StoredColumns],
    fields: Iterable[FieldContent],
    *,
    edges: Edges | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a segment.

    Args:
        sink: target; the segment begins at its position.
        version: 11 to 17.
        chunk_mode: as `check_version` returned it.
        num_docs: documents.
        stored: stored values of all documents in order, in batches.
        fields: the fields by id, ``_id`` first; consumed one at a time.
        edges: nested documents, version 17.
        progress: called with the name of each field when it is written.

    Raises:
        UsageError: more than 65,534 fields; or contents on which zapx's readers of that version fail.
        OSError: the target cannot be written.
    """
    out = _Out(sink, sink.position)
    footer = Footer(version, num_docs, 0, 0, None, chunk_mode)
    stored_index = 0
    if num_docs:
        stored_index = _write_stored(out, footer, stored, edges or Edges.none())
    elif version >= SECTIONS_FROM:
        out.write(b"\0")  # zapx takes a record at address 0 for a missing field
    written = []
    for content in fields:
        written.append(_write_field(out, footer, content))
        progress(content.name)
    if len(written) > MAX_FIELDS:
        raise UsageError(f"a segment has at most {MAX_FIELDS} fields, not {len(written)}")
    table = None
    if version >= SECTIONS_FROM:
        _write_synonyms(out, footer, written)
        options = version >= WRITER_ID_FROM
        addresses = [
            out.write(encode_field(one.name, one.options if options else None, one.sections)) for one in written
        ]
    else:
        if num_docs:
            table = out.write(b"".join(encode_block(one.block) for one in written))
        addresses = [out.write(encode_record(one.name, one.dictionary)) for one in written]
    index = out.write(encode_fields_index(version, addresses))
    sink.write(encode_footer(Footer(version, num_docs, stored_index, index, table, chunk_mode), out.crc))


def _write_stored(out: _Out, footer: Footer, stored: Iterable[StoredColumns], edges: Edges) -> int:
    """Write stored documents, their index and the edges; return the address of the index."""
    addresses = []
    done = 0
    for columns in stored:
        count = int(columns.docs[-1]) + 1 - done if len(columns) else 0
        records, places = encode_stored_records(columns, count, first=done, base=out.position)
        out.write(records)
        addresses.append(places)
        done += count
    index = out.write(encode_stored_index(np.concatenate(addresses)))
    if footer.version >= NESTED_FROM:
        out.write(encode_edges(edges))
    return index


@dataclass
class _Written:
    """Addresses of a written field."""

    name: str
    options: FieldOptions
    thesaurus: Thesaurus | None
    dictionary: int = 0
    block: tuple[int, int] | None = None
    sections: dict[int, int] = field(default_factory=lambda: {TEXT: 0, SYNONYMS: 0})


def _write_field(out: _Out, footer: Footer, content: FieldContent) -> _Written:
    version, num_docs = footer.version, footer.num_docs
    terms, values = [], [np.zeros(0, np.uint64)]
    for lists in content.lists:
        if num_docs:
            _check_lists(version, content.name, lists.postings)
            terms.append(lists.terms)
            values.append(_write_lists(out, footer, lists))
    options, doc_values = content.rest()
    written = _Written(content.name, options, content.thesaurus)
    if not num_docs:
        return written
    if version >= WRITER_ID_FROM:
        _check_options(content.name, options, has_values=doc_values is not None, has_terms=any(map(len, terms)))
    written.dictionary = out.write(encode_dictionary(ByteStrings.concat(terms), np.concatenate(values)))
    if doc_values is not None:
        start = out.position
        for data in encode_doc_value_block(version, num_docs, footer.chunk_mode, options, doc_values):
            out.write(data)
        written.block = (start, out.position)
    if version >= SECTIONS_FROM:
        written.sections[TEXT] = out.write(encode_text(written.dictionary, written.block))
    return written


def _write_lists(out: _Out, footer: Footer, lists: TermLists) -> Values:
    """Write lists; return what the dictionary has of each term."""
    values, postings, one_hits = np.empty(len(lists.terms), np.uint64), lists.postings, lists.one_hits
    if one_hits.any():
        first = offsets_of(postings.counts)[:-1][one_hits]
        values[one_hits] = encode_one_hits(postings.docs[first], postings.norms[first])
        postings = postings.lists(~one_hits)
    records = [np.zeros(0, np.uint64)]
    for part in _parts(footer, postings):
        data, addresses = encode_postings(footer, part, out.position)
        out.write(data)
        records.append(addresses)
    values[~one_hits] = np.concatenate(records)
    return values


def _check_lists(version: int, name: str, postings: Postings) -> None:
    """Raise `UsageError` for lists on which zapx's readers of that version fail, or which they lose."""
    if (postings.freqs > _MAX_FREQ).any():
        raise UsageError(f"field {name!r}: a frequency above {_MAX_FREQ}")
    if version <= LOCATIONS_WITHIN_FREQ and (postings.location_counts.astype(np.uint64) > postings.freqs).any():
        raise UsageError(
            f"field {name!r}: more locations than the frequency, on which readers of version {version} panic"
        )


def _check_options(name: str, options: FieldOptions, *, has_values: bool, has_terms: bool) -> None:
    """Raise `UsageError` for options on which zapx's readers of version 17 fail."""
    if options & SKIPS not in (FieldOptions(0), SKIPS):
        raise UsageError(
            f"field {name!r}: readers of version 17 misread doc values with only one of the options "
            "SKIP_DOC_VALUE_COMPRESSION and SKIP_DOC_VALUE_CHUNKING: set both or neither"
        )
    if options & FieldOptions.DOC_VALUES and not has_values and has_terms:
        raise UsageError(f"field {name!r} has the option DOC_VALUES but no doc values")


def _parts(footer: Footer, postings: Postings) -> Iterator[Postings]:
    """Split lists into parts with a bounded number of postings and chunks."""
    sizes = chunks.chunk_sizes(footer.version, footer.chunk_mode, footer.num_docs, postings.counts)
    weights = postings.counts + (footer.num_docs - 1) // sizes + 1
    return map(postings.lists, cut_by_weight(weights, POSTINGS_AT_ONCE))


def _write_synonyms(out: _Out, footer: Footer, written: list[_Written]) -> None:
    for one in written:
        if one.thesaurus is not None and footer.num_docs:
            data, address = encode_thesaurus(footer.version, one.thesaurus, out.position)
            out.write(data)
            one.sections[SYNONYMS] = address


ID_OPTIONS = int(FieldOptions.INDEXED | FieldOptions.STORED)
"""Also without documents: merges of version 17 fail on a segment with other options."""
_STORED, _DOC_VALUES = int(FieldOptions.STORED), int(FieldOptions.DOC_VALUES)
"""Plain integers: operators of `FieldOptions` cost a microsecond each, several times per value."""
_SINGLE_SHAPE_BEFORE = 16
"""Before this version, a document keeps only the last extra doc value of a field."""
_DOCS_AT_ONCE = 1 << 14
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


@dataclass(slots=True)
class FieldColumns:
    """The instances of one field, in document order; those of composite fields come first in each document.

    Attributes:
        name: of the field.
        instances: all of them.
        docs: document of each.
        options, composite_options: of instances that are not composite, and of those that are.
    """

    name: str
    instances: list[Field] = field(default_factory=list)
    docs: list[int] = field(default_factory=list)
    options: set[int] = field(default_factory=set)
    composite_options: set[int] = field(default_factory=set)

    def content(self, version: int, ids: dict[str, int]) -> FieldContent:
        """Turn the field into lists by term; `ids` are those of all fields by name.

        Raises:
            UsageError: a location is in a field that no document has.
            OverflowError: a number is negative, or it or a sum above 2**64 - 1.
        """
        options, of_composites = (reduce(or_, map(int, found), 0) for found in (self.options, self.composite_options))
        docs, instances = np.array(self.docs, np.int64), self.instances
        parts = list(map(attrgetter("terms"), instances))
        terms = list(chain.from_iterable(parts))
        located = list(map(attrgetter("locations"), terms))
        location_counts = np.fromiter(map(len, located), np.int64, len(located))
        keys = list(map(attrgetter("term"), terms))
        names, postings = _lists(
            version,
            docs,
            _numbers(map(attrgetter("length"), instances)),
            np.fromiter(map(len, parts), np.int64, len(parts)),
            keys,
            _numbers(map(attrgetter("frequency"), terms)),
            location_counts,
            _columns_of(list(chain.from_iterable(located)), ids, ids[self.name]),
        )
        doc_values = None
        if options & _DOC_VALUES or (version >= SECTIONS_FROM and of_composites & _DOC_VALUES):
            extras = [
                (doc, instance.doc_value_extra)
                for doc, instance in zip(docs.tolist(), instances, strict=True)
                if instance.doc_value_extra is not None
            ]
            doc_values = _doc_values(version, names, postings, extras)
        kept_for = FieldOptions(options | of_composites)
        return FieldContent.of(self.name, kept_for, names, postings, doc_values)


def invert_fields(flat: list[Document], names: list[str]) -> list[FieldColumns]:
    """Group the instances of all documents by field; `names` are all but ``_id``."""
    columns = {name: FieldColumns(name) for name in names}
    for number, document in enumerate(flat):
        for instance in document.composites:
            column = columns[instance.name]
            column.docs.append(number)
            column.instances.append(instance)
            column.composite_options.add(instance.options)
        for instance in document.fields:
            column = columns[instance.name]
            column.docs.append(number)
            column.instances.append(instance)
            column.options.add(instance.options)
    return list(columns.values())


def id_content(version: int, flat: list[Document]) -> FieldContent:
    """Build the field ``_id``: the term of each document is its id."""
    ones = np.ones(len(flat), np.int64)
    names, postings = _lists(
        version,
        np.arange(len(flat)),
        ones.astype(np.uint64),
        ones,
        [document.id for document in flat],
        ones.astype(np.uint64),
        np.zeros(len(flat), np.int64),
        Locations.none(),
    )
    return FieldContent.of(ID, FieldOptions(ID_OPTIONS), names, postings)


def _numbers(values: Iterable[int]) -> Values:
    return np.asarray(array("Q", values))


def _sums(values: Values, firsts: Index) -> Values:
    """Sum runs of values that begin at `firsts`; `OverflowError` if a sum is above 2**64 - 1."""
    if len(firsts) == len(values):
        return values
    low = np.add.reduceat(values & _LOW, firsts)
    high = np.add.reduceat(values >> _HALF, firsts) + (low >> _HALF)
    if (high >> _HALF).any():
        raise OverflowError
    sums: Values = high << _HALF | (low & _LOW)
    return sums


def _lists(
    version: int,
    docs: Index,
    lengths: Values,
    sizes: Index,
    keys: list[bytes],
    freqs: Values,
    location_counts: Index,
    locations: Locations,
) -> tuple[ByteStrings, Postings]:
    """Build the lists of a field.

    Frequencies and lengths of several instances in a document, or of a repeated term, add up; their locations are
    concatenated.

    Args:
        version: version of the segment.
        docs: int64, document of each instance, ascending.
        lengths: uint64, tokens of each instance.
        sizes: int64, terms of each instance.
        keys: the terms of all instances.
        freqs: uint64, frequency of each of these terms.
        location_counts: int64, number of locations of each of these terms.
        locations: the locations of all.

    Returns:
        The distinct terms, in byte order, and their lists.
    """
    names = sorted(set(keys))
    ranks = dict(zip(names, range(len(names)), strict=True))
    term = np.fromiter(map(ranks.__getitem__, keys), np.int64, len(keys))
    first = np.flatnonzero(np.diff(docs, prepend=-1))
    norms = norms_from_lengths(version, _sums(lengths, first))
    norms = np.repeat(norms, np.diff(first, append=len(docs)))
    # Sort by term; a stable sort keeps document order within a term. NumPy sorts 16-bit numbers by radix.
    order = np.argsort(term.astype(np.min_scalar_type(len(names))), kind="stable")
    instance = np.repeat(np.arange(len(docs)), sizes)[order]
    term, doc, counts = term[order], docs[instance], location_counts[order]
    heads = np.flatnonzero((np.diff(term, prepend=-1) != 0) | (np.diff(doc, prepend=-1) != 0))
    located = locations.take(spread(offsets_of(location_counts)[:-1][order], counts)) if len(locations) else locations
    postings = Postings(
        np.bincount(term[heads], minlength=len(names)),
        doc[heads],
        _sums(freqs[order], heads),
        norms[instance[heads]],
        np.diff(offsets_of(counts)[np.append(heads, len(counts))]),
        located,
    )
    return ByteStrings.from_list(names), postings


def _doc_values(version: int, terms: ByteStrings, postings: Postings, extras: list[tuple[int, bytes]]) -> DocValues:
    """Collect each document's terms, in byte order, each followed by a separator; then its extra value."""
    by_doc = np.argsort(postings.docs, kind="stable")
    docs = postings.docs[by_doc]
    values = _separated(terms).take(postings.owner[by_doc])
    if extras:
        last = list(dict(extras).items()) if version < _SINGLE_SHAPE_BEFORE else extras
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
        fields = np.fromiter(map(ids.__getitem__, map(attrgetter("field"), locations)), np.int64, len(locations))
    except KeyError as err:
        raise UsageError(f"a location is in field {err.args[0]!r}, which no document has") from None
    arrays = list(map(attrgetter("array_positions"), locations))
    return Locations(
        fields,
        _numbers(map(attrgetter("position"), locations)),
        _numbers(map(attrgetter("start"), locations)),
        _numbers(map(attrgetter("end"), locations)),
        np.fromiter(map(len, arrays), np.int64, len(arrays)),
        _numbers(chain.from_iterable(arrays)),
    )


def stored_columns(flat: list[Document], ids: dict[str, int]) -> Iterator[StoredColumns]:
    """Collect the stored values, some documents at a time.

    Raises:
        UsageError: with each part: a field whose type is not one ASCII letter.
        OverflowError: with each part: an array position is negative or above 2**64 - 1.
    """
    for start in range(0, len(flat), _DOCS_AT_ONCE):
        part = flat[start : start + _DOCS_AT_ONCE]
        numbers = np.arange(start, start + len(part))
        sizes = np.fromiter(map(len, map(attrgetter("fields"), part)), np.int64, len(part))
        instances = list(chain.from_iterable(map(attrgetter("fields"), part)))
        options = np.fromiter(map(attrgetter("options"), instances), np.int64, len(instances))
        kept = np.flatnonzero(options & _STORED)
        instances = [instances[i] for i in kept.tolist()]
        fields = np.fromiter(map(ids.__getitem__, map(attrgetter("name"), instances)), np.int64, len(instances))
        # All ids, then all other values: by document, by field, in input order.
        docs = np.concatenate([numbers, np.repeat(numbers, sizes)[kept]])
        fields = np.concatenate([np.zeros(len(part), np.int64), fields])
        order = np.lexsort((fields, docs))
        types = np.concatenate([np.full(len(part), ID_TYPE, np.uint8), _types(instances)])
        arrays = list(map(attrgetter("array_positions"), instances))
        counts = np.zeros(len(docs), np.int64)
        counts[len(part) :] = np.fromiter(map(len, arrays), np.int64, len(arrays))
        values = ByteStrings.from_list([one.id for one in part] + [one.value for one in instances])
        positions = _numbers(chain.from_iterable(arrays))
        yield StoredColumns(docs, fields, types, values, counts, positions).take(order)


def _types(instances: list[Field]) -> NDArray[np.uint8]:
    types = list(map(attrgetter("type"), instances))
    letters = "".join(types)
    if not letters.isascii() or any(len(instance.type) != 1 for instance in instances):
        wrong = next(one for one in instances if len(one.type) != 1 or not one.type.isascii())
        raise UsageError(f"field {wrong.name!r}: its type is one ASCII letter, not {wrong.type!r}")
    return np.frombuffer(letters.encode(), np.uint8)


def with_synonyms(contents: Iterable[FieldContent], flat: list[Document]) -> Iterator[FieldContent]:
    """Add the thesauri that documents define; synonym ids run through all of them."""
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
    """Sort the members of each term; an empty thesaurus is not written, as no reader opens it."""
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


_MOST_OPTIONS = 255


def write_segment(
    target: SinkTarget,
    documents: Iterable[Document],
    version: int = 15,
    *,
    chunk_mode: int | None = None,
    storage_options: StorageOptions = None,
) -> int:
    """Write a segment from analysed documents.

    Python loops over the fields of the documents; the rest works on columns, one field in memory at a time.

    Args:
        target: path, URL or open binary file; a path is written atomically.
        documents: in document order; a nested document is numbered after its parent.
        version: 11 to 17.
        chunk_mode: rule for chunk sizes, see `dvcodec.zap.chunks`; default: zapx's.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        Number of documents, including nested ones.

    Raises:
        UsageError: not documents, a version other than 11 to 17, or a document that the format or zapx's readers of
            that version do not support: nested documents before 17, synonyms before 16, a location in a field that no
            document has, more locations than the frequency before 15, only one of the options that skip compression and
            chunking of doc values, options above 255, a number that is negative or above 2**64 - 1, or a frequency
            above 2**63 - 1.
        TypeError, AttributeError: a part of a document has a wrong type; nothing is written.
        OSError: the target cannot be written.
    """
    mode = check_version(version, chunk_mode)
    flat, edges = _flatten(documents, version)
    names = _field_names(flat, version)
    ids = {name: i for i, name in enumerate(names)}
    columns = invert_fields(flat, names[1:])
    try:
        contents = with_synonyms(
            chain([id_content(version, flat)], (column.content(version, ids) for column in columns)), flat
        )
        with open_sink(target, storage_options=storage_options) as out:
            write_content(out, version, mode, len(flat), stored_columns(flat, ids), contents, edges=edges)
    except OverflowError:
        raise UsageError("a frequency, a length or a position is negative or above 2**64 - 1") from None
    return len(flat)


def _flatten(documents: Iterable[Document], version: int) -> tuple[list[Document], Edges]:
    """Flatten nested documents: each after its parent, depth first."""
    flat: list[Document] = []
    children: list[int] = []
    parents: list[int] = []
    waiting: list[tuple[Document, int]] = []
    check_type(documents, Iterable, "documents", "an iterable of Document")
    for root in documents:
        waiting.append((root, -1))
        while waiting:
            document, parent = waiting.pop()
            check_type(document, Document, "an item of documents", "a Document")
            for part in ("fields", "composites", "children", "synonyms"):
                check_type(getattr(document, part), Sequence, f"Document.{part}", "a tuple")
            if parent >= 0:
                children.append(len(flat))
                parents.append(parent)
            waiting.extend((child, len(flat)) for child in reversed(document.children))
            flat.append(document)
    if children and version < NESTED_FROM:
        raise UsageError(f"version {version} has no nested documents: document {flat[parents[0]].id!r} has children")
    return flat, Edges(np.array(children, np.int64), np.array(parents, np.int64))


def _field_names(flat: list[Document], version: int) -> list[str]:
    names: set[str] = set()
    for document in flat:
        for one in (*document.composites, *document.fields):
            if as_count(one.options, f"the options of field {one.name!r}") > _MOST_OPTIONS:
                raise UsageError(f"the options of field {one.name!r} must be below 256, as readers require")
            names.add(one.name)
        if document.synonyms:
            if version < SECTIONS_FROM:
                raise UsageError(f"version {version} has no synonyms: document {document.id!r} defines some")
            names.update(synonyms.thesaurus for synonyms in document.synonyms)
    if ID in names:
        raise UsageError(f"the field {ID!r} is reserved for the document's id: remove it from the fields")
    try:
        return [ID, *sorted(names, key=str.encode)]
    except UnicodeEncodeError as err:
        raise UsageError(f"{err.object!r} is not a valid field name: not encodable as UTF-8") from None
