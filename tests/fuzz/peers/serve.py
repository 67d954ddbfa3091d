"""Peers in processes of their own: they may want another environment, or end on damaged bytes.

On a pipe: u32 LE size and bytes in, u32 LE size and ``+`` and what was read, or ``-`` and why not, out.
"""

from __future__ import annotations

import os
import resource
import select
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

TESTS = str(Path(__file__).parents[2])
SIZE = struct.Struct("<I")
TIMEOUT_S = 15
MEMORY = 6 << 30
"""Address space of a peer: what it allocates beyond is its own mistake, and ends it."""


def serve(read: Callable[[bytes], bytes]) -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(SIZE.size):
        data = source.read(*SIZE.unpack(head))
        try:
            answer = b"+" + read(data)
        except BaseException as error:  # noqa: BLE001  (panics of Rust too: a refusal is an answer)
            answer = b"-" + f"{type(error).__name__}: {error}".encode()
        sink.write(SIZE.pack(len(answer)) + answer)
        sink.flush()


class Refused(Exception):
    """The peer did not read it."""


class Process:
    """A peer's process, begun when it is first asked, and again when it has ended."""

    def __init__(self, command: Sequence[str | Path], *, timeout_s: float = TIMEOUT_S, limited: bool = False) -> None:
        """`limited`: its memory is bounded from here; else it does that itself."""
        self._command, self._timeout_s = command, timeout_s
        self._limited = limited
        self._process: subprocess.Popen[bytes] | None = None

    def exchange(self, request: bytes, answer: Callable[[IO[bytes]], bytes]) -> bytes:
        """Send a request and return what `answer` reads from the process; nothing means that it has ended.

        Raises:
            Refused: it ended, or took too long.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None
        assert source is not None
        sink.write(request)
        sink.flush()
        ready, _, _ = select.select([source], [], [], self._timeout_s)
        found = answer(source) if ready else b""
        if not found:
            self._process.kill()
            self.close()
            raise Refused("the process ended" if ready else "no answer")
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": TESTS, "PYTHONWARNINGS": "ignore"},
            )
        except FileNotFoundError as error:  # no refusal: nothing would be compared
            raise SystemExit(f"{error}: see `make interop`") from None
        if self._limited:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        return process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


class Server(Process):
    """A process that calls `serve`."""

    def __init__(self, python: str | Path, module: str, *arguments: str) -> None:
        """`module` runs under the interpreter `python`."""
        super().__init__([python, "-m", module, *arguments])

    def ask(self, data: bytes) -> bytes:
        """Return what the peer read.

        Raises:
            Refused: it did not; or it ended, or took too long.
        """
        answer = self.exchange(SIZE.pack(len(data)) + data, _framed)
        if answer[:1] == b"-":
            raise Refused(answer[1:].decode())
        return answer[1:]


def _framed(source: IO[bytes]) -> bytes:
    head = source.read(SIZE.size)
    return source.read(*SIZE.unpack(head)) if head else b""
