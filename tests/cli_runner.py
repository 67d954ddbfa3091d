"""Runs the command line: in this process, in a process of its own, or in a terminal of a given width."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dvcodec import RowSet, delta, iceberg
from dvcodec.cli import main

HANG_S = 600
"""A command that takes longer hangs, however busy the machine is."""
PROGRAM = [sys.executable, "-c", "from dvcodec.cli import main; main()"]
ZAP_COMMANDS = ("footer", "fields", "search", "terms", "postings", "stored", "docvalues", "merge", "compact", "repair")
A, B = "s3://lake/t/a.parquet", "s3://lake/t/b.parquet"
VECTORS = {A: RowSet([0, 1, 2, 7]), B: RowSet([42])}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


SCHEMA: dict[str, Any] = json.loads((Path(__file__).parents[1] / "docs" / "json.schema.json").read_text())


def differences(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield where a value differs from a schema; members that the schema does not list differ too."""
    if "$ref" in schema:
        yield from differences(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], path)
    elif "anyOf" in schema:
        found = [list(differences(value, one, path)) for one in schema["anyOf"]]
        yield from min(found, key=len)
    elif schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_is_of[kind](value) for kind in kinds):
            yield f"{path}: {value!r:.80} is not of type {' or '.join(kinds)}"
        elif isinstance(value, list):
            for number, item in enumerate(value):
                yield from differences(item, schema["items"], f"{path}[{number}]")
        elif isinstance(value, dict):
            members = schema.get("properties", {})
            yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
            for name, item in value.items():
                if name not in members and "additionalProperties" not in schema:
                    yield f"{path}.{name} is not in the schema"
                inner = members.get(name, schema.get("additionalProperties", {}))
                yield from differences(item, inner, f"{path}.{name}")


_is_of: dict[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


@dataclass(frozen=True)
class Result:
    """What a command did."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def json(self) -> Any:
        """What the command found; the output is as docs/json.schema.json describes it."""
        found = json.loads(self.out)
        assert found["dvcodec"]["schema"] == SCHEMA["properties"]["dvcodec"]["properties"]["schema"]["const"]
        name = found["dvcodec"]["command"].replace(" ", "-")
        assert not list(differences(found["result"], SCHEMA["$defs"][name], name))
        return found["result"]

    @property
    def complaint(self) -> str:
        """The one line on standard error."""
        assert self.err.startswith("dvcodec: "), self.err
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n"), self.err
        return self.err.removeprefix("dvcodec: ").rstrip("\n")


def run(*arguments: str | Path, stdin: bytes = b"") -> Result:
    """Run a command in this process, its output piped."""
    out, err = BytesIO(), BytesIO()
    stdout, stderr = (TextIOWrapper(file, "utf-8", newline="\n") for file in (out, err))
    code: object = 0
    with (
        patch.object(sys, "argv", ["dvcodec", *map(str, arguments)]),
        patch.object(sys, "stdin", TextIOWrapper(BytesIO(stdin))),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
    stdout.flush()
    stderr.flush()
    assert isinstance(code, int)
    return Result(code, out.getvalue(), err.getvalue().decode())


def spawn(
    *arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Result:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=HANG_S,
    )
    return Result(done.returncode, done.stdout, done.stderr.decode())


def in_terminal(*arguments: str | Path, columns: int, colour: bool = False, to: Path | None = None) -> tuple[int, str]:
    """Run a command in a terminal of that width; with `to`, its standard output goes to that file instead.

    Returns:
        Exit code, and what the terminal showed (with escape sequences if `colour`).
    """
    import fcntl
    import pty
    import struct
    import termios

    main_end, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env = {**kept, "TERM": "xterm-256color"} | ({} if colour else {"NO_COLOR": "1"})
    stdout: Any = end if to is None else os.open(to, os.O_WRONLY | os.O_CREAT)
    command = [*PROGRAM, *map(str, arguments)]
    with subprocess.Popen(command, stdin=end, stdout=stdout, stderr=end, env=env, close_fds=True) as process:
        os.close(end)
        if to is not None:
            os.close(stdout)
        shown = bytearray()
        while True:
            try:
                data = os.read(main_end, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        code = process.wait(timeout=HANG_S)
    os.close(main_end)
    text = shown.decode().replace("\r\n", "\n")
    return code, text if colour else ESCAPES.sub("", text)


def puffin_file(path: Path, vectors: Mapping[str, RowSet] = VECTORS) -> Path:
    """Write a Puffin file, with the vectors in the order given."""
    iceberg.write_deletion_vectors(path, vectors, created_by="tests", order="given")
    return path


def delta_file(path: Path, vectors: Mapping[str, RowSet] = VECTORS) -> Path:
    """Write a Delta vector file: the same frames, at bytes 1 and 1 + the first one's size, without names."""
    delta.write_deletion_vectors(path, vectors)
    return path


def flipped(path: Path, offset: int, bit: int = 0, *, to: Path) -> Path:
    """Copy a file with one bit flipped."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    to.write_bytes(data)
    return to
