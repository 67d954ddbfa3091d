"""Compare verified vectors pairwise, many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import batch
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight
from dvcodec.spark.layouts import encode
from dvcodec.spark.vectors import VerifiedVectors

__all__ = ["POSITION_BITS", "Difference", "differences", "is_in"]


POSITION_BITS = 40
"""Vector code and position share 63 bits; larger positions take a slower path."""
_SMALL = 1 << 14
"""Pairs of at most this many rows are compared together with others."""
_AT_ONCE = 1 << 21
"""Positions expanded at once."""


Difference: TypeAlias = tuple[Index, tuple[Index, Index], tuple[ByteStrings, ByteStrings]]
"""Indices of pairs that differ, their numbers of added and restored positions, and the vectors of both."""


def differences(old: VerifiedVectors, new: VerifiedVectors) -> Iterator[Difference]:
    """Yield the pairs of vectors that differ in rows: rows only in `new` are added, rows only in `old` are restored."""
    sizes = old.found.cardinality + new.found.cardinality
    large = (sizes > _SMALL) | (np.maximum(old.found.max, new.found.max) >> POSITION_BITS > 0)
    small = np.flatnonzero(~large)
    for part in cut_by_weight(sizes[small] + 1, _AT_ONCE):
        chosen = small[part]
        keys = [_keys(side, chosen) for side in (old, new)]
        found = [keys[1][~is_in(keys[1], keys[0])], keys[0][~is_in(keys[0], keys[1])]]
        counts = [np.bincount(left >> POSITION_BITS, minlength=len(chosen)).astype(np.int64) for left in found]
        differ = np.flatnonzero(counts[0] + counts[1])
        positions = [left & ((1 << POSITION_BITS) - 1) for left in found]
        frames = [batch.encode(values, count).take(differ) for values, count in zip(positions, counts, strict=True)]
        yield chosen[differ], (counts[0][differ], counts[1][differ]), (frames[0], frames[1])
    for i in np.flatnonzero(large).tolist():
        before, after = old.load(i), new.load(i)
        added, restored = after - before, before - after
        if added or restored:
            cards = np.array([len(added)]), np.array([len(restored)])
            yield (
                np.array([i]),
                cards,
                (ByteStrings.from_list([encode(added)]), ByteStrings.from_list([encode(restored)])),
            )


def _keys(side: VerifiedVectors, chosen: Index) -> Index:
    """Return the positions of some vectors as ascending numbers that include the vector's code."""
    positions, counts = side.expand(chosen)
    return np.asarray(np.repeat(np.arange(len(chosen)) << POSITION_BITS, counts) | positions)


def is_in(wanted: Index, keys: Index) -> NDArray[np.bool_]:
    """Return which of `wanted` are among `keys`, which ascend."""
    if not len(keys):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[places] == wanted)
