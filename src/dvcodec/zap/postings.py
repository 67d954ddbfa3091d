"""Postings: in which documents a term stands, how often, and the norm of its field there.

Source: zapx ``posting.go``, ``new.go`` (``writePostings``), ``merge.go``. A dictionary's value for a term is one of::

    00 | 62 bits address of a postings record     uv freq/norm block | uv location block | uv bytes | roaring bitmap
    10 | 31 bits norm | 31 bits document          the whole list: one document, frequency 1, no location ("1-hit")

and in a freq/norm chunk (see `dvcodec.zap.chunks`) stands for each posting, without its document number::

    uv frequency * 2 + has locations | uv norm    from version 15 on the norm only if the frequency is not 0

The norm is the bits of float32(1 / sqrt(field length)) up to version 14, the field length from version 15 on. Where a
list has no location at all, its address is 2**64 - 1 in version 12 and 0 from 13 on; version 11 always has a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, varints
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import ByteStrings, offsets_of
from dvcodec.zap import chunks
from dvcodec.zap.chunks import ChunkedBlocks
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import NOT, Footer
from dvcodec.zap.lists import Postings, cut_by_weight
from dvcodec.zap.locations import Locations, decode_locations, encode_locations
from dvcodec.zap.norms import NORM_IS_LENGTH_FROM

__all__ = [
    "ONE_HIT_DOCS",
    "ONE_HIT_NORMS",
    "POSTINGS_AT_ONCE",
    "Records",
    "decode_postings",
    "decode_records",
    "encode_one_hits",
    "encode_postings",
]

Values = NDArray[np.uint64]
Index = NDArray[np.int64]
ONE_HIT_DOCS = 1 << 31
ONE_HIT_NORMS = 1 << 31
"""A 1-hit holds document numbers and norms below these."""
LOCATIONS_WITHIN_FREQ = 14
"""Up to this version zapx panics at more locations than the frequency."""
_ALWAYS_BLOCK, _NOT_IS_NONE = 11, 12
_KIND = np.uint64(62)
_ADDRESS = np.uint64((1 << 62) - 1)
_ONE_HIT = 2
POSTINGS_AT_ONCE = 1 << 16
"""Postings that are decoded or encoded together: what is made of so many stays in the processor's caches."""
_RECORD_ROOM = 3 * varints.MAX_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """What the dictionary values of many terms lead to; arrays have one entry a term.

    Attributes:
        one_hit: bool, whether the value is the whole postings list; then the next four are not used.
        freq_at: int64, address of the freq/norm block.
        location_at: int64, address of the location block, -1 if there is none.
        bitmap_at: int64, address of the bitmap.
        bitmap_size: int64, its bytes.
        counts: int64, postings, as the bitmap's descriptors announce them.
        chunk_docs: int64, documents of a chunk.
        chunks: int64, chunks of the freq/norm block, and of the location block if there is one.
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

    def cuts(self, most: int = POSTINGS_AT_ONCE) -> Iterator[tuple[int, int]]:
        """Cut the terms into parts ``[start, stop)`` of at most so many postings and chunks, or of one term."""
        yield from cut_by_weight(self.counts + self.chunks, most)


def decode_records(data: SegmentData, footer: Footer, values: Values) -> Records:
    """Read the postings records that dictionary values point at, and how many postings each has.

    Raises:
        NotCanonical: a reserved kind of value, a document that the segment does not have, a list without a
            posting or with more than there are documents.
        Truncated: an address or a size leaves the bytes in front of the footer.
    """
    kinds = values >> _KIND
    one_hit = kinds == _ONE_HIT
    bad = np.flatnonzero(kinds & np.uint64(1))
    if len(bad):
        raise data.error("dictionary value", data.end, expected="kind 00 or 10", actual=hex(int(values[bad[0]])))
    bad = np.flatnonzero(one_hit & ((values & np.uint64(ONE_HIT_DOCS - 1)) >= footer.num_docs))
    if len(bad):
        doc = int(values[bad[0]]) & ONE_HIT_DOCS - 1
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
    absent = (location_at == np.uint64(none)) & (footer.version != _ALWAYS_BLOCK)
    for what, found in (
        ("address of a freq/norm block", freq_at),
        ("address of a location block", np.where(absent, np.uint64(0), location_at)),
    ):
        bad = np.flatnonzero(found >= data.end)
        if len(bad):
            i = int(bad[0])
            raise data.error(what, int(addresses[i]), expected=f"below {data.end}", actual=int(found[i]))
    bad = np.flatnonzero(sizes > (data.end - at).astype(np.uint64))
    if len(bad):
        raise data.outside("bitmap", int(at[bad[0]]), int(sizes[bad[0]]))
    bitmap_size = sizes.astype(np.int64)
    _refuse_overlap(data, "bitmaps", bitmap_size)
    bitmap_window = data.around(at, bitmap_size, "bitmap")
    counts = bitmaps.cardinalities(bitmap_window, at - bitmap_window.base, bitmap_size)
    bad = np.flatnonzero((counts == 0) | (counts > footer.num_docs))
    if len(bad):
        i = int(bad[0])
        raise data.error("postings of a term", int(at[i]), expected=f"1 to {footer.num_docs}", actual=int(counts[i]))
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
    """Refuse lists that can only have room where others are: everything that is allocated is bounded by the file."""
    if int(sizes.sum()) > data.end:
        raise data.error(f"{what} of a dictionary", 0, expected=f"at most {data.end} bytes", actual=int(sizes.sum()))


def decode_postings(
    data: SegmentData, footer: Footer, num_fields: int, records: Records, *, locations: bool = False
) -> Postings:
    """Read postings lists.

    Args:
        data: the segment.
        footer: its footer.
        num_fields: its fields.
        records: the lists, of `decode_records`; what is allocated is what their `counts` say.
        locations: whether to read the locations too.

    Raises:
        Truncated, NotCanonical: as `bitmaps.expand` and `chunks.read_blocks`; a document that the segment does not
            have; chunks with more or fewer entries than postings; more locations than the frequency (up to version
            14, where zapx panics).
    """
    some = records[~records.one_hit] if records.one_hit.any() else records
    found = _decode_general(data, footer, num_fields, some, locations)
    return found if some is records else _add_one_hits(found, records)


def _add_one_hits(found: Postings, records: Records) -> Postings:
    bounds = offsets_of(records.counts)
    here = bounds[:-1][records.one_hit]
    rest = np.ones(int(bounds[-1]), np.bool_)
    rest[here] = False
    values = records.values[records.one_hit]

    def place(of_general: NDArray[Any], of_one_hits: Any) -> NDArray[Any]:
        out = np.empty(len(rest), of_general.dtype)
        out[rest], out[here] = of_general, of_one_hits
        return out

    return Postings(
        records.counts,
        place(found.docs, (values & np.uint64(ONE_HIT_DOCS - 1)).astype(np.int64)),
        place(found.freqs, 1),
        place(found.norms, values >> np.uint64(31) & np.uint64(ONE_HIT_NORMS - 1)),
        place(found.location_counts, 0),
        found.locations,
    )


def _decode_general(
    data: SegmentData, footer: Footer, num_fields: int, records: Records, with_locations: bool
) -> Postings:
    none = np.zeros(0, np.uint64)
    if not len(records):
        index = np.zeros(0, np.int64)
        return Postings(records.counts, index, none, none, index, Locations.none())
    window = data.around(records.bitmap_at, records.bitmap_size, "bitmap")
    found, counts = bitmaps.expand(window, records.bitmap_at - window.base, records.bitmap_size)
    docs = found.astype(np.int64)
    lasts = docs[np.cumsum(counts) - 1]
    bad = np.flatnonzero((lasts >= footer.num_docs) | (counts != records.counts))
    if len(bad):
        i = int(bad[0])
        raise data.error(
            "document number", int(records.bitmap_at[i]), expected=f"below {footer.num_docs}", actual=int(lasts[i])
        )
    num_chunks, bounds = chunks.cut_postings(docs, counts, records.chunk_docs, footer.num_docs)
    blocks = chunks.read_blocks(data, records.freq_at, num_chunks, "freq/norm")
    freqs, norms = _decode_freqs(footer.version, blocks, np.diff(bounds))
    has_locations = (freqs & np.uint64(1)).astype(np.bool_)
    freqs >>= np.uint64(1)
    location_counts = np.zeros(len(docs), np.int64)
    locations = Locations.none()
    located = offsets_of(has_locations)
    has_block = records.location_at >= 0
    bad = np.flatnonzero((np.diff(located[offsets_of(counts)]) > 0) & ~has_block)
    if len(bad):
        at = int(records.bitmap_at[bad[0]])
        raise data.error("postings with locations", at, expected="an address of a location block", actual="none")
    if with_locations:
        lists = np.flatnonzero(has_block)
        blocks = chunks.read_blocks(data, records.location_at[lists], num_chunks[lists], "location")
        expected = np.diff(located[bounds])[np.repeat(has_block, num_chunks)]
        found_counts, locations = decode_locations(blocks, expected, freqs[has_locations], num_fields)
        location_counts[has_locations] = found_counts
        if footer.version <= LOCATIONS_WITHIN_FREQ:
            bad = np.flatnonzero(location_counts.astype(np.uint64) > freqs)
            if len(bad):
                owner = int(np.searchsorted(np.cumsum(counts), bad[0], side="right"))
                raise data.error(
                    "locations of a posting",
                    int(records.location_at[owner]),
                    expected=f"at most {int(freqs[bad[0]])}, its frequency",
                    actual=int(location_counts[bad[0]]),
                )
    return Postings(counts, docs, freqs, norms, location_counts, locations)


def _decode_freqs(version: int, blocks: ChunkedBlocks, per_chunk: Index) -> tuple[Values, Values]:
    """Split the varints of freq/norm chunks; frequencies still carry their lowest bit."""
    values, firsts = blocks.values, blocks.firsts
    if version < NORM_IS_LENGTH_FROM:
        blocks.expect("numbers of a freq/norm chunk", np.diff(firsts), 2 * per_chunk)
        return values[0::2].copy(), values[1::2].copy()
    if (np.diff(firsts) == 2 * per_chunk).all() and (values[::2] >= 2).all():  # as in all fields that count
        return values[::2].copy(), values[1::2].copy()
    # A frequency below 1 has no norm, so an entry is one number or two. Whichever a number below 2 is, a frequency
    # of 0 or a norm, it ends its entry: between such numbers (and chunk starts) frequencies and norms alternate.
    index = np.arange(len(values))
    restarts = np.zeros(len(values) + 1, np.int64)
    restarts[1:][values < 2] = index[values < 2] + 1
    restarts[firsts] = firsts
    leads = (index - np.maximum.accumulate(restarts[:-1])) % 2 == 0
    heads = np.flatnonzero(leads)
    before = offsets_of(leads)
    blocks.expect("entries of a freq/norm chunk", before[firsts[1:]] - before[firsts[:-1]], per_chunk)
    has_norm = values[heads] >= 2
    closed = np.append(~leads, False)[heads + 1]
    bad = np.flatnonzero(has_norm & ~closed)
    if len(bad):
        raise blocks.cursor.error(
            NotCanonical, "norm", at=int(blocks.edges[heads[bad[0]]]), expected="a norm behind the frequency"
        )
    norms = np.zeros(len(heads), np.uint64)
    norms[has_norm] = values[heads[has_norm] + 1]
    return values[heads], norms


def encode_one_hits(docs: Index, norms: Values) -> Values:
    """Encode dictionary values that are the whole postings list."""
    values: Values = np.uint64(_ONE_HIT << 62) | norms << np.uint64(31) | docs.astype(np.uint64)
    return values


def encode_postings(footer: Footer, postings: Postings, base: int) -> tuple[NDArray[np.uint8], Values]:
    """Encode postings lists: for each its freq/norm block, its location block, its record.

    Args:
        footer: version, chunk mode and number of documents.
        postings: the lists; none is empty.
        base: address of the first byte.

    Returns:
        the bytes, and uint64[terms], address of each record: the dictionary's values.
    """
    version, counts, docs = footer.version, postings.counts, postings.docs
    sizes = chunks.chunk_sizes(version, footer.chunk_mode, footer.num_docs, counts)
    num_chunks, bounds = chunks.cut_postings(docs, counts, sizes, footer.num_docs)
    entries = _encode_freqs(version, postings)
    freq_blocks = chunks.encode_blocks(num_chunks, np.diff(entries.offsets[bounds]), entries.data)
    has_block = np.full(len(counts), version == _ALWAYS_BLOCK)
    has_block |= np.add.reduceat(np.append(postings.location_counts, 0), offsets_of(counts)[:-1]) > 0
    located = encode_locations(postings.location_counts, postings.locations)
    kept = np.repeat(has_block, num_chunks)
    location_blocks = chunks.encode_blocks(num_chunks[has_block], np.diff(located.offsets[bounds])[kept], located.data)
    location_sizes = np.zeros(len(counts), np.int64)
    location_sizes[has_block] = location_blocks.lengths
    rooms = ByteStrings(offsets_of(location_sizes), location_blocks.data)
    bitmap = bitmaps.serialize(docs, counts)
    addresses, heads = _place(version, base, freq_blocks.lengths, location_sizes, bitmap.lengths)
    return chunks.interleave([freq_blocks, rooms, heads, bitmap]).data, addresses


def _encode_freqs(version: int, postings: Postings) -> ByteStrings:
    """Encode the freq/norm entry of each posting."""
    has_norm = np.ones(len(postings), np.bool_) if version < NORM_IS_LENGTH_FROM else postings.freqs > 0
    heads = offsets_of(1 + has_norm.astype(np.int64))
    numbers = np.empty(int(heads[-1]), np.uint64)
    numbers[heads[:-1]] = postings.freqs << np.uint64(1) | (postings.location_counts > 0)
    numbers[heads[:-1][has_norm] + 1] = postings.norms[has_norm]
    data, sizes = varints.encode(numbers)
    return ByteStrings(offsets_of(sizes)[heads], data)


def _place(
    version: int, base: int, freq_sizes: Index, location_sizes: Index, bitmap_sizes: Index
) -> tuple[Values, ByteStrings]:
    """Find the address of each record, and encode the three numbers in front of its bitmap.

    These numbers hold addresses, as varints; so where a list begins depends on how long the addresses of those before
    it are. Starting with the shortest form and lengthening what turns out too short ends at the one solution, after
    a few rounds, for addresses only grow.
    """
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
