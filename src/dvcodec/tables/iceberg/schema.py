"""The columns of an Iceberg schema as Arrow types, and values that stand for columns that a data file lacks.

Specification: Iceberg table spec, "Schemas and Data Types", and appendix D, "JSON single-value serialization".
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from dvcodec.core.errors import MissingExtra, NotCanonical, Unsupported
from dvcodec.tables.members import Members

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Field", "constant_of_default", "constant_of_partition", "read_fields"]

_MAX_DEPTH = 64
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED = re.compile(r"fixed\[(\d{1,9})\]")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_UTC = re.compile(r"(?:Z|\+00:00)$")


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of one.

    Attributes:
        id: what it is found by in data files.
        name: in the schema.
        kind: ``long``, ``decimal``, ``struct``, ``list``, ``map``: the type's name without its parameters.
        arrow: the type in Arrow.
        required: whether it never is null.
        children: fields of a struct, element of a list, key and value of a map.
        default: ``initial-default`` as JSON: the value in files that were written before the column was; None = null.
    """

    id: int
    name: str
    kind: str
    arrow: pa.DataType
    required: bool
    children: tuple[Field, ...] = ()
    default: Any = None


def read_fields(schema: Members) -> tuple[Field, ...]:
    """Read the columns of a schema.

    Raises:
        NotCanonical: the JSON is not that of a schema, or two columns have one name.
        Unsupported: a type that Arrow has no counterpart of.
        MissingExtra: pyarrow is not installed.
    """
    fields = _Reader(schema).fields(schema, 0)
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        schema.fail("fields", "columns of distinct names", "two of one name")
    return fields


class _Reader:
    def __init__(self, schema: Members) -> None:
        try:
            import pyarrow as pa  # noqa: PLC0415  (extra "tables")
        except ImportError:
            raise MissingExtra("pyarrow", "tables") from None
        self._pa = pa
        self._source = schema.source
        self._simple: dict[str, pa.DataType] = {
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "long": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "date": pa.date32(),
            "time": pa.time64("us"),
            "timestamp": pa.timestamp("us"),
            "timestamptz": pa.timestamp("us", "UTC"),
            "timestamp_ns": pa.timestamp("ns"),
            "timestamptz_ns": pa.timestamp("ns", "UTC"),
            "string": pa.string(),
            "uuid": pa.binary(16),
            "binary": pa.binary(),
            "unknown": pa.null(),
        }

    def fields(self, struct: Members, depth: int) -> tuple[Field, ...]:
        return tuple(
            self._field(
                item.integer("id"),
                item.text("name"),
                item.values.get("type"),
                self._flag(item, "required"),
                item.path_to("type"),
                depth,
                item.values.get("initial-default"),
            )
            for item in struct.objects("fields")
        )

    def _field(
        self, number: int, name: str, kind: Any, required: bool, where: str, depth: int, default: Any = None
    ) -> Field:
        if depth > _MAX_DEPTH:
            raise NotCanonical(where, source=self._source, expected=f"at most {_MAX_DEPTH} levels", actual="more")
        if isinstance(kind, str):
            simple, arrow = self._primitive(kind, where)
            return Field(number, name, simple, arrow, required, (), default)
        nested = Members.of(kind, self._source, where)
        word = nested.text("type")
        if word == "struct":
            children = self.fields(nested, depth + 1)
        elif word == "list":
            children = (self._part(nested, "element", depth, required=self._flag(nested, "element-required")),)
        elif word == "map":
            key = self._part(nested, "key", depth, required=True)
            children = (key, self._part(nested, "value", depth, required=self._flag(nested, "value-required")))
        else:
            nested.fail("type", "struct, list or map", repr(word)[:60])
        return Field(number, name, word, self._nested(word, children), required, children, default)

    def _part(self, nested: Members, name: str, depth: int, *, required: bool) -> Field:
        number = nested.integer(f"{name}-id")
        return self._field(number, name, nested.values.get(name), required, nested.path_to(name), depth + 1)

    def _flag(self, members: Members, name: str) -> bool:
        value = members.values.get(name)
        if not isinstance(value, bool):
            members.fail(name, "true or false")
        return value

    def _nested(self, word: str, children: tuple[Field, ...]) -> pa.DataType:
        pa = self._pa
        arrow = [pa.field(child.name, child.arrow, nullable=not child.required) for child in children]
        if word == "struct":
            return pa.struct(arrow)
        return pa.list_(arrow[0]) if word == "list" else pa.map_(arrow[0].type, arrow[1])

    def _primitive(self, text: str, where: str) -> tuple[str, pa.DataType]:
        if text in self._simple:
            return text, self._simple[text]
        if match := _DECIMAL.fullmatch(text):
            precision, scale = int(match[1]), int(match[2])
            if 1 <= precision <= 38 and scale <= precision:
                return "decimal", self._pa.decimal128(precision, scale)
        elif (match := _FIXED.fullmatch(text)) and int(match[1]):
            return "fixed", self._pa.binary(int(match[1]))
        raise Unsupported(where, source=self._source, expected="a type that Arrow has", actual=repr(text)[:60])


def constant_of_default(field: Field, source: str) -> pa.Scalar:
    """Return the ``initial-default`` of a field.

    Raises:
        NotCanonical: it is no value of the field's type.
    """
    return _scalar(field, lambda: _default(field, field.default), "initial-default", source)


def constant_of_partition(field: Field, value: Any, source: str) -> pa.Scalar:
    """Return a value of an identity partition as one of the column.

    Raises:
        NotCanonical: it is no value of the column's type.
    """
    return _scalar(field, lambda: _stored(field, value), "partition value", source)


def _scalar(field: Field, make: Any, what: str, source: str) -> pa.Scalar:
    import pyarrow as pa  # noqa: PLC0415

    try:
        return pa.array([make()], field.arrow)[0]
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, pa.ArrowException) as err:
        raise NotCanonical(
            f"{what} of column {field.name}", source=source, expected=str(field.arrow), actual=str(err)[:120]
        ) from None


def _stored(field: Field, value: Any) -> Any:
    """Return a value as Avro stores it, as what Arrow makes an array of."""
    if field.kind == "decimal" and isinstance(value, bytes):
        return _decimal(int.from_bytes(value, "big", signed=True), field.arrow.scale)
    if field.kind == "uuid" and isinstance(value, str):
        return uuid.UUID(value).bytes
    return value


def _decimal(unscaled: int, scale: int) -> Decimal:
    digits = tuple(map(int, f"{abs(unscaled):d}"))
    return Decimal((int(unscaled < 0), digits, -scale))


def _default(field: Field, value: Any) -> Any:
    """Return a JSON value as what Arrow makes an array of: numbers for dates and times, which know every year."""
    kind = field.kind
    if value is None:
        return None
    if kind == "struct":
        return {child.name: _default(child, value.get(str(child.id), child.default)) for child in field.children}
    if kind == "list":
        return [_default(field.children[0], item) for item in value]
    if kind == "map":
        key, item = field.children
        pairs = zip(value["keys"], value["values"], strict=True)
        return [(_default(key, name), _default(item, found)) for name, found in pairs]
    if kind in ("boolean", "int", "long", "float", "double"):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is no string")
    if kind == "decimal":
        return Decimal(value)
    if kind == "date":
        return int(np.datetime64(value, "D").astype(np.int64))
    if kind == "time":
        return _micros(value)
    if kind.startswith("timestamp"):
        unit: Any = "ns" if kind.endswith("_ns") else "us"
        return int(np.datetime64(_UTC.sub("", value), unit).astype(np.int64))
    if kind == "uuid":
        return uuid.UUID(value).bytes
    return bytes.fromhex(value) if kind in ("fixed", "binary") else value


def _micros(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.60} is no time")
    hours, minutes, seconds = (int(part or 0) for part in match.group(1, 2, 3))
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((match[4] or "").ljust(6, "0"))
