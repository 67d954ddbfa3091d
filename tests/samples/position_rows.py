"""Rows of (data file, position) in the orders that pipelines see, and what plain Python makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet, iceberg
from dvcodec.spark.accumulate import RowAccumulator, VectorUnion

ORDERS = ("random", "scan", "skewed", "clustered", "many files", "far")


def rows(order: str, count: int = 30_000, seed: int = 1) -> pa.Table:
    """Rows with columns ``file_path`` and ``pos``."""
    chance = np.random.default_rng(seed)
    files = {"many files": count // 3, "far": 40}.get(order, 40)
    code = chance.integers(0, files, count)
    pos = chance.integers(0, 200_000, count)
    if order == "scan":
        code, pos = np.arange(count) * files // count, np.arange(count) % (count // files) * 3
    elif order == "skewed":
        code = np.where(chance.random(count) < 0.8, 0, code)
    elif order == "clustered":
        pos = chance.integers(0, 50, count) * 4000 + np.arange(count) % 1500
    elif order == "far":
        pos = pos * 97_003  # up to 19 billion: more than one key of the 64-bit bitmap
    names = pa.array([f"s3://lake/t/data/part={i % 7}/{i:05d} é#%20.parquet" for i in range(files)])
    return pa.table({"file_path": names.take(pa.array(code)), "pos": pa.array(pos, pa.int64())})


def write(folder: Path, table: pa.Table, *, parts: int = 3, row_group: int = 4_000) -> str:
    """Write Parquet files, several row groups each; return the folder."""
    folder.mkdir(parents=True)
    step = -(-table.num_rows // parts)
    for i in range(parts):
        pq.write_table(table.slice(i * step, step), folder / f"{i}.parquet", row_group_size=row_group)
    return str(folder)


def reference(table: pa.Table) -> dict[str, bytes]:
    """Data file -> Iceberg's blob, one row at a time."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for path, pos in zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True):
        found[path].add(pos)
    return {path: iceberg.encode(RowSet(positions)) for path, positions in found.items()}


def collected(vectors: Any) -> dict[str, bytes]:
    """Data file -> vector, of a DataFrame of Spark as `build_vectors` returns it."""
    found = vectors.collect()
    assert len({row["data_file"] for row in found}) == len(found)
    assert all(row["cardinality"] == len(iceberg.decode(bytes(row["dv"]))) for row in found)
    return {row["data_file"]: bytes(row["dv"]) for row in found}


# ---------------------------------------------------------------------- through the accumulators


def vectors_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[str, int, bytes]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def gathered(table: pa.Table, step: int = 7_000) -> list[tuple[str, int, bytes]]:
    gatherer, found = RowAccumulator(), []
    for batch in table.to_batches(max_chunksize=step):
        found += vectors_of(gatherer.add(batch.column(0), batch.column(1)))
    return found + vectors_of(gatherer.flush())


def united(parts: list[tuple[str, int, bytes]], *, trusted: bool, step: int = 500) -> list[tuple[str, int, bytes]]:
    gatherer = VectorUnion(trusted=trusted)
    for i in range(0, len(parts), step):
        files, cards, frames = zip(*parts[i : i + step], strict=True)
        gatherer.add(pa.array(files), pa.array(frames, pa.binary()), pa.array(cards))
    return vectors_of(gatherer.flush())
