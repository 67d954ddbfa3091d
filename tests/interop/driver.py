"""Runs the programs of interop/, and speaks their batch files (interop/java/README.md) and JSON lines (interop/go)."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

INTEROP = Path(__file__).parents[2] / "interop"
JAVA = INTEROP / "java"
GO = INTEROP / "go"


def need(present: bool, what: str) -> None:
    """Skip without `what`, or fail where DVCODEC_REQUIRE_INTEROP says that a skip is not a pass."""
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


class GoError(RuntimeError):
    """What a Go program answered instead of a result."""


class GoProgram(Program):
    """A program of interop/go; every call is one process that takes JSON lines."""

    def __init__(self, name: str, scratch: Path) -> None:
        super().__init__([str(GO / "bin" / name)], scratch)

    def answers(self, commands: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """What it answers, also errors, to one command after the other."""
        lines = "".join(json.dumps(command) + "\n" for command in commands)
        done = subprocess.run(self._command, input=lines, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:5000]
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) == len(commands)
        return found

    def ask(self, op: str, **arguments: object) -> dict[str, Any]:
        """One command; arguments that are None are left out.

        Raises:
            GoError: it refused, or Go panicked.
        """
        given = {name: str(a) if isinstance(a, Path) else a for name, a in arguments.items() if a is not None}
        (answer,) = self.answers([{"op": op} | given])
        if "error" in answer:
            raise GoError(answer["error"])
        return answer

    def versions(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("versions")["modules"]
        return found


class Go(GoProgram):
    """zapx in one of its versions: ``11`` to ``17``, ``11_first`` to ``17_first``, ``17_1`` and ``17_1_2``."""

    def __init__(self, version: int | str, scratch: Path) -> None:
        super().__init__(f"zap{version}", scratch)

    def write(self, documents: Sequence[dict[str, Any]], out: Path, *, chunk_mode: int | None = None) -> Path:
        """Write a segment of documents (see interop/go/README.md)."""
        source = self._scratch / "docs.json"
        source.write_text(json.dumps(documents))
        self.ask("write", docs=source, out=out, chunk_mode=chunk_mode)
        return out

    def merge(
        self, inputs: Sequence[tuple[Path, Sequence[int] | None]], out: Path, *, chunk_mode: int | None = None
    ) -> list[list[int | None]]:
        """Merge segments, each without the given documents; returns the new numbers by segment and old number."""
        given = [{"path": str(path), "drops": None if drops is None else list(drops)} for path, drops in inputs]
        numbers: list[list[int | None]] = self.ask("merge", inputs=given, out=out, chunk_mode=chunk_mode)["numbers"]
        return numbers

    def dump(self, path: Path, *, true_counts: bool = False) -> dict[str, Any]:
        """All that Go's reader sees; with `true_counts`, those of the postings instead of the dictionary's."""
        result = self._scratch / "dump.json"
        self.ask("dump", path=path, out=result, true_counts=true_counts)
        found: dict[str, Any] = json.loads(result.read_bytes())
        return found


class GoVellum(GoProgram):
    """vellum on its own."""

    def __init__(self, scratch: Path) -> None:
        super().__init__("vellum", scratch)

    def write(self, pairs: Iterable[tuple[bytes, int]]) -> bytes:
        source, result = self._scratch / "pairs", self._scratch / "fst"
        source.write_text("".join(json.dumps([to_text(key), value]) + "\n" for key, value in pairs))
        self.ask("vellum", pairs=source, out=result)
        return result.read_bytes()

    def read(self, data: bytes, *, limit: int | None = None) -> list[tuple[bytes, int]]:
        source, result = self._scratch / "fst", self._scratch / "pairs"
        source.write_bytes(data)
        self.ask("vellum-read", path=source, out=result, limit=limit)
        return [(from_text(key), value) for key, value in map(json.loads, result.read_bytes().splitlines())]


class GoBleve(GoProgram):
    """bleve, for indexes of one segment."""

    def __init__(self, scratch: Path) -> None:
        super().__init__("bleve", scratch)

    def index(self, documents: dict[str, dict[str, Any]], path: Path, *, version: int) -> Path:
        """Make an index of documents by id; returns its segment, in which they are in random order."""
        answer = self.ask("index", docs=self._source(documents), path=path, version=version)
        (segment,) = answer["segments"]
        return Path(segment)

    def analyse(self, documents: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """The documents as bleve hands them to a segment, in the form that `Go.write` takes."""
        result = self._scratch / "analysed.json"
        self.ask("analyse", docs=self._source(documents), out=result)
        found: list[dict[str, Any]] = json.loads(result.read_bytes())
        return found

    def search(self, path: Path, query: dict[str, Any], **request: object) -> dict[str, Any]:
        """Run a query in bleve's JSON, with what else a search request of bleve can have."""
        return self.ask("search", path=path, query=query, **request)

    def _source(self, documents: dict[str, dict[str, Any]]) -> Path:
        source = self._scratch / "documents.json"
        source.write_text(json.dumps([{"id": name, "doc": document} for name, document in documents.items()]))
        return source


def to_text(data: bytes) -> str | dict[str, str]:
    """Bytes as a value in the JSON of interop/go."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def from_text(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["b64"])


def from_key(key: str) -> bytes:
    """The bytes that an object key in the JSON of interop/go stands for."""
    return base64.b64decode(key[4:]) if key.startswith("b64:") else key.encode()


def _java(project: Path, main: str) -> list[str]:
    classpath = (project / "target" / "classpath.txt").read_text().strip()
    return ["java", "-Xmx4g", "-cp", f"{project / 'target' / 'classes'}:{classpath}", f"dvcodec.interop.{main}"]
