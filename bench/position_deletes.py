"""Position deletes as a stream leaves them: `python bench/position_deletes.py [FILES] [--rounds 3] [--keep FOLDER]`.

An Iceberg table of version 2: 100 data files of 2,000 rows, and FILES position delete files of one row, each for one
data file, as the checkpoints of a stream write them. They are copies of the file that `write_position_deletes` writes
for a data file, with another position. Each command runs in a process of its own: processor time without its imports,
and the peak of its memory. Peers read the same files one after another, in one process: pyarrow, polars and DuckDB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import fastavro

from dvcodec import RowSet
from dvcodec.iceberg import FILE_PATH_ID, POS_ID, write_position_deletes
from report import machine

FILES, DATA_FILES, ROWS = 50_000, 100, 2_000
PER_MANIFEST = 5_000
MARK = 0x0012_3456_789A_BCDE
"""The position in the files that are copied."""
PROGRAM = """
import json, resource, sys, time
what, folder = sys.argv[1:]
import duckdb, polars, pyarrow.compute, pyarrow.dataset, pyarrow.parquet as pq
from pathlib import Path
from dvcodec.tables import audit, live_batches, open_table, scan, upgrade_deletes
from dvcodec.tables.snapshots.scanning import totals
ours = {
    "open": lambda: len(open_table(folder).snapshot().vectors),
    "audit": lambda: totals(audit(open_table(folder)).scan).min_deleted,
    "table": lambda: totals(scan(open_table(folder))).min_deleted,
    "live rows": lambda: sum(batch.num_rows for batch in live_batches(open_table(folder))),
    "upgrade": lambda: upgrade_deletes(open_table(folder)).position_deletes,
}
peers = {
    "pyarrow": lambda path: pq.ParquetFile(path).read().num_rows,
    "polars": lambda path: polars.read_parquet(path).height,
    "duckdb": lambda path: len(duckdb.sql(f"from '{path}'").fetchall()),
}
work = ours.get(what) or (lambda: sum(peers[what](str(path)) for path in sorted(Path(folder, "data").glob("d-*"))))
start = time.process_time()
found = work()
print(json.dumps([time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found]))
"""


def make(folder: Path, files: int) -> None:
    """Write the table: it is of version 2, and that of version 3 for `upgrade_deletes` is its copy by links."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from samples.iceberg_table import Commit, build_iceberg

    names = [f"part-{number:05}.parquet" for number in range(DATA_FILES)]
    commits = [Commit(data=dict.fromkeys(names, ROWS))]
    commits += [Commit(deletes=[{names[0]: RowSet([0])}], scope="bounds", operation="delete")]
    built = build_iceberg(folder, *commits, version=2)
    (folder / "data/deletes-2-0.parquet").unlink()
    lists, manifest = folder / "metadata/snap-102.avro", folder / "metadata/manifest-2-1.avro"
    kept, list_schema, _ = _read(lists)
    (entry,), schema, metadata = _read(manifest)
    listed = next(one for one in kept if one["content"] == 1)
    kept.remove(listed)
    entries = _deletes(folder, list(built.paths.values()), entry, files)
    for number, start in enumerate(range(0, files, PER_MANIFEST)):
        path = manifest.with_name(f"deletes-{number}.avro")
        with path.open("wb") as file:
            records = [next(entries) for _ in range(min(PER_MANIFEST, files - start))]
            fastavro.writer(file, schema, records, "deflate", metadata=metadata)
        kept.append(listed | {"manifest_path": str(path), "manifest_length": path.stat().st_size})
    manifest.unlink()
    with lists.open("wb") as file:
        fastavro.writer(file, list_schema, kept, "deflate")


def _read(path: Path) -> tuple[list[Any], Any, dict[str, str]]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        metadata = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
        return list(reader), reader.writer_schema, metadata


def _deletes(folder: Path, paths: list[str], entry: Any, files: int) -> Iterator[Any]:
    """Write delete files; yield the entry of each."""
    copied = []
    for path in paths:
        template = folder / "template.parquet"
        write_position_deletes(template, {path: RowSet([MARK])})
        copied.append(template.read_bytes())
        template.unlink()
    mark = MARK.to_bytes(8, "little")
    for number in range(files):
        path, position = paths[number % len(paths)], number // len(paths) * 7 % ROWS
        stored = copied[number % len(paths)].replace(mark, position.to_bytes(8, "little"))
        name = folder / f"data/d-{number:06}.parquet"
        name.write_bytes(stored)
        bounds = [
            {"key": FILE_PATH_ID, "value": path.encode()},
            {"key": POS_ID, "value": position.to_bytes(8, "little")},
        ]
        file = {"file_path": str(name), "file_size_in_bytes": len(stored)}
        yield entry | {"data_file": entry["data_file"] | file | {"lower_bounds": bounds, "upper_bounds": bounds}}


def run(what: str, folder: Path) -> list[float]:
    command = [sys.executable, "-c", PROGRAM, what, str(folder)]
    found: list[float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="?", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="names of what to measure, with commas between them")
    parser.add_argument("--keep", help="folder of the table, which is written if it is not there, and kept")
    options = parser.parse_args()
    print(machine())
    names = ("open", "audit", "table", "live rows", "upgrade", "pyarrow", "polars", "duckdb")
    names = tuple(options.only.split(",")) if options.only else names
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary) / "t"
        if not folder.exists():
            make(folder, options.files)
        for name in names:
            runs = []
            for _ in range(options.rounds):
                current = folder / "metadata/v1.metadata.json"
                stored = current.read_text()
                if name == "upgrade":
                    current.write_text(stored.replace('"format-version": 2', '"format-version": 3, "next-row-id": 0'))
                before = set(folder.rglob("*"))
                runs.append(run(name, folder))
                for path in set(folder.rglob("*")) - before:
                    path.unlink()
                current.write_text(stored)
                (folder / "metadata/version-hint.text").write_text("1")
            each = [seconds / options.files * 1000 for seconds, *_ in runs]
            spread = f"{min(each):.3f} to {max(each):.3f}"
            memory = max(memory for _, memory, _ in runs)
            took = median(seconds for seconds, *_ in runs)
            print(f"{name:10} {median(each):.3f} ms a file ({spread}), {took:6.2f} s, {memory:4.0f} MB, {runs[0][2]:,}")


if __name__ == "__main__":
    main()
