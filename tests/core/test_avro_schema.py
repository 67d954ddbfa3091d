"""Which writer's schemas pass for a known one."""

from __future__ import annotations

from typing import Any

from cases import each
from dvcodec.core.avro import differs


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


KNOWN = {
    "type": "record",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "b", "type": {"type": "array", "items": "string"}},
        {"name": "c", "type": ["null", "bytes"], "default": None},
    ],
}
TEXTS = {"type": "array", "items": "string"}


@each(
    "found",
    [
        record(("a", "int"), ("b", TEXTS), ("c", ["null", "bytes"])),
        record(("b", TEXTS), ("a", "long")),
        record(("a", {"type": "int"}), ("b", TEXTS), ("c", "bytes")),
        record(("a", "int"), ("b", TEXTS), ("more", {"type": "long", "logicalType": "timestamp-millis"})),
        record(("a", "int"), ("b", TEXTS), ("more", ["null", {"type": "array", "items": ["null", "long"]}])),
        record(("a", "int"), ("b", TEXTS), ("more", record(("x", "bytes")))),
    ],
)
def test_schema_of_another_producer_passes(found: Any) -> None:
    assert differs(found, KNOWN) is None


@each(
    ("found", "message"),
    [
        (record(("a", "int")), "no field b"),
        (record(("a", "string"), ("b", TEXTS)), "field a: 'string' in place of int"),
        (record(("a", ["null", "int"]), ("b", TEXTS)), "field a: nullable"),
        (record(("a", "int"), ("b", {"type": "array", "items": "null"})), "field b: 'null' in place of string"),
        (record(("a", "int"), ("b", "string")), "field b: 'string' in place of a array"),
        (record(("a", "int"), ("a", "int"), ("b", TEXTS)), "two of one name"),
        (record(("a", "int"), ("b", TEXTS), ("more", "null")), "field more of type 'null'"),
        (record(("a", "int"), ("b", TEXTS), ("more", {"type": "array", "items": "null"})), "field more"),
        (record(("a", "int"), ("b", TEXTS), ("more", record())), "field more"),
        (record(("a", "int"), ("b", TEXTS), ("more", "r")), "field more"),
        ({"type": "record"}, "a record without fields"),
        ("string", "'string' in place of a record"),
    ],
)
def test_other_and_unbounded_schemas_are_reported(found: Any, message: str) -> None:
    assert message in str(differs(found, KNOWN))


def test_recursive_types_are_reported() -> None:
    deep: Any = "int"
    for _ in range(900):
        deep = {"type": "array", "items": deep}
    assert "field more" in str(differs(record(("a", "int"), ("b", TEXTS), ("more", deep)), KNOWN))
