"""Text cannot become markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.text import plain
from dvcodec.report import Html, embedded, join, tag
from samples.audits import HOSTILE


class Elements(HTMLParser):
    """Collects elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text() | st.sampled_from(HOSTILE), st.text() | st.sampled_from(HOSTILE))
def test_any_text_is_text(text: str, value: str) -> None:
    found = Elements(tag("p", text, title=value))
    assert found.tags == [("p", {"title": plain(value)})]
    assert found.text == plain(text)


def test_tags() -> None:
    assert tag("br") == "<br/>"
    assert tag("a", "x", href="#y", hidden=True, download=False, title=None) == '<a href="#y" hidden>x</a>'
    assert tag("svg", None, tag("rect", stroke_width=2)) == '<svg><rect stroke-width="2"/></svg>'


def test_markup_stays_markup() -> None:
    assert join("<", Html("<b>"), None, tag("i", "&")) == "&lt;<b><i>&amp;</i>"


@each("text", HOSTILE)
def test_embedded_values_have_no_markup(text: str) -> None:
    made = embedded({"path": [text, None, 1]})
    assert made.isascii()
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {"path": [text, None, 1]}
