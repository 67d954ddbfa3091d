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
        record(("a", "int"), ("b", TEXTS), ("more", {"type": "map", "values": "long"})),
        record(("a", "int"), ("b", TEXTS), ("more", {"type": "enum", "name": "e", "symbols": ["x"]})),
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
        ({"type": "record"}, "a record without fields"),
        ("string", "'string' in place of a record"),
    ],
)
def test_other_schemas_are_reported(found: Any, message: str) -> None:
    assert message in str(differs(found, KNOWN))
