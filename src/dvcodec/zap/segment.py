"""A segment, opened: lazy, by byte ranges; nothing is decoded until it is asked for."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import MissingExtra, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.core.rowset import RowSet
from dvcodec.io.blocks import BlockSource
from dvcodec.io.source import Source, SourceTarget, open_source
from dvcodec.io.target import local_path
from dvcodec.zap import nested, stored, synonyms, vectors
from dvcodec.zap.chunks import decode_mode
from dvcodec.zap.data import SegmentData
from dvcodec.zap.dictionary import decode_dictionary, term_blocks
from dvcodec.zap.doc_values import DocValueBlock, split_terms
from dvcodec.zap.fields import FieldInfo, decode_fields
from dvcodec.zap.footer import Footer, decode_footer, refuse_writer_id
from dvcodec.zap.footer import verify_checksum as compare_checksum
from dvcodec.zap.lists import Postings
from dvcodec.zap.locations import Locations
from dvcodec.zap.norms import norm_values
from dvcodec.zap.postings import decode_postings, decode_records
from dvcodec.zap.vellum import Fst

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

__all__ = ["Segment", "StoredValue", "TermPostings"]

DEFAULT_ROWS = 1 << 16
"""Rows of a record batch."""
_TERMS_AT_ONCE = 1 << 16
_FEW_TERMS = 1 << 12
_NAMES_SHOWN = 12


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


class Segment:
    """A zap segment, versions 11 to 17; make one with `Segment.open`.

    Attributes:
        name: of the file, as it stands in errors.
        footer: what the footer says.
        fields: every field; its place is its id.
        limits: the bounds that decoding keeps.

    A document number is 0-based and counts nested documents. Deleted documents are not marked in a segment: the index
    around it keeps them.
    """

    def __init__(self, source: Source, footer: Footer, limits: Limits, closing: ExitStack) -> None:
        """See `open`."""
        self.name = source.name
        self.footer = footer
        self.limits = limits
        self.data = SegmentData(source, source.size - footer.size)
        self._closing = closing
        refuse_writer_id(source, footer)
        decode_mode(self.data, footer)
        self.fields: tuple[FieldInfo, ...] = decode_fields(self.data, footer)
        self._by_name = {info.name: info for info in self.fields}

    @classmethod
    def open(cls, target: SourceTarget, *, verify_checksum: bool = True, limits: Limits = DEFAULT_LIMITS) -> Segment:
        """Open a segment: its footer and its fields are read.

        Args:
            target: bytes-like, path (mapped into memory), URL, seekable binary file, or a `Source`.
            verify_checksum: whether to compare the CRC, which reads the whole file. Go readers never do.
            limits: bounds on what the bytes may ask for.

        Raises:
            ChecksumMismatch: the CRC differs.
            Unsupported: version 17 with contents transformed by a writer of its own (encrypted).
            DecodeError: no footer, or no sound list of fields; see `decode_footer` and `decode_fields`.
            OSError: it cannot be opened.
        """
        with ExitStack() as stack:
            source = stack.enter_context(open_mapped(target))
            footer = decode_footer(source)
            if verify_checksum:
                compare_checksum(source, footer)
            return cls(source, footer, limits, stack.pop_all())

    def close(self) -> None:
        """Let the file go. What was decoded stays; bytes that were not copied keep it mapped."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self.name}: an open segment does not pickle; open it anew where it is to be read")

    def __repr__(self) -> str:
        return (
            f"<zap segment {self.name}: version {self.version}, {self.num_docs} documents, {len(self.fields)} fields>"
        )

    @property
    def version(self) -> int:
        """Version of the format, 11 to 17."""
        return self.footer.version

    @property
    def num_docs(self) -> int:
        """Documents, nested ones included."""
        return self.footer.num_docs

    def field(self, name: str) -> FieldInfo:
        """Return a field by its name.

        Raises:
            UsageError: the segment has no such field.
        """
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(list(self._by_name)[:_NAMES_SHOWN])
            more = f" and {len(self.fields) - _NAMES_SHOWN} more" if len(self.fields) > _NAMES_SHOWN else ""
            raise UsageError(f"{self.name} has no field {name!r}: it has {known}{more}") from None

    # ------------------------------------------------------------------ dictionaries and postings

    def dictionary(self, name: str) -> Fst | None:
        """Return the dictionary of a field; None if it has none. Its values lead to postings: see `postings`."""
        address = self.field(name).dictionary
        return None if address is None else decode_dictionary(self.data, address, self.limits)

    def terms(
        self, name: str, *, prefix: bytes = b"", start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, int]]:
        """Return the terms of a field in byte order, each with the number of documents that it stands in.

        Args:
            name: the field.
            prefix: only terms that begin with this.
            start: only terms from this one on.
            stop: only terms in front of this one; None: to the end.
        """
        for keys, values in self._chosen_terms(name, prefix, start, stop):
            counts = decode_records(self.data, self.footer, values).counts
            yield from zip(keys, counts.tolist(), strict=True)

    def _chosen_terms(
        self, name: str, prefix: bytes, start: bytes, stop: bytes | None
    ) -> Iterator[tuple[Sequence[bytes], NDArray[np.uint64]]]:
        dictionary = self.dictionary(name)
        if dictionary is None:
            return
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

    def lists(self, name: str, *, locations: bool = False) -> Iterator[tuple[ByteStrings, Postings]]:
        """Return the postings lists of all terms of a field, a bounded number of postings at a time.

        Args:
            name: the field.
            locations: whether to read the locations too.

        Returns:
            terms, in byte order, and their lists as columns; their norms are as stored, see `zap.norm_values`.
        """
        for block in term_blocks(self.data, self.field(name).dictionary, self.limits):
            records = decode_records(self.data, self.footer, block.values)
            for start, stop in records.cuts():
                part = records[start:stop]
                found = decode_postings(self.data, self.footer, len(self.fields), part, locations=locations)
                yield block.keys[start:stop], found

    def postings(self, name: str, term: bytes | str, *, locations: bool = True) -> TermPostings | None:
        """Return the postings list of a term; None if the field does not have it."""
        dictionary = self.dictionary(name)
        value = None if dictionary is None else dictionary.get(term.encode() if isinstance(term, str) else term)
        if value is None:
            return None
        found = self._postings(np.array([value], np.uint64), locations)
        norms = norm_values(self.version, found.norms)
        return TermPostings(found.docs, found.freqs, norms, found.location_counts, found.locations)

    def _postings(self, values: NDArray[np.uint64], locations: bool) -> Postings:
        records = decode_records(self.data, self.footer, values)
        return decode_postings(self.data, self.footer, len(self.fields), records, locations=locations)

    # ------------------------------------------------------------------ documents

    def stored(self, doc: int) -> tuple[StoredValue, ...]:
        """Return what is stored of a document: its id as field ``_id`` first, then values by field."""
        columns = stored.decode_stored(
            self.data, self.footer, len(self.fields), self._doc(doc), doc + 1, limits=self.limits
        )
        stops = np.cumsum(columns.array_counts).tolist()
        positions = columns.array_positions.tolist()
        return tuple(
            StoredValue(self.fields[number].name, chr(kind), value, tuple(positions[stop - count : stop]))
            for number, kind, value, count, stop in zip(
                columns.fields.tolist(),
                columns.types.tolist(),
                columns.values,
                columns.array_counts.tolist(),
                stops,
                strict=True,
            )
        )

    def _doc(self, doc: int) -> int:
        if not 0 <= doc < self.num_docs:
            raise UsageError(f"document numbers of {self.name} are 0 to {self.num_docs - 1}, not {doc}")
        return doc

    @cached_property
    def edges(self) -> nested.Edges:
        """Which documents are nested in which, version 17; empty in others."""
        return nested.decode_edges(self.data, self.footer)

    def doc_values(self, name: str, docs: Iterable[int] | None = None) -> Iterator[tuple[int, tuple[bytes, ...]]]:
        """Return the doc values of a field, ascending by document: the distinct terms, in byte order.

        Args:
            name: the field.
            docs: only these documents; only their chunks are read. Default: all.
        """
        info = self.field(name)
        if info.doc_values is None:
            return
        block = DocValueBlock.open(self.data, self.footer, info.doc_values, info.options, limits=self.limits)
        wanted = None if docs is None else np.unique(np.array([self._doc(doc) for doc in docs], np.int64))
        chunks = iter(block) if wanted is None else map(block.chunk, np.unique(wanted // block.chunk_docs).tolist())
        for chunk in chunks:
            owners, terms = split_terms(chunk)
            bounds = np.searchsorted(owners, np.append(chunk.docs, self.num_docs)).tolist()
            flat = terms.to_list()
            chosen = range(len(chunk)) if wanted is None else np.flatnonzero(np.isin(chunk.docs, wanted)).tolist()
            numbers = chunk.docs.tolist()
            for i in chosen:
                yield numbers[i], tuple(flat[bounds[i] : bounds[i + 1]])

    # ------------------------------------------------------------------ other sections

    def thesaurus(self, name: str) -> synonyms.Thesaurus | None:
        """Return the synonyms that a field defines; None if it defines none."""
        info = self.field(name)
        if info.synonyms is None:
            return None
        return synonyms.decode_thesaurus(self.data, self.footer, info, limits=self.limits)

    def vectors(self, name: str) -> vectors.VectorSection | None:
        """Return the vector section of a field: which documents, and faiss' own bytes; None if it has none."""
        info = self.field(name)
        return None if info.vectors is None else vectors.decode_vectors(self.data, self.footer, info)

    # ------------------------------------------------------------------ columns

    def to_arrow(
        self,
        what: str,
        fields: Sequence[str] | None = None,
        *,
        docs: range | None = None,
        batch_rows: int = DEFAULT_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Return columns for analysis, batch by batch (extra ``arrow``); their schemas are `columns.SCHEMAS`.

        Args:
            what: ``terms``, ``postings``, ``locations``, ``stored``, ``doc_values`` or ``fields``.
            fields: only these fields; default: all.
            docs: only these documents, of the table ``stored``; default: all.
            batch_rows: rows of a batch, at most.

        Raises:
            UsageError: no such table, field or documents.
            MissingExtra: pyarrow is not installed.
            DecodeError: while the batches are read, what is not sound.
        """
        try:
            from dvcodec.zap import columns  # noqa: PLC0415
        except ImportError as err:
            raise MissingExtra("pyarrow", "arrow") from err
        return columns.batches(self, what, fields, docs=docs, batch_rows=batch_rows)


@contextmanager
def open_mapped(target: SourceTarget) -> Iterator[Source]:
    """Open what `open_source` opens: a local file by mapping it into memory, what is far away by blocks."""
    if isinstance(target, (str, os.PathLike)) and (local := local_path(target)) is not None:
        with local.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            target = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        with open_source(target, name=str(local)) as source:
            yield source
    else:
        in_memory = isinstance(target, (bytes, bytearray, memoryview, mmap.mmap, np.ndarray))
        with open_source(target) as source:
            yield source if in_memory else BlockSource(source)
