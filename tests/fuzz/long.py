"""The long run: every target until it has had its executions or its time.

``python tests/fuzz/long.py FOLDER`` goes on where it was stopped: a target whose figures are there is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import registry
from fuzz.run import Figures, fuzz, record

ORDER = (
    "frames",
    "bitmaps",
    "deltas",
    "containers",
    "lance",
    "datasets",
    "zap",
    "segments",
    "tables",
    "whole",
    "spark",
)
"""Modules of targets, the most important first."""
RUNS = 1_000_000
SECONDS = 3600


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz all targets for long.")
    parser.add_argument("folder", type=Path, help="keeps figures.json, corpora, findings and logs")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--runs", type=int, default=RUNS, help="executions of each target, at most")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="seconds of processor time, at most")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    given = parser.parse_args()
    figures = given.folder / "figures.json"
    modules = registry.DECODERS | registry.PEERS
    known = json.loads(figures.read_text()) if figures.exists() else {}
    wanted = given.targets or [name for module in ORDER for name in modules[module]]
    left = [name for name in wanted if name not in known]
    run = partial(_run, given.folder, runs=given.runs, seconds=given.seconds)
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(run, name) for name in left]):
            record(figures, done.result())


def _run(folder: Path, name: str, *, runs: int, seconds: int) -> Figures:
    found = fuzz(name, folder / name, runs=runs, seconds=seconds, resume=True, processor=True)
    lines = [found.line(), *(f"  FINDING, {times} times: {place}" for place, times in found.findings.items())]
    print("\n".join(lines), flush=True)
    if not found.executions:
        raise RuntimeError(f"{name} did not begin: see {folder / name / 'log'}")
    return found


if __name__ == "__main__":
    main()
