"""Postings: the documents of a term, its frequency in each, and the norm of its field there.

Source: zapx ``posting.go``, ``new.go`` (``writePostings``), ``merge.go``. A list is located by its
record (`dvcodec.zap.postings_records`), whose bitmap has the documents. A freq/norm chunk (`dvcodec.zap.chunks`) has
for each posting::

    uv frequency * 2 + has locations | uv norm    from version 15 on the norm only if the frequency is not 0

The norm is the bits of float32(1 / sqrt(field length)) up to version 14, the field length from version 15 on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import ByteStrings, Index, Values, offsets_of
from dvcodec.zap import chunks
from dvcodec.zap.chunks import ChunkedBlocks
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import Footer
from dvcodec.zap.locations import Locations, decode_locations, encode_locations
from dvcodec.zap.norms import NORM_IS_LENGTH_FROM
from dvcodec.zap.postings_lists import Postings
from dvcodec.zap.postings_records import ALWAYS_BLOCK, Records, decode_one_hits, place_records

__all__ = ["LOCATIONS_WITHIN_FREQ", "count_without", "decode_postings", "encode_postings"]

LOCATIONS_WITHIN_FREQ = 14
"""Up to this version zapx panics if a posting has more locations than its frequency."""
LENGTHY_CHUNKS = 17
"""The version in which chunks without entries may have a length; see `chunks.read_blocks`."""


def decode_postings(
    data: SegmentData, footer: Footer, num_fields: int, records: Records, *, locations: bool = False
) -> Postings:
    """Read postings lists.

    Args:
        data: the segment.
        footer: its footer.
        num_fields: number of its fields.
        records: records of the lists, from `decode_records`; their `counts` determine the memory.
        locations: whether to read the locations too.

    Raises:
        Truncated, NotCanonical: as `bitmaps.expand` and `chunks.read_blocks`; a document that the segment does not
            have; a chunk whose entries do not match its postings; more locations than the frequency (up to version
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
    docs, norms = decode_one_hits(records.values[records.one_hit])

    def place(of_general: NDArray[Any], of_one_hits: Any) -> NDArray[Any]:
        out = np.empty(len(rest), of_general.dtype)
        out[rest], out[here] = of_general, of_one_hits
        return out

    return Postings(
        records.counts,
        place(found.docs, docs),
        place(found.freqs, 1),
        place(found.norms, norms),
        place(found.location_counts, 0),
        found.locations,
    )


def _decode_general(
    data: SegmentData, footer: Footer, num_fields: int, records: Records, with_locations: bool
) -> Postings:
    if not len(records):
        return Postings.none()
    docs, counts = _expand(data, footer, records), records.counts
    num_chunks, bounds = chunks.cut_postings(docs, counts, records.chunk_docs, footer.num_docs)
    entries = np.diff(bounds)
    lengthy = footer.version == LENGTHY_CHUNKS
    blocks = chunks.read_blocks(data, records.freq_at, num_chunks, "freq/norm", entries=entries if lengthy else None)
    freqs, norms = _decode_freqs(footer.version, blocks, entries)
    has_locations = (freqs & np.uint64(1)).astype(np.bool_)
    freqs >>= np.uint64(1)
    location_counts = np.zeros(len(docs), np.int64)
    locations = Locations.none()
    located = offsets_of(has_locations)
    has_block = records.location_at >= 0
    if (i := first_true((np.diff(located[offsets_of(counts)]) > 0) & ~has_block)) is not None:
        at = records.bitmap_at[i]
        raise data.error("postings with locations", at, expected="an address of a location block", actual="none")
    if with_locations and has_block.any():
        lists = np.flatnonzero(has_block)
        expected = np.diff(located[bounds])[np.repeat(has_block, num_chunks)]
        blocks = chunks.read_blocks(
            data, records.location_at[lists], num_chunks[lists], "location", entries=expected if lengthy else None
        )
        found_counts, locations = decode_locations(blocks, expected, freqs[has_locations], num_fields)
        location_counts[has_locations] = found_counts
        more = location_counts.astype(np.uint64) > freqs
        if footer.version <= LOCATIONS_WITHIN_FREQ and (i := first_true(more)) is not None:
            at = records.location_at[np.searchsorted(np.cumsum(counts), i, side="right")]
            most = f"at most {freqs[i]}, its frequency"
            raise data.error("locations of a posting", at, expected=most, actual=location_counts[i])
    return Postings(counts, docs, freqs, norms, location_counts, locations)


def _expand(data: SegmentData, footer: Footer, records: Records) -> Index:
    """Return the documents of lists that are not in the dictionary."""
    window = data.around(records.bitmap_at, records.bitmap_size, "bitmap")
    found, counts = bitmaps.expand(window, records.bitmap_at - window.base, records.bitmap_size)
    docs = found.astype(np.int64)
    lasts = docs[np.cumsum(counts) - 1]
    if (i := first_true((lasts >= footer.num_docs) | (counts != records.counts))) is not None:
        raise data.error("document number", records.bitmap_at[i], expected=f"below {footer.num_docs}", actual=lasts[i])
    return docs


def count_without(data: SegmentData, footer: Footer, records: Records, deleted: NDArray[np.bool_]) -> Index:
    """Count the postings of lists without some documents; only bitmaps are read.

    Args:
        data: the segment.
        footer: its footer.
        records: records of the lists.
        deleted: bool[num_docs], whether each document is left out.

    Raises:
        Truncated, NotCanonical: as `bitmaps.expand`; a document that the segment does not have.
    """
    kept: Index = records.counts.copy()
    for cut in records.cuts():
        part = records[cut]
        kept[cut][part.one_hit] -= deleted[decode_one_hits(part.values[part.one_hit])[0]]
        if len(general := part[~part.one_hit]):
            before = offsets_of(deleted[_expand(data, footer, general)])
            kept[cut][~part.one_hit] -= np.diff(before[offsets_of(general.counts)])
    return kept


def _decode_freqs(version: int, blocks: ChunkedBlocks, per_chunk: Index) -> tuple[Values, Values]:
    """Split the varints of freq/norm chunks; frequencies still have the location bit."""
    values, firsts = blocks.values, blocks.firsts
    if version < NORM_IS_LENGTH_FROM:
        blocks.expect("numbers of a freq/norm chunk", np.diff(firsts), 2 * per_chunk)
        return values[0::2].copy(), values[1::2].copy()
    if (np.diff(firsts) == 2 * per_chunk).all() and (values[::2] >= 2).all():  # all fields that store frequencies
        return values[::2].copy(), values[1::2].copy()
    # A frequency of 0 has no norm, so an entry is one number or two. A number below 2 is a frequency of 0 or a norm and
    # ends its entry: between such numbers (and chunk starts) frequencies and norms alternate.
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
    if (i := first_true(has_norm & ~closed)) is not None:
        raise blocks.cursor.error(
            NotCanonical, "norm", at=blocks.edges[heads[i]], expected="a norm after the frequency"
        )
    norms = np.zeros(len(heads), np.uint64)
    norms[has_norm] = values[heads[has_norm] + 1]
    return values[heads], norms


def encode_postings(footer: Footer, postings: Postings, base: int) -> tuple[NDArray[np.uint8], Values]:
    """Encode postings lists, each as freq/norm block, location block and record.

    Args:
        footer: version, chunk mode and number of documents.
        postings: non-empty lists.
        base: address of the first byte.

    Returns:
        The bytes, and uint64[terms], address of each record: the values of the dictionary.
    """
    version, counts, docs = footer.version, postings.counts, postings.docs
    sizes = chunks.chunk_sizes(version, footer.chunk_mode, footer.num_docs, counts)
    num_chunks, bounds = chunks.cut_postings(docs, counts, sizes, footer.num_docs)
    entries = _encode_freqs(version, postings)
    freq_blocks = chunks.encode_blocks(num_chunks, np.diff(entries.offsets[bounds]), entries.data)
    has_block = np.full(len(counts), version == ALWAYS_BLOCK)
    has_block |= np.add.reduceat(np.append(postings.location_counts, 0), offsets_of(counts)[:-1]) > 0
    located = encode_locations(postings.location_counts, postings.locations)
    kept = np.repeat(has_block, num_chunks)
    location_blocks = chunks.encode_blocks(num_chunks[has_block], np.diff(located.offsets[bounds])[kept], located.data)
    location_sizes = np.zeros(len(counts), np.int64)
    location_sizes[has_block] = location_blocks.lengths
    rooms = ByteStrings(offsets_of(location_sizes), location_blocks.data)
    bitmap = bitmaps.serialize(docs, counts)
    addresses, heads = place_records(version, base, freq_blocks.lengths, location_sizes, bitmap.lengths)
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
