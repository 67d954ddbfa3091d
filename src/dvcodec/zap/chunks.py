"""Chunks: frequencies, norms and locations of a term, split by document number so that readers can skip.

Source: zapx ``chunk.go`` (``getChunkSize``), ``intcoder.go`` (``chunkedIntCoder``)::

    uv chunks | chunks * uv end, cumulative, from the first byte of data | data of each chunk

Document d is in chunk ``d // chunk size``. There are ``(docs - 1) // chunk size + 1`` chunks, many of them empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.core.ragged import ByteStrings, Index, Values, copy_pieces, offsets_of, spread
from dvcodec.core.usage import check_integer
from dvcodec.zap.data import Pieces, SegmentData
from dvcodec.zap.footer import Footer

PLAIN_UP_TO = 1024
"""Modes 1 to 1024 are the chunk size itself."""
BY_CARDINALITY = 1025
"""One chunk up to 1024 postings, else chunks of 1024 documents."""
BALANCED = 1026
"""About 1024 postings per chunk; from version 14 on."""
_POSTINGS = 1024
_FACTOR_ONLY = 11
"""In this version the chunk mode is the chunk size."""
_BALANCED_FROM = 14


def check_mode(version: int, mode: int) -> None:
    """Raise `UsageError` for a chunk mode that readers of that version do not support."""
    highest = {_FACTOR_ONLY: 2**32 - 1}.get(version, BALANCED if version >= _BALANCED_FROM else BY_CARDINALITY)
    check_integer(mode, "chunk_mode")
    if not 1 <= mode <= highest:
        raise UsageError(f"chunk mode of zap version {version}: expected 1 to {highest}, got {mode}")


def decode_mode(data: SegmentData, footer: Footer) -> None:
    """Raise `NotCanonical` if the footer's chunk mode is invalid in its version."""
    try:
        check_mode(footer.version, footer.chunk_mode)
    except UsageError as err:
        raise data.error(str(err), data.end) from None


def chunk_sizes(version: int, mode: int, num_docs: int, cards: Index) -> Index:
    """Return the chunk size (documents) for postings lists of these cardinalities: int64[n].

    Args:
        version: version of the segment.
        mode: chunk mode of the footer, checked by `check_mode`.
        num_docs: documents of the segment, at least 1.
        cards: int64[n], postings of each list.
    """
    if version == _FACTOR_ONLY or mode <= PLAIN_UP_TO:
        return np.full(len(cards), mode, np.int64)
    if mode == BY_CARDINALITY:
        return np.where(cards <= _POSTINGS, num_docs, _POSTINGS)
    return np.maximum(num_docs // (cards // _POSTINGS + 1), 1)


def cut_postings(docs: Index, counts: Index, chunk_docs: Index, num_docs: int) -> tuple[Index, Index]:
    """Split many postings lists into chunks.

    Args:
        docs: int64, document numbers below `num_docs` of all lists, ascending in each list.
        counts: int64[n], postings of each list.
        chunk_docs: int64[n], chunk size of each list, from `chunk_sizes`.
        num_docs: documents of the segment, at least 1.

    Returns:
        int64[n], chunks of each list; and int64[chunks + 1], bounds of the chunks in `docs`.
    """
    num_chunks = (num_docs - 1) // chunk_docs + 1
    # Shift documents by list so that they ascend overall; then one search finds all chunk ends.
    lists = np.arange(len(counts)) * num_docs
    row = np.repeat(lists, counts) + docs
    rank = spread(np.ones(len(counts), np.int64), num_chunks)
    ends = np.repeat(lists, num_chunks) + np.minimum(rank * np.repeat(chunk_docs, num_chunks), num_docs)
    bounds = np.zeros(len(ends) + 1, np.int64)
    bounds[1:] = np.searchsorted(row, ends)
    return num_chunks, bounds


@dataclass(frozen=True, slots=True, eq=False)
class ChunkedBlocks:
    """The data of many chunk blocks, concatenated.

    Attributes:
        cursor: the data of all chunks, joined.
        bounds: int64[chunks + 1], bounds of the chunks in `cursor`.
        values: uint64, all varints.
        edges: int64[varints + 1], bounds of the varints in `cursor`.
        firsts: int64[chunks + 1], bounds of the chunks in `values`.
    """

    cursor: Pieces
    bounds: Index
    values: NDArray[np.uint64]
    edges: Index
    firsts: Index

    def error(self, what: str, chunk: int, expected: object = None, actual: object = None) -> DecodeError:
        """Return the error for a corrupt chunk."""
        at = int(self.bounds[chunk])
        return self.cursor.error(NotCanonical, what, at=at, expected=expected, actual=actual)

    def expect(self, what: str, found: Index, expected: Index) -> None:
        """Raise `NotCanonical` unless every chunk has the expected number of entries."""
        if (chunk := first_true(found != expected)) is not None:
            raise self.error(what, chunk, expected=expected[chunk], actual=found[chunk])


def read_blocks(
    data: SegmentData, addresses: Index, num_chunks: Index, what: str, *, entries: Index | None = None
) -> ChunkedBlocks:
    """Read many chunk blocks and the varints in their chunks.

    Args:
        data: the segment.
        addresses: int64[n], address of each block.
        num_chunks: int64[n], expected chunks of each block.
        what: for errors.
        entries: int64[chunks], expected entries of each chunk, where a chunk without any may have a length.

    Raises:
        Truncated, NotCanonical: a block beyond the footer, an unexpected number of chunks, descending ends, a chunk
            that ends inside a varint, or chunks that zapx 17 misplaced.
    """
    window = data.around(addresses, varints.MAX_BYTES * (num_chunks + 1), what)
    counts, at = varints.read_at(window, addresses - window.base, f"number of {what} chunks")
    if (i := first_true(counts != num_chunks.astype(np.uint64))) is not None:
        raise data.error(f"number of {what} chunks", addresses[i], expected=num_chunks[i], actual=counts[i])
    end_of = f"end of a {what} chunk"
    raw_ends, stops = varints.read_runs(window, at, num_chunks, end_of)
    if entries is not None and len(addresses):
        raw_ends = _true_ends(data, addresses, raw_ends, num_chunks, entries == 0, what)
    term = np.repeat(np.arange(len(addresses)), num_chunks)
    starts = stops + window.base
    beyond = raw_ends > (data.end - starts)[term].astype(np.uint64)
    ends = np.where(beyond, np.uint64(0), raw_ends).astype(np.int64)
    first = offsets_of(num_chunks)[:-1]
    sizes = np.diff(ends, prepend=0)
    sizes[first] = ends[first]
    if (i := first_true(beyond | (sizes < 0))) is not None:
        expected = f"ascending, at most {data.end - starts[term[i]]}"
        raise data.error(end_of, addresses[term[i]], expected=expected, actual=raw_ends[i])
    cursor = data.pieces(starts, ends[first + num_chunks - 1], f"{what} chunks")
    values, last_bytes = varints.decode(cursor, what)
    bounds = offsets_of(sizes)
    joined = varints.bytes_of(cursor)
    inner = bounds[1:][sizes > 0]
    if (i := first_true(joined[inner - 1] >= 0x80)) is not None:
        raise cursor.error(NotCanonical, f"{what} chunk", at=inner[i] - 1, expected="whole varints")
    edges = np.zeros(len(last_bytes) + 1, np.int64)
    np.add(last_bytes, 1, out=edges[1:])
    return ChunkedBlocks(cursor, bounds, values, edges, np.searchsorted(last_bytes, bounds))


def _true_ends(
    data: SegmentData, addresses: Index, ends: Values, num_chunks: Index, empty: NDArray[np.bool_], what: str
) -> Values:
    """Return the ends of chunks, without the lengths that zapx 17.0.9 to 17.1.3 gives to empty chunks.

    Source: ``intcoder.go`` (``Write``) of these releases sums up the lengths twice. An empty chunk keeps the first sum
    as its length: that of all chunks before it. Readers then look for the chunks after it in the wrong place.
    """
    firsts = offsets_of(num_chunks)[:-1]
    sizes = np.diff(ends, prepend=np.uint64(0))
    sizes[firsts] = ends[firsts]
    lengthy = empty & (sizes > 0)
    if not lengthy.any():
        return ends
    true = np.where(empty, np.uint64(0), sizes)
    sums = np.cumsum(true)
    sums -= np.repeat(sums[firsts] - true[firsts], num_chunks)
    ours = np.logical_or.reduceat(lengthy, firsts) & np.logical_and.reduceat(~empty | (sizes == sums), firsts)
    misplaced = np.logical_or.reduceat(~empty & (ends != sums), firsts)
    if not data.salvage and (i := first_true(ours & misplaced)) is not None:
        raise data.error(
            f"{what} chunks that zapx 17.0.9 to 17.1.3 misplaced (Go misreads them; zap merge --salvage repairs them)",
            addresses[i],
            expected="no bytes in a chunk without entries",
            actual=sizes[firsts[i] + np.argmax(lengthy[firsts[i] :])],
        )
    return np.where(np.repeat(ours, num_chunks), sums, ends)


def encode_blocks(num_chunks: Index, chunk_bytes: Index, contents: NDArray[np.uint8]) -> ByteStrings:
    """Encode many chunk blocks.

    Args:
        num_chunks: int64[n], chunks of each block.
        chunk_bytes: int64[chunks of all], bytes of each chunk.
        contents: uint8, the data of all chunks, concatenated.
    """
    first = offsets_of(num_chunks)[:-1]
    running = offsets_of(chunk_bytes)
    ends = running[1:] - np.repeat(running[first], num_chunks)
    # The number of chunks and the ends, of all blocks, in one call.
    numbers = np.empty(len(num_chunks) + len(ends), np.uint64)
    heads = first + np.arange(len(num_chunks))
    numbers[heads] = num_chunks
    numbers[spread(heads + 1, num_chunks)] = ends
    table, sizes = varints.encode(numbers)
    table_bounds = offsets_of(sizes)[np.append(heads, len(numbers))]
    data_sizes = ends[first + num_chunks - 1] if len(first) else first
    return interleave([ByteStrings(table_bounds, table), ByteStrings(offsets_of(data_sizes), contents)])


def interleave(columns: list[ByteStrings]) -> ByteStrings:
    """Concatenate the strings of several columns row by row."""
    if len(columns[0]) == 1:  # a segment may have hundreds of fields of one term
        data = np.concatenate([column.data for column in columns])
        return ByteStrings(np.array([0, len(data)], np.int64), data)
    sizes = np.stack([column.lengths for column in columns], axis=1)
    places = offsets_of(sizes.ravel())[:-1].reshape(sizes.shape)
    out = np.empty(int(sizes.sum()), np.uint8)
    for i, column in enumerate(columns):
        copy_pieces(out, places[:, i], column.data, column.offsets[:-1], sizes[:, i])
    return ByteStrings(offsets_of(sizes.sum(axis=1)), out)
