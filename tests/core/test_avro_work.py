"""What decoding by an Avro schema costs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from cases import each
from dvcodec.core import avro
from dvcodec.core.avro import AvroFile
from dvcodec.core.avro_work import MAX_DENSITY, SchemaError, density, item_counter, record_work, without_annotations
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.limits import Budget, Limits
from samples.avro import block, header, records, sized, zigzag

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


@each(
    ("kind", "work"),
    [
        ("int", 16),
        ({"type": "int"}, 16),
        ({"type": {"type": "int"}}, 16),
        (PAIR, 32),
        (["null", PAIR], 32),
        (record("r", **{f"f{i}": "null" for i in range(200)}), 1616),
        (record("r", a=["null", PAIR], b="int"), 64),
    ],
)
def test_the_work_of_a_record_grows_with_its_fields(kind: Any, work: int) -> None:
    assert record_work(kind) == work


@each(
    ("kind", "most"),
    [
        ("int", 0),
        (PAIR, 0),
        (array("int"), 16),
        (array("double"), 2),
        (array({"type": "fixed", "name": "f", "size": 16}), 1),
        (array(PAIR), 16),
        (array(["null", PAIR]), 16),
        ({"type": "map", "values": "null"}, 32),
        (record("r", a=["null", array(PAIR)], b=array("double")), 16),
        (array(array("boolean")), 16),
        ({"type": array("int")}, 16),
        (array(record("r", a="boolean", **{f"f{i}": "null" for i in range(5)})), 64),
        (array(record("r", a="boolean", **{f"f{i}": "null" for i in range(6)})), 72),
        (array("null"), MAX_DENSITY + 1),
        (array(record("r", a="null")), MAX_DENSITY + 1),
    ],
)
def test_how_much_a_byte_of_items_may_become(kind: Any, most: int) -> None:
    assert density(kind) == most


@each(
    ("kind", "value", "work"),
    [
        (array("int"), [1, 2, 3], 48),
        (["null", array("int")], None, 0),
        (["null", array("int")], [1], 16),
        ({"type": array("int")}, [1], 16),
        ({"type": "map", "values": "int"}, {"a": 1}, 32),
        ({"type": "map", "values": array("int")}, {"a": [1, 2]}, 64),
        (array(array("int")), [[], [1]], 48),
        (record("r", a=["null", array(PAIR)], b="int"), {"a": None, "b": 1}, 0),
        (record("r", a=["null", array(PAIR)], b="int"), {"a": [{}] * 3, "b": 1}, 96),
        (record("r", a=["null", array(array("int"))]), {"a": None}, 0),
        (record("r", a=["null", array(array("int"))]), {"a": [[1]]}, 32),
        (record("r", a=["null", record("s", b=array("int"))]), {"a": {"b": [1]}}, 16),
        (record("r", a=["null", record("s", b=array("int"))]), {"a": None}, 0),
        (["int", array("int"), array(PAIR)], [1, 2], 64),
        (["int", array("int"), array(PAIR)], 5, 0),
        (["int", {"type": "map", "values": array("int")}, "null"], {"a": [1]}, 64),
    ],
)
def test_items_are_counted_wherever_they_are(kind: Any, value: Any, work: int) -> None:
    counter = item_counter(kind)
    assert counter is not None
    assert counter(value) == work


def test_nothing_is_counted_without_items() -> None:
    assert item_counter(record("r", a="int", b=["null", PAIR])) is None
    assert item_counter(["null", "string"]) is None


def read(schema: Any, content: bytes, count: int = 1, **limits: int) -> list[Any]:
    data = header(schema) + block(count, content)
    return list(avro.decode(Cursor(data), limits=Limits(**limits)).records())


def test_logical_types_have_no_effect_on_values() -> None:
    kinds = {
        "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        "time": {"type": "long", "logicalType": "timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
        "id": {"type": "string", "logicalType": "uuid"},
    }
    content = sized(b"\1") + zigzag(2**40) + zigzag(-1) + sized(b"x")
    expected = {"decimal": b"\1", "time": 2**40, "day": -1, "id": "x"}
    assert read(record("r", **kinds), content) == [expected]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ({"type": "record", "name": "r"}, "a record without fields"),
        (array({"type": "fixed", "name": "f", "size": "many"}), "a fixed type without a size"),
        (array({"type": "fixed", "name": "f"}), "a fixed type without a size"),
        (array({"type": "fixed", "name": "f", "size": -1}), "a fixed type without a size"),
    ],
)
def test_schemas_that_fastavro_accepts_and_no_one_can_read(kind: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        density(kind)
    with pytest.raises(NotCanonical, match="Avro schema: expected a valid schema"):
        read(kind, b"\0")


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


def test_a_schema_that_claims_to_be_parsed_is_checked() -> None:
    with pytest.raises(NotCanonical, match="a valid schema"):
        read({**record("r", a="nothing"), "__fastavro_parsed__": True, "__named_schemas": {}}, b"\0")


def test_items_of_hardly_any_bytes_are_refused() -> None:
    thin = record("k", z="boolean", **{f"f{i}": "null" for i in range(200)})
    with pytest.raises(NotCanonical, match="items of an array or a map: expected members that take bytes"):
        read(record("r", a=array(thin)), zigzag(1) + b"\0\0")


def test_items_are_charged_to_the_budget() -> None:
    schema = record("r", a=array(PAIR))
    content = records(schema, {"a": [{"key": 1, "value": b"x"}] * 100})
    for count in (1, 2):
        work = count * (len(content) + Budget.RECORD + 3200)
        assert len(read(schema, content * count, count, max_base_work=work, max_work_per_byte=0)) == count
        with pytest.raises(LimitExceeded, match=f"work for items .*: expected at most {work - 1} .*, found {work}"):
            read(schema, content * count, count, max_base_work=work - 1, max_work_per_byte=0)


def test_a_record_of_many_members_costs_more() -> None:
    schema = record("r", a="int", **{f"f{i}": "null" for i in range(200)})
    with pytest.raises(LimitExceeded, match="found 1625"):
        read(schema, b"\0", max_base_work=1624, max_work_per_byte=0)
    assert read(schema, b"\0", max_base_work=1625, max_work_per_byte=0)[0]["a"] == 0


def test_the_more_a_byte_may_become_the_fewer_a_record_has() -> None:
    for schema, most in ((record("r", a=array("int")), 1000), (record("r", a={"type": "map", "values": "null"}), 500)):
        content = zigzag(most - 3) + bytes(most - 3) + zigzag(0)
        assert len(content) == most
        assert len(read(schema, content, max_record_bytes=1000)) == 1
        longer = zigzag(most - 2) + bytes(most - 2) + zigzag(0)
        with pytest.raises(LimitExceeded, match=f"max_record_bytes: expected at most {most} bytes in record 0"):
            read(schema, longer, max_record_bytes=1000)
