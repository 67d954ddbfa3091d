"""Fuzzes targets: ``python tests/fuzz/run.py TARGET... [--runs N] [--seconds S] [--record FILE]``.

Every target runs in processes of its own, under atheris (Linux). Prints executions, coverage, size of the corpus and
findings of each; ends with 1 if there is a finding. ``--list`` names the targets; ``--record FILE`` keeps the figures,
and a target whose figures are there is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from fuzz import registry  # noqa: E402

TIMEOUT_S = 20
"""One input that takes longer is a hang."""
RSS_MB = 1500
ROUND_RUNS, ROUND_S = 250_000, 900
"""Executions and seconds of one process: what the instrumentation counts is never freed, and memory is bounded."""
MEMORY = "/dev/shm"
_PROGRESS = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)/")


def fuzz(name: str, work: Path, *, runs: int | None, seconds: int | None, seed: int | None = None) -> dict[str, Any]:
    """Run one target, process by process, in a folder that keeps its corpus and what it found; return its figures."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "journal.json").unlink(missing_ok=True)
    figures: dict[str, Any] = {"executions": 0, "seconds": 0.0, "processor_s": 0.0, "findings": {}}
    while True:
        before = figures["executions"]
        left_runs = ROUND_RUNS if runs is None else min(runs - before, ROUND_RUNS)
        left_s = ROUND_S if seconds is None else min(math.ceil(seconds - figures["seconds"]), ROUND_S)
        if left_runs <= 0 or left_s <= 0:
            return figures
        ended, processor_s, took = _round(name, work, left_runs, left_s, seed)
        progress = _PROGRESS.findall((work / "log").read_bytes())
        figures |= json.loads((work / "journal.json").read_text()) if (work / "journal.json").exists() else {}
        names, last = ("coverage", "features", "corpus"), map(int, progress[-1] if progress else (0, 0, 0))
        figures |= dict(zip(names, last, strict=True))
        figures["seconds"] = round(figures["seconds"] + took, 1)
        figures["processor_s"] = round(figures["processor_s"] + processor_s, 1)
        figures["finished"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        if ended:
            figures["findings"][f"the process ended with {ended}: see {work / 'log'}"] = 1
        if ended or figures["executions"] == before:
            return figures


def _round(name: str, work: Path, runs: int, seconds: int, seed: int | None) -> tuple[int, float, float]:
    """Run one process; return how it ended, and its seconds of processor time and of time."""
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "fuzz.loop",
        name,
        str(work),
        f"-timeout={TIMEOUT_S}",
        f"-rss_limit_mb={RSS_MB}",
        f"-artifact_prefix={work}/crashes-",
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        *([] if seed is None else [f"-seed={seed}"]),
    ]
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    start = time.monotonic()
    # What a peer wants as files lies in memory where the system has such a folder; the process cannot clean up.
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-", dir=MEMORY if Path(MEMORY).is_dir() else None) as scratch,
        (work / "log").open("wb") as log,
    ):
        settings = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error", "TMPDIR": scratch}
        process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime, time.monotonic() - start


def line(name: str, figures: dict[str, Any]) -> str:
    """Return figures as one line for people."""
    rate = figures["executions"] / max(figures["processor_s"], 0.001)
    return (
        f"{name:22} {figures['executions']:>9} executions {rate:>7.0f}/s  coverage {figures['coverage']:>5}"
        f"  corpus {figures['corpus']:>5}  accepted {figures['accepted']:>4.0%}"
        f"  slowest {figures['slowest_ms']:>6.0f} ms  findings {len(figures['findings'])}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fuzz the decoders.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--runs", type=int, help="executions of each")
    parser.add_argument("--seconds", type=int, help="seconds of each, at most")
    parser.add_argument("--seed", type=int, help="of chance, above 0, to try the same inputs again; default: a new one")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--work", type=Path, help="folder that keeps corpora and findings; default: a temporary one")
    parser.add_argument("--record", type=Path, help="file of figures to add to")
    parser.add_argument("--list", action="store_true", help="name the targets")
    given = parser.parse_args(arguments)
    if given.list:
        for name in registry.names():
            print(f"{name:22} {registry.load(name).about}")
        return 0
    strange = sorted(set(given.targets) - set(registry.names()))
    if strange:
        parser.error(f"no target {', '.join(strange)}: see --list")
    if find_spec("atheris") is None:
        parser.error("atheris is not installed (Linux, Python 3.11 to 3.13): pip install --group fuzz")
    if given.runs is None and given.seconds is None:
        given.seconds = 60
    known = json.loads(given.record.read_text()) if given.record is not None and given.record.exists() else {}
    targets = [name for name in given.targets or registry.names() if name not in known]
    work = given.work or Path(tempfile.mkdtemp(prefix="fuzz-"))

    def one(name: str) -> tuple[str, dict[str, Any]]:
        figures = fuzz(name, work / name, runs=given.runs, seconds=given.seconds, seed=given.seed)
        if not figures["executions"]:
            raise RuntimeError(f"{name} did not begin: see {work / name / 'log'}")
        return name, figures | {"accepted": round(figures["accepted"] / figures["executions"], 4)}

    failed = False
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(one, name) for name in targets]):
            name, figures = done.result()
            print(line(name, figures), flush=True)
            for place, times in figures["findings"].items():
                print(f"  FINDING, {times} times: {place}\n  inputs: {work / name}/crashes*", flush=True)
            failed |= bool(figures["findings"])
            if given.record is not None:
                known[name] = figures
                given.record.write_text(json.dumps(known, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
