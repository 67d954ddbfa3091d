"""Output: tables, density strips, numbers as text, progress bars, JSON."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from json.encoder import encode_basestring_ascii
from typing import Any, TypeAlias, TypeGuard, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from dvcodec.cli.common import command_name, is_quiet
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import BARS, NONE_HERE, NOTHING, plain, shares_text

T = TypeVar("T")
Cell: TypeAlias = "str | Text"
"""Of a table; strings are printable, and have no style."""

STRIP_WIDTH = 32
BAR_WIDTH = 64
# Few to many deleted rows, readable on dark and light backgrounds.
_COLOURS = dict(zip(BARS, ("cyan", "cyan", "green", "green", "yellow", "yellow", "red", "bold red"), strict=True))
_COLOURS[NONE_HERE] = "dim"
_PIPE_WIDTH = 1 << 20
_LINES = 1000
"""Rows of a table that are printed at once."""


def console() -> Console:
    """Return the console for standard output; lines are wrapped only on a terminal."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


class _Out:
    """Standard output, while it is the same stream, and its console."""

    _last: _Out | None = None

    def __init__(self) -> None:
        self.stream = sys.stdout
        self.console = console()
        self.is_plain = not self.console.is_terminal

    @classmethod
    def current(cls) -> _Out:
        if cls._last is None or cls._last.stream is not sys.stdout:
            cls._last = cls()
        return cls._last


def say(*parts: str | tuple[str, str]) -> None:
    """Print parts, each text or (text, style), on one line, never wrapped; text is not markup."""
    styled = [(plain(part), "") if isinstance(part, str) else (plain(part[0]), part[1]) for part in parts]
    out = _Out.current()
    if out.is_plain:  # rich takes 0.2 ms for a line, and an audit may have 100,000
        out.stream.write("".join(text for text, _ in styled) + "\n")
    else:
        out.console.print(Text.assemble(*styled), soft_wrap=True)


def density_strip(rows: RowSet, row_count: int | None = None, width: int = STRIP_WIDTH) -> Text:
    """Draw where the deleted rows of a data file are: one bar per slice, as high as the share deleted there.

    The scale ends at the file's last row if `row_count` is known, else at the highest deleted row. A slice with a
    single deleted row shows the lowest bar, one without any a dot.
    """
    stop = row_count if row_count is not None else (rows.max or 0) + 1
    strip = Text()
    if not rows or stop == 0:
        return strip.append(NONE_HERE * width, "dim")
    width = min(width, stop)
    edges = [stop * i // width for i in range(width + 1)]
    counts = zip(rows.histogram(stop, width).tolist(), edges[:-1], edges[1:], strict=True)
    return _coloured(shares_text([count / (end - start) for count, start, end in counts]))


def shares_strip(shares: Sequence[float]) -> Text:
    """Draw the deleted shares, 0 to 1, of equal slices of a data file as `density_strip` does; nothing if unknown."""
    return _coloured(shares_text(shares))


def _coloured(strip: str) -> Text:
    """Return a strip in colours, those of many deleted rows more striking."""
    text = Text()
    for bar in strip:
        text.append(bar, _COLOURS.get(bar, ""))
    return text


def share_bar(parts: Sequence[tuple[int, str, str]], width: int = BAR_WIDTH) -> Text:
    """Draw consecutive parts by size: each slice shows the letter of the part at its middle.

    Args:
        parts: size, letter and style of each.
        width: slices.
    """
    bar = Text()
    total = sum(size for size, *_ in parts)
    stop = drawn = 0
    for size, letter, style in parts:
        stop += size
        until = (stop * width * 2 + total) // (2 * total) if total else 0
        bar.append(letter * (until - drawn), style)
        drawn = until
    return bar


class Table:
    """A table; if it is too wide for the terminal, each row is shown as lines of named values.

    Args:
        columns: titles; the first column names the row.
        right: columns of numbers.
    """

    def __init__(self, *columns: str, right: Sequence[str] = ()) -> None:
        self._columns = columns
        self._right = right
        self._cells: list[list[Cell]] = [[] for _ in columns]

    def add(self, *cells: str | Text) -> None:
        """Append a row; strings are not markup."""
        for column, cell in zip(self._cells, cells, strict=True):
            column.append(plain(cell) if isinstance(cell, str) else cell)

    def show(self, *, empty: bool = False) -> None:
        """Print the table; if it has no rows, only with `empty`."""
        if not self._cells[0] and not empty:
            return
        out = console()
        if not out.is_terminal:  # rich takes a millisecond for a small table, and a folder may have thousands of files
            self._cells = [list(map(str, cells)) for cells in self._cells]
        widths = [_width([title, *cells]) for title, cells in zip(self._columns, self._cells, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= out.width:
            self._side_by_side(out, widths)
        else:
            for row in zip(*self._cells, strict=True):
                self._one_by_one(out, row)

    def _side_by_side(self, out: Console, widths: list[int]) -> None:
        """Print a line for each row."""
        right = [title in self._right for title in self._columns]
        if not out.is_terminal:
            out.file.write("  ".join(map(str, map(_pad, self._columns, widths, right))) + "\n")
        else:
            titles = map(_pad, (Text(title, "bold") for title in self._columns), widths, right)
            out.print(_styled([titles]), soft_wrap=True)
        is_styled = any(Text in map(type, cells) for cells in self._cells)
        rows = zip(*map(_padded, self._cells, widths, right), strict=True)
        while some := list(islice(rows, _LINES)):
            if is_styled:
                out.print(_styled(some), soft_wrap=True)
            else:  # rich would look at every character
                out.file.writelines("  ".join(map(str, row)) + "\n" for row in some)

    def _one_by_one(self, out: Console, row: Sequence[Cell]) -> None:
        """Print the name, and below it lines of values."""
        out.print(Text.assemble(row[0]), soft_wrap=True)
        line = Text()
        for title, cell in zip(self._columns[1:], row[1:], strict=True):
            if str(cell) == NOTHING:
                continue
            item = Text.assemble("  ", (title, "dim"), " ", cell)
            if line and line.cell_len + item.cell_len > out.width:
                out.print(line, soft_wrap=True)
                line = Text()
            line.append_text(item)
        if line:
            out.print(line, soft_wrap=True)


def _are_narrow(cells: Sequence[Cell]) -> TypeGuard[Sequence[str]]:
    """Whether all cells are strings, and their characters take one column of the terminal each."""
    return {str}.issuperset(map(type, cells)) and "".join(map(str, cells)).replace(NOTHING, "").isascii()


def _width(cells: Sequence[Cell]) -> int:
    """Return how many columns of the terminal the widest cell takes."""
    if _are_narrow(cells):
        return max(map(len, cells))
    return max(cell_len(cell) if isinstance(cell, str) else cell.cell_len for cell in cells)


def _padded(cells: Sequence[Cell], width: int, right: bool) -> Iterable[Cell]:
    """Return the cells of a column, all of one width."""
    if _are_narrow(cells):
        return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]
    return [_pad(cell, width, right) for cell in cells]


def _pad(cell: Cell, width: int, right: bool) -> Cell:
    blank = " " * (width - _width([cell]))
    if isinstance(cell, str):
        return blank + cell if right else cell + blank
    return Text.assemble(blank, cell) if right else Text.assemble(cell, blank)


def _styled(rows: Iterable[Iterable[Cell]]) -> Text:
    """Return rows as lines of rich's text."""
    return Text("\n").join(Text("  ").join(map(Text.assemble, row)) for row in rows)


def track(items: Sequence[T], what: str, *, silent: bool) -> Iterator[T]:
    """Iterate with a progress bar on standard error, if that is a terminal and nothing else is printed there.

    Args:
        items: to iterate over.
        what: label of the bar.
        silent: whether nothing is printed meanwhile; else there is no bar if standard output is a terminal.
    """
    with counter(what, silent=silent, show=len(items) > 1) as update:
        for done, item in enumerate(items, 1):
            yield item
            update(done, len(items))


@contextmanager
def counter(what: str, *, silent: bool = True, show: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar as `track` does; call the yielded function with the steps done and the total."""
    if is_quiet() or not show or not sys.stderr.isatty() or (sys.stdout.isatty() and not silent):
        yield lambda _done, _total: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # redirect_stdout would send the output to the terminal of standard error
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


_AT_ONCE = 1000
"""Values of an array that are encoded at once."""
_MOST_INNER = 1 << 17
"""Values of arrays within these."""


_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})


SCHEMA_VERSION = 1
"""Of the output in JSON; it grows when a member is removed, renamed or gets another meaning."""


def print_json(result: Any) -> None:
    """Print the result of the command as JSON, in the envelope that ``docs/json.schema.json`` describes.

    It is ASCII: valid in every encoding, whatever a path contains. Bytes are printed as hex, iterators as arrays: their
    values need not be in memory together.
    """
    head = {"schema": SCHEMA_VERSION, "command": command_name()}
    _write({"dvcodec": head, "result": result}, "\n", sys.stdout.write)
    sys.stdout.write("\n")


@contextmanager
def _no_collections() -> Iterator[None]:
    """Text has no cycles, and the collector would go through a million objects of a value again and again.

    It is only for encoding: iterators, which are read between, may make cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _write(value: Any, margin: str, write: Callable[[str], object]) -> None:
    """Write what ``json.dumps(value, indent=2)`` returns, in pieces.

    Args:
        value: an object, an array or a scalar.
        margin: a line break and the indentation of the value.
        write: called with each piece.
    """
    if isinstance(value, dict) and value:
        before = "{" + (inner := margin + "  ")
        for name, member in value.items():
            write(f"{before}{_name_text(name)}: ")
            _write(member, inner, write)
            before = "," + inner
        write(margin + "}")
    elif isinstance(value, list | tuple | Iterator):
        _write_array(iter(value), margin, write)
    else:
        with _no_collections():
            text = _texts([value], margin)[0]
        write(text)


def _write_array(values: Iterator[Any], margin: str, write: Callable[[str], object]) -> None:
    before = "[" + (inner := margin + "  ")
    while some := list(islice(values, _AT_ONCE)):
        try:
            with _no_collections():
                text = ("," + inner).join(_texts(some, inner))
            write(before + text)
            before = "," + inner
        except _LargeError:
            for value in some:
                write(before)
                _write(value, inner, write)
                before = "," + inner
    write("[]" if before[0] == "[" else margin + "]")


class _LargeError(Exception):
    """There are iterators or long arrays: they are written in pieces."""


def _texts(values: Sequence[Any], margin: str) -> list[str]:
    """Encode values, column by column: json encodes scalars in C, but indents in Python.

    Raises:
        _LargeError: see there.
    """
    kinds = set(map(type, values))
    if kinds <= _SCALARS:
        return _ENCODER.encode(values)[1:-1].split(_BREAK)
    inner = margin + "  "
    if kinds == {dict} and len(names := set(map(tuple, values))) == 1:
        (keys,) = names
        columns = [_texts(column, inner) for column in zip(*(value.values() for value in values), strict=True)]
        members = ",".join(f"{inner}{_name_text(name).replace('%', '%%')}: %s" for name in keys)
        form = "{" + members + margin + "}" if keys else "{}"
        return list(map(form.__mod__, zip(*columns, strict=True))) if keys else [form] * len(values)
    if kinds <= {list, tuple}:
        if sum(map(len, values)) > _MOST_INNER:
            raise _LargeError
        parts = iter(_texts(flat, inner) if (flat := list(chain.from_iterable(values))) else ())
        between = "," + inner
        return [f"[{inner}{between.join(islice(parts, len(one)))}{margin}]" if one else "[]" for one in values]
    if len(values) > 1:
        return [_texts([value], margin)[0] for value in values]
    (value,) = values
    if isinstance(value, Iterator):
        raise _LargeError
    for kind in (dict, list, tuple):  # of a subclass
        if isinstance(value, kind):
            return _texts([kind(value)], margin)
    return [_ENCODER.encode(values)[1:-1]]


@lru_cache
def _name_text(name: Any) -> str:
    return encode_basestring_ascii(name if isinstance(name, str) else json.dumps(name))


_BREAK = ",\n"
"""Between values: no text in JSON has a line break."""
_ENCODER = json.JSONEncoder(separators=(_BREAK, ": "), default=bytes.hex)
