"""Types as schemas spell them, and what Arrow holds them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import NotCanonical, Unsupported
from dvcodec.tables.paimon.metadata import (
    DataType,
    Field,
    parse_type,
    to_column,
)


def parsed(raw: Any) -> DataType:
    return parse_type(raw, source="schema-0", what="column c")


@each(
    ("raw", "arrow"),
    [
        ("BOOLEAN", pa.bool_()),
        ("TINYINT NOT NULL", pa.int8()),
        ("SMALLINT", pa.int16()),
        ("INT", pa.int32()),
        ("INTEGER NULL", pa.int32()),
        ("BIGINT", pa.int64()),
        ("FLOAT", pa.float32()),
        ("DOUBLE", pa.float64()),
        ("DOUBLE PRECISION", pa.float64()),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("DECIMAL(38)", pa.decimal128(38, 0)),
        ("NUMERIC(5, 2) NOT NULL", pa.decimal128(5, 2)),
        ("DATE", pa.date32()),
        ("TIME(3)", pa.time32("ms")),
        ("TIME WITHOUT TIME ZONE", pa.time32("ms")),
        ("TIMESTAMP(0)", pa.timestamp("ms")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP(9) WITHOUT TIME ZONE NOT NULL", pa.timestamp("ns")),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", pa.timestamp("ms", tz="UTC")),
        ("TIMESTAMP_LTZ(6)", pa.timestamp("us", tz="UTC")),
        ("CHAR(3)", pa.string()),
        ("VARCHAR(10)", pa.string()),
        ("STRING NOT NULL", pa.string()),
        ("BINARY(3)", pa.binary()),
        ("BYTES", pa.binary()),
        ("BLOB", pa.large_binary()),
        ("VARIANT", pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])),
        ({"type": "ARRAY NOT NULL", "element": "INT NOT NULL"}, pa.list_(pa.field("element", pa.int32(), False))),
        ({"type": "MAP", "key": "STRING", "value": "DATE"}, pa.map_(pa.string(), pa.date32())),
        ({"type": "MULTISET", "element": "STRING"}, pa.map_(pa.string(), pa.field("value", pa.int32(), False))),
        ({"type": "VECTOR", "length": 3, "element": "FLOAT"}, pa.list_(pa.field("element", pa.float32()), 3)),
        (
            {"type": "ROW", "fields": [{"id": 4, "name": "x", "type": {"type": "ARRAY", "element": "DATE"}}]},
            pa.struct([pa.field("x", pa.list_(pa.field("element", pa.date32())))]),
        ),
    ],
)
def test_types_and_what_holds_them(raw: Any, arrow: pa.DataType) -> None:
    assert to_column(Field(-1, "", parsed(raw))).type == arrow


def test_parameters_ids_and_nulls_are_kept() -> None:
    assert (parsed("STRING").length, parsed("VARCHAR").length, parsed("CHAR(7)").length) == (2**31 - 1, 1, 7)
    assert (parsed("DECIMAL(5, 2)").text, parsed("TIMESTAMP_LTZ(3)").text) == ("DECIMAL(5, 2)", "TIMESTAMP_LTZ(3)")
    row = parsed({"type": "ROW NOT NULL", "fields": [{"id": 9, "name": "x", "type": "INT NOT NULL"}]})
    assert (row.nullable, row.children[0].id, row.children[0].type.nullable, row.text) == (False, 9, False, "ROW<INT>")


@each(
    "raw",
    [
        "GEOMETRY",
        "int",
        "INT(",
        "RAW('x')",
        "STRING WITH LOCAL TIME ZONE",
        "",
        {"type": "ROW"},
        {"type": "VECTOR", "element": "INT"},
        {"type": "NEW"},
    ],
)
def test_type_that_is_not_known_is_named(raw: Any) -> None:
    with pytest.raises(Unsupported, match="schema-0: type of column c: expected a type that is known here"):
        parsed(raw)


@each(
    "raw",
    [
        None,
        1,
        {"element": "INT"},
        {"type": "ARRAY"},
        {"type": "ROW", "fields": [{"name": "x", "type": "INT"}]},
        "DECIMAL(39, 0)",
        "DECIMAL(3, 4)",
        "DECIMAL(0, 0)",
        "TIMESTAMP(10)",
        "TIMESTAMP(6, 3)",
        "INT(3)",
    ],
)
def test_invalid_type_is_refused(raw: Any) -> None:
    with pytest.raises(NotCanonical, match="schema-0: type of column c"):
        parsed(raw)


def test_a_field_whose_name_is_not_unicode() -> None:
    row = {"type": "ROW", "fields": [{"id": 1, "name": "\U0001f600\u00e9", "type": "INT"}]}
    assert parsed(row).children[0].name == "\U0001f600\u00e9"
    row["fields"][0]["name"] = "x\udc00"  # type: ignore[index]
    with pytest.raises(NotCanonical, match=r"schema-0: type of column c\.name: expected a name of Unicode characters"):
        parsed(row)


def test_types_in_one_another_without_end_are_refused() -> None:
    raw: Any = "INT"
    for _ in range(200):
        raw = {"type": "ARRAY", "element": raw}
    with pytest.raises(Unsupported, match="at most 64 nested types"):
        parsed(raw)
