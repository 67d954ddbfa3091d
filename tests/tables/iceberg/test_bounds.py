"""Bounds by manifests: how values are serialized, what is not to be trusted, and which manifest is read."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.rows import ColumnStatistics, bounds_of
from dvcodec.tables.iceberg.schema import SchemaColumns
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.rows.columns import Column
from samples.iceberg_table import FIELDS, Commit, build_iceberg

pa = pytest.importorskip("pyarrow")

NOTHING = ColumnBounds()


def column(kind: Any) -> Column:
    fields = JsonFields({"fields": [{"id": 1, "name": "c", "type": kind, "required": False}]}, "test")
    return SchemaColumns(fields).read()[0]


def lower(kind: Any, data: bytes, **more: Any) -> Any:
    found = bounds_of(column(kind), ColumnStatistics(10, lower=data, upper=data, **more))
    assert found.lower == found.upper
    return None if found.lower is None else found.lower


DAY = struct.pack("<i", 20_000)
DATE = dt.date(1970, 1, 1) + dt.timedelta(20_000)


@each(
    ("kind", "data", "expected"),
    [
        ("int", struct.pack("<i", -7), -7),
        ("long", struct.pack("<q", -(2**40)), -(2**40)),
        ("long", struct.pack("<i", -7), -7),  # it was an int
        ("boolean", b"\1", True),
        ("boolean", b"\0", False),
        ("date", DAY, DATE),
        ("time", struct.pack("<q", 1), dt.time(0, 0, 0, 1)),
        ("timestamp", struct.pack("<q", 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
        ("timestamp", DAY, dt.datetime(DATE.year, DATE.month, DATE.day)),  # noqa: DTZ001  (it was a date)
        ("timestamptz", struct.pack("<q", 1), dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.timezone.utc)),
        ("string", "aż".encode(), "aż"),
        ("binary", b"\xff\x00", b"\xff\x00"),
        ("fixed[2]", b"ab", b"ab"),
        ("decimal(10,2)", (-12345).to_bytes(2, "big", signed=True), Decimal("-123.45")),
        ("decimal(38,0)", (10**37).to_bytes(16, "big"), Decimal(10**37)),
        ("decimal(3,2)", b"\xfb", Decimal("-0.05")),
        # not of the type, or without an order that all agree on
        ("int", b"abc", None),
        ("int", struct.pack("<q", 2**40), None),
        ("timestamp", struct.pack("<i", 2**31 - 1), None),
        ("string", b"\xff", None),
        ("string", "\ue000".encode(), None),
        ("string", "\U0001f600".encode(), None),
        ("fixed[2]", b"abc", None),
        ("uuid", uuid.UUID(int=0xB85FC6EC315A4DE3BA844CA7A118FBD0).bytes, None),
        ("decimal(3,2)", (99999).to_bytes(3, "big"), None),
        ("decimal(3,2)", b"", None),
        ("boolean", b"", None),
        ("float", struct.pack("<f", 1), None),
        ({"type": "list", "element-id": 2, "element": "int", "element-required": False}, struct.pack("<i", 1), None),
    ],
)
def test_values(kind: Any, data: bytes, expected: Any) -> None:
    found = lower(kind, data)
    assert (None if found is None else found.as_py()) == expected


def test_nanoseconds_and_floats() -> None:
    """Bounds of floats are those of values other than NaN: they hold where there is none."""
    assert lower("timestamp_ns", struct.pack("<q", 1)).value == 1
    assert lower("timestamptz_ns", DAY).value == 20_000 * 86_400 * 10**9
    one, nan = struct.pack("<f", 1.5), struct.pack("<d", float("nan"))
    found = [lower("double", data, nans=0).as_py() for data in (one, struct.pack("<d", -1))]
    assert found == [1.5, -1]
    assert lower("float", one, nans=1) is lower("double", nan, nans=0) is None


@each(
    ("nulls", "expected"),
    [(None, NOTHING), (0, ColumnBounds(nulls=False)), (3, NOTHING), (10, ColumnBounds(values=False))],
)
def test_counts_of_nulls(nulls: int | None, expected: ColumnBounds) -> None:
    assert bounds_of(column("int"), ColumnStatistics(10, nulls)) == expected


def test_identity_partitions(tmp_path: Path) -> None:
    spec = [
        {"name": "n", "transform": "identity", "source-id": 2, "field-id": 1000},
        {"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1001},
    ]
    types = {"b": "int"}
    made = build_iceberg(
        tmp_path,
        Commit(data={"a": 5, "b": 5}),
        spec=spec,
        partition_types=types,
        partition=lambda name: {"n": "x" if name == "a" else None, "b": 3},
    )
    snapshot = open_iceberg(made.folder).snapshot()
    one, other = (snapshot.bounds(file, ["id", "name"]) for file in snapshot.data_files)
    assert one["name"] == ColumnBounds.of_partition(pa.scalar("x"))
    assert other["name"] == ColumnBounds(values=False, constant=True)
    assert one["id"] == NOTHING
    assert [item["name"] for item in FIELDS] == ["id", "name"]
