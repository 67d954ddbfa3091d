"""Typed partition values, which each format writes as text in its own way.

Decimals are parsed from the text of metadata.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


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


MAX_DIGITS = 38
"""Maximum digits of a decimal, in any format."""
_DECIMAL = re.compile(r"[+-]?[0-9]{1,38}(?:\.[0-9]{1,38})?(?:[eE][+-]?[0-9]{1,2})?")


def parse_decimal(text: str) -> Decimal:
    """Return a number with all digits written out: an exponent could be of any size, so Arrow must not see it.

    Raises:
        ValueError: it is not a decimal number, or has more than `MAX_DIGITS` digits before or after its point.

    >>> parse_decimal("-1.50"), parse_decimal("2E+3")
    (Decimal('-1.50'), Decimal('2000'))
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r:.60} is not a decimal number")
    number = Decimal(text)
    written = f"{number:f}"
    whole, _, fraction = written.lstrip("-").partition(".")
    if max(len(whole), len(fraction)) > MAX_DIGITS:
        raise ValueError(f"{text!r:.60} has more than {MAX_DIGITS} digits")
    return Decimal(written)
