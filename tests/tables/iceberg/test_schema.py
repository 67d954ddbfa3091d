"""Schemas as Arrow types: nesting, nullability, and JSON that is no schema. Defaults are met in `test_rows`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.tables.iceberg.schema import SchemaColumns
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.rows.columns import Column


def column(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind} | more


def fields_of(*columns: Mapping[str, Any]) -> tuple[Column, ...]:
    return SchemaColumns(JsonFields({"fields": list(columns)}, "v1.metadata.json")).read()


def test_nested_types() -> None:
    point = {"type": "struct", "fields": [column(5, "x", "int", required=True), column(6, "y", "decimal(9, 2)")]}
    points = {"type": "list", "element-id": 3, "element": point, "element-required": True}
    named = {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": points, "value-required": False}
    (field,) = fields_of(column(1, "named", named, required=True))
    arrow_point = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.decimal128(9, 2))])
    arrow_points = pa.list_(pa.field("element", arrow_point, nullable=False))
    assert field.type == pa.map_(pa.string(), pa.field("value", arrow_points))
    assert (field.id, field.name, field.kind, field.nullable) == (1, "named", "map", False)
    key, value = field.children
    assert (key.id, key.nullable, value.id, value.children[0].id) == (7, False, 8, 3)
    assert [child.id for child in value.children[0].children] == [5, 6]


@pytest.mark.parametrize(("precision", "scale"), [(1, 0), (1, 1), (38, 0), (38, 38)])
def test_decimals(precision: int, scale: int) -> None:
    (field,) = fields_of(column(1, "a", f"decimal({precision}, {scale})"))
    assert field.type == pa.decimal128(precision, scale)


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
            {"type": {"type": "struct", "fields": [column(3, "\udfff", "int")]}},
            NotCanonical,
            r"fields\[0\].type.fields\[0\].name: expected a name of Unicode characters",
        ),
        (
            {"type": "unknown", "required": True},
            NotCanonical,
            r"fields\[0\].type: expected a type that has values, which are required here, found 'unknown'",
        ),
        (
            {"type": {"type": "map", "key-id": 3, "key": "unknown", "value-id": 4, "value": "unknown"}},
            NotCanonical,
            r"fields\[0\].type.key: expected a type that has values",
        ),
    ],
)
def test_wrong_schemas(change: dict[str, Any], error: type[DecodeError], match: str) -> None:
    with pytest.raises(error, match=rf"v1.metadata.json: .*{match}"):
        fields_of(column(1, "a", "int") | change, column(2, "b", "int"))


def test_names_are_unicode_and_unknown_types_are_optional() -> None:
    found = fields_of(column(1, "\u00e9 \U0001f600", "unknown"), column(2, "", "int"))
    assert [field.name for field in found] == ["\u00e9 \U0001f600", ""]
    assert found[0].field == pa.field("\u00e9 \U0001f600", pa.null())


def test_a_schema_without_an_end() -> None:
    kind: Any = "int"
    for _ in range(200):
        kind = {"type": "list", "element-id": 1, "element": kind, "element-required": True}
    with pytest.raises(NotCanonical, match="at most 64 levels"):
        fields_of(column(1, "a", kind))
