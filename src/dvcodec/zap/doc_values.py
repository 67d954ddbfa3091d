"""Doc values: the terms of each document, for sorting and facets.

Source: zapx ``contentcoder.go``, ``docvalues.go``. The block of one field::

    block    chunk 0 | chunk 1 | .. | uv end of each chunk, from the start on | u64 BE bytes of these | u64 BE chunks

Chunk i has 1024 documents from ``1024 * i`` on; in version 11 the footer has the chunk size. For the contents of
a chunk see `dvcodec.zap.doc_value_chunks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import NotCanonical
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import ByteStrings, Index
from dvcodec.zap import snappy
from dvcodec.zap.data import SegmentData
from dvcodec.zap.doc_value_chunks import ChunkLayout, DocValues, decode_chunks, encode_chunks
from dvcodec.zap.documents import FieldOptions
from dvcodec.zap.footer import Footer

__all__ = ["DocValueBlock", "encode_doc_values"]

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
            NotCanonical: a number of chunks that does not match the documents, ends that descend or do not fill the
                block, or a chunk mode of 0 (version 11).
        """
        start, stop = block
        layout = ChunkLayout.of(footer.version, footer.num_docs, footer.chunk_mode, options)
        if not layout.chunk_docs:
            raise data.error("chunk mode", data.end, expected="documents of a chunk, at least 1", actual=0)
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
        room = min(_BATCH_BYTES, self.limits.max_blob_bytes // snappy.EXPANSION)
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


def encode_doc_values(
    version: int,
    num_docs: int,
    chunk_mode: int,
    options: FieldOptions | None,
    docs: NDArray[np.int64],
    values: ByteStrings,
) -> bytes:
    """Encode the doc values of a field.

    Args:
        version: version of the segment.
        num_docs: documents of the segment, at least 1.
        chunk_mode: chunk mode of the footer; in version 11 the documents per chunk.
        options: options of the field, version 17.
        docs: int64[k], strictly ascending.
        values: the bytes of each: its distinct terms, ascending, each followed by 0xff.

    Raises:
        UsageError: see `encode_chunks`.
    """
    contents, sizes = encode_chunks(
        ChunkLayout.of(version, num_docs, chunk_mode, options), np.asarray(docs, np.int64), values
    )
    ends, _ = varints.encode(np.cumsum(sizes))
    return contents + ends.tobytes() + len(ends).to_bytes(8, "big") + len(sizes).to_bytes(8, "big")
