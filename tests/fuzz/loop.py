"""Runs one target under atheris until what was asked for is done. Started by `run`.

What a target raises that it must not is written down and counted once for each place, and the loop goes on: a crash
of the process, a hang, or memory beyond its bound ends it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SPARE_BYTES = 1 << 30
"""Address space that a target may ask for beyond what it has at the start: what it may hold is far less."""
KEPT_BYTES = SPARE_BYTES // 4
"""Instrumented code keeps some memory of each input, kilobytes in some targets: a process that kept so much ends."""
NOT_FUZZED = ("dvcodec.spark", "dvcodec.cli", "dvcodec.__main__")
"""Modules without a decoder, which take libraries that a target does not."""
EVERY_S = 1.0
"""Seconds between two notes of how far it is."""


class Journal:
    """What was found so far, in a file that the next process goes on with."""

    def __init__(self, folder: Path) -> None:
        self._path, self._crashes, self._saved = folder / "journal.json", folder / "crashes", 0.0
        self.found: dict[str, Any] = {"executions": 0, "accepted": 0, "slowest_ms": 0.0, "findings": {}, "kinds": {}}
        if self._path.exists():
            self.found = json.loads(self._path.read_text())

    def crash(self, data: bytes, error: BaseException) -> None:
        """Note an exception that must not be, by the place it was raised at."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{type(error).__name__} {' '.join(f'{Path(f.filename).name}:{f.lineno}' for f in frames[-2:])}"
        places = self.found["findings"]
        places[place] = places.get(place, 0) + 1
        if places[place] == 1:
            self._crashes.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(data).hexdigest()[:16]
            (self._crashes / name).write_bytes(data)
            (self._crashes / f"{name}.txt").write_text("".join(traceback.format_exception(error)))
            self.save()

    def save(self, every: float = 0.0) -> bool:
        """Write down how far it is, unless that was done not long ago; return whether it was."""
        now = time.monotonic()
        if now - self._saved < every:
            return False
        self._saved = now
        self._path.write_text(json.dumps(self.found, indent=1))
        return True


def address_space() -> int:
    """Bytes that this process has asked for."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def instrument(package: str) -> None:
    """Import all that targets may import, with code in a package and those below it that counts edges."""
    spec = find_spec("dvcodec")
    assert spec is not None
    root = Path(str(spec.origin)).parent
    paths = (path.relative_to(root.parent).with_suffix("") for path in sorted(root.rglob("*.py")))
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    others = [name for name in names if not f"{name}.".startswith(f"{package}.")]
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=["dvcodec"], exclude=others, enable_loader_override=False):
        for name in names:
            if not name.startswith(NOT_FUZZED):
                import_module(name)


def main(name: str, work: str, *arguments: str) -> None:
    """Fuzz a target; does not return.

    Args:
        name: of the target.
        work: folder for the corpus, findings and the journal.
        arguments: for libFuzzer.
    """
    instrument("dvcodec.tables" if name.startswith("table-") else "dvcodec")
    atheris = import_module("atheris")
    from dvcodec import DecodeError
    from fuzz import registry
    from fuzz.target import mutated

    target = registry.load(name)
    folder = Path(work)
    journal, seeds, corpus = Journal(folder), folder / "seeds", folder / "corpus"
    for one in (seeds, corpus):
        one.mkdir(parents=True, exist_ok=True)
    stock = [data for data in target.seeds() if len(data) <= target.max_len]
    for data in stock:
        (seeds / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        with suppress(Exception):  # those that fail are found when the loop begins
            target.run(data)  # what is imported late is imported before memory is bounded
    found = journal.found
    if target.kinds is not None:
        target.kinds.clear()
        target.kinds.update(found["kinds"])
        found["kinds"] = target.kinds

    def one_input(data: bytes) -> None:
        start = time.perf_counter()
        try:
            target.run(data)
            found["accepted"] += 1
        except DecodeError as error:
            if not str(error):
                journal.crash(data, AssertionError("an error that says nothing"))
        except Exception as error:  # noqa: BLE001  (this is what is looked for)
            journal.crash(data, error)
        found["slowest_ms"] = max(found["slowest_ms"], round(1000 * (time.perf_counter() - start), 1))
        found["executions"] += 1
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
    options = ["fuzz", str(corpus), str(seeds), f"-max_len={target.max_len}", *arguments]
    atheris.Setup(options, one_input, custom_mutator=mutator)
    journal.save()
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
