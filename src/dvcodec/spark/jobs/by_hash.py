"""Build vectors by 64-bit hashes of the data files, which are resolved to their names after the shuffle."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from dvcodec.core.errors import UsageError
from dvcodec.iceberg.position_deletes import POS
from dvcodec.spark.jobs.partials import by_name, encode_rows
from dvcodec.spark.paths import data_file_of, file_path_of
from dvcodec.spark.scanned import UNLISTED, URI
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.union import VectorUnion
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["hashed", "listed"]

_AGAIN = "the rows named other data files when they were computed again: strategy 'partial' computes them once"


def listed(scan: DataFrame, uris: list[str], partitions: int | None) -> DataFrame:
    """Build partial vectors of a scan of so many files that their names go through the shuffle."""
    listed = pa.table({"uri": list(map(file_path_of, uris)), "data_file": list(map(data_file_of, uris))})
    named = scan.sparkSession.createDataFrame(listed).select(sf.xxhash64("uri").alias("key"), "data_file")
    return _by_hash(scan.select(sf.xxhash64(URI).alias("key"), POS), named, UNLISTED, partitions)


def hashed(rows: DataFrame, partitions: int | None) -> DataFrame:
    """Build partial vectors by hash; the names come from a second computation of the rows."""
    key = sf.xxhash64("data_file").alias("key")
    named = rows.select("data_file").distinct().select(key, "data_file")
    return _by_hash(rows.select(key, "pos"), named, _AGAIN, partitions)


def _by_hash(rows: DataFrame, names: DataFrame, unknown: str, partitions: int | None) -> DataFrame:
    """Build vectors keyed by the hash of the data file; the names go through the same shuffle.

    Args:
        rows: hash and position.
        names: the data file of each hash, as ``key`` and ``data_file``.
        unknown: the error if a hash has no name.
        partitions: tasks after the shuffle.
    """
    vectors = rows.mapInArrow(settled(encode_rows), VECTORS).withColumn("name", sf.lit(None).cast("string"))
    others = [sf.lit(None).cast(field.dataType).alias(field.name) for field in VECTORS.fields[1:]]
    named = names.select(sf.col("key").cast("string").alias("data_file"), *others, sf.col("data_file").alias("name"))
    return by_name(vectors.union(named), partitions).mapInArrow(
        settled(partial(_union_named, unknown=unknown)), VECTORS
    )


def _union_named(batches: Iterator[pa.RecordBatch], *, unknown: str = _AGAIN) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors keyed by hash, and resolve the hashes to data files; every hash needs a name."""
    merged = VectorUnion(trusted=True)
    names = []
    for batch in batches:
        is_name = batch.column(2).is_null()
        names.append(batch.filter(is_name).select([0, 3]))
        vectors = batch.filter(pc.invert(is_name))
        merged.add(vectors.column(0), vectors.column(2), vectors.column(1))
    if not names:
        return
    known = pa.Table.from_batches(names).combine_chunks()
    if known.column(1).null_count:
        raise UsageError("rows name no data file")
    hashes = known.column(0).combine_chunks()
    if len(hashes.unique()) < len(hashes):
        raise UsageError("two data files have the same hash: build these vectors with strategy 'partial'")
    for batch in merged.flush():
        index = pc.index_in(batch.column(0), value_set=hashes)
        if index.null_count:
            raise UsageError(unknown)
        files = known.column(1).take(index).combine_chunks()
        yield pa.record_batch([files, *batch.columns[1:]], schema=batch.schema)
