"""Members of JSON objects: what they have to be, and how errors name them."""

from __future__ import annotations

from typing import Any

import pytest

from dvcodec.core.errors import NotCanonical
from dvcodec.tables.members import Members, is_path

MEMBERS = Members.of(
    {"n": 5, "t": "x", "o": {"a": [{}, {"b": 1}]}, "null": None, "yes": True, "big": 2**63, "s": "\ud800"}, "f.json"
)


def test_what_is_there() -> None:
    assert (MEMBERS.integer("n"), MEMBERS.text("t"), MEMBERS.path("t")) == (5, "x", "x")
    assert MEMBERS.object("o").objects("a")[1].integer("b") == 1
    assert "n" in MEMBERS
    assert "null" not in MEMBERS


def test_what_is_not_there() -> None:
    for name in ("null", "missing"):
        assert MEMBERS.integer_or_none(name) is None
        assert MEMBERS.text_or_none(name) is None
        assert MEMBERS.objects_if_any(name) == []


@pytest.mark.parametrize(
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
        ("object", "n", "n: expected an object, found 5"),
        ("array", "o", "o: expected an array, found an object"),
        ("objects_if_any", "t", "t: expected an array, found 'x'"),
    ],
)
def test_errors_name_file_and_member(method: str, name: str, match: str) -> None:
    with pytest.raises(NotCanonical, match=f"^f.json: {match}"):
        getattr(MEMBERS, method)(name)


def test_places_are_whole() -> None:
    with pytest.raises(NotCanonical, match=r"^f.json: o.a\[0\].b: expected an integer, found nothing"):
        MEMBERS.object("o").objects("a")[0].integer("b")


@pytest.mark.parametrize("value", [None, 3, [], "x"])
def test_no_object(value: Any) -> None:
    with pytest.raises(NotCanonical, match=r"^f.json: table metadata: expected an object"):
        Members.of(value, "f.json")


@pytest.mark.parametrize(("text", "sound"), [("a b", True), ("\u00e9\U0001f600", True), ("", False), ("\ud800", False)])
def test_paths(text: str, sound: bool) -> None:
    assert is_path(text) is sound
    assert not is_path(f"{text}\0")
