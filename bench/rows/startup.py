"""Start-up time of a fresh process: the import, and the command line's help page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from harness import Comparison, Peer, Timed, timed

CLOCKED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"

WHY = "Python, typer and rich, which lays the page out: no command is imported for it, and neither is NumPy."


def comparisons(stack: ExitStack, *, short: bool) -> Iterator[Comparison]:
    """Fresh processes, one after the other."""
    del stack
    if short:
        return
    numpy = Peer("import numpy, pyroaring", statement("import numpy, pyroaring"))
    row, unit = "start-up", "starts"
    yield Comparison(row, "import dvcodec", 1, unit, statement("import dvcodec"), per_second=1 / 0.1)
    yield Comparison(row, "from dvcodec import RowSet", 1, unit, statement("from dvcodec import RowSet"), (numpy,))
    command = [str(Path(sys.executable).parent / "dvcodec"), "--help"]
    show = timed(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    yield Comparison(row, "dvcodec --help", 1, unit, show, per_second=1 / 0.3, why_missed=WHY)


def statement(text: str) -> Timed:
    """Time a statement in a fresh Python process, by that process's own clock."""

    def run(times: int) -> float:
        command = [sys.executable, "-c", CLOCKED.format(text)]
        return sum(float(subprocess.check_output(command)) for _ in range(times)) / times

    return run
