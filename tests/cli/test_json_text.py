"""JSON that the commands print: what the standard library's encoder prints."""

from __future__ import annotations

import gc
import json
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.cli import render
from dvcodec.cli.render import print_json

SCALARS: st.SearchStrategy[Any] = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    st.sampled_from(['},\n    {"', [], {}, ()]),
)
RECORDS = st.lists(st.dictionaries(st.text(max_size=3), SCALARS, max_size=3), max_size=6)
VALUES = st.recursive(
    SCALARS | RECORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


class Name(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: Any
    b: Any


def printed(value: Any, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    print_json(value)
    return capsys.readouterr().out


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_the_same_text_as_json(
    at_once: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_AT_ONCE", at_once)
    monkeypatch.setattr(render, "_MOST_INNER", 2 * at_once)

    @given(VALUES)
    def check(value: Any) -> None:
        assert printed(value, capsys) == json.dumps(value, indent=2) + "\n"

    check()


def test_subclasses_are_printed_like_their_plain_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    for value in (
        [Pair(1, [2])],
        [Counter("aab")],
        [Name("a"), 1],
        {"a": Name("b")},
        [{"a": Pair(1, Counter("a"))}, {"b": OrderedDict(a=1)}],
    ):
        assert printed(value, capsys) == json.dumps(value, indent=2) + "\n"


def test_collections_stop_for_encoding_alone(capsys: pytest.CaptureFixture[str]) -> None:
    enabled = [gc.isenabled()]

    def values() -> Iterator[int]:
        enabled.append(gc.isenabled())
        yield 1

    printed({"all": values()}, capsys)
    assert [*enabled, gc.isenabled()] == [True, True, True]


def test_bytes_are_printed_as_hex(capsys: pytest.CaptureFixture[str]) -> None:
    for value in (b"\1\xff", [b"\1\xff"], [{"a": b"\1\xff"}] * 2, [[], b"\1\xff"]):
        assert '"01ff"' in printed(value, capsys)


@pytest.mark.parametrize("count", [0, 1, 3, 2500])
def test_an_iterator_is_an_array(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    values = [{"a": i, "b": [i] * (i % 2)} for i in range(count)]
    assert printed({"all": iter(values)}, capsys) == json.dumps({"all": values}, indent=2) + "\n"
