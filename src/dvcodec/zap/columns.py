"""Tables of a segment as Arrow record batches (extra ``arrow``).

`SCHEMAS` has the schema of every table. ``field`` and ``term`` are dictionary-encoded, so the bytes of a term are
stored once. Document numbers are 0-based.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, offsets_of
from dvcodec.core.usage import as_count, check_type
from dvcodec.zap.contents import Contents
from dvcodec.zap.doc_values import split_terms
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import FieldInfo
from dvcodec.zap.postings import Postings, norm_values

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
