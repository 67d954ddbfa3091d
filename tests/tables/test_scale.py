"""Tables whose bytes are few because their files are alike: sequential names, equal sizes, sparse or late columns.

Each shape is one of a real writer, which compresses to a few bytes a file; no limit is met, whatever the sizes are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dvcodec.tables import open_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TEXTS = pa.list_(pa.string())
ENTRIES = pa.map_(pa.string(), pa.string())
PROTOCOL = {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(), "readerFeatures": TEXTS}
METADATA = {
    "id": pa.string(),
    "format": pa.struct([("provider", pa.string())]),
    "schemaString": pa.string(),
    "partitionColumns": TEXTS,
    "configuration": ENTRIES,
}
ADD = {
    "path": pa.string(),
    "partitionValues": ENTRIES,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
}
SCHEMA = pa.schema(
    [
        (name, pa.struct(list(kinds.items())))
        for name, kinds in {"protocol": PROTOCOL, "metaData": METADATA, "add": ADD}.items()
    ]
)


def checkpoint(folder: Path, columns: int, statistics: list[str | None], compression: str) -> None:
    """A table of one checkpoint, laid out as Spark does."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": f"c{i}", "type": "long", "nullable": True, "metadata": {}} for i in range(columns)]
    metadata = {
        "id": "x",
        "format": {"provider": "parquet"},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": [],
    }
    add = {"partitionValues": [], "size": 5000, "modificationTime": 1, "dataChange": False}
    rows: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
        *({"add": add | {"path": f"part-{i:05}.parquet", "stats": one}} for i, one in enumerate(statistics)),
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), log / f"{0:020}.checkpoint.parquet", compression=compression)


def sparse(columns: int, number: int) -> str:
    """Statistics of a file where only the first column has values; writers count the nulls of all."""
    nulls = {f"c{i}": 1000 if i else 0 for i in range(columns)}
    ends = {"minValues": {"c0": number * 1000}, "maxValues": {"c0": number * 1000 + 999}}
    return json.dumps({"numRecords": 1000, **ends, "nullCount": nulls}, separators=(",", ":"))


@pytest.mark.parametrize("compression", ["zstd", "snappy"])
@pytest.mark.parametrize("kind", ["sparse", "equal", "none"])
def test_checkpoints_of_a_few_bytes_a_file(tmp_path: Path, kind: str, compression: str) -> None:
    columns, count = (500, 300) if kind == "sparse" else (1, 5000)
    equal = '{"numRecords":1000,"minValues":{"c0":0},"maxValues":{"c0":999},"nullCount":{"c0":0}}'
    texts = [sparse(columns, i) if kind == "sparse" else equal if kind == "equal" else None for i in range(count)]
    checkpoint(tmp_path / "t", columns, texts, compression)
    files = open_table(tmp_path / "t").snapshot().data_files
    assert len(files) == count
    assert {file.physical_rows for file in files} == {None if kind == "none" else 1000}
