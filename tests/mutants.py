"""Changes the code a little and runs its tests: ``python tests/mutants.py ROOM... [--count N] [--seed S]``.

A mutant differs from ``src`` in one place: a comparison at its border, an operator, a number, ``any`` and ``all``, a
byte order, a check that is gone. The tests of its room run once under coverage (group ``coverage``), which says what
lines each of them reaches; a mutant is tried with the tests that reach it, the quickest first. One that they do not
notice is printed; whether it makes a difference is for a reader to say. Those that make none are in
``mutants_equivalent.txt``: the line as the mutant has it, and why. Not part of the gate.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import coverage
import pytest

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src"
EQUIVALENT = TESTS / "mutants_equivalent.txt"
OF_IO = (
    "allowed_locations", "blocks", "coalesce", "file_key", "find", "frames", "io", "parquet_columns",
    "orc", "outside", "parquet_damage", "remote", "storage", "stores", "workers",
)  # fmt: skip
OF_LIMITS = ("history",)
OF_ROWS = ("bounds", "columns", "data_file", "engines", "footer_bounds", "live_rows")
OF_SNAPSHOTS = ("audit", "contradictions", "counts", "engines", "history", "live", "live_rows", "scan")
OF_AUDITS = ("audit", "contradictions", "engines", "footer_bounds")
SLOW = ("--ignore-glob=*/test_races.py", "--ignore-glob=*/test_random_deletes.py")
OF_STORES = ("answers", "environment", "errors", "opening", "stale", "store")
FORMATS = ("delta", "iceberg", "lance", "paimon", "scorch")
ROOMS = {
    "core": ("core", "tests/core"),
    "batch": ("core/batch.py", "tests/core"),
    "delta": ("delta.py", "tests/delta", "tests/test_doors.py"),
    "iceberg": ("iceberg.py", "tests/iceberg", "tests/test_doors.py"),
    "paimon": ("paimon.py", "tests/paimon", "tests/test_doors.py"),
    "puffin": ("puffin.py", "tests/puffin"),
    "lance": ("lance", "tests/lance"),
    "zap": ("zap", "tests/zap"),
    "ops": ("ops", "tests/ops"),
    "deleting": ("tables/deleting", "tests/tables/deleting", *SLOW),
    "rows": ("tables/rows", *(f"tests/tables/test_{x}.py" for x in OF_ROWS), "tests/tables/deleting/test_types.py"),
    "snapshots": ("tables/snapshots", *(f"tests/tables/test_{x}.py" for x in OF_SNAPSHOTS)),
    "auditing": ("tables/auditing.py", *(f"tests/tables/test_{x}.py" for x in OF_AUDITS)),
    "convert": ("tables/convert.py", "tests/tables/test_convert.py"),
    "repair": ("tables/repair.py", "tests/tables/test_repair.py"),
    "tables": ("tables", "tests/tables", *SLOW),
    **{f"tables/{one}": (f"tables/{one}", f"tests/tables/{one}") for one in FORMATS},
    "limits": ("tables", "tests/limits", *(f"tests/tables/test_{x}.py" for x in OF_LIMITS)),
    "io": ("io", *(f"tests/test_{x}.py" for x in OF_IO), *(f"tests/lake/test_{x}.py" for x in OF_STORES)),
    "report": ("report", "tests/report", "--ignore-glob=*/test_browser.py"),
    "cli": ("cli", "tests/cli"),
    "arrow": ("arrow.py", "tests/test_arrow.py"),
}
"""Room -> its folder or module in ``src/dvcodec``, arguments for pytest. Spark has none: its tests want an engine.
``limits`` is for bounds and histories of tables."""
PYTEST = ("pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
PHASE = re.compile(r" \((setup|call|teardown)\)$")
TIMEOUT_S = 300
OF_SPARK = "cli/spark_demo.py"
CONFIGURATION = """[run]
parallel = true
patch = subprocess
source_pkgs = dvcodec
context = ${PYTEST_CURRENT_TEST-}
data_file = {data}
"""
"""Of coverage. A process that a test starts says by pytest's variable whose it is."""
SECONDS: dict[str, float] = {}
"""Test -> how long it took, where this is a plugin of pytest."""
OPERATORS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*",
    ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "|", ast.And: "or", ast.Or: "and",
    ast.Mod: "//",
}  # fmt: skip
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}
ORDERS = {"big": "little", "little": "big"}


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        path: of the module, below ``src``.
        line: number of the line.
        before: the line as it is.
        after: the line with the change.
        text: the whole module with it.
        lines: first and last of its statement, or of what is before the block of one; none outside functions.
    """

    path: str
    line: int
    before: str
    after: str
    text: str
    lines: tuple[int, int] | None


def mutants(path: Path) -> Iterator[Mutant]:
    """All changes of a module that this script knows."""
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(row: int, column: int) -> int:
        return starts[row - 1] + len(lines[row - 1].encode()[:column].decode())

    def change(start: int, stop: int, new: str) -> Mutant:
        changed = text[:start] + new + text[stop:]
        row = text.count("\n", 0, start)
        return Mutant(
            str(path.relative_to(SOURCE)),
            row + 1,
            lines[row].strip(),
            changed.splitlines()[row].strip(),
            changed,
            statements.get(row + 1),
        )

    def between(left: ast.expr, right: ast.expr, new: str) -> Mutant | None:
        start, stop = at(left.end_lineno or 0, left.end_col_offset or 0), at(right.lineno, right.col_offset)
        gap = text[start:stop]
        operator = gap.strip(" \n()")
        if "#" in gap or not operator:
            return None
        where = start + gap.index(operator)
        return change(where, where + len(operator), new)

    tree = ast.parse(text)
    types, statements = _annotations(tree), _statements(tree)
    for node in ast.walk(tree):
        found: Mutant | None = None
        if node in types:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
            found = between(node.left, node.comparators[0], OPERATORS[type(node.ops[0])])
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            found = between(node.left, node.right, OPERATORS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            found = between(node.values[0], node.values[1], OPERATORS[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found = change(at(node.lineno, node.col_offset), at(node.operand.lineno, node.operand.col_offset), "")
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            start = at(node.lineno, node.col_offset)
            found = change(start, at(node.end_lineno or 0, node.end_col_offset or 0), str(node.value + 1))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in ORDERS:
            start = at(node.lineno, node.col_offset)
            found = change(start, at(node.end_lineno or 0, node.end_col_offset or 0), f'"{ORDERS[node.value]}"')
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
            start = at(node.lineno, node.col_offset)
            found = change(start, start + len(node.func.id), NAMES[node.func.id])
        elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise) and not node.orelse:
            start = at(node.test.lineno, node.test.col_offset)
            found = change(start, at(node.test.end_lineno or 0, node.test.end_col_offset or 0), "False")
        if found is not None and _compiles(found.text):
            yield found


def _annotations(tree: ast.AST) -> set[ast.AST]:
    """What is in annotations, which do nothing."""
    found = (getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns"))
    return {inner for one in found if isinstance(one, ast.AST) for inner in ast.walk(one)}


def _statements(tree: ast.AST) -> dict[int, tuple[int, int]]:
    """Line in a function -> first and last line of its statement, without the block of one that has a block."""
    found: dict[int, tuple[int, int]] = {}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for function in functions:
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.stmt):
                block = getattr(node, "body", None)
                stop = block[0].lineno - 1 if block else node.end_lineno or 0
                span = node.lineno, max(node.lineno, stop)
                found.update((line, span) for line in range(span[0], span[1] + 1))
    return found


def _compiles(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def modules(place: Path) -> list[Path]:
    """Those below a place; the demo of Spark wants an engine, as Spark does."""
    every = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert every, f"no modules in {place}"
    return [path for path in every if path != SOURCE / "dvcodec" / OF_SPARK]


def chosen(rooms: list[str], count: int, seed: int, only: str = "") -> list[tuple[str, Mutant]]:
    """So many mutants of these rooms, by chance; of modules with this in their path."""
    every = [
        (room, mutant)
        for room in rooms
        for path in modules(SOURCE / "dvcodec" / ROOMS[room][0])
        if only in path.as_posix()
        for mutant in mutants(path)
    ]
    return random.Random(seed).sample(every, min(count, len(every)))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What runs from here on belongs to this test."""
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    yield


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    SECONDS[report.nodeid] = SECONDS.get(report.nodeid, 0.0) + report.duration + (math.inf if report.failed else 0.0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leaves the seconds of every test that passed."""
    passed = {test: seconds for test, seconds in SECONDS.items() if seconds < math.inf}
    Path(os.environ["SECONDS_OF_TESTS"]).write_text(json.dumps(passed))


@dataclass(frozen=True)
class Reach:
    """What tests of a room reach what lines.

    Attributes:
        seconds: of every test that passes without a change.
        data: contexts of lines, as coverage keeps them.
    """

    seconds: dict[str, float]
    data: coverage.CoverageData

    @classmethod
    def of(cls, room: str, folder: Path) -> Reach:
        """From this folder; the tests run where it has none of this room yet."""
        name = room.replace("/", "-")
        seconds, data = folder / f"{name}.json", folder / f"{name}.coverage"
        if not seconds.exists():
            folder.mkdir(parents=True, exist_ok=True)
            configuration = folder / f"{name}.cfg"
            configuration.write_text(CONFIGURATION.replace("{data}", str(data)))
            command = [sys.executable, "-m", "coverage", "run", f"--rcfile={configuration}", "-m", *PYTEST]
            path = os.pathsep.join([str(SOURCE), str(TESTS)])
            environment = {**os.environ, "PYTHONPATH": path, "SECONDS_OF_TESTS": str(seconds)}
            command += ["-p", "mutants", *ROOMS[room][1:]]
            subprocess.run(command, env=environment, cwd=TESTS.parent, check=False)
            together = coverage.Coverage(str(data), config_file=str(configuration))
            together.combine()
            together.save()
        read = coverage.CoverageData(str(data))
        read.read()
        return cls(json.loads(seconds.read_text()), read)

    def tests(self, mutant: Mutant, limit: float) -> list[str]:
        """Those that reach a mutant, the quickest first, and no more than take so many seconds."""
        contexts = self.data.contexts_by_lineno(str(SOURCE / mutant.path))
        lines = range(mutant.lines[0], mutant.lines[1] + 1) if mutant.lines is not None else list(contexts)
        names = {PHASE.sub("", context) for line in lines for context in contexts.get(line, ())}
        tests = sorted(names & self.seconds.keys(), key=self.seconds.__getitem__)
        together = accumulate(self.seconds[test] for test in tests)
        return [test for test, seconds in zip(tests, together, strict=True) if seconds <= limit]


def survives(mutant: Mutant, tests: list[str], folder: Path) -> bool:
    """Whether these tests pass with the change."""
    if not tests:
        return True
    place = folder / mutant.path
    original = place.read_text()
    place.write_text(mutant.text)
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", *PYTEST, "-x", *tests]
    try:
        done = subprocess.run(
            command, env=environment, cwd=TESTS.parent, capture_output=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        place.write_text(original)
    return done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Change the code a little and run its tests.")
    parser.add_argument("rooms", nargs="+", choices=sorted(ROOMS))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="what the path of a module has in it, as in io/store/")
    parser.add_argument("--seconds", type=float, default=60, help="for the tests of one mutant: the quickest that fit")
    parser.add_argument("--reach", type=Path, help="folder that keeps what tests reach what lines")
    parser.add_argument("--record", type=Path, help="file of results to add to; those in it are not run again")
    given = parser.parse_args(arguments)
    same = {line.partition("  # ")[0] for line in EQUIVALENT.read_text().splitlines()}
    known: dict[str, str] = (
        json.loads(given.record.read_text()) if given.record is not None and given.record.exists() else {}
    )
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        folder = Path(temporary) / "src"
        shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        reach = {room: Reach.of(room, given.reach or Path(temporary)) for room in given.rooms}
        for room, mutant in chosen(given.rooms, given.count, given.seed, given.only):
            name = f"{mutant.path}:{mutant.line}: {mutant.before}  ->  {mutant.after}"
            if name not in known:
                is_same = mutant.after.partition("  # ")[0] in same
                lives = not is_same and survives(mutant, reach[room].tests(mutant, given.seconds), folder)
                known[name] = "same" if is_same else "survived" if lives else "killed"
            print(f"{known[name]:9} {name}", flush=True)
            if given.record is not None:
                given.record.write_text(json.dumps(known, indent=1) + "\n")
    results = list(known.values())
    killed, survived = results.count("killed"), results.count("survived")
    share = killed / max(killed + survived, 1)
    print(f"{killed} of {killed + survived} killed ({share:.0%}), {results.count('same')} the same")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
