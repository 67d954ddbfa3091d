"""Partition values from their text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec.core.errors import NotCanonical
from dvcodec.tables.delta.rows import in_folders, partition_scalar
from dvcodec.tables.metadata.json_fields import PartitionValue
from dvcodec.tables.model import DataFile
from dvcodec.tables.rows.columns import Column

UTC = pa.timestamp("us", tz="UTC")


def scalar(text: str | None, kind: pa.DataType) -> Any:
    found = partition_scalar({"col-1": text}, Column("p", physical_name="col-1", type=kind), "file")
    assert found.type == kind
    return found.as_py()


@each(
    ("text", "kind", "value"),
    [
        ("50% #1", pa.string(), "50% #1"),
        ("-128", pa.int8(), -128),
        ("7", pa.int16(), 7),
        ("7", pa.int32(), 7),
        (str(-(2**63)), pa.int64(), -(2**63)),
        ("1.5", pa.float32(), 1.5),
        ("1.0E10", pa.float64(), 1e10),
        ("-Infinity", pa.float64(), float("-inf")),
        ("true", pa.bool_(), True),
        ("false", pa.bool_(), False),
        ("2026-01-31", pa.date32(), dt.date(2026, 1, 31)),
        ("234", pa.decimal128(12, 5), Decimal("234.00000")),
        ("2E+2", pa.decimal128(12, 5), Decimal("200.00000")),
        ("-2342342.23423", pa.decimal128(12, 5), Decimal("-2342342.23423")),
        ("\x01é", pa.binary(), b"\x01\xc3\xa9"),
        ("2013-07-05 17:01:00.123456", pa.timestamp("us"), dt.datetime(2013, 7, 5, 17, 1, 0, 123456)),  # noqa: DTZ001
        ("2013-07-05 17:01:00", UTC, dt.datetime(2013, 7, 5, 17, 1, tzinfo=dt.timezone.utc)),
        ("2013-07-05T17:01:00.5Z", UTC, dt.datetime(2013, 7, 5, 17, 1, 0, 500000, dt.timezone.utc)),
    ],
)
def test_values(text: str, kind: pa.DataType, value: object) -> None:
    assert scalar(text, kind) == value


@pytest.mark.parametrize("kind", [pa.string(), pa.int32(), pa.date32(), UTC, pa.null()])
def test_nulls(kind: pa.DataType) -> None:
    assert scalar(None, kind) is None
    assert scalar("", kind) is None


@each(
    ("text", "kind"),
    [
        ("128", pa.int8()),
        ("1.5", pa.int32()),
        ("yes?", pa.bool_()),
        ("2026-02-31", pa.date32()),
        ("now", UTC),
        ("1234", pa.decimal128(5, 2)),
        ("0.001", pa.decimal128(5, 2)),
        ("1E-999999999", pa.decimal128(5, 2)),
        ("1E+999999999", pa.decimal128(5, 2)),
        ("NaN", pa.decimal128(5, 2)),
        ("x", pa.null()),
        ("[1]", pa.list_(pa.int64())),
        ("\ud800", pa.binary()),
    ],
)
def test_invalid_values_are_refused(text: str, kind: pa.DataType) -> None:
    with pytest.raises(NotCanonical, match=r"^file: partitionValues\.col-1: expected"):
        scalar(text, kind)


def test_a_value_that_is_not_recorded() -> None:
    column = Column("p", physical_name="col-1", type=pa.int32())
    with pytest.raises(NotCanonical, match=r"^file: partitionValues\.col-1: expected a string or null, found nothing"):
        partition_scalar({"p": "7"}, column, "file")


@each(
    ("path", "kind", "found"),
    [
        ("p=1/q=a%2Fb=%25/f.parquet", pa.int64(), True),
        ("p=1/q=a%2Fb=%25/f.parquet", pa.date32(), True),
        ("p=1/q=a%2Fb=%25/f.parquet", pa.float64(), False),
        ("p=1/q=a%2Fb=%25/f.parquet", UTC, False),
        ("p=1/q=%C5%BC/f.parquet", pa.int64(), True),
        ("p=2/q=a%2Fb=%25/f.parquet", pa.int64(), False),
        ("p=1/f.parquet", pa.int64(), False),
        ("xY/f.parquet", pa.int64(), False),
        ("s3://lake/t/p=1/q=a/f.parquet", pa.int64(), False),
    ],
)
def test_values_that_spark_reads_from_the_names_of_folders(path: str, kind: pa.DataType, found: bool) -> None:
    values = (PartitionValue("p", "serialized", "1"), PartitionValue("q", "serialized", "a/b=%"))
    file = DataFile(path, path, 1, partition_values=values)
    assert in_folders(file, [Column("p", type=kind)]) is found
    both = [Column("p", type=pa.int64()), Column("q", type=pa.string())]
    assert in_folders(file, both) is ("q=a%2Fb=%25" in path and "p=1" in path)
    assert not in_folders(file, [Column("p", physical_name="col-1", type=kind)])
