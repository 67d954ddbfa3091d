"""Build HTML: whatever is not `Html` is escaped."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from dvcodec.core.text import plain

_VOID = frozenset({"br", "col", "hr", "meta", "rect", "line", "path"})
"""Elements without content: of HTML, and of SVG (closed by a slash, which HTML allows there)."""


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def tag(name: str, *children: str | None, **attributes: object) -> Html:
    """Make an element; children and attributes are escaped, and shown on one line without control characters.

    Args:
        name: name of the element.
        children: text, or `Html`; None is omitted.
        attributes: a trailing underscore is dropped and others become hyphens; True gives an attribute without a
            value; None and False are omitted.

    >>> tag("p", "a < b", tag("b", "!"), class_="note", data_row=7, hidden=False)
    '<p class="note" data-row="7">a &lt; b<b>!</b></p>'
    """
    shown = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{join(*children)}</{name}>")


def section(name: str, title: str, *children: str | None) -> Html:
    """Make a section of the page, with its title as a heading; `name` is its id."""
    heading = f"{name}-title"
    return tag("section", tag("h2", title, id=heading), *children, id=name, aria_labelledby=heading)


def join(*parts: str | None) -> Html:
    """Put parts side by side; those that are not `Html` are escaped."""
    return Html("".join(part if isinstance(part, Html) else _text(part) for part in parts if part is not None))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{_text(str(value))}"'


def _text(text: str) -> str:
    return escape(plain(text))


def embedded(value: Any) -> Html:
    """Return a value as JSON for a script element: ASCII, without characters of markup."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
