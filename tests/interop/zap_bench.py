"""Has zapx make the segments that dvcodec made, and holds the two against each other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dvcodec import RowSet
from dvcodec.core.report import Status
from dvcodec.zap import Document, Segment, merge_segments, verify_segment, write_segment
from interop.driver import Go
from interop.zap_cases import Json
from samples.zap.golden import dump

CHANCE_FROM = 16
"""From this version on Go writes some parts in random order."""
_VERIFIED = 8
"""Every so many segments are verified too."""
Numbers = list[NDArray[np.int64]]


@dataclass(frozen=True)
class Input:
    """What a merge is made of: a segment of so many documents, and those to drop."""

    path: Path
    count: int
    drops: tuple[int, ...] | None = None

    @property
    def kept(self) -> int:
        return self.count - len(self.drops or ())


@dataclass(frozen=True)
class Pair:
    """A segment by dvcodec, the command that has Go make the same, and the new numbers if it is a merge."""

    name: str
    ours: Path
    theirs: Path
    command: Json
    numbers: Numbers | None = None


class Bench:
    """Makes segments in a folder, with dvcodec at once, with Go at the end.

    Args:
        version: of all segments.
        folder: for all files.
        program: makes and reads them.
        readers: more programs that have to read what dvcodec made.
    """

    def __init__(self, version: int, folder: Path, program: Go, *readers: Go) -> None:
        self.version, self.folder, self.program, self.readers = version, folder, program, readers
        self.pairs: list[Pair] = []

    def write(self, name: str, given: Sequence[Json], made: Sequence[Document], chunk_mode: int | None = None) -> Pair:
        """Write documents; `made` are those `given`."""
        source = self.folder / f"{name}.docs"
        source.write_text(json.dumps(given))
        write_segment(self._ours(name), made, self.version, chunk_mode=chunk_mode)
        return self._add(name, {"op": "write", "docs": str(source)}, chunk_mode)

    def merge(self, name: str, inputs: Sequence[Input], chunk_mode: int | None = None) -> Pair:
        """Merge segments."""
        numbers = merged(inputs, self._ours(name), self.version, chunk_mode)
        paths = [{"path": str(one.path), "drops": one.drops} for one in inputs]
        return self._add(name, {"op": "merge", "inputs": paths}, chunk_mode, numbers)

    def _ours(self, name: str) -> Path:
        return self.folder / f"{name}.ours"

    def _add(self, name: str, command: Json, chunk_mode: int | None, numbers: Numbers | None = None) -> Pair:
        theirs = self.folder / f"{name}.theirs"
        mode = {} if chunk_mode is None else {"chunk_mode": chunk_mode}
        pair = Pair(name, self._ours(name), theirs, command | mode | {"out": str(theirs)}, numbers)
        self.pairs.append(pair)
        return pair

    def compare(self) -> dict[str, list[str]]:
        """Return what differs, by name, of what was made since the last time."""
        pairs, self.pairs = self.pairs, []
        commands = [[pair.command, dump_command(pair.ours), dump_command(pair.theirs)] for pair in pairs]
        answers = iter(self.program.answers([command for row in commands for command in row]))
        found: dict[str, list[str]] = {}
        for number, (pair, row) in enumerate(zip(pairs, commands, strict=True)):
            found[pair.name] = list(self._problems(pair, [next(answers) for _ in row]))
            if number % _VERIFIED == 0:
                found[pair.name] += findings(pair.ours)
        for reader in self.readers:
            again = reader.answers([dump_command(pair.ours, ".again") for pair in pairs])
            for pair, answer in zip(pairs, again, strict=True):
                if "error" in answer:
                    found[pair.name].append(f"another reader: {answer['error']}")
                elif dumped(pair.ours, ".again") != dumped(pair.ours):
                    found[pair.name].append("another reader reads something else")
        return {name: problems for name, problems in found.items() if problems}

    def _problems(self, pair: Pair, answers: list[Json]) -> Iterator[str]:
        if errors := [answer["error"] for answer in answers if "error" in answer]:
            yield f"Go: {errors}"
            return
        if pair.numbers is not None and answers[0]["numbers"] != as_go_has(pair.numbers):
            yield "other numbers"
        same = pair.ours.read_bytes() == pair.theirs.read_bytes()
        if self.version < CHANCE_FROM and not same:
            yield "other bytes"
        if dumped(pair.ours) != dumped(pair.theirs):
            yield "Go reads something else of ours"
        expected = json.loads(dumped(pair.theirs))
        for path in (pair.theirs,) if same else (pair.ours, pair.theirs):
            with Segment.open(path) as segment:
                if dump(segment) != expected:
                    yield f"dvcodec reads something else of {path.name}"


def merged(inputs: Sequence[Input], out: Path, version: int, chunk_mode: int | None = None) -> Numbers:
    """Merge with dvcodec."""
    with ExitStack() as stack:
        segments = [stack.enter_context(Segment.open(one.path)) for one in inputs]
        drops = [None if one.drops is None else RowSet(one.drops) for one in inputs]
        return merge_segments(out, segments, drops, version, chunk_mode=chunk_mode)


def as_go_has(numbers: Numbers) -> list[list[int | None]]:
    """New document numbers as Go returns them: none at all if no document is left."""
    found = [[None if new < 0 else new for new in one.tolist()] for one in numbers]
    return found if any(new is not None for one in found for new in one) else []


def dump_command(path: Path, suffix: str = ".json") -> Json:
    return {"op": "dump", "path": str(path), "out": f"{path}{suffix}", "true_counts": True}


def dumped(path: Path, suffix: str = ".json") -> bytes:
    return Path(f"{path}{suffix}").read_bytes()


def findings(path: Path) -> list[str]:
    """What `verify_segment` finds."""
    return [f"{check.name} of {check.subject}" for check in verify_segment(path).checks if check.status is Status.FAIL]
