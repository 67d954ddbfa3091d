"""What Spark's tasks read without Spark: manifests of writes, and Parquet files of positions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import DecodeError, UsageError
from dvcodec.spark.sources.position_deletes import PositionDeleteReader
from dvcodec.spark.sources.writer import SCHEMA, read_manifest
from fuzz import structures
from fuzz.target import Target

MANIFEST = pa.table(
    {
        "format": ["iceberg", "iceberg"],
        "path": ["/t/a.puffin", "/t/b.puffin"],
        "offset": [4, 4],
        "size": [40, 44],
        "cardinality": [1, 3],
        "data_file": ["/t/a.parquet", None],
        "file_size": [200, 204],
    },
    SCHEMA,
)
POSITIONS = pa.table({"file_path": ["/t/a", "/t/a", "/t/b"], "pos": pa.array([1, 7, 3])})


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="cost-"))


def _run_manifest(data: bytes) -> None:
    path = _folder() / f"_manifest-{'0' * 32}.parquet"
    path.write_bytes(data)
    assert read_manifest(str(path)).schema == SCHEMA


def _run_positions(data: bytes) -> None:
    path = _folder() / "positions.parquet"
    path.write_bytes(data)
    reader = PositionDeleteReader([str(path)], "file_path", "pos", 1 << 20)
    try:
        for partition in reader.partitions():
            for batch in reader.read(partition):
                batch.validate(full=True)
    except UsageError as error:  # columns and positions are the caller's
        raise DecodeError(str(error)) from error


def _parquet(table: pa.Table) -> Iterator[bytes]:
    for options in ({}, {"row_group_size": 1}, {"use_dictionary": False, "compression": "none"}):
        out = pa.BufferOutputStream()
        pq.write_table(table, out, **options)
        yield bytes(out.getvalue())


TARGETS = (
    Target(
        "spark-manifest",
        "the manifest of a Spark write",
        _run_manifest,
        lambda: _parquet(MANIFEST),
        mutate=structures.parquet,
        max_len=8192,
        keeps_size=True,
    ),
    Target(
        "spark-positions",
        "a Parquet file of positions, as a Spark task reads it",
        _run_positions,
        lambda: _parquet(POSITIONS),
        mutate=structures.parquet,
        max_len=8192,
        keeps_size=True,
    ),
)
