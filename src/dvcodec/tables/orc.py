"""ORC files as Arrow batches, parsed in another process.

pyarrow's C++ reader crashes on some corrupt files, and others make it allocate without bound. So a worker process
parses them, with limited address space and a timer, and sends Arrow IPC back, a few megabytes at a time. If it dies,
the file is reported as corrupt, and the next file gets a new worker. Starting one takes about half a second, a small
file a millisecond or two. Files of metadata have a `Budget`, for their rows and for what the worker needs for them.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical
from dvcodec.core.extras import pa, require_extra
from dvcodec.core.limits import Budget
from dvcodec.io import Source
from dvcodec.tables.orc_worker import BATCH, ERROR, MEMORY, receive

__all__ = ["OrcFile", "open_orc"]

MEMORY_BYTES = 3 << 30
"""Address space of a worker, Python and Arrow's libraries (about 0.5 GiB) included."""
SECONDS = 60.0
"""Longest wait for one answer: a stripe is decoded in less."""
_BYTES_OF_WORK = 4
"""Bytes of memory that a unit of work takes at most, as `Budget` says."""
_LEAST_BYTES = 64 << 20
"""Memory of a worker for any file, however little work it may be: its buffers."""
_ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_CHUNK = 8 << 20
_KEPT = 2


class OrcFile:
    """An ORC file that a worker has opened.

    Attributes:
        rows: row count in its footer.
        schema: its columns.
    """

    def __init__(self, worker: _Worker, source: Source, budget: Budget | None = None) -> None:
        self._worker = worker
        self._name = source.name
        if source.size > MEMORY_BYTES:  # the worker holds it
            expected = f"a file of at most {MEMORY_BYTES} bytes"
            raise LimitExceeded("memory to decode ORC", source=source.name, expected=expected, actual=source.size)
        self._budget = budget
        self._memory = None if budget is None else min(_LEAST_BYTES + _BYTES_OF_WORK * budget.most, MEMORY_BYTES)
        worker.send({"do": "open", "memory": self._memory})
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
            dictionary: column of strings to yield as a dictionary. Of metadata, each of its values in a batch is
                charged.

        Raises:
            NotCanonical: the file is corrupt.
            LimitExceeded: decoding it takes more memory or time than a worker has, or exceeds the budget of metadata.
        """
        self._worker.send({"do": "read", "columns": list(columns), "rows": batch_rows, "dictionary": dictionary})
        self._answer()
        rows = 0
        while rows <= self.rows:
            self._worker.send({"do": "next"})
            answer = self._answer()
            if answer[:1] != BATCH:
                break
            with pa.ipc.open_stream(pa.py_buffer(answer[1:])) as stream:
                for batch in stream:
                    rows += batch.num_rows
                    if rows > self.rows:
                        break
                    if self._budget is not None and dictionary is not None:
                        self._budget.charge(batch.column(dictionary).dictionary.nbytes, "values")
                    yield batch.select(list(columns)) if columns else batch
        if rows != self.rows:
            stated, found = f"{self.rows} rows", f"{rows} rows in stripes"
            raise NotCanonical("ORC file", source=self._name, expected=stated, actual=found)

    def _answer(self) -> memoryview:
        answer = self._worker.answer()
        if answer is None:
            why = self._worker.end()
            if why is None:
                raise LimitExceeded("seconds for an ORC stripe", source=self._name, expected=f"at most {SECONDS:g}")
            raise NotCanonical("ORC file", source=self._name, expected="valid stripes", actual=why)
        if answer[:1] == MEMORY:
            expected = f"at most {MEMORY_BYTES if self._memory is None else self._memory} bytes"
            raise LimitExceeded("memory to decode ORC", source=self._name, expected=expected, actual="more")
        if answer[:1] == ERROR:
            message = bytes(answer[1:]).decode(errors="replace")
            raise NotCanonical("ORC file", source=self._name, expected="valid stripes", actual=message)
        return answer


class open_orc:  # noqa: N801  (used as a function)
    """Open an ORC file for the time of a ``with`` block.

    Args:
        source: the file.
        budget: of a file of metadata: the memory of the worker is as much as this allows. None: a data file.

    Raises:
        MissingExtra: pyarrow is not installed.
        NotCanonical: the file is corrupt.
        LimitExceeded: see `OrcFile.batches`.
    """

    def __init__(self, source: Source, budget: Budget | None = None) -> None:
        require_extra("pyarrow.orc", "tables")
        self._source = source
        self._budget = budget

    def __enter__(self) -> OrcFile:
        self._worker = _taken()
        try:
            return OrcFile(self._worker, self._source, self._budget)
        except BaseException as err:
            self.__exit__(type(err))
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Any other error may have come between a command and its answer: the next file would get that answer.
        if kind is None or issubclass(kind, (DecodeError, GeneratorExit)):
            _give_back(self._worker)
        else:
            self._worker.end()


class _Worker:
    """A process of `orc_worker`."""

    def __init__(self) -> None:
        code = files("dvcodec.tables").joinpath("orc_worker.py").read_text()
        code += f"\nmain({sys.path!r}, {MEMORY_BYTES})\n"
        self._timed_out = False
        self._process = subprocess.Popen(  # noqa: S603  (this Python, with code of this package)
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | _ENVIRONMENT,
        )
        self._stdin: Any = self._process.stdin
        self._stdout: Any = self._process.stdout

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, command: dict[str, Any]) -> None:
        data = json.dumps(command).encode()
        self._write(len(data).to_bytes(8, "little") + data)

    def send_file(self, source: Source) -> None:
        self._write(source.size.to_bytes(8, "little"))
        for start in range(0, source.size, _CHUNK):
            self._write(source.read(start, min(_CHUNK, source.size - start)))

    def answer(self) -> memoryview | None:
        """Return the answer to the last command, None if the worker died over it."""
        timer = threading.Timer(SECONDS, self._kill)
        timer.daemon = True
        timer.start()
        try:
            with suppress(BrokenPipeError):
                self._stdin.flush()
            found = receive(self._stdout)
        finally:
            timer.cancel()
        return memoryview(found) if found else None

    def end(self) -> str | None:
        """End a worker that did not answer; return how it died, None if it took too long."""
        self.close()
        if self._timed_out:
            return None
        code = self._process.returncode
        return f"a crash of the decoder (signal {-code})" if code < 0 else f"an exit of the decoder (code {code})"

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
        with suppress(BrokenPipeError):  # it died: `answer` says so
            self._stdin.write(data)


_LOCK = threading.Lock()
_IDLE: list[_Worker] = []
_OF_PARENT: list[_Worker] = []


def _taken() -> _Worker:
    with _LOCK:
        while _IDLE:
            worker = _IDLE.pop()
            if worker.is_alive:
                return worker
            worker.close()
    return _Worker()


def _give_back(worker: _Worker) -> None:
    with _LOCK:
        if worker.is_alive and len(_IDLE) < _KEPT:
            _IDLE.append(worker)
            return
    worker.close()


def _close_all() -> None:
    with _LOCK:
        while _IDLE:
            _IDLE.pop().close()


def _forget() -> None:
    """In a forked process: the workers are the parent's, and stay referenced so that they are not ended here."""
    global _LOCK  # noqa: PLW0603  (another thread may have held it)
    _LOCK = threading.Lock()
    _OF_PARENT.extend(_IDLE)
    _IDLE.clear()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
