"""How zap packs many small things: chunks of documents, adjacent records of variable length, Snappy blocks.

Chunks hold frequencies, norms and locations of a term, split by document number so that readers can skip.

Source: zapx ``chunk.go`` (``getChunkSize``), ``intcoder.go`` (``chunkedIntCoder``)::

    uv chunks | chunks * uv end, cumulative, from the first byte of data | data of each chunk

Document d is in chunk ``d // chunk size``. There are ``(docs - 1) // chunk size + 1`` chunks, many of them empty.

Adjacent records: the length of each locates the next. They are found without a loop per record. One pass computes for
every position the successor of a record that *could* begin there. Then the chains of all spans are followed in parallel
from their first positions; if that takes too many steps, strides of 2, 4, 8, .. records are computed first, one pass
each::

    place      0  1  2  3  4  5  6  7  8        head 2, the second value counts those that follow
    values     7  1  9  7  0  7  2  9  9
    next       3  .  .  5  .  9  .  .  .        0 -> 3 -> 5 -> end: records at 0, 3 and 5

Regular spans, in which all records have the length of the first, take one pass.

Snappy blocks hold stored values and doc values; many small ones are expanded at once. Specification: google/snappy,
``format_description.txt``::

    uv size of the content | elements: literals, and copies of earlier content

A copy of up to 64 bytes takes 2 or 3, so a block expands at most 64 / 3 times. A larger stated size is an error, before
anything is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass

import cramjam
import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index, Values, copy_pieces, gather, offsets_of, spread
from dvcodec.core.usage import check_integer
from dvcodec.zap.footer import Footer, Pieces, SegmentData

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


_HOP = 1000
"""Positions that one pass processes in the time of a single step."""


def counted(values: Values, starts: Index, stops: Index, head: int) -> tuple[Index, Index, int]:
    """Find records of `head` values, the last of which counts the record's further values.

    Args:
        values: uint64[n].
        starts: int64[k], index of the first value of each span.
        stops: int64[k], end of each. Spans ascend and do not overlap; they may be empty.
        head: values of a record without further ones, at least 1.

    Returns:
        int64[m] index of the first value of every record, ascending; int64[m] its span; and the first span that records
        do not fill exactly, or -1. The records are incomplete unless it is -1.
    """
    begins, owner, odd = _regular(values, starts, stops, head)
    if not len(odd):
        return begins, owner, -1
    place = spread(starts[odd], stops[odd] - starts[odd])
    ends = offsets_of(stops[odd] - starts[odd])
    stop = np.repeat(ends[1:], np.diff(ends))
    room = stop - np.arange(len(place), dtype=np.int64) - head
    more = values[np.minimum(place + (head - 1), len(values) - 1)]
    inside = (room >= 0) & (more <= np.maximum(room, 0).astype(np.uint64))
    step = np.zeros(len(place), np.int64)
    step[inside] = more[inside].astype(np.int64) + head
    found, bad = follow(step, ends)
    others = np.concatenate([begins, place[found]])
    order = np.argsort(others, kind="stable")
    owners = np.concatenate([owner, odd[np.searchsorted(ends, found, side="right") - 1]])
    return others[order], owners[order], int(odd[bad]) if bad >= 0 else -1


def _regular(values: Values, starts: Index, stops: Index, head: int) -> tuple[Index, Index, Index]:
    """Find the records of regular spans, and the other spans."""
    sizes = stops - starts
    filled = sizes >= head
    first = np.zeros(len(starts), np.uint64)
    first[filled] = values[starts[filled] + (head - 1)]
    fits = filled & (first <= np.maximum(sizes - head, 0).astype(np.uint64))
    stride = np.where(fits, first, 0).astype(np.int64) + head
    counts = np.where(fits & (sizes % stride == 0), sizes // stride, 0)
    owner = np.repeat(np.arange(len(starts)), counts)
    ranks = np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    begins = starts[owner] + ranks * stride[owner]
    differs = values[begins + (head - 1)] != first[owner]
    regular = (counts > 0) | (sizes == 0)
    if differs.any():
        regular[owner[differs]] = False
        keep = regular[owner]
        begins, owner = begins[keep], owner[keep]
    return begins, owner, np.flatnonzero(~regular)


def sized(values: Values, byte_ends: Index, starts: Index, stops: Index) -> tuple[Index, Index, int]:
    """Find entries of one varint, the size in bytes, and varints of this total size.

    Args:
        values: uint64[n], of varints stored back to back in each span.
        byte_ends: int64[n], position of each varint's last byte (only differences matter).
        starts: int64[k], index of the first varint of each span.
        stops: int64[k], end of each. Spans ascend and do not overlap; they may be empty.

    Returns:
        int64[m] index of the first varint of every entry, ascending; int64[m] its span; and the first span that entries
        do not fill exactly, or -1: an entry extends beyond it or ends inside a varint. The entries are incomplete
        unless it is -1.
    """
    counts = stops - starts
    ends = offsets_of(counts)
    place = spread(starts, counts)
    edges = byte_ends[place]
    if not len(place):
        return place, place, -1
    last = np.append(edges, 0)[ends[1:] - 1]  # arbitrary for empty spans
    size = values[place]
    inside = np.flatnonzero(size <= (np.repeat(last, counts) - edges).astype(np.uint64))
    target = edges[inside] + size[inside].astype(np.int64)
    # The last varint of the entry; in an empty entry its size.
    ending = np.full(int(edges[-1] - edges[0]) + 1, -1, np.int64)
    ending[edges - edges[0]] = np.arange(len(place))
    local = ending[target - edges[0]]
    hit = local >= 0
    step = np.zeros(len(place), np.int64)
    step[inside[hit]] = local[hit] + 1 - inside[hit]
    found, bad = follow(step, ends)
    return place[found], np.searchsorted(ends, found, side="right") - 1, bad


def follow(step: Index, ends: Index) -> tuple[Index, int]:
    """Follow chains through positions 0, 1, .., from the first position of each span.

    Args:
        step: int64[n], distance to the next position; 0 where the chain breaks. No step leaves its span.
        ends: int64[k + 1], bounds of the spans.

    Returns:
        The visited positions, ascending, and the first span whose chain breaks, or -1.
    """
    size = len(step)
    done = size
    jump = np.arange(size + 1, dtype=np.int64)
    jump[:size] += step
    last = np.zeros(size + 1, np.bool_)
    last[ends[1:]] = True
    jump[:size][last[jump[:size]] | (step == 0)] = done
    lengths = np.diff(ends)
    front = ends[:-1][lengths > 0]
    # Strides of 2**k records cost k passes over all positions, and divide the number of single steps by 2**k.
    longest = int(lengths.max()) if len(lengths) else 0
    strides = [jump]
    while _HOP * longest >> len(strides) > size:
        strides.append(strides[-1][strides[-1]])
    reached = np.zeros(size + 1, np.bool_)
    fronts = []
    while len(front):
        fronts.append(front)
        front = strides[-1][front]
        front = front[front < done]
    front = np.concatenate(fronts) if fronts else front
    reached[front] = True
    for stride in reversed(strides[:-1]):
        front = np.concatenate([front, stride[front]])
        front = front[front < done]
        reached[front] = True
    found = np.flatnonzero(reached[:size])
    stuck = found[step[found] == 0]
    bad = int(np.searchsorted(ends, stuck[0], side="right")) - 1 if len(stuck) else -1
    return found, bad


def spans(cursor: Cursor, starts: Index, stops: Index, what: str) -> tuple[Values, Index, Index]:
    """Read all varints in many byte spans; other bytes are not read.

    Args:
        cursor: the window.
        starts: int64[k], position of the first byte of each span.
        stops: int64[k], end of each; inside the window.
        what: names the spans in errors.

    Returns:
        uint64[n] all values; int64[k + 1] bounds of the spans in them; and int64[n] end of each value in the window.

    Raises:
        Truncated: a span ends inside a varint.
        NotCanonical: a varint has more than 10 bytes or 64 bits.
    """
    lengths = stops - starts
    data = gather(varints.bytes_of(cursor), starts, lengths)
    bounds = offsets_of(lengths)
    shift = starts - bounds[:-1]
    ends = np.flatnonzero(data < 0x80)
    firsts = np.searchsorted(ends, bounds)
    some = np.flatnonzero(lengths > 0)
    cut = some[data[bounds[some + 1] - 1] >= 0x80]
    if len(cut):
        i = int(cut[0])
        at = int(ends[firsts[i + 1] - 1]) + 1 if firsts[i + 1] > firsts[i] else int(bounds[i])
        raise cursor.error(
            Truncated, what, at=at + int(shift[i]), expected="a varint", actual=f"{int(bounds[i + 1]) - at} bytes left"
        )
    values, _ = varints.decode(Pieces(data, starts + cursor.base, lengths, cursor.source or ""), what)
    return values, firsts, ends + 1 + np.repeat(shift, np.diff(firsts))


EMPTY = b"\0"
"""The empty block."""
EXPANSION = 22
"""Upper bound of the expansion of a block."""
LIMIT = "max_blob_bytes"
_COPY, _COPY_BYTES = 64, 3
"""Content and size (bytes) of the densest element."""
_MAX_CONTENT = 2**32 - 1


def content_sizes(cursor: Cursor, starts: Index, stops: Index, what: str, *, limits: Limits = DEFAULT_LIMITS) -> Index:
    """Read the content sizes of blocks, and check that they are possible.

    Args:
        cursor: the window.
        starts: int64[n], position of each block.
        stops: int64[n], end of each; inside the window.
        what: names the blocks in errors.
        limits: `Limits.max_blob_bytes` bounds the total content.

    Raises:
        Truncated: a block is empty, or ends in its size.
        NotCanonical: a size is not a varint, or is impossible for the bytes of the block.
        LimitExceeded: more content than `limits` allow.
    """
    if (i := first_true(starts >= stops)) is not None:
        raise cursor.error(Truncated, what, at=starts[i], expected="a snappy block", actual="no bytes")
    stated = f"content size of {what}"
    values, behind = varints.read_at(cursor, starts, stated)
    if (i := first_true(behind > stops)) is not None:
        actual = f"{stops[i] - starts[i]} bytes"
        raise cursor.error(Truncated, stated, at=starts[i], expected="a varint", actual=actual)
    room = np.minimum((stops - behind) * _COPY // _COPY_BYTES, _MAX_CONTENT)
    if (i := first_true(values > room.astype(np.uint64))) is not None:
        expected = f"at most {room[i]} in {stops[i] - starts[i]} bytes"
        raise cursor.error(NotCanonical, stated, at=starts[i], expected=expected, actual=values[i])
    sizes = values.astype(np.int64)
    if (i := first_true((sizes == 0) & (behind != stops))) is not None:
        raise cursor.error(
            NotCanonical, what, at=behind[i], expected="no bytes after an empty block", actual=int((stops - behind)[i])
        )
    if len(sizes):
        limits.check(LIMIT, int(sizes.sum()), cursor, int(starts[0]))
    return sizes


def decompress_into(
    cursor: Cursor, starts: Index, stops: Index, out: NDArray[np.uint8], places: Index, sizes: Index, what: str
) -> None:
    """Decompress blocks into an array.

    Args:
        cursor: the window.
        starts: int64[n], position of each block.
        stops: int64[n], end of each.
        out: the array.
        places: int64[n], position of each content in `out`.
        sizes: int64[n], of `content_sizes`.
        what: names the blocks in errors.

    Raises:
        NotCanonical: a block is corrupt, or has another size than stated.
    """
    source, target, decompress = cursor.view, out.data, cramjam.snappy.decompress_raw_into
    some = sizes > 0
    blocks = (column[some].tolist() for column in (starts, stops, places, places + sizes))
    for start, stop, low, high in zip(*blocks, strict=True):
        try:
            decompress(source[start:stop], target[low:high])
        except cramjam.DecompressionError as err:
            raise cursor.error(
                NotCanonical, what, at=start, expected=f"a snappy block of {high - low} bytes", actual=str(err)
            ) from None


def compress(data: NDArray[np.uint8], starts: Index, stops: Index) -> list[bytes]:
    """Compress pieces of an array into one block each."""
    view, pack = np.ascontiguousarray(data).data, cramjam.snappy.compress_raw
    pieces = zip(starts.tolist(), stops.tolist(), strict=True)
    return [bytes(pack(view[start:stop])) if stop > start else EMPTY for start, stop in pieces]
