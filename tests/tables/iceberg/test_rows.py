"""Rows in the columns of a snapshot: schemas, field ids, evolution, defaults, partitions, name mappings, types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from cases import each
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.rows import names_in_file, read_name_mapping, read_rows
from dvcodec.tables.iceberg.schema import SchemaColumns
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.columns import Column
from samples.iceberg_table import Commit, build_iceberg


def column(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind} | more


def list_of(number: int, kind: Any, *, required: bool = False) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element": kind, "element-required": required}


def map_of(number: int, key: Any, value: Any, *, required: bool = False) -> dict[str, Any]:
    kind = {"type": "map", "key-id": number, "key": key, "value-id": number + 1, "value": value}
    return kind | {"value-required": required}


def struct_of(*columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


def stored(name: str, kind: pa.DataType, number: int | None = None, **more: Any) -> pa.Field:
    return pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)}, **more)


def fields_of(*columns: Mapping[str, Any]) -> tuple[Column, ...]:
    return SchemaColumns(JsonFields({"fields": list(columns)}, "v1.metadata.json")).read()


def read(
    path: Path,
    table: pa.Table,
    *columns: Mapping[str, Any],
    names: str | None = None,
    batch_rows: int = 1 << 16,
    file_format: str = "parquet",
    **options: Any,
) -> pa.Table:
    """Write a file and read it in the columns of a schema."""
    file = str(path / f"f.{file_format}")
    (orc if file_format == "orc" else pq).write_table(table, file, **options)
    fields = fields_of(*columns)
    mapping = None if names is None else read_name_mapping(names, "v1.metadata.json")
    how: dict[str, Any] = {"file_format": file_format, "names": mapping, "batch_rows": batch_rows, "partition": {}}
    stop, batches = 0, []
    for part in read_rows(file, Storage(), fields, rows=table.num_rows, **how):
        assert (part.start, part.keep) == (stop, None)
        part.batch.validate(full=True)
        stop += part.batch.num_rows
        batches.append(part.batch)
    assert stop == table.num_rows
    return pa.Table.from_batches(batches, pa.schema([one.field for one in fields]))


def table_of(*columns: tuple[pa.Field, Sequence[Any]]) -> pa.Table:
    arrays = [pa.array(values, one.type) for one, values in columns]
    return pa.table(arrays, schema=pa.schema([one for one, _ in columns]))


# ---------------------------------------------------------------------------------------------------- evolution


def test_columns_are_found_by_id(tmp_path: Path) -> None:
    """Renamed, put in another order, dropped, added; a new column that has a dropped one's name is another one."""
    table = table_of(
        (stored("a", pa.int64(), 1), [1, 2, 3]),
        (stored("b", pa.string(), 2), ["x", None, "z"]),
        (stored("dropped", pa.string(), 3), ["1", "2", "3"]),
    )
    found = read(
        tmp_path,
        table,
        column(2, "renamed", "string"),
        column(1, "b", "long"),
        column(4, "dropped", "long"),
        column(5, "with default", "int", **{"initial-default": 7}),
        row_group_size=2,
    )
    expected = {"renamed": ["x", None, "z"], "b": [1, 2, 3], "dropped": [None] * 3, "with default": [7] * 3}
    assert found.to_pydict() == expected


LONGS = list_of(9, "long")
MOMENT = datetime(2024, 2, 29, 1, 2, 3, 456789)  # noqa: DTZ001


@each(
    ("kind", "old", "value"),
    [
        ("decimal(20,2)", pa.decimal128(18, 2), Decimal("1.25")),
        ("date", pa.date32(), date(9999, 1, 2)),
        ("time", pa.int64(), time(1, 2, 3, 4)),
        ("timestamp", pa.timestamp("ns"), MOMENT),
        ("timestamptz", pa.timestamp("ns", "UTC"), MOMENT.replace(tzinfo=timezone.utc)),
        ("uuid", pa.binary(), bytes(range(16))),
        ("fixed[3]", pa.binary(), b"abc"),
        (LONGS, pa.list_(pa.int64()), [1, None]),
    ],
)
def test_orc(tmp_path: Path, kind: Any, old: pa.DataType, value: Any) -> None:
    values = pa.array([3_723_000_004 if kind == "time" else value, None] * 500, old)
    table = pa.table([values], schema=pa.schema([pa.field("old name", old, metadata={"iceberg.id": "7"})]))
    found = read(tmp_path, table, column(7, "a", kind), column(8, "later", "int"), file_format="orc", stripe_size=1024)
    assert found["a"].to_pylist() == [value, None] * 500
    assert found["later"].null_count == 1000


def test_a_struct_in_orc(tmp_path: Path) -> None:
    """Its fields are found by their ids, too."""
    inner = [pa.field(name, pa.int32(), metadata={"iceberg.id": str(number)}) for name, number in (("x", 3), ("y", 4))]
    field = pa.field("s", pa.struct(inner), metadata={"iceberg.id": "2"})
    table = pa.table([pa.array([{"x": 1, "y": 2}, None], field.type)], schema=pa.schema([field]))
    swapped = struct_of(column(4, "x", "long"), column(3, "y", "int"))
    found = read(tmp_path, table, column(2, "t", swapped), file_format="orc")
    assert found["t"].to_pylist() == [{"x": 2, "y": 1}, None]


def test_orc_that_does_not_fit(tmp_path: Path) -> None:
    field = pa.field("a", pa.binary(), metadata={"iceberg.id": "1"})
    table = pa.table([pa.array([b"ab"])], schema=pa.schema([field]))
    with pytest.raises(NotCanonical, match="column a"):
        read(tmp_path, table, column(1, "a", "fixed[3]"), file_format="orc")
    times = pa.array([MOMENT.replace(year=9996)], pa.timestamp("us"))
    far = pa.table([times], schema=pa.schema([field.with_type(times.type)]))
    # pyarrow 19 wraps such times around 2**64 nanoseconds, which never leaves whole microseconds.
    with pytest.raises(NotCanonical, match=r"out of range|would lose data"):
        read(tmp_path, far, column(1, "a", "timestamp"), file_format="orc")
    with pytest.raises(Unsupported, match="column a"):
        read(tmp_path, table, column(1, "a", "long"), file_format="orc")


@each(
    ("kind", "old", "values", "expected"),
    [
        ("long", pa.int32(), [1, -(2**31), None], [1, -(2**31), None]),
        ("int", pa.int16(), [1, -5], [1, -5]),
        ("long", pa.uint32(), [2**32 - 1], [2**32 - 1]),
        ("double", pa.float32(), [1.5, None], [1.5, None]),
        ("decimal(20, 2)", pa.decimal128(9, 2), [Decimal("1.23")], [Decimal("1.23")]),
        ("decimal(9, 2)", pa.decimal256(9, 2), [Decimal("1.23")], [Decimal("1.23")]),
        ("timestamp", pa.date32(), [date(2026, 1, 1)], [datetime(2026, 1, 1)]),  # noqa: DTZ001
        ("timestamp", pa.timestamp("ms"), [datetime(2026, 1, 1)], [datetime(2026, 1, 1)]),  # noqa: DTZ001
        ("time", pa.time32("ms"), [time(1, 2, 3)], [time(1, 2, 3)]),
        ("string", pa.binary(), ["\u00e9".encode()], ["\u00e9"]),
        ("string", pa.large_string(), ["x", None], ["x", None]),
        ("string", pa.dictionary(pa.int32(), pa.string()), ["x", "y", "x", None], ["x", "y", "x", None]),
        ("binary", pa.large_binary(), [b"x"], [b"x"]),
        ("uuid", pa.uuid(), [bytes(16), None], [bytes(16), None]),
        ("unknown", pa.int64(), [1], [None]),
        (LONGS, pa.large_list(pa.int32()), [[1, 2], [3, None]], [[1, 2], [3, None]]),
        (LONGS, pa.list_(pa.int32(), 2), [[1, 2], [3, None]], [[1, 2], [3, None]]),
    ],
)
def test_promotion(tmp_path: Path, kind: Any, old: pa.DataType, values: list[Any], expected: list[Any]) -> None:
    found = read(tmp_path, table_of((stored("a", old, 1), values)), column(1, "a", kind))
    assert found.column("a").to_pylist() == expected


@each(
    ("kind", "old", "values"),
    [
        ("int", pa.int64(), [1]),
        ("int", pa.uint32(), [1]),
        ("long", pa.uint64(), [1]),
        ("long", pa.string(), ["1"]),
        ("string", pa.int64(), [1]),
        ("float", pa.float64(), [1.0]),
        ("double", pa.int64(), [1]),
        ("decimal(9, 2)", pa.decimal128(9, 3), [Decimal("1.234")]),
        ("decimal(9, 2)", pa.decimal128(10, 2), [Decimal("1.23")]),
        ("timestamp", pa.timestamp("us", "UTC"), [0]),
        ("timestamptz", pa.timestamp("us"), [0]),
        ("date", pa.timestamp("us"), [0]),
        ("boolean", pa.int32(), [1]),
        ("uuid", pa.binary(15), [bytes(15)]),
        ("fixed[3]", pa.binary(4), [bytes(4)]),
        (struct_of(), pa.int32(), [1]),
        (list_of(2, "int"), pa.int32(), [1]),
    ],
)
def test_invalid_promotions_are_refused(tmp_path: Path, kind: Any, old: pa.DataType, values: list[Any]) -> None:
    with pytest.raises(Unsupported, match=r"f.parquet: column a: expected .*, found "):
        read(tmp_path, table_of((stored("a", old, 1), values)), column(1, "a", kind))


def test_required_columns(tmp_path: Path) -> None:
    table = table_of((stored("a", pa.int64(), 1), [1]))
    with pytest.raises(NotCanonical, match=r"f.parquet: schema of the data file: expected column b, found none"):
        read(tmp_path, table, column(2, "b", "long", required=True))
    found = read(tmp_path, table, column(2, "b", "long", required=True, **{"initial-default": 4}))
    assert found.schema.field("b").nullable is False
    assert found.column("b").to_pylist() == [4]
    for values in (pa.array([1, None, 3]), pa.nulls(3)):
        table = pa.table([values], schema=pa.schema([stored("a", values.type, 1)]))
        with pytest.raises(NotCanonical, match=r"f.parquet: column a: expected no nulls, found \d from row 0 on"):
            read(tmp_path, table, column(1, "a", "long", required=True))
    for kind, old, held in (("string", pa.binary(), [b"\xff"]), ("timestamp", pa.timestamp("ns"), [1])):
        with pytest.raises(NotCanonical, match=r"f.parquet: column a"):
            read(tmp_path, table_of((stored("a", old, 1), held)), column(1, "a", kind))


def test_required_fields(tmp_path: Path) -> None:
    """Structs that are null may lack them, and a column that is null throughout may be stored without a type."""
    kind = struct_of(column(2, "x", "int", required=True))
    for old in (pa.null(), pa.struct([stored("x", pa.int32(), 2)])):
        found = read(tmp_path, table_of((stored("a", old, 1), [None, None])), column(1, "a", kind))
        assert found.column("a").to_pylist() == [None, None]
        pq.write_table(found, tmp_path / "copy.parquet")
        assert pq.read_table(tmp_path / "copy.parquet").schema == found.schema
    table = table_of((stored("a", pa.struct([stored("x", pa.int32(), 2)]), 1), [None, {"x": None}]))
    with pytest.raises(NotCanonical, match=r"f.parquet: column a\.x: expected no nulls, found 1 from row 0 on"):
        read(tmp_path, table, column(1, "a", kind))


@pytest.mark.parametrize("number", ["abc", "-1", "1e3", " 1", "9" * 5000])
def test_an_id_that_is_not_a_number(tmp_path: Path, number: str) -> None:
    table = table_of((pa.field("a", pa.int64(), metadata={"PARQUET:field_id": number}), [1]))
    with pytest.raises(NotCanonical, match=r"f.parquet: field id of column a: expected decimal digits"):
        read(tmp_path, table, column(1, "a", "long"))


# ---------------------------------------------------------------------------------------------------- nested columns

POINT = struct_of(
    column(11, "new", "int", **{"initial-default": 5}), column(12, "y", "long"), column(13, "x renamed", "double")
)
OLD_POINT = pa.struct([stored("x", pa.float32(), 13), stored("y", pa.int32(), 12), stored("gone", pa.string(), 14)])
POINTS: list[dict[str, Any] | None] = [{"x": 1.5, "y": 2, "gone": "a"}, None, {"x": None, "y": 3, "gone": None}]
NEW_POINTS = [{"new": 5, "y": 2, "x renamed": 1.5}, None, {"new": 5, "y": 3, "x renamed": None}]


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_nested_columns_evolve(tmp_path: Path, batch_rows: int) -> None:
    lists = [POINTS, None, [], POINTS[:1]] * 3
    maps = [[("a", POINTS[0]), ("b", None)], None, [], [("c", POINTS[2])]] * 3
    table = table_of(
        (stored("s", OLD_POINT, 1), POINTS * 4),
        (stored("l", pa.list_(stored("element", OLD_POINT, 21)), 2), lists),
        (stored("m", pa.map_(stored("key", pa.string(), 31, nullable=False), stored("value", OLD_POINT, 32)), 3), maps),
        (stored("deep", pa.list_(pa.list_(OLD_POINT)), 4), [[POINTS, [], None], None, [], [POINTS]] * 3),
    )
    found = read(
        tmp_path,
        table,
        column(1, "s", POINT),
        column(2, "l", list_of(21, POINT)),
        column(3, "m", map_of(31, "string", POINT)),
        column(4, "deep", list_of(40, list_of(41, POINT))),
        row_group_size=5,
        batch_rows=batch_rows,
    ).to_pydict()
    assert found["s"] == NEW_POINTS * 4
    assert found["l"] == [NEW_POINTS, None, [], NEW_POINTS[:1]] * 3
    assert found["m"] == [[("a", NEW_POINTS[0]), ("b", None)], None, [], [("c", NEW_POINTS[2])]] * 3
    assert found["deep"] == [[NEW_POINTS, [], None], None, [], [NEW_POINTS]] * 3


def test_a_struct_that_the_file_does_not_have(tmp_path: Path) -> None:
    table = table_of((stored("a", pa.int64(), 1), [1, 2]))
    kind = struct_of(column(11, "x", "int", **{"initial-default": 5}), column(12, "y", "string"))
    filled = column(4, "filled", kind, **{"initial-default": {"12": "z"}})
    found = read(tmp_path, table, column(3, "null", kind), filled)
    assert found.to_pydict() == {"null": [None, None], "filled": [{"x": 5, "y": "z"}] * 2}


# ---------------------------------------------------------------------------------------------------- types, defaults

TYPES: list[tuple[Any, pa.DataType, Any, Any]] = [
    ("boolean", pa.bool_(), True, True),
    ("int", pa.int32(), 34, 34),
    ("long", pa.int64(), 2**62, 2**62),
    ("float", pa.float32(), 1.5, 1.5),
    ("double", pa.float64(), 1, 1.0),
    ("decimal(9,2)", pa.decimal128(9, 2), "14.20", Decimal("14.20")),
    ("decimal(1, 1)", pa.decimal128(1, 1), "0.1", Decimal("0.1")),
    ("decimal(38,0)", pa.decimal128(38, 0), "1", Decimal(1)),
    ("date", pa.date32(), "2017-11-16", date(2017, 11, 16)),
    ("time", pa.time64("us"), "22:31:08.1234", time(22, 31, 8, 123400)),
    ("time", pa.time64("us"), "22:31", time(22, 31)),
    ("timestamp", pa.timestamp("us"), "2017-11-16T22:31:08.123456", datetime(2017, 11, 16, 22, 31, 8, 123456)),  # noqa: DTZ001
    (
        "timestamptz",
        pa.timestamp("us", "UTC"),
        "2017-11-16T22:31:08.123456+00:00",
        datetime(2017, 11, 16, 22, 31, 8, 123456, tzinfo=timezone.utc),
    ),
    ("string", pa.string(), "iceberg", "iceberg"),
    ("uuid", pa.binary(16), "f79c3e09-677c-4bbd-a479-3f349cb785e7", bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
    ("fixed[4]", pa.binary(4), "000102ff", b"\x00\x01\x02\xff"),
    ("binary", pa.binary(), "00ff", b"\x00\xff"),
    (list_of(2, "int"), pa.list_(pa.field("element", pa.int32())), [1, None], [1, None]),
    (
        map_of(2, "string", "date", required=True),
        pa.map_(pa.string(), pa.field("value", pa.date32(), nullable=False)),
        {"keys": ["a"], "values": ["2017-11-16"]},
        [("a", date(2017, 11, 16))],
    ),
]


@each(("kind", "arrow", "default", "value"), TYPES)
def test_types_and_their_defaults(tmp_path: Path, kind: Any, arrow: pa.DataType, default: Any, value: Any) -> None:
    table = table_of((stored("a", arrow, 1), [value, None]))
    found = read(tmp_path, table, column(1, "a", kind), column(9, "b", kind, **{"initial-default": default}))
    assert found.schema.types == [arrow, arrow]
    assert found.to_pydict() == {"a": [value, None], "b": [value, value]}


def test_nanoseconds(tmp_path: Path) -> None:
    for kind, arrow, suffix in (
        ("timestamp_ns", pa.timestamp("ns"), ""),
        ("timestamptz_ns", pa.timestamp("ns", "UTC"), "+00:00"),
    ):
        table = table_of((stored("a", arrow, 1), [1, None]))
        default = {"initial-default": f"1970-01-01T00:00:00.000000002{suffix}"}
        found = read(tmp_path, table, column(1, "a", kind), column(2, "b", kind, **default))
        assert found.schema.types == [arrow, arrow]
        assert [one.cast(pa.int64()).to_pylist() for one in found.columns] == [[1, None], [2, 2]]


@each(
    ("kind", "default"),
    [
        ("int", 2**40),
        ("decimal(4,2)", "123.45"),
        ("decimal(4,2)", "NaN"),
        ("decimal(9,2)", "1E-999999999"),
        ("boolean", 1),
        ("int", True),
        ("long", "5"),
        ("float", 1e300),
        ("double", float("nan")),
        ("date", "now"),
        ("date", "2020-02-30"),
        ("time", "24:00"),
        ("time", "00:00:00.1234567"),
        ("timestamp", "2020-01-01T00:00:00+00:00"),
        ("timestamptz", "2020-01-01T00:00:00"),
        ("timestamp_ns", "9999-01-01T00:00:00"),
        ("uuid", "{f79c3e09-677c-4bbd-a479-3f349cb785e7}"),
        (TYPES[-2][0], "34"),
        (list_of(2, "int", required=True), [1, None]),
        (struct_of(column(2, "x", "int", required=True)), {}),
        (TYPES[-1][0], {"keys": [None], "values": [1]}),
        ("fixed[2]", "00"),
        (TYPES[-2][0], 3),
        (TYPES[-1][0], {"keys": ["a"]}),
        (struct_of(column(2, "x", "int")), 4),
    ],
)
def test_a_default_of_another_type(tmp_path: Path, kind: Any, default: Any) -> None:
    table = table_of((stored("a", pa.int64(), 1), [1]))
    with pytest.raises(NotCanonical, match=r"f.parquet: initial-default of column b: expected"):
        read(tmp_path, table, column(2, "b", kind, **{"initial-default": default}))


# ---------------------------------------------------------------------------------------------------- name mappings

ELEMENT = {"field-id": 21, "names": ["element"], "fields": [{"field-id": 22, "names": ["z"]}]}
MAPPING = json.dumps(
    [
        {"field-id": 1, "names": ["a", "A"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 12, "names": ["y"]}]},
        {"field-id": 3, "names": ["l"], "fields": [ELEMENT]},
        {"names": ["no id"]},
    ]
)


def test_files_without_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    table = table_of(
        (stored("A", pa.int32()), [1]),
        (stored("s", pa.struct([("x", pa.int32()), ("y", pa.int32())])), [{"x": 1, "y": 2}]),
        (stored("l", pa.list_(pa.field("item", pa.struct([("z", pa.int32())])))), [[{"z": 3}]]),
        (stored("no id", pa.int32()), [4]),
    )
    found = read(
        tmp_path,
        table,
        column(1, "a new", "long"),
        column(2, "s new", struct_of(column(12, "y new", "int"), column(13, "x", "int"))),
        column(3, "l", list_of(21, struct_of(column(22, "z new", "int")))),
        column(4, "no id", "int"),
        names=MAPPING,
    )
    assert found.to_pylist() == [{"a new": 1, "s new": {"y new": 2, "x": None}, "l": [{"z new": 3}], "no id": None}]


def test_ids_in_the_file_come_before_the_name_mapping(tmp_path: Path) -> None:
    table = table_of((stored("a", pa.int32(), 5), [1]), (stored("b", pa.int32()), [2]))
    found = read(tmp_path, table, column(1, "a", "int"), column(5, "b", "int"), names=MAPPING)
    assert found.to_pydict() == {"a": [None], "b": [1]}


def test_neither_ids_nor_a_name_mapping(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"f.parquet: .*field ids, or the table property schema.name-mapping.default"):
        read(tmp_path, table_of((stored("a", pa.int32()), [1])), column(1, "a", "int"))


@each(
    "text", ["", "{", "3", "[3]", '[{"names": 3}]', '[{"names": [3]}]', '[{"field-id": "1", "names": []}]', "[" * 9999]
)
def test_wrong_name_mappings(text: str) -> None:
    with pytest.raises(NotCanonical, match=r"v1.metadata.json: name mapping"):
        read_name_mapping(text, "v1.metadata.json")


# ---------------------------------------------------------------------------------------------------- partitions


def rows_in_partition(
    folder: Path, kind: str, avro: Any, value: Any, *, transform: str = "identity"
) -> dict[str, list[Any]]:
    """Rows of a data file without the column by which its table is partitioned."""
    made = build_iceberg(
        folder,
        Commit(data={"a": table_of((stored("id", pa.int64(), 1), [1, 2]))}),
        fields=[column(1, "id", "long"), column(2, "part", kind)],
        spec=[{"name": "p", "transform": transform, "source-id": 2, "field-id": 1000}],
        partition_types={"p": avro},
        partition=lambda _: {"p": value},
    )
    snapshot = open_iceberg(made.folder).snapshot()
    (part,) = snapshot.rows(snapshot.data_files[0])
    found: dict[str, list[Any]] = part.batch.to_pydict()
    return found


@each(
    ("kind", "avro", "value", "expected"),
    [
        ("string", "string", "x/y", "x/y"),
        ("int", "int", 5, 5),
        ("long", "int", 5, 5),
        ("double", "float", 1.5, 1.5),
        ("boolean", "boolean", False, False),
        ("date", "int", 20454, date(2026, 1, 1)),
        ("timestamptz", "long", 1, datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc)),
        ("decimal(20,2)", "bytes", b"\x85", Decimal("-1.23")),
        ("uuid", {"type": "fixed", "name": "u", "size": 16}, bytes(range(16)), bytes(range(16))),
        ("uuid", "string", "00010203-0405-0607-0809-0a0b0c0d0e0f", bytes(range(16))),
        ("binary", "bytes", b"\x00\xff", b"\x00\xff"),
        ("string", "string", None, None),
    ],
)
def test_identity_partitions_of_files_without_the_column(
    tmp_path: Path, kind: str, avro: Any, value: Any, expected: Any
) -> None:
    assert rows_in_partition(tmp_path / "t", kind, avro, value) == {"id": [1, 2], "part": [expected] * 2}
    others = rows_in_partition(tmp_path / "truncated", kind, avro, value, transform="truncate[2]")
    assert others == {"id": [1, 2], "part": [None, None]}


@each(
    ("kind", "value", "found"),
    [("decimal(38,2)", b"\x7f" * 17, "more than 38 digits"), ("decimal(4,2)", b"\x7f" * 8, "precision")],
)
def test_partition_values_that_a_column_does_not_hold(tmp_path: Path, kind: str, value: Any, found: str) -> None:
    with pytest.raises(NotCanonical, match=rf"data/a: partition value of column part: expected .*(?:{found})"):
        rows_in_partition(tmp_path / "decimal", kind, "bytes", value)
    with pytest.raises(NotCanonical, match=r"data/a: partition value of column part: expected .*(badly formed|nobody)"):
        rows_in_partition(tmp_path / "uuid", "uuid", "string", "nobody")


@pytest.mark.parametrize("is_newest", [True, False])
def test_each_snapshot_has_the_columns_that_it_was_made_with(tmp_path: Path, is_newest: bool) -> None:
    """The current one has those that the table has now, as ALTER TABLE leaves it: maybe no snapshot has them."""

    def tweak(metadata: dict[str, Any]) -> dict[str, Any]:
        renamed = [dict(one) for one in metadata["schemas"][0]["fields"]]
        renamed[1]["name"] = "label"
        metadata["schemas"].append({"type": "struct", "schema-id": 1, "fields": renamed})
        metadata["snapshots"][1]["schema-id"] = int(is_newest)
        return metadata | {"current-schema-id": 1}

    table = open_iceberg(build_iceberg(tmp_path, Commit(data={"a": 2}), Commit(data={"b": 2}), tweak=tweak).folder)
    assert (table.snapshot().schema_id, table.snapshot().info) == (1, table.snapshot(102).info)
    names = {101: "name", 102: "label" if is_newest else "name", None: "label"}
    for number, name in names.items():
        snapshot = table.snapshot(number)
        assert snapshot.schema().names == ["id", name]
        (part,) = snapshot.rows(snapshot.data_files[0], columns=[name, "id"])
        assert part.batch.to_pydict() == {name: ["row 0", "row 1"], "id": [0, 1]}


IN_FILE = pa.Table.from_pylist(
    [{"without id": 1, "other": 1, "small": 1, "s": "x", "u": b"0" * 16, "nested": {"a": 1}}],
    schema=pa.schema(
        [
            stored("without id", pa.int64()),
            stored("other", pa.int64(), 1),
            stored("small", pa.int32(), 2),
            stored("s", pa.string(), 3),
            stored("u", pa.binary(16), 4),
            stored("nested", pa.struct([stored("a", pa.int64(), 6)]), 5),
        ]
    ),
)


@each(
    ("columns", "names"),
    [
        ([column(1, "n", "long"), column(9, "later", "long"), column(3, "s", "string")], ("other", None, "s")),
        ([column(9, "other", "long"), column(3, "s", "string")], (None, "s")),
        ([column(9, "later", "long")], None),
        ([column(2, "small", "long"), column(3, "s", "string")], None),
        ([column(4, "u", "uuid")], None),
        ([column(4, "u", "fixed[16]")], None),
        ([column(5, "nested", struct_of(column(6, "a", "long")))], None),
        ([column(3, "s", "string"), column(9, "later", "long", **{"initial-default": 1})], None),
        ([column(3, "s", "string"), column(8, "day", "int")], None),
    ],
)
def test_names_under_which_a_file_has_exactly_the_values(
    tmp_path: Path, columns: list[dict[str, Any]], names: tuple[str | None, ...] | None
) -> None:
    pq.write_table(IN_FILE, tmp_path / "f.parquet")
    fields = fields_of(*columns)
    assert names_in_file(str(tmp_path / "f.parquet"), Storage(None), fields, {8: 20}) == names


def test_files_that_may_have_other_values_under_the_names(tmp_path: Path) -> None:
    field = stored("s", pa.string(), 1)
    tables = {
        "no ids": pa.table({"s": ["x"]}),
        "twice, in another case": pa.table([["x"], ["y"]], schema=pa.schema([field, stored("S", pa.string(), 2)])),
        "times of 96 bits": pa.table(
            [["x"], pa.array([0], pa.timestamp("us"))], schema=pa.schema([field, stored("t", pa.timestamp("us"), 2)])
        ),
    }
    for name, table in tables.items():
        pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
        fields = fields_of(column(1, "s", "string"))
        assert names_in_file(str(tmp_path / "f.parquet"), Storage(None), fields, {}) is None, name


# ---------- schemas as Arrow types: nesting, nullability, and JSON that is not a schema


@each(
    ("change", "error", "match"),
    [
        ({"type": "variant"}, Unsupported, r"column a \(fields\[0\].type\): .*to leave this one out, found 'variant'"),
        ({"type": "decimal(0, 0)"}, Unsupported, "a type that Arrow has"),
        ({"type": "decimal(39, 2)"}, Unsupported, "a type that Arrow has"),
        ({"type": "decimal(3, 4)"}, Unsupported, "a type that Arrow has"),
        ({"type": "fixed[0]"}, Unsupported, "a type that Arrow has"),
        ({"type": None}, NotCanonical, r"fields\[0\].type: expected an object, found nothing"),
        ({"type": {"type": "set"}}, NotCanonical, r"fields\[0\].type.type: expected struct, list or map, found 'set'"),
        ({"type": {"type": "list"}}, NotCanonical, r"fields\[0\].type.element-required: expected true or false"),
        ({"required": "yes"}, NotCanonical, r"fields\[0\].required: expected true or false, found 'yes'"),
        ({"id": "1"}, NotCanonical, r"fields\[0\].id: expected an integer"),
        ({"name": None}, NotCanonical, r"fields\[0\].name: expected a string"),
        ({"name": "b"}, NotCanonical, "fields: expected columns of distinct names"),
        ({"name": "a\ud800"}, NotCanonical, r"fields\[0\].name: expected a name of Unicode .*, found 'a\\ud800'"),
        (
            {"type": struct_of(column(3, "\udfff", "int"))},
            NotCanonical,
            r"fields\[0\].name: expected a name of Unicode",
        ),
        ({"type": "unknown", "required": True}, NotCanonical, r"type: expected a type that has .*, found 'unknown'"),
        ({"type": map_of(3, "unknown", "unknown")}, NotCanonical, r"fields\[0\].type.key: expected a type that has"),
    ],
)
def test_wrong_schemas(change: dict[str, Any], error: type[DecodeError], match: str) -> None:
    with pytest.raises(error, match=rf"v1.metadata.json: .*{match}"):
        fields_of(column(1, "a", "int") | change, column(2, "b", "int"))


def test_types_are_nested_in_at_most_64_levels() -> None:
    ways: list[Callable[[Any], Any]] = [lambda kind: struct_of(column(2, "a", kind)), lambda kind: list_of(1, kind)]
    for nested in ways:
        kind: Any = "int"
        for _ in range(64):
            kind = nested(kind)
        assert fields_of(column(1, "a", kind))[0].children
        with pytest.raises(NotCanonical, match="expected at most 64 levels, found more"):
            fields_of(column(1, "a", nested(kind)))
