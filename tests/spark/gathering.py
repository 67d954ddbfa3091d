"""Rows and vectors through the gatherers, in steps: (data file, cardinality, frame) of each vector that comes out."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.union import VectorUnion


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
