"""How things look, piece by piece."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from cases import each
from dvcodec import RowSet
from dvcodec.cli import render
from dvcodec.cli.render import Table, density_strip, share_bar, track
from dvcodec.core.text import bytes_text, counted, number, plain, share_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0"),
        (7, "7"),
        (1234567, "1,234,567"),
        (2**63 - 1, "9,223,372,036,854,775,807"),
    ],
)
def test_number(value: int | None, text: str) -> None:
    assert number(value) == text


@each(
    ("value", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1000 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (12_345, "12.1 KiB"),
        (1_047_552, "1023 KiB"),
        (2**20, "1 MiB"),
        (2**20 * 1000, "1000 MiB"),
        (2**30, "1 GiB"),
        (5 * 2**40, "5120 GiB"),
        (0.5, "0.5 B"),
    ],
)
def test_bytes_text(value: float | None, text: str) -> None:
    assert bytes_text(value) == text


@each(
    ("value", "text"),
    [(None, "–"), (0.0, "0 %"), (1.0, "100 %"), (0.5, "50 %"), (1 / 3, "33.3 %"), (1e-9, "1e-07 %")],  # noqa: RUF001
)
def test_share_text(value: float | None, text: str) -> None:
    assert share_text(value) == text


@pytest.mark.parametrize(("count", "text"), [(0, "no files"), (1, "1 file"), (2, "2 files"), (12_345, "12,345 files")])
def test_counted(count: int, text: str) -> None:
    assert counted(count, "file") == text


@each(
    ("text", "shown"),
    [
        ("s3://b/größe.parquet", "s3://b/größe.parquet"),
        ("a b", "a b"),
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udcff", "\\udcff"),
        ("\u202e", "\\u202e"),
        ("a\\n", "a\\n"),
        ("", ""),
    ],
)
def test_plain(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_plain_text_prints(text: str) -> None:
    assert plain(text).isprintable()


# ---------------------------------------------------------------------------------------------------- density strip


@each(
    ("rows", "row_count", "width", "bars"),
    [
        (RowSet(), None, 4, "····"),
        (RowSet(), 100, 4, "····"),
        (RowSet(), 0, 4, "····"),
        (RowSet([0]), None, 4, "█"),
        (RowSet([3]), None, 4, "···█"),
        (RowSet([0]), 4, 4, "█···"),
        (RowSet(range(100)), 100, 4, "████"),
        (RowSet(range(25)), 100, 4, "█···"),
        (RowSet(range(75, 100)), 100, 4, "···█"),
        (RowSet(range(24, 26)), 100, 4, "▁▁··"),
        (RowSet(range(50)), 100, 1, "▅"),
        (RowSet([99]), 100, 1, "▁"),
        (RowSet(range(0, 800, 8)), 800, 2, "▂▂"),
        (RowSet(range(99)), 100, 1, "█"),
        (RowSet(range(87)), 100, 1, "▇"),
        (RowSet([5, 500]), 10, 2, "·▂"),  # what lies behind the data file's end is not drawn
        (RowSet.from_ranges([(0, 2**32)]), None, 3, "███"),
        (RowSet([2**62]), None, 3, "··▁"),
        (RowSet([0, 1]), 3, 32, "██·"),  # no more slices than rows
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


def test_table_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(example(), 20, monkeypatch) == ["s3://a", "  rows 1,000  what x", "b", "  rows 7", "  what longer"]
    assert shown(example(), 5, monkeypatch) == ["s3://a", "  rows 1,000", "  what x", "b", "  rows 7", "  what longer"]


def test_table_one_by_one_leaves_out_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("name", "rows", "share", "what")
    table.add("a", "1", number(None), "x")
    table.add("b", *[number(None)] * 3)
    assert shown(table, 10, monkeypatch) == ["a", "  rows 1", "  what x", "b"]


def test_table_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(Table("a", "b"), 80, monkeypatch) == []


def test_table_cells_are_literal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("na[b]me", "x")
    table.add("[bold]a[/x]:smile:\x1b", "[red]")
    assert shown(table, 80, monkeypatch) == ["na[b]me                 x    ", "[bold]a[/x]:smile:\\x1b  [red]"]


@given(st.integers(1, 60), st.lists(st.tuples(st.text("ab/", max_size=30), st.integers(0, 10**9)), max_size=4))
def test_table_never_breaks_a_value(width: int, rows: list[tuple[str, int]]) -> None:
    table = Table("name", "rows", right=("rows",))
    for name, count in rows:
        table.add(name, number(count))
    with pytest.MonkeyPatch.context() as patch:
        words = " ".join(shown(table, width, patch)).split()
    for name, count in rows:
        assert number(count) in words
        assert not name or name in words


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
