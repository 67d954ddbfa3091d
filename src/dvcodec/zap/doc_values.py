"""Doc values: the terms of each document, for sorting and facets.

Source: zapx ``contentcoder.go``, ``docvalues.go``. The block of one field::

    block    chunk 0 | chunk 1 | .. | uv end of each chunk, from the start on | u64 BE bytes of these | u64 BE chunks
    chunk    uv n | n * (uv document, uv end in the content) | content of n documents, a snappy block

Chunk i holds the documents from ``i * size`` on, 1024 of them; in version 11 as many as the footer says. The content
of a document is its distinct terms, ascending, each followed by 0xff (terms are not escaped); behind them may stand
the shape of a geo field, followed by 0xff too. A document without any is not listed, and most chunks without documents
have no bytes at all.

From zapx v17.0.2 on two options of a field change that: `FieldOptions.SKIP_DOC_VALUE_COMPRESSION` leaves the content
as it is, `FieldOptions.SKIP_DOC_VALUE_CHUNKING` makes a chunk of every document, content alone. zapx reads its own
files wrongly where only one of them is set: that is decoded here and not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.ragged import ByteStrings, gather, offsets_of
from dvcodec.zap import snappy
from dvcodec.zap.data import SegmentData
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import Footer

__all__ = [
    "SKIPS",
    "TERM_END",
    "DocValueBlock",
    "DocValues",
    "decode_doc_values",
    "doc_value",
    "encode_doc_values",
    "split_terms",
]

TERM_END = 0xFF
"""The byte behind each term."""
CHUNK_DOCS = 1024
"""Documents of a chunk, but in version 11."""
_FACTOR_VERSION = 11
"""The version whose footer holds the size of chunks itself."""
_OPTIONS_FROM = 17
_TRAILER = 16
_EMPTY_CHUNK = varints.uvarints(0) + snappy.EMPTY
SKIPS = FieldOptions.SKIP_DOC_VALUE_COMPRESSION | FieldOptions.SKIP_DOC_VALUE_CHUNKING
"""Options that go together: zapx misreads its own files with one of them."""
_BATCH_BYTES = 1 << 19
_BATCH_CHUNKS = 1 << 16

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class DocValues:
    """The doc values of some documents.

    Attributes:
        docs: int64[k], strictly ascending; documents without a value are left out.
        values: the bytes of each: its terms, 0xff behind each. `split_terms` takes them apart.
    """

    docs: Index
    values: ByteStrings

    def __len__(self) -> int:
        return len(self.docs)


@dataclass(frozen=True, slots=True, eq=False)
class DocValueBlock:
    """Where the chunks of one field's doc values are.

    Attributes:
        data: the segment.
        start: address of the first chunk.
        bounds: int64[chunks + 1], where each chunk begins, from `start` on, and where the last one ends.
        chunk_docs: documents of a chunk.
        num_docs: documents of the segment.
        compressed: whether contents are snappy blocks.
        listed: whether a chunk says which documents it holds; otherwise there is one, with the chunk's number.
        limits: `Limits.max_blob_bytes` bounds what is decompressed at once.
    """

    data: SegmentData
    start: int
    bounds: Index
    chunk_docs: int
    num_docs: int
    compressed: bool
    listed: bool
    limits: Limits = DEFAULT_LIMITS

    @classmethod
    def open(
        cls,
        data: SegmentData,
        footer: Footer,
        block: tuple[int, int],
        options: FieldOptions | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> DocValueBlock:
        """Read where the chunks are.

        Args:
            data: the segment.
            footer: its footer.
            block: address of the block and of its end, as `FieldInfo.doc_values` has them.
            options: what the field is kept for, `FieldInfo.options`.
            limits: see the class.

        Raises:
            Truncated: the block leaves the bytes in front of the footer, or is shorter than its trailer.
            NotCanonical: another number of chunks than the documents make, or ends that descend or do not fill the
                block.
        """
        start, stop = block
        chunk_docs, compressed, listed = _layout(footer.version, footer.chunk_mode, options)
        if not chunk_docs:
            raise data.error("chunk mode", data.end, expected="documents of a chunk, at least 1", actual=0)
        trailer = data.window(stop - _TRAILER, stop, "trailer of doc values")
        size, count = trailer.u64be("bytes of chunk ends"), trailer.u64be("number of chunks")
        chunks = -(-footer.num_docs // chunk_docs)
        room = stop - start - _TRAILER
        if count != chunks:
            raise trailer.error(NotCanonical, "number of doc value chunks", at=8, expected=chunks, actual=count)
        if not count <= size <= room:
            expected = f"{count} ends, in front of them {max(room, 0)} bytes of block"
            raise trailer.error(NotCanonical, "bytes of chunk ends", at=0, expected=expected, actual=size)
        table = data.window(stop - _TRAILER - size, stop - _TRAILER, "ends of doc value chunks")
        ends, _ = varints.decode(table, "end of a doc value chunk")
        if len(ends) != count:
            raise table.error(NotCanonical, "ends of doc value chunks", at=0, expected=count, actual=len(ends))
        wrong = np.flatnonzero(ends[1:] < ends[:-1])
        if len(wrong):
            i = int(wrong[0]) + 1
            expected = f"at least {int(ends[i - 1])}, the one before"
            raise table.error(NotCanonical, "end of a doc value chunk", at=0, expected=expected, actual=int(ends[i]))
        if (int(ends[-1]) if count else 0) != room - size:
            last = int(ends[-1]) if count else 0
            raise table.error(NotCanonical, "end of the last doc value chunk", at=0, expected=room - size, actual=last)
        bounds = np.zeros(count + 1, np.int64)
        bounds[1:] = ends
        return cls(data, start, bounds, chunk_docs, footer.num_docs, compressed, listed, limits)

    def chunk(self, number: int) -> DocValues:
        """Read one chunk.

        Raises:
            DecodeError: see `decode_doc_values`.
        """
        return self._read(number, number + 1)

    def __iter__(self) -> Iterator[DocValues]:
        """Read all chunks that hold something, many of them at once."""
        room = min(_BATCH_BYTES, self.limits.max_blob_bytes // snappy.EXPANSION)
        first, chunks = 0, len(self.bounds) - 1
        while first < chunks:
            stop = int(np.searchsorted(self.bounds, self.bounds[first] + room, side="right")) - 1
            stop = max(min(stop, first + _BATCH_CHUNKS, chunks), first + 1)
            found = self._read(first, stop)
            if len(found):
                yield found
            first = stop

    def get(self, doc: int) -> bytes | None:
        """Return the bytes of one document, None if it has none; only its chunk is read.

        Raises:
            UsageError: the segment does not have that document.
            DecodeError: see `decode_doc_values`.
        """
        if not 0 <= doc < self.num_docs:
            raise UsageError(f"document {doc} of {self.num_docs}")
        found = self.chunk(doc // self.chunk_docs)
        i = int(np.searchsorted(found.docs, doc))
        if i == len(found) or found.docs[i] != doc:
            return None
        value: bytes = found.values[i]
        return value

    def _read(self, first: int, stop: int) -> DocValues:
        """Read some chunks."""
        bounds = self.bounds[first : stop + 1]
        cursor = self.data.window(self.start + int(bounds[0]), self.start + int(bounds[-1]), "doc values")
        bounds = bounds - bounds[0]
        some = np.flatnonzero(np.diff(bounds))
        read = self._listed if self.listed else self._single
        return read(cursor, first + some, bounds[some], bounds[some + 1])

    def _listed(self, cursor: Cursor, chunks: Index, starts: Index, stops: Index) -> DocValues:
        """Read chunks that name their documents, none of them without a byte."""
        lows = chunks * self.chunk_docs
        highs = np.minimum(lows + self.chunk_docs, self.num_docs)
        what = "documents of a doc value chunk"
        found, pairs = varints.read_at(cursor, starts, what)
        self._refuse_cut(cursor, what, starts, stops, pairs)
        most = np.minimum(highs - lows, (stops - pairs) // 2)
        wrong = np.flatnonzero(found > most.astype(np.uint64))
        if len(wrong):
            i = int(wrong[0])
            expected = f"at most {int(most[i])}"
            raise cursor.error(NotCanonical, what, at=int(starts[i]), expected=expected, actual=int(found[i]))
        counts = found.astype(np.int64)
        numbers, begins = varints.read_runs(cursor, pairs, 2 * counts, what)
        self._refuse_cut(cursor, what, starts, stops, begins)
        docs, ends = numbers[::2], numbers[1::2]
        owner = np.repeat(np.arange(len(chunks)), counts)
        bad = (docs < lows.astype(np.uint64)[owner]) | (docs >= highs.astype(np.uint64)[owner])
        bad[1:] |= docs[1:] <= docs[:-1]
        if bad.any():
            i = int(np.argmax(bad))
            expected = f"{int(lows[owner[i]])} to {int(highs[owner[i]]) - 1}, ascending"
            at = int(starts[owner[i]])
            raise cursor.error(
                NotCanonical, "document of a doc value chunk", at=at, expected=expected, actual=int(docs[i])
            )
        sizes, content = self._contents(cursor, begins, stops)
        bad = ends > sizes.astype(np.uint64)[owner]
        bad[1:] |= (ends[1:] < ends[:-1]) & (owner[1:] == owner[:-1])
        if bad.any():
            i = int(np.argmax(bad))
            expected = f"ascending, at most {int(sizes[owner[i]])}"
            at = int(starts[owner[i]])
            raise cursor.error(
                NotCanonical, "end of a document's values", at=at, expected=expected, actual=int(ends[i])
            )
        lasts = np.append(ends.astype(np.int64), 0)[np.where(counts > 0, np.cumsum(counts) - 1, -1)]
        wrong = np.flatnonzero(lasts != sizes)
        if len(wrong):
            i = int(wrong[0])
            raise cursor.error(
                NotCanonical,
                "end of the last document's values",
                at=int(starts[i]),
                expected=int(sizes[i]),
                actual=int(lasts[i]),
            )
        offsets = np.zeros(len(docs) + 1, np.int64)
        offsets[1:] = ends.astype(np.int64) + (np.cumsum(sizes) - sizes)[owner]
        return self._checked(cursor, docs.astype(np.int64), ByteStrings(offsets, content), starts[owner])

    def _refuse_cut(self, cursor: Cursor, what: str, starts: Index, stops: Index, behind: Index) -> None:
        """Raise `Truncated` where what begins a chunk reaches into the next one."""
        cut = np.flatnonzero(behind > stops)
        if len(cut):
            i = int(cut[0])
            actual = f"{int(stops[i] - starts[i])} bytes left"
            raise cursor.error(Truncated, what, at=int(starts[i]), expected="a varint", actual=actual)

    def _contents(self, cursor: Cursor, starts: Index, stops: Index) -> tuple[Index, NDArray[np.uint8]]:
        """Read contents, one behind the other; the first result is the bytes of each."""
        if not self.compressed:
            return stops - starts, gather(varints.bytes_of(cursor), starts, stops - starts)
        sizes = snappy.content_sizes(cursor, starts, stops, "doc values", limits=self.limits)
        places = offsets_of(sizes)
        with enough_memory("the doc values", cursor.source):
            out = np.empty(int(places[-1]), np.uint8)
        snappy.decompress_into(cursor, starts, stops, out, places[:-1], sizes, "doc values")
        return sizes, out

    def _single(self, cursor: Cursor, chunks: Index, starts: Index, stops: Index) -> DocValues:
        """Read chunks of one document each, none of them without a byte."""
        sizes, content = self._contents(cursor, starts, stops)
        if len(chunks) and not chunks[0] and not sizes[0]:  # chunk 0 is there even if the document has nothing
            chunks, starts, sizes = chunks[1:], starts[1:], sizes[1:]
        return self._checked(cursor, chunks, ByteStrings(offsets_of(sizes), content), starts)

    def _checked(self, cursor: Cursor, docs: Index, values: ByteStrings, at: Index) -> DocValues:
        """Return the values of documents whose chunks begin `at`; the last byte of each has to be the end of a term."""
        empty = np.diff(values.offsets) == 0
        wrong = empty if empty.any() else values.data[values.offsets[1:] - 1] != TERM_END
        if wrong.any():
            i = int(np.argmax(wrong))
            last = "no byte" if empty[i] else f"{int(values.data[values.offsets[i + 1] - 1]):#04x}"
            what = f"doc values of document {int(docs[i])}"
            raise cursor.error(NotCanonical, what, at=int(at[i]), expected="0xff at the end", actual=last)
        return DocValues(docs, values)


def _layout(version: int, chunk_mode: int, options: FieldOptions | None) -> tuple[int, bool, bool]:
    """Return the documents of a chunk, whether it is compressed, and whether it lists its documents."""
    chosen = (options or FieldOptions(0)) if version >= _OPTIONS_FROM else FieldOptions(0)
    compressed = not chosen & FieldOptions.SKIP_DOC_VALUE_COMPRESSION
    if chosen & FieldOptions.SKIP_DOC_VALUE_CHUNKING:
        return 1, compressed, False
    return chunk_mode if version == _FACTOR_VERSION else CHUNK_DOCS, compressed, True


def decode_doc_values(
    data: SegmentData,
    footer: Footer,
    block: tuple[int, int],
    options: FieldOptions | None = None,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[DocValues]:
    """Read the doc values of a field chunk by chunk; chunks without any are left out.

    Not checked: that the terms of a document ascend and are distinct.

    Args:
        data: the segment.
        footer: its footer.
        block: address of the block and of its end, as `FieldInfo.doc_values` has them.
        options: what the field is kept for, `FieldInfo.options`.
        limits: `Limits.max_blob_bytes` bounds what is decompressed at once.

    Raises:
        Truncated, NotCanonical: see `DocValueBlock.open`, at once; and with each chunk: documents that are not in the
            chunk or do not ascend, ends that do not fill its content, a damaged snappy block, or a document whose
            values do not end in 0xff.
        LimitExceeded: see `limits`.
    """
    return iter(DocValueBlock.open(data, footer, block, options, limits=limits))


def doc_value(
    data: SegmentData,
    footer: Footer,
    block: tuple[int, int],
    options: FieldOptions | None,
    doc: int,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes | None:
    """Return the bytes of one document, None if it has none. For many see `DocValueBlock.get`; errors as there."""
    return DocValueBlock.open(data, footer, block, options, limits=limits).get(doc)


def split_terms(values: DocValues) -> tuple[Index, ByteStrings]:
    """Take the bytes of documents apart where a term ends.

    A term that holds 0xff itself comes out as several: the bytes do not tell.

    Returns:
        int64[m] document of each term, and the m terms.
    """
    data = values.values.data
    is_end = data == TERM_END
    ends = np.flatnonzero(is_end)
    counts = np.diff(np.searchsorted(ends, values.values.offsets))
    offsets = np.zeros(len(ends) + 1, np.int64)
    np.subtract(ends, np.arange(len(ends)), out=offsets[1:])
    return np.repeat(values.docs, counts), ByteStrings(offsets, data[~is_end])


def encode_doc_values(
    version: int,
    num_docs: int,
    chunk_mode: int,
    options: FieldOptions | None,
    docs: NDArray[np.int64],
    values: ByteStrings,
) -> bytes:
    """Encode the doc values of a field.

    The first chunk is written even if it is empty, later ones are not: so does zapx.

    Args:
        version: of the segment.
        num_docs: documents of the segment, at least 1.
        chunk_mode: the footer's; in version 11 the documents of a chunk.
        options: what the field is kept for, version 17.
        docs: int64[k], strictly ascending.
        values: the bytes of each: its distinct terms, ascending, 0xff behind each.

    Raises:
        UsageError: documents that do not ascend or that the segment does not have, values that do not end in 0xff, or
            only one of the two options that change the layout.
    """
    docs = np.asarray(docs, np.int64)
    chunk_docs, compressed, listed = _layout(version, chunk_mode, options)
    if compressed != listed:
        raise UsageError(f"doc values: {SKIPS!r} go together, or readers go wrong")
    if num_docs < 1 or chunk_docs < 1:
        raise UsageError(f"doc values of {num_docs} documents in chunks of {chunk_docs}")
    if len(docs) != len(values):
        raise UsageError(f"doc values: {len(docs)} documents, {len(values)} values")
    if len(docs) and (int(docs[0]) < 0 or int(docs[-1]) >= num_docs or bool((docs[1:] <= docs[:-1]).any())):
        raise UsageError(f"doc values: documents have to ascend, from 0 to {num_docs - 1}")
    sizes = values.lengths
    if (sizes == 0).any() or (values.data[values.offsets[1:] - 1] != TERM_END).any():
        raise UsageError("doc values: the bytes of every document have to end in 0xff")
    if listed:
        chunks = -(-num_docs // chunk_docs)
        contents, chunk_sizes = _encode_listed(docs, values, chunk_docs, chunks)
    else:
        chunk_sizes = np.zeros(num_docs, np.int64)
        chunk_sizes[docs] = sizes
        contents = gather(values.data, values.offsets[:-1], sizes).tobytes()
    ends, _ = varints.encode(np.cumsum(chunk_sizes))
    return contents + ends.tobytes() + len(ends).to_bytes(8, "big") + len(chunk_sizes).to_bytes(8, "big")


def _encode_listed(docs: Index, values: ByteStrings, chunk_docs: int, chunks: int) -> tuple[bytes, Index]:
    """Encode chunks that name their documents; return their bytes, and int64[chunks] bytes of each."""
    numbers = docs // chunk_docs
    heads = np.flatnonzero(np.diff(numbers, prepend=-1))
    counts = np.diff(heads, append=len(docs))
    low, high = values.offsets[:-1][heads], values.offsets[heads + counts]
    # A count in front of the pairs of each chunk, all as one row of varints.
    table = np.empty(len(heads) + 2 * len(docs), np.uint64)
    place = 2 * heads + np.arange(len(heads))
    table[place] = counts
    pairs = 2 * np.arange(len(docs)) + 1 + np.repeat(np.arange(len(heads)), counts)
    table[pairs] = docs
    table[pairs + 1] = values.offsets[1:] - np.repeat(low, counts)
    encoded, number_sizes = varints.encode(table)
    headers = ByteStrings(offsets_of(number_sizes)[np.append(place, len(table))], encoded).to_list()
    written = [head + block for head, block in zip(headers, snappy.compress(values.data, low, high), strict=True)]
    sizes = np.zeros(chunks, np.int64)
    sizes[numbers[heads]] = np.fromiter(map(len, written), np.int64, len(written))
    if not sizes[0]:
        written.insert(0, _EMPTY_CHUNK)
        sizes[0] = len(_EMPTY_CHUNK)
    return b"".join(written), sizes
