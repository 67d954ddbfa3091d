"""Simple analysis; what bleve makes of the same values is held against it in tests/interop/test_go_bleve.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import UsageError
from dvcodec.zap import (
    FieldOptions,
    Location,
    Term,
    composite_field,
    keyword_field,
    number_field,
    number_value,
    text_field,
)

numbers = st.floats(allow_nan=False)


def test_words_are_lower_case_with_places_in_bytes() -> None:
    field = text_field("t", "Ünder the ünder-pass", array_positions=[2, 0])
    assert field.value == "Ünder the ünder-pass".encode()
    assert (field.length, field.array_positions) == (4, (2, 0))
    assert field.terms == (
        Term("ünder".encode(), 2, (Location(1, 0, 6, "", (2, 0)), Location(3, 11, 17, "", (2, 0)))),
        Term(b"the", 1, (Location(2, 7, 10, "", (2, 0)),)),
        Term(b"pass", 1, (Location(4, 18, 22, "", (2, 0)),)),
    )


@given(st.text())
def test_every_word_stands_where_it_says(text: str) -> None:
    field = text_field("t", text)
    found = sorted((at.position, at.start, at.end, term.term) for term in field.terms for at in term.locations)
    assert [position for position, *_ in found] == list(range(1, field.length + 1))
    assert all(field.value[start:end].decode().lower().encode() == term for _, start, end, term in found)


def test_a_keyword_is_one_term_whatever_its_bytes() -> None:
    field = keyword_field("k", b"\xff two words")
    assert (field.terms, field.value, field.length) == ((Term(b"\xff two words"),), b"\xff two words", 1)
    located = keyword_field("k", "é", options=FieldOptions.INDEXED | FieldOptions.TERM_VECTORS)
    assert located.terms == (Term("é".encode(), 1, (Location(1, 0, 2),)),)


def test_a_composite_field_names_where_its_terms_come_from() -> None:
    title, body = text_field("title", "lake of rows"), text_field("body", "rows")
    field = composite_field([title, body])
    assert (field.name, field.type, field.length, field.value) == ("_all", "c", 4, b"")
    assert field.terms[-1] == Term(b"rows", 2, (Location(3, 8, 12, "title"), Location(1, 0, 4, "body")))


def test_a_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="field 'n': its value does not fit a 64-bit float"):
        number_field("n", 10**400)


@given(numbers)
def test_a_number_comes_back_from_its_value_and_a_lower_one_from_its_other_terms(number: float) -> None:
    field = number_field("n", number)
    assert number_value(field.value) == number
    assert all(not number_value(term.term) > number for term in field.terms)


@pytest.mark.parametrize(
    "value", [b"", b"\x20", b"\x1f" + bytes(10), b"\x20" + bytes(9) + b"\x80", b"\x20\x7f" + bytes(9)]
)
def test_values_that_are_not_numbers_are_refused(value: bytes) -> None:
    with pytest.raises(UsageError, match="not a number"):
        number_value(value)
