"""Runs the programs of interop/, and speaks their batch files (see interop/java/README.md)."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

INTEROP = Path(__file__).parents[2] / "interop"
JAVA = INTEROP / "java"


def need(present: bool, what: str) -> None:
    """Skip without `what`, or fail where DVCODEC_REQUIRE_INTEROP says that a skip is no pass."""
    if not present:
        if os.environ.get("DVCODEC_REQUIRE_INTEROP") == "1":
            pytest.fail(f"{what} is not here, and DVCODEC_REQUIRE_INTEROP=1")
        pytest.skip(f"{what} is not here")


@dataclass(frozen=True)
class Read:
    """What a Java class made of one case: positions in iteration order, or why it refused."""

    positions: NDArray[np.int64] | None
    cardinality: int = -1
    error: str | None = None


class Program:
    """A program that drives another implementation, and speaks batch files; every call is one process.

    Args:
        command: how it is started.
        scratch: folder for batch files.
    """

    def __init__(self, command: list[str], scratch: Path) -> None:
        self._scratch = scratch
        self._command = command

    def run(self, *arguments: str | Path) -> str:
        done = subprocess.run([*self._command, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def run_json(self, *arguments: str | Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*arguments).splitlines()]

    def versions(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("versions"))
        return found

    def encode(self, kind: str, cases: Sequence[NDArray[np.int64]]) -> list[bytes]:
        """Have it encode row sets; a case it refuses fails the test."""
        source, result = self._scratch / "in.positions", self._scratch / "out.bytes"
        with source.open("wb") as out:
            out.write(struct.pack(">i", len(cases)))
            for case in cases:
                out.write(struct.pack(">i", len(case)) + case.astype(">i8").tobytes())
        self.run("encode", *filter(None, [kind]), source, result)
        return self._read_bytes(result)

    def transform(self, command: str, cases: Sequence[bytes]) -> list[bytes]:
        """Run z85-encode or z85-decode."""
        source, result = self._scratch / "in.bytes", self._scratch / "out.bytes"
        source.write_bytes(struct.pack(">i", len(cases)) + b"".join(struct.pack(">i", len(c)) + c for c in cases))
        self.run(command, source, result)
        return self._read_bytes(result)

    def decode(self, kind: str, cases: Sequence[bytes], record_counts: Sequence[int] | None = None) -> list[Read]:
        """Have it decode; `record_counts` go with kind ``iceberg``."""
        source, result = self._scratch / "in.bytes", self._scratch / "out.results"
        with source.open("wb") as out:
            out.write(struct.pack(">i", len(cases)))
            for i, case in enumerate(cases):
                if record_counts is not None:
                    out.write(struct.pack(">q", record_counts[i]))
                out.write(struct.pack(">i", len(case)) + case)
        self.run("decode", *filter(None, [kind]), source, result)
        data = result.read_bytes()
        return [self._read_result(data, at) for at in self._result_offsets(data)]

    @staticmethod
    def _read_bytes(path: Path) -> list[bytes]:
        data = path.read_bytes()
        (count,) = struct.unpack_from(">i", data)
        at, found = 4, []
        for case in range(count):
            (size,) = struct.unpack_from(">i", data, at)
            if size < 0:
                (size,) = struct.unpack_from(">i", data, at + 4)
                raise AssertionError(f"refused case {case}: {data[at + 8 : at + 8 + size].decode()}")
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        return found

    @staticmethod
    def _result_offsets(data: bytes) -> list[int]:
        (count,) = struct.unpack_from(">i", data)
        at, offsets = 4, []
        for _ in range(count):
            offsets.append(at)
            if data[at]:
                (size,) = struct.unpack_from(">i", data, at + 9)
                at += 13 + 8 * max(size, 0)
            else:
                (size,) = struct.unpack_from(">i", data, at + 1)
                at += 5 + size
        return offsets

    @staticmethod
    def _read_result(data: bytes, at: int) -> Read:
        if not data[at]:
            (size,) = struct.unpack_from(">i", data, at + 1)
            return Read(None, error=data[at + 5 : at + 5 + size].decode())
        cardinality, size = struct.unpack_from(">qi", data, at + 1)
        return Read(np.frombuffer(data, ">i8", max(size, 0), at + 13).astype(np.int64), cardinality)


class Java(Program):
    """The program of interop/java: Iceberg, Delta, RoaringBitmap."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(_java(JAVA, "Main"), scratch)


class JavaPaimon(Program):
    """The program of interop/java/paimon, in one of two versions: ``newest`` and ``v0_9``."""

    def __init__(self, version: str, scratch: Path) -> None:
        super().__init__(_java(JAVA / "paimon" / version, "PaimonMain"), scratch)


class PyPaimon(Program):
    """The program of interop/pypaimon, in an environment of its own."""

    def __init__(self, scratch: Path) -> None:
        folder = INTEROP / "pypaimon"
        super().__init__([str(folder / ".venv" / "bin" / "python"), str(folder / "drive.py")], scratch)


def _java(project: Path, main: str) -> list[str]:
    classpath = (project / "target" / "classpath.txt").read_text().strip()
    return ["java", "-Xmx4g", "-cp", f"{project / 'target' / 'classes'}:{classpath}", f"dvcodec.interop.{main}"]
