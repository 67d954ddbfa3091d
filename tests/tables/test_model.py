"""Vectors as metadata record them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dvcodec import UsageError
from dvcodec.core.location import DvLocation
from dvcodec.tables import DeletionVector

VECTOR = DeletionVector("iceberg", "a.parquet", "v.puffin", "/t/v.puffin", 4, 40, 5, 99)


def test_the_location_of_a_vector() -> None:
    assert VECTOR.to_location() == DvLocation("iceberg", "v.puffin", 4, 40, 5, "a.parquet", 99)


@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        ({"path": ""}, "inline vector of a.parquet"),
        ({"offset": None}, "v.puffin"),
        ({"size": None}, "v.puffin@4"),
        ({"cardinality": None}, "v.puffin@4"),
    ],
)
def test_a_vector_without_a_recorded_byte_range(lacking: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}: not a recorded byte range$"):
        replace(VECTOR, **lacking).to_location()
