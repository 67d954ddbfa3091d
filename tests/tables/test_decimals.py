"""Decimals from text."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.tables.metadata.partition_value import MAX_DIGITS, parse_decimal

NINES = "9" * MAX_DIGITS


@given(st.integers(-(10**MAX_DIGITS) + 1, 10**MAX_DIGITS - 1), st.integers(0, MAX_DIGITS))
def test_all_digits_are_kept(unscaled: int, scale: int) -> None:
    number = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    assert parse_decimal(f"{number:f}").as_tuple() == number.as_tuple()


@pytest.mark.parametrize(
    ("text", "written"),
    [("2E+3", "2000"), ("-1.5e2", "-150"), ("+1E-3", "0.001"), (f"{NINES}.{NINES}", f"{NINES}.{NINES}"), ("0E2", "0")],
)
def test_exponents_are_written_out(text: str, written: str) -> None:
    number = parse_decimal(text)
    assert number == Decimal(written)
    assert int(number.as_tuple().exponent) <= 0


@each(
    "text",
    [
        *("", "x", "NaN", "Infinity", "1_0", " 1", ".5", "1.", "\u0661", f"1{NINES}", f"0.1{NINES}"),
        *("1E38", "1E-39", "1E-999999999", "1E+999999999"),
    ],
)
def test_invalid_decimals_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a decimal number|has more than 38 digits"):
        parse_decimal(text)
