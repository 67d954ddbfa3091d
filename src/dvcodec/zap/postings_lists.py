"""Postings lists as columns, shared by all readers and writers of postings.

A posting is a document of a term, with the frequency of the term and the norm of the field in this document.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.ragged import Index, Values, offsets_of, spread
from dvcodec.zap.locations import Locations

__all__ = ["Postings"]


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
        """Return the lists of some terms, by slice or mask."""
        terms = np.arange(len(self.counts))[part]
        counts = self.counts[terms]
        return self.take(spread(offsets_of(self.counts)[:-1][terms], counts), counts)
