"""The long run: every target, one after the other, until it has had its executions or its time.

``python tests/fuzz/long.py FOLDER`` goes on where it was stopped: a target whose figures are there is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import registry  # noqa: E402
from fuzz.run import fuzz, record  # noqa: E402

RUNS = 1_000_000
SECONDS = 3600


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz all targets for long.")
    parser.add_argument("folder", type=Path, help="keeps figures.json, corpora, findings and logs")
    parser.add_argument("--runs", type=int, default=RUNS, help="executions of each target, at most")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="seconds of each target, at most")
    parser.add_argument("--wait-for", type=Path, help="begin no target while this file is not there")
    given = parser.parse_args()
    figures = given.folder / "figures.json"
    for name in registry.names():
        if figures.exists() and name in json.loads(figures.read_text()):
            continue
        while given.wait_for is not None and not given.wait_for.exists():
            time.sleep(10)
        found = fuzz(name, given.folder / name, runs=given.runs, seconds=given.seconds)
        record(figures, found)
        print(found.line(), flush=True)
        for place, times in found.findings.items():
            print(f"  FINDING, {times} times: {place}", flush=True)


if __name__ == "__main__":
    main()
