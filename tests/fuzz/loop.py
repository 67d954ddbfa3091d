"""Runs targets under atheris, each until what was asked for is done. Started by `run`, which asks for one at a time.

Instrumented code takes seconds to import, so that it is imported once, and each target runs in a fork.

What a target raises that it must not is written down and counted once for each place, and the loop goes on: a crash
of the process, a hang, or memory beyond its bound ends it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import pkgutil
import random
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SPARE_BYTES = 1 << 30
"""Address space that a target may ask for beyond what it has at the start: what it may hold is far less."""
KEPT_BYTES = SPARE_BYTES // 4
"""Instrumented code keeps some memory of each input, kilobytes in some targets: a process that kept so much ends."""
UNDER_WAY = "under-way"
"""The name of the file with the input that is being tried."""
NOT_FUZZED = ("dvcodec.spark", "dvcodec.cli", "dvcodec.__main__")
"""Modules without a decoder, which take libraries that a target does not."""
EVERY_S = 1.0
"""Seconds between two notes of how far it is."""


class Journal:
    """What was found so far, as a file that can be read at any time."""

    def __init__(self, path: Path, crashes: Path) -> None:
        self._path, self._crashes = path, crashes
        self._places: dict[str, int] = {}
        self._saved = 0.0
        self.executions = self.accepted = 0
        self.slowest = 0.0
        self.kinds: dict[str, dict[str, Any]] = {}

    def crash(self, data: bytes, error: BaseException) -> None:
        """Note an exception that must not be, by the place it was raised at."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{type(error).__name__} {' '.join(f'{Path(f.filename).name}:{f.lineno}' for f in frames[-2:])}"
        self._places[place] = self._places.get(place, 0) + 1
        if self._places[place] == 1:
            self._crashes.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(data).hexdigest()[:16]
            (self._crashes / name).write_bytes(data)
            (self._crashes / f"{name}.txt").write_text("".join(traceback.format_exception(error)))
            print(f"FINDING {self._crashes / name}: {place}: {str(error)[:200]}", flush=True)
            self.save()

    def save(self, every: float = 0.0) -> bool:
        """Write down how far it is, unless that was done not long ago; return whether it was."""
        now = time.monotonic()
        if now - self._saved < every:
            return False
        self._saved = now
        found = {
            "executions": self.executions,
            "accepted": self.accepted,
            "slowest_ms": round(1000 * self.slowest, 1),
            "findings": self._places,
            "kinds": self.kinds,
        }
        self._path.write_text(json.dumps(found, indent=1))
        return True


class UnderWay:
    """The input that is being tried, in a file: it is there still when the process is not."""

    def __init__(self, path: Path, most: int) -> None:
        path.write_bytes(bytes(4 + most))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), 0)

    def note(self, data: bytes) -> None:
        self._bytes[: 4 + len(data)] = len(data).to_bytes(4, "little") + data

    @staticmethod
    def read(path: Path) -> bytes:
        """What was tried last."""
        kept = path.read_bytes()
        return kept[4 : 4 + int.from_bytes(kept[:4], "little")]


def address_space() -> int:
    """Bytes that this process has asked for."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main(name: str, work: str, arguments: list[str]) -> None:
    """Fuzz; does not return.

    Args:
        name: of the target.
        work: folder for the corpus, findings and the journal.
        arguments: for libFuzzer.
    """
    atheris = import_module("atheris")
    from dvcodec import DecodeError
    from fuzz import registry
    from fuzz.target import mutated

    target = registry.load(name)
    folder = Path(work)
    journal = Journal(folder / "journal.json", folder / "crashes")
    journal.kinds = target.kinds if target.kinds is not None else journal.kinds
    seeds, corpus = folder / "seeds", folder / "corpus"
    for one in (seeds, corpus):
        one.mkdir(parents=True, exist_ok=True)
    stock = [data for data in target.seeds() if len(data) <= target.max_len]
    for data in stock:
        (seeds / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        with suppress(Exception):  # those that fail are found when the loop begins
            target.run(data)  # what is imported late is imported before memory is bounded
    if target.kinds is not None:
        target.kinds.clear()
    clock = time.perf_counter

    under_way = UnderWay(folder / UNDER_WAY, target.max_len)

    def one_input(data: bytes) -> None:
        under_way.note(data)
        start = clock()
        try:
            target.run(data)
            journal.accepted += 1
        except DecodeError as error:
            if not str(error):
                journal.crash(data, AssertionError("an error that says nothing"))
        except Exception as error:  # noqa: BLE001  (this is what is looked for)
            journal.crash(data, error)
        took = clock() - start
        journal.slowest = max(journal.slowest, took)
        journal.executions += 1
        if journal.save(EVERY_S) and address_space() > begun + KEPT_BYTES:
            sys.stdout.flush()
            os._exit(0)

    def mutator(data: bytes, max_size: int, seed: int) -> bytes:
        try:
            return mutated(target, bytes(data), max_size, seed, atheris.Mutate, stock)
        except Exception:  # noqa: BLE001  (it would end the loop, which then waits for a thread of its own for ever)
            traceback.print_exc()
            os._exit(70)

    random.seed(0)
    begun = address_space()
    if not target.needs_space:
        resource.setrlimit(resource.RLIMIT_AS, (begun + SPARE_BYTES, begun + SPARE_BYTES))
    atheris.Setup(
        ["fuzz", str(corpus), str(seeds), f"-max_len={target.max_len}", *arguments],
        one_input,
        custom_mutator=mutator,
    )
    journal.save()
    atheris.Fuzz()


def _modules() -> Iterator[str]:
    """Yield the names of all modules; none is imported yet."""
    spec = find_spec("dvcodec")
    assert spec is not None
    root = Path(str(spec.origin)).parent
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def instrument(package: str) -> None:
    """Import all that targets may import, with code in a package and those below it that counts edges."""
    atheris = import_module("atheris")
    others = [name for name in _modules() if not f"{name}.".startswith(f"{package}.")]
    with atheris.instrument_imports(include=["dvcodec"], exclude=others, enable_loader_override=False):
        import dvcodec

        for module in pkgutil.walk_packages(dvcodec.__path__, "dvcodec."):
            if not module.name.startswith(NOT_FUZZED):
                import_module(module.name)


def serve(package: str) -> None:
    """Run one target after another, as lines of the standard input say.

    Writes how each process ended, and its seconds of processor time, with those of its own processes that ended.
    """
    instrument(package)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            os.environ["TMPDIR"] = order["scratch"]
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(log, stream.fileno())
            main(order["name"], order["work"], order["arguments"])
            os._exit(1)  # it does not return
        _, status, used = os.wait4(child, 0)
        print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
