"""Checks of what encoders and writers of vectors are passed: row sets, and mappings of them."""

from __future__ import annotations

from collections.abc import Mapping

from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type

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
