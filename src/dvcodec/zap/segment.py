"""A zap segment: opened lazily, read by byte ranges, decoded on demand; lookups of single terms and documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.extras import pa, require_extra
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.io import StorageOptions
from dvcodec.io.opening import open_mapped
from dvcodec.io.source import SourceTarget
from dvcodec.zap import sections
from dvcodec.zap.contents import Contents
from dvcodec.zap.doc_values import DocValueBlock, split_terms
from dvcodec.zap.documents import utf8
from dvcodec.zap.footer import FieldInfo, Footer, decode_footer
from dvcodec.zap.footer import verify_checksum as compare_checksum
from dvcodec.zap.postings import Locations, Postings, norm_values
from dvcodec.zap.stored import Edges, StoredColumns, decode_edges
from dvcodec.zap.vellum import Fst

if TYPE_CHECKING:
    from typing_extensions import Self

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


def find_stored(contents: Contents, first: int, stop: int) -> Iterator[tuple[StoredValue, ...]]:
    """Yield the stored values of each document of a range.

    Raises:
        DecodeError: as `iter_stored`.
    """
    for columns in contents.stored(first, stop):
        values = _stored_values(contents, columns)
        counts = np.bincount(columns.docs - first)
        for size, end in zip(counts.tolist(), np.cumsum(counts).tolist(), strict=True):
            yield tuple(values[end - size : end])
        first += len(counts)


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
        value = dictionary.get(utf8(term) if isinstance(term, str) else bytes(term))
        if value is None:
            return None
        contents = self.contents
        found = contents.postings(contents.records(np.array([value], np.uint64)), locations=locations)
        norms = norm_values(self.version, found.norms)
        return TermPostings(found.docs, found.freqs, norms, found.location_counts, found.locations)

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
        check_type(docs, (Iterable, type(None)), "docs", "an iterable of integers")
        info, contents = self.field(name), self.contents
        if info.doc_values is None:
            return
        block = DocValueBlock.open(contents.data, self.footer, info.doc_values, info.options, limits=contents.limits)
        wanted = None if docs is None else np.unique(np.array([contents.check_document(doc) for doc in docs], np.int64))
        for chunk in block if wanted is None else block.chunks(np.unique(wanted // block.layout.chunk_docs)):
            owners, terms = split_terms(chunk)
            bounds = np.searchsorted(owners, np.append(chunk.docs, self.num_docs)).tolist()
            flat = terms.to_list()
            chosen = range(len(chunk)) if wanted is None else _found(chunk.docs, wanted).tolist()
            numbers = chunk.docs.tolist()
            for i in chosen:
                yield numbers[i], tuple(flat[bounds[i] : bounds[i + 1]])

    # ------------------------------------------------------------------ other sections

    def thesaurus(self, name: str) -> sections.Thesaurus | None:
        """Return the synonyms that a field defines; None if it defines none.

        Raises:
            UsageError: the segment has no such field.
            DecodeError: the thesaurus is corrupt or exceeds the limits.
        """
        info, contents = self.field(name), self.contents
        if info.synonyms is None:
            return None
        return sections.decode_thesaurus(contents.data, contents.footer, info.synonyms, limits=contents.limits)

    def vectors(self, name: str) -> sections.VectorSection | None:
        """Return the vectors of a field: their documents, and the bytes of the faiss index; None if it has none.

        Raises:
            UsageError: the segment has no such field.
            DecodeError: the section is corrupt; the faiss index is not checked.
        """
        place = self.field(name).vectors
        return None if place is None else sections.decode_vectors(self.contents.data, self.footer, place)

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

        from dvcodec.zap.columns import batches  # noqa: PLC0415

        return batches(self.contents, what, fields, columns=columns, docs=docs, batch_rows=batch_rows)
