"""Worker processes that decode files with libraries that crash on corrupt ones, or allocate without bound.

A worker has limited address space and a timer, and sends Arrow IPC back, a few megabytes at a time. If it dies, the
file is reported as corrupt, and the next file gets a new worker. Starting one takes half a second to a second of
processor time and 150 MB, a small file a millisecond or two; so there are about as many as processors, and threads wait
for them.

ORC files are read as Arrow batches in this way: pyarrow's C++ reader crashes on some corrupt files, and others make it
allocate without bound.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, UsageError
from dvcodec.core.extras import pa, require_extra
from dvcodec.io.source import Source
from dvcodec.io.worker_program import BATCH, BATCH_AT, ERROR, MEMORY, NO_MEMORY, SYSTEM, receive

_CHUNK = 8 << 20
_MOST = min(max(os.cpu_count() or 1, 2), 8)
"""Workers of a kind at work, and kept when they are idle."""
_PATIENCE_S = 5.0
"""Longest wait for one of them: whoever has them may be waiting for this thread."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a worker decodes.

    Attributes:
        name: of the decoder in `worker_program`.
        title: of the format, in errors.
        step: what is decoded for one answer.
        memory: bytes of address space, Python and Arrow's libraries (about 0.5 GiB) included.
        seconds: longest wait for one answer.
        system_errors: whether the decoder reads the file itself, so that its OSErrors are not about the content.
        environment: variables of the process.
    """

    name: str
    title: str
    step: str
    memory: int
    seconds: float
    system_errors: bool = False
    environment: dict[str, str] = field(default_factory=dict)


class Worker:
    """A process of `worker_program`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.environment = dict(os.environ)
        code = files("dvcodec.io").joinpath("worker_program.py").read_text()
        code += f"\nmain({sys.path!r}, {kind.memory}, {kind.name!r})\n"
        self._timed_out = False
        self._in_step = True
        self._process = subprocess.Popen(  # noqa: S603  (this Python, with code of this package)
            [sys.executable, "-I", "-c", code],  # isolated: nothing is imported from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self.environment | kind.environment,
        )
        self._stdin: Any = self._process.stdin
        self._stdout: Any = self._process.stdout

    @property
    def is_usable(self) -> bool:
        """Whether the process runs, and has been sent what it waits for."""
        return self._in_step and self._process.poll() is None

    def send(self, command: dict[str, Any]) -> None:
        """Send a command; `answer` says what came of it."""
        data = json.dumps(command).encode()
        self._write(len(data).to_bytes(8, "little") + data)

    def send_file(self, source: Source) -> None:
        """Send a file, after the command ``open``."""
        self._in_step = False  # until it has all: what is sent next would be the rest of this file
        self._write(source.size.to_bytes(8, "little"))
        for start in range(0, source.size, _CHUNK):
            self._write(source.read(start, min(_CHUNK, source.size - start)))
        self._in_step = True

    def answer(self, what: str, source: str, expected: str) -> memoryview:
        """Return the answer to the last command.

        Args:
            what: the part of the file that is decoded, for errors.
            source: the file, for errors.
            expected: of the part.

        Raises:
            NotCanonical: the file is corrupt, or the worker died over it.
            LimitExceeded: the answer takes more memory or time than a worker has.
            OSError: the decoder could not read the file.
        """
        answer = self._receive()
        if answer is None:
            code = self.end()
            if code is None:
                name, most = f"seconds for {self.kind.step}", f"at most {self.kind.seconds:g}"
                raise LimitExceeded(name, source=source, expected=most)
            if code != NO_MEMORY:
                how = f"a crash of the decoder (signal {-code})" if code < 0 else f"an exit of the decoder ({code})"
                raise NotCanonical(what, source=source, expected=expected, actual=how)
        if answer is None or answer[:1] == MEMORY:
            most = f"at most {self.kind.memory} bytes"
            raise LimitExceeded(f"memory to decode {self.kind.title}", source=source, expected=most, actual="more")
        if answer[:1] in (ERROR, SYSTEM):
            message = bytes(answer[1:]).decode(errors="replace")
            if answer[:1] == SYSTEM and self.kind.system_errors:
                raise OSError(f"{source}: {message}")
            raise NotCanonical(what, source=source, expected=expected, actual=message)
        return answer

    def _receive(self) -> memoryview | None:
        timer = threading.Timer(self.kind.seconds, self._kill)
        timer.daemon = True
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._stdin.flush()
            found = receive(self._stdout)
        finally:
            timer.cancel()
        return memoryview(found) if found else None

    def forget(self) -> None:
        """Have the worker drop the file."""
        self.send({"do": "close"})
        with suppress(BrokenPipeError):
            self._stdin.flush()

    def end(self) -> int | None:
        """End a worker that did not answer; return its exit code, None if it took too long."""
        self.close()
        return None if self._timed_out else self._process.returncode

    def close(self) -> None:
        """End the process."""
        for stream in (self._stdin, self._stdout):
            with suppress(OSError):
                stream.close()
        if not self._timed_out:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        self._process.kill()
        self._process.wait()

    def _kill(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _write(self, data: Any) -> None:
        with suppress(BrokenPipeError):  # it died: `answer` reports it
            self._stdin.write(data)


@contextmanager
def borrowed(kind: Kind) -> Iterator[Worker]:
    """Borrow a worker for a file, for the time of a ``with`` block."""
    _wait_for_turn(kind)
    try:
        worker = _taken(kind)
        try:
            yield worker
        except (DecodeError, GeneratorExit):
            _give_back(worker)
            raise
        except BaseException:  # it may have come between a command and its answer, which the next file would get
            worker.end()
            raise
        _give_back(worker)
    finally:
        _end_turn(kind)


_LOCK = threading.Lock()
_TURN = threading.Condition(_LOCK)
_IDLE: list[Worker] = []
_OF_PARENT: list[Worker] = []
_lent: Counter[str] = Counter()
"""Workers at work, by kind."""
_own = threading.local()
"""`count`: those that a thread has, which does not wait for more: it would not give them back meanwhile."""


def _wait_for_turn(kind: Kind) -> None:
    count = getattr(_own, "count", 0)
    with _TURN:
        if not count:
            _TURN.wait_for(lambda: _lent[kind.name] < _MOST, _PATIENCE_S)
        _lent[kind.name] += 1
    _own.count = count + 1


def _end_turn(kind: Kind) -> None:
    _own.count = max(getattr(_own, "count", 0) - 1, 0)  # a generator may end in another thread
    with _TURN:
        _lent[kind.name] -= 1
        _TURN.notify_all()


def _taken(kind: Kind) -> Worker:
    """Return an idle worker, or a new one: of this kind, with the environment of now, which may hold credentials."""
    with _LOCK:
        for worker in reversed(_IDLE):
            if worker.kind == kind and worker.environment == dict(os.environ):
                _IDLE.remove(worker)
                if worker.is_usable:
                    return worker
                worker.close()
    return Worker(kind)


def _give_back(worker: Worker) -> None:
    if not worker.is_usable:
        worker.close()
        return
    worker.forget()
    with _LOCK:
        _IDLE.append(worker)
        left = [one for one in _IDLE if one.kind == worker.kind][:-_MOST]
        for one in left:
            _IDLE.remove(one)
    for one in left:
        one.close()


def _close_all() -> None:
    with _LOCK:
        while _IDLE:
            _IDLE.pop().close()


def _forget() -> None:
    """In a forked process: the workers are the parent's, and stay referenced so that they are not ended here."""
    global _LOCK, _TURN  # noqa: PLW0603  (another thread may have held them)
    _LOCK = threading.Lock()
    _TURN = threading.Condition(_LOCK)
    _OF_PARENT.extend(_IDLE)
    _IDLE.clear()
    _lent.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


ORC = Kind(
    "orc",
    "ORC",
    "an ORC stripe",
    memory=3 << 30,
    seconds=60.0,
    environment={"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
)


class OrcFile:
    """An ORC file that a worker has opened.

    Attributes:
        rows: row count in its footer.
        schema: its columns.
    """

    def __init__(self, worker: Worker, source: Source) -> None:
        self._worker = worker
        self._name = source.name
        self._reading = object()
        if source.size > ORC.memory:  # the worker holds it
            expected = f"a file of at most {ORC.memory} bytes"
            raise LimitExceeded("memory to decode ORC", source=source.name, expected=expected, actual=source.size)
        worker.send({"do": "open"})
        worker.send_file(source)
        answer = self._answer()
        self.rows = int.from_bytes(answer[1:9], "little")
        self.schema: pa.Schema = pa.ipc.read_schema(pa.py_buffer(answer[9:]))
        try:
            self.schema.names  # noqa: B018  (decoded)
        except UnicodeDecodeError as err:
            what = "column name in the ORC file"
            raise NotCanonical(what, source=self._name, expected="UTF-8", actual=err.reason) from None

    def batches(
        self, columns: Sequence[str], batch_rows: int = 1 << 16, *, dictionary: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order; each batch is decoded when it is asked for.

        Args:
            columns: names, in this order; empty = all.
            batch_rows: maximum rows in a batch, fewer if they take more than a few megabytes. No batch is empty.
            dictionary: column of strings to yield as a dictionary.

        Raises:
            NotCanonical: the file is corrupt.
            LimitExceeded: decoding it takes more memory or time than a worker has.
        """
        self._worker.send({"do": "read", "columns": list(columns), "rows": batch_rows, "dictionary": dictionary})
        self._answer()
        rows, self._reading = 0, (reading := object())
        while rows <= self.rows:
            if self._reading is not reading:
                raise UsageError(f"{self._name}: its batches are read again: the earlier iterator ends")
            self._worker.send({"do": "next"})
            answer = self._answer()
            if answer[:1] != BATCH:
                break
            with pa.ipc.open_stream(pa.py_buffer(answer[BATCH_AT:])) as stream:
                for batch in stream:
                    rows += batch.num_rows
                    if rows > self.rows:
                        break
                    yield batch.select(list(columns)) if columns else batch
        if rows != self.rows:
            stated, found = f"{self.rows} rows", f"{rows} rows in stripes"
            raise NotCanonical("ORC file", source=self._name, expected=stated, actual=found)

    def _answer(self) -> memoryview:
        return self._worker.answer("ORC file", self._name, "valid stripes")


@contextmanager
def open_orc(source: Source) -> Iterator[OrcFile]:
    """Open an ORC file for the time of a ``with`` block.

    Args:
        source: the file.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: the file is corrupt.
        LimitExceeded: see `OrcFile.batches`.
    """
    require_extra("pyarrow.orc", "tables")
    with borrowed(ORC) as worker:
        yield OrcFile(worker, source)
