"""Point lookups in a segment: a range of terms, the list of a term, one document, its doc values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.zap.contents import Contents
from dvcodec.zap.doc_value_chunks import split_terms
from dvcodec.zap.doc_values import DocValueBlock
from dvcodec.zap.locations import Locations
from dvcodec.zap.norms import norm_values
from dvcodec.zap.stored_records import StoredColumns
from dvcodec.zap.vellum import Fst

__all__ = ["StoredValue", "TermPostings", "choose_terms", "find_doc_values", "find_postings", "find_stored"]

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
