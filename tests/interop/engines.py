"""The program that commits to tables and reads them with Spark: interop/spark/commit_tables.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import IO, Any, cast

import pytest

from interop.driver import INTEROP, need

HERE = INTEROP / "spark"
PARTS = ("plain", "two words", "100%", "a#b", "zażółć ☃", "x/y=z?&", "%20+{[1]}")


class Engines:
    """The program that commits and reads; one for all tests.

    Attributes:
        folder: where tables are made.
    """

    def __init__(self, folder: Path, spark: str = "4.1") -> None:
        self.folder = folder
        self._log = (folder / "log").open("w+")
        # What the tests' own Spark has set here is not for others.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        self._process = subprocess.Popen(
            [HERE / f".venv-{spark}" / "bin" / "python", HERE / "commit_tables.py", folder],
            env=own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def answer(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Return ``result``, or what an engine refused as ``error``."""
        command, answers = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        command.write(json.dumps({"op": op} | arguments) + "\n")
        command.flush()
        line = answers.readline()
        if not line:
            self._log.seek(0)
            pytest.fail(f"{op}: {self._log.read()[-5000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, op: str, **arguments: Any) -> Any:
        answer = self.answer(op, **arguments)
        assert "error" not in answer, f"{op}: {answer['error'][:5000]}"
        return answer["result"]

    def read(self, engine: str, **table: Any) -> list[int]:
        """Return the ids that an engine reads, after a look at the other columns."""
        rows = self.ask(f"{engine}-read", **table)
        for number, part, name, price, day in rows:
            assert (part, name) == (PARTS[number % len(PARTS)], f"row {number}")
            assert price == (None if number % 10 == 0 else number / 4)
            assert day == str(date(2020, 1, 1) + timedelta(number % 400))
        return [row[0] for row in rows]

    def close(self) -> None:
        self._process.communicate(timeout=600)
        self._log.close()


@contextmanager
def running(folder: Path, spark: str = "4.1") -> Iterator[Engines]:
    """The program for tables in a folder; `make interop-spark` gets what it needs."""
    need(shutil.which("java") is not None, "java")
    need((HERE / "target" / ".built").is_file(), "the jars of interop/spark")
    need((HERE / f".venv-{spark}" / ".installed").is_file(), f"interop/spark/.venv-{spark}")
    found = Engines(folder, spark)
    yield found
    found.close()
