"""A small Delta table of three commits: WRITE, DELETE, and a RESTORE that gives two rows back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet, delta
from samples.delta_table import TIME, DeltaBuilder

ROWS = 128
FIRST, SECOND = RowSet.from_ranges([(0, 4), (64, 128)]), RowSet.from_ranges([(2, 6), (64, 128)])
OLD = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
NEW = "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"
_FIELDS = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
SCHEMA = {"type": "struct", "fields": _FIELDS}


def commit(folder: Path, version: int, operation: str, *actions: dict[str, Any]) -> None:
    info = {"commitInfo": {"timestamp": TIME + 1000 * version, "operation": operation}}
    lines = "".join(json.dumps(action) + "\n" for action in (info, *actions))
    (folder / "_delta_log" / f"{version:020d}.json").write_text(lines)


def data_file(folder: Path, name: str, start: int, rows: int = ROWS) -> dict[str, Any]:
    pq.write_table(pa.table({"id": range(start, start + rows)}), folder / name)
    return {
        "path": name,
        "partitionValues": {},
        "size": (folder / name).stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows}),
    }


def descriptor(folder: Path, name: str, rows: RowSet) -> dict[str, Any]:
    (location,) = delta.write_deletion_vectors(folder / name, {"a": rows})
    found: dict[str, Any] = json.loads(delta.Descriptor.from_location(location, str(folder)).to_json())
    return found


def empty_table(folder: Path, adds: Sequence[Any] = ()) -> None:
    """Version 0: a table with deletion vectors enabled, and without a data file unless `adds` has some."""
    table = DeltaBuilder(folder, fields=_FIELDS)
    metadata = table.metadata | {"id": "0"}
    table.commit({"protocol": table.protocol}, {"metaData": metadata}, *({"add": add} for add in adds))


def restored_table(folder: Path) -> Path:
    """Two data files; of the first, 68 rows are deleted in version 1, and two of them live again in version 2."""
    folder.mkdir(parents=True)
    a, b = data_file(folder, "a.parquet", 0), data_file(folder, "b.parquet", ROWS)
    empty_table(folder, [a, b])
    old, new = descriptor(folder, OLD, FIRST), descriptor(folder, NEW, SECOND)
    gone = {"path": "a.parquet", "dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": False}
    commit(folder, 1, "DELETE", {"remove": gone}, {"add": a | {"deletionVector": old}})
    commit(folder, 2, "RESTORE", {"remove": gone | {"deletionVector": old}}, {"add": a | {"deletionVector": new}})
    return folder
