"""Partition values by type, for other formats to spell: texts of one format are not those of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PartitionValue"]


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The value of a partition field.

    Attributes:
        column: that the values are of; what the field is called, where they are of none.
        kind: ``boolean``, ``int``, ``float``, ``double``, ``decimal``, ``date``, ``timestamp``, ``timestamptz``,
            ``string``. Any other word names a type, or a transform, that not all formats know.
        value: None = null; days or microseconds since 1970; a `decimal.Decimal`.
    """

    column: str
    kind: str
    value: Any
