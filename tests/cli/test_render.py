"""How things look, piece by piece: tables, bars, JSON, and text in any encoding."""

from __future__ import annotations

import gc
import io
import json
import logging
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from cases import each
from cli_runner import run
from dvcodec import RowSet
from dvcodec.cli import render
from dvcodec.cli.common import _logged, complain, speak_any_encoding
from dvcodec.cli.render import Table, density_strip, print_json, share_bar, track
from dvcodec.core.text import plain

# ---------------------------------------------------------------------------------------------------- density strip


@each(
    ("rows", "row_count", "width", "bars"),
    [
        (RowSet(), 0, 4, "····"),
        (RowSet([3]), None, 4, "···█"),
        (RowSet([5, 500]), 10, 2, "·▂"),  # what lies behind the data file's end is not drawn
        (RowSet([2**62]), None, 3, "··▁"),
    ],
)
def test_density_strip(rows: RowSet, row_count: int | None, width: int, bars: str) -> None:
    assert density_strip(rows, row_count, width).plain == bars


@given(st.sets(st.integers(0, 300), max_size=200), st.integers(1, 400), st.integers(1, 40))
def test_density_strip_against_counting(positions: set[int], row_count: int, width: int) -> None:
    strip = density_strip(RowSet(positions), row_count, width).plain
    mask = np.zeros(row_count, np.bool_)
    mask[[position for position in positions if position < row_count]] = True
    slices = [mask[row_count * i // len(strip) : row_count * (i + 1) // len(strip)] for i in range(len(strip))]
    assert sum(map(len, slices)) == row_count, "the slices cover the file"
    assert len(strip) == (min(width, row_count) if positions else width)
    for bar, part in zip(strip, slices, strict=True):
        share = float(part.mean()) if len(part) else 0.0
        level = "·▁▂▃▄▅▆▇█".index(bar)
        assert (level == 0) == (share == 0)
        assert share == 0 or level == min(int(share * 8 + 1e-9) + 1, 8)


# ---------------------------------------------------------------------------------------------------- tables


def shown(table: Table, width: int, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> list[str]:
    file = io.StringIO()
    options: dict[str, Any] = {"force_terminal": terminal, "color_system": None, "emoji": False, "highlight": False}
    monkeypatch.setattr(render, "console", lambda: Console(file=file, width=width, **options))
    table.show()
    return file.getvalue().splitlines()


def example() -> Table:
    table = Table("name", "rows", "what", right=("rows",))
    table.add("s3://a", "1,000", "x")
    table.add("b", "7", Text("longer"))
    return table


def test_table_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["name     rows  what  ", "s3://a  1,000  x     ", "b           7  longer"]
    for width in (21, 80, 10_000):
        assert shown(example(), width, monkeypatch) == lines
    assert shown(Table("a", "b"), 80, monkeypatch) == []


def test_table_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(example(), 20, monkeypatch) == ["s3://a", "  rows 1,000  what x", "b", "  rows 7", "  what longer"]
    assert shown(example(), 5, monkeypatch) == ["s3://a", "  rows 1,000", "  what x", "b", "  rows 7", "  what longer"]


def test_table_cells_are_literal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("na[b]me", "x")
    table.add("[bold]a[/x]:smile:\x1b", "[red]")
    assert shown(table, 80, monkeypatch) == ["na[b]me                 x    ", "[bold]a[/x]:smile:\\x1b  [red]"]


@given(st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["", "–", "7", "größe", "表"])), min_size=1, max_size=5))  # noqa: RUF001
def test_cells_with_and_without_a_style_are_printed_alike(rows: list[tuple[str, str]]) -> None:
    """By two ways: what has no style is not given to rich, and nothing is where the output is not a terminal."""
    plainly, styled = (Table("a", "b", "表", right=("b",)) for _ in range(2))
    for name, value in rows:
        plainly.add(name, value, name)
        styled.add(Text(plain(name)), value, Text(plain(name)))
    with pytest.MonkeyPatch.context() as patch:
        on_terminal = shown(styled, 10_000, patch, terminal=True)
        assert shown(plainly, 10_000, patch, terminal=True) == on_terminal
        assert shown(styled, 10_000, patch) == shown(plainly, 10_000, patch) == on_terminal


# ---------------------------------------------------------------------------------------------------- parts


@each(
    ("parts", "width", "bar"),
    [
        ([(1, "a", "red"), (1, "b", "")], 8, "aaaabbbb"),
        ([(999_999, "a", ""), (1, "b", "")], 8, "aaaaaaaa"),
        ([(1, "a", ""), (1, "b", ""), (2, "a", "")], 4, "abaa"),
        ([(1, "a", ""), (0, "b", ""), (1, "c", "")], 3, "aac"),
        ([(3, "a", "")], 5, "aaaaa"),
        ([(0, "a", "")], 5, ""),
        ([], 5, ""),
    ],
)
def test_share_bar(parts: list[tuple[int, str, str]], width: int, bar: str) -> None:
    assert share_bar(parts, width).plain == bar


# ---------------------------------------------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@each(
    ("count", "err_terminal", "out_terminal", "silent", "bar"),
    [
        (3, True, False, False, True),
        (3, True, False, True, True),
        (3, True, True, True, True),
        (3, True, True, False, False),  # the bar would get between the lines
        (3, False, False, True, False),
        (1, True, False, True, False),
        (0, True, False, True, False),
    ],
)
def test_track(
    count: int, err_terminal: bool, out_terminal: bool, silent: bool, bar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal() if err_terminal else io.StringIO()
    out = Terminal() if out_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "stdout", out)
    seen = []
    for item in track(range(count), "reading", silent=silent):
        seen.append(item)
        sys.stdout.write("x")
    assert seen == list(range(count))
    assert out.getvalue() == "x" * count, "the output stays the output"
    assert ("reading" in err.getvalue()) == bar


# ------------------------------------------- jSON that the commands print: what the standard library's encoder prints


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


def as_json(result: Any) -> str:
    return json.dumps({"dvcodec": {"schema": 1, "command": ""}, "result": result}, indent=2) + "\n"


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_the_same_text_as_json(
    at_once: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "_AT_ONCE", at_once)
    monkeypatch.setattr(render, "_MOST_INNER", 2 * at_once)

    @given(VALUES)
    def check(value: Any) -> None:
        assert printed(value, capsys) == as_json(value)

    check()


def test_subclasses_are_printed_like_their_plain_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    for value in (
        [Pair(1, [2])],
        [Counter("aab")],
        [Name("a"), 1],
        {"a": Name("b")},
        [{"a": Pair(1, Counter("a"))}, {"b": OrderedDict(a=1)}],
    ):
        assert printed(value, capsys) == as_json(value)


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
    assert printed({"all": iter(values)}, capsys) == as_json({"all": values})


# ------ standard output in any encoding, problems on one line of standard error, and what of the log is written there


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ("so it is", "so it is"),
        (ValueError("two\nlines"), "two\\nlines"),
        (FileNotFoundError(2, "No such file or directory", "a\nb"), "a\\nb: No such file or directory"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("s3://b/x: no credentials"), "s3://b/x: no credentials"),
    ],
)
def test_complain(problem: Exception | str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    complain(problem)
    assert capsys.readouterr() == ("", f"dvcodec: {line}\n")


def test_other_errors_and_streams_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is not a file is written as it is; bytes that are not text are not characters to replace."""
    monkeypatch.setattr(sys, "stdout", StringIO())
    speak_any_encoding()
    with pytest.raises(UnicodeDecodeError, match="invalid start byte"):
        b"\xff".decode("utf-8", "dvcodec")


@pytest.mark.parametrize(("verbose", "shown"), [(0, ["zero"]), (1, ["zero", "one"]), (2, ["zero", "one", "two"])])
def test_levels_of_the_log(verbose: int, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("dvcodec")
    level = logger.level
    with _logged(verbose):
        logger.warning("zero")
        logger.info("one")
        logger.debug("two")
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "object stores" not in line] == [f"dvcodec: {word}" for word in shown]
    assert len(lines) == len(shown) + (verbose > 0), "and the requests, at the end"
    assert (logger.level, logger.handlers) == (level, [])


@pytest.mark.parametrize(
    ("given", "shown"), [("aws_secret_access_key:hidden", "aws_secret_access_key"), ("=hidden", "=..")]
)
def test_a_storage_option_that_is_refused_is_not_shown(given: str, shown: str) -> None:
    refused = run("verify", "vectors.puffin", "--storage-option", given)
    assert refused.code == 2
    assert f"--storage-option {shown}: expected KEY=VALUE" in refused.err
    assert "hidden" not in refused.err
