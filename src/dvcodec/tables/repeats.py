"""Vectors and data files that are stored once but recorded many times, which takes a few bytes each time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dvcodec.core.limits import SharedWork
from dvcodec.io.file_key import file_key
from dvcodec.tables.model import DataFile, DeletionVector

__all__ = ["charge_repeats", "charge_same_files"]

_VECTOR_WORK = 8192
"""Work of a small vector, as `Budget` counts it: an audit takes 0.3 ms for it."""
_FILE_WORK = 65_536
"""Work of a small data file: a delete takes 5 ms for it."""
_BYTES_PER_UNIT = 2
"""Bytes of a large vector for a unit of work: a container of ten bytes takes 0.2 µs and, while its rows are kept, 73
bytes of memory."""


def charge_same_files(files: Iterable[DataFile], work: SharedWork) -> None:
    """Charge data files that are another one with another spelling; writers have none.

    Args:
        files: those of a snapshot.
        work: of the table.

    Raises:
        LimitExceeded: there are more of them than the shared work of the table allows: about 250.
    """
    keys = Counter(file_key(file.location) for file in files)
    if len(keys) < keys.total():
        location = next(key for key, count in keys.items() if count > 1)
        work.draw(
            f"data files at {location}", (keys.total() - len(keys)) * _FILE_WORK, "data files in several spellings"
        )


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
