"""Fixtures: a process that dies on order, and a file system that is small, full, or cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

Order = Callable[..., dict[str, Any]]
TESTS = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def order() -> Iterator[Order]:
    """Have a writer run in a process of its own, which dies at the given step."""
    if not sys.platform.startswith("linux"):
        pytest.skip("descriptors are named by /proc")
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(Path(__file__).with_name("killer.py"))]
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(**order: Any) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(order, default=str), file=process.stdin, flush=True)
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            assert "failed" not in answer, answer
            return answer

        yield ask
        process.stdin.close()
        process.wait(timeout=600)


class Disk:
    """A file system in memory, mounted for one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted = False

    def mount(self, options: str) -> Path:
        """Mount it, or remount it with other options; skips where that is not allowed."""
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            pytest.skip("only root mounts a file system")
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
        self.mounted = True
        return self.folder

    def fill(self, but: int) -> None:
        """Fill it but for some bytes."""
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            with suppress(OSError):
                while True:
                    file.write(bytes(4096))
            file.truncate(file.tell() - but)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A file system of its own."""
    found = Disk(tmp_path / "disk")
    found.folder.mkdir()
    yield found
    if found.mounted:
        subprocess.run(["umount", "--lazy", str(found.folder)], check=True)
