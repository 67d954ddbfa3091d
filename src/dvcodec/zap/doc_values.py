"""Doc values: the terms of each document, for sorting and facets.

Source: zapx ``contentcoder.go``, ``docvalues.go``. The block of one field::

    block    chunk 0 | chunk 1 | .. | uv end of each chunk, from the start on | u64 BE bytes of these | u64 BE chunks
    chunk    uv n | n * (uv document, uv end in the content) | content of n documents, a snappy block

Chunk i has 1024 documents from ``1024 * i`` on; in version 11 the footer has the chunk size. The content of a document
is its distinct terms, ascending, each followed by 0xff (terms are not escaped). A geo field may add its shape, also
followed by 0xff. Documents without terms are not listed. Most chunks without documents are empty.

From zapx v17.0.2 on two options of a field change this: with `FieldOptions.SKIP_DOC_VALUE_COMPRESSION` the content is
not compressed, with `FieldOptions.SKIP_DOC_VALUE_CHUNKING` every document is a chunk, without the list. zapx misreads
its own files if only one option is set: such files are decoded here, but not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.ragged import ByteStrings, Index, gather, offsets_of
from dvcodec.zap import chunks
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import Footer, SegmentData

TERM_END = 0xFF
"""The byte after each term."""
CHUNK_DOCS = 1024
"""Documents per chunk, except in version 11."""
_FACTOR_VERSION = 11
"""The version whose chunk mode is the chunk size."""
_OPTIONS_FROM = 17
_BYTES_AT_ONCE = 1 << 24
"""Bytes of doc values that are encoded together."""
_EMPTY_CHUNK = varints.uvarints(0) + chunks.EMPTY
SKIPS = FieldOptions.SKIP_DOC_VALUE_COMPRESSION | FieldOptions.SKIP_DOC_VALUE_CHUNKING
"""Options to set together: zapx misreads its own files with only one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class DocValues:
    """The doc values of some documents.

    Attributes:
        docs: int64[k], strictly ascending; documents without values are omitted.
        values: the bytes of each: its terms, each followed by 0xff; see `split_terms`.
    """

    docs: Index
    values: ByteStrings

    @classmethod
    def concat(cls, parts: Sequence[DocValues]) -> DocValues:
        """Concatenate the values of several; documents ascend from one to the next."""
        docs = np.concatenate([np.zeros(0, np.int64), *(part.docs for part in parts)])
        return cls(docs, ByteStrings.concat([part.values for part in parts]))

    def __len__(self) -> int:
        return len(self.docs)


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """The layout of a field's chunks.

    Attributes:
        num_docs: documents of the segment.
        chunk_docs: documents per chunk.
        compressed: whether contents are snappy blocks.
        listed: whether a chunk lists its documents; otherwise its only document has the chunk's number.
    """

    num_docs: int
    chunk_docs: int
    compressed: bool
    listed: bool

    @classmethod
    def of(cls, version: int, num_docs: int, chunk_mode: int, options: FieldOptions | None) -> ChunkLayout:
        """Return the layout for a version, and for the options of the field (version 17)."""
        chosen = (options or FieldOptions(0)) if version >= _OPTIONS_FROM else FieldOptions(0)
        compressed = not chosen & FieldOptions.SKIP_DOC_VALUE_COMPRESSION
        if chosen & FieldOptions.SKIP_DOC_VALUE_CHUNKING:
            return cls(num_docs, 1, compressed, listed=False)
        return cls(num_docs, chunk_mode if version == _FACTOR_VERSION else CHUNK_DOCS, compressed, listed=True)

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.num_docs // self.chunk_docs)


def decode_chunks(
    cursor: Cursor, layout: ChunkLayout, numbers: Index, starts: Index, stops: Index, limits: Limits
) -> DocValues:
    """Read non-empty chunks.

    Not checked: that the terms of a document ascend and are distinct.

    Args:
        cursor: the window.
        layout: layout of the chunks.
        numbers: int64[n], number of each chunk, ascending.
        starts: int64[n], position of each.
        stops: int64[n], end of each; inside the window.
        limits: `Limits.max_blob_bytes` bounds the total decompressed bytes.

    Raises:
        Truncated: a chunk ends in its list of documents, or before its content.
        NotCanonical: documents that do not belong to the chunk or do not ascend, ends that do not fill its content, a
            corrupt snappy block, or values that do not end in 0xff.
        LimitExceeded: see `limits`.
    """
    read = _decode_listed if layout.listed else _decode_single
    docs, values, at = read(cursor, layout, numbers, starts, stops, limits)
    empty = np.diff(values.offsets) == 0
    if (i := first_true(empty if empty.any() else values.data[values.offsets[1:] - 1] != TERM_END)) is not None:
        last = "no byte" if empty[i] else f"{int(values.data[values.offsets[i + 1] - 1]):#04x}"
        what = f"doc values of document {docs[i]}"
        raise cursor.error(NotCanonical, what, at=at[i], expected="0xff at the end", actual=last)
    return DocValues(docs, values)


def _decode_listed(
    cursor: Cursor, layout: ChunkLayout, chunks: Index, starts: Index, stops: Index, limits: Limits
) -> tuple[Index, ByteStrings, Index]:
    """Read chunks that list their documents; the last result is the start of each document's chunk."""
    lows = chunks * layout.chunk_docs
    highs = np.minimum(lows + layout.chunk_docs, layout.num_docs)
    what = "documents of a doc value chunk"
    found, pairs = varints.read_at(cursor, starts, what)
    _refuse_cut(cursor, what, starts, stops, pairs)
    most = np.minimum(highs - lows, (stops - pairs) // 2)
    if (i := first_true(found > most.astype(np.uint64))) is not None:
        expected = f"at most {most[i]}"
        raise cursor.error(NotCanonical, what, at=starts[i], expected=expected, actual=found[i])
    counts = found.astype(np.int64)
    numbers, begins = varints.read_runs(cursor, pairs, 2 * counts, what)
    _refuse_cut(cursor, what, starts, stops, begins)
    docs, ends = numbers[::2], numbers[1::2]
    owner = np.repeat(np.arange(len(chunks)), counts)
    bad = (docs < lows.astype(np.uint64)[owner]) | (docs >= highs.astype(np.uint64)[owner])
    bad[1:] |= docs[1:] <= docs[:-1]
    if (i := first_true(bad)) is not None:
        expected = f"{lows[owner[i]]} to {highs[owner[i]] - 1}, ascending"
        at = starts[owner[i]]
        raise cursor.error(NotCanonical, "document of a doc value chunk", at=at, expected=expected, actual=docs[i])
    sizes, content = _contents(cursor, layout, begins, stops, limits)
    bad = ends > sizes.astype(np.uint64)[owner]
    bad[1:] |= (ends[1:] < ends[:-1]) & (owner[1:] == owner[:-1])
    if (i := first_true(bad)) is not None:
        expected = f"ascending, at most {sizes[owner[i]]}"
        at = starts[owner[i]]
        raise cursor.error(NotCanonical, "end of a document's values", at=at, expected=expected, actual=ends[i])
    lasts = np.append(ends.astype(np.int64), 0)[np.where(counts > 0, np.cumsum(counts) - 1, -1)]
    if (i := first_true(lasts != sizes)) is not None:
        raise cursor.error(
            NotCanonical, "end of the last document's values", at=starts[i], expected=sizes[i], actual=lasts[i]
        )
    offsets = np.zeros(len(docs) + 1, np.int64)
    offsets[1:] = ends.astype(np.int64) + (np.cumsum(sizes) - sizes)[owner]
    return docs.astype(np.int64), ByteStrings(offsets, content), starts[owner]


def _decode_single(
    cursor: Cursor, layout: ChunkLayout, chunks: Index, starts: Index, stops: Index, limits: Limits
) -> tuple[Index, ByteStrings, Index]:
    """Read chunks of one document each; the results are as in `_decode_listed`."""
    sizes, content = _contents(cursor, layout, starts, stops, limits)
    if len(chunks) and not chunks[0] and not sizes[0]:  # chunk 0 is written even without values
        chunks, starts, sizes = chunks[1:], starts[1:], sizes[1:]
    return chunks, ByteStrings(offsets_of(sizes), content), starts


def _refuse_cut(cursor: Cursor, what: str, starts: Index, stops: Index, behind: Index) -> None:
    """Raise `Truncated` if the head of a chunk extends into the next one."""
    if (i := first_true(behind > stops)) is not None:
        actual = f"{int(stops[i] - starts[i])} bytes left"
        raise cursor.error(Truncated, what, at=starts[i], expected="a varint", actual=actual)


def _contents(
    cursor: Cursor, layout: ChunkLayout, starts: Index, stops: Index, limits: Limits
) -> tuple[Index, NDArray[np.uint8]]:
    """Return the size of each content, and all contents concatenated."""
    if not layout.compressed:
        return stops - starts, gather(varints.bytes_of(cursor), starts, stops - starts)
    sizes = chunks.content_sizes(cursor, starts, stops, "doc values", limits=limits)
    places = offsets_of(sizes)
    with enough_memory("the doc values", cursor.source):
        out = np.empty(int(places[-1]), np.uint8)
    chunks.decompress_into(cursor, starts, stops, out, places[:-1], sizes, "doc values")
    return sizes, out


def _encode_listed(layout: ChunkLayout, docs: Index, values: ByteStrings) -> tuple[bytes, Index]:
    """Encode chunks that list their documents: all their bytes, and the size of each, int64[chunks]."""
    numbers = docs // layout.chunk_docs
    heads = np.flatnonzero(np.diff(numbers, prepend=-1))
    counts = np.diff(heads, append=len(docs))
    low, high = values.offsets[:-1][heads], values.offsets[heads + counts]
    # A count before the pairs of each chunk, all encoded in one call.
    table = np.empty(len(heads) + 2 * len(docs), np.uint64)
    place = 2 * heads + np.arange(len(heads))
    table[place] = counts
    pairs = 2 * np.arange(len(docs)) + 1 + np.repeat(np.arange(len(heads)), counts)
    table[pairs] = docs
    table[pairs + 1] = values.offsets[1:] - np.repeat(low, counts)
    encoded, number_sizes = varints.encode(table)
    headers = ByteStrings(offsets_of(number_sizes)[np.append(place, len(table))], encoded).to_list()
    written = [head + block for head, block in zip(headers, chunks.compress(values.data, low, high), strict=True)]
    sizes = np.zeros(layout.num_chunks, np.int64)
    sizes[numbers[heads]] = np.fromiter(map(len, written), np.int64, len(written))
    return b"".join(written), sizes


def split_terms(values: DocValues) -> tuple[Index, ByteStrings]:
    """Split the bytes of documents into terms.

    A term that contains 0xff is split in two: the encoding is ambiguous.

    Returns:
        int64[m] document of each term, and the m terms.
    """
    data = values.values.data
    ends = np.flatnonzero(data == TERM_END)
    counts = np.diff(np.searchsorted(ends, values.values.offsets))
    offsets = np.zeros(len(ends) + 1, np.int64)
    np.subtract(ends, np.arange(len(ends)), out=offsets[1:])
    terms = np.frombuffer(data.tobytes().translate(None, bytes((TERM_END,))), np.uint8)  # faster than a mask
    return np.repeat(values.docs, counts), ByteStrings(offsets, terms)


_TRAILER = 16
_BATCH_BYTES = 1 << 19
_BATCH_CHUNKS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class DocValueBlock:
    """The chunks of a field's doc values.

    Attributes:
        data: the segment.
        start: address of the first chunk.
        bounds: int64[chunks + 1], bounds of the chunks relative to `start`.
        layout: layout of the chunks.
        limits: `Limits.max_blob_bytes` bounds the bytes decompressed at once.
    """

    data: SegmentData
    start: int
    bounds: Index
    layout: ChunkLayout
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
        """Read the bounds of the chunks.

        Args:
            data: the segment.
            footer: its footer.
            block: start and end of the block, `FieldInfo.doc_values`.
            options: `FieldInfo.options`.
            limits: see the class.

        Raises:
            Truncated: the block extends beyond the footer, or is shorter than its trailer.
            NotCanonical: a number of chunks that does not match the documents, or ends that descend or do not fill the
                block.
        """
        start, stop = block
        layout = ChunkLayout.of(footer.version, footer.num_docs, footer.chunk_mode, options)
        trailer = data.window(stop - _TRAILER, stop, "trailer of doc values")
        size, count = trailer.u64be("bytes of chunk ends"), trailer.u64be("number of chunks")
        room = stop - start - _TRAILER
        if count != layout.num_chunks:
            raise trailer.error(
                NotCanonical, "number of doc value chunks", at=8, expected=layout.num_chunks, actual=count
            )
        if not count <= size <= room:
            expected = f"at least {count}, one per end, and at most {max(room, 0)}"
            raise trailer.error(NotCanonical, "bytes of chunk ends", at=0, expected=expected, actual=size)
        table = data.window(stop - _TRAILER - size, stop - _TRAILER, "ends of doc value chunks")
        ends, _ = varints.decode(table, "end of a doc value chunk")
        if len(ends) != count:
            raise table.error(NotCanonical, "ends of doc value chunks", at=0, expected=count, actual=len(ends))
        if (i := first_true(ends[1:] < ends[:-1])) is not None:
            expected = f"at least {ends[i]}, the previous one"
            raise table.error(NotCanonical, "end of a doc value chunk", at=0, expected=expected, actual=ends[i + 1])
        if (int(ends[-1]) if count else 0) != room - size:
            last = int(ends[-1]) if count else 0
            raise table.error(NotCanonical, "end of the last doc value chunk", at=0, expected=room - size, actual=last)
        bounds = np.zeros(count + 1, np.int64)
        bounds[1:] = ends
        return cls(data, start, bounds, layout, limits)

    def __iter__(self) -> Iterator[DocValues]:
        """Read all chunks; see `chunks`."""
        return self.chunks(np.arange(len(self.bounds) - 1))

    def chunks(self, numbers: Index) -> Iterator[DocValues]:
        """Read some chunks in batches, without empty ones; those of a batch are near each other, and read at once.

        Not checked: that the terms of a document ascend and are distinct.

        Args:
            numbers: int64[n], ascending.

        Raises:
            DecodeError: with each batch; see `decode_chunks`.
        """
        numbers = numbers[self.bounds[numbers] < self.bounds[numbers + 1]]
        starts, ends = self.bounds[numbers], self.bounds[numbers + 1]
        room = min(_BATCH_BYTES, self.limits.max_blob_bytes // chunks.EXPANSION)
        first = 0
        while first < len(numbers):
            stop = int(np.searchsorted(ends, starts[first] + room, side="right"))
            stop = max(min(stop, first + _BATCH_CHUNKS), first + 1)
            base = int(starts[first])
            cursor = self.data.window(self.start + base, self.start + int(ends[stop - 1]), "doc values")
            some = slice(first, stop)
            found = decode_chunks(
                cursor, self.layout, numbers[some], starts[some] - base, ends[some] - base, self.limits
            )
            if len(found):
                yield found
            first = stop


def encode_doc_value_block(
    version: int, num_docs: int, chunk_mode: int, options: FieldOptions | None, parts: Iterable[DocValues]
) -> Iterator[bytes]:
    """Encode the doc values of a field, some chunks at a time. As in zapx, of empty chunks only the first is written.

    Args:
        version: version of the segment.
        num_docs: documents of the segment, at least 1.
        chunk_mode: chunk mode of the footer; in version 11 the documents per chunk.
        options: options of the field, version 17; both of `SKIPS` or neither.
        parts: documents strictly ascending, with their distinct terms, ascending, each followed by 0xff.
    """
    layout = ChunkLayout.of(version, num_docs, chunk_mode, options)
    sizes = np.zeros(0, np.int64)
    for part in _whole_chunks(layout, parts):
        if layout.listed:
            contents, found = _encode_listed(layout, part.docs, part.values)
        else:
            contents, found = part.values.data.tobytes(), np.zeros(num_docs, np.int64)
            found[part.docs] = part.values.lengths
        if not len(sizes) and layout.listed and not found[0]:
            found[0] = len(_EMPTY_CHUNK)
            yield _EMPTY_CHUNK
        sizes = found if not len(sizes) else sizes + found
        yield contents
    ends, _ = varints.encode(np.cumsum(sizes))
    yield ends.tobytes() + len(ends).to_bytes(8, "big") + len(sizes).to_bytes(8, "big")


def _whole_chunks(layout: ChunkLayout, parts: Iterable[DocValues]) -> Iterator[DocValues]:
    """Join parts until they have enough bytes, and cut them where a chunk ends; at least one, which may be empty."""
    waiting: list[DocValues] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part.values.data)
        if size >= _BYTES_AT_ONCE:
            joined = DocValues.concat(waiting)
            cut = int(np.searchsorted(joined.docs, joined.docs[-1] // layout.chunk_docs * layout.chunk_docs))
            if cut:
                yield DocValues(joined.docs[:cut], joined.values[:cut])
            waiting = [DocValues(joined.docs[cut:], joined.values[cut:])]
            size = len(waiting[0].values.data)
    yield DocValues.concat(waiting)
