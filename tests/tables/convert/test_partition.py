"""Partition values as Delta's log has them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cases import each
from dvcodec.core.errors import UsageError
from dvcodec.tables import DataFile
from dvcodec.tables.convert.record import partition_values
from dvcodec.tables.delta.partition import partition_scalar
from dvcodec.tables.metadata.partition_value import PartitionValue
from dvcodec.tables.rows.columns import Column

UTC = pa.timestamp("us", tz="UTC")


def spelled(kind: str, value: Any) -> str | None:
    return partition_values(DataFile("/t/a", "/t/a", 1, 1, "c=?", (PartitionValue("c", kind, value),)))["c"]


@each(
    ("kind", "value", "text", "arrow"),
    [
        ("boolean", True, "true", pa.bool_()),
        ("boolean", False, "false", pa.bool_()),
        ("int", -7, "-7", pa.int64()),
        ("float", float(np.float32(0.1)), "0.1", pa.float32()),
        ("double", 0.1, "0.1", pa.float64()),
        ("double", float("-inf"), "-Infinity", pa.float64()),
        ("double", float("nan"), "NaN", None),
        ("serialized", "", "", None),
        ("decimal", Decimal("-1E-9"), "-0.000000001", pa.decimal128(12, 9)),
        ("date", -719_162, "0001-01-01", pa.date32()),
        ("timestamp", 0, "1970-01-01 00:00:00", pa.timestamp("us")),
        ("timestamp", -1, "1969-12-31 23:59:59.999999", pa.timestamp("us")),
        ("timestamptz", 1, "1970-01-01T00:00:00.000001Z", UTC),
        ("string", "a/b=\u2603", "a/b=\u2603", pa.string()),
        ("string", None, None, pa.string()),
    ],
)
def test_texts_are_read_as_the_values(kind: str, value: Any, text: str | None, arrow: pa.DataType | None) -> None:
    assert spelled(kind, value) == text
    if arrow is not None:
        found = partition_scalar({"c": text}, Column("c", type=arrow), "file")
        assert found.equals(pa.scalar(value, arrow))


@each(
    ("kind", "value", "why"),
    [
        ("the type uuid", bytes(16), "has the type uuid, which Delta does not have"),
        ("the transform day", None, "has the transform day, which Delta does not have"),
        ("string", "", "is empty text"),
        ("date", -800_000, "is outside of the years 1 to 9999"),
        ("timestamp", 2**63 - 1, "is outside of the years 1 to 9999"),
        ("timestamptz", -(2**63), "is outside of the years 1 to 9999"),
    ],
)
def test_what_delta_does_not_have(kind: str, value: Any, why: str) -> None:
    with pytest.raises(UsageError, match=rf"/t/a: its partition value c {why}"):
        spelled(kind, value)
