"""A file of one framed vector in, the rows that deltalake (Rust inside) leaves out of a data file out, as u32 LE."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from fuzz.peers.serve import serve

ROWS = 1 << 22
"""Rows that the log claims of the data file, which is not read."""
folder = Path(tempfile.mkdtemp(prefix="fuzz-delta-"))
atexit.register(shutil.rmtree, folder, ignore_errors=True)
(folder / "_delta_log").mkdir()
pq.write_table(pa.table({"id": [0]}), folder / "a.parquet")
features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
metadata = {
    "id": "00000000-0000-0000-0000-000000000001",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(schema),
    "partitionColumns": [],
    "configuration": {"delta.enableDeletionVectors": "true"},
    "createdTime": 0,
}
head = [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, {"metaData": metadata}]


def read(data: bytes) -> bytes:
    (folder / "d.bin").write_bytes(data)
    descriptor = {
        "storageType": "p",
        "pathOrInlineDv": (folder / "d.bin").as_uri(),
        "offset": 1,
        "sizeInBytes": len(data) - 9,
        "cardinality": 1,
    }
    add = {
        "path": "a.parquet",
        "partitionValues": {},
        "size": (folder / "a.parquet").stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": ROWS}),
        "deletionVector": descriptor,
    }
    lines = [json.dumps(action) for action in (*head, {"add": add})]
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(lines) + "\n")
    gone = []
    for batch in DeltaTable(folder).deletion_vectors():
        for keep in pa.record_batch(batch)["selection_vector"]:
            gone += np.flatnonzero(~np.asarray(keep.values)).tolist()
    return np.array(gone, "<u4").tobytes()


serve(read)
