"""Searches inputs that cost much: ``python tests/fuzz/cost.py [ENTRY...] [--seconds S] [--record FILE]``.

The limits are the default ones, an input has less than 64 kB, and what is kept and changed again is what took most
processor time or memory. Every entry runs in a process of its own: the targets of `registry` (with the laws that they
hold, so that the figures are upper bounds), bombs, tables of many files, and commands. Linux only.

``--write FIGURES`` prints nothing and writes the table of ``docs/fuzzing.md``. Ends with 1 if an input took more than
2 seconds or 256 MB. The costliest inputs are left in ``--work``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from fuzz import many, registry  # noqa: E402
from fuzz import target as targets  # noqa: E402

MOST_BYTES = 64_000
MOST_CPU_S, MOST_MB = 2.0, 256
KEPT = 24
"""Inputs that are changed again, the costliest ones."""
AGAIN = 5
"""The costliest inputs of all, and how often each of them is run again at the end."""
SPACE_BYTES = 4 << 30
HANG_S = 60
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "fuzzing.md"
BEGIN, END = "<!-- begin: costs -->", "<!-- end: costs -->"
BOMBS = tuple(
    f"bomb-{what}"
    for what in (
        "iceberg manifest", "paimon index manifest", "vectors of a paimon index manifest",
        "bounds of an iceberg manifest", "lists of an Avro data file", "delta checkpoint", "pages of position deletes",
        "rows of position deletes", "rows of position deletes in ORC", "paths of position deletes in ORC",
        "rows of position deletes in Avro", "manifest of a Spark write", "lance deletions", "gzip metadata",
    )
)  # fmt: skip
NOT_SEARCHED = ("avro-schema", "paimon-row", "z85", "spark-positions")
"""A few bytes, by their callers; and rows that a caller gives as data: kilobytes may be millions, in bounded chunks."""


def grow(data: bytes, most: int, rng: random.Random) -> bytes:
    """Change bytes, mostly by having more of them: a piece many times, a piece of somewhere else, or other numbers."""
    most = min(most, MOST_BYTES)
    if not data:
        return rng.randbytes(8)
    what = rng.random()
    start = rng.randrange(len(data))
    size = min(rng.choice((1, 2, 4, 8, 16, 50, 200, len(data))), len(data) - start)
    piece = data[start : start + size]
    room = max(most - len(data), 0)
    if what < 0.35 and room >= size:
        times = min(room // size, rng.choice((1, 2, 10, 100, 1000, 10**5)))
        return data[: start + size] + piece * times + data[start + size :]
    if what < 0.45:
        return data[:start] + data[start + size :]
    if what < 0.55:
        at = rng.randrange(len(data))
        return data[:at] + piece + data[at + size :]
    return targets.overwrite(data, rng)


# -------------------------------------------------------------------------------------------------------- one entry


class Meter:
    """Processor time and memory of a call, as the system counts them."""

    def __init__(self) -> None:
        self._trim = ctypes.CDLL(None).malloc_trim
        self._status = Path("/proc/self/status")
        self._reset = Path("/proc/self/clear_refs")

    def _kilobytes(self, name: str) -> int:
        return next(int(line.split()[1]) for line in self._status.read_text().splitlines() if line.startswith(name))

    def __call__(self, run: Callable[[bytes], object], data: bytes) -> tuple[float, float, str]:
        """Return seconds, megabytes, and how it ended: ok, refused, or the name of another exception."""
        from dvcodec import DecodeError, UsageError

        self._trim(0)
        self._reset.write_text("5")
        before = self._kilobytes("VmRSS")
        start = time.process_time()
        ended = "ok"
        try:
            run(data)
        except (DecodeError, UsageError):
            ended = "refused"
        except Exception as error:  # noqa: BLE001
            ended = type(error).__name__
        return time.process_time() - start, (self._kilobytes("VmHWM") - before) / 1024, ended


def bomb_target(name: str) -> targets.Target:
    """A file of kilobytes that is made into much more, as much as the budget just allows: of `limits.test_work`."""
    from dvcodec import DecodeError
    from limits.test_work import BOMBS

    make, read = BOMBS[name.partition("-")[2]]
    path = Path(tempfile.mkdtemp(prefix="cost-", dir="/dev/shm")) / "v1.metadata.json.gz"

    def run(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    def accepted(count: int) -> bytes | None:
        data = make(count)
        if len(data) > MOST_BYTES:
            return None
        try:
            run(data)
        except DecodeError:
            return None
        return data

    def seeds() -> Iterator[bytes]:
        low = 100
        while accepted(2 * low) is not None:
            low *= 2
        for step in (low // 2, low // 4, low // 8, low // 16):
            low += step if accepted(low + step) is not None else 0
        yield make(low)

    return targets.Target(name, "a bomb that the budget just allows", run, seeds)


def load(name: str) -> targets.Target:
    """An entry, with the limits that callers have by default."""
    from dvcodec.core.limits import DEFAULT_LIMITS

    targets.LIMITS = DEFAULT_LIMITS
    if name.startswith("bomb-"):
        return bomb_target(name)
    tempfile.tempdir = "/dev/shm"  # whole tables are files
    if name in many.NAMES:
        return many.load(name, MOST_BYTES)
    target = registry.load(name)
    return replace(target, seeds=lambda: chain(target.seeds(), _vectors())) if name == "sniff" else target


def _vectors() -> Iterator[bytes]:
    """A file of as many vectors as it may have: the search has too few executions to make it of the small seeds."""
    from limits.test_work import STORED

    yield many.largest(STORED["file of vectors"].make, lambda _: True, MOST_BYTES)


def search(name: str, seconds: float, seed: int, work: Path) -> dict[str, Any]:
    """Search for so many seconds of processor time; return the figures."""
    target, meter, rng = load(name), Meter(), random.Random(seed)
    seeds = [data for data in target.seeds() if len(data) <= MOST_BYTES]
    for data in seeds[:60]:
        meter(target.run, data)  # imports and caches
    gc.freeze()  # what is loaded here is none of the input's cost
    resource.setrlimit(resource.RLIMIT_AS, (SPACE_BYTES, SPACE_BYTES))
    signal.signal(signal.SIGPROF, _hang)
    population: list[tuple[float, bytes]] = []
    dearest: list[tuple[float, bytes]] = []
    most_memory = 0.0, b""
    strange: dict[str, int] = {}
    tried, start = 0, time.process_time()
    while time.process_time() - start < seconds or tried <= len(seeds):
        if tried < len(seeds):
            data = seeds[tried]
        else:
            data = max(rng.sample(population, min(3, len(population))))[1]
            for _ in range(rng.choice((1, 1, 2, 4))):
                change = lambda old, most: grow(old, most, rng)  # noqa: E731
                data = targets.mutated(target, data, MOST_BYTES, rng.getrandbits(32), change, seeds)
        tried += 1
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        cpu, megabytes, ended = meter(target.run, data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if ended not in ("ok", "refused"):
            strange[ended] = strange.get(ended, 0) + 1
            (work / f"{name}-{ended}").write_bytes(data)
        if ended != "TimeoutError":
            dearest = sorted([*dearest, (cpu, data)], reverse=True)[:AGAIN]
        most_memory = max(most_memory, (megabytes, data))
        for what, value in (("cpu", dearest[0][1] if dearest else b""), ("mb", most_memory[1])):
            if value is data:
                (work / f"{name}-{what}").write_bytes(data)
        population.append((max(cpu / MOST_CPU_S, megabytes / MOST_MB), data))
        if len(population) > 4 * KEPT:
            population = sorted(population, reverse=True)[:KEPT]
    # Other work on the machine slows some executions down: the least time of an input is its own.
    slowest = max(
        ((min(meter(target.run, data)[0] for _ in range(AGAIN)), data) for _, data in dearest), default=(0, b"")
    )
    (work / f"{name}-cpu").write_bytes(slowest[1])
    return {
        "about": target.about,
        "inputs": tried,
        "cpu_s": round(slowest[0], 3),
        "cpu_bytes": len(slowest[1]),
        "mb": round(most_memory[0], 1),
        "mb_bytes": len(most_memory[1]),
        "strange": strange,
    }


def _hang(_number: int, _frame: object) -> None:
    raise TimeoutError


# -------------------------------------------------------------------------------------------------------- all entries


def entries() -> list[str]:
    """Names of all of them."""
    known = [name for found in registry.DECODERS.values() for name in found if name not in NOT_SEARCHED]
    return [*known, *BOMBS, *many.NAMES]


def table(figures: dict[str, Any]) -> str:
    """The table of the page."""
    lines = [
        "| entry | inputs | worst CPU | bytes of it | worst memory | bytes of it |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    found = ((name, figures[name]) for name in entries() if name in figures)
    lines += [
        f"| `{name}` | {one['inputs']:,} | {one['cpu_s']:.2f} s | {one['cpu_bytes']:,} |"
        f" {one['mb']:.1f} MB | {one['mb_bytes']:,} |"
        for name, one in found
    ]
    return "\n".join(lines)


def in_a_process(name: str, seconds: float, seed: int, work: Path) -> dict[str, Any]:
    """Search in a forked process: what is imported here is there already. A process that ends is a figure too."""
    result = work / f"{name}.json"
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 1
        try:
            result.write_text(json.dumps(search(name, seconds, seed, work)))
            status = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    if status or not result.exists():
        return {"cpu_s": 0, "cpu_bytes": 0, "mb": 0, "mb_bytes": 0, "inputs": 0, "strange": {f"ended {status}": 1}}
    return dict(json.loads(result.read_text()))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Search inputs that cost much.")
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="default: all")
    parser.add_argument("--seconds", type=float, default=60, help="processor time of each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="folder for the costliest inputs")
    parser.add_argument("--record", type=Path, help="file of figures to add to")
    parser.add_argument("--write", type=Path, metavar="FIGURES", help="write the table of docs/fuzzing.md")
    given = parser.parse_args(arguments)
    if given.write is not None:
        text = PAGE.read_text()
        made = table(json.loads(given.write.read_text()))
        PAGE.write_text(f"{text[: text.index(BEGIN) + len(BEGIN)]}\n\n{made}\n\n{text[text.index(END) :]}")
        return 0
    work = given.work or Path(tempfile.mkdtemp(prefix="cost-"))
    work.mkdir(parents=True, exist_ok=True)
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    bad = False
    for name in given.entries or entries():
        found = in_a_process(name, given.seconds, given.seed, work)
        over = found["cpu_s"] > MOST_CPU_S or found["mb"] > MOST_MB or found["strange"]
        bad |= bool(over)
        finding = f"  FINDING {found['strange']}" if over else ""
        print(
            f"{name:22} {found['inputs']:>7} inputs  {found['cpu_s']:>7.3f} s of {found['cpu_bytes']:>6} bytes"
            f"  {found['mb']:>7.1f} MB of {found['mb_bytes']:>6} bytes{finding}",
            flush=True,
        )
        if given.record is not None:
            known = json.loads(given.record.read_text()) if given.record.exists() else {}
            known[name] = found
            given.record.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    for left in Path("/dev/shm").glob("cost-*"):
        with suppress(OSError):
            shutil.rmtree(left)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
