"""Iceberg tables of many data files: `python bench/iceberg_metadata.py [FILES] [--rounds 3] [--peer]`.

A table of 300,000 data files in 30 manifests; a third of the data files have a vector of three rows, 200 of them in
each Puffin file. The data files have the recorded size and no contents, which nothing here reads. Opening is processor
time after the imports; the commands ``table``, ``log``, ``audit`` and ``report`` are measured whole. With ``--peer``
pyiceberg's ``plan_files`` too, which takes minutes.
"""

from __future__ import annotations

import argparse
import json
import struct
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dvcodec import RowSet
from dvcodec.core import avro
from dvcodec.iceberg import manifest_entry, write_deletion_vectors
from dvcodec.tables.iceberg.entries import ADDED, DATA, DELETES, FILE_COLUMNS, entry_schema, list_schema
from report import machine
from table_metadata import FILES, in_process, show, whole

PER_MANIFEST, PER_CONTAINER, SNAPSHOT = 10_000, 200, 4_000_000_000_000_000_001
FIELDS = [(1, "id", "long"), (2, "name", "string"), (3, "value", "double"), (4, "day", "string")]
PARTITION = {
    "type": "record",
    "name": "r102",
    "fields": [{"name": "day", "type": ["null", "string"], "default": None, "field-id": 1000}],
}
NOTHING: dict[str, Any] = dict.fromkeys(column.name for column in FILE_COLUMNS)


def pairs(values: dict[int, Any]) -> list[dict[str, Any]]:
    """A map as Avro stores it."""
    return [{"key": key, "value": value} for key, value in values.items()]


def data_file(root: str, number: int) -> dict[str, Any]:
    """The entry of a data file, as Spark writes it."""
    day = f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}"
    least = {1: struct.pack("<q", number * 1000), 2: b"a%d" % number, 3: struct.pack("<d", 0.5), 4: day.encode()}
    most = {1: struct.pack("<q", number * 1000 + 999), 2: b"z%d" % number, 3: struct.pack("<d", 99.5), 4: day.encode()}
    return NOTHING | {
        "content": 0,
        "file_path": f"{root}/data/day={day}/{number % 200:05}-{number % 7:x}-{uuid.UUID(int=number)}-00001.parquet",
        "file_format": "PARQUET",
        "partition": {"day": day},
        "record_count": 1000,
        "file_size_in_bytes": 20_000 + number,
        "column_sizes": pairs({key: 2000 + number % 5000 * key for key in least}),
        "value_counts": pairs(dict.fromkeys(least, 1000)),
        "null_value_counts": pairs(dict.fromkeys(least, 0)),
        "nan_value_counts": pairs({3: 0}),
        "lower_bounds": pairs(least),
        "upper_bounds": pairs(most),
        "split_offsets": [4],
        "sort_order_id": 0,
    }


def vectors(root: str, folder: Path, files: int) -> Iterator[dict[str, Any]]:
    """Write the Puffin files, and yield the entry of each vector."""
    for first in range(0, files, 3 * PER_CONTAINER):
        below = f"data/{uuid.UUID(int=first)}-deletes.puffin"
        of = [data_file(root, number) for number in range(first, min(first + 3 * PER_CONTAINER, files), 3)]
        partitions = {one["file_path"]: one["partition"] for one in of}
        rows = RowSet.from_positions([first % 997, 998, 999])
        for place in write_deletion_vectors(folder / below, dict.fromkeys(partitions, rows)):
            entry = manifest_entry(place) | {"file_path": f"{root}/{below}"}
            yield NOTHING | entry | {"partition": partitions[entry["referenced_data_file"]]}


def write_manifests(root: str, folder: Path, content: int, entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write manifests, and return what a manifest list records of each."""
    found: list[dict[str, Any]] = []
    rest = iter(entries)
    while some := list(islice(rest, PER_MANIFEST)):
        new = {"status": ADDED, "snapshot_id": SNAPSHOT, "sequence_number": None, "file_sequence_number": None}
        tagged = [new | {"data_file": one} for one in some]
        data = avro.encode(entry_schema(PARTITION, 3), tagged, codec="deflate", validate=False)
        name = f"metadata/{uuid.UUID(int=content + 1)}-m{len(found)}.avro"
        (folder / name).write_bytes(data)
        rows = sum(one["record_count"] for one in some)
        found.append(
            {
                "manifest_path": f"{root}/{name}",
                "manifest_length": len(data),
                "partition_spec_id": 0,
                "content": content,
                "sequence_number": 1 + content,
                "min_sequence_number": 1 + content,
                "added_snapshot_id": SNAPSHOT + content,
                "added_files_count": len(some),
                "existing_files_count": 0,
                "deleted_files_count": 0,
                "added_rows_count": rows,
                "existing_rows_count": 0,
                "deleted_rows_count": 0,
                "partitions": None,
                "key_metadata": None,
                "first_row_id": None,
            }
        )
    return found


def make(folder: Path, files: int) -> None:
    """Write the table: two snapshots, of which the second has the vectors."""
    root = str(folder)
    (folder / "metadata").mkdir(parents=True)
    (folder / "data").mkdir()
    data = write_manifests(root, folder, DATA, (data_file(root, number) for number in range(files)))
    next_row = 0
    for one in data:
        one["first_row_id"] = next_row
        next_row += one["added_rows_count"]
    deletes = write_manifests(root, folder, DELETES, vectors(root, folder, files))
    snapshots: list[dict[str, Any]] = []
    for number, manifests in enumerate((data, data + deletes)):
        name = f"metadata/snap-{SNAPSHOT + number}.avro"
        (folder / name).write_bytes(avro.encode(list_schema(3), manifests, codec="deflate"))
        snapshots.append(
            {
                "sequence-number": 1 + number,
                "snapshot-id": SNAPSHOT + number,
                **({"parent-snapshot-id": SNAPSHOT} if number else {}),
                "timestamp-ms": 1_700_000_000_000 + number,
                "summary": {"operation": ("append", "delete")[number]},
                "manifest-list": f"{root}/{name}",
                "schema-id": 0,
                "first-row-id": 0 if not number else next_row,
                "added-rows": 0 if number else next_row,
            }
        )
    fields = [{"id": number, "name": name, "type": kind, "required": False} for number, name, kind in FIELDS]
    metadata = {
        "format-version": 3,
        "table-uuid": str(uuid.UUID(int=1)),
        "location": root,
        "last-sequence-number": 2,
        "last-updated-ms": snapshots[-1]["timestamp-ms"],
        "last-column-id": len(FIELDS),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [
            {"spec-id": 0, "fields": [{"source-id": 4, "field-id": 1000, "name": "day", "transform": "identity"}]}
        ],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": SNAPSHOT + 1,
        "refs": {"main": {"snapshot-id": SNAPSHOT + 1, "type": "branch"}},
        "snapshots": snapshots,
        "snapshot-log": [],
        "metadata-log": [],
        "next-row-id": next_row,
    }
    (folder / "metadata" / "v2.metadata.json").write_text(json.dumps(metadata))
    for number in range(files):
        one = data_file(root, number)
        path = Path(one["file_path"])
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(one["file_size_in_bytes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="?", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", action="store_true", help="measure pyiceberg too, once")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "table"
        make(folder, options.files)
        if options.peer:
            show("pyiceberg", [in_process("pyiceberg", folder)])
        show("open", [in_process("open", folder) for _ in range(options.rounds)])
        for name in ("table", "log", "audit", "report"):
            show(name, [whole(name, folder) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()
