"""Avro schemas of manifests: fields by id, and made-up schemas whose records would have no end."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cases import each
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables.metadata.avro_fields import AvroColumn, open_avro, partition_names, select
from samples import avro


def written(folder: Path, schema: Any, records: Iterable[Any] = ()) -> str:
    path = folder / "x.avro"
    with path.open("wb") as file:
        fastavro.writer(file, schema, records)
    return str(path)


def forged(folder: Path, schema: Any) -> str:
    """Write a container file without records whose schema fastavro itself would not take."""
    path = folder / "x.avro"
    path.write_bytes(avro.header(schema))
    return str(path)


def record(*fields: Any, name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of(kind: Any, name: str = "a", /, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind} | more


COLUMNS = (AvroColumn("wanted", 7, ("long", "int"), required=True), AvroColumn("other", 8, ("string",)))


def test_fields_are_found_by_id_or_by_name(tmp_path: Path) -> None:
    schema = record(of("int", "renamed", **{"field-id": 7}), of(["null", "string"], "other"), of("long", "wanted"))
    with open_avro(written(tmp_path, schema, [{"renamed": 1, "other": "x", "wanted": 2}]), Storage()) as (file, cursor):
        found = select(file.schema, COLUMNS, "x", cursor)
        assert {name: field.name for name, field in found.items()} == {"wanted": "renamed", "other": "other"}
        assert list(file.records()) == [{"renamed": 1, "other": "x", "wanted": 2}]


@each(
    ("schema", "message"),
    [
        (
            record(of("long", "wanted", **{"field-id": 9})),
            r"field wanted \(7\) of entry: expected a field, found",
        ),
        (record(of("string", "wanted")), "field wanted of entry: expected long or int, found"),
        (record(of(["null", "string", "long"], "wanted")), "field wanted of entry: expected long or int, found"),
        ("long", "entry: expected a record, found long"),
        ({"type": "array", "items": "int"}, "entry: expected a record, found array"),
    ],
)
def test_what_is_not_there(tmp_path: Path, schema: Any, message: str) -> None:
    with (
        open_avro(forged(tmp_path, schema), Storage()) as (file, cursor),
        pytest.raises(NotCanonical, match=f"x.avro at byte 0: {message}"),
    ):
        select(file.schema, COLUMNS, "entry", cursor)


def deep(levels: int) -> Any:
    return "int" if not levels else {"type": "array", "items": deep(levels - 1)}


@each(
    ("schema", "error", "match"),
    [
        (record(of("r")), Unsupported, "expected a known type, found r"),
        (record(of(record(of("int"), name="q")), of("q", "b")), Unsupported, "expected a known type, found q"),
        (record(of(deep(40))), NotCanonical, "at most 16 levels"),
        (record(of({"type": "fixed", "name": "f", "size": 0})), Unsupported, "fixed of 0 bytes"),
        (record(of({"type": "fixed", "name": "f", "size": 2**40})), Unsupported, "fixed of 1099511627776 bytes"),
        (record(of({"type": "fixed", "name": "f"})), Unsupported, "expected a known type, found fixed"),
        (record(of({"type": "enum", "name": "e", "symbols": []})), Unsupported, "found enum"),
        (record({"type": "int"}), NotCanonical, "fields with names"),
        (record(of("int"), of("long")), NotCanonical, "two of one name"),
        ({"type": "record", "name": "r"}, NotCanonical, "fields with names"),
        (None, NotCanonical, "expected a type, found None"),
        (record(of(3)), NotCanonical, "expected a type, found 3"),
    ],
)
def test_made_up_schemas(tmp_path: Path, schema: Any, error: type[DecodeError], match: str) -> None:
    with (
        pytest.raises(error, match=f"x.avro at byte 0: Avro schema.*{match}"),
        open_avro(forged(tmp_path, schema), Storage()),
    ):
        pass


def test_what_is_not_a_partition(tmp_path: Path) -> None:
    for field in (of("int"), of({"type": "array", "items": "int"}, **{"field-id": 1000})):
        with (
            open_avro(written(tmp_path, record(field)), Storage()) as (file, cursor),
            pytest.raises(NotCanonical, match="field 'a' of partition"),
        ):
            partition_names(file.schema, cursor)
