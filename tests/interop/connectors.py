"""The tables that interop/spark makes with the released connectors, once for all tests of a run."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from pathlib import Path

import amounts
from interop.driver import INTEROP, need
from interop.engines import Engines
from interop.truth import MadeTable, read_truth

HERE = INTEROP / "spark"
OLD = "paimon"
"""The engine that needs an older Spark, and so a process of its own."""
GATE = {
    ("iceberg", "parts"), ("delta", "parts"), ("delta", "cloned"),
    ("paimon-library", "parts32"), ("paimon-library", "keyed64"),
}  # fmt: skip
"""What a gate makes anew. tests/tables/test_engines.py reads others by the same versions, in tests/vectors/tables."""

Key = tuple[str, str]
"""Engine and name."""


def _chosen(engine: str, *names: str) -> list[Key]:
    return [(engine, name) for name in names if amounts.long or (engine, name) in GATE]


def _wide_and_narrow(*names: str) -> list[str]:
    return [f"{name}{bits}" for name in names for bits in (32, 64)]


PLAIN_TABLES = [
    *(key for engine in ("iceberg", "delta", OLD) for key in _chosen(engine, "plain", "parts", "large")),
    *_chosen(OLD, "keyed"),
    *_chosen("paimon-library", *_wide_and_narrow("plain", "parts", "large", "keyed")),
]
"""Tables of five columns that never change."""
CHANGED_TABLES = [
    *_chosen("iceberg", "evolved", "hidden", "compacted", "expired", "upgraded"),
    *_chosen("delta", "named", "checkpointed", "compacted", "vacuumed", "cloned"),
    *_chosen(OLD, "changed", "merged"),
    *_chosen("paimon-library", *_wide_and_narrow("changed", "merged")),
]
"""Tables whose schema, layout or history changes."""
TABLES = PLAIN_TABLES + CHANGED_TABLES


def make_tables(engines: Engines, folder: Path) -> dict[Key, MadeTable]:
    """Make all tables anew, with all engines."""
    names = defaultdict(list)
    for engine, name in TABLES:
        names[engine].append(name)
    old = names.pop(OLD, None)
    engines.ask("tables-make", only=names)
    files = [engines.folder / f"{engine}.json" for engine in names]
    if old is not None:
        environment = HERE / ".venv-3.5"
        need((environment / ".installed").is_file(), "interop/spark/.venv-3.5")
        # What the tests' own Spark has set here is not for others.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        program = [environment / "bin" / "python", HERE / "make_tables.py"]
        command = [*map(str, program), str(folder), OLD, "--only", ",".join(old)]
        done = subprocess.run(
            command, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-5000:]
        files.append(folder / f"{OLD}.json")
    return {(table.engine, table.name): table for file in files for table in read_truth(file)}
