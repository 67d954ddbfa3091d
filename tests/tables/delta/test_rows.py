"""Rows of data files in the columns of a table: schemas, types that are promoted, partition values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.delta.log import Metadata, Protocol
from dvcodec.tables.delta.protocol import MAX_DEPTH, TableSchema, read_schema
from dvcodec.tables.delta.rows import DeltaEvolution, in_folders, partition_scalar, read_rows
from dvcodec.tables.metadata.json_fields import PartitionValue
from dvcodec.tables.model import DataFile
from dvcodec.tables.rows.columns import FIELD_ID, Column, file_columns

A, B = (Column(name, type=pa.int64()) for name in "ab")


def read(
    file: Path, columns: Sequence[Column], values: Mapping[str, str | None] | None = None, batch_rows: int = 1 << 16
) -> list[tuple[int, list[dict[str, object]]]]:
    found = read_rows(str(file), Storage(), columns, values or {}, frozenset(values or {}), batch_rows)
    return [(rows.start, rows.batch.to_pylist()) for rows in found]


def write(file: Path, **columns: pa.Array | list[object]) -> Path:
    pq.write_table(pa.table(columns), file, row_group_size=3)
    return file


def test_partition_columns_are_taken_from_the_log(tmp_path: Path) -> None:
    """Delta 4 writes them into the files too."""
    file = write(tmp_path / "f", a=[1, 2], b=[8, 8])
    assert read(file, [B, A], {"b": "9"}) == [(0, [{"b": 9, "a": 1}, {"b": 9, "a": 2}])]
    file = write(tmp_path / "g", a=[1])
    assert read(file, [A, B], {"b": None}) == [(0, [{"a": 1, "b": None}])]
    assert read(file, [B], {"b": "9"}) == [(0, [{"b": 9}])]


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    file = write(tmp_path / "f", a=[1, 2])
    new = Column("new", type=pa.list_(pa.string()))
    assert read(file, [new, A]) == [(0, [{"new": None, "a": 1}, {"new": None, "a": 2}])]
    assert read(file, [new]) == [(0, [{"new": None}, {"new": None}])]
    required = Column("required", type=pa.int64(), nullable=False)
    with pytest.raises(NotCanonical, match="column required: expected no nulls, found 2 from row 0 on"):
        read(file, [required])


def test_names_with_dots(tmp_path: Path) -> None:
    file = tmp_path / "f"
    pq.write_table(pa.table({"a.b": [1], "a": [{"b": 2}], "b": [3]}), file)
    dotted = Column("a.b", type=pa.int64())
    assert read(file, [dotted, B]) == [(0, [{"a.b": 1, "b": 3}])]


def test_columns_by_id(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("x", pa.int64(), metadata={b"PARQUET:field_id": b"4"}), pa.field("a", pa.int64())])
    file = tmp_path / "f"
    pq.write_table(pa.table({"x": [1], "a": [2]}, schema=schema), file)
    columns = [Column("a", 4, "col-4", type=pa.int64()), Column("b", 5, "col-5", type=pa.int64())]
    assert read(file, columns) == [(0, [{"a": 1, "b": None}])]
    without = write(tmp_path / "g", a=[1])
    with pytest.raises(NotCanonical, match="field ids of columns: expected some, found none"):
        read(without, columns)


# --------------------------------------------------------------------- arrays of data files in the types of the table


UTC = pa.timestamp("us", tz="UTC")


def column(kind: pa.DataType, *children: Column, name: str = "c", physical: str | None = None) -> Column:
    return Column(name, physical_name=physical or name, type=kind, children=children)


def conform(array: pa.Array, wanted: Column, source: str) -> pa.Array:
    (stored,) = file_columns([pa.field(wanted.name, array.type)], source)
    return DeltaEvolution(source, [], []).convert(array, stored, wanted, f"column {wanted.name}")


def struct(*children: Column, name: str = "c") -> Column:
    return column(pa.struct([child.field for child in children]), *children, name=name)


@each(
    ("values", "found", "wanted", "expected"),
    [
        ([1, None], pa.int8(), pa.int16(), [1, None]),
        ([1], pa.int32(), pa.int64(), [1]),
        ([-128], pa.int32(), pa.int8(), [-128]),
        ([1.5], pa.float32(), pa.float64(), [1.5]),
        ([7], pa.int16(), pa.float64(), [7.0]),
        ([7], pa.int8(), pa.decimal128(4, 1), [Decimal("7.0")]),
        ([7], pa.int32(), pa.decimal128(12, 2), [Decimal("7.00")]),
        ([2**62], pa.int64(), pa.decimal128(20, 0), [Decimal(2**62)]),
        ([Decimal("1.5")], pa.decimal128(4, 1), pa.decimal128(6, 3), [Decimal("1.500")]),
        ([dt.date(2020, 1, 2)], pa.date32(), pa.timestamp("us"), [dt.datetime(2020, 1, 2)]),  # noqa: DTZ001
        ([1000], pa.timestamp("ms"), UTC, [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc)]),
        ([1000], pa.timestamp("ns"), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),  # noqa: DTZ001
        (["a" * 20, None], pa.string_view(), pa.string(), ["a" * 20, None]),  # as deltalake writes updated rows
        ([b"a"], pa.binary(), pa.string(), ["a"]),
        (["a"], pa.string(), pa.binary(), [b"a"]),
        ([None], pa.null(), pa.list_(pa.int8()), [None]),
    ],
)
def test_promoted_primitives(values: list[Any], found: pa.DataType, wanted: pa.DataType, expected: list[Any]) -> None:
    array = conform(pa.array(values, found), column(wanted), "file")
    assert array.type == wanted
    assert array.to_pylist() == expected


@each(
    ("found", "wanted"),
    [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.int32(), pa.decimal128(10, 1)),
        (pa.int64(), pa.decimal128(19, 0)),
        (pa.decimal128(6, 2), pa.decimal128(7, 4)),
        (pa.decimal128(6, 2), pa.decimal128(6, 1)),
        (pa.date32(), UTC),
        (pa.string(), pa.int32()),
        (pa.bool_(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.timestamp("us"), pa.date32()),
        (pa.int32(), pa.list_(pa.int32())),
        (pa.struct([("a", pa.int32())]), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_invalid_widenings_are_named(found: pa.DataType, wanted: pa.DataType) -> None:
    assert not DeltaEvolution("file", [], []).promotes(found, column(wanted))
    with pytest.raises(Unsupported, match=r"^file: column c: expected .*, found "):
        conform(pa.nulls(1, found), column(wanted), "file")


@pytest.mark.parametrize(
    ("values", "found", "wanted"),
    [
        ([128], pa.int32(), pa.int8()),
        ([b"\xff"], pa.binary(), pa.string()),
        ([1], pa.timestamp("ns"), pa.timestamp("us")),
    ],
)
def test_values_that_do_not_fit(values: list[Any], found: pa.DataType, wanted: pa.DataType) -> None:
    with pytest.raises(NotCanonical, match=r"^file: column c: expected values of"):
        conform(pa.array(values, found), column(wanted), "file")


@pytest.mark.parametrize("by_id", [False, True])
def test_fields_are_matched_where_types_are_equal(by_id: bool) -> None:
    """One that was dropped and made again does not get the old values, and two do not change places."""

    def child(name: str, physical: str, number: int) -> Column:
        return Column(name, number if by_id else None, physical, type=pa.int64())

    def stored(name: str, number: int) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={FIELD_ID: str(number).encode()})

    found = pa.struct([stored("a", 1), stored("b", 2), stored("x", 3)])
    wanted = struct(child("a", "b", 2), child("b", "a", 1), child("x", "col-new", 4))
    assert found == wanted.type
    rows = [{"a": 1, "b": 2, "x": 3}, None]
    expected = [{"a": 2, "b": 1, "x": None}, None]
    assert conform(pa.array(rows, found), wanted, "file").to_pylist() == expected
    element = Column("element", type=wanted.type, children=wanted.children)
    array = conform(
        pa.array([rows, None], pa.list_(pa.field("element", found))), column(pa.list_(element.field), element), "file"
    )
    assert array.to_pylist() == [expected, None]


ELEMENT = struct(column(pa.int64(), name="x", physical="col-1"), name="element")
LIST = column(pa.list_(ELEMENT.field), ELEMENT)
KEY, VALUE = Column("key", type=pa.string(), nullable=False), column(pa.int64(), name="value")
MAP = column(pa.map_(KEY.field, VALUE.field), KEY, VALUE)


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3), max_size=6), st.integers(0, 3))
def test_lists_and_maps_keep_rows_and_nulls(rows: list[list[int | None] | None], start: int) -> None:
    """Slices too: a batch may begin in the middle of an array."""
    items = [None if row is None else [None if x is None else {"col-1": x} for x in row] for row in rows]
    wanted = [None if row is None else [None if x is None else {"x": x} for x in row] for row in rows]
    for kind in (pa.list_, pa.large_list):
        array = pa.array(items, kind(pa.struct([("col-1", pa.int8())])))
        conformed = conform(array[start:], LIST, "file")
        conformed.validate(full=True)
        assert conformed.to_pylist() == wanted[start:]
    pairs = [None if row is None else [(str(i), x) for i, x in enumerate(row)] for row in rows]
    conformed = conform(pa.array(pairs, pa.map_(pa.string(), pa.int8()))[start:], MAP, "file")
    conformed.validate(full=True)
    assert conformed.type == MAP.type
    assert conformed.to_pylist() == pairs[start:]
    nested = struct(LIST)
    slices = pa.array([{"c": row} for row in items], pa.struct([("c", pa.list_(pa.struct([("col-1", pa.int8())])))]))
    assert conform(slices[start:], nested, "file").to_pylist() == [{"c": row} for row in wanted[start:]]


# ---------------------------------------------------------------------- partition values from their text


def scalar(text: str | None, kind: pa.DataType) -> Any:
    found = partition_scalar({"col-1": text}, Column("p", physical_name="col-1", type=kind), "file")
    assert found.type == kind
    return found.as_py()


@each(
    ("text", "kind", "value"),
    [
        ("50% #1", pa.string(), "50% #1"),
        ("-128", pa.int8(), -128),
        (str(-(2**63)), pa.int64(), -(2**63)),
        ("1.0E10", pa.float64(), 1e10),
        ("-Infinity", pa.float64(), float("-inf")),
        ("true", pa.bool_(), True),
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
        ("yes?", pa.bool_()),
        ("2026-02-31", pa.date32()),
        ("now", UTC),
        ("1234", pa.decimal128(5, 2)),
        ("0.001", pa.decimal128(5, 2)),
        ("1E+999999999", pa.decimal128(5, 2)),
        ("NaN", pa.decimal128(5, 2)),
        ("x", pa.null()),
        ("\ud800", pa.binary()),
    ],
)
def test_invalid_values_are_refused(text: str, kind: pa.DataType) -> None:
    with pytest.raises(NotCanonical, match=r"^file: partitionValues\.col-1: expected"):
        scalar(text, kind)


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


# ---------------------------------------------------------------------- schemaString as Arrow types


def parse(*fields: dict[str, Any], **options: Any) -> TableSchema:
    return parse_text(json.dumps({"type": "struct", "fields": fields}), **options)


def parse_text(text: str, mode: str = "none", partitions: tuple[str, ...] = (), version: int = 2) -> TableSchema:
    metadata = Metadata(text, partitions, {"delta.columnMapping.mode": mode}, "parquet", "0.json, line 3")
    return read_schema(Protocol(version, (), "0.json, line 2"), metadata)


def field(kind: Any, name: Any = "a", nullable: Any = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


MAPPED = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1}


@each(
    ("name", "arrow"),
    [
        ("void", pa.null()),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(38,38)", pa.decimal128(38, 38)),
        ("decimal( 5, 2 )", pa.decimal128(5, 2)),
    ],
)
def test_spellings_of_types(name: str, arrow: pa.DataType) -> None:
    assert parse(field(name)).select(["a"]) == pa.schema([("a", arrow)])


def test_nested() -> None:
    struct = {"type": "struct", "fields": [field("long", "x", nullable=False)]}
    array = {"type": "array", "elementType": struct, "containsNull": False}
    value = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
    x = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    items = pa.list_(pa.field("element", x, nullable=False))
    assert parse(field(value, nullable=False)).select(["a"]) == pa.schema(
        [pa.field("a", pa.map_(pa.string(), pa.field("value", items)), nullable=False)]
    )


def test_column_mapping() -> None:
    inner = field("long", "x", **{"delta.columnMapping.physicalName": "col-2", "delta.columnMapping.id": 2})
    outer = field({"type": "struct", "fields": [inner]}, **MAPPED)
    by_name = parse(outer, mode="name").column("a")
    assert (by_name.physical_name, by_name.id, by_name.children[0].physical_name) == ("col-1", None, "col-2")
    by_id = parse(outer, mode="id").column("a")
    assert (by_id.id, by_id.children[0].id) == (1, 2)
    plain = parse(outer).column("a")
    assert (plain.physical_name, plain.id) == ("a", None)
    assert parse(outer, mode="id").physical_name("a") == "col-1"
    for lacking in ({}, {"delta.columnMapping.physicalName": 1}, {"delta.columnMapping.physicalName": "x"}):
        with pytest.raises(NotCanonical, match=r"fields\[0\]\.metadata\.delta\.columnMapping\."):
            parse(field("long", **lacking), mode="id").column("a")


@each(
    "name",
    [
        *("variant", "geometry(OGC:CRS84)", "decimal(39,0)", "decimal(5,6)", "decimal(0,0)", "LONG"),
        {"type": "udt", "sqlType": "long"},
    ],
)
def test_unknown_types_are_named_and_stop_only_their_column(name: Any) -> None:
    schema = parse(field("long", "fine"), field(name))
    assert schema.select(["fine"]) == pa.schema([("fine", pa.int64())])
    with pytest.raises(Unsupported, match=r"column a \(schemaString\.fields\[1\]\.type\).*leave this one out"):
        schema.select(schema.names)


@each(
    ("text", "place"),
    [
        ("{", "schemaString: expected JSON"),
        ('{"fields":[1]}', r"schemaString.fields\[0\]: expected an object"),
        ('{"fields":[{"name":1}]}', r"schemaString.fields\[0\].name"),
        ('{"fields":[{"name":"a"},{"name":"A"}]}', r"schemaString.fields\[1\]: expected unique column names"),
        (r'{"fields":[{"name":"\ud800"}]}', r"schemaString.fields\[0\].name: expected a name of Unicode characters"),
    ],
    ids=lambda text: text[:9],
)
def test_invalid_schemas_are_refused(text: str, place: str) -> None:
    with pytest.raises(NotCanonical, match=f"line 3: {place}"):
        parse_text(text)


@each(
    "wrong",
    [
        {"name": "a", "type": "long"},
        field({"type": "array", "elementType": "long"}),
        field({"fields": []}),
        field({"type": "struct", "fields": [field("long"), field("long", "A")]}),
        field("void", nullable=False),
        field({"type": "map", "keyType": "void", "valueType": "long", "valueContainsNull": True}),
    ],
)
def test_invalid_columns_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(NotCanonical, match=r"schemaString\.fields\[0\]"):
        parse(wrong).select(["a"])


def test_modes_of_column_mapping() -> None:
    """Whether the protocol declares it counts for a mode that is not known."""
    assert [parse(field("long", **MAPPED), mode=mode).mode for mode in ("none", "name", "id")] == ["none", "name", "id"]
    with pytest.raises(Unsupported, match=r"line 3: delta\.columnMapping\.mode: .*'path'"):
        parse(field("long"), mode="path")
    assert parse(field("long", **MAPPED), mode="path", version=1).mode == "none"


def test_partition_columns_have_to_be_columns() -> None:
    with pytest.raises(NotCanonical, match=r"partitionColumns: .*'b'"):
        parse(field("long"), partitions=("b",))


def test_depth_is_bounded() -> None:
    kind: Any = "long"
    for _ in range(MAX_DEPTH):
        kind = {"type": "array", "elementType": kind, "containsNull": True}
    assert pa.types.is_list(parse(field(kind)).column("a").type)
    with pytest.raises(NotCanonical, match="at most 64 nested types"):
        parse(field({"type": "array", "elementType": kind, "containsNull": True})).column("a")


@pytest.mark.parametrize(
    ("mode", "columns", "found"),
    [
        ("none", [("A", 1), ("z", 2)], ["a"]),
        ("name", [("COL-b", None), ("a", 1), ("col-A", 7)], ["a", "b"]),
        ("id", [("x", 2), ("col-a", None), ("y", 1)], ["a", "b"]),
        ("id", [("col-a", 9)], []),
    ],
)
def test_columns_that_a_file_may_have(mode: str, columns: list[tuple[str, int | None]], found: list[str]) -> None:
    fields = []
    for number, name in enumerate("abv", 1):
        mapping = {"delta.columnMapping.physicalName": f"col-{name}", "delta.columnMapping.id": number}
        fields.append(field("void" if name == "v" else "long", name, **mapping))
    stored = [Column(name, number, type=pa.int64()) for name, number in columns]
    assert [key.name for key in parse(*fields, mode=mode).stored_among(stored)] == found
