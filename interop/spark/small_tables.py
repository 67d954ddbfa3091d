"""Rewrite tests/vectors/tables: the few tables that the repository holds, with their truth.

    python3 small_tables.py

Made under /tmp/lake, for metadata records where a table is. The READMEs there say what the tables are.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LAKE = Path("/tmp/lake")
KEPT = HERE.parents[1] / "tests" / "vectors" / "tables"
TABLES = {
    ".venv-4.1": {
        "iceberg": ("iceberg/spark-1.12.0", ["evolved", "upgraded"]),
        "delta": ("delta/spark-4.4.0", ["named", "checkpointed", "compacted"]),
        "paimon-library": ("paimon/java-1.4.2", ["changed64", "merged32"]),
    },
    ".venv-3.5": {"paimon": ("paimon/spark-0.9.0", ["changed"])},
}
"""Environments, and the engines that run there: where their tables are kept, and which."""


def main() -> None:
    for environment, engines in TABLES.items():
        for engine, (kept, names) in engines.items():
            shutil.rmtree(LAKE, ignore_errors=True)
            python, program = HERE / environment / "bin" / "python", HERE / "make_tables.py"
            subprocess.run([python, program, "--plain", "--only", ",".join(names), LAKE, engine], check=True)
            made = json.loads((LAKE / f"{engine}.json").read_text())
            for table in made["tables"]:
                _keep(made["versions"], table, KEPT / kept / table["name"])
    shutil.rmtree(LAKE)


def _keep(versions: dict[str, Any], table: dict[str, Any], folder: Path) -> None:
    """Move one table to its folder: the table, the truth, and the live rows of each state."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "live").mkdir(parents=True)
    shutil.copytree(table["root"], folder / "table")

    def move(live: str | None, name: int | str) -> str | None:
        if live is None:
            return None
        shutil.copyfile(LAKE / live, folder / "live" / f"{name}.parquet")
        return f"live/{name}.parquet"

    for snapshot in table["snapshots"]:
        snapshot["live"] = move(snapshot["live"], snapshot["version"])
    table["head"] = move(table["head"], "head")
    found = {"versions": versions, "tables": [table]}
    (folder / "truth.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
