"""JSON of untrusted files: what is refused, and where the error says it is."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.json_text import check_structure, parse_json


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[" * 60_000, b'{"a": ' + b"9" * 5000 + b"}", "{"], ids=lambda data: str(data[:5])
)
def test_what_is_not_json(data: bytes | str) -> None:
    with pytest.raises(NotCanonical, match=r"^file: metadata: expected JSON, found \w+Error: "):
        parse_json(data, "file", "metadata")


def test_an_error_has_the_offset_of_the_text() -> None:
    with pytest.raises(NotCanonical, match=r"^file at byte 7: metadata: expected JSON"):
        parse_json(b"{", "file", "metadata", offset=7)


def test_arrays_of_empty_arrays_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(LimitExceeded, match=r"^file at byte 7: values in the metadata: expected at most 140536"):
        parse_json(b"[" + b"[]," * 100_000 + b"1]", "file", "metadata", offset=7)
    assert check_structure(b"[" + b"[]," * 20_000 + b"1]", "file", "metadata") == 0, "small texts may be anything"


def test_numbers_as_they_are_written() -> None:
    assert parse_json("[0.10]", None, "statistics", parse_float=Decimal) == [Decimal("0.10")]
    assert str(parse_json(b"0.10", None, "statistics", parse_float=Decimal)) == "0.10"
