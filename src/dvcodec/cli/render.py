"""How things look: tables, the density strip, numbers for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dvcodec.core.rowset import RowSet

__all__ = ["bytes_text", "console", "density_strip", "number", "print_json", "share_text", "table", "track"]

T = TypeVar("T")

STRIP_WIDTH = 32
_BARS = "▁▂▃▄▅▆▇█"
_NONE_HERE = "·"
# Few to many deleted rows, readable on dark and on light ground.
_COLOURS = ("cyan", "cyan", "green", "green", "yellow", "yellow", "red", "bold red")


def console() -> Console:
    """Return the console for standard output; piped text is not squeezed into 80 columns."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def print_json(value: Any) -> None:
    """Print a value for programs."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def number(value: int | None) -> str:
    """1,234,567, or an en dash for nothing."""
    return "–" if value is None else f"{value:,}"  # noqa: RUF001


def share_text(value: float | None) -> str:
    """A share as a percentage with three significant digits."""
    return "–" if value is None else f"{100 * value:.3g} %"  # noqa: RUF001


def bytes_text(value: float | None) -> str:
    """Bytes with a unit."""
    if value is None:
        return "–"  # noqa: RUF001
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.3g} {unit}" if value != int(value) or unit != "B" else f"{int(value)} B"
        value /= 1024
    return f"{value:.3g} GiB"


def density_strip(rows: RowSet, row_count: int | None = None, width: int = STRIP_WIDTH) -> Text:
    """Draw where in the data file the deleted rows lie: one bar for each slice, its height the share deleted there.

    The scale is the file's rows if `row_count` is known, else up to the highest deleted row. A slice with a single
    deleted row shows the lowest bar, one without any a dot.
    """
    stop = row_count if row_count is not None else (rows.max or 0) + 1
    strip = Text()
    if not rows or stop == 0:
        return strip.append(_NONE_HERE * width, "dim")
    width = min(width, stop)
    edges = [stop * i // width for i in range(width + 1)]
    for count, start, end in zip(rows.histogram(stop, width).tolist(), edges[:-1], edges[1:], strict=True):
        if not count:
            strip.append(_NONE_HERE, "dim")
            continue
        level = min(count * len(_BARS) // (end - start), len(_BARS) - 1)
        strip.append(_BARS[level], _COLOURS[level])
    return strip


def table(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table; columns named in `right` hold numbers."""
    made = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def track(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Iterate with a progress bar on standard error, where a person watches and there is something to wait for."""
    if total < 2 or not sys.stderr.isatty():
        yield from items
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total)
