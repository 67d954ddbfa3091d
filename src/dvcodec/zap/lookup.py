"""What is asked of a segment a few at a time: the terms of a range, the list of a term, a document, its doc values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.zap.doc_value_chunks import split_terms
from dvcodec.zap.doc_values import DocValueBlock
from dvcodec.zap.locations import Locations
from dvcodec.zap.norms import norm_values
from dvcodec.zap.postings import decode_postings
from dvcodec.zap.postings_records import decode_records
from dvcodec.zap.stored import decode_stored
from dvcodec.zap.vellum import Fst

if TYPE_CHECKING:
    from dvcodec.zap.segment import Segment

__all__ = ["StoredValue", "TermPostings", "choose_terms", "find_doc_values", "find_postings", "find_stored"]

_TERMS_AT_ONCE = 1 << 16
_FEW_TERMS = 1 << 12


class StoredValue(NamedTuple):
    """One stored value of a document.

    Attributes:
        field: name of the field.
        type: its type letter, such as ``t`` for text.
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
        freqs: uint64[n], how often the term stands there; 0 where the field does not count.
        norms: float32[n], 1 / sqrt(field length).
        location_counts: int64[n], locations of each posting.
        locations: those of all postings; `Locations.fields` are field ids.
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
    """Return the terms of a range and their values, many at once; see `Segment.terms`.

    Raises:
        DecodeError: with each batch, as `Fst.blocks` and `Fst.range`.
    """
    if not prefix and not start and stop is None:
        for block in dictionary.blocks():
            for at in range(0, len(block), _TERMS_AT_ONCE):
                part = slice(at, at + _TERMS_AT_ONCE)
                yield block.keys[part], block.values[part]
        return
    pairs = dictionary.prefix(prefix) if prefix else dictionary.range(start, stop)
    inside = (pair for pair in pairs if start <= pair[0] and (stop is None or pair[0] < stop))
    while found := list(islice(inside, _FEW_TERMS)):
        keys, values = zip(*found, strict=True)
        yield keys, np.array(values, np.uint64)


def find_postings(segment: Segment, dictionary: Fst, term: bytes, *, locations: bool) -> TermPostings | None:
    """Return the postings list of a term, None if the dictionary does not have it.

    Raises:
        DecodeError: as `Fst.get`, `decode_records` and `decode_postings`.
    """
    value = dictionary.get(term)
    if value is None:
        return None
    records = decode_records(segment.data, segment.footer, np.array([value], np.uint64))
    found = decode_postings(segment.data, segment.footer, len(segment.fields), records, locations=locations)
    norms = norm_values(segment.version, found.norms)
    return TermPostings(found.docs, found.freqs, norms, found.location_counts, found.locations)


def find_stored(segment: Segment, doc: int) -> tuple[StoredValue, ...]:
    """Return what is stored of a document.

    Raises:
        UsageError: the segment does not have that document.
        DecodeError: as `decode_stored`.
    """
    columns = decode_stored(
        segment.data,
        segment.footer,
        len(segment.fields),
        _known(segment, doc),
        doc + 1,
        limits=segment.limits,
    )
    stops = np.cumsum(columns.array_counts).tolist()
    positions = columns.array_positions.tolist()
    return tuple(
        StoredValue(segment.fields[number].name, chr(kind), value, tuple(positions[stop - count : stop]))
        for number, kind, value, count, stop in zip(
            columns.fields.tolist(),
            columns.types.tolist(),
            columns.values,
            columns.array_counts.tolist(),
            stops,
            strict=True,
        )
    )


def find_doc_values(segment: Segment, name: str, docs: Iterable[int] | None) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Return the doc values of a field, of all documents or of some; see `Segment.doc_values`.

    Raises:
        UsageError: no such field, or no such document.
        DecodeError: as `DocValueBlock.open`, and with each chunk as `decode_chunks`.
    """
    info = segment.field(name)
    if info.doc_values is None:
        return
    block = DocValueBlock.open(segment.data, segment.footer, info.doc_values, info.options, limits=segment.limits)
    wanted = None if docs is None else np.unique(np.array([_known(segment, doc) for doc in docs], np.int64))
    chunks = iter(block) if wanted is None else map(block.chunk, np.unique(wanted // block.layout.chunk_docs).tolist())
    for chunk in chunks:
        owners, terms = split_terms(chunk)
        bounds = np.searchsorted(owners, np.append(chunk.docs, segment.num_docs)).tolist()
        flat = terms.to_list()
        chosen = range(len(chunk)) if wanted is None else np.flatnonzero(np.isin(chunk.docs, wanted)).tolist()
        numbers = chunk.docs.tolist()
        for i in chosen:
            yield numbers[i], tuple(flat[bounds[i] : bounds[i + 1]])


def _known(segment: Segment, doc: int) -> int:
    if not 0 <= doc < segment.num_docs:
        raise UsageError(f"document numbers of {segment.name} are 0 to {segment.num_docs - 1}, not {doc}")
    return doc
