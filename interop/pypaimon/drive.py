"""Drives pypaimon: vectors in batch files, and whole tables. See the README beside this file.

Contains no codec of its own: every byte is written, and every position read, by pypaimon.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.deletionvectors.bitmap_deletion_vector import BitmapDeletionVector
from pypaimon.deletionvectors.deletion_vector import DeletionVector
from pypaimon.manifest.index_manifest_file import IndexManifestFile
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon.write.table_delete import TableDeleteByRowId

OPTIONS = {
    "data-evolution.enabled": "true",
    "row-tracking.enabled": "true",
    "deletion-vectors.enabled": "true",
}


def cases(path: str) -> Iterator[bytes]:
    """Yield the cases of a batch file of bytes."""
    data = Path(path).read_bytes()
    (count,) = struct.unpack_from(">i", data)
    at = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def positions(path: str) -> Iterator[np.ndarray]:
    """Yield the cases of a batch file of positions."""
    data = Path(path).read_bytes()
    (count,) = struct.unpack_from(">i", data)
    at = 4
    for _ in range(count):
        (size,) = struct.unpack_from(">i", data, at)
        yield np.frombuffer(data, ">i8", size, at + 4)
        at += 4 + 8 * size


def failure(err: Exception) -> bytes:
    message = f"{type(err).__name__}: {err}".encode()
    return struct.pack(">i", len(message)) + message


def encode(source: str, result: str) -> None:
    out: list[bytes] = []
    for case in positions(source):
        try:
            vector = BitmapDeletionVector()
            for position in case.tolist():
                vector.delete(position)
            data = vector.serialize()
        except Exception as err:  # noqa: BLE001  (what it refuses is data)
            out.append(struct.pack(">i", -1) + failure(err))
        else:
            out.append(struct.pack(">i", len(data)) + data)
    Path(result).write_bytes(struct.pack(">i", len(out)) + b"".join(out))


class _OneFile:
    """A FileIO over bytes: `DeletionVector.read` seeks and reads, nothing else."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def new_input_stream(self, _path: str) -> Any:
        return pa.BufferReader(self.data)


def decode(source: str, result: str) -> None:
    out: list[bytes] = []
    for case in cases(source):
        length = struct.unpack_from(">i", case)[0] if len(case) >= 4 else 0
        file = SimpleNamespace(dv_index_path="x", offset=0, length=length)
        try:
            vector = DeletionVector.read(_OneFile(case), file)
            values = np.array(list(vector.bit_map()), ">i8")
            cardinality = vector.get_cardinality()
        except Exception as err:  # noqa: BLE001  (what it refuses is data)
            out.append(b"\0" + failure(err))
        else:
            out.append(struct.pack(">Bqi", 1, cardinality, len(values)) + values.tobytes())
    Path(result).write_bytes(struct.pack(">i", len(out)) + b"".join(out))


def _open(warehouse: str, name: str) -> Any:
    return CatalogFactory.create({"warehouse": warehouse}).get_table(name)


def table_write(warehouse: str, spec: str) -> None:
    """Make a table of some data files, delete rows by row id, and print what the index manifest says."""
    about = json.loads(Path(spec).read_text())
    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("db", True)
    kinds = pa.schema([("id", pa.int64()), ("name", pa.string())])
    catalog.create_table("db.t", Schema.from_pyarrow_schema(kinds, options=OPTIONS), False)
    table = catalog.get_table("db.t")
    start = 0
    for rows in about["files"]:
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        ids = list(range(start, start + rows))
        write.write_arrow(pa.table({"id": ids, "name": [f"row {i}" for i in ids]}, schema=kinds))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        start += rows
    for row_ids in about["deletes"]:
        commit = table.new_batch_write_builder().new_commit()
        commit.commit(TableDeleteByRowId(_open(warehouse, "db.t")).delete(row_ids))
        commit.close()
    manifest_read(warehouse)


def _scan(warehouse: str) -> pa.Table:
    builder = _open(warehouse, "db.t").new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def table_scan(warehouse: str) -> None:
    """Print the ids of the rows that a scan returns."""
    print(json.dumps(sorted(_scan(warehouse).column("id").to_pylist())))


def table_rows(warehouse: str, result: str) -> None:
    """Write the rows that a scan returns to a file of Arrow's IPC format."""
    found = _scan(warehouse)
    with pa.ipc.new_file(result, found.schema) as file:
        file.write_table(found)


def table_append(warehouse: str, lines: str) -> None:
    """Add rows to a table, from a file of JSON lines with all its columns."""
    table = _open(warehouse, "db.t")
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    kinds = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
    rows = [json.loads(line) for line in Path(lines).read_text().splitlines()]
    write.write_arrow(pa.Table.from_pylist(rows).cast(kinds))
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def manifest_read(warehouse: str) -> None:
    """Print the entries of the latest snapshot's index manifest."""
    table = _open(warehouse, "db.t")
    name = table.snapshot_manager().get_latest_snapshot().index_manifest
    entries = [
        {
            "kind": entry.kind,
            "bucket": entry.bucket,
            "index_type": entry.index_file.index_type,
            "file_name": entry.index_file.file_name,
            "file_size": entry.index_file.file_size,
            "row_count": entry.index_file.row_count,
            "external_path": entry.index_file.external_path,
            "vectors": [
                [meta.data_file_name, meta.offset, meta.length, meta.cardinality]
                for meta in (entry.index_file.dv_ranges or {}).values()
            ],
        }
        for entry in IndexManifestFile(table).read(name)
    ]
    print(json.dumps({"table": table.table_path, "manifest": name, "entries": entries}))


def versions() -> None:
    print(json.dumps({"pypaimon": version("pypaimon")}))


COMMANDS: dict[str, Callable[..., None]] = {
    "encode": encode,
    "decode": decode,
    "table-write": table_write,
    "table-scan": table_scan,
    "table-rows": table_rows,
    "table-append": table_append,
    "manifest-read": manifest_read,
    "versions": versions,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
