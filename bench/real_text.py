"""Real text for the benchmark of search segments: what a Debian machine with Python has, paragraph by paragraph.

The manual pages of every language, the licences, and the docstrings of Python's standard library. A document is a
paragraph (or several short ones): its title is the page and the heading it is under, its tag the kind of page. Pages in
other languages than English come first, so that all of them are in; the others follow in an order that mixes them but
is always the same.

    python bench/real_text.py [MOST]     says how many documents of what there are, and a few of them
"""

from __future__ import annotations

import ast
import gzip
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

_LEAST = 200
"""Characters of a document, unless its page ends; shorter paragraphs are joined."""
_MANUAL = Path("/usr/share/man")
_LICENCES = Path("/usr/share/common-licenses")
_HEADING = re.compile(r"\.\s*S[HS]\s+")
_FONT = re.compile(r"\.\s*(?:[BIR]{1,2}|SM|SB|Nm|Fl|Ar|Pa|Xr|Em|Sy|Ic)\s")
_BREAK = re.compile(r"\.\s*(?:PP|LP|P|TP|IP|Pp|It|sp|HP)\b|\s*$")
_MARKUP = re.compile(r"\\f(?:\(..|\[[^]]*\]|.)|\\s[-+]?\d|\\[&|^/,]|\\\*\(..|\\[*n]\[[^]]*\]")
_SPECIAL = {r"\-": "-", r"\(aq": "'", r"\(dq": '"', r"\(co": "©", r"\(bu": "·", r"\(em": "—", r"\e": "\\", r"\ ": " "}


class Paragraph(NamedTuple):
    """A document; `tag` is the kind of page."""

    title: str
    body: str
    language: str
    tag: str


def paragraphs(most: int) -> list[Paragraph]:
    """Return the first documents, up to so many."""
    return list(islice(_all(), most))


def _all() -> Iterator[Paragraph]:
    pages = [path for path in _MANUAL.rglob("*.gz") if path.is_file() and not path.is_symlink()]
    of_english = [path for path in pages if _language(path) == "en"]
    for path in sorted(set(pages) - set(of_english)):
        yield from _manual(path)
    for path in sorted(_LICENCES.iterdir()) if _LICENCES.is_dir() else ():
        if not path.is_symlink():
            yield from _joined(_blank_lines(path.read_text(errors="replace")), path.name, "en", "licence")
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(path for path in library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if "-packages" not in path.parent.name:
            yield from _joined(_docstrings(path), path.relative_to(library).as_posix(), "en", "python")
    for path in sorted(of_english, key=lambda path: sha256(path.name.encode()).digest()):
        yield from _manual(path)


def _language(path: Path) -> str:
    return "en" if path.parent.parent == _MANUAL else path.parent.parent.name


def _manual(path: Path) -> Iterator[Paragraph]:
    text = gzip.decompress(path.read_bytes()).decode(errors="replace")
    return _joined(_roff(text), path.name.removesuffix(".gz"), _language(path), path.parent.name)


def _roff(text: str) -> Iterator[tuple[str, str]]:
    """Headings and paragraphs of a manual page, without its markup."""
    heading, lines = "", list[str]()
    for line in text.splitlines():
        if line.startswith((r".\"", r"'\"")):
            continue
        starts = _HEADING.match(line)
        if starts or _BREAK.match(line):
            yield heading, " ".join(lines)
            lines = []
        if starts:
            heading = _plain(line[starts.end() :]).strip('" ')
        elif font := _FONT.match(line):
            lines.append(_plain(line[font.end() :]).replace('"', ""))
        elif not line.startswith((".", "'")):  # other requests have no text
            lines.append(_plain(line))
    yield heading, " ".join(lines)


def _plain(line: str) -> str:
    line = _MARKUP.sub("", line)
    for written, meant in _SPECIAL.items():
        line = line.replace(written, meant)
    return line


def _blank_lines(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"\n\s*\n", text):
        yield "", " ".join(part.split())


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (found := ast.get_docstring(node)):
            for _, part in _blank_lines(found):
                yield getattr(node, "name", ""), part


def _joined(parts: Iterator[tuple[str, str]], page: str, language: str, tag: str) -> Iterator[Paragraph]:
    """Join paragraphs under one heading until they are long enough."""
    waiting, size, under = list[str](), 0, ""
    for heading, part in parts:
        if waiting and (heading != under or size >= _LEAST):
            yield Paragraph(f"{page} {under}".rstrip(), " ".join(waiting), language, tag)
            waiting, size = [], 0
        under = heading
        if part.strip():
            waiting.append(part.strip())
            size += len(part)
    if waiting:
        yield Paragraph(f"{page} {under}".rstrip(), " ".join(waiting), language, tag)


if __name__ == "__main__":
    found = paragraphs(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
    print(f"{len(found):,} documents, {sum(len(one.body.encode()) for one in found):,} bytes of text")
    print("languages:", dict(Counter(one.language for one in found).most_common()))
    print("pages:", dict(Counter(one.tag for one in found).most_common()))
    for one in found[:: max(len(found) // 5, 1)]:
        print(one)
