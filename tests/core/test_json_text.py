"""JSON of untrusted files: what is refused, and where the error says it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases import each
from dvcodec.core.errors import NotCanonical
from dvcodec.core.json_text import encode_json, parse_json


@each("data", [b"", b"{", b"\xff", b"[" * 60_000, b'{"a": ' + b"9" * 5000 + b"}", "{"], ids=lambda data: str(data[:5]))
def test_what_is_not_json(data: bytes | str) -> None:
    with pytest.raises(NotCanonical, match=r"^file: metadata: expected JSON, found \w+Error: "):
        parse_json(data, "file", "metadata")


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


@each("lines", [False, True])
@each("text", ['{"a": 1e999}', '{"a": [{"b": -1e999}]}', '{"a": NaN}'])
def test_numbers_that_json_has_not_are_not_written(text: str, lines: bool) -> None:
    with pytest.raises(NotCanonical, match=r"^file: metadata: expected what JSON can represent, found ValueError: "):
        encode_json(parse_json(text, "file", "metadata"), "file", "metadata", lines=lines)


def test_too_many_levels() -> None:
    value: list[Any] = []
    for _ in range(10**5):
        value = [value]
    with pytest.raises(NotCanonical, match="found RecursionError"):
        encode_json({"a": value}, "file", "metadata")
