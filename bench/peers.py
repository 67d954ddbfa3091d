"""Peers in other processes, and the line protocol to talk to them.

A peer reads one JSON object per line, ``{"op": .., "times": n, ..}``, does the work ``times`` times and answers with
one line: ``{"seconds": s}``, the time of one run by its own clock, or ``{"error": ..}``. It warms up by itself: with
``"warm": seconds``, the work is first repeated for that long without being timed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from harness import Timed

ROOT = Path(__file__).parent.parent
_WARM_SECONDS = 2.0


class PeerProcess:
    """A peer's process; close it when done."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start it, with additional environment variables."""
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | (environment or {}),
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def task(self, op: str, *, warm: float = _WARM_SECONDS, **arguments: Any) -> Timed:
        """Return work that the peer does and times; its first call warms the peer up."""
        is_warm = False

        def run(times: int) -> float:
            nonlocal is_warm
            line = {"op": op, "times": times, "warm": 0.0 if is_warm else warm, **arguments}
            is_warm = True
            return float(self.ask(line)["seconds"])

        return run

    def ask(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"error": "the peer ended"}')
        if "error" in answer:
            raise RuntimeError(f"{line['op']}: {answer['error']}")
        return answer


def java(stack: ExitStack) -> PeerProcess | None:
    """Start the Java implementations of interop/java, closed with `stack`; None if they are not built."""
    target = ROOT / "interop" / "java" / "target"
    listed = target / "classpath.txt"
    if not listed.is_file():
        print("Java is left out: `make interop-java` builds it", file=sys.stderr)
        return None
    path = f"{target / 'classes'}:{listed.read_text().strip()}"
    return stack.enter_context(closing(PeerProcess(["java", "-cp", path, "dvcodec.interop.Main", "bench"])))
