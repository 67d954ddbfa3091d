"""Rewrites tests/vectors/tables/lance/pylance-VERSION: `.venv/bin/python interop/pylance/write_tables.py`.

Whole datasets, and beside them as NAME.json what pylance returns of every version. The recipes are in
tests/interop/lance_tables.py.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import lance  # noqa: E402
from interop import lance_tables  # noqa: E402

TARGET = ROOT / "tests" / "vectors" / "tables" / "lance" / f"pylance-{lance.__version__}"

README = f"""# Lance datasets
Written by pylance {lance.__version__}, through `interop/pylance/write_tables.py`, which rewrites these files. (File
names and times differ each time.)

Each folder is a whole dataset, and `NAME.json` has what pylance returned for every version: the operation, the
fragments with their files, rows and number of deleted rows, the live rows as ranges of row addresses (fragment shifted
by 32 bits, and position), and their values if they are not too many.

* `life`: deletes, updates, a column added and dropped, a merge, a fragment that loses all its rows, compaction,
  appending, restoring, overwriting. `life-v1` is the same with the older manifest names, `life-stable` with stable ids.
* `kinds`: deletion files of both kinds, and changes from one to the other.

Does not prove: base paths (shallow clones, branches), which are absolute, and datasets of other releases.
"""


def main() -> None:
    """Rewrite everything."""
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name in lance_tables.COMMITTED:
        path = str(TARGET / name)
        lance_tables.make(name, path)
        versions = ",\n".join(json.dumps(version) for version in lance_tables.truth(path))
        (TARGET / f"{name}.json").write_text(f"[\n{versions}\n]\n")
    (TARGET / "README.md").write_text(README)


if __name__ == "__main__":
    main()
