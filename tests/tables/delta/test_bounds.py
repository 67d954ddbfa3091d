"""Bounds by the log: what the statistics may mean, and those that deltalake writes."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cases import each
from dvcodec.tables import Severity, audit, delete, open_table
from dvcodec.tables.delta import open as open_delta
from dvcodec.tables.delta.rows import bounds_of, parse_statistics
from dvcodec.tables.rows.bounds import ColumnBounds
from dvcodec.tables.rows.columns import Column
from samples.delta_table import FIELDS, PART, DeltaBuilder, rows_from
from tables.true_bounds import check_bounds

NOTHING = ColumnBounds()
UTC = pa.timestamp("us", "UTC")


def bounds(kind: Any, text: str, **more: Any) -> ColumnBounds:
    return bounds_of(Column("c", type=kind, **more), parse_statistics(text))


def ends(kind: Any, lower: str, upper: str) -> tuple[Any, Any]:
    """The bounds for values as JSON."""
    found = bounds(kind, f'{{"minValues": {{"c": {lower}}}, "maxValues": {{"c": {upper}}}}}')
    return tuple(None if end is None else end.as_py() for end in (found.lower, found.upper))  # type: ignore[return-value]


@each(
    ("kind", "lower", "upper", "expected"),
    [
        (pa.int64(), "-5", "9223372036854775807", (-5, 2**63 - 1)),
        (pa.int8(), "-5", "300", (-5, None)),
        (pa.int64(), "1.0", "true", (None, None)),
        (pa.bool_(), "false", "true", (False, True)),
        (pa.float64(), "1.5", "2.5", (None, None)),  # NaN may be left out
        (pa.decimal128(10, 2), "-1.25", "7", (Decimal("-1.25"), Decimal(7))),
        (pa.decimal128(10, 2), "1.255", "1.255", (Decimal("1.25"), Decimal("1.26"))),
        (pa.decimal128(38, 0), "1e39", "1e400", (None, None)),
        (pa.string(), '"a"', '"ab"', ("a", "ac")),
        (pa.string(), '""', '""', ("", None)),
        (pa.string(), '"ż"', '"ab\\ufffd"', ("ż", "ac")),
        (pa.string(), '"\\ue000"', '"a\\ud83d\\ude00"', (None, None)),
        (pa.date32(), '"2026-01-01"', '"2026-12-31"', (dt.date(2026, 1, 1), dt.date(2026, 12, 31))),
        (pa.date32(), '"1500-01-01"', '"2026-13-31"', (None, None)),
        (pa.date32(), '"-001-01-01"', '"+10000-01-01"', (None, None)),
        (pa.binary(), '"a"', '"b"', (None, None)),
        (pa.list_(pa.int64()), "1", "2", (None, None)),
    ],
)
def test_ends(kind: Any, lower: str, upper: str, expected: tuple[Any, Any]) -> None:
    assert ends(kind, lower, upper) == expected


@pytest.mark.parametrize("text", ["2026-01-01T01:00:00.123+01:00", "2026-01-01T00:00:00.123Z"])
def test_times_are_cut_to_milliseconds(text: str) -> None:
    lower, upper = ends(UTC, json.dumps(text), json.dumps(text))
    assert lower == dt.datetime(2026, 1, 1, 0, 0, 0, 123_000, dt.timezone.utc)
    assert upper - lower == dt.timedelta(microseconds=999)
    local = ends(pa.timestamp("us"), '"2026-01-01T00:00:00.123"', '"2026-01-01 00:00:00.123"')
    assert local == (lower.replace(tzinfo=None), upper.replace(tzinfo=None))


@pytest.mark.parametrize("offset", ["+00:53", "-00:44"])
def test_offsets_that_lack_their_seconds(offset: str) -> None:
    """As Delta 3.3 writes those of local mean time; only an offset with seconds could be longer."""
    text = json.dumps(f"1850-01-01T01:01:01.000{offset}")
    lower, upper = ends(UTC, text, text)
    for seconds in (0, 28, 59):
        sign = 1 if offset[0] == "+" else -1
        zone = dt.timezone(sign * dt.timedelta(minutes=int(offset[4:]), seconds=seconds))
        assert lower <= dt.datetime(1850, 1, 1, 1, 1, 1, tzinfo=zone) <= upper
    assert upper - lower == dt.timedelta(seconds=118, microseconds=999)


def test_a_file_is_not_skipped_for_lost_seconds(tmp_path: Path) -> None:
    """Sweden in 1850; Delta Spark 4.4 finds no row (delta-io/delta#5512)."""
    field = {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}
    crafted = DeltaBuilder(tmp_path / "t", fields=[field])
    crafted.create()
    at = dt.datetime(1850, 1, 1, 0, 7, 33, tzinfo=dt.timezone.utc)
    added = crafted.write_file("a.parquet", pa.table({"at": pa.array([at], UTC)}), {})
    text = "1850-01-01T01:01:01.000+00:53"
    stats = {"numRecords": 1, "minValues": {"at": text}, "maxValues": {"at": text}, "nullCount": {"at": 0}}
    crafted.commit({"add": added | {"stats": json.dumps(stats)}})
    table = open_table(crafted.root)
    assert delete(table, pc.field("at") == pa.scalar(at, UTC), dry_run=True).rows == 1
    (finding,) = (one for one in audit(table).findings if one.check == "delta-statistics")
    assert (finding.severity, finding.actual) == (Severity.WARNING, f'"{text}"')


def test_decimals_that_a_float_does_not_hold() -> None:
    """delta-rs writes what the 64-bit float is that is nearest."""
    value = Decimal("12345678901234567890.12")
    lower, upper = ends(pa.decimal128(22, 2), str(float(value)), str(float(value)))
    assert lower < value < upper
    assert upper - lower < 100_000


@pytest.mark.parametrize(
    ("count", "rows", "nulls", "values"),
    [(0, 5, False, True), (5, 5, True, False), (2, 5, True, True), (None, 5, True, True), (0, 0, False, False)],
)
def test_counts_of_nulls(count: int | None, rows: int, nulls: bool, values: bool) -> None:
    found = bounds(pa.int64(), json.dumps({"numRecords": rows, "nullCount": {"c": count}}))
    assert found == ColumnBounds(nulls=nulls, values=values)


@each(
    "text", ["", "{", "[]", "null", '{"minValues": 5}', '{"nullCount": [0]}', '{"nullCount": {"c": true}}', "[" * 99999]
)
def test_unreadable_statistics(text: str) -> None:
    assert bounds(pa.int64(), text) == NOTHING
    assert bounds_of(Column("c", type=pa.int64()), parse_statistics(None)) == NOTHING


def test_physical_names_and_partitions(tmp_path: Path) -> None:
    crafted = DeltaBuilder(tmp_path / "t", fields=[*FIELDS, PART], partition_columns=["part"])
    crafted.create()
    for value in ("x", None, ""):
        added = crafted.write_file(f"{value}.parquet", rows_from(0), {"part": value})
        added["stats"] = json.dumps({"numRecords": 100, "minValues": {"id": 3}, "maxValues": {"id": 5}})
        crafted.commit({"add": added})
    snapshot = open_delta(str(crafted.root)).snapshot()
    one, *others = (snapshot.bounds(file, ["part", "id"]) for file in snapshot.data_files)
    assert one["part"] == ColumnBounds(pa.scalar("x"), pa.scalar("x"), nulls=False, constant=True)
    assert (one["id"].lower, one["id"].upper) == (pa.scalar(3), pa.scalar(5))
    assert [other["part"] for other in others] == [ColumnBounds(values=False, constant=True)] * 2
    mapped = bounds_of(Column("id", physical_name="col-1", type=pa.int64()), {"minValues": {"id": 1, "col-1": 2}})
    assert mapped.lower == pa.scalar(2)


@pytest.mark.interop
@pytest.mark.parametrize("by", [None, "word", "day", "time", "price"])
def test_what_deltalake_writes(by: str | None, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    from tables.deleting.random_where import SCHEMA, random_rows

    chance = random.Random(5)
    for count in (1, 30):
        rows = random_rows(chance, 0, count)
        long = rows.column("word").to_pylist()
        long = [None if word is None else word * 20 for word in long]
        rows = rows.append_column("long", pa.array(long, pa.string()))
        deltalake.write_deltalake(str(tmp_path), rows, mode="append", partition_by=None if by is None else [by])
    snapshot = open_delta(str(tmp_path)).snapshot()
    known, _ = check_bounds(snapshot)
    assert known >= 5 * len(snapshot.data_files)
    assert SCHEMA.names[0] in snapshot.schema().names
