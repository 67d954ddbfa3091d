"""schemaString as Arrow types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.tables.delta.log import Metadata
from dvcodec.tables.delta.schema import MAX_DEPTH, TableSchema, parse_schema
from dvcodec.tables.rows.columns import Column


def parse(*fields: dict[str, Any], mode: str = "none", partitions: tuple[str, ...] = ()) -> TableSchema:
    text = json.dumps({"type": "struct", "fields": fields})
    return parse_schema(Metadata(text, partitions, {}, "parquet", "0.json, line 3"), mode)


def field(kind: Any, name: Any = "a", nullable: Any = True, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


@each(
    ("name", "arrow"),
    [
        ("string", pa.string()),
        ("long", pa.int64()),
        ("integer", pa.int32()),
        ("short", pa.int16()),
        ("byte", pa.int8()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("void", pa.null()),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(38,38)", pa.decimal128(38, 38)),
        ("decimal( 5, 2 )", pa.decimal128(5, 2)),
    ],
)
def test_primitives(name: str, arrow: pa.DataType) -> None:
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
    outer = field(
        {"type": "struct", "fields": [inner]},
        **{"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1},
    )
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
        ("[" * 60_000, "schemaString: expected JSON"),
        ("[]", "schemaString: expected an object"),
        ("{}", "schemaString.fields: expected an array"),
        ('{"fields":[1]}', r"schemaString.fields\[0\]: expected an object"),
        ('{"fields":[{"name":1}]}', r"schemaString.fields\[0\].name"),
        ('{"fields":[{"name":"a"},{"name":"A"}]}', r"schemaString.fields\[1\]: expected unique column names"),
        (r'{"fields":[{"name":"\ud800"}]}', r"schemaString.fields\[0\].name: expected a name of Unicode characters"),
    ],
    ids=lambda text: text[:9],
)
def test_invalid_schemas_are_refused(text: str, place: str) -> None:
    with pytest.raises(NotCanonical, match=f"line 3: {place}"):
        parse_schema(Metadata(text, (), {}, "parquet", "0.json, line 3"), "none")


@each(
    "wrong",
    [
        {"name": "a", "nullable": True},
        {"name": "a", "type": "long"},
        {"name": "a", "type": "long", "nullable": 1},
        field({"type": "array", "elementType": "long"}),
        field({"type": "array", "containsNull": True}),
        field({"type": "map", "keyType": "long", "valueContainsNull": True}),
        field({"type": "struct"}),
        field({"fields": []}),
        field({"type": "struct", "fields": [field("long"), field("long", "A")]}),
        field({"type": "struct", "fields": [field("long", "\udfff")]}),
        field("void", nullable=False),
        field({"type": "map", "keyType": "void", "valueType": "long", "valueContainsNull": True}),
    ],
)
def test_invalid_columns_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(NotCanonical, match=r"schemaString\.fields\[0\]"):
        parse(wrong).select(["a"])


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
