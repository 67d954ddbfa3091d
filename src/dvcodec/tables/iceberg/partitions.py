"""Partition values of a data file, for comparison and display.

Specification: Iceberg table spec, "Partition Transforms"; the text is that of Java's ``Transform.toHumanString``.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.metadata.avro_fields import Logical
from dvcodec.tables.metadata.json_fields import MAX_DIGITS, PartitionValue, is_nan

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
    """

    spec_id: int
    values: tuple[Any, ...]
    texts: dict[str, str | None] = field(compare=False)
    typed: tuple[PartitionValue, ...] = field(default=(), compare=False)
    label: str | None = field(default=None, compare=False)


def identity_values(partition: Partition, specs: Mapping[int, Sequence[PartitionField]]) -> dict[int, Any]:
    """Return the values that whole columns have: field id of the column -> value, as in `Partition.values`."""
    return {
        field.source_id: value
        for field, value in zip(specs[partition.spec_id], partition.values, strict=True)
        if field.transform == "identity" and field.source_id is not None
    }


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
            typed = tuple(_typed(*part) for part in parts if part[0].transform != "void")
            label = "/".join(f"{name}={'null' if text is None else text}" for name, text in texts.items())
            found = self._known[stored] = Partition(self._spec_id, values, texts, typed, label or None)
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


def _typed(field: PartitionField, logical: Logical, value: Any) -> PartitionValue:
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
