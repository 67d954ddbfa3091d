"""Values as HTML for notebooks: a title, facts in one line, a short table. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

from dvcodec.core.text import plain

_SHOWN = 20


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
