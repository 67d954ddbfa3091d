"""Committed deletes against the peers: keys against copy-on-write, a predicate against Spark. `make bench-deletes`.

    python bench/deletes.py [keys] [one] [predicate] [spark] [--rounds 5] [--rows N] [--files N] [--save FILE]

``keys``: 10,000 random keys of 1 M rows in 5 files of 13 columns. ``one``: one of 1 M rows in 10,000 files.
``predicate``: 1 M and 0.2 M of 20 M rows in 10 files, against Spark's own DELETE on a warm session, which writes
deletion vectors too, and position deletes in version 2 of Iceberg. ``spark``: 1 % and 20 % with `jobs.delete` and SQL,
in its own warm session without connectors. The rows are synthetic shop orders.

Each contender runs in its own process, so that its peak memory is known, and has one run that is not timed. Rounds
alternate, every run has a fresh copy of the table, and the deleted rows are checked. The time covers what a caller
waits for, from the table's name to the commit; keys are in memory beforehand, in the form that each library takes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from deletes_work import CUSTOMERS, KEYS, PREDICATE_CUSTOMERS, SPARK_CUSTOMERS, make_iceberg, orders
from harness import Comparison, Figure, Peer, measure
from report import line
from runs import add, load

MILLION = 1_000_000
INTEROP = Path(__file__).parents[1] / "interop"
SPARK = INTEROP / "spark" / ".venv-4.1" / "bin" / "python"
PYPAIMON = INTEROP / "pypaimon" / ".venv" / "bin" / "python"
HERE = Path(__file__).parent
KEYS_AT_LEAST, PREDICATE_AT_LEAST, SPARK_AT_LEAST = 20.0, 3.0, 1.0
"""Targets, as multiples of the speed of copy-on-write and of Spark."""


@dataclass
class Contender:
    """A process that deletes, and the table that it deletes from.

    Attributes:
        name: the peer, or dvcodec with a format.
        table: the table before each run.
        live: where each run finds its copy (catalogs record absolute paths).
        rows: number of rows that each run has to delete.
        command: the command that starts the process.
        seconds: of all runs, including the first.
        peak_mb: largest resident size of the process.
        where: Spark's delete condition.
    """

    name: str
    table: Path
    live: Path
    rows: int
    command: list[str]
    seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    where: str = ""

    def start(self, stack: ExitStack) -> None:
        self._process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(self._process.wait)
        assert self._process.stdin is not None
        stack.callback(self._process.stdin.close)

    def share(self, other: Contender) -> None:
        """Work in another process."""
        self._process = other._process

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.name}: ended without an answer")
        found: dict[str, Any] = json.loads(answer)
        return found

    def run(self, times: int) -> float:
        """Number of deletes -> seconds of one."""
        took: list[float] = []
        for _ in range(times):
            fresh(self.table, self.live)
            found = self.ask(delete=str(self.live), where=self.where)
            if found["rows"] != self.rows:
                raise SystemExit(f"{self.name}: {found['rows']:,} rows are gone, expected {self.rows:,}")
            took.append(found["seconds"])
            self.peak_mb = peak_mb(found.get("process", self._process.pid))
        self.seconds += took
        return float(sum(took) / times)


def peak_mb(process: int) -> float:
    """Return the largest resident size of a process, without its parent's memory, which ``ru_maxrss`` includes."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), float("nan"))


def fresh(table: Path, live: Path) -> None:
    """Copy a table; data files are linked, because nobody writes into them."""
    shutil.rmtree(live, ignore_errors=True)

    def copy(source: str, target: str) -> None:
        if source.endswith((".parquet", ".lance")):
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    shutil.copytree(table, live, copy_function=copy)


def keep(live: Path) -> Path:
    """Move a new table to a place where no run changes it; return that place."""
    kept = live.with_name(f"{live.name}.kept")
    live.rename(kept)
    return kept


def worker(name: str, *more: str) -> list[str]:
    return [sys.executable, str(HERE / "deletes_work.py"), name, *more]


def keys_tables(folder: Path, rows: int, files: int) -> Iterator[tuple[str, Path, Path]]:
    """Create the tables of `keys`; yield the name, the table, and where its copies have to be."""
    import deltalake
    import pyarrow as pa
    import pyarrow.parquet as pq

    import lance
    from dvcodec.tables import enable, open_table

    parts = [orders(rows * i // files, rows * (i + 1) // files, rows) for i in range(files)]
    delta = folder / "delta"
    for part in parts:
        deltalake.write_deltalake(str(delta), part, mode="append")
    plain = folder / "delta.plain"
    shutil.copytree(delta, plain)
    yield "delta plain", plain, folder / "delta.copy"
    enable(open_table(delta))
    yield "delta", keep(delta), delta
    for version in (2, 3):
        made = folder / f"iceberg-v{version}"
        made.mkdir()
        make_iceberg(made, parts, version)
        yield made.name, keep(made), made
    dataset = folder / "lance"
    lance.write_dataset(pa.concat_tables(parts), str(dataset), max_rows_per_file=rows // files)
    yield "lance", keep(dataset), dataset
    if not PYPAIMON.exists():
        print("Paimon is left out: interop/pypaimon is not built", flush=True)
        return
    paimon = folder / "paimon"
    (folder / "parts").mkdir()
    for number, part in enumerate(parts):
        pq.write_table(part, folder / "parts" / f"{number}.parquet")
    program = INTEROP / "pypaimon" / "make_table.py"
    subprocess.run([PYPAIMON, program, paimon, *sorted((folder / "parts").iterdir())], check=True)
    yield "paimon", keep(paimon), paimon


def keys(folder: Path, rows: int, files: int, stack: ExitStack) -> Iterator[tuple[Comparison, list[Contender]]]:
    """10,000 keys against copy-on-write."""
    tables = {name: (table, live) for name, table, live in keys_tables(folder, rows, files)}

    def contender(name: str, table: str) -> Contender:
        found = Contender(name, *tables[table], KEYS, worker(name, str(rows)))
        found.start(stack)
        return found

    groups: list[tuple[str, str, str, list[tuple[str, str]]]] = [
        ("Delta", "dvcodec Delta", "delta", [("deltalake delete", "delta plain"), ("deltalake merge", "delta plain")]),
        ("Iceberg v3", "dvcodec Iceberg", "iceberg-v3", [("pyiceberg delete", "iceberg-v2")]),
        ("Iceberg v2", "dvcodec Iceberg", "iceberg-v2", [("pyiceberg delete", "iceberg-v2")]),
        ("Paimon", "dvcodec Paimon", "paimon", []),
        ("Lance", "dvcodec Lance", "lance", [("pylance delete", "lance")]),
    ]
    for row, name, table, peers in groups:
        if table in tables:
            ours = contender(name, table)
            theirs = [contender(*peer) for peer in peers]
            at_least = KEYS_AT_LEAST if row != "Lance" else None
            yield compared(f"delete {KEYS:,} keys, {row}", f"{rows:,} rows, {files} files", ours, theirs, at_least)


def one(folder: Path, rows: int, files: int, stack: ExitStack) -> Iterator[tuple[Comparison, list[Contender]]]:
    """One row against copy-on-write, with ids in order, whose bounds name the file, and in no order."""
    whole = orders(0, rows, rows)
    for order, content in (("in order", whole.sort_by("id")), ("in no order", whole)):
        for version in (2, 3):
            live = folder / f"{order} {version}"
            live.mkdir()
            make_iceberg(live, [content], version, files)
            table = keep(live)
            ours = Contender("dvcodec one", table, live, 1, worker("dvcodec one", str(rows)))
            ours.start(stack)
            theirs = []
            if version == 2:  # which pyiceberg writes
                theirs = [Contender("pyiceberg one", table, live, 1, worker("pyiceberg one", str(rows)))]
                theirs[0].start(stack)
            data = f"{rows:,} rows, {files:,} files, ids {order}"
            yield compared(f"delete one row, Iceberg v{version}", data, ours, theirs, None)


def predicate(folder: Path, rows: int, files: int, stack: ExitStack) -> Iterator[tuple[Comparison, list[Contender]]]:
    """A twentieth and a hundredth of the rows by a predicate, against Spark."""
    asked = {f"dvcodec, {customers} customers": f"customer < {customers}" for customers in PREDICATE_CUSTOMERS}
    yield from against_spark(folder, rows, files, stack, asked, PREDICATE_AT_LEAST, ("delta", "iceberg", "iceberg2"))


def in_spark(folder: Path, rows: int, files: int, stack: ExitStack) -> Iterator[tuple[Comparison, list[Contender]]]:
    """A hundredth and a fifth of the rows in Spark sessions, with data files read by Spark and by Python workers."""
    asked = {
        f"jobs.delete, {customers} customers, {by}": f"customer < {customers}"
        for customers in SPARK_CUSTOMERS
        for by in ("auto", "workers")
    }
    yield from against_spark(folder, rows, files, stack, asked, SPARK_AT_LEAST)


def against_spark(
    folder: Path,
    rows: int,
    files: int,
    stack: ExitStack,
    asked: dict[str, str],
    at_least: float,
    formats: tuple[str, ...] = ("delta", "iceberg"),
) -> Iterator[tuple[Comparison, list[Contender]]]:
    """Compare contenders, by name, and what each deletes, with Spark's own DELETE."""
    if not (SPARK.exists() and shutil.which("java")):
        print("Spark is left out: interop/spark is not built", flush=True)
        return
    spark = Contender(
        "Spark", folder, folder, 0, [str(SPARK), str(INTEROP / "spark" / "bench_deletes.py"), str(folder)]
    )
    spark.start(stack)
    for format_ in formats:
        row = {"delta": "Delta", "iceberg": "Iceberg v3", "iceberg2": "Iceberg v2"}[format_]
        made = spark.ask(make=format_, rows=rows, files=files, customers=CUSTOMERS, where=list(asked.values()))
        live = Path(made["table"])
        table = keep(live)
        for (name, where), matching in zip(asked.items(), made["matching"], strict=True):
            ours = Contender(f"{name}, {row}", table, live, matching, worker(name))
            theirs = Contender(f"Spark's DELETE, {row}", table, live, matching, spark.command, where=where)
            ours.start(stack)
            theirs.share(spark)
            yield compared(f"{name}, {row}", f"{matching:,} of {rows:,} rows", ours, [theirs], at_least)


def compared(
    row: str, data: str, ours: Contender, theirs: list[Contender], at_least: float | None
) -> tuple[Comparison, list[Contender]]:
    peers = tuple(Peer(one.name, one.run, at_least) for one in theirs)
    return Comparison(row, data, ours.rows, "rows", ours.run, peers), [ours, *theirs]


ROWS: dict[str, tuple[Callable[..., Iterator[tuple[Comparison, list[Contender]]]], int, int]] = {
    "keys": (keys, MILLION, 5),
    "one": (one, MILLION, 10_000),
    "predicate": (predicate, 20 * MILLION, 10),
    "spark": (in_spark, 20 * MILLION, 10),
}
"""What is measured, with how many rows in how many files."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ROWS)}; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="rows of the tables")
    parser.add_argument("--files", type=int, help="data files of the tables")
    parser.add_argument("--save", type=Path, help="add the run to this file")
    given = parser.parse_args()
    figures: list[Figure] = []
    busy = load()
    for name in given.names or ROWS:
        row, rows, files = ROWS[name]
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            for comparison, contenders in row(Path(scratch), given.rows or rows, given.files or files, stack):
                for figure in measure(comparison, given.rounds):
                    figures.append(figure)
                    print(line(figure), flush=True)
                for one in contenders:
                    seconds = one.seconds[1:]  # the first warms up
                    print(
                        f"    {one.name:28} min {min(seconds):8.3f} s  median {median(seconds):8.3f} s  "
                        f"peak {one.peak_mb:7.0f} MB"
                    )
    if given.save:
        add(given.save, figures, busy)


if __name__ == "__main__":
    main()
