"""Runs cases one after another in little memory, each against the clock, and prints what became of each as JSON.

Run by itself: the limit on the address space holds for the whole process. It is set when everything is imported and all
inputs are built (the libraries alone take more than 256 MB of addresses), to what is in use then, and 256 MB more.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from limits.cases import CASES
from limits.making import Run

MEGABYTES = 256
SECONDS = 10.0
"""Of CPU: the clock of a machine that has more to do says nothing. All take less than one on most machines."""
ERRORS = ("DecodeError",)


class Late(BaseException):
    """Nothing catches it."""


def ring(*_: object) -> None:
    raise Late


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def spin() -> None:
    while True:
        pass


CONTROLS: dict[str, Run] = {
    "control: memory": lambda: np.empty((MEGABYTES + 44) << 20, np.uint8),
    "control: time": spin,
    "control: another error": lambda: int("x"),
}
"""What is to be caught: cases that take too much, too long, or raise another error."""


def attempt(run: Run, seconds: float) -> tuple[str, str]:
    """Run a case; return what it was: an error of the library, another, a value, or late."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        run()
    except Late:
        return "late", ""
    except Exception as error:  # noqa: BLE001  (reported)
        signal.setitimer(signal.ITIMER_PROF, 0)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        return ("refused" if kinds & set(ERRORS) else "raised"), f"{type(error).__name__}: {error!s:.200}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "accepted", ""


def main(names: list[str]) -> None:
    warnings.simplefilter("error")
    built = {}
    for name in names or CASES:
        try:
            built[name] = CONTROLS.get(name) or CASES[name].build()
        except Exception as error:
            raise RuntimeError(name) from error
    used = address_space()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (MEGABYTES << 20), most))
    signal.signal(signal.SIGPROF, ring)
    for name, run in built.items():
        before = time.process_time()
        outcome, message = attempt(run, 1.0 if name in CONTROLS else SECONDS)
        seconds = time.process_time() - before
        if outcome == "refused" and seconds > SECONDS:
            outcome = "late"
        print(
            json.dumps({"name": name, "outcome": outcome, "message": message, "seconds": round(seconds, 3)}), flush=True
        )
    print(json.dumps({"name": "", "outcome": "done", "message": f"{used >> 20} MiB in use before", "seconds": 0}))


if __name__ == "__main__":
    main(sys.argv[1:])
