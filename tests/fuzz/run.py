"""Fuzzes targets: ``python tests/fuzz/run.py TARGET... [--runs N] [--seconds S] [--long FOLDER]``.

Every target runs in a process of its own, under atheris (Linux). Prints executions, coverage, size of the corpus and
findings of each; ends with 1 if there is a finding. ``--list`` names the targets; ``--record FILE`` keeps the figures.
``--long FOLDER`` goes on where it was stopped: a target whose figures are there is not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from fuzz import registry  # noqa: E402
from fuzz.loop import UNDER_WAY, UnderWay  # noqa: E402

TIMEOUT_S = 20
"""One input that takes longer is a hang."""
RSS_MB = 1500
ROUND_RUNS, ROUND_S = 250_000, 900
"""Executions and seconds of one process."""
SHORTEST_ROUND_S = 60
"""Of a run that counts processor time: a process that starts for the last of it spends it on starting."""
LONG_RUNS, LONG_S = 1_000_000, 3600
"""Executions and seconds of processor time of a target in a long run, at most."""
MEMORY = "/dev/shm"
_PROGRESS = re.compile(rb"cov: (\d+) ft: (\d+) corp: (\d+)/")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run of one target came to.

    Attributes:
        target: its name.
        executions: inputs tried.
        seconds: of the whole process, its start too.
        coverage: edges of the instrumented code that were seen.
        features: edges, by how often.
        corpus: inputs kept.
        accepted: share of the inputs that gave a value.
        slowest_ms: of one input.
        findings: what must not be, by place.
        kinds: differences to a peer, by kind: count and example.
        finished: when, UTC.
        ended: whether a process ended before its time.
        processor_s: seconds of processor time, of `seconds`; 0 in figures of old runs.
    """

    target: str
    executions: int
    seconds: float
    coverage: int
    features: int
    corpus: int
    accepted: float
    slowest_ms: float
    findings: dict[str, int]
    kinds: dict[str, dict[str, Any]] = field(default_factory=dict)
    finished: str = ""
    ended: bool = False
    processor_s: float = 0.0

    def line(self) -> str:
        """One line for people."""
        rate = self.executions / max(self.processor_s or self.seconds, 0.001)
        return (
            f"{self.target:22} {self.executions:>9} executions {rate:>7.0f}/s  coverage {self.coverage:>5}"
            f"  features {self.features:>5}  corpus {self.corpus:>5}  accepted {self.accepted:>4.0%}"
            f"  slowest {self.slowest_ms:>6.0f} ms  findings {len(self.findings)}"
        )


class Loop:
    """The process that targets are forked from, one at a time.

    Args:
        package: whose code is instrumented.
    """

    def __init__(self, package: str) -> None:
        path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "fuzz.loop", package],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # names of all modules that are instrumented
            text=True,
        )

    def run(self, name: str, work: Path, scratch: str, arguments: list[str]) -> tuple[int, float]:
        """Run a target; return how its process ended and its processor time in seconds.

        What it prints goes to ``log`` in its folder.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"name": name, "work": str(work), "scratch": scratch, "log": str(work / "log"), "arguments": arguments}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        ended = self._process.stdout.readline()
        if not ended:
            raise RuntimeError(f"the process that targets are forked from ended with {self._process.wait()}")
        code, processor_s = ended.split()
        return int(code), float(processor_s)


_LOOPS = threading.local()
"""The processes of a thread, by package; they end with this one."""


def _loop(name: str) -> Loop:
    """Return the process for a target. What decodes the files of tables has targets of its own, without a table."""
    package = "dvcodec.tables" if name.startswith("table-") else "dvcodec"
    loops: dict[str, Loop] = _LOOPS.__dict__
    if package not in loops:
        loops[package] = Loop(package)
    return loops[package]


def fuzz(
    name: str,
    work: Path,
    *,
    runs: int | None,
    seconds: int | None,
    seed: int | None = None,
    resume: bool = False,
    processor: bool = False,
) -> Figures:
    """Run one target in a folder that keeps its corpus and what it found, round by round.

    A round is a process: what the instrumentation counts is never freed, and memory is bounded. With `resume` the
    rounds of a run that was stopped count. With `processor` the seconds are those of processor time, so that other
    work on the machine makes a run longer but not smaller.
    """
    work.mkdir(parents=True, exist_ok=True)
    so_far = work / "so-far.json"
    done = Figures(**json.loads(so_far.read_text())) if resume and so_far.exists() else None
    while True:
        spent = 0.0 if done is None else done.processor_s if processor else done.seconds
        left_runs = ROUND_RUNS if runs is None else min(runs - (done.executions if done else 0), ROUND_RUNS)
        left_s = ROUND_S if seconds is None else min(math.ceil(seconds - spent), ROUND_S)
        if done is not None and (left_runs <= 0 or left_s <= 0):
            break
        one = _round(name, work, left_runs, max(left_s, SHORTEST_ROUND_S if processor else 1), seed)
        done = one if done is None else _together(done, one)
        if one.ended or not one.executions:
            break
        so_far.write_text(json.dumps(asdict(done)))
    so_far.unlink(missing_ok=True)
    return done


def _round(name: str, work: Path, runs: int, seconds: int, seed: int | None) -> Figures:
    arguments = [
        f"-timeout={TIMEOUT_S}",
        f"-rss_limit_mb={RSS_MB}",
        f"-artifact_prefix={work}/crashes-",
        "-print_final_stats=1",
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        *([] if seed is None else [f"-seed={seed}"]),
    ]
    journal = work / "journal.json"
    journal.unlink(missing_ok=True)
    start = time.monotonic()
    # What a peer wants as files lies in memory where the system has such a folder; the process cannot clean up.
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=MEMORY if Path(MEMORY).is_dir() else None) as scratch:
        ended, processor_s = _loop(name).run(name, work, scratch, arguments)
    took = time.monotonic() - start
    text = (work / "log").read_bytes()
    progress = _PROGRESS.findall(text)
    coverage, features, corpus = map(int, progress[-1]) if progress else (0, 0, 0)
    noted: dict[str, Any] = json.loads(journal.read_text()) if journal.exists() else {"executions": 0, "accepted": 0}
    executed = re.search(rb"number_of_executed_units: (\d+)", text)
    findings = dict(noted.get("findings", {}))
    if ended:
        kept = shutil.copy(work / "log", work / f"crashes-{time.strftime('%H%M%S')}.log")
        findings[f"the process ended with {ended}: see {Path(kept).name}"] = 1
        if (work / UNDER_WAY).exists():
            Path(kept).with_suffix(".input").write_bytes(UnderWay.read(work / UNDER_WAY))
    return Figures(
        name,
        int(executed[1]) if executed else noted["executions"],
        round(took, 1),
        coverage,
        features,
        corpus,
        round(noted["accepted"] / max(noted["executions"], 1), 4),
        noted.get("slowest_ms", 0.0),
        findings,
        noted.get("kinds", {}),
        time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        ended != 0,
        round(processor_s, 1),
    )


def _together(first: Figures, second: Figures) -> Figures:
    """Two rounds as one. Features differ a little from round to round, as the same inputs are met in another order."""
    executions = first.executions + second.executions
    accepted = first.accepted * first.executions + second.accepted * second.executions
    findings = {
        place: first.findings.get(place, 0) + second.findings.get(place, 0)
        for place in first.findings | second.findings
    }
    kinds = dict(first.kinds)
    for kind, entry in second.kinds.items():
        known = kinds.get(kind, entry | {"count": 0})
        kinds[kind] = min(known, entry, key=lambda one: int(one["bytes"])) | {"count": known["count"] + entry["count"]}
    return replace(
        second,
        executions=executions,
        seconds=round(first.seconds + second.seconds, 1),
        processor_s=round(first.processor_s + second.processor_s, 1),
        coverage=max(first.coverage, second.coverage),
        features=max(first.features, second.features),
        accepted=round(accepted / max(executions, 1), 4),
        slowest_ms=max(first.slowest_ms, second.slowest_ms),
        findings=findings,
        kinds=kinds,
    )


def record(path: Path, figures: Figures) -> None:
    """Keep the figures of a run in a file, by target."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[figures.target] = {name: value for name, value in asdict(figures).items() if name != "target"}
    path.write_text(json.dumps(known, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Fuzz the decoders.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--runs", type=int, help="executions of each")
    parser.add_argument("--seconds", type=int, help="seconds of each, at most")
    parser.add_argument("--seed", type=int, help="of chance, above 0, to try the same inputs again; default: a new one")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--work", type=Path, help="folder that keeps corpora and findings; default: a temporary one")
    parser.add_argument("--record", type=Path, help="file of figures to add to")
    parser.add_argument("--long", type=Path, metavar="FOLDER", help="keeps all of a long run, by processor time")
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
    targets, is_long = given.targets or registry.names(), given.long is not None
    if is_long:
        given.work, given.record = given.long, given.long / "figures.json"
        given.runs, given.seconds = given.runs or LONG_RUNS, given.seconds or LONG_S
        known = json.loads(given.record.read_text()) if given.record.exists() else {}
        targets = [name for name in targets if name not in known]
    elif given.runs is None and given.seconds is None:
        given.seconds = 60
    work = given.work or Path(tempfile.mkdtemp(prefix="fuzz-"))
    how = {"runs": given.runs, "seconds": given.seconds, "seed": given.seed, "resume": is_long, "processor": is_long}

    def one(name: str) -> Figures:
        figures = fuzz(name, work / name, **how)
        if not figures.executions:
            raise RuntimeError(f"{name} did not begin: see {work / name / 'log'}")
        return figures

    failed = False
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(one, name) for name in targets]):
            figures = done.result()
            print(figures.line(), flush=True)
            for place, times in figures.findings.items():
                print(f"  FINDING, {times} times: {place}\n  inputs: {work / figures.target}/crashes*", flush=True)
            failed |= bool(figures.findings)
            if given.record is not None:
                record(given.record, figures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
