"""The long run: every target, one after the other, until it has had its executions or its time.

``python tests/fuzz/long.py FOLDER`` goes on where it was stopped: a target whose figures are there is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import registry
from fuzz.run import fuzz, record

ORDER = ("frames", "bitmaps", "deltas", "containers", "lance", "datasets", "zap", "tables")
"""Modules of targets, the most important first."""
RUNS = 1_000_000
SECONDS = 3600


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz all targets for long.")
    parser.add_argument("folder", type=Path, help="keeps figures.json, corpora, findings and logs")
    parser.add_argument("--runs", type=int, default=RUNS, help="executions of each target, at most")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="seconds of each target, at most")
    parser.add_argument("--count", type=int, default=1 << 30, help="targets of this call, at most")
    given = parser.parse_args()
    figures = given.folder / "figures.json"
    modules = registry.DECODERS | registry.PEERS
    known = json.loads(figures.read_text()) if figures.exists() else {}
    left = [name for module in ORDER for name in modules[module] if name not in known]
    for name in left[: given.count]:
        found = fuzz(name, given.folder / name, runs=given.runs, seconds=given.seconds)
        print(found.line(), flush=True)
        for place, times in found.findings.items():
            print(f"  FINDING, {times} times: {place}", flush=True)
        if not found.executions:
            sys.exit(f"{name} did not begin: see {given.folder / name / 'log'}")
        record(figures, found)


if __name__ == "__main__":
    main()
