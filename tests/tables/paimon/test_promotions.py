"""Values in a later schema: by field id, cast where nothing is lost."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import Unsupported
from dvcodec.tables.paimon.metadata import Field, PaimonEvolution, parse_type, to_column
from dvcodec.tables.rows.columns import Column


def column(raw: Any) -> Column:
    return to_column(Field(1, "c", parse_type(raw, source="s", what="c")))


def evolve(array: pa.Array, old: Any, new: Any) -> pa.Array:
    return PaimonEvolution("f.parquet", [], []).convert(array, column(old), column(new), "column c")


def row(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": name, "type": inner} for i, name, inner in fields]}


def run(values: list[Any], old: Any, new: Any) -> pa.Array:
    array = pa.array(values, column(old).type)
    found = evolve(array, old, new)
    assert found.type == column(new).type
    # A part of a batch is the same part of the result.
    part = evolve(array.slice(1), old, new)
    assert part.to_pylist() == found.to_pylist()[1:]
    found.validate(full=True)
    return found


@each(
    ("old", "new", "values", "expected"),
    [
        ("INT NOT NULL", "INT", [1, 2], [1, 2]),
        ("INT", "BIGINT", [1, None, -(2**31)], [1, None, -(2**31)]),
        ("TINYINT", "DECIMAL(5, 2)", [1, -128], [Decimal("1.00"), Decimal("-128.00")]),
        ("INT", "DOUBLE", [2**31 - 1, None], [2.0**31 - 1, None]),
        ("SMALLINT", "FLOAT", [3, 4], [3.0, 4.0]),
        ("FLOAT", "DOUBLE", [0.5, None], [0.5, None]),
        ("BIGINT", "STRING", [-5, None], ["-5", None]),
        ("DECIMAL(5, 2)", "DECIMAL(10, 4)", [Decimal("1.25"), None], [Decimal("1.2500"), None]),
        ("DECIMAL(5, 2)", "DECIMAL(7, 4)", [Decimal("999.25"), None], [Decimal("999.2500"), None]),
        ("VARCHAR(3)", "STRING", ["ab", None], ["ab", None]),
        ("CHAR(3)", "VARCHAR(3)", ["ab", "c"], ["ab", "c"]),
        ("VARBINARY(3)", "BYTES", [b"ab", None], [b"ab", None]),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", [datetime(2024, 1, 2), None], [datetime(2024, 1, 2), None]),  # noqa: DTZ001
        (
            row((1, "a", "INT"), (2, "b", "STRING")),
            row((2, "renamed", "STRING"), (3, "added", "DATE"), (1, "a", "BIGINT")),
            [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
            [{"renamed": "x", "added": None, "a": 1}, None, {"renamed": "y", "added": None, "a": None}],
        ),
        (
            {"type": "ARRAY", "element": row((1, "a", "INT"))},
            {"type": "ARRAY", "element": row((1, "z", "BIGINT"))},
            [[{"a": 1}, None], None, [], [{"a": 2}]],
            [[{"z": 1}, None], None, [], [{"z": 2}]],
        ),
        (
            {"type": "ARRAY", "element": "INT NOT NULL"},
            {"type": "ARRAY", "element": "INT"},
            [[1], None],
            [[1], None],
        ),
        (
            {"type": "MAP", "key": "STRING", "value": "INT NOT NULL"},
            {"type": "MAP", "key": "STRING", "value": "INT"},
            [{"k": 1}, None],
            [[("k", 1)], None],
        ),
    ],
)
def test_values_are_kept(old: Any, new: Any, values: list[Any], expected: list[Any]) -> None:
    assert run(values, old, new).to_pylist() == expected


@each(
    ("old", "new"),
    [
        ("BIGINT", "INT"),
        ("BIGINT", "DOUBLE"),
        ("INT", "FLOAT"),
        ("INT", "DECIMAL(9, 0)"),
        ("INT", "VARCHAR(5)"),
        ("STRING", "INT"),
        ("STRING", "VARCHAR(3)"),
        ("STRING", "BYTES"),
        ("BYTES", "STRING"),
        ("DECIMAL(10, 4)", "DECIMAL(10, 2)"),
        ("DECIMAL(10, 2)", "DECIMAL(10, 4)"),
        ("TIMESTAMP(9)", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),
        ("DATE", "TIMESTAMP(3)"),
        ("DOUBLE", "STRING"),
        ({"type": "MAP", "key": "STRING", "value": "INT"}, {"type": "MAP", "key": "STRING", "value": "BIGINT"}),
        (row((1, "a", "BIGINT")), row((1, "a", "INT"))),
        (row((1, "a", "INT")), "STRING"),
    ],
)
def test_change_that_may_lose_is_named(old: Any, new: Any) -> None:
    with pytest.raises(Unsupported, match=r"f\.parquet: column c.*: expected a type that .* holds unchanged, found"):
        run([], old, new)


def test_value_that_a_later_type_does_not_hold_is_named() -> None:
    with pytest.raises(Unsupported, match=r"column c: expected values of timestamp\[ns\]"):
        run([datetime(9999, 1, 1)], "TIMESTAMP(3)", "TIMESTAMP(9)")  # noqa: DTZ001


@each(
    ("array", "raw"),
    [
        (pa.array([1], pa.int32()), "TINYINT"),
        (pa.array([0], pa.timestamp("us")), "TIMESTAMP(3)"),
        (pa.array([0], pa.timestamp("us")), "TIMESTAMP_LTZ(6)"),
        (pa.array([0], pa.time64("us")), "TIME(0)"),
        (pa.array([0], pa.int32()), "TIME(3)"),
        (pa.array(["x"], pa.large_string()), "STRING"),
        (pa.array(["x"], pa.string_view()), "STRING"),
        (pa.array([b"abc"], pa.binary(3)), "BINARY(3)"),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 1)), "DECIMAL(10, 2)"),
        (pa.array([[1.0, 2.0]], pa.list_(pa.float32())), {"type": "VECTOR", "length": 2, "element": "FLOAT"}),
        (pa.array([{"x": 1}], pa.struct([("x", pa.int64())])), row((0, "x", "INT"))),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), {"type": "MULTISET", "element": "STRING"}),
    ],
)
def test_other_ways_to_store_a_type_are_read(array: pa.Array, raw: Any) -> None:
    assert evolve(array, raw, raw).type == column(raw).type


@each(
    ("array", "raw"),
    [
        (pa.array([1]), "STRING"),
        (pa.array(["1"]), "INT"),
        (pa.array([300]), "TINYINT"),
        (pa.array([1.0]), "INT"),
        (pa.array([1]), "DATE"),
        (pa.array([[1]]), "INT"),
        (pa.array([{"y": 1}]), row((0, "x", "INT"))),
        (pa.array([[1.0]], pa.list_(pa.float32())), {"type": "VECTOR", "length": 2, "element": "FLOAT"}),
    ],
)
def test_file_that_stores_something_else_is_named(array: pa.Array, raw: Any) -> None:
    with pytest.raises(Unsupported, match=r"f\.parquet: column c.*: expected values of"):
        evolve(array, raw, raw)
