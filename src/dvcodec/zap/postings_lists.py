"""Postings lists as columns: what every reader and writer of postings hands to the next.

Documents ascend in a list. A posting has the frequency of its term in a document, and the norm of its field there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import offsets_of, spread
from dvcodec.zap.locations import Locations

__all__ = ["Postings", "cut_by_weight"]

Values = NDArray[np.uint64]
Index = NDArray[np.int64]


def cut_by_weight(weights: Index, most: int) -> Iterator[tuple[int, int]]:
    """Cut a row of things into parts ``[start, stop)`` that weigh at most so much, or are one thing."""
    bounds = offsets_of(weights)
    start = 0
    while start < len(weights):
        stop = int(np.searchsorted(bounds, bounds[start] + most, side="right")) - 1
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Postings lists of many terms, one behind the other; in each, documents ascend.

    Attributes:
        counts: int64[terms], postings of each term.
        docs: int64[n], document numbers.
        freqs: uint64[n], frequency of the term in the document; 0 where the field does not count.
        norms: uint64[n], as stored: see `norm_values`; 0 where none is.
        location_counts: int64[n], locations of each posting; all 0 if locations were not requested.
        locations: those of all postings.
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
        """int64[n], place of each posting's term."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @classmethod
    def none(cls) -> Postings:
        """Return no lists."""
        index, values = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        return cls(index, index, values, values, index, Locations.none())

    @classmethod
    def concat(cls, parts: list[Postings]) -> Postings:
        """Put the lists of several one behind the other."""
        parts = [cls.none(), *parts]
        return cls(
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.docs for part in parts]),
            np.concatenate([part.freqs for part in parts]),
            np.concatenate([part.norms for part in parts]),
            np.concatenate([part.location_counts for part in parts]),
            Locations.concat([part.locations for part in parts]),
        )

    def take(self, order: Index, counts: Index) -> Postings:
        """Return the postings at these places, in that order, as lists of `counts`.

        Args:
            order: int64[m], places of postings in all lists together, 0-based.
            counts: int64, number of postings of each list of the result.
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
        """Return the lists of some terms: a slice of them, or those where a mask is True."""
        terms = np.arange(len(self.counts))[part]
        counts = self.counts[terms]
        return self.take(spread(offsets_of(self.counts)[:-1][terms], counts), counts)
