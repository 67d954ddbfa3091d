"""Postings: the documents of a term, its frequency in each, and the norm of its field there.

Source: zapx ``posting.go``, ``new.go`` (``writePostings``), ``merge.go``. A dictionary's value for a term is one of::

    00 | 62 bits address of a postings record     uv freq/norm block | uv location block | uv bytes | roaring bitmap
    10 | 31 bits norm | 31 bits document          the whole list: one document, frequency 1, no location ("1-hit")

Without locations, the address of the location block is 2**64 - 1 in version 12 and 0 from 13 on; version 11 always has
a block. The bitmap has the documents. A freq/norm chunk (`dvcodec.zap.chunks`) has for each posting::

    uv frequency * 2 + has locations | uv norm    from version 15 on the norm only if the frequency is not 0

Locations of terms in documents, and norms: the length of a field in a document, for scoring.

Source: zapx ``posting.go`` (``readLocation``), ``new.go``. In a location chunk, for each posting that has any::

    uv bytes that follow | locations: uv field | uv position | uv start | uv end | uv n | n * uv array position

The number of locations is not stored. The field is that of the token, which differs in composite fields. Norms are
stored up to version 14 as the bits of float32(1 / sqrt(field length)), from 15 on as the field length, in tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import bitmaps, jit, varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import ByteStrings, Index, Values, cut_by_weight, gather, offsets_of, spread
from dvcodec.zap import chunks, kernels
from dvcodec.zap.chunks import ChunkedBlocks, interleave
from dvcodec.zap.footer import NOT, Footer, SegmentData

_HEAD = 5
"""Numbers of a location before its array positions."""


@dataclass(frozen=True, slots=True, eq=False)
class Locations:
    """Locations of many postings, in the order of the postings.

    Attributes:
        fields: int64[n], id of the token's field.
        positions: uint64[n], of the token, 1-based.
        starts: uint64[n], first byte in the field's value.
        ends: uint64[n], byte after the last.
        array_counts: int64[n], number of array positions of each.
        array_positions: uint64, array positions of all.
    """

    fields: Index
    positions: Values
    starts: Values
    ends: Values
    array_counts: Index
    array_positions: Values

    @classmethod
    def none(cls) -> Locations:
        """Return no locations."""
        index, values = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        return cls(index, values, values, values, index, values)

    @classmethod
    def concat(cls, parts: list[Locations]) -> Locations:
        """Concatenate locations."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def least_bytes(self) -> int:
        """Bytes in the segment, at least: every number takes one."""
        return _HEAD * len(self) + len(self.array_positions)

    def part(self, start: int, stop: int) -> Locations:
        """Return a slice, not copied.

        Args:
            start: the first occurrence.
            stop: the one after the last.
        """
        first, last = offsets_of(self.array_counts)[[start, stop]].tolist()
        return self._at(slice(start, stop), self.array_positions[first:last])

    def take(self, index: Index) -> Locations:
        """Return the locations at these indices."""
        firsts = offsets_of(self.array_counts)[:-1]
        return self._at(index, gather(self.array_positions, firsts[index], self.array_counts[index]))

    def _at(self, index: slice | Index, arrays: Values) -> Locations:
        columns = [getattr(self, name)[index] for name in self.__slots__[:-1]]
        columns.append(arrays)
        return Locations(*columns)


def decode_locations(
    blocks: ChunkedBlocks, per_chunk: Index, freqs: Values, num_fields: int
) -> tuple[Index, Locations]:
    """Read the locations of the postings that have any.

    Args:
        blocks: the location chunks.
        per_chunk: int64[chunks], postings with locations in each chunk.
        freqs: uint64[n], frequency of each of these postings.
        num_fields: fields of the segment.

    Returns:
        int64[n], locations of each posting, and the locations.

    Raises:
        NotCanonical: entries that do not fill their chunk, locations that do not fill their entry, or a field that the
            segment does not have.
    """
    plain = _plain(blocks, per_chunk, freqs)
    counts, heads, arrays = _any(blocks, per_chunk) if plain is None else plain
    fields, positions, starts, ends, sizes = heads.T
    if (i := first_true(fields >= num_fields)) is not None:
        posting = np.searchsorted(np.cumsum(counts), i, side="right")
        chunk = int(np.searchsorted(np.cumsum(per_chunk), posting, side="right"))
        raise blocks.error("field of a location", chunk, expected=f"below {num_fields}", actual=fields[i])
    return counts, Locations(
        fields.astype(np.int64), positions.copy(), starts.copy(), ends.copy(), sizes.astype(np.int64), arrays
    )


def _plain(blocks: ChunkedBlocks, per_chunk: Index, freqs: Values) -> tuple[Index, Values, Values] | None:
    """Read the locations if every posting has as many as its frequency, and none has array positions.

    Text fields are like that. All positions then follow from `freqs`; the result is correct if every entry has the
    length that it states and the entries fill their chunks.

    Returns:
        As `_any`; None in other cases.
    """
    values, edges = blocks.values, blocks.edges
    if len(freqs) and int(freqs.max()) > len(values):
        return None
    counts = freqs.astype(np.int64)
    places = offsets_of(1 + _HEAD * counts)
    if places[-1] != blocks.firsts[-1] or (places[offsets_of(per_chunk)] != blocks.firsts).any():
        return None
    sizes = places[:-1]
    if (values[sizes] != (edges[places[1:]] - edges[sizes + 1]).astype(np.uint64)).any():
        return None
    inside = np.ones(len(values), np.bool_)
    inside[sizes] = False
    heads = values[inside].reshape(-1, _HEAD)
    return None if heads[:, -1].any() else (counts, heads, values[:0])


def _any(blocks: ChunkedBlocks, per_chunk: Index) -> tuple[Index, Values, Values]:
    """Follow the entries of all chunks, then the locations of all entries.

    Returns:
        int64[postings], number of locations; uint64[locations, 5], their fixed numbers; and all array positions.
    """
    values, edges = blocks.values, blocks.edges
    entries, chunk, bad = chunks.sized(values, edges[1:], blocks.firsts[:-1], blocks.firsts[1:])
    if bad >= 0:
        raise blocks.error("bytes of a location entry", bad, expected="entries that fill the chunk")
    blocks.expect("postings with locations", np.bincount(chunk, minlength=len(per_chunk)), per_chunk)
    sizes = values[entries].astype(np.int64)
    stops = np.searchsorted(edges, edges[entries + 1] + sizes)
    begins, owner, bad = chunks.counted(values, entries + 1, stops, _HEAD)
    if bad >= 0:
        raise blocks.error("location", int(chunk[bad]), expected="locations that fill their entry")
    heads = values[begins[:, None] + np.arange(_HEAD)]
    return (
        np.bincount(owner, minlength=len(entries)),
        heads,
        gather(values, begins + _HEAD, heads[:, -1].astype(np.int64)),
    )


def encode_locations(counts: Index, locations: Locations) -> ByteStrings:
    """Encode the entry of each posting; empty if it has no locations.

    Args:
        counts: int64[n], locations of each posting.
        locations: locations of all.
    """
    firsts = offsets_of(_HEAD + locations.array_counts)
    heads = np.empty((len(locations), _HEAD), np.uint64)
    columns = (locations.fields, locations.positions, locations.starts, locations.ends, locations.array_counts)
    for k, column in enumerate(columns):
        heads[:, k] = column
    numbers = heads.ravel()
    if len(locations.array_positions):
        numbers = np.empty(int(firsts[-1]), np.uint64)
        numbers[spread(firsts[:-1], np.full(len(heads), _HEAD))] = heads.ravel()
        numbers[spread(firsts[:-1] + _HEAD, locations.array_counts)] = locations.array_positions
    body, lengths = varints.encode(numbers)
    bodies = ByteStrings(offsets_of(lengths)[firsts[offsets_of(counts)]], body)
    some = np.flatnonzero(counts)
    prefixes, prefix_sizes = varints.encode(bodies.lengths[some])
    lengths = np.zeros(len(counts), np.int64)
    lengths[some] = prefix_sizes
    return interleave([ByteStrings(offsets_of(lengths), prefixes), bodies])


NORM_IS_LENGTH_FROM = 15
_LENGTH_BITS = np.uint64(0xFFFFFFFF)


def norms_from_lengths(version: int, lengths: Values) -> Values:
    """Return norms as a version stores them, from field lengths in tokens."""
    if version < NORM_IS_LENGTH_FROM:
        return _of_lengths(lengths).view(np.uint32).astype(np.uint64)
    kept: Values = lengths & _LENGTH_BITS
    return kept


def norm_values(version: int, norms: Values) -> NDArray[np.float32]:
    """Return norms as zapx reports them: float32(1 / sqrt(field length)); a length of 0 is infinity.

    Args:
        version: version of the segment, 11 to 17.
        norms: uint64, as stored: below version 15 the bits of the float32, from then on the length in tokens.
    """
    if version < NORM_IS_LENGTH_FROM:
        return norms.astype(np.uint32).view(np.float32)
    return _of_lengths(norms & _LENGTH_BITS)


def _of_lengths(lengths: Values) -> NDArray[np.float32]:
    """Return float32(1 / sqrt(length)), computed in double and rounded."""
    with np.errstate(divide="ignore"):
        return (1.0 / np.sqrt(lengths.astype(np.float64))).astype(np.float32)


def convert_norms(norms: Values, source: int, target: int) -> Values:
    """Convert stored norms between versions.

    Field lengths up to 4 million tokens survive the conversion to float32; above, neighbouring lengths share a norm.
    """
    if (source < NORM_IS_LENGTH_FROM) == (target < NORM_IS_LENGTH_FROM):
        return norms
    if target < NORM_IS_LENGTH_FROM:
        return norm_values(source, norms).view(np.uint32).astype(np.uint64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # any bit pattern is possible
        floats = norm_values(source, norms).astype(np.float64)
        lengths = np.rint(1.0 / (floats * floats))
    return np.where(np.isfinite(lengths) & (lengths < 2**32), lengths, 0).astype(np.uint64)


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
_NEAR, _ADJACENT = 1 << 20, 16
"""Lists that span more bytes, and more than this many times their least, are not read in one window."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Postings lists of many terms, concatenated; documents ascend in each list.

    Attributes:
        counts: int64[terms], postings of each term.
        docs: int64[n], document numbers.
        freqs: uint64[n], frequency of the term in the document; 0 if the field does not store frequencies.
        norms: uint64[n], as stored: see `norm_values`; 0 for none.
        location_counts: int64[n], locations of each posting; all 0 if locations were not requested.
        locations: locations of all postings.
    """

    counts: Index
    docs: Index
    freqs: Values
    norms: Values
    location_counts: Index
    locations: Locations

    def __len__(self) -> int:
        return len(self.docs)

    @property
    def owner(self) -> Index:
        """int64[n], index of each posting's term."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @classmethod
    def none(cls) -> Postings:
        """Return no lists."""
        index, values = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        return cls(index, index, values, values, index, Locations.none())

    @classmethod
    def concat(cls, parts: list[Postings]) -> Postings:
        """Concatenate lists."""
        parts = [cls.none(), *parts]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__[:-1]}
        return cls(**columns, locations=Locations.concat([part.locations for part in parts]))

    def take(self, order: Index, counts: Index) -> Postings:
        """Return some postings as new lists.

        Args:
            order: int64[m], indices of the postings.
            counts: int64, number of postings in each new list.
        """
        located = self.location_counts[order]
        places = spread(offsets_of(self.location_counts)[:-1][order], located)
        return Postings(
            counts,
            self.docs[order],
            self.freqs[order],
            self.norms[order],
            located,
            self.locations.take(places) if len(self.locations) else self.locations,
        )

    def lists(self, part: slice | NDArray[np.bool_]) -> Postings:
        """Return the lists of some terms, by slice (not copied) or mask."""
        if isinstance(part, slice):
            first, last, _ = part.indices(len(self.counts))
            start, stop = offsets_of(self.counts)[[first, last]].tolist()
            located = offsets_of(self.location_counts)[[start, stop]].tolist()
            return Postings(
                self.counts[part],
                self.docs[start:stop],
                self.freqs[start:stop],
                self.norms[start:stop],
                self.location_counts[start:stop],
                self.locations.part(*located),
            )
        terms = np.arange(len(self.counts))[part]
        counts = self.counts[terms]
        return self.take(spread(offsets_of(self.counts)[:-1][terms], counts), counts)


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
    if jit.worth(records.least_bytes):
        found = _decode_compiled(data, footer, num_fields, records, with_locations)
        if found is not None:
            return found
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


def _decode_compiled(
    data: SegmentData, footer: Footer, num_fields: int, records: Records, with_locations: bool
) -> Postings | None:
    """Read lists by compiled loops; None if these do not support them: then they may be corrupt."""
    stops = records.bitmap_at + records.bitmap_size
    starts = np.minimum(records.freq_at, records.bitmap_at)
    if with_locations:
        starts = np.where(records.location_at < 0, starts, np.minimum(starts, records.location_at))
    low, high = int(starts.min()), int(stops.max())
    if high - low > _NEAR + _ADJACENT * records.least_bytes:
        return None
    taken = jit.frozen(varints.bytes_of(data.window(low, high, "postings")))
    counts, chunk_docs = jit.frozen(records.counts), jit.frozen(records.chunk_docs)
    size = int(counts.sum())
    docs, freqs, norms = np.empty(size, np.int64), np.empty(size, np.uint64), np.empty(size, np.uint64)
    ended = kernels.read_lists.run(
        taken,
        jit.frozen(records.bitmap_at - low),
        jit.frozen(records.bitmap_size),
        jit.frozen(records.freq_at - low),
        counts,
        chunk_docs,
        footer.num_docs,
        footer.version < NORM_IS_LENGTH_FROM,
        docs,
        freqs,
        norms,
    )
    if ended != 0:
        return None
    has_locations = (freqs & np.uint64(1)).astype(np.bool_)
    if has_locations[np.repeat(records.location_at < 0, counts)].any():
        return None
    location_counts, locations = np.zeros(size, np.int64), Locations.none()
    if with_locations:
        # A posting seldom has more locations than its frequency, or a location more than two array positions.
        room = min(len(taken) // _HEAD, int(np.minimum(freqs[has_locations] >> np.uint64(1), len(taken)).sum()))
        fields, array_counts = np.empty(room, np.int64), np.empty(room, np.int64)
        heads = np.empty((3, room), np.uint64)
        arrays = np.empty(2 * room, np.uint64)
        found = kernels.read_locations.run(
            taken,
            jit.frozen(np.where(records.location_at < 0, -1, records.location_at - low)),
            counts,
            chunk_docs,
            footer.num_docs,
            num_fields,
            docs,
            freqs,
            location_counts,
            fields,
            heads,
            array_counts,
            arrays,
        )
        more = location_counts.astype(np.uint64) > freqs >> np.uint64(1)
        if found is None or found[0] < 0 or (footer.version <= LOCATIONS_WITHIN_FREQ and more.any()):
            return None
        n, used = found
        positions, begins, ends = heads[:, :n]
        locations = Locations(fields[:n], positions, begins, ends, array_counts[:n], arrays[:used])
    freqs >>= np.uint64(1)
    return Postings(records.counts, docs, freqs, norms, location_counts, locations)


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
