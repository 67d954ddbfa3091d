"""Delta tables of many data files: `python bench/table_metadata.py [FILES] [--rounds 5] [--only NAME ...]`.

A table of 300,000 data files by its metadata alone. A third of the data files have a vector of three rows, 200 of them
in each vector file. The log is a checkpoint, as Spark writes it, and five commits. The data files have the recorded
size and no contents, which nothing here reads. Opening is compared with deltalake's list of files. Each delete asks
for an id that statistics rule out everywhere, so that it searches all of the metadata and no data file. Each runs in a
process of its own: processor time after its imports, and the peak of its memory. The commands ``table``, ``log``,
``audit`` and ``report`` are measured whole, with start and imports.

``one row`` deletes and commits one row of 10,000 data files of 100 rows each, whose log is one commit, with statistics
that name the data file and without any; deltalake rewrites the data file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec.core.rowset import RowSet
from dvcodec.delta import encode, encode_z85
from report import machine

FILES, PER_CONTAINER, VERSION, ROWS = 300_000, 200, 10, 100
SCHEMA = [("id", "long"), ("name", "string"), ("value", "double"), ("day", "string")]


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


TEXT, NUMBER, TEXTS = pa.string(), pa.int64(), pa.list_(pa.string())
MAP = pa.map_(TEXT, TEXT)
PROTOCOL = struct(minReaderVersion=pa.int32(), minWriterVersion=pa.int32(), readerFeatures=TEXTS, writerFeatures=TEXTS)
METADATA = struct(
    id=TEXT,
    format=struct(provider=TEXT, options=MAP),
    schemaString=TEXT,
    partitionColumns=TEXTS,
    configuration=MAP,
    createdTime=NUMBER,
)
VECTOR = struct(storageType=TEXT, pathOrInlineDv=TEXT, offset=pa.int32(), sizeInBytes=pa.int32(), cardinality=NUMBER)
ADD = struct(
    path=TEXT,
    partitionValues=MAP,
    size=NUMBER,
    modificationTime=NUMBER,
    dataChange=pa.bool_(),
    stats=TEXT,
    deletionVector=VECTOR,
)
PROGRAM = """
import json, resource, sys, time
what, folder = sys.argv[1:]
if what.startswith("deltalake"):
    from deltalake import DeltaTable
    table = lambda: DeltaTable(folder)
    one_row = lambda: table().delete("id = 333")["num_deleted_rows"]
    work = one_row if "one row" in what else lambda: len(table().file_uris())
elif what == "pyiceberg":
    from pyiceberg.table import StaticTable
    work = lambda: len(list(StaticTable.from_metadata(folder + "/metadata/v2.metadata.json").scan().plan_files()))
else:
    import duckdb, pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset, pyarrow.json, pyarrow.parquet
    from dvcodec.tables import open_table
    asked = {
        "expression": {"where": pc.field("id") == 10**15},
        "sql": {"where": f"id = {10**15}"},
        "keys": {"keys": pa.table({"id": [10**15]}), "on": ["id"]},
    }
    work = {
        "open": lambda: len(open_table(folder).snapshot().data_files),
        "one row": lambda: open_table(folder).delete(where=pc.field("id") == 333).rows,
        "look at all": lambda: sum(one.physical_rows for one in open_table(folder).snapshot().data_files),
    }.get(what) or (lambda: open_table(folder).delete(dry_run=True, **asked[what]).skipped)
start = time.process_time()
found = work()
print(json.dumps([time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found]))
"""


def added(number: int) -> dict[str, Any]:
    """The action of a data file."""
    day = f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}"
    least = {"id": number * 1000, "name": f"a{number}", "value": 0.5}
    most = {"id": number * 1000 + 999, "name": f"z{number}", "value": 99.5}
    stats = {"numRecords": 1000, "minValues": least, "maxValues": most, "nullCount": dict.fromkeys(least, 0)}
    vector = None
    if number % 3 == 0:
        container, place = divmod(number // 3, PER_CONTAINER)
        text = encode_z85(uuid.UUID(int=container + 1).bytes)
        vector = {"storageType": "u", "pathOrInlineDv": text, "offset": 1 + 46 * place}
        vector |= {"sizeInBytes": 38, "cardinality": 3}
    return {
        "path": f"day={day}/part-{number:05}-{uuid.UUID(int=number)}.c000.snappy.parquet",
        "partitionValues": {"day": day},
        "size": 20_000 + number,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
        "deletionVector": vector,
    }


def make(folder: Path, files: int) -> None:
    """Write the table."""
    make_log(folder, files)
    numbers = [*range(files), *(files * 3 + version for version in range(VERSION + 1, VERSION + 6))]
    containers: dict[int, list[bytes]] = {}
    for number in numbers:
        action = added(number)
        path = folder / action["path"]
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(action["size"])
        if action["deletionVector"] is not None:
            container, place = divmod(number // 3, PER_CONTAINER)
            frames = containers.setdefault(container, [])
            frames += [encode(RowSet([one, one + 7, one + 9])) for one in range(len(frames), place + 1)]
    for container, frames in containers.items():
        (folder / f"deletion_vector_{uuid.UUID(int=container + 1)}.bin").write_bytes(b"\1" + b"".join(frames))


def make_log(folder: Path, files: int) -> None:
    """Write the log."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in SCHEMA]
    metadata = {
        "id": str(uuid.UUID(int=0)),
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": [("delta.enableDeletionVectors", "true")],
        "createdTime": 1,
    }
    rows = [{**one, "partitionValues": list(one["partitionValues"].items())} for one in map(added, range(files))]
    columns = {
        "protocol": pa.array([protocol, None] + [None] * files, PROTOCOL),
        "metaData": pa.array([None, metadata] + [None] * files, METADATA),
        "add": pa.array([None, None, *rows], ADD),
    }
    pq.write_table(pa.table(columns), log / f"{VERSION:020}.checkpoint.parquet", row_group_size=100_000)
    (log / "_last_checkpoint").write_text(json.dumps({"version": VERSION, "size": files + 2}))
    for version in range(VERSION, VERSION + 6):
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}]
        actions += [{"add": added(files * 3 + version)}] if version > VERSION else []
        (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def make_rows(folder: Path, files: int, *, statistics: bool, vectors: bool) -> None:
    """Write a table of 100 rows in each data file, with or without statistics, by one commit."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in SCHEMA]
    metadata: dict[str, Any] = {"id": str(uuid.UUID(int=0)), "format": {"provider": "parquet", "options": {}}}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": []}
    metadata |= {"configuration": {"delta.enableDeletionVectors": "true"} if vectors else {}, "createdTime": 1}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    versions = (3, 7) if vectors else (1, 2)
    protocol = dict(zip(("minReaderVersion", "minWriterVersion"), versions, strict=True)) | (
        features if vectors else {}
    )
    actions: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    for number in range(files):
        first, path = number * ROWS, folder / f"part-{number:05}.parquet"
        columns = {"id": range(first, first + ROWS), "name": [f"n{one}" for one in range(ROWS)]}
        columns |= {"value": [one / 7 for one in range(ROWS)], "day": ["2026-01-01"] * ROWS}
        pq.write_table(pa.table(columns), path)
        action = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 1}
        least, most = ({"id": one, "name": "n", "value": 0.0} for one in (first, first + ROWS - 1))
        known = {"numRecords": ROWS, "minValues": least, "maxValues": most | {"name": "o", "value": 99.0}}
        stats = {"stats": json.dumps(known | {"nullCount": dict.fromkeys(least, 0)})} if statistics else {}
        actions.append({"add": action | stats | {"dataChange": True}})
    (log / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def in_process(name: str, folder: Path) -> tuple[float, float, str]:
    """Return the seconds of processor time after the imports, the peak of memory in MB, and what was found."""
    command = [sys.executable, "-c", PROGRAM, name, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak, found = json.loads(done.stdout)
    return seconds, peak, f"{found:,}"


def whole(name: str, folder: Path) -> tuple[float, float, str]:
    """Return the same of a command, with start and imports, and the first line that it prints."""
    target = ["--output", str(folder.parent / "report.html")] if name == "report" else []
    command = [sys.executable, "-m", "dvcodec", name, str(folder), *target]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise SystemExit(f"{name}: {text}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text.splitlines()[0]


def one_row(folder: Path, files: int, name: str, *, statistics: bool) -> Iterator[tuple[float, float, str]]:
    """Yield the same of deletes of one row, each of a table that nothing was deleted from."""
    make_rows(folder, files, statistics=statistics, vectors=name == "one row")
    log = folder / "_delta_log"
    before = {path.name for path in (*folder.iterdir(), *log.iterdir())}
    while True:
        yield in_process(name, folder)
        for path in (*folder.iterdir(), *log.iterdir()):
            if path.name not in before:
                path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="?", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of what is measured, as they are printed")
    options = parser.parse_args()
    print(machine())
    in_processes = ("deltalake", "open", "look at all", "expression", "sql", "keys")
    commands = ("table", "log", "audit", "report")
    deletes = {
        f"{name}, {'with' if statistics else 'without'} statistics": (name, statistics)
        for statistics in (True, False)
        for name in ("deltalake one row", "one row")
    }
    names = [one for one in (*in_processes, *commands, *deletes) if options.only is None or one in options.only]
    found: dict[str, list[tuple[float, float, str]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "table"
        if set(names) - deletes.keys():
            make(folder, options.files)
        of_rows = {
            name: one_row(Path(place) / name, min(options.files, 10_000), deletes[name][0], statistics=deletes[name][1])
            for name in names
            if name in deletes
        }
        for _ in range(options.rounds):
            for name in names:
                if name in of_rows:
                    found[name].append(next(of_rows[name]))
                else:
                    found[name].append((whole if name in commands else in_process)(name, folder))
    for name, runs in found.items():
        show(name, runs)


def show(name: str, runs: list[tuple[float, float, str]]) -> None:
    """Print the median, the spread, the highest peak and what was found."""
    seconds = sorted(run[0] for run in runs)
    spread = f"{seconds[0]:.2f} to {seconds[-1]:.2f}"
    print(f"{name:37} {median(seconds):6.2f} s ({spread}), {max(run[1] for run in runs):4.0f} MB, {runs[0][2]:.60}")


if __name__ == "__main__":
    main()
