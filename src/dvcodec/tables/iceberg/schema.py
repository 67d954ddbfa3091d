"""The columns of an Iceberg schema as Arrow types, values of columns that a data file lacks, and partition values.

Specification: Iceberg table spec, "Schemas and Data Types", "Partition Transforms", and appendix D, "JSON single-value
serialization". Partition values as text are those of Java's ``Transform.toHumanString``.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.extras import pa
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.metadata.avro_fields import Logical
from dvcodec.tables.metadata.json_fields import MAX_DIGITS, JsonFields, PartitionValue, is_nan, parse_decimal
from dvcodec.tables.rows.columns import Column, chosen, column_errors

T = TypeVar("T")
_MAX_DEPTH = 64
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_FIXED = re.compile(r"fixed\[(\d{1,9})\]")
_DATE = re.compile(r"[+-]?[0-9]{4,6}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,9}))?)?")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_POWERS = {6: 10**6, 9: 10**9}
_UTC = re.compile(r"(?:Z|\+00:00)$")


class SchemaColumns:
    """The columns of a schema; the type of each is parsed once, when it is asked for.

    Args:
        schema: schema of the table.

    Raises:
        NotCanonical: the JSON is not that of a schema, or two columns have one name.
    """

    def __init__(self, schema: JsonFields) -> None:
        self._fields = {field.column_name("name"): field for field in schema.objects("fields")}
        self._columns: dict[str, Column] = {}
        if len(self._fields) < len(schema.array("fields")):
            schema.fail("fields", "columns of distinct names", "two of one name")

    def read(self, names: Sequence[str] | None = None, location: str = "") -> tuple[Column, ...]:
        """Return columns.

        Args:
            names: names of the columns to read, in this order; None = all. Only their types are parsed.
            location: location of the table, for errors.

        Raises:
            UsageError: no such column.
            NotCanonical: the JSON is not that of a column.
            Unsupported: a type without a counterpart in Arrow.
            MissingExtra: pyarrow is not installed.
        """
        return tuple(map(self._column, chosen(self._fields, names, location)))

    def _column(self, name: str) -> Column:
        if name not in self._columns:
            self._columns[name] = read_column(self._fields[name])
        return self._columns[name]


def read_column(field: JsonFields) -> Column:
    """Read one column of a schema.

    Raises:
        DecodeError: see `SchemaColumns.read`.
        MissingExtra: pyarrow is not installed.
    """
    with column_errors(field.column_name("name")):
        return _column(field)


def stored_ids(schema: JsonFields) -> dict[int, str]:
    """Return the columns that data files may hold, by field id; types are not parsed.

    Raises:
        NotCanonical: the JSON is not that of a schema.
    """
    fields = (field for field in schema.objects("fields") if field.values.get("type") != "unknown")
    return {field.integer("id"): field.column_name("name") for field in fields}


@lru_cache(maxsize=1)
def _simple_types() -> Mapping[str, pa.DataType]:
    """Return the types without parameters."""
    return {
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


def _column(field: JsonFields, depth: int = 0) -> Column:
    """Return a column, or a field of a struct."""
    number, name, default = field.integer("id"), field.column_name("name"), field.values.get("initial-default")
    return _typed(field, "type", number, name, nullable=not field.flag("required"), depth=depth, default=default)


def _part(nested: JsonFields, name: str, depth: int, *, nullable: bool) -> Column:
    """Return the element of a list, or the key or value of a map."""
    return _typed(nested, name, nested.integer(f"{name}-id"), name, nullable=nullable, depth=depth + 1)


def _typed(
    parent: JsonFields, member: str, number: int, name: str, *, nullable: bool, depth: int, default: Any = None
) -> Column:
    """Return a column of the type that a member of an object has."""
    if depth > _MAX_DEPTH:
        parent.fail(member, f"at most {_MAX_DEPTH} levels", "more")
    children: tuple[Column, ...] = ()
    text = parent.values.get(member)
    if isinstance(text, str):
        kind, arrow = _primitive(parent, member, text)
        if kind == "unknown" and not nullable:
            parent.fail(member, "a type that has values, which are required here", repr(text))
    else:
        nested = parent.object(member)
        kind = nested.text("type")
        if kind == "struct":
            children = tuple(_column(field, depth + 1) for field in nested.objects("fields"))
            arrow = pa.struct([child.field for child in children])
        elif kind == "list":
            element = _part(nested, "element", depth, nullable=not nested.flag("element-required"))
            children, arrow = (element,), pa.list_(element.field)
        elif kind == "map":
            key = _part(nested, "key", depth, nullable=False)
            value = _part(nested, "value", depth, nullable=not nested.flag("value-required"))
            children, arrow = (key, value), pa.map_(key.field, value.field)
        else:
            nested.fail("type", "struct, list or map", repr(kind)[:60])
    extension = "arrow.uuid" if kind == "uuid" else ""
    return Column(
        name, number, type=arrow, nullable=nullable, children=children, kind=kind, default=default, extension=extension
    )


def _primitive(parent: JsonFields, member: str, text: str) -> tuple[str, pa.DataType]:
    """Return the name of a type without its parameters, and the type."""
    simple = _simple_types().get(text)
    if simple is not None:
        return text, simple
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if 1 <= precision <= MAX_DIGITS and scale <= precision:
            return "decimal", pa.decimal128(precision, scale)
    elif (match := _FIXED.fullmatch(text)) and int(match[1]):
        return "fixed", pa.binary(int(match[1]))
    what, actual = parent.path_to(member), repr(text)[:60]
    raise Unsupported(what, source=parent.source, expected="a type that Arrow has", actual=actual)


def constant_of_default(field: Column, source: str) -> pa.Scalar:
    """Return the ``initial-default`` of a field.

    Raises:
        NotCanonical: it is not a value of the field's type.
    """
    return _scalar(field, lambda: _default(field, field.default), "initial-default", source)


def constant_of_partition(field: Column, value: Any, source: str) -> pa.Scalar:
    """Return the value of an identity partition as a value of the column.

    Raises:
        NotCanonical: it is not a value of the column's type.
    """
    return _scalar(field, lambda: _stored(field, value), "partition value", source)


def _scalar(field: Column, make: Any, what: str, source: str) -> pa.Scalar:
    try:
        return pa.array([make()], field.type)[0]
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, pa.ArrowException) as err:
        raise NotCanonical(
            f"{what} of column {field.name:.80}", source=source, expected=f"{field.type!s:.80}", actual=str(err)[:120]
        ) from None


def _stored(field: Column, value: Any) -> Any:
    """Convert a value as Avro stores it (decimals as unscaled numbers) to one that Arrow takes."""
    if field.kind == "decimal" and value is not None:
        number = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
        if abs(number) >= 10**MAX_DIGITS:
            raise ValueError(f"more than {MAX_DIGITS} digits")
        return scaled(number, field.type.scale)
    if field.kind == "uuid" and isinstance(value, str):
        return _uuid(value)
    return value


def _default(field: Column, value: Any) -> Any:
    """Convert a JSON value to one that Arrow takes: numbers for dates and times, which work for every year."""
    kind = field.kind
    if value is None:
        return None
    if kind == "struct":
        found = _as(dict, value)
        return {child.name: _default_part(child, found.get(str(child.id), child.default)) for child in field.children}
    if kind == "list":
        return [_default_part(field.children[0], item) for item in _as(list, value)]
    if kind == "map":
        key, item = field.children
        parts = _as(dict, value)
        pairs = zip(_as(list, parts["keys"]), _as(list, parts["values"]), strict=True)
        return [(_default_part(key, name), _default_part(item, found)) for name, found in pairs]
    if kind == "boolean":
        return _as(bool, value)
    if kind in ("int", "long"):
        return _as(int, value)
    if kind in ("float", "double"):
        return _float(_as(int, value) if type(value) is int else _as(float, value), kind)
    return _TEXTS[kind](_as(str, value))


def _default_part(field: Column, value: Any) -> Any:
    found = _default(field, value)
    if found is None and not field.nullable:
        raise ValueError(f"no value of {field.name}")
    return found


def _as(kind: type[T], value: Any) -> T:
    """Return a value of exactly this type: true is not a number."""
    if type(value) is not kind:
        raise TypeError(f"{value!r:.60} is not of type {kind.__name__}")
    return value


def _float(value: float, kind: str) -> float:
    if not abs(value) <= float(np.finfo(np.float32 if kind == "float" else np.float64).max):
        raise ValueError(f"{value!r:.60} is not a finite {kind}")
    return float(value)


def _days(text: str) -> int:
    if not _DATE.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a date")
    return int(np.datetime64(text.removeprefix("+"), "D").astype(np.int64))


def _time(text: str, digits: int = 6) -> int:
    """Return the time since midnight, with this many digits of a second's fraction."""
    match = _TIME.fullmatch(text)
    fraction = (match and match[4]) or ""
    if match is None or len(fraction) > digits:
        raise ValueError(f"{text!r:.60} is not a time")
    hours, minutes, seconds = (int(part or 0) for part in match.group(1, 2, 3))
    return ((hours * 60 + minutes) * 60 + seconds) * _POWERS[digits] + int(fraction.ljust(digits, "0"))


def _timestamp(text: str, *, digits: int = 6, utc: bool = False) -> int:
    """Return the time since 1970, with this many digits of a second's fraction."""
    plain = _UTC.sub("", text) if utc else text
    date, mark, clock = plain.partition("T")
    if not mark or (utc and plain == text):
        raise ValueError(f"{text!r:.60} is not a timestamp {'in UTC' if utc else 'without zone'}")
    return _days(date) * 86_400 * _POWERS[digits] + _time(clock, digits)


def _uuid(text: str) -> bytes:
    if not _UUID.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a UUID")
    return uuid.UUID(text).bytes


_TEXTS: Mapping[str, Callable[[str], Any]] = {
    "decimal": parse_decimal,
    "date": _days,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": partial(_timestamp, utc=True),
    "timestamp_ns": partial(_timestamp, digits=9),
    "timestamptz_ns": partial(_timestamp, digits=9, utc=True),
    "string": str,
    "uuid": _uuid,
    "fixed": bytes.fromhex,
    "binary": bytes.fromhex,
}
"""Parsers of a default's text, by type."""


_NAN = float("nan")
"""A single NaN object, so that tuples with it compare equal."""
_PERIODS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_TICKS = {"micros": "us", "nanos": "ns", "millis": "ms"}
_NOTHING = Logical("null", 0, False)
_KINDS: Mapping[str, tuple[str, type[Any]]] = {
    "boolean": ("boolean", bool),
    "int": ("int", int),
    "long": ("int", int),
    "float": ("float", float),
    "double": ("double", float),
    "decimal": ("decimal", int),
    "date": ("date", int),
    "timestamp-micros": ("timestamp", int),
    "local-timestamp-micros": ("timestamp", int),
    "string": ("string", str),
}
"""`PartitionValue.kind`, and the Python type of its values here, by logical or primitive type in Avro."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition of a file; equal for files of one partition and spec.

    Attributes:
        spec_id: partition spec.
        values: values of the spec's fields, in order, as Avro stores them: days, microseconds, bytes. Types that Avro
            may store in several ways have one form: decimals their unscaled number, UUIDs their bytes.
        texts: the same values as readable text; None for null.
        typed: the same values for other formats; without those of the transform ``void``.
        label: the partition as ``day=2026-01-01/part=a``; None without partition fields.
        identity: values that whole columns have, by field id of the column.
    """

    spec_id: int
    values: tuple[Any, ...]
    texts: dict[str, str | None] = field(compare=False)
    typed: tuple[PartitionValue, ...] = field(default=(), compare=False)
    label: str | None = field(default=None, compare=False)
    identity: dict[int, Any] = field(default_factory=dict, compare=False)


def scaled(unscaled: int, scale: int) -> Decimal:
    """Return the decimal of an unscaled value.

    Raises:
        TypeError, ValueError: it is not an integer.
    """
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


class PartitionReader:
    """Reads the partitions of one manifest; equal ones are one object."""

    def __init__(self, spec_id: int, fields: Sequence[PartitionField], names: dict[int, tuple[str, Logical]]) -> None:
        self._spec_id = spec_id
        self._fields = [(field, *names.get(field.field_id, (None, _NOTHING))) for field in fields]
        self._stored = [(name, logical) for _, name, logical in self._fields if name is not None]
        self._known: dict[tuple[Any, ...], Partition] = {}

    def read(self, struct: dict[Any, Any]) -> Partition:
        """Return the partition of a struct in the manifest, which may lack fields of the spec."""
        stored = tuple([_comparable(logical, struct.get(name)) for name, logical in self._stored])
        found = self._known.get(stored)
        if found is None:
            left = iter(stored)
            values = tuple([None if name is None else next(left) for _, name, _ in self._fields])
            parts = [(field, logical, value) for (field, _, logical), value in zip(self._fields, values, strict=True)]
            texts = {field.name: _text(field.transform, logical, value) for field, logical, value in parts}
            typed = tuple(_typed_value(*part) for part in parts if part[0].transform != "void")
            label = "/".join(f"{name}={'null' if text is None else text}" for name, text in texts.items())
            whole = {
                field.source_id: value
                for field, _, value in parts
                if field.transform == "identity" and field.source_id is not None
            }
            found = self._known[stored] = Partition(self._spec_id, values, texts, typed, label or None, whole)
        return found


def _comparable(logical: Logical, value: Any) -> Any:
    if isinstance(value, bytes) and logical.name == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        return number if abs(number) < 10**MAX_DIGITS else value
    if isinstance(value, str) and logical.name == "uuid":
        try:
            return uuid.UUID(value).bytes
        except ValueError:
            return value
    return _NAN if is_nan(value) else value


def _text(transform: str, logical: Logical, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _number(transform, logical, value)
    if isinstance(value, bytes):
        is_uuid = logical.name == "uuid" and len(value) == 16
        return str(uuid.UUID(bytes=value)) if is_uuid else base64.b64encode(value).decode()
    return str(np.float32(value) if logical.name == "float" else value)


def _number(transform: str, logical: Logical, value: int) -> str:
    if transform in _PERIODS:
        return _moment(value, _PERIODS[transform]).replace("T", "-")
    if logical.name == "decimal":
        return f"{scaled(value, logical.scale):f}"
    if logical.name == "date":
        return _moment(value, "D")
    kind, _, unit = logical.name.removeprefix("local-").partition("-")
    if unit not in _TICKS or kind not in ("time", "timestamp"):
        return str(value)
    date, _, time = _moment(value, _TICKS[unit]).partition("T")
    time = time.rstrip("0").rstrip(".") if "." in time else time
    return time if kind == "time" else f"{date}T{time}{'+00:00' if logical.utc else ''}"


def _moment(value: int, unit: Any) -> str:
    return str(np.datetime64(value, unit)) if abs(value) < 1 << 63 else str(value)


def _typed_value(field: PartitionField, logical: Logical, value: Any) -> PartitionValue:
    if field.transform != "identity":
        return PartitionValue(field.name, f"the transform {field.transform}", value)
    if field.column is None:
        return PartitionValue(field.name, "a nested or dropped column", value)
    kind, stored = _KINDS.get(logical.name, ("", object))
    if not kind or (value is not None and type(value) is not stored):
        return PartitionValue(field.column, f"the type {logical.name}", value)
    if kind == "timestamp" and logical.utc:
        kind = "timestamptz"
    if kind == "decimal" and value is not None:
        value = scaled(value, logical.scale)
    return PartitionValue(field.column, kind, value)
