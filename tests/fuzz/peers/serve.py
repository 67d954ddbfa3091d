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
from collections.abc import Callable
from pathlib import Path

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


class Server:
    """A peer's process, begun when it is first asked, and again when it has ended."""

    def __init__(self, python: str | Path, module: str, *arguments: str) -> None:
        """`module` runs under the interpreter `python`, and calls `serve`."""
        self._command = [python, "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, data: bytes) -> bytes:
        """Return what the peer read.

        Raises:
            Refused: it did not; or it ended, or took too long.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": TESTS, "PYTHONWARNINGS": "ignore"},
            )
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None
        assert source is not None
        sink.write(SIZE.pack(len(data)) + data)
        sink.flush()
        ready, _, _ = select.select([source], [], [], TIMEOUT_S)
        head = source.read(SIZE.size) if ready else b""
        if not head:
            self._process.kill()
            self.close()
            raise Refused("the process ended" if ready else "no answer")
        answer = source.read(*SIZE.unpack(head))
        if answer[:1] == b"-":
            raise Refused(answer[1:].decode())
        return answer[1:]

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None
