"""Growth: time per position and peak memory at 1, 10 and 100 million positions of the same density.

Everything runs in separate processes; `python -m rows.growth` is such a process. An array above 32 MB always gets fresh
memory from the system, which has to clear it first; a smaller one that is created repeatedly gets its old memory again.
To time the same work at every size, positions are always in fresh memory here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from data import MILLION, e
from dvcodec import RowSet, iceberg
from harness import Comparison, Peer, Timed, timed
from peers import PeerProcess

COUNTS = (1, 10, 100)
"""Millions of positions."""
WITHIN = 1.3
WHY = (
    "A million positions are 8 MB: in reused memory they stay in the processor's cache, and 10 and 100 million do not. "
    "In fresh memory the three took 1.6 to 2.0 ns a position at every size, but glibc does not always return fresh "
    "memory."
)
PATH = {"PYTHONPATH": str(Path(__file__).parent.parent)}
FRESH = {"MALLOC_MMAP_THRESHOLD_": str(6 << 20), "MALLOC_TRIM_THRESHOLD_": str(6 << 20)}
"""Settings of glibc: arrays of a million or more positions are in fresh memory, smaller ones are not."""
PROCESS = (sys.executable, "-m", "rows.growth")


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Decode and encode; the largest size is compared with the others."""
    if short:
        return
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    found = e()
    for count in COUNTS:
        positions = found.positions[: count * MILLION]
        np.save(folder / f"{count}.npy", positions)
        (folder / f"{count}.blob").write_bytes(iceberg.encode(RowSet(positions)))
    del found, positions
    process = stack.enter_context(closing(PeerProcess(PROCESS, PATH | FRESH)))
    for op in TIMED:
        works = [per_million(process.task(op, path=str(folder), count=count), count) for count in COUNTS]
        for i, count in enumerate(COUNTS[1:], 1):
            peers = tuple(
                Peer(f"itself at {one} M", work, at_least=1 / WITHIN if op in WORKS else None)
                for one, work in zip(COUNTS[:i], works[:i], strict=True)
            )
            yield Comparison(
                f"growth: {op} 1 M positions", f"of {count} M", MILLION, "positions", works[i], peers, why_missed=WHY
            )
    for op in WORKS:
        for count in COUNTS:
            output = Peer("the positions", lambda _, count=count: 8.0 * count * MILLION, at_least=1 / 2)  # type: ignore[misc]
            peak = peak_memory(op, folder, count)
            yield Comparison(
                f"peak memory: {op}", f"{count} M", count * MILLION, "positions", peak, (output,), cost="bytes"
            )


def per_million(work: Timed, count: int) -> Timed:
    """Return the time for a million positions."""
    return lambda times: work(times) / count


def peak_memory(op: str, folder: Path, count: int) -> Timed:
    """Return the peak memory that the work adds to a fresh process, in bytes."""

    def run(times: int) -> float:
        del times  # the peak must be that of one run
        command = [*PROCESS, op, str(folder), str(count)]
        return float(subprocess.check_output(command, env=os.environ | PATH))

    return run


def decode(folder: Path, count: int) -> Callable[[], object]:
    """Blob to positions."""
    blob = (folder / f"{count}.blob").read_bytes()
    return lambda: iceberg.decode(blob).to_numpy()


def encode(folder: Path, count: int) -> Callable[[], object]:
    """Positions to blob."""
    positions = np.load(folder / f"{count}.npy")
    return lambda: iceberg.encode(RowSet(positions))


def fill(folder: Path, count: int) -> Callable[[], object]:
    """Only fill an array of as many positions: the cost of memory at that size."""
    del folder
    return lambda: np.full(count * MILLION, 1, np.int64)


WORKS = {"decode": decode, "encode": encode}
TIMED = WORKS | {"fill": fill}


def measure_peak(op: str, folder: str, count: str) -> None:
    """Print the bytes that one run adds to this process's peak."""
    work = WORKS[op](Path(folder), int(count))
    Path("/proc/self/clear_refs").write_text("5")  # Linux resets the peak
    before = resident("VmRSS")
    work()
    print(resident("VmHWM") - before)


def resident(name: str) -> int:
    """Return the bytes in memory now, or their peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def answer() -> None:
    """Time the requested work, line by line; see `peers`."""
    works: dict[tuple[str, int], Callable[[], object]] = {}
    for text in sys.stdin:
        line = json.loads(text)
        name = line["op"], line["count"]
        if name not in works:
            works[name] = TIMED[line["op"]](Path(line["path"]), line["count"])
        print(json.dumps({"seconds": timed(works[name])(line["times"])}), flush=True)


if __name__ == "__main__":
    measure_peak(*sys.argv[1:]) if sys.argv[1:] else answer()
