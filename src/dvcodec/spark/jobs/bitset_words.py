"""Vectors as 64-bit words in chunks of rows, a form in which Spark's own expressions can look up a row.

A chunk is 4,096 rows of a data file. Chunks without deleted rows are omitted; of the others, the words from the first
to the last non-zero one are stored: a single row costs one word, a full chunk 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dvcodec.core.ragged import Index, cut_by_weight, gather, offsets_of
from dvcodec.core.roaring import BITSET_BYTES, BitmapView, pack_into
from dvcodec.spark.vectors import NamedVectors

CHUNK_BITS = 12
"""A chunk has ``1 << CHUNK_BITS`` rows."""
WORD_BITS = 6
"""A word has ``1 << WORD_BITS`` rows."""
ROW_BYTES = 200
"""Approximate bytes of a chunk in a broadcast table besides its words: its data file, keys, headers, a hash slot."""
_CHUNK_WORDS = 1 << (CHUNK_BITS - WORD_BITS)
_SMALL = 1 << 14
"""Vectors of at most this many rows are expanded in bulk; larger ones are converted container by container."""
_AT_ONCE = 1 << 20
"""Rows expanded at once."""
_CONTAINERS = 128
"""Containers converted at once, 8 KiB each."""


class Words(NamedTuple):
    """Chunks of vectors, one entry per chunk with deleted rows."""

    owner: Index
    """Index of the vector in the batch."""
    chunk: Index
    """``position >> CHUNK_BITS`` of its rows."""
    first: Index
    """Index of the first stored word of the chunk."""
    counts: Index
    """Number of stored words."""
    words: Index
    """The words of all chunks, concatenated: bit ``position & 63`` of each is a row."""


def estimated_bytes(cardinality: Index, low: Index, high: Index) -> int:
    """Estimate the bytes of the words of vectors in a broadcast table, assuming evenly spread rows.

    Args:
        cardinality: rows of each vector.
        low: its lowest position, negative if there is none.
        high: its highest position.
    """
    span = np.maximum((high >> CHUNK_BITS) - (low >> CHUNK_BITS) + 1, 0)
    chunks = np.minimum(cardinality, span).astype(np.float64)
    rows = cardinality / np.maximum(chunks, 1)
    # The lowest and highest of k random numbers are (k - 1) / (k + 1) of the range apart.
    words = 1 + (_CHUNK_WORDS - 1) * (rows - 1) / (rows + 1)
    return int((chunks * (ROW_BYTES + 8 * np.maximum(words, 1))).sum())


def words_of(vectors: NamedVectors) -> Iterator[Words]:
    """Yield the words of vectors in parts of bounded size."""
    cardinality = vectors.found.cardinality
    small = np.flatnonzero((cardinality > 0) & (cardinality <= _SMALL))
    for part in cut_by_weight(cardinality[small], _AT_ONCE):
        chosen = small[part]
        positions, counts = vectors.expand(chosen)
        yield _from_positions(np.repeat(chosen, counts), positions)
    for i in np.flatnonzero(cardinality > _SMALL).tolist():
        for key, view in vectors.read(i).view.bitmaps:
            for start in range(0, len(view.keys), _CONTAINERS):
                yield _from_containers(i, key, cut(view, slice(start, start + _CONTAINERS)))


def _from_positions(owner: Index, positions: Index) -> Words:
    """Set bits: positions ascend in each vector, and the rows of one vector follow one another."""
    index = positions >> WORD_BITS
    heads = _heads(owner, index)
    bits = np.left_shift(np.uint64(1), (positions & 63).astype(np.uint64))
    words = np.bitwise_or.reduceat(bits, heads).view(np.int64)
    owner, index = owner[heads], index[heads]
    chunk = index >> (CHUNK_BITS - WORD_BITS)
    bounds = np.append(_heads(owner, chunk), len(index))
    first, last = index[bounds[:-1]], index[bounds[1:] - 1]
    counts = last - first + 1
    out = np.zeros(int(counts.sum()), np.int64)
    out[index + np.repeat(offsets_of(counts)[:-1] - first, np.diff(bounds))] = words
    return Words(owner[bounds[:-1]], chunk[bounds[:-1]], first & (_CHUNK_WORDS - 1), counts, out)


def _heads(owner: Index, values: Index) -> Index:
    """Return where runs of equal pairs begin."""
    new = np.ones(len(values), np.bool_)
    new[1:] = (values[1:] != values[:-1]) | (owner[1:] != owner[:-1])
    return np.flatnonzero(new)


def cut(view: BitmapView, part: slice) -> BitmapView:
    """Return some containers of a bitmap, without a copy."""
    return replace(
        view,
        keys=view.keys[part],
        cards=view.cards[part],
        kinds=view.kinds[part],
        starts=view.starts[part],
        sizes=view.sizes[part],
    )


def _from_containers(owner: int, key: int, view: BitmapView) -> Words:
    """Convert containers to adjacent bitsets; runs are never expanded."""
    count = len(view.keys)
    packed = np.zeros(count * BITSET_BYTES, np.uint8)
    pack_into(replace(view, keys=np.arange(count, dtype=np.uint16)), packed, 0)
    table = packed.view("<i8").reshape(-1, _CHUNK_WORDS)
    filled = table != 0
    rows = np.flatnonzero(filled.any(axis=1))
    filled = filled[rows]
    first = filled.argmax(axis=1)
    counts = _CHUNK_WORDS - filled[:, ::-1].argmax(axis=1) - first
    in_container = 1 << (16 - CHUNK_BITS)
    chunks = (key << 16 | view.keys.astype(np.int64)) * in_container
    chunk = chunks[rows // in_container] + rows % in_container
    words = gather(table.ravel(), rows * _CHUNK_WORDS + first, counts)
    return Words(np.full(len(rows), owner), chunk, first, counts, words)
