"""Audit of an Iceberg table: 10,000 data files with vectors in 200 Puffin files. `python bench/table_audit.py [FILES]`.

The tests' builders create the table; its data files are one byte each, because an audit does not open them. The audit
runs in its own process to measure its peak memory; imports count in the memory, but not in the time.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dvcodec import RowSet
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.snapshots.scanning import totals

FILES = 10_000
PUFFINS = 200
ROWS = 1_000_000


def rows_of(number: int) -> RowSet:
    """Deleted rows of a data file: scattered, clustered, or both, and occasionally many of them."""
    random = np.random.default_rng(number)
    starts = random.integers(0, ROWS - 5_000, 20)
    clustered = RowSet.from_ranges(np.stack([starts, starts + random.integers(1, 5_000, 20)], axis=1))
    scattered = RowSet(random.integers(0, ROWS, (100, 2_000, 100, 200_000)[number % 4 if number % 40 < 4 else 1]))
    return (clustered, scattered, clustered | scattered)[number % 3]


def make(folder: Path, files: int) -> None:
    """Write the table."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from samples.iceberg_table import Commit, build_iceberg

    names = [f"{number:06}.parquet" for number in range(files)]
    (folder / "data").mkdir(parents=True)
    for name in names:
        (folder / "data" / name).write_bytes(b"x")
    vectors = {name: rows_of(number) for number, name in enumerate(names)}
    first = Commit(data=dict.fromkeys(names, ROWS))
    per_puffin = max(files // PUFFINS, 1)
    build_iceberg(folder, first, Commit(vectors=vectors, operation="delete"), per_puffin=per_puffin, parquet=False)


def run(folder: str) -> None:
    """Audit the table and print the result."""
    start, spent = time.perf_counter(), time.process_time()
    found = audit(open_table(folder))
    seconds, spent = time.perf_counter() - start, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if found.findings:
        raise SystemExit(f"{len(found.findings)} findings: {found.findings[0].message}")
    counts, sums = found.counts, totals(found.scan)
    print(
        f"{counts.data_files:,} data files, {counts.vectors:,} vectors in {counts.containers} files, "
        f"{sums.stored_bytes / 1e6:.1f} MB of vectors, {sums.deleted:,} deleted rows: "
        f"audited in {seconds:.2f} s ({spent:.2f} s of processor), peak {peak:.0f} MB"
    )


def main() -> None:
    if sys.argv[1:2] == ["--audit"]:
        run(sys.argv[2])
        return
    files = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "table", files)
        for _ in range(3):
            subprocess.run([sys.executable, __file__, "--audit", f"{folder}/table"], check=True)


if __name__ == "__main__":
    main()
