"""A zap segment: opened lazily, read by byte ranges, decoded on demand; lookups of single terms and documents.

The contents of a segment: its bytes, footer and fields, with bulk reads.

All readers share them: `Segment`, lookups, Arrow tables, merging, verification, layout.

Tables of a segment as Arrow record batches (extra ``arrow``).

`SCHEMAS` has the schema of every table. ``field`` and ``term`` are dictionary-encoded, so the bytes of a term are
stored once. Document numbers are 0-based.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import ByteStrings, offsets_of
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_integer, check_type, integer_text
from dvcodec.io import StorageOptions
from dvcodec.io.opening import open_mapped
from dvcodec.io.source import SourceTarget
from dvcodec.zap import synonyms, vectors
from dvcodec.zap.chunks import decode_mode
from dvcodec.zap.doc_values import DocValueBlock, split_terms
from dvcodec.zap.documents import FieldOptions, utf8
from dvcodec.zap.fields import FieldInfo, decode_fields
from dvcodec.zap.footer import Footer, SegmentData, decode_footer, refuse_writer_id
from dvcodec.zap.footer import verify_checksum as compare_checksum
from dvcodec.zap.postings import (
    Locations,
    Postings,
    Records,
    count_without,
    decode_postings,
    decode_records,
    norm_values,
)
from dvcodec.zap.stored import Edges, StoredColumns, decode_edges, iter_stored
from dvcodec.zap.vellum import Fst, decode_dictionary

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import Self

    from dvcodec.core.ragged import ByteStrings, Index
    from dvcodec.io.source import Source
    from dvcodec.zap.doc_values import DocValues
    from dvcodec.zap.postings import Postings
    from dvcodec.zap.stored import StoredColumns
    from dvcodec.zap.vellum import Fst, KeyBlock


_NAMES_SHOWN = 12


@dataclass(frozen=True, eq=False)
class Contents:
    """Bytes, footer, fields and limits of a segment.

    Attributes:
        data: the bytes before the footer.
        footer: version, counts and addresses.
        fields: every field, by id.
        limits: bounds on decoding.
    """

    data: SegmentData
    footer: Footer
    fields: tuple[FieldInfo, ...]
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def read(
        cls, source: Source, footer: Footer, limits: Limits = DEFAULT_LIMITS, *, salvage: bool = False
    ) -> Contents:
        """Read the fields of a segment; for `salvage` see `Segment.open`.

        Raises:
            Unsupported: contents transformed by a custom writer (encrypted), version 17.
            DecodeError: an invalid chunk mode or list of fields; see `decode_fields`.
        """
        data = SegmentData(source, source.size - footer.size, salvage)
        refuse_writer_id(source, footer)
        decode_mode(data, footer)
        return cls(data, footer, decode_fields(data, footer), limits)

    @property
    def name(self) -> str:
        """Name of the file, as used in errors."""
        return self.data.source.name

    @cached_property
    def _by_name(self) -> dict[str, FieldInfo]:
        return {info.name: info for info in self.fields}

    def field(self, name: str) -> FieldInfo:
        """Return a field by name.

        Raises:
            UsageError: the segment has no such field.
        """
        check_type(name, str, "the name of a field", "a str")
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(list(self._by_name)[:_NAMES_SHOWN])
            more = f" and {len(self.fields) - _NAMES_SHOWN} more" if len(self.fields) > _NAMES_SHOWN else ""
            raise UsageError(f"{self.name} has no field {name!r}: it has {known}{more}") from None

    def check_document(self, doc: int) -> int:
        """Return a document number as an int of Python.

        Raises:
            UsageError: the segment has no such document, or not an integer.
        """
        check_integer(doc, "a document number")
        doc = int(doc)
        if not 0 <= doc < self.footer.num_docs:
            raise self.outside(doc)
        return doc

    def outside(self, docs: int | range) -> UsageError:
        """Return the error for documents that the segment does not have."""
        shown = docs if isinstance(docs, range) else integer_text(docs)
        return UsageError(f"document numbers of {self.name} are 0 to {self.footer.num_docs - 1}, not {shown}")

    def dictionary(self, info: FieldInfo) -> Fst | None:
        """Return the dictionary of a field; None if it has none. Raises `DecodeError` as `decode_dictionary`."""
        return None if info.dictionary is None else decode_dictionary(self.data, info.dictionary, self.limits)

    def term_blocks(self, address: int | None) -> Iterator[KeyBlock]:
        """Read the terms of the dictionary at an address, and their values, in blocks; none without an address.

        Raises:
            DecodeError: as `decode_dictionary` for the first block, and as `Fst.blocks` for each one.
        """
        if address is not None:
            yield from decode_dictionary(self.data, address, self.limits).blocks()

    def reader(self, dictionary: int | None) -> ListReader:
        """Return what reads the lists of the dictionary at an address in the order of its terms."""
        return ListReader(self, dictionary or 0)

    def records(self, values: NDArray[np.uint64]) -> Records:
        """Read the postings records of dictionary values; see `decode_records`."""
        return decode_records(self.data, self.footer, values)

    def postings(self, records: Records, *, locations: bool = False) -> Postings:
        """Read the lists of postings records; see `decode_postings`."""
        return decode_postings(self.data, self.footer, len(self.fields), records, locations=locations)

    def count_without(self, records: Records, deleted: NDArray[np.bool_]) -> Index:
        """Count the postings of lists without some documents; see `postings.count_without`."""
        return count_without(self.data, self.footer, records, deleted)

    def lists(self, info: FieldInfo, *, locations: bool = False) -> Iterator[tuple[ByteStrings, Postings]]:
        """Read terms and lists of a field, a bounded number of postings at a time; see `Segment.lists`."""
        lists = self.reader(info.dictionary)
        for block in self.term_blocks(info.dictionary):
            records = lists.records(block.values)
            for cut in records.cuts():
                yield block.keys[cut], lists.postings(records[cut], locations=locations)

    def stored(self, start: int = 0, stop: int | None = None) -> Iterator[StoredColumns]:
        """Read the stored values of a range of documents; see `iter_stored`."""
        return iter_stored(self.data, self.footer, len(self.fields), start=start, stop=stop, limits=self.limits)

    def doc_values(self, info: FieldInfo) -> Iterator[DocValues]:
        """Read the doc values of a field, chunk by chunk; none without a block. See `DocValueBlock`."""
        if info.doc_values is None:
            return iter(())
        return iter(DocValueBlock.open(self.data, self.footer, info.doc_values, info.options, limits=self.limits))


@dataclass(slots=True, eq=False)
class ListReader:
    """Reads lists of a dictionary in the order of its terms, and claims their bytes: each has bytes of its own.

    If terms shared lists, a small file would have any number of postings.

    Attributes:
        contents: of the segment.
        dictionary: its address.
    """

    contents: Contents
    dictionary: int
    _list_bytes: int = 0
    _location_bytes: int = 0

    def records(self, values: NDArray[np.uint64]) -> Records:
        """Read the postings records of the next terms.

        Raises:
            NotCanonical: the lists of all dictionaries have more bytes than the segment.
            DecodeError: see `decode_records`.
        """
        records = self.contents.records(values)
        self._list_bytes += records.least_bytes
        self.contents.data.claim_size("postings lists", self.dictionary, self._list_bytes)
        return records

    def postings(self, records: Records, *, locations: bool) -> Postings:
        """Read the lists of the next records.

        Raises:
            NotCanonical: the locations of all dictionaries have more bytes than the segment.
            DecodeError: see `decode_postings`.
        """
        found = self.contents.postings(records, locations=locations)
        self._location_bytes += found.locations.least_bytes
        self.contents.data.claim_size("locations", self.dictionary, self._location_bytes)
        return found


_FIELD = ("field", pa.dictionary(pa.int32(), pa.string()))
_TERM = ("term", pa.dictionary(pa.int32(), pa.binary()))
_LETTERS = pa.array([chr(code) for code in range(256)])
"""Type letter by its code."""
_ARRAY_POSITIONS = ("array_positions", pa.list_(pa.uint64()))

SCHEMAS = {
    "terms": pa.schema(
        [_FIELD, ("term", pa.binary()), ("doc_count", pa.int64()), ("one_hit", pa.bool_()), ("offset", pa.int64())]
    ),
    "postings": pa.schema([_FIELD, _TERM, ("doc", pa.int64()), ("freq", pa.uint64()), ("norm", pa.float32())]),
    "locations": pa.schema(
        [
            _FIELD,
            _TERM,
            ("doc", pa.int64()),
            ("source_field", _FIELD[1]),
            ("position", pa.uint64()),
            ("start", pa.uint64()),
            ("end", pa.uint64()),
            _ARRAY_POSITIONS,
        ]
    ),
    "stored": pa.schema([("doc", pa.int64()), _FIELD, ("type", pa.string()), ("value", pa.binary()), _ARRAY_POSITIONS]),
    "doc_values": pa.schema([_FIELD, ("doc", pa.int64()), ("value", pa.binary())]),
    "fields": pa.schema(
        [
            _FIELD,
            ("id", pa.int64()),
            ("terms", pa.int64()),
            ("doc_value_bytes", pa.int64()),
            ("options", pa.list_(pa.string())),
            ("synonyms", pa.bool_()),
            ("vectors", pa.bool_()),
            ("shapes", pa.bool_()),
            ("version", pa.int64()),
            ("docs", pa.int64()),
        ]
    ),
}
"""Table -> its columns.

terms: ``one_hit`` lists are stored in the dictionary; ``offset`` is the address of the postings record of other lists.
postings: ``freq`` is 0 and ``norm`` infinite if the field does not store frequencies.
locations: ``source_field`` is the field of the token; ``start`` and ``end`` are byte offsets in its value.
stored: a document's id comes first, as field ``_id``; ``type`` is a letter.
doc_values: one row per term.
fields: one row per field; ``terms`` is the count in its dictionary, null without one,
``doc_value_bytes`` null without doc values, ``options`` (names of `FieldOptions`) null before version 17; ``version``
and ``docs`` are the segment's.
"""


def batches(
    contents: Contents,
    what: str,
    fields: Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    docs: range | None = None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Return a table of a segment as record batches.

    Args:
        contents: contents of the segment.
        what: ``terms``, ``postings``, ``locations``, ``stored``, ``doc_values`` or ``fields``.
        fields: fields to read; default: all.
        columns: columns to return, in this order; default: all. Postings are not read for ``field`` and ``term`` alone.
        docs: documents to read, for the table ``stored`` only; default: all.
        batch_rows: maximum rows per batch.

    Raises:
        UsageError: no such table, field, column or documents, or an argument of a wrong type.
        DecodeError: during iteration: corrupt data.
    """
    check_type(what, str, "the table", "a str")
    if what not in SCHEMAS:
        raise UsageError(f"the table must be one of {', '.join(SCHEMAS)}, not {what!r}")
    batch_rows = as_count(batch_rows, "batch_rows", 1)
    for names, of in ((fields, "fields"), (columns, "columns")):
        check_type(names, (Sequence, type(None)), of, "a sequence of names")
    check_type(docs, (range, type(None)), "docs", "a range")
    chosen = list(contents.fields) if fields is None else [contents.field(name) for name in fields]
    wanted = _wanted(what, columns)
    if docs is None:
        bare = what == "terms" and {"field", "term"}.issuperset(wanted)
        found = _bare_terms(contents, chosen) if bare else _TABLES[what](contents, chosen)
        return _sliced(found, wanted, batch_rows)
    if what != "stored" or docs.step != 1:
        raise UsageError("docs must be a range with step 1, and only the table stored supports it")
    if not 0 <= docs.start <= docs.stop <= contents.footer.num_docs:
        raise contents.outside(docs)
    return _sliced(_stored(contents, chosen, docs), wanted, batch_rows)


def _wanted(what: str, columns: Sequence[str] | None) -> list[str]:
    """Return the columns of a table to read."""
    known: list[str] = SCHEMAS[what].names
    if columns is None:
        return known
    for name in columns:
        check_type(name, str, "an item of columns", "a str")
    if not columns or not set(known).issuperset(columns):
        raise UsageError(f"columns of the table {what}: expected some of {', '.join(known)}, found {list(columns)}")
    return list(columns)


def _sliced(found: Iterator[pa.RecordBatch], columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in found:
        chosen = batch if columns == batch.schema.names else batch.select(columns)
        for start in range(0, batch.num_rows, rows):
            yield chosen.slice(start, min(rows, batch.num_rows))  # pyarrow refuses lengths from 2**63 on


def _bare_terms(contents: Contents, chosen: list[FieldInfo]) -> Iterator[pa.RecordBatch]:
    """Return field and term, from the dictionaries alone."""
    names = _names(contents)
    for info in chosen:
        for block in contents.term_blocks(info.dictionary):
            yield pa.record_batch([_constant(names, info, len(block)), _binary(block.keys)], ["field", "term"])


def _terms(contents: Contents, chosen: list[FieldInfo]) -> Iterator[pa.RecordBatch]:
    names = _names(contents)
    for info in chosen:
        lists = contents.reader(info.dictionary)
        for block in contents.term_blocks(info.dictionary):
            records = lists.records(block.values)
            offsets = pa.array((block.values & np.uint64(2**62 - 1)).astype(np.int64), mask=records.one_hit)
            yield _batch(
                "terms",
                _constant(names, info, len(block)),
                _binary(block.keys),
                pa.array(records.counts),
                pa.array(records.one_hit),
                offsets,
            )


def _lists(
    contents: Contents, chosen: list[FieldInfo], *, locations: bool
) -> Iterator[tuple[FieldInfo, ByteStrings, Postings]]:
    for info in chosen:
        for terms, found in contents.lists(info, locations=locations):
            yield info, terms, found


def _postings(contents: Contents, chosen: list[FieldInfo]) -> Iterator[pa.RecordBatch]:
    names = _names(contents)
    for info, terms, found in _lists(contents, chosen, locations=False):
        yield _batch(
            "postings",
            _constant(names, info, len(found)),
            _indexed(found.owner, _binary(terms)),
            pa.array(found.docs),
            pa.array(found.freqs),
            pa.array(norm_values(contents.footer.version, found.norms)),
        )


def _locations(contents: Contents, chosen: list[FieldInfo]) -> Iterator[pa.RecordBatch]:
    names = _names(contents)
    for info, terms, found in _lists(contents, chosen, locations=True):
        posting = np.repeat(np.arange(len(found)), found.location_counts)
        located = found.locations
        yield _batch(
            "locations",
            _constant(names, info, len(located)),
            _indexed(found.owner[posting], _binary(terms)),
            pa.array(found.docs[posting]),
            _indexed(located.fields, names),
            pa.array(located.positions),
            pa.array(located.starts),
            pa.array(located.ends),
            _numbers(located.array_counts, located.array_positions),
        )


def _stored(contents: Contents, chosen: list[FieldInfo], docs: range | None = None) -> Iterator[pa.RecordBatch]:
    wanted = np.zeros(len(contents.fields), np.bool_)
    wanted[[info.id for info in chosen]] = True
    names = _names(contents)
    start, stop = (0, None) if docs is None else (docs.start, docs.stop)
    for columns in contents.stored(start, stop):
        batch = _batch(
            "stored",
            pa.array(columns.docs),
            _indexed(columns.fields, names),
            _LETTERS.take(pa.array(columns.types)),
            _binary(columns.values),
            _numbers(columns.array_counts, columns.array_positions),
        )
        yield batch if wanted.all() else batch.filter(pa.array(wanted[columns.fields]))


def _doc_values(contents: Contents, chosen: list[FieldInfo]) -> Iterator[pa.RecordBatch]:
    names = _names(contents)
    for info in chosen:
        for chunk in contents.doc_values(info):
            docs, values = split_terms(chunk)
            yield _batch("doc_values", _constant(names, info, len(docs)), pa.array(docs), _binary(values))


def _fields(contents: Contents, chosen: list[FieldInfo]) -> Iterator[pa.RecordBatch]:
    rows = []
    for info in chosen:
        dictionary = contents.dictionary(info)
        rows.append(
            {
                "field": info.name,
                "id": info.id,
                "terms": None if dictionary is None else dictionary.num_keys,
                "doc_value_bytes": None if info.doc_values is None else info.doc_values[1] - info.doc_values[0],
                "options": _flags(info.options),
                "synonyms": info.synonyms is not None,
                "vectors": info.vectors is not None,
                "shapes": info.shapes is not None,
                "version": contents.footer.version,
                "docs": contents.footer.num_docs,
            }
        )
    yield pa.RecordBatch.from_pylist(rows, schema=SCHEMAS["fields"])


def _flags(options: FieldOptions | None) -> list[str | None] | None:
    return None if options is None else [flag.name for flag in FieldOptions if flag in options]


_TABLES: dict[str, Callable[[Contents, list[FieldInfo]], Iterator[pa.RecordBatch]]] = {
    "terms": _terms,
    "postings": _postings,
    "locations": _locations,
    "stored": _stored,
    "doc_values": _doc_values,
    "fields": _fields,
}


def _batch(table: str, *columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns), schema=SCHEMAS[table])


def _names(contents: Contents) -> pa.Array:
    return pa.array([info.name for info in contents.fields], pa.string())


def _constant(names: pa.Array, info: FieldInfo, rows: int) -> pa.Array:
    return _indexed(np.full(rows, info.id, np.int32), names)


def _indexed(index: NDArray[Any], values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32, copy=False)), values)


def _binary(strings: ByteStrings) -> pa.Array:
    """Wrap the bytes without a copy."""
    if int(strings.offsets[-1]) >= 1 << 31:
        return pa.array(strings.to_list(), pa.binary())  # raises pyarrow's own error
    offsets = pa.py_buffer(strings.offsets.astype(np.int32))
    return pa.Array.from_buffers(
        pa.binary(), len(strings), [None, offsets, pa.py_buffer(np.ascontiguousarray(strings.data))]
    )


def _numbers(counts: NDArray[np.int64], values: NDArray[np.uint64]) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets_of(counts).astype(np.int32)), pa.array(values))


_TERMS_AT_ONCE = 1 << 16
_FEW_TERMS = 1 << 12


class StoredValue(NamedTuple):
    """One stored value of a document.

    Attributes:
        field: name of the field.
        type: type letter of the field, such as ``t`` for text.
        value: the bytes.
        array_positions: indices in the arrays of the source document.
    """

    field: str
    type: str
    value: bytes
    array_positions: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TermPostings:
    """The postings list of one term.

    Attributes:
        docs: int64[n], document numbers, ascending.
        freqs: uint64[n], frequency of the term; 0 if the field does not store frequencies.
        norms: float32[n], 1 / sqrt(field length).
        location_counts: int64[n], locations of each posting.
        locations: locations of all postings; `Locations.fields` are field ids.
    """

    docs: NDArray[np.int64]
    freqs: NDArray[np.uint64]
    norms: NDArray[np.float32]
    location_counts: NDArray[np.int64]
    locations: Locations

    @property
    def rows(self) -> RowSet:
        """The documents as a row set."""
        return RowSet.from_positions(self.docs)

    def __len__(self) -> int:
        return len(self.docs)


def choose_terms(
    dictionary: Fst, prefix: bytes, start: bytes, stop: bytes | None
) -> Iterator[tuple[Sequence[bytes], NDArray[np.uint64]]]:
    """Return the terms of a range and their values in batches; see `Segment.terms`.

    Raises:
        DecodeError: with each batch, as `Fst.blocks` and `Fst.range`.
    """
    if not prefix and not start and stop is None:
        for block in dictionary.blocks():
            for first in range(0, len(block), _TERMS_AT_ONCE):
                part = slice(first, first + _TERMS_AT_ONCE)
                yield block.keys[part], block.values[part]
        return
    pairs = dictionary.prefix(prefix) if prefix else dictionary.range(start, stop)
    inside = (pair for pair in pairs if start <= pair[0] and (stop is None or pair[0] < stop))
    while found := list(islice(inside, _FEW_TERMS)):
        keys, values = zip(*found, strict=True)
        yield keys, np.array(values, np.uint64)


def find_postings(contents: Contents, dictionary: Fst, term: bytes, *, locations: bool) -> TermPostings | None:
    """Return the postings list of a term, None if the dictionary does not have it.

    Raises:
        DecodeError: as `Fst.get`, `decode_records` and `decode_postings`.
    """
    value = dictionary.get(term)
    if value is None:
        return None
    found = contents.postings(contents.records(np.array([value], np.uint64)), locations=locations)
    norms = norm_values(contents.footer.version, found.norms)
    return TermPostings(found.docs, found.freqs, norms, found.location_counts, found.locations)


def find_stored(contents: Contents, first: int, stop: int) -> Iterator[tuple[StoredValue, ...]]:
    """Yield the stored values of each document of a range.

    Raises:
        UsageError: the segment does not have these documents.
        DecodeError: as `iter_stored`.
    """
    for columns in contents.stored(first, stop):
        values = _stored_values(contents, columns)
        counts = np.bincount(columns.docs - first)
        for size, end in zip(counts.tolist(), np.cumsum(counts).tolist(), strict=True):
            yield tuple(values[end - size : end])
        first += len(counts)
    yield from repeat((), stop - first)


def _stored_values(contents: Contents, columns: StoredColumns) -> list[StoredValue]:
    fields = contents.fields
    stops = np.cumsum(columns.array_counts).tolist()
    positions = columns.array_positions.tolist()
    return [
        StoredValue(fields[number].name, chr(kind), value, tuple(positions[stop - count : stop]))
        for number, kind, value, count, stop in zip(
            columns.fields.tolist(),
            columns.types.tolist(),
            columns.values,
            columns.array_counts.tolist(),
            stops,
            strict=True,
        )
    ]


def find_doc_values(
    contents: Contents, name: str, docs: Iterable[int] | None
) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Return the doc values of a field, for all documents or some; see `Segment.doc_values`.

    Raises:
        UsageError: no such field, no such document, or not integers.
        DecodeError: as `DocValueBlock.open`, and with each chunk as `decode_chunks`.
    """
    check_type(docs, (Iterable, type(None)), "docs", "an iterable of integers")
    info = contents.field(name)
    if info.doc_values is None:
        return
    block = DocValueBlock.open(contents.data, contents.footer, info.doc_values, info.options, limits=contents.limits)
    wanted = None if docs is None else np.unique(np.array([contents.check_document(doc) for doc in docs], np.int64))
    for chunk in block if wanted is None else block.chunks(np.unique(wanted // block.layout.chunk_docs)):
        owners, terms = split_terms(chunk)
        bounds = np.searchsorted(owners, np.append(chunk.docs, contents.footer.num_docs)).tolist()
        flat = terms.to_list()
        chosen = range(len(chunk)) if wanted is None else _found(chunk.docs, wanted).tolist()
        numbers = chunk.docs.tolist()
        for i in chosen:
            yield numbers[i], tuple(flat[bounds[i] : bounds[i + 1]])


def _found(docs: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of wanted documents; both ascend, and the documents wanted may be many more."""
    first, stop = np.searchsorted(wanted, [docs[0], docs[-1] + 1])
    return np.flatnonzero(np.isin(docs, wanted[first:stop]))


DEFAULT_ROWS = 1 << 16
"""Default rows per record batch."""


class Segment:
    """A zap segment, versions 11 to 17; create one with `Segment.open`.

    Attributes:
        contents: its bytes, footer, fields and limits.

    Document numbers are 0-based and include nested documents. Deleted documents are marked in the index, not
    in the segment.
    """

    def __init__(self, contents: Contents, closing: ExitStack | None = None) -> None:
        """Wrap contents; `close` closes `closing`."""
        self.contents = contents
        self._closing = closing or ExitStack()

    @classmethod
    def open(
        cls,
        target: SourceTarget,
        *,
        verify_checksum: bool = True,
        salvage: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        storage_options: StorageOptions = None,
    ) -> Segment:
        """Open a segment and read its footer and fields.

        Args:
            target: bytes-like, path (mapped into memory), URL, seekable binary file, or a `Source`.
            verify_checksum: whether to check the CRC, which reads the whole file. Go readers never do.
            salvage: whether to read postings whose chunks zapx 17.0.9 to 17.1.3 misplaced, which are an error
                otherwise. Their bitmaps prove where each chunk is.
            limits: bounds on decoding.
            storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

        Raises:
            ChecksumMismatch: the CRC differs.
            Unsupported: contents transformed by a custom writer (encrypted), version 17.
            DecodeError: a missing or corrupt footer, or corrupt fields; see `decode_footer` and `decode_fields`.
            OSError: it cannot be opened.
        """
        check_limits(limits)
        with ExitStack() as stack:
            source = stack.enter_context(open_mapped(target, storage_options=storage_options))
            footer = decode_footer(source)
            if verify_checksum:
                compare_checksum(source, footer)
            return cls(Contents.read(source, footer, limits, salvage=salvage), stack.pop_all())

    def close(self) -> None:
        """Close the file. Decoded values stay valid; views into the file keep it mapped."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.name}: an open segment cannot be pickled; open it in the process that reads it")

    def __repr__(self) -> str:
        return (
            f"<zap segment {self.name}: version {self.version}, {self.num_docs} documents, {len(self.fields)} fields>"
        )

    @property
    def name(self) -> str:
        """Name of the file, as used in errors."""
        return self.contents.name

    @property
    def footer(self) -> Footer:
        """The decoded footer."""
        return self.contents.footer

    @property
    def fields(self) -> tuple[FieldInfo, ...]:
        """Every field, by id."""
        return self.contents.fields

    @property
    def version(self) -> int:
        """Version of the format, 11 to 17."""
        return self.footer.version

    @property
    def num_docs(self) -> int:
        """Documents, including nested ones."""
        return self.footer.num_docs

    def field(self, name: str) -> FieldInfo:
        """Return a field by its name.

        Raises:
            UsageError: the segment has no such field.
        """
        return self.contents.field(name)

    # ------------------------------------------------------------------ dictionaries and postings

    def dictionary(self, name: str) -> Fst | None:
        """Return the dictionary of a field; None if it has none. Its values are addresses of postings records.

        Raises:
            UsageError: the segment has no such field.
            DecodeError: its header, footer or root is corrupt; see `Fst.open`. Other states are read later.
        """
        return self.contents.dictionary(self.field(name))

    def terms(
        self, name: str, *, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, int]]:
        """Return the terms of a field in byte order, each with its document count.

        Args:
            name: the field.
            prefix: only terms that begin with this.
            start: first term.
            stop: end, exclusive; None for all.

        Raises:
            UsageError: during iteration: the segment has no such field, or a bound that is not bytes.
            DecodeError: during iteration: a corrupt dictionary or postings record.
        """
        for value, of in ((prefix, "prefix"), (start, "start")):
            check_type(value, bytes, of, "bytes")
        check_type(stop, (bytes, type(None)), "stop", "bytes or None")
        dictionary = self.dictionary(name)
        if dictionary is None:
            return
        lists = self.contents.reader(self.field(name).dictionary)
        for keys, values in choose_terms(dictionary, prefix, start, stop):
            counts = lists.records(values).counts
            yield from zip(keys, counts.tolist(), strict=True)

    def lists(self, name: str, *, locations: bool = False) -> Iterator[tuple[ByteStrings, Postings]]:
        """Return the postings lists of all terms of a field, a bounded number of postings at a time.

        Args:
            name: the field.
            locations: whether to read the locations too.

        Returns:
            Terms in byte order, and their lists as columns; norms are as stored, see `zap.norm_values`.

        Raises:
            UsageError: the segment has no such field.
            DecodeError: during iteration: a corrupt dictionary or list.
        """
        yield from self.contents.lists(self.field(name), locations=locations)

    def postings(self, name: str, term: bytes | str, *, locations: bool = True) -> TermPostings | None:
        """Return the postings list of a term; None if the field does not have it.

        Args:
            name: the field.
            term: bytes, or text to encode as UTF-8.
            locations: whether to read the locations too.

        Raises:
            UsageError: the segment has no such field, or a term that is not bytes, nor text encodable as UTF-8.
            DecodeError: the list, or a visited state of the dictionary, is corrupt.
        """
        check_type(term, (bytes, bytearray, memoryview, str), "term", "bytes or a str")
        dictionary = self.dictionary(name)
        if dictionary is None:
            return None
        raw = utf8(term) if isinstance(term, str) else bytes(term)
        return find_postings(self.contents, dictionary, raw, locations=locations)

    # ------------------------------------------------------------------ documents

    def stored(self, doc: int) -> tuple[StoredValue, ...]:
        """Return the stored values of a document: its id first, as field ``_id``, then the others by field.

        Raises:
            UsageError: the segment does not have that document, or not an integer.
            DecodeError: its record is corrupt.
        """
        first = self.contents.check_document(doc)
        (found,) = find_stored(self.contents, first, first + 1)
        return found

    @cached_property
    def edges(self) -> Edges:
        """The nested documents and their parents; empty before version 17.

        Raises:
            DecodeError: the list of edges is corrupt; see `decode_edges`.
        """
        return decode_edges(self.contents.data, self.footer)

    def doc_values(self, name: str, docs: Iterable[int] | None = None) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Return the doc values of a field by ascending document: its distinct terms, in byte order.

        Args:
            name: the field.
            docs: documents to read; only their chunks are read. Default: all.

        Raises:
            UsageError: during iteration: no such field or document, or not integers.
            DecodeError: during iteration: corrupt doc values.
        """
        return find_doc_values(self.contents, name, docs)

    # ------------------------------------------------------------------ other sections

    def thesaurus(self, name: str) -> synonyms.Thesaurus | None:
        """Return the synonyms that a field defines; None if it defines none.

        Raises:
            UsageError: the segment has no such field.
            DecodeError: the thesaurus is corrupt or exceeds the limits.
        """
        info, contents = self.field(name), self.contents
        if info.synonyms is None:
            return None
        return synonyms.decode_thesaurus(contents.data, contents.footer, info.synonyms, limits=contents.limits)

    def vectors(self, name: str) -> vectors.VectorSection | None:
        """Return the vectors of a field: their documents, and the bytes of the faiss index; None if it has none.

        Raises:
            UsageError: the segment has no such field.
            DecodeError: the section is corrupt; the faiss index is not checked.
        """
        place = self.field(name).vectors
        return None if place is None else vectors.decode_vectors(self.contents.data, self.footer, place)

    # ------------------------------------------------------------------ columns

    def to_arrow(
        self,
        what: str,
        fields: Sequence[str] | None = None,
        *,
        columns: Sequence[str] | None = None,
        docs: range | None = None,
        batch_rows: int = DEFAULT_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Return a table of the segment as Arrow record batches (extra ``arrow``), with a schema of `columns.SCHEMAS`.

        Args:
            what: ``terms``, ``postings``, ``locations``, ``stored``, ``doc_values`` or ``fields``.
            fields: fields to read; default: all.
            columns: columns to return, in this order; default: all. ``field`` and ``term`` of the table ``terms`` come
                from the dictionaries alone, without the postings.
            docs: documents to read, for the table ``stored`` only; default: all.
            batch_rows: maximum rows per batch.

        Raises:
            UsageError: no such table, field, column or documents, or an argument of a wrong type.
            MissingExtra: pyarrow is not installed.
            DecodeError: during iteration: corrupt data.
        """
        require_extra("pyarrow", "arrow")

        return batches(self.contents, what, fields, columns=columns, docs=docs, batch_rows=batch_rows)
