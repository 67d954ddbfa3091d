"""Writes the tables of docs/fuzzing.md and docs/differences.md anew: ``python tests/fuzz/figures.py [FIGURES]``.

With FIGURES (the ``figures.json`` of a long run) they are first taken over into ``tests/fuzz/figures.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import registry
from fuzz.target import Target

HERE = Path(__file__).resolve().parent
KEPT = HERE / "figures.json"
DOCS = HERE.parents[1] / "docs"
BEGIN, END = "<!-- begin: {} -->", "<!-- end: {} -->"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def of_targets(figures: dict[str, Any]) -> str:
    """One row a target, those that were not run yet too."""
    rows = []
    for name in registry.names():
        found, cells = figures.get(name), ["-"] * 6
        if found is not None:
            processor_s = found.get("processor_s")
            seconds = processor_s or found["seconds"]
            cells = [
                f"{found['executions']:,}",
                f"{seconds:,.0f}{'' if processor_s else ' (wall)'}",
                f"{found['executions'] / max(seconds, 0.001):,.0f}",
                f"{found['accepted']:.1%}",
                f"{found['coverage']:,}",
                str(len(found["findings"])),
            ]
        rows.append([f"`{name}`", registry.load(name).about, *cells])
    head = ["target", "what it drives", "executions", "seconds", "a second", "accepted", "coverage", "findings"]
    return table(head, rows)


def of_differences(figures: dict[str, Any]) -> str:
    """For each differential target: kinds of differences, how often, why, and the shortest example."""
    parts = []
    for name in (one for names in registry.PEERS.values() for one in names):
        target: Target = registry.load(name)
        found = figures.get(name)
        parts.append(f"## `{name}`: {target.about}\n")
        if found is None:
            parts.append("Not run for long yet.\n")
            continue
        kinds = sorted(found["kinds"].items(), key=lambda item: (item[0].startswith("accepted by"), -item[1]["count"]))
        rows = [
            [kind, f"{entry['count']:,}", entry["reason"], f"`{_shown(entry)}` ({entry['bytes']} bytes)"]
            for kind, entry in kinds
        ]
        parts.append(f"{found['executions']:,} inputs, {found['accepted']:.1%} of them accepted by dvcodec.\n")
        parts.append(table(["kind", "inputs", "why", "shortest example"], rows) + "\n" if rows else "No difference.\n")
    return "\n".join(parts).rstrip()


def _shown(entry: dict[str, Any]) -> str:
    text = str(entry["example"])
    return text if len(text) <= 120 else text[:120] + "..."


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between two marks."""
    begin, end = BEGIN.format(name), END.format(name)
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}")


def main(arguments: list[str]) -> None:
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for source in arguments:
        kept |= json.loads(Path(source).read_text())
    ordered = {name: kept[name] for name in registry.names() if name in kept}
    KEPT.write_text(json.dumps(ordered, indent=1) + "\n")
    put(DOCS / "fuzzing.md", "targets", of_targets(ordered))
    put(DOCS / "differences.md", "differences", of_differences(ordered))


if __name__ == "__main__":
    main(sys.argv[1:])
