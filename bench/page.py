"""Writes the tables and the picture of docs/performance.md from all runs: `python bench/page.py RUNS PAGE PICTURE`.

A table stands between the comments ``<!-- NAME -->`` and ``<!-- /NAME -->``, with NAME one of `SECTIONS`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from harness import Figure, Summary
from report import chart, table
from runs import described, read, summaries

SECTIONS = {
    "decode": ("decode", "packed", "small", "union", "Lance: decode", "apply", "peak memory: decode", "growth: decode"),
    "encode": ("encode", "convert", "Lance: encode", "peak memory: encode", "growth: encode", "growth: fill"),
    "segments": ("zap",),
    "start": ("start-up",),
}
"""Name of a table -> how its rows begin."""


def main() -> None:
    runs_file, page, picture = map(Path, sys.argv[1:])
    runs = read(runs_file)
    found = summaries(runs)
    text = filled(page.read_text(), "runs", described(runs))
    left = list(found)
    for name, begins in SECTIONS.items():
        chosen = [one for one in found if one.figure.row.startswith(begins)]
        text = filled(text, name, table(chosen))
        left = [one for one in left if one not in chosen]
    if left:
        raise SystemExit(f"no section has {left[0].figure.row}")
    page.write_text(text)
    picture.write_text(chart(headline(found)))


def headline(found: Sequence[Summary]) -> list[Figure]:
    """Choose the lines of the picture: those with a peer and a target."""
    return [one.figure for one in found if one.figure.peer is not None and one.figure.asked is not None]


def filled(page: str, name: str, text: str) -> str:
    """Replace the text between the comments of this name."""
    head, begin, rest = page.partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- /{name} -->")
    if not (begin and end):
        raise SystemExit(f"the page has no place for {name}: <!-- {name} --> and <!-- /{name} -->")
    return f"{head}{begin}{text}{end}{tail}"


if __name__ == "__main__":
    main()
