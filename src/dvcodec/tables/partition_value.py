"""Typed partition values, which each format writes as text in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PartitionValue", "is_nan"]


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The value of a partition field.

    Attributes:
        column: source column of the values; the name of the field if they have none.
        kind: ``boolean``, ``int``, ``float``, ``double``, ``decimal``, ``date``, ``timestamp``, ``timestamptz``,
            ``string``; ``serialized`` is text as Delta's log has it. Any other word is a type, or a transform, that
            some formats lack.
        value: None = null; days or microseconds since 1970; a `decimal.Decimal`.
    """

    column: str
    kind: str
    value: Any


def is_nan(value: Any) -> bool:
    """Whether a value, of any type, is NaN: the only one that is not equal to itself."""
    return bool(value != value)  # noqa: PLR0124
