"""The command conformance: another decoder over a corpus of valid and corrupt files."""

from __future__ import annotations

import json
import queue
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Annotated

import typer

from dvcodec.cli.render import Table, print_json
from dvcodec.cli.targets import Json
from dvcodec.core.errors import UsageError
from dvcodec.core.text import counted, plain

_HOPELESS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A file of a corpus.

    Attributes:
        file: its name in the folder of the corpus.
        format: its format.
        valid: whether it has to be read; otherwise it has to be refused.
        writer: what wrote it.
        count: positions in it; None: only whether it is read counts.
        checksum: of the positions.
        note: what it shows, or what is wrong in it.
    """

    file: str
    format: str
    valid: bool
    writer: str
    count: int | None = None
    checksum: str | None = None
    note: str = ""

    def verdict(self, answer: str) -> str:
        """Return the verdict on an answer: ``ok COUNT CHECKSUM``, ``error ..`` or ``skip``; any other is wrong."""
        word, *values = answer.split()
        if word != "ok":
            return {"skip": "skipped", "error": "refused"}.get(word, "wrong")
        if not self.valid:
            return "accepted"
        return "right" if self.count is None or values == [str(self.count), self.checksum] else "wrong"

    def is_good(self, verdict: str) -> bool:
        """Whether this is what a decoder has to do with it."""
        return verdict == ("right" if self.valid else "refused")


@dataclass(frozen=True, slots=True)
class Result:
    """What a decoder did with a case: the verdict, and its answer in full."""

    case: Case
    verdict: str
    answer: str


def read_corpus(folder: str) -> list[Case]:
    """Read the manifest of a corpus.

    Raises:
        UsageError: there is none, or it is of another version.
        OSError: it cannot be read.
    """
    path = Path(folder, "manifest.json")
    if not path.is_file():
        raise UsageError(f"{folder}: no manifest.json here: expected the folder corpus/ of dvcodec's repository")
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
        if stated["version"] == 1:
            return [Case(**case) for case in stated["cases"]]
    except (ValueError, TypeError, KeyError) as err:
        raise UsageError(f"{path}: not a corpus: {err}") from None
    raise UsageError(f"{path}: expected version 1, found {stated['version']}")


def run_decoder(command: list[str], folder: Path, cases: list[Case], seconds: float) -> Iterator[Result]:
    """Ask a decoder about each case, in order; one that ends or falls silent is started anew after that case."""
    left = list(cases)
    in_a_row = 0
    while left:
        with _started(command, folder, left) as answers:
            for case in list(left):
                try:
                    answer = answers.get(timeout=seconds)
                except queue.Empty:
                    answer, verdict = f"no answer in {seconds:g} seconds", "silent"
                else:
                    verdict = "crashed" if answer is None else case.verdict(answer)
                    answer = answer or "the process ended"
                left.pop(0)
                in_a_row = in_a_row + 1 if verdict in ("crashed", "silent") else 0
                if in_a_row == _HOPELESS:
                    raise UsageError(f"{command[0]} ends or is silent at {_HOPELESS} files in a row: {answer}")
                yield Result(case, verdict, answer)
                if verdict in ("crashed", "silent"):
                    break


@contextmanager
def _started(command: list[str], folder: Path, cases: list[Case]) -> Iterator[queue.Queue[str | None]]:
    """Start a process that is given all questions; yield a queue of its answers, which ends with None."""
    try:
        process = subprocess.Popen(  # noqa: S603  (the user's own command)
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
        )
    except OSError as err:
        raise UsageError(f"{command[0]}: cannot be started: {err.strerror}") from None
    questions = "".join(f"{case.format}\t{(folder / case.file).resolve()}\n" for case in cases)
    answers: queue.Queue[str | None] = queue.Queue()

    def ask(pipe: IO[str]) -> None:
        with suppress(OSError), pipe:  # it may have ended
            pipe.write(questions)

    def listen(pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                if line.strip():
                    answers.put(line.strip())
        answers.put(None)

    works = ((ask, process.stdin), (listen, process.stdout))
    threads = [threading.Thread(target=work, args=(pipe,), daemon=True) for work, pipe in works]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        process.kill()
        process.wait()
        for thread in threads:
            thread.join()


def conformance(
    command: Annotated[
        str,
        typer.Argument(
            metavar="CMD",
            help="A decoder: for each line of FORMAT, a tab and PATH it prints 'ok COUNT CHECKSUM', 'error WHY' "
            "or 'skip'.",
        ),
    ],
    corpus: Annotated[str, typer.Option("--corpus", help="Folder of the corpus.")] = "corpus",
    formats: Annotated[list[str] | None, typer.Option("--format", help="Only this format; repeat for several.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")] = 60,
    every: Annotated[bool, typer.Option("--all", help="Show the files that were treated rightly too.")] = False,
    as_json: Json = False,
) -> None:
    """Run a decoder over valid and corrupt files; show what it reads wrongly, refuses or accepts.

    Exit code 1 if there is such a file. The checksum is the CRC-32 of the positions, ascending, as little-endian 64-bit
    integers, in 8 hexadecimal digits. Answers come in the order of the questions; all questions are asked at once.
    """
    cases = read_corpus(corpus)
    unknown = sorted(set(formats or ()) - {case.format for case in cases})
    if unknown:
        raise UsageError(f"--format {unknown[0]}: not one of {', '.join(dict.fromkeys(case.format for case in cases))}")
    cases = [case for case in cases if not formats or case.format in formats]
    words = shlex.split(command)
    if not words:
        raise UsageError("expected a command, found an empty one")
    results = list(run_decoder(words, Path(corpus), cases, timeout))
    bad = [one for one in results if one.verdict != "skipped" and not one.case.is_good(one.verdict)]
    if as_json:
        print_json([asdict(one.case) | {"verdict": one.verdict, "answer": one.answer} for one in results])
    else:
        _show(results, results if every else bad)
    raise typer.Exit(1 if bad else 0)


def _show(results: list[Result], listed: list[Result]) -> None:
    for one in listed:
        print(f"{one.verdict:8}  {one.case.file}: {plain(one.answer)}")
    shown = Table("format", *COLUMNS, right=tuple(COLUMNS))
    for name in dict.fromkeys(one.case.format for one in results if one.verdict != "skipped"):
        shown.add(name, *counts([one for one in results if one.case.format == name]))
    shown.show()
    skipped = sum(one.verdict == "skipped" for one in results)
    print(f"{counted(len(results) - skipped, 'file')}, {skipped} skipped")


COLUMNS: dict[str, tuple[set[str], set[bool]]] = {
    "valid: right": ({"right"}, {True}),
    "wrong rows": ({"wrong"}, {True}),
    "refused": ({"refused"}, {True}),
    "corrupt: refused": ({"refused"}, {False}),
    "accepted": ({"accepted"}, {False}),
    "crashed": ({"crashed", "silent"}, {True, False}),
    "skipped": ({"skipped"}, {True, False}),
}
"""Columns of the table: which verdicts each counts, and of which files, the valid or the corrupt ones."""


def counts(results: list[Result]) -> list[str]:
    """Return the numbers of one line of the table."""
    return [
        str(sum(one.verdict in verdicts and one.case.valid in valid for one in results))
        for verdicts, valid in COLUMNS.values()
    ]
