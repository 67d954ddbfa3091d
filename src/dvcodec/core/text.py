"""Numbers, names and the log for people: on the command line, in reports, and as HTML in notebooks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import Enum
from html import escape
from itertools import islice
from os.path import commonprefix

NOTHING = "–"  # noqa: RUF001
BARS = "▁▂▃▄▅▆▇█"
"""Few to many, in a strip."""
NONE_HERE = "·"


class TextEnum(str, Enum):
    """Names that print as their values; Python's own base for that is not in 3.10."""

    def __str__(self) -> str:
        """Return the value."""
        return str(self.value)


def plain(text: str) -> str:
    """Return text on one line, with non-printable characters escaped.

    File names, and paths stored in files, may contain terminal control sequences.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class LogFormatter(logging.Formatter):
    """Formats each record of the log as `plain` text."""

    def __init__(self) -> None:
        super().__init__("dvcodec: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, whatever names the record has."""
        return plain(super().format(record))


def number(value: int | None) -> str:
    """Format a number: 1,234,567, or an en dash for None."""
    return NOTHING if value is None else f"{value:,}"


def counted(count: int, what: str) -> str:
    """Format a count: 1 file, 2 files, no files."""
    return f"{f'{count:,}' if count else 'no'} {what}{'' if count == 1 else 's'}"


def share_text(value: float | None) -> str:
    """Format a share as a percentage with three significant digits; only a whole is 100 %."""
    if value is None:
        return NOTHING
    return ">99.9 %" if 0.9995 <= value < 1 else f"{100 * value:.3g} %"


def shares_text(shares: Sequence[float]) -> str:
    """Draw shares, 0 to 1, of equal slices: a bar for each, or a dot if it is 0; an en dash if there are none."""
    most = len(BARS) - 1
    return "".join(BARS[min(int(share * len(BARS)), most)] if share else NONE_HERE for share in shares) or NOTHING


def bytes_text(value: float | None) -> str:
    """Format a size with a unit and three significant digits."""
    if value is None:
        return NOTHING
    units = ["GiB", "MiB", "KiB", "B"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop()
    return f"{value:.3g} {units[-1]}" if value < 999.5 else f"{value:.0f} {units[-1]}"


def folder_of(paths: Sequence[str]) -> str:
    """Return the deepest common folder of all paths, with a trailing slash; empty if there is none.

    >>> folder_of(["s3://lake/t/day=1/a.parquet", "s3://lake/t/day=2/a.parquet"])
    's3://lake/t/'
    """
    prefix = commonprefix(list(paths))  # noqa: RUF071
    folder = prefix[: prefix.rfind("/") + 1]
    return "" if folder.endswith("://") else folder


_SHOWN = 20
"""Rows of a table in a notebook."""


def card(
    title: str,
    facts: Iterable[str] = (),
    columns: Sequence[str] = (),
    rows: Iterable[Sequence[str]] = (),
    count: int = 0,
) -> str:
    """Return a value as HTML.

    Args:
        title: what it is.
        facts: shown in one line below.
        columns: titles of a table.
        rows: its cells; only the first 20 rows are taken and shown.
        count: how many rows there are.
    """
    parts = [f"<div><b>{_text(title)}</b>"]
    line = " · ".join(map(_text, facts))
    parts += [f"<br><small>{line}</small>"] if line else []
    if count:
        heads = "".join(f'<th style="text-align:left">{_text(column)}</th>' for column in columns)
        cells = (
            "".join(f'<td style="text-align:left">{_text(cell)}</td>' for cell in row) for row in islice(rows, _SHOWN)
        )
        parts += [f"<table><tr>{heads}</tr>", *(f"<tr>{row}</tr>" for row in cells), "</table>"]
    if count > _SHOWN:
        parts.append(f"<small>and {count - _SHOWN:,} more</small>")
    return "".join([*parts, "</div>"])


def _text(text: str) -> str:
    return escape(plain(text))
