"""Partial vectors: rows to several vectors for each data file, one shuffle, and those to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from dvcodec.core.errors import UsageError
from dvcodec.spark.accumulate import RowAccumulator
from dvcodec.spark.paths import match_key_column, twin_column
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.union import VectorUnion
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["by_data_file", "by_name", "encode_rows", "union", "union_vectors"]


def union(partials: DataFrame, partitions: int | None = None) -> DataFrame:
    """Merge partial vectors of `RowAccumulator`: `VECTORS` in, `VECTORS` out, one row per data file.

    Raises:
        UsageError: less than one partition.
    """
    return by_data_file(partials, partitions).mapInArrow(settled(union_vectors), VECTORS)


def by_data_file(vectors: DataFrame, partitions: int | None, *, twins: bool = False) -> DataFrame:
    """Bring all vectors of a data file into one task, in whatever spelling.

    Args:
        vectors: with a column ``data_file``. (For rows, computing the key would cost more than the row.)
        partitions: how many tasks; None leaves it to Spark.
        twins: True brings percent-encoded spellings into that task as well.

    Raises:
        UsageError: less than one partition.
    """
    key = match_key_column(sf.col("data_file"))
    return _by(vectors, twin_column(key) if twins else key, partitions)


def by_name(rows: DataFrame, partitions: int | None) -> DataFrame:
    """Bring all rows of a name into one task; spellings of one data file are merged later, as vectors."""
    return _by(rows, sf.col("data_file"), partitions)


def _by(df: DataFrame, key: Column, partitions: int | None) -> DataFrame:
    """Shuffle by a key. ``repartition`` keeps equal keys together; a rebalancing hint would not."""
    if partitions is None:
        return df.repartition(key)
    if partitions < 1:
        raise UsageError(f"partitions must be at least 1, not {partitions}")
    return df.repartition(partitions, key)


def encode_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode rows as vectors; a data file may be repeated."""
    accumulator = RowAccumulator()
    for batch in batches:
        yield from accumulator.add(batch.column(0), batch.column(1))
    yield from accumulator.flush()


def union_vectors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors to one per data file."""
    merged = VectorUnion(trusted=True)
    for batch in batches:
        merged.add(batch.column(0), batch.column(2), batch.column(1))
    yield from merged.flush()
