"""Locations of terms in documents, and norms: the length of a field in a document, for scoring.

Source: zapx ``posting.go`` (``readLocation``), ``new.go``. In a location chunk, for each posting that has any::

    uv bytes that follow | locations: uv field | uv position | uv start | uv end | uv n | n * uv array position

The number of locations is not stored. The field is that of the token, which differs in composite fields. Norms are
stored up to version 14 as the bits of float32(1 / sqrt(field length)), from 15 on as the field length, in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import first_true
from dvcodec.core.ragged import ByteStrings, Index, Values, gather, offsets_of, spread
from dvcodec.zap import varlen_records
from dvcodec.zap.chunks import ChunkedBlocks, interleave

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

    def take(self, index: Index) -> Locations:
        """Return the locations at these indices."""
        firsts = offsets_of(self.array_counts)[:-1]
        counts = self.array_counts[index]
        return Locations(
            self.fields[index],
            self.positions[index],
            self.starts[index],
            self.ends[index],
            counts,
            gather(self.array_positions, firsts[index], counts),
        )


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
    entries, chunk, bad = varlen_records.sized(values, edges[1:], blocks.firsts[:-1], blocks.firsts[1:])
    if bad >= 0:
        raise blocks.error("bytes of a location entry", bad, expected="entries that fill the chunk")
    blocks.expect("postings with locations", np.bincount(chunk, minlength=len(per_chunk)), per_chunk)
    sizes = values[entries].astype(np.int64)
    stops = np.searchsorted(edges, edges[entries + 1] + sizes)
    begins, owner, bad = varlen_records.counted(values, entries + 1, stops, _HEAD)
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
