"""Decimals from text of metadata."""

from __future__ import annotations

import re
from decimal import Decimal

__all__ = ["MAX_DIGITS", "parse_decimal"]

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
