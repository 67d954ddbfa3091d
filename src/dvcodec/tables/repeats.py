"""Vectors that are stored once but recorded many times: each record takes a few bytes, and reads the vector again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dvcodec.core.limits import SharedWork
from dvcodec.tables.model import DeletionVector

__all__ = ["charge_repeats"]

_VECTOR_WORK = 8192
"""Work of a small vector, as `Budget` counts it: an audit takes 0.3 ms for it."""
_BYTES_PER_UNIT = 2
"""Bytes of a large vector for a unit of work: a container of ten bytes takes 0.2 µs and, while its rows are kept, 73
bytes of memory."""


def charge_repeats(vectors: Iterable[DeletionVector], work: SharedWork) -> None:
    """Charge the vectors that begin where another one begins; writers give each data file a vector of its own.

    Args:
        vectors: those of a snapshot. Inline ones are part of its metadata, and not charged here.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 2,000 small ones.
    """
    seen: set[tuple[str, int | None]] = set()
    repeats: Counter[str] = Counter()
    for vector in vectors:
        key = vector.location, vector.offset
        if key in seen and vector.path:
            repeats[vector.location] += _VECTOR_WORK + max(vector.size or 0, 0) // _BYTES_PER_UNIT
        seen.add(key)
    for location, units in repeats.items():
        work.draw(f"vectors of {location}", units, "vectors that are recorded more than once")
