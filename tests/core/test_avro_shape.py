"""Avro schemas whose records and items take bytes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dvcodec.core import avro
from dvcodec.core.avro import AvroFile, SchemaError, check_shape, without_annotations
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.limits import Limits
from samples.avro import block, header, zigzag

fastavro = pytest.importorskip("fastavro")


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


PAIR = record("pair", key="int", value="bytes")


def test_only_what_decoding_needs_is_left_of_a_schema() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}
    whole = {
        "__fastavro_parsed__": True,
        "__named_schemas": {},
        "doc": "x",
        **record("r", a=["null", decimal], b=array(decimal), c={"type": "map", "values": decimal}, d={"type": decimal}),
    }
    plain = {"type": "bytes"}
    assert without_annotations(whole) == record(
        "r", a=["null", plain], b=array(plain), c={"type": "map", "values": plain}, d={"type": plain}
    )
    assert without_annotations({"fields": [1, {"name": "a", "default": 3}]}) == {"fields": [1, {"name": "a"}]}
    assert without_annotations(5) == 5


def thin(members: int) -> dict[str, Any]:
    return record("r", a="boolean", **{f"f{i}": "null" for i in range(members)})


@pytest.mark.parametrize(
    "kind",
    [
        "int",
        array(PAIR),
        array(["null", PAIR]),
        {"type": "map", "values": "null"},
        record("r", a=["null", array(PAIR)], b=array("double")),
        array({"type": "fixed", "name": "f", "size": 16}),
        array(thin(8)),
        array(record("r", a={"type": "fixed", "name": "f", "size": 16}, **{f"f{i}": "null" for i in range(128)})),
        record("s", a=array(["int", thin(8)])),
        thin(4096),
        record("s", a=PAIR, b=array("pair"), c=["null", "pair"]),
        record("n.s", a=record("r", b="int"), c=array("n.r")),
        {"type": "error", "name": "e", "fields": [{"name": "a", "type": "int"}]},
    ],
)
def test_items_and_records_that_take_bytes(kind: Any) -> None:
    check_shape(fastavro.parse_schema(kind, {}))


@pytest.mark.parametrize(
    "kind",
    [
        array("null"),
        array(record("r", a="null")),
        array({"type": "fixed", "name": "f", "size": 0}),
        array(thin(9)),
        ["null", record("s", a={"type": "map", "values": array(thin(9))})],
        array(record("s", a=array("int"), b=record("t", c="null", d=thin(17)))),
        thin(4097),
        record("s", a=[thin(2048), "int"], b=record("t", **{f"f{i}": "null" for i in range(2048)})),
        record("s", a=record("e"), b=array("e")),
        record("s", a=record("null", b="int"), c=array("null")),
        array({"type": "error", "name": "e", "fields": []}),
        record("s", a=thin(2048), b="r", c="r"),
    ],
)
def test_items_or_records_of_hardly_any_bytes_are_refused(kind: Any) -> None:
    with pytest.raises(SchemaError, match="bytes"):
        check_shape(kind)
    with pytest.raises(NotCanonical, match=r"Avro schema: expected a valid schema, found SchemaError: .* bytes"):
        read(kind, b"\0")


def read(schema: Any, content: bytes, count: int = 1, **limits: int) -> list[Any]:
    data = header(schema) + block(count, content)
    return list(avro.decode(Cursor(data), limits=Limits(**limits)).records())


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ({"type": "record", "name": "r"}, "a record without fields"),
        (array({"type": "fixed", "name": "f", "size": "many"}), "a fixed type without a size"),
        (array({"type": "fixed", "name": "f", "size": -1}), "a fixed type without a size"),
    ],
)
def test_schemas_that_fastavro_accepts_and_no_one_can_read(kind: Any, problem: str) -> None:
    with pytest.raises(NotCanonical, match=f"Avro schema: expected a valid schema, found SchemaError: {problem}"):
        read(kind, b"\0")


LEAF = record("r0", a="int")


def chain(length: int) -> dict[str, Any]:
    """Records each within the next one, by name."""
    return record("s", r0=LEAF, **{f"f{i}": record(f"r{i}", a=f"r{i - 1}") for i in range(1, length)})


@pytest.mark.parametrize(
    "kind",
    [
        record("r", a="r"),
        record("r", a=["null", "r"]),
        record("r", a=array("r")),
        record("n.s", a=record("r", b={"type": "map", "values": "n.s"})),
        chain(249),
    ],
)
def test_a_type_within_itself_or_within_many_others_is_refused(kind: Any) -> None:
    """It would take fastavro down a C stack without end, which ends the process."""
    with pytest.raises(
        NotCanonical, match=r"Avro schema: expected a valid schema, found SchemaError: .*type.* (in|it)"
    ):
        read(kind, b"\0" * 100_000)


def test_types_within_others_are_read() -> None:
    value: Any = 1
    names = [{"a": value}]
    for _ in range(247):
        names.append({"a": names[-1]})
    assert read(chain(248), b"\2" * 248) == [dict(zip(["r0", *(f"f{i}" for i in range(1, 248))], names, strict=False))]


def test_schemas_of_too_many_levels() -> None:
    kind: Any = "int"
    for _ in range(sys.getrecursionlimit()):
        kind = array(kind)
    file = AvroFile(kind, "null", Cursor(b""), b"", Limits())
    with pytest.raises(NotCanonical, match=r"Avro schema: .* RecursionError"):
        list(file.records())


@pytest.mark.parametrize("function", ["parse_schema", "schemaless_reader"])
def test_memory_that_fastavro_lacks_is_no_damage(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(fastavro, function, fail)
    with pytest.raises(MemoryError, match="no room"):
        read(record("r", a="int"), b"\2")


def test_rows_of_data_have_no_limit() -> None:
    content = zigzag(997) + bytes(997) + zigzag(0)
    data = header(record("r", a=array("int"))) + block(1, content)
    file = avro.decode(Cursor(data), limits=Limits(max_record_bytes=999))
    with pytest.raises(LimitExceeded):
        list(file.records())
    assert len(list(file.records(by_block=True))) == 1
