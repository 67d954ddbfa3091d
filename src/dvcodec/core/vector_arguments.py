"""Checks of what encoders and writers of vectors are passed: row sets, mappings of them, and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dvcodec.core.frame import StoredFrame
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import as_count, check_type

__all__ = ["check_rows", "check_vectors", "checked_frames"]

_ROWS = "a RowSet (dvcodec.RowSet(positions) makes one)"


def check_rows(rows: object, name: str = "rows") -> None:
    """Refuse an argument that is not a row set.

    Raises:
        UsageError: it is not a `RowSet`.
    """
    check_type(rows, RowSet, name, _ROWS)


def check_vectors(vectors: object) -> None:
    """Refuse an argument that does not map data files to row sets.

    Raises:
        UsageError: it is not a mapping, a key is not a str, or a value is not a `RowSet`.
    """
    check_type(vectors, Mapping, "vectors", "a mapping of data files to row sets")
    for path, rows in vectors.items():  # type: ignore[attr-defined]  # a mapping, as just checked
        if not isinstance(path, str):
            check_type(path, str, "the data file of a vector", "a str")
        if not isinstance(rows, RowSet):
            check_rows(rows, f"vectors[{path!r:.200}]")


def checked_frames(vectors: Iterable[StoredFrame]) -> Iterator[StoredFrame]:
    """Yield frames, each after its types are checked; their bytes are not.

    Raises:
        UsageError: not an iterable of `StoredFrame`, a data file that is not a str, a cardinality that is not a count.
    """
    check_type(vectors, Iterable, "vectors", "an iterable of StoredFrame")
    return map(_checked_frame, vectors)


def _checked_frame(stored: StoredFrame) -> StoredFrame:
    check_type(stored, StoredFrame, "an item of vectors", "a StoredFrame")
    check_type(stored.data_file, (str, type(None)), "StoredFrame.data_file", "a str or None")
    as_count(stored.cardinality, "StoredFrame.cardinality")
    return stored
