"""The tables that interop/spark makes with the released connectors, once for all tests of a run."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import amounts
from interop.driver import INTEROP, need
from interop.truth import MadeTable, read_truth

HERE = INTEROP / "spark"
ENGINES = {"iceberg": ".venv-4.1", "delta": ".venv-4.1", "paimon-library": ".venv-4.1", "paimon": ".venv-3.5"}
"""Engine -> the environment whose Spark it runs in. Two run at a time: most of what they do is wait."""
LEFT_OUT = {
    "paimon-library-plain32", "paimon-library-parts64", "paimon-library-large32", "paimon-library-keyed64",
    "paimon-library-changed64", "paimon-library-merged32", "delta-plain", "delta-compacted", "iceberg-plain",
    "iceberg-compacted", "paimon-parts", "paimon-large", "iceberg-large", "delta-large", "paimon-library-large64",
    "iceberg-hidden", "delta-vacuumed", "paimon-library-keyed32",
}  # fmt: skip
"""What a gate leaves out, for want of time: others are like them, and tests/vectors/tables has some."""


def _chosen(engine: str, *names: str) -> list[tuple[str, str]]:
    return [(engine, name) for name in names if amounts.long or f"{engine}-{name}" not in LEFT_OUT]


def _wide_and_narrow(*names: str) -> list[str]:
    return [f"{name}{bits}" for name in names for bits in (32, 64)]


PLAIN_TABLES = [
    *(key for engine in ("iceberg", "delta", "paimon") for key in _chosen(engine, "plain", "parts", "large")),
    *_chosen("paimon", "keyed"),
    *_chosen("paimon-library", *_wide_and_narrow("plain", "parts", "large", "keyed")),
]
"""Tables of five columns that never change."""
CHANGED_TABLES = [
    *_chosen("iceberg", "evolved", "hidden", "compacted", "expired", "upgraded"),
    *_chosen("delta", "named", "checkpointed", "compacted", "vacuumed", "cloned"),
    *_chosen("paimon", "changed", "merged"),
    *_chosen("paimon-library", *_wide_and_narrow("changed", "merged")),
]
"""Tables whose schema, layout or history changes."""
TABLES = PLAIN_TABLES + CHANGED_TABLES

Key = tuple[str, str]
"""Engine and name."""


def make_tables(folder: Path) -> dict[Key, MadeTable]:
    """Make all tables anew, with all engines."""
    need(shutil.which("java") is not None, "java")
    need((HERE / "target" / ".built").is_file(), "the jars of interop/spark")
    for environment in ENGINES.values():
        need((HERE / environment / ".installed").is_file(), f"interop/spark/{environment}")
    # What the tests' own Spark has set here is not for others.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}

    def make(engine: str) -> subprocess.CompletedProcess[str]:
        names = ",".join(name for its, name in TABLES if its == engine)
        program = [str(HERE / ENGINES[engine] / "bin" / "python"), str(HERE / "make_tables.py")]
        command = [*program, str(folder), engine, "--only", names]
        return subprocess.run(
            command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )

    with ThreadPoolExecutor(2) as pool:
        for made in pool.map(make, ENGINES):
            assert made.returncode == 0, made.stdout[-5000:]
    return read_tables(folder, list(ENGINES))


def read_tables(folder: Path, engines: list[str]) -> dict[Key, MadeTable]:
    return {(table.engine, table.name): table for engine in engines for table in read_truth(folder / f"{engine}.json")}
