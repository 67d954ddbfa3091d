"""Partition values as Delta's log serializes them.

Specification: Delta's PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from dvcodec.core.errors import UsageError
from dvcodec.tables.model import DataFile
from dvcodec.tables.partition_value import PartitionValue

__all__ = ["partition_values"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (local to nowhere)


def partition_values(data_file: DataFile) -> dict[str, str | None]:
    """Return the partition values of a data file by column, as the text that Delta writes.

    Raises:
        UsageError: they are unknown, or Delta cannot represent one of them.
    """
    if data_file.partition is None:
        return {}
    if data_file.partition_values is None:
        raise UsageError(f"{data_file.path}: its partition values are unknown, but Delta records them")
    return {found.column: _text(found, data_file.path) for found in data_file.partition_values}


def _text(found: PartitionValue, path: str) -> str | None:
    spell = _SPELL.get(found.kind)
    if spell is None:
        raise UsageError(f"{path}: its partition value {found.column} has {found.kind}, which Delta does not have")
    if found.value is None:
        return None
    try:
        text = spell(found.value)
    except (OverflowError, ValueError):
        raise UsageError(
            f"{path}: its partition value {found.column} is outside of the years 1 to 9999, which Delta does not have"
        ) from None
    if not text and found.kind == "string":
        raise UsageError(f"{path}: its partition value {found.column} is empty text, which stands for null in Delta")
    return text


def _float(value: float | np.float32) -> str:
    """Return the shortest text that parses to the same number."""
    if math.isfinite(value):
        return str(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _date(days: int) -> str:
    return date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()


def _timestamp(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(" ")


def _instant(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat("T", "microseconds") + "Z"


_SPELL: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    "int": str,
    "float": lambda value: _float(np.float32(value)),
    "double": _float,
    "decimal": lambda value: f"{value:f}",
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _instant,
    "string": str,
    "serialized": str,
}
