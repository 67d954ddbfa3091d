"""JSON metadata whose fields are not what they must be."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec import NotCanonical
from dvcodec.tables.paimon.fields import MAX_LONG, Fields, bare_name, parse_json


def test_fields_are_taken_with_their_types() -> None:
    fields = parse_json(b'{"n": 1, "t": "x", "l": ["a"], "o": [{"n": 2}], "null": null}', "f")
    assert (fields.get("n", int), fields.get("t", str), fields.names("l")) == (1, "x", ("a",))
    assert (fields.find("null", str), fields.find("gone", int), fields.names("gone")) == (None, None, ())
    assert [inner.get("n", int) for inner in fields.objects("o")] == [2]


@pytest.mark.parametrize(
    ("values", "name", "kind"),
    [
        ({}, "a", int),
        ({"a": None}, "a", str),
        ({"a": "1"}, "a", int),
        ({"a": True}, "a", int),
        ({"a": 1.0}, "a", int),
        ({"a": -1}, "a", int),
        ({"a": MAX_LONG + 1}, "a", int),
        ({"a": 1}, "a", str),
        ({"a": []}, "a", dict),
    ],
)
def test_field_of_another_kind_is_refused_by_name(values: dict[str, Any], name: str, kind: type[Any]) -> None:
    with pytest.raises(NotCanonical, match=f"file: inner.{name}: expected"):
        Fields(values, "file", "inner.").get(name, kind)


def test_lists_of_something_else_are_refused_by_name() -> None:
    fields = Fields({"l": ["a", 1], "o": [{}, 1]}, "file")
    with pytest.raises(NotCanonical, match="file: l: expected a list of texts"):
        fields.names("l")
    with pytest.raises(NotCanonical, match="file: o: expected a list of objects"):
        fields.objects("o")
    with pytest.raises(NotCanonical, match=r"file: o\[0\]\.x"):
        Fields({"o": [{}]}, "file").objects("o")[0].get("x", int)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"1", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(NotCanonical, match="file: metadata"):
        parse_json(data, "file")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/a", "a\\b", "a\0b"])
def test_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(NotCanonical, match="file: what: expected a bare file name"):
        bare_name(name, "what", "file")


def test_bare_name_is_returned() -> None:
    assert bare_name("..a b%2F", "what", "file") == "..a b%2F"
