"""Converts literal blocks after ``::`` and doctests in docstrings to Markdown."""

from __future__ import annotations

import re
from textwrap import dedent
from textwrap import indent as indent_by
from typing import Any

import griffe

_LITERAL = re.compile(r"^(?P<indent> *)(?P<text>.*)::\n\n(?P<block>(?:(?P=indent) +.*\n|\n)+)", re.MULTILINE)
_DOCTEST = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*)*", re.MULTILINE)


def markdown(text: str) -> str:
    """Return a docstring with its literal blocks and doctests fenced."""
    text = _LITERAL.sub(_literal, text.rstrip() + "\n")
    return _DOCTEST.sub(lambda found: _fenced(found[0], found["indent"], "pycon"), text)


def _literal(found: re.Match[str]) -> str:
    said, indent = found["text"].rstrip(":"), found["indent"]
    if said == "Example":  # with a colon, it would be a section
        return f"{indent}For example:\n\n{_fenced(found['block'], indent, 'python')}\n\n"
    said = f"{indent}{said}:\n\n" if said else ""
    return f"{said}{_fenced(found['block'], indent, 'text')}\n\n"


def _fenced(block: str, indent: str, language: str) -> str:
    return f"{indent}```{language}\n{indent_by(dedent(block).strip(), indent)}\n{indent}```"


class Docstrings(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object; the package itself comes last, below."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstring of the package."""
        self.on_object(obj=pkg)
