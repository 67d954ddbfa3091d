"""Partition values of a data file: to compare, and to show.

Specification: Iceberg table spec, "Partition Transforms"; the text is that of Java's ``Transform.toHumanString``.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np

from dvcodec.tables.iceberg.avro_fields import Logical
from dvcodec.tables.iceberg.metadata import PartitionField

__all__ = ["Partition", "PartitionReader"]

_NAN = float("nan")
"""The one that stands for all: equal to itself in a tuple."""
_PERIODS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_TICKS = {"micros": "us", "nanos": "ns", "millis": "ms"}
_EXACT = Context(prec=40)
_MAX_DECIMAL = 16
"""Bytes of a decimal of 38 digits."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The partition of a file.

    Attributes:
        spec_id: partition spec.
        values: of the spec's fields, in order, as Avro stores them: days, microseconds, bytes.
        texts: of the same fields, to be read; None for null.
    """

    spec_id: int
    values: tuple[Any, ...]
    texts: dict[str, str | None]

    @property
    def key(self) -> tuple[int, tuple[Any, ...]]:
        """What is equal for files of one partition."""
        return self.spec_id, self.values

    @property
    def label(self) -> str | None:
        """The partition as ``day=2026-01-01/part=a``; None without partition fields."""
        return "/".join(f"{name}={'null' if text is None else text}" for name, text in self.texts.items()) or None


class PartitionReader:
    """Makes partitions of one manifest; those that are equal are one object."""

    def __init__(
        self, spec_id: int, fields: Sequence[PartitionField], names: dict[int, tuple[str, Logical | None]]
    ) -> None:
        self._spec_id = spec_id
        self._fields = [(field, *names.get(field.field_id, (None, None))) for field in fields]
        self._known: dict[tuple[Any, ...], Partition] = {}

    def read(self, struct: dict[Any, Any]) -> Partition:
        """Return the partition that a struct of the manifest stands for."""
        values = tuple([_comparable(struct.get(name)) for _, name, _ in self._fields])
        found = self._known.get(values)
        if found is None:
            texts = {
                field.name: _text(field.transform, logical, value)
                for (field, _, logical), value in zip(self._fields, values, strict=True)
            }
            found = self._known[values] = Partition(self._spec_id, values, texts)
        return found


def _comparable(value: Any) -> Any:
    return _NAN if value != value else value  # noqa: PLR0124  (NaN alone is not equal to itself)


def _text(transform: str, logical: Logical | None, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _number(transform, logical, value)
    if isinstance(value, bytes):
        return _bytes(logical, value)
    return str(value)


def _number(transform: str, logical: Logical | None, value: int) -> str:
    if transform in _PERIODS:
        return _moment(value, _PERIODS[transform]).replace("T", "-")
    if logical is None or logical.name in ("decimal", "uuid"):
        return str(value)
    if logical.name == "date":
        return _moment(value, "D")
    kind, _, unit = logical.name.removeprefix("local-").partition("-")
    if unit not in _TICKS or kind not in ("time", "timestamp"):
        return str(value)
    date, _, time = _moment(value, _TICKS[unit]).partition("T")
    time = time.rstrip("0").rstrip(".") if "." in time else time
    return time if kind == "time" else f"{date}T{time}{'+00:00' if logical.utc else ''}"


def _moment(value: int, unit: Any) -> str:
    return str(np.datetime64(value, unit))


def _bytes(logical: Logical | None, value: bytes) -> str:
    if logical is not None and logical.name == "decimal" and len(value) <= _MAX_DECIMAL:
        return f"{Decimal(int.from_bytes(value, 'big', signed=True)).scaleb(-logical.scale, _EXACT):f}"
    if logical is not None and logical.name == "uuid" and len(value) == 16:
        return str(uuid.UUID(bytes=value))
    return base64.b64encode(value).decode()
