"""Checks of row sets, mappings of them, and frames."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec import RowSet, StoredFrame, UsageError
from dvcodec.core.vector_arguments import check_rows, check_vectors, checked_frames

ROWS = RowSet([1])
FRAME = StoredFrame("a", 1, b"")


def test_rows() -> None:
    check_rows(ROWS)
    with pytest.raises(
        UsageError, match=r"^deleted must be a RowSet \(dvcodec\.RowSet\(positions\) makes one\), not set$"
    ):
        check_rows({1}, "deleted")


def test_vectors() -> None:
    check_vectors({})
    check_vectors({"a": ROWS})


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


def test_frames_are_checked_one_by_one() -> None:
    given: list[Any] = [FRAME, FRAME._replace(data_file=None), 5]
    frames = checked_frames(iter(given))
    assert [next(frames), next(frames)] == given[:2]
    with pytest.raises(UsageError, match=r"^an item of vectors must be a StoredFrame, not int$"):
        next(frames)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (5, "vectors must be an iterable of StoredFrame, not int"),
        ([tuple(FRAME)], "an item of vectors must be a StoredFrame, not tuple"),
        ([FRAME._replace(data_file=5)], r"StoredFrame\.data_file must be a str or None, not int"),  # type: ignore[arg-type]
        ([FRAME._replace(cardinality="1")], r"StoredFrame\.cardinality must be an integer, not str"),  # type: ignore[arg-type]
        ([FRAME._replace(cardinality=-1)], r"StoredFrame\.cardinality must be 0 or more, not -1"),
    ],
)
def test_other_frames_are_refused(frames: Any, message: str) -> None:
    with pytest.raises(UsageError, match=rf"^{message}$"):
        list(checked_frames(frames))
