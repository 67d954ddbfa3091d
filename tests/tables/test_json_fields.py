"""Fields of JSON metadata: their types, and how errors name them."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each
from dvcodec.core.errors import NotCanonical
from dvcodec.tables.metadata.json_fields import JsonFields, bare_name, is_path

FIELDS = JsonFields.of(
    {"n": 5, "t": "x", "o": {"a": [{}, {"b": 1}]}, "null": None, "yes": True, "big": 2**63, "s": "\ud800", "l": ["a"]},
    "f.json",
)


def test_what_is_there() -> None:
    assert (FIELDS.integer("n"), FIELDS.text("t"), FIELDS.path("t")) == (5, "x", "x")
    assert FIELDS.object("o").objects("a")[1].integer("b") == 1
    assert (FIELDS.flag("yes"), FIELDS.texts("l")) == (True, ("a",))
    assert "n" in FIELDS
    assert "null" not in FIELDS


def test_what_is_not_there() -> None:
    for name in ("null", "missing"):
        assert FIELDS.integer_or_none(name) is None
        assert FIELDS.text_or_none(name) is None
        assert FIELDS.objects_if_any(name) == []
        assert FIELDS.object_if_any(name).values == {}


@each(
    ("method", "name", "match"),
    [
        ("integer", "t", "t: expected an integer, found 'x'"),
        ("integer", "yes", "yes: expected an integer, found True"),
        ("integer", "missing", "missing: expected an integer, found nothing"),
        ("integer", "big", "big: expected -9223372036854775808 to 9223372036854775807, found 9223372036854775808"),
        ("integer_or_none", "t", "t: expected an integer"),
        ("text", "n", "n: expected a string, found 5"),
        ("text", "o", "o: expected a string, found an object"),
        ("path", "s", "s: expected a path"),
        ("column_name", "n", "n: expected a string, found 5"),
        ("column_name", "s", r"s: expected a name of Unicode characters, found '.ud800'"),
        ("object", "n", "n: expected an object, found 5"),
        ("array", "o", "o: expected an array, found an object"),
        ("flag", "n", "n: expected true or false, found 5"),
        ("texts", "t", "t: expected an array, found 'x'"),
        ("object_if_any", "n", "n: expected an object, found 5"),
        ("objects_if_any", "t", "t: expected an array, found 'x'"),
    ],
)
def test_errors_name_file_and_member(method: str, name: str, match: str) -> None:
    with pytest.raises(NotCanonical, match=f"^f.json: {match}"):
        getattr(FIELDS, method)(name)


def test_places_are_whole() -> None:
    with pytest.raises(NotCanonical, match=r"^f.json: o.a: expected an array of strings, found \[{}, {'b': 1}\]"):
        FIELDS.object("o").texts("a")
    with pytest.raises(NotCanonical, match=r"^f.json: o.a\[0\].b: expected an integer, found nothing"):
        FIELDS.object("o").objects("a")[0].integer("b")


@pytest.mark.parametrize("value", [None, 3, [], "x"])
def test_no_object(value: Any) -> None:
    with pytest.raises(NotCanonical, match=r"^f.json: table metadata: expected an object"):
        JsonFields.of(value, "f.json")


@pytest.mark.parametrize(("text", "valid"), [("a b", True), ("\u00e9\U0001f600", True), ("", False), ("\ud800", False)])
def test_paths(text: str, valid: bool) -> None:
    assert is_path(text) is valid
    assert not is_path(f"{text}\0")


@each("name", ["", ".", "..", "a/b", "../a", "/a", "a\\b", "a\0b"])
def test_a_name_that_leads_elsewhere(name: str) -> None:
    with pytest.raises(NotCanonical, match="file: what: expected a bare file name"):
        bare_name(name, "what", "file")


def test_a_bare_name() -> None:
    assert bare_name("..a b%2F", "what", "file") == "..a b%2F"
