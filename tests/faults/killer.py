"""A process that writes and dies: `python killer.py`, one JSON order a line on standard input, one answer on the other.

The program is loaded once; every order is carried out by a fork of it. There the operations that change a file system
are counted, and at the n-th the fork sends itself SIGKILL: nothing of Python runs after that. Opening, renaming,
removing and the like are seen by an audit hook, whoever calls them; writing and syncing by what stands in for
`os.fdopen` and `os.fsync`, through which all files are written (that they are is asserted by the tests).

An order: writer (index) and inputs, or delete (the kind of a table); out; and one of kill (the step to die at) and
limit (bytes that a file may have).
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from faults.deletes import delete
from faults.writers import WRITERS

CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LOADED = ("dvcodec.lance", "dvcodec.paimon", "dvcodec.tables", "dvcodec.zap", "fastavro", "pandas", "pyarrow.parquet")
"""Once, not by every fork."""
FSYNC, FDOPEN = os.fsync, os.fdopen


class Steps:
    """Counts what is done to files below a folder, and dies when it is time."""

    def __init__(self, folder: str, kill: int | None) -> None:
        self.folder = folder
        self.kill = kill
        self.seen: list[tuple[str, str]] = []

    def step(self, what: str, path: int | str | Path, last_words: Callable[[], object] = lambda: None) -> None:
        """Count a step that is about to be taken."""
        name = str(Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else Path(path).absolute())
        if name != self.folder and not name.startswith(f"{self.folder}/"):
            return
        if len(self.seen) == self.kill:
            last_words()
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append((what, name))

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Watch the audit events of the interpreter."""
        if event == "open" and arguments[0] is not None:
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITES:
                self.step("create", path)
            elif not isinstance(path, int) and Path(path).is_dir():
                self.step("open folder", path)
        elif event in CHANGES:
            self.step(event.removeprefix("os."), arguments[0])

    def fsync(self, descriptor: int) -> None:
        """Stand in for `os.fsync`."""
        self.step("fsync", descriptor)
        FSYNC(descriptor)

    def fdopen(self, descriptor: int, mode: str = "r", *arguments: Any) -> Any:
        """Stand in for `os.fdopen`."""
        if mode != "wb":
            return FDOPEN(descriptor, mode, *arguments)
        return io.BufferedWriter(Written(descriptor, self))


class Written(io.FileIO):
    """A file whose writes are counted twice: one may be all missing, or torn in the middle."""

    def __init__(self, descriptor: int, steps: Steps) -> None:
        super().__init__(descriptor, "wb")
        self.steps = steps

    def write(self, data: Any) -> int:
        self.steps.step("write", self.fileno())
        half = memoryview(data)[: len(data) // 2]
        self.steps.step("torn write", self.fileno(), lambda: super(Written, self).write(half))
        return super().write(data)


def work(order: dict[str, Any]) -> dict[str, Any]:
    """Carry out an order, in the fork."""
    out = os.path.realpath(order["out"])
    steps = Steps(out, order.get("kill"))
    if "limit" in order:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["limit"], resource.RLIM_INFINITY))
    else:
        os.fsync, os.fdopen = steps.fsync, steps.fdopen  # type: ignore[assignment]
        sys.addaudithook(steps.hook)
    try:
        if "delete" in order:
            delete(Path(out))
        else:
            WRITERS[order["writer"]].write(Path(order["inputs"]), Path(out))
    except OSError as err:
        return {"error": type(err).__name__, "errno": err.errno, "filename": err.filename, "text": str(err)}
    return {"error": None, "steps": steps.seen}


def serve() -> None:
    """Answer orders until standard input ends."""
    for name in LOADED:
        import_module(name)
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reading)
                os.write(writing, json.dumps(work(json.loads(line))).encode())
                code = 0
            finally:
                if code:
                    sys.excepthook(*sys.exc_info())
                    sys.stderr.flush()
                os._exit(code)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read().decode()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            answer = json.dumps({"killed": os.WTERMSIG(status)})
        elif status:
            answer = json.dumps({"failed": os.WEXITSTATUS(status)})
        print(answer, flush=True)


if __name__ == "__main__":
    serve()
