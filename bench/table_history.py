"""History of tables of many data files and commits: `python bench/table_history.py [FILES] [COMMITS]`.

The tests' builders create the tables, without data files. Each commit replaces one data file. The history is read as
`history` reads it, and for the first commits also by opening every snapshot whole, as it does for other kinds of table.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import fastavro

from dvcodec.tables import Table, history, open_table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from samples.delta_log import commit, empty_table
from samples.iceberg_table import Commit, build_iceberg, list_schema, write_avro

FILES, COMMITS = 30_000, 300
WHOLE = 20
"""Commits whose snapshots are opened whole, too."""


def delta(folder: Path, files: int, commits: int) -> None:
    """Write a log: the first version adds all data files."""

    def added(name: str) -> dict[str, Any]:
        return {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}

    empty_table(folder, [added(f"{i:06}.parquet") for i in range(files)])
    for version in range(1, commits + 1):
        gone = {"path": f"{version:06}.parquet", "dataChange": True, "deletionTimestamp": 1}
        commit(folder, version, "UPDATE", {"remove": gone}, {"add": added(f"new-{version:06}.parquet")})


def iceberg(folder: Path, files: int, commits: int) -> None:
    """Write metadata: each commit appends a manifest of one data file to those of the first snapshot."""
    names = {f"{i:06}.parquet": 20 for i in range(files)}
    made = build_iceberg(folder, Commit(data=names), parquet=False)
    metadata = json.loads(made.metadata.read_text())
    (first,) = metadata["snapshots"]
    with Path(first["manifest-list"]).open("rb") as file:
        listed = [dict(one) for one in fastavro.reader(file) if isinstance(one, dict)]
    with Path(listed[0]["manifest_path"]).open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        entry: Any = next(reader)
    for number in range(1, commits + 1):
        path = folder / f"metadata/new-{number}.avro"
        path_of_file = f"{folder}/data/new-{number:06}.parquet"
        write_avro(path, schema, [entry | {"data_file": entry["data_file"] | {"file_path": path_of_file}}], "deflate")
        size, added = path.stat().st_size, 101 + number
        listed.append(listed[0] | {"manifest_path": str(path), "manifest_length": size, "added_snapshot_id": added})
        manifest_list = folder / f"metadata/list-{number}.avro"
        write_avro(manifest_list, list_schema(3), listed, "deflate")
        snapshot = {"snapshot-id": added, "parent-snapshot-id": added - 1, "manifest-list": str(manifest_list)}
        time_ms = first["timestamp-ms"] + number
        metadata["snapshots"].append(first | snapshot | {"sequence-number": 1 + number, "timestamp-ms": time_ms})
    last = metadata["snapshots"][-1]["snapshot-id"]
    metadata |= {"current-snapshot-id": last, "refs": {"main": {"snapshot-id": last, "type": "branch"}}}
    made.metadata.write_text(json.dumps(metadata | {"snapshot-log": [], "last-sequence-number": 1 + commits}))


def measured(folder: Path, until: int | None) -> tuple[int, float]:
    """Return the number of snapshots, and the seconds that their history takes."""
    start = time.perf_counter()
    table = open_table(folder)
    count = sum(1 for _ in history(table, until=until))
    return count, time.perf_counter() - start


def main() -> None:
    given = [int(one) for one in sys.argv[1:3]]
    files, commits = (*given, *(FILES, COMMITS)[len(given) :])
    made: dict[str, Callable[[Path, int, int], None]] = {"delta": delta, "iceberg": iceberg}
    for kind, make in made.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "table"
            folder.mkdir()
            make(folder, files, commits)
            count, seconds = measured(folder, None)
            infos = open_table(folder).snapshots()
            with mock.patch.object(type(open_table(folder)), "compared", Table.compared):
                some, whole = measured(folder, infos[min(WHOLE, len(infos) - 1)].id)
        print(
            f"{kind}, {files:,} data files: {count} snapshots in {seconds:.1f} s; opened whole, the first {some} in "
            f"{whole:.1f} s, {whole / some / (seconds / count):.1f} times as long for each"
        )


if __name__ == "__main__":
    main()
