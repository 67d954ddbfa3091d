"""Data files: rows by their position, in Parquet, ORC and Avro."""

from __future__ import annotations

import datetime as dt
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec import NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.rows.data_file import OpenFile, open_data_file, open_parquet, physical_batches
from samples import avro

ROWS = pa.table({"a": range(1000), "b": [f"row {i}" for i in range(1000)]})


@each("extension", ["parquet", "orc"])
@each("names", [["a", "b"], ["b"], []])
def test_batches_have_the_position_of_their_first_row(tmp_path: Path, extension: str, names: list[str]) -> None:
    path = str(tmp_path / f"f.{extension}")
    if extension == "orc":
        orc.write_table(ROWS, path, stripe_size=1024, batch_size=128)
    else:
        pq.write_table(ROWS, path, row_group_size=300)
    with open_data_file(path, Storage(), extension) as file:
        assert (file.rows, file.schema.names, file.has_int96) == (1000, ["a", "b"], False)
        at = 0
        for start, batch in file.read(names, 128, ()):
            assert start == at
            assert batch.num_rows <= 128
            for name in names:
                assert batch.column(name).to_pylist() == ROWS[name][at : at + batch.num_rows].to_pylist()
            at += batch.num_rows
    assert at == 1000


EARLY = -1 if int(pa.__version__.partition(".")[0]) >= 23 else 1
"""Before version 23, pyarrow takes what is before 1970 for times far away: they are refused, as those are."""


def test_times_of_96_bits_keep_their_nanoseconds(tmp_path: Path) -> None:
    path = str(tmp_path / "f.parquet")
    times = pa.array([1_700_000_000_123_456_789, EARLY, None, 0], pa.timestamp("ns"))
    rows = pa.table({"a": range(4), "t": times, "n": pa.array([[t] for t in times.to_pylist()], pa.list_(times.type))})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    with open_data_file(path, Storage(), "parquet", int96_unit="ns") as file:
        assert file.has_int96
        ((start, batch),) = file.read(["t", "n", "a"], 10, ())
    assert (start, batch.column("t"), batch.column("a").to_pylist()) == (0, times, [0, 1, 2, 3])


@pytest.mark.parametrize("nested", [False, True])
def test_time_that_nanoseconds_do_not_hold_is_refused(tmp_path: Path, nested: bool) -> None:
    path = str(tmp_path / "f.parquet")
    times = pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001
    column = pa.StructArray.from_arrays([times], ["x"]) if nested else times
    pq.write_table(pa.table({"a": [1], "t": column}), path, use_deprecated_int96_timestamps=True)
    with open_data_file(path, Storage(), "parquet", int96_unit="ns") as file:
        assert len(list(file.read(["a"], 10, ()))) == 1
        with pytest.raises(Unsupported, match="column t: expected times of the years 1678 to 2261"):
            list(file.read(["t"], 10, ()))


def with_footer(path: Path, old: bytes, new: bytes, times: int) -> None:
    """Change the footer of a Parquet file."""
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(old, new, times)
    path.write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def test_rows_are_proven_by_pages(tmp_path: Path) -> None:
    """A footer may claim any number of rows: without columns nothing would be read that denies it."""
    path = tmp_path / "f"
    pq.write_table(pa.table({"a": [{"x": 1, "y": [1, 2]}] * 10, "b": ["wide" * 9] * 10}), path)
    with open_parquet(str(path), Storage()) as file:
        assert [(at, part.num_rows, part.num_columns) for at, part in physical_batches(file, [])] == [(0, 10, 0)]
    with_footer(path, b"\x16\x14", b"\x16" + b"\x80" * 8 + b"\x20", -1)  # 10 to 2**60, zigzag
    with open_parquet(str(path), Storage()) as file:
        assert file.metadata.num_rows == 2**60
        with pytest.raises(NotCanonical, match=f"row group 0: expected {2**60} rows, found 10 rows"):
            list(physical_batches(file, []))
    pq.write_table(pa.table({"a": range(10)}), path)
    with_footer(path, b"\x16\x14", b"\x16\x16", 1)  # 11 rows, before the row groups
    with open_parquet(str(path), Storage()) as file:
        for columns in (["a"], []):
            with pytest.raises(NotCanonical, match=r"row groups: expected 11 rows \(footer\), found 10 rows"):
                list(physical_batches(file, columns))
    pq.write_table(pa.table({"a": range(10)}).select([]), path)
    with open_parquet(str(path), Storage()) as file:
        assert list(physical_batches(file, [])) == []


# ---------------- rows of Avro data files: every type of the specification's table, as fastavro writes it, and damage


fastavro = pytest.importorskip("fastavro")

UTC = dt.timezone.utc
NAIVE = [dt.datetime(2024, 2, 29, 1, 2, 3, 4), dt.datetime(1900, 1, 1)]  # noqa: DTZ001  (what the type means)
ZONED = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
LOCAL = {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4}
PAIR = {"type": "record", "name": "pair", "fields": [
    {"name": "key", "type": "int", "field-id": 21}, {"name": "value", "type": ["null", MONEY], "field-id": 22},
]}  # fmt: skip
PLACE = {"type": "record", "name": "place", "fields": [
    {"name": "x", "type": ["null", "int"], "field-id": 31}, {"name": "at", "type": ZONED, "field-id": 32},
]}  # fmt: skip
FIELDS: list[tuple[str, Any, pa.DataType, list[Any]]] = [
    ("flag", ["null", "boolean"], pa.bool_(), [True, None, False]),
    ("small", "int", pa.int32(), [-(2**31), 0, 2**31 - 1]),
    ("large", "long", pa.int64(), [-(2**63), 0, 2**63 - 1]),
    ("ratio", "float", pa.float32(), [0.5, -0.0, float("inf")]),
    ("wide", ["double", "null"], pa.float64(), [0.1, None, -1e300]),
    ("day", {"type": "int", "logicalType": "date"}, pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),  # noqa: E501
    ("time", {"type": "long", "logicalType": "time-micros"}, pa.time64("us"), [dt.time(0), dt.time(1, 2, 3, 4), dt.time(23, 59, 59, 999_999)]),  # noqa: E501
    ("zoned", ZONED, pa.timestamp("us", "UTC"), [dt.datetime(1969, 1, 1, tzinfo=UTC), dt.datetime(2024, 2, 29, 1, 2, 3, 4, UTC), dt.datetime(2262, 1, 1, tzinfo=UTC)]),  # noqa: E501
    ("local", ["null", LOCAL], pa.timestamp("us"), [None, *NAIVE]),
    ("nanos", {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}, pa.timestamp("ns", "UTC"), [-1, 0, 2**62]),  # noqa: E501
    ("name", "string", pa.string(), ["", "ż", "a\0b"]),
    ("raw", "bytes", pa.binary(), [b"", b"\xff", bytes(300)]),
    ("price", MONEY, pa.decimal128(38, 4), [Decimal("-0.0001"), Decimal("12345678901234567890123456789012.3456"), Decimal(-128) / 10000]),  # noqa: E501
    ("cents", {"type": "fixed", "name": "cents", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-9999999.99"), Decimal("0.00")]),  # noqa: E501
    ("id", {"type": "fixed", "name": "uuid", "size": 16, "logicalType": "uuid"}, pa.binary(16), [bytes(16), b"\x01" * 16, bytes(range(16))]),  # noqa: E501
    ("place", ["null", PLACE], pa.struct([("x", pa.int32()), ("at", pa.timestamp("us", "UTC"))]), [None, {"x": None, "at": dt.datetime(2024, 1, 1, tzinfo=UTC)}, {"x": 1, "at": dt.datetime(1970, 1, 1, tzinfo=UTC)}]),  # noqa: E501
    ("tags", {"type": "array", "items": ["null", MONEY], "element-id": 41}, pa.list_(pa.decimal128(38, 4)), [[], [None, Decimal("1.0000")], [Decimal("-1.0000")]]),  # noqa: E501
    ("counts", ["null", {"type": "map", "values": "long", "key-id": 42, "value-id": 43}], pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]),  # noqa: E501
    ("ranks", {"type": "array", "logicalType": "map", "items": PAIR}, pa.map_(pa.int32(), pa.decimal128(38, 4)), [[(1, Decimal("2.5000")), (2, None)], [], [(-1, Decimal("0.0000"))]]),  # noqa: E501
    ("nothing", "null", pa.null(), [None] * 3),
]  # fmt: skip
"""Name, Avro type, Arrow type, and three values; the field id is the place, from 1."""
SCHEMA = {
    "type": "record",
    "name": "table",
    "fields": [{"name": name, "type": kind, "field-id": i} for i, (name, kind, _, _) in enumerate(FIELDS, 1)],
}


def as_written(name: str, value: Any) -> Any:
    """A value as fastavro takes it."""
    if name == "counts" and value is not None:
        return dict(value)
    if name == "ranks":
        return [{"key": key, "value": of} for key, of in value]
    if name == "local" and value is not None:
        return value.replace(tzinfo=UTC)
    return value


def write(path: Path, schema: Any = SCHEMA, records: list[Any] | None = None, codec: str = "deflate") -> None:
    if records is None:
        records = [{name: as_written(name, values[i]) for name, _, _, values in FIELDS} for i in range(3)] * 40
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec=codec, sync_interval=2000)


def read(file: OpenFile, names: list[str] | None = None, batch_rows: int = 7) -> list[pa.RecordBatch]:
    found, at = [], 0
    for start, batch in file.read(file.schema.names if names is None else names, batch_rows, ()):
        assert start == at
        assert batch.num_rows <= batch_rows
        at += batch.num_rows
        batch.validate(full=True)
        found.append(batch)
    assert at == file.rows
    return found


def without_ids(kind: pa.DataType) -> str:
    """A type without the names and nullability of its parts."""
    return str(kind).replace(" not null", "").replace("element: ", "item: ")


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_every_type(tmp_path: Path, codec: str) -> None:
    write(tmp_path / "f.avro", codec=codec)
    with open_data_file(str(tmp_path / "f.avro"), Storage(), "avro") as file:
        assert file.rows == 120
        assert [field.metadata[b"PARQUET:field_id"] for field in file.schema] == [
            str(i).encode() for i in range(1, len(FIELDS) + 1)
        ]
        whole = pa.Table.from_batches(read(file))
        assert whole.num_rows == 120
        for name, _, kind, values in FIELDS:
            assert without_ids(whole.schema.field(name).type) == without_ids(kind), name
            found = whole[name].cast(pa.int64()) if name == "nanos" else whole[name]
            assert found.to_pylist() == values * 40, name
        assert [batch.schema.names for batch in read(file, ["name", "flag"])] == [["name", "flag"]] * 18
        assert sum(batch.num_rows for batch in read(file, [], 100)) == 120
    entries = file.schema.field("ranks").type
    assert [part.metadata for part in (entries.key_field, entries.item_field)] == [
        {b"PARQUET:field_id": b"21"},
        {b"PARQUET:field_id": b"22"},
    ]
    assert file.schema.field("tags").type.value_field.metadata == {b"PARQUET:field_id": b"41"}


@pytest.mark.parametrize(
    ("kind", "values", "error"),
    [
        (["int", "string"], [1], Unsupported),
        ({"type": "bytes", "logicalType": "decimal", "precision": 77}, [b"\1"], Unsupported),
        ({"type": "array", "logicalType": "map", "items": PLACE}, [[]], NotCanonical),
    ],
)
def test_types_that_iceberg_does_not_have(tmp_path: Path, kind: Any, values: list[Any], error: type[Exception]) -> None:
    write(
        tmp_path / "f.avro",
        {"type": "record", "name": "t", "fields": [{"name": "x", "type": kind}]},
        [{"x": v} for v in values],
    )
    with pytest.raises(error, match="x"), open_data_file(str(tmp_path / "f.avro"), Storage(), "avro") as file:
        read(file)


@pytest.mark.parametrize(
    ("said", "meant", "value"),
    [
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, (10_000).to_bytes(2, "big")),
        ("bytes", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, bytes(17)),
        ("long", "int", 2**31),
    ],
)
def test_values_that_the_type_does_not_have(tmp_path: Path, said: Any, meant: Any, value: Any) -> None:
    """Written by one schema, read by another of the same encoding."""
    path = tmp_path / "f.avro"
    schemas = [{"type": "record", "name": "t", "fields": [{"name": "x", "type": kind}]} for kind in (said, meant)]
    path.write_bytes(avro.header(schemas[1]) + avro.block(1, avro.records(schemas[0], {"x": value})))
    with open_data_file(str(path), Storage(), "avro") as file, pytest.raises(NotCanonical, match="column x"):
        read(file)
