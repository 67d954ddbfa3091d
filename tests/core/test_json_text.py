"""JSON of untrusted files: what is refused, and where the error says it is."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from cases import each
from dvcodec.core.errors import NotCanonical
from dvcodec.core.json_text import encode_json, parse_json


@each("data", [b"", b"{", b"\xff", b"[" * 60_000, b'{"a": ' + b"9" * 5000 + b"}", "{"], ids=lambda data: str(data[:5]))
def test_what_is_not_json(data: bytes | str) -> None:
    with pytest.raises(NotCanonical, match=r"^file: metadata: expected JSON, found \w+Error: "):
        parse_json(data, "file", "metadata")


def test_an_error_has_the_offset_of_the_text() -> None:
    with pytest.raises(NotCanonical, match=r"^file at byte 7: metadata: expected JSON"):
        parse_json(b"{", "file", "metadata", offset=7)


def test_numbers_as_they_are_written() -> None:
    assert parse_json("[0.10]", None, "statistics", parse_float=Decimal) == [Decimal("0.10")]
    assert str(parse_json(b"0.10", None, "statistics", parse_float=Decimal)) == "0.10"


@each("lines", [False, True])
@each(
    "members",
    [
        {},
        {"a": [], "b": {}, "c": None, "d": [{"e": 1}, {}], "f": [{"g": 2}, 3], "h": 1.5},
        {"\ud800": "x\udfff", "gr\xf6\xdfe": "\U0001f600\n", 'q"': [{'"': "\\"}]},
    ],
)
def test_what_is_encoded_reads_back(members: dict[str, Any], lines: bool) -> None:
    data = encode_json(members, "file", "metadata", lines=lines)
    assert json.loads(data.decode()) == parse_json(data, "file", "metadata") == members
    assert b"\n" not in data or lines


def test_lines() -> None:
    data = encode_json({"id": 1, "fields": [{"id": 0, "type": "INT"}, {"id": 1}]}, "f", "metadata", lines=True)
    assert data == b'{\n  "id": 1,\n  "fields": [\n    {"id":0,"type":"INT"},\n    {"id":1}\n  ]\n}'


@each("lines", [False, True])
@each("text", ['{"a": 1e999}', '{"a": [{"b": -1e999}]}', '{"a": NaN}'])
def test_numbers_that_json_has_not_are_not_written(text: str, lines: bool) -> None:
    with pytest.raises(NotCanonical, match=r"^file: metadata: expected what JSON can represent, found ValueError: "):
        encode_json(parse_json(text, "file", "metadata"), "file", "metadata", lines=lines)


@pytest.mark.parametrize("lines", [False, True])
def test_levels_make_nothing_longer(lines: bool) -> None:
    text = b'{"a":' + b"[" * 500 + b"1," * 10_000 + b"1" + b"]" * 500 + b"}"
    assert len(encode_json(parse_json(text, "file", "metadata"), "file", "metadata", lines=lines)) <= len(text) + 6


def test_too_many_levels() -> None:
    value: list[Any] = []
    for _ in range(10**5):
        value = [value]
    with pytest.raises(NotCanonical, match="found RecursionError"):
        encode_json({"a": value}, "file", "metadata")
