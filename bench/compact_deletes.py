"""pyiceberg's scan before and after `compact_deletes`: `python bench/compact_deletes.py [FILES] [ROWS] [DATA_FILES]`.

A table of format version 2 is left as a stream leaves it: each commit deletes one row of each data file, so that there
are FILES position delete files of one row. The rows are synthetic shop orders of 13 columns. Scans are those of
`table.scan().to_arrow()` in this process, after one that is not timed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from deletes_work import catalog, make_iceberg, orders
from dvcodec import RowSet
from dvcodec.tables import compact_deletes, live_batches, open_table
from report import machine

FILES, ROWS, DATA_FILES = 2_000, 1_000_000, 20
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def scans(folder: Path, rows: int) -> tuple[float, float]:
    """Seconds of a scan by pyiceberg, and of reading the live rows by dvcodec: medians."""

    def theirs() -> None:
        found = catalog(folder).load_table("db.t").scan().to_arrow().num_rows
        assert found == rows, found

    def ours() -> None:
        found = sum(batch.num_rows for batch in live_batches(open_table("db.t", catalog=catalog(folder))))
        assert found == rows, found

    theirs()
    ours()
    return median(seconds(theirs) for _ in range(ROUNDS)), median(seconds(ours) for _ in range(ROUNDS))


def main(files: int = FILES, rows: int = ROWS, data_files: int = DATA_FILES) -> None:
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    step = rows // data_files
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_iceberg(folder, [orders(start, start + step, rows) for start in range(0, rows, step)], 2)
        table = open_table("db.t", catalog=catalog(folder))
        paths = [file.path for file in table.snapshot().data_files]
        for number in range(files // data_files):
            table.delete(positions={path: RowSet([number * 7]) for path in paths})
        left = rows - len(table.snapshot().vectors)
        assert left == rows - files // data_files * data_files
        before = scans(folder, left)
        start = time.perf_counter()
        done = compact_deletes(open_table("db.t", catalog=catalog(folder)))
        took = time.perf_counter() - start
        after = scans(folder, left)
    print(f"{done.before:,} position delete files of one row merged into {done.after:,} in {took:.2f} s")
    for who, old, new in zip(("pyiceberg's scan", "live rows by dvcodec"), before, after, strict=True):
        print(f"{who}: {old:.2f} s before, {new:.2f} s after: {old / new:.1f} times as fast")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
