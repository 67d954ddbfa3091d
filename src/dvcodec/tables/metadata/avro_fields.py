"""Fields of Avro manifests, found by field id, and the checks that bound reading.

Specification: Iceberg table spec, appendix A, "Avro": fields have the attribute ``field-id``; maps with keys other than
strings are arrays of records. A file contains its schema, which is checked before it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

from dvcodec.core import avro
from dvcodec.core.avro import AvroFile
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage, read_within
from dvcodec.tables.metadata.json_fields import MAX_DIGITS

INTEGERS = ("int", "long")
"""Types of an `AvroColumn` of integers."""
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_MAX_DEPTH = 16
_MAX_FIXED = 2**31 - 1
_MEMBER_IDS = ("element-id", "key-id", "value-id")


class AvroColumn(NamedTuple):
    """A field that is read.

    Attributes:
        name: in the specification; a file may use another one.
        field_id: identifies it in a file.
        types: Avro types that its values may have; ``record``, ``array`` and ``map`` among them.
        required: whether every record has it.
    """

    name: str
    field_id: int
    types: tuple[str, ...]
    required: bool = False


class Logical(NamedTuple):
    """The logical type of a field, which gives bytes or number their meaning; without one, its primitive type."""

    name: str
    scale: int
    utc: bool
    precision: int = 0


class FoundField(NamedTuple):
    """A field that a file has.

    Attributes:
        name: in the file.
        type: type in the schema, without the union that makes it nullable.
    """

    name: str
    type: Any


@contextmanager
def open_avro(location: str, storage: Storage, *, rows: bool = False) -> Iterator[tuple[AvroFile, Cursor]]:
    """Open a container file, and a cursor for errors about it.

    A file of `rows` may have any size; others are at most `Limits.max_metadata_bytes`.

    Numbers and bytes are returned as stored, whatever their logical types: dates of any year, timestamps without a
    zone to guess. See `partition_names` for their meaning.

    Raises:
        DecodeError: not an Avro file, or a schema that no Iceberg writer produces.
        OSError: it cannot be read.
    """
    with storage.open(location) as source:
        limits = storage.limits
        if rows:
            limits = replace(limits, max_metadata_bytes=max(source.size, limits.max_metadata_bytes))
        cursor = read_within(source, "max_metadata_bytes", limits)
        file = avro.decode(cursor, limits=limits)
        yield replace(file, schema=_Cleaner(cursor).clean(file.schema)), cursor


def select(schema: Any, columns: tuple[AvroColumn, ...], what: str, cursor: Cursor) -> dict[str, FoundField]:
    """Find fields of a record type by their ids; by name if a field has no id.

    Returns:
        Name in the specification -> field, for the fields that the file has.

    Raises:
        NotCanonical: a required field is missing, or a field has another type.
    """
    fields = fields_of(schema, what, cursor)
    by_id = {field["field-id"]: field for field in fields if isinstance(field.get("field-id"), int)}
    by_name = {field["name"]: field for field in fields if "field-id" not in field}
    found: dict[str, FoundField] = {}
    for column in columns:
        field = by_id.get(column.field_id, by_name.get(column.name))
        if field is None:
            if column.required:
                fail(cursor, f"field {column.name} ({column.field_id}) of {what}", "a field", "nothing")
            continue
        kind = not_null(field["type"])
        if _type_name(kind) not in column.types:
            fail(cursor, f"field {column.name} of {what}", " or ".join(column.types), _type_name(kind))
        found[column.name] = FoundField(field["name"], kind)
    return found


def partition_names(schema: Any, cursor: Cursor) -> dict[int, tuple[str, Logical]]:
    """Return the fields of a partition struct: field id -> name in the file, logical type.

    Raises:
        NotCanonical: a field without an id, or not of a primitive type.
    """
    found = {}
    for field in fields_of(schema, "partition", cursor):
        if not isinstance(field.get("field-id"), int):
            fail(cursor, f"field {field['name']!r:.60} of partition", "a field-id", field.get("field-id"))
        primitive = _type_name(not_null(field["type"]))
        if primitive not in (*_PRIMITIVES, "fixed"):
            fail(cursor, f"field {field['name']!r:.60} of partition", "a primitive type", "another")
        found[field["field-id"]] = (field["name"], field["logical"] or Logical(primitive, 0, False))
    return found


def not_null(kind: Any) -> Any:
    """Return a type without the union that makes it nullable."""
    if isinstance(kind, list):
        others = [option for option in kind if option != "null"]
        return others[0] if len(others) == 1 else kind
    return kind


def fields_of(schema: Any, what: str, cursor: Cursor) -> list[dict[str, Any]]:
    """Return the fields of a record type, from a cleaned schema.

    Raises:
        NotCanonical: it is not a record.
    """
    schema = not_null(schema)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        fail(cursor, what, "a record", _type_name(schema))
    fields: list[dict[str, Any]] = schema["fields"]
    return fields


def _type_name(kind: Any) -> str:
    if isinstance(kind, dict):
        kind = kind.get("type")
    return kind if isinstance(kind, str) else "a union"


def fail(cursor: Cursor, what: str, expected: object, actual: object) -> NoReturn:
    """Refuse a file.

    Raises:
        NotCanonical: always.
    """
    raise cursor.error(NotCanonical, what, at=0, expected=expected, actual=actual)


class _Cleaner:
    """Rebuilds a schema without logical types, defaults, docs and given names; a record keeps how it was spelled.

    A name may refer to a fixed type that was defined before, as Java writes it. Every writer spells out other types,
    and this is required: records that refer to each other could be of any size.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._fixed: dict[str, dict[str, Any]] = {}
        self._count = itertools.count()

    def clean(self, kind: Any, depth: int = 0) -> Any:
        """Return a type."""
        if depth > _MAX_DEPTH:
            fail(self._cursor, "Avro schema", f"at most {_MAX_DEPTH} levels", "more")
        if isinstance(kind, list):
            return [self.clean(option, depth + 1) for option in kind]
        if isinstance(kind, str):
            return kind if kind in _PRIMITIVES else self._fixed_type(self._fixed.get(kind, {}), kind)
        if not isinstance(kind, dict):
            fail(self._cursor, "Avro schema", "a type", f"{kind!r:.60}")
        name = kind.get("type")
        if name == "record":
            return self._record(kind, depth)
        if name in ("array", "map"):
            member = "items" if name == "array" else "values"
            inner = self.clean(kind.get(member), depth + 1)
            ids = {key: kind[key] for key in _MEMBER_IDS if isinstance(kind.get(key), int)}
            return {"type": name, member: inner, "logical": self._logical(kind[member]), **ids}
        if name == "fixed":
            for known in (kind.get("name"), f"{kind.get('namespace')}.{kind.get('name')}"):
                self._fixed[str(known)] = kind
            return self._fixed_type(kind, name)
        return self.clean(name, depth + 1)

    def _fixed_type(self, kind: dict[str, Any], name: str) -> dict[str, Any]:
        size = kind.get("size")
        if not isinstance(size, int) or not 0 < size <= _MAX_FIXED:
            message = f"{name:.60}" if size is None else f"fixed of {size!r:.60} bytes"
            raise self._cursor.error(Unsupported, "Avro schema", at=0, expected="a known type", actual=message)
        return {"type": "fixed", "name": f"type_{next(self._count)}", "size": size}

    def _record(self, kind: dict[str, Any], depth: int) -> dict[str, Any]:
        items = kind.get("fields")
        fields = []
        for item in items if isinstance(items, list) else [None]:
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                fail(self._cursor, "Avro schema", "fields with names", f"{item!r:.60}")
            inner = self.clean(item.get("type"), depth + 1)
            known = {"name": item["name"], "type": inner, "logical": self._logical(item["type"])}
            fields.append(known | {"field-id": item["field-id"]} if "field-id" in item else known)
        if len({field["name"] for field in fields}) < len(fields):
            fail(self._cursor, "Avro schema", "fields of distinct names", "two of one name")
        return {"type": "record", "name": f"type_{next(self._count)}", "fields": fields, "spelled": kind}

    def _logical(self, kind: Any) -> Logical | None:
        kind = not_null(kind)
        if isinstance(kind, str):
            kind = self._fixed.get(kind)
        if not isinstance(kind, dict) or not isinstance(kind.get("logicalType"), str):
            return None
        utc = kind.get("adjust-to-utc") is True
        return Logical(kind["logicalType"], _digits(kind, "scale"), utc, _digits(kind, "precision"))


def _digits(kind: dict[str, Any], name: str) -> int:
    """Return the scale or precision of a logical type; 0 if it is missing or invalid."""
    number = kind.get(name)
    return number if isinstance(number, int) and 0 <= number <= MAX_DIGITS else 0
