"""Live rows beside other libraries, a fifth of all rows deleted: `python bench/live_rows.py [ROWS] [FOLDER]`.

deltalake writes a Delta table and pyiceberg an Iceberg one, of four data files each; dvcodec deletes. Each library
answers each question in a process of its own, the table opened in it: processor time of all threads (the median of
three processes) and peak memory, imports counted in the memory alone. A folder keeps the tables for the next time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from deletes_work import catalog
from report import machine

ROWS, FILES, TIMES = 5_000_000, 4, 3
FEW = 1000
WORDS = ("open", "paid", "sent", "done", "void")
Answer = Callable[[Any], int]
"""What a library does with its opened table: the rows that it found."""


def make(folder: Path, rows: int) -> None:
    """Write both tables and delete a fifth of their rows."""
    import pyarrow as pa
    from deltalake import write_deltalake

    from deletes_work import make_iceberg
    from dvcodec import RowSet
    from dvcodec.tables import enable, open_table
    from dvcodec.tables.iceberg.catalogs import from_catalog

    step, parts = rows // FILES, []
    for start in range(0, rows, step):
        chance = np.random.default_rng(start)
        words = np.array(WORDS)[chance.integers(0, len(WORDS), step)]
        parts.append(
            pa.table(
                {
                    "id": np.arange(start, start + step),
                    "price": chance.integers(0, 10**6, step) / 100,
                    "customer": chance.integers(0, 10**6, step),
                    "status": pa.array(words),
                    "sku": pa.array(chance.integers(0, 50_000, step)).cast(pa.string()),
                }
            )
        )
        write_deltalake(folder / "delta", parts[-1], mode="append", target_file_size=1 << 40)
    (folder / "iceberg").mkdir()
    make_iceberg(folder / "iceberg", parts, 3)
    enable(open_table(folder / "delta"))
    gone = {start: RowSet(np.flatnonzero(np.random.default_rng(start).random(step) < 0.2)) for start in range(FILES)}
    for table in (open_table(folder / "delta"), from_catalog(catalog(folder / "iceberg"), "db.t")):
        files = table.snapshot().data_files
        assert len(files) == FILES, len(files)
        table.delete(positions={file.path: gone[number] for number, file in enumerate(files)})


def drained(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


def of_dvcodec(rows: int, sink: str) -> dict[str, Answer]:
    import pyarrow.compute as pc

    from dvcodec.tables import export_live

    number = pc.field("id")
    return {
        "all rows": lambda table: drained(table.to_reader()),
        "one column": lambda table: drained(table.to_reader(columns=["price"])),
        f"id < {FEW}": lambda table: drained(table.to_reader(where=number < FEW)),
        "one id": lambda table: drained(table.to_reader(where=number == rows // 2)),
        "customer = 7": lambda table: drained(table.to_reader(where=pc.field("customer") == 7)),
        "export": lambda table: export_live(table, sink),
    }


def of_polars(rows: int, sink: str) -> dict[str, Answer]:
    import polars as pl

    def export(frame: Any) -> int:
        import pyarrow.parquet as pq

        frame.sink_parquet(sink, compression="zstd", compression_level=1)
        return int(pq.ParquetFile(sink).metadata.num_rows)

    return {
        "all rows": lambda frame: len(frame.collect()),
        "one column": lambda frame: len(frame.select("price").collect()),
        f"id < {FEW}": lambda frame: len(frame.filter(pl.col("id") < FEW).collect()),
        "one id": lambda frame: len(frame.filter(pl.col("id") == rows // 2).collect()),
        "customer = 7": lambda frame: len(frame.filter(pl.col("customer") == 7).collect()),
        "export": export,
    }


def of_pyiceberg(rows: int, sink: str) -> dict[str, Answer]:
    import pyarrow.parquet as pq

    def asked(table: Any, **options: Any) -> int:
        return drained(table.scan(**options).to_arrow_batch_reader())

    def export(table: Any) -> int:
        reader = table.scan().to_arrow_batch_reader()
        found = 0
        with pq.ParquetWriter(sink, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch, row_group_size=1 << 17)
                found += batch.num_rows
        return found

    return {
        "all rows": asked,
        "one column": lambda table: asked(table, selected_fields=("price",)),
        f"id < {FEW}": lambda table: asked(table, row_filter=f"id < {FEW}"),
        "one id": lambda table: asked(table, row_filter=f"id = {rows // 2}"),
        "customer = 7": lambda table: asked(table, row_filter="customer = 7"),
        "export": export,
    }


def opener(folder: Path, kind: str, library: str) -> Callable[[], Any]:
    """What opens a table; its library is imported, and what that imports later."""
    if library == "dvcodec":
        import pyarrow.dataset
        import pyarrow.parquet  # noqa: F401

        from dvcodec.tables import open_table

        if kind == "delta":
            return lambda: open_table(folder / "delta")
        found = catalog(folder / "iceberg")
        return lambda: open_table("db.t", catalog=found)
    if library == "polars":
        import deltalake  # noqa: F401
        import polars as pl

        if kind == "delta":
            return lambda: pl.scan_delta(str(folder / "delta"))
        found = catalog(folder / "iceberg")
        return lambda: pl.scan_iceberg(found.load_table("db.t"))
    found = catalog(folder / "iceberg")
    return lambda: found.load_table("db.t")


ANSWERS = {"dvcodec": of_dvcodec, "polars": of_polars, "pyiceberg": of_pyiceberg}
ASKED = {"delta": ("dvcodec", "polars"), "iceberg": ("dvcodec", "pyiceberg", "polars")}
"""deltalake refuses to give a dataset of a table with vectors."""


def peak_memory() -> float:
    """Megabytes of this process at its peak; `getrusage` counts what the process had before its program started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def answer(folder: Path, kind: str, library: str, question: str, rows: int) -> None:
    """Answer a question in this process, and print what it took."""
    sink = folder / f"{library}.parquet"
    work, opened = ANSWERS[library](rows, str(sink))[question], opener(folder, kind, library)
    start = time.process_time()
    found = work(opened())
    spent = time.process_time() - start
    peak = peak_memory()
    size = sink.stat().st_size if sink.exists() else 0
    sink.unlink(missing_ok=True)
    print(json.dumps({"rows": found, "seconds": spent, "peak": peak, "size": size / 1e6}))


def main(rows: int, folder: Path) -> None:
    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    if not (folder / "iceberg").exists():
        make(folder, rows)
    for kind, libraries in ASKED.items():
        print(f"\n{kind}, {rows:,} rows".ljust(22), *(f"{library:>26}" for library in libraries))
        for question in ANSWERS["dvcodec"](rows, ""):
            cells: list[str] = []
            counts: set[int] = set()
            for library in libraries:
                command = [sys.executable, __file__, "--one", str(folder), kind, library, question, str(rows)]
                try:
                    lines = [subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout for _ in range(TIMES)]
                except subprocess.CalledProcessError:
                    cells.append("failed")
                    continue
                runs = [json.loads(line) for line in lines]
                counts.update(run["rows"] for run in runs)
                size = f" {runs[0]['size']:.0f} MB" if runs[0]["size"] else ""
                cells.append(f"{median(run['seconds'] for run in runs):.3f} s {runs[0]['peak']:.0f} MB{size}")
            print(f"{question:21}", *(f"{cell:>26}" for cell in cells), "" if len(counts) == 1 else f" rows: {counts}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        _, _, place, kind, library, question, rows = sys.argv
        answer(Path(place), kind, library, question, int(rows))
    else:
        asked = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
        if len(sys.argv) > 2:
            main(asked, Path(sys.argv[2]))
        else:
            with tempfile.TemporaryDirectory() as name:
                main(asked, Path(name))
