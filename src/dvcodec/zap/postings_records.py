"""Postings records, which locate the list of a term; and lists of one posting, stored in the dictionary.

Source: zapx ``posting.go``, ``new.go`` (``writePostings``), ``merge.go``. A dictionary's value for a term is one of::

    00 | 62 bits address of a postings record     uv freq/norm block | uv location block | uv bytes | roaring bitmap
    10 | 31 bits norm | 31 bits document          the whole list: one document, frequency 1, no location ("1-hit")

Without locations, the address of the location block is 2**64 - 1 in version 12 and 0 from 13 on; version 11 always has
a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, varints
from dvcodec.core.cursor import first_true
from dvcodec.core.ragged import ByteStrings, Index, Values, cut_by_weight, offsets_of
from dvcodec.zap import chunks
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import NOT, Footer

__all__ = [
    "ALWAYS_BLOCK",
    "ONE_HIT_DOCS",
    "ONE_HIT_NORMS",
    "POSTINGS_AT_ONCE",
    "Records",
    "decode_one_hits",
    "decode_records",
    "encode_one_hits",
    "place_records",
]

ONE_HIT_DOCS = 1 << 31
ONE_HIT_NORMS = 1 << 31
"""Upper bounds (exclusive) of document number and norm in a 1-hit."""
ALWAYS_BLOCK, _NOT_IS_NONE = 11, 12
"""The version in which every list has a location block; the one in which 2**64 - 1 means none."""
_KIND = np.uint64(62)
_ADDRESS = np.uint64((1 << 62) - 1)
_ONE_HIT = 2
POSTINGS_AT_ONCE = 1 << 16
"""Postings decoded or encoded together: their arrays fit in the CPU caches."""
_LEAST_REST = 4
"""Least bytes of the three numbers of a record, and of the number of chunks."""
_RECORD_ROOM = 3 * varints.MAX_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Postings records of many terms; arrays have one entry per term.

    Attributes:
        one_hit: bool, whether the dictionary value is the list itself; the next four are unused then.
        freq_at: int64, address of the freq/norm block.
        location_at: int64, address of the location block, -1 without one.
        bitmap_at: int64, address of the bitmap.
        bitmap_size: int64, its bytes.
        counts: int64, number of postings according to the bitmap's descriptors.
        chunk_docs: int64, documents per chunk.
        chunks: int64, chunks of the freq/norm block, and of the location block if any.
        values: uint64, the dictionary values.
    """

    one_hit: NDArray[np.bool_]
    freq_at: Index
    location_at: Index
    bitmap_at: Index
    bitmap_size: Index
    counts: Index
    chunk_docs: Index
    chunks: Index
    values: Values

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, part: slice | NDArray[Any]) -> Records:
        return Records(*(getattr(self, name)[part] for name in self.__slots__))

    @property
    def least_bytes(self) -> int:
        """Bytes of the lists that are not in the dictionary, at least: a chunk and a frequency take one each."""
        sizes = self.bitmap_size + self.counts + self.chunks + _LEAST_REST
        return int(sizes[~self.one_hit].sum())

    def cuts(self, most: int = POSTINGS_AT_ONCE) -> Iterator[slice]:
        """Cut the terms into slices of at most `most` postings and chunks, or of one term."""
        return cut_by_weight(self.counts + self.chunks, most)


def decode_records(data: SegmentData, footer: Footer, values: Values) -> Records:
    """Read the postings records of dictionary values, and the number of postings of each.

    Raises:
        NotCanonical: a reserved kind of value, a document that the segment does not have, an empty list, or
            one with more postings than documents.
        Truncated: an address or a size extends beyond the footer.
    """
    kinds = values >> _KIND
    one_hit = kinds == _ONE_HIT
    if (i := first_true((kinds & np.uint64(1)) != 0)) is not None:
        raise data.error("dictionary value", data.end, expected="kind 00 or 10", actual=hex(values[i]))
    if (i := first_true(one_hit & ((values & np.uint64(ONE_HIT_DOCS - 1)) >= footer.num_docs))) is not None:
        doc = values[i] & ONE_HIT_DOCS - 1
        raise data.error("document of a 1-hit", data.end, expected=f"below {footer.num_docs}", actual=doc)
    general = np.flatnonzero(~one_hit)
    a, b, c, d, e, f = (np.zeros(len(values), np.int64) for _ in range(6))
    out = Records(one_hit, a, b, c, d, np.ones(len(values), np.int64), e, f, values)
    if not len(general):
        return out
    addresses = (values[general] & _ADDRESS).astype(np.int64)
    window = data.around(addresses, _RECORD_ROOM, "postings record")
    freq_at, at = varints.read_at(window, addresses - window.base, "address of a freq/norm block")
    location_at, at = varints.read_at(window, at, "address of a location block")
    sizes, at = varints.read_at(window, at, "bytes of a bitmap")
    at += window.base
    none = NOT if footer.version == _NOT_IS_NONE else 0
    absent = (location_at == np.uint64(none)) & (footer.version != ALWAYS_BLOCK)
    for what, found in (
        ("address of a freq/norm block", freq_at),
        ("address of a location block", np.where(absent, np.uint64(0), location_at)),
    ):
        if (i := first_true(found >= data.end)) is not None:
            raise data.error(what, addresses[i], expected=f"below {data.end}", actual=found[i])
    if (i := first_true(sizes > (data.end - at).astype(np.uint64))) is not None:
        raise data.outside("bitmap", at[i], sizes[i])
    bitmap_size = sizes.astype(np.int64)
    _refuse_overlap(data, "bitmaps", bitmap_size)
    bitmap_window = data.around(at, bitmap_size, "bitmap")
    counts = bitmaps.cardinalities(bitmap_window, at - bitmap_window.base, bitmap_size)
    if (i := first_true((counts == 0) | (counts > footer.num_docs))) is not None:
        raise data.error("postings of a term", at[i], expected=f"1 to {footer.num_docs}", actual=counts[i])
    _refuse_overlap(data, "postings", counts)  # the frequency of each takes a byte at least
    out.freq_at[general] = freq_at.astype(np.int64)
    out.location_at[general] = np.where(absent, np.uint64(0), location_at).astype(np.int64)
    out.location_at[general[absent]] = -1
    out.bitmap_at[general], out.bitmap_size[general], out.counts[general] = at, bitmap_size, counts
    chunk_docs = chunks.chunk_sizes(footer.version, footer.chunk_mode, footer.num_docs, counts)
    out.chunk_docs[general] = chunk_docs
    out.chunks[general] = (footer.num_docs - 1) // chunk_docs + 1
    _refuse_overlap(data, "chunks", out.chunks)  # each takes a byte at least
    return out


def _refuse_overlap(data: SegmentData, what: str, sizes: Index) -> None:
    """Raise `NotCanonical` for lists that must overlap: this bounds the memory by the size of the file."""
    if int(sizes.sum()) > data.end:
        raise data.error(f"{what} of a dictionary", 0, expected=f"at most {data.end} bytes", actual=int(sizes.sum()))


def decode_one_hits(values: Values) -> tuple[Index, Values]:
    """Decode dictionary values of 1-hits: int64[n] documents, uint64[n] norms as stored."""
    docs = (values & np.uint64(ONE_HIT_DOCS - 1)).astype(np.int64)
    return docs, values >> np.uint64(31) & np.uint64(ONE_HIT_NORMS - 1)


def encode_one_hits(docs: Index, norms: Values) -> Values:
    """Encode lists of one posting as dictionary values: uint64[n].

    Not checked: the bounds `ONE_HIT_DOCS` and `ONE_HIT_NORMS`.

    Args:
        docs: int64[n], document numbers.
        norms: uint64[n], as stored.
    """
    values: Values = np.uint64(_ONE_HIT << 62) | norms << np.uint64(31) | docs.astype(np.uint64)
    return values


def place_records(
    version: int, base: int, freq_sizes: Index, location_sizes: Index, bitmap_sizes: Index
) -> tuple[Values, ByteStrings]:
    """Return the address of each record, and encode the three numbers before its bitmap.

    Each list is stored as freq/norm block, location block and record; lists are adjacent.

    Args:
        version: version of the segment.
        base: address of the first list.
        freq_sizes: int64[n], bytes of each freq/norm block.
        location_sizes: int64[n], bytes of each location block, 0 without one.
        bitmap_sizes: int64[n], bytes of each bitmap.

    Returns:
        uint64[n], address of each record, and the n heads.
    """
    # Records store addresses as varints, whose lengths depend on the addresses. Start with the shortest lengths and
    # lengthen where needed: addresses only grow, so this reaches the only solution after a few rounds.
    none = NOT if version == _NOT_IS_NONE else 0
    bodies = freq_sizes + location_sizes + varints.sizes(bitmap_sizes) + bitmap_sizes
    lengths = np.full(len(bodies), 2, np.int64)
    while True:
        starts = base + offsets_of(bodies + lengths)[:-1]
        located = np.where(location_sizes > 0, (starts + freq_sizes).astype(np.uint64), np.uint64(none))
        needed = varints.sizes(starts) + varints.sizes(located)
        if (needed == lengths).all():
            break
        lengths = needed
    numbers, sizes = varints.encode(
        np.stack([starts.astype(np.uint64), located, bitmap_sizes.astype(np.uint64)], 1).ravel()
    )
    heads = ByteStrings(offsets_of(sizes)[::3], numbers)
    return (starts + freq_sizes + location_sizes).astype(np.uint64), heads
