"""Runs of the benchmarks, kept with their time, load and machine, and the medians over them.

A figure of one run says little on a shared machine. Each run is added to ``bench/results/runs.json``; the page has
medians over all of them, and how far they lie apart.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness import Figure, Summary
from report import machine


def add(path: Path, figures: Sequence[Figure], load: float) -> None:
    """Add a run to the file; `load` is that of the machine before it began."""
    before = read(path) if path.exists() else []
    at = datetime.now(timezone.utc).isoformat(timespec="minutes")
    run = {"at": at, "load": round(load, 1), "machine": machine(), "figures": [one.to_json() for one in figures]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([*before, run], indent=1) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return all runs, oldest first."""
    found: list[dict[str, Any]] = json.loads(path.read_text())
    return found


def load() -> float:
    """Return the processes that run or wait, on average over the last minute."""
    return os.getloadavg()[0]


def summaries(runs: Iterable[Mapping[str, Any]]) -> list[Summary]:
    """Return the median of each line over all runs that have it."""
    lines: dict[str, list[Figure]] = {}
    for run in runs:
        for values in run["figures"]:
            figure = Figure(**values)
            lines.setdefault(figure.key, []).append(figure)
    return [_summary(found) for found in lines.values()]


def described(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of the runs: when, on what, how busy it was."""
    lines = ["| run (UTC) | processor | Python | load before | lines |", "|---|---|---|---|---|"]
    for run in runs:
        busy = "not recorded" if run["load"] is None else run["load"]
        cells = [run["at"], run["machine"]["processor"], run["machine"]["python"], busy, len(run["figures"])]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _summary(found: list[Figure]) -> Summary:
    ratios = [one.ratio for one in found if one.ratio is not None]
    values = found[-1].to_json() | {
        "ours": statistics.median(one.ours for one in found),
        "theirs": _median([one.theirs for one in found if one.theirs is not None]),
        "ratio": _median(ratios),
    }
    return Summary(Figure(**values), min(ratios, default=None), max(ratios, default=None), len(found))


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
