"""Checks of row sets, and mappings of them."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec import RowSet, UsageError
from dvcodec.core.rowset import check_rows, check_vectors

ROWS = RowSet([1])


def test_rows() -> None:
    check_rows(ROWS)
    with pytest.raises(
        UsageError, match=r"^deleted must be a RowSet \(dvcodec\.RowSet\(positions\) makes one\), not set$"
    ):
        check_rows({1}, "deleted")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (None, "vectors must be a mapping of data files to row sets, not None"),
        ([("a", ROWS)], "vectors must be a mapping of data files to row sets, not list"),
        ({b"a": ROWS}, "the data file of a vector must be a str, not bytes"),
        ({"a": ROWS, "b": [1]}, r"vectors\['b'\] must be a RowSet \(.*\), not list"),
    ],
)
def test_other_vectors_are_refused(vectors: Any, message: str) -> None:
    with pytest.raises(UsageError, match=rf"^{message}$"):
        check_vectors(vectors)
