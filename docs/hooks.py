"""Hooks for mkdocs: include pages from the project's root, and code that the tests run."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LOG = logging.getLogger("mkdocs.hooks")
ROOT = Path(__file__).parents[1]
_WHOLE = re.compile(r"^<!-- page: (\S+) -->$", re.MULTILINE)
_PART = re.compile(r"^<!-- part: (\S+) (\S+) -->$", re.MULTILINE)
_CODE = re.compile(r"^<!-- code: (\S+)((?: \w+)+) -->$", re.MULTILINE)
_NOTEBOOK = re.compile(r"^<!-- notebook: (\S+) -->$", re.MULTILINE)
_PROMPTS = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any, **_: Any) -> None:
    """Offer other versions of the site, if mike builds it: they are listed beside it, where nothing else is fetched."""
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace comments of the page by the text that they name.

    ``<!-- page: FILE -->`` is a file of the project's root, ``<!-- part: FILE NAME -->`` the part of one between the
    comments ``<!-- NAME -->`` and ``<!-- /NAME -->``, ``<!-- code: FILE NAME... -->`` functions of a Python file,
    ``<!-- notebook: FILE -->`` the cells of a notebook and what they show.
    Examples with prompts become those of a console, whose prompts and output site.css leaves out when they are copied.
    """
    if page.url.startswith("api/"):  # who types words wants a guide, who types a name finds it in a title
        page.meta.setdefault("search", {"boost": 0.3})
    markdown = _WHOLE.sub(lambda found: _from_root(_text(found[1])), markdown)
    markdown = _PART.sub(lambda found: _from_root(_between(_text(found[1]), found[2])), markdown)
    markdown = _CODE.sub(
        lambda found: f"```py title={found[1]!r}\n{code(ROOT / found[1], found[2].split())}\n```", markdown
    )
    markdown = _NOTEBOOK.sub(lambda found: "\n\n".join(_cells(json.loads(_text(found[1])))), markdown)
    return _PROMPTS.sub("```pycon\n", markdown)


def _cells(notebook: dict[str, Any]) -> Iterator[str]:
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```py\n{source}\n```"
        for shown in cell.get("outputs", ()):
            data = shown.get("data", {"text/plain": shown.get("text")})
            if "text/html" in data:
                yield f'<div class="shown">{"".join(data["text/html"])}</div>'
            else:
                yield f"```text\n{''.join(data['text/plain'])}\n```"


def code(file: Path, names: list[str]) -> str:
    """Return the source of functions in a file."""
    text = file.read_text()
    found = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    return "\n\n\n".join(ast.get_source_segment(text, found[name]) or "" for name in names)


def _text(name: str) -> str:
    """Return a file of the project's root; a missing one fails only a strict build."""
    file = ROOT / name
    if not file.exists():
        _LOG.warning("%s does not exist", name)
        return f"# {file.stem.capitalize()}\n"
    return file.read_text()


def _between(text: str, name: str) -> str:
    return text.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]


def _from_root(text: str) -> str:
    """Adapt the links of a file at the root: link pages of the site, and name other files."""
    return _LINK.sub(_link, text)


def _link(found: re.Match[str]) -> str:
    picture, label, target, anchor = found[1], found[2], found[3], found[4] or ""
    pages = {"SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
    if "://" in target:
        return found[0]
    if target in pages:
        return f"[{label}]({pages[target]}{anchor})"
    if target.startswith("docs/") and not target.endswith(".py"):
        return f"{picture}[{label}]({target.removeprefix('docs/')}{anchor})"
    return label if label.strip("`") == target else f"{label} (`{target}`)"
