"""Vectors in files, read by tasks in any session: what ``spark.read.format("dvcodec")`` reads from Spark 4.0 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from dvcodec.spark import tasks
from dvcodec.spark.columns import STORED_VECTORS
from dvcodec.spark.compat import is_frame
from dvcodec.spark.sources.options import PathsInput, ReadOptions, paths_option, storage_keys
from dvcodec.spark.sources.reader import reader_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def read_vectors(
    paths: PathsInput,
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Read the vectors of containers, one row each. Files are found now, and read when the result is.

    Args:
        paths: files, folders or patterns of containers; see the data source ``dvcodec``.
        spark: the session; by default the active one.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        `STORED_VECTORS`, as the data source has them.

    Raises:
        UsageError: a path that does not exist, or invalid storage options.
    """
    return read_columns(paths, STORED_VECTORS, spark, storage_options)


def read_columns(
    paths: object, schema: StructType, spark: SparkSession | None, storage_options: Mapping[str, object] | None
) -> DataFrame:
    """Read some columns of `STORED_VECTORS`; see `read_vectors`."""
    options = ReadOptions.parse({"paths": paths_option(paths), **storage_keys(storage_options)})
    return tasks.read(spark or SparkSession.active(), reader_of(options, schema), schema)


def as_vectors(dvs: DataFrame | PathsInput, spark: SparkSession | None = None) -> DataFrame:
    """Return vectors as they are, or those that `read_vectors` reads from paths."""
    return dvs if is_frame(dvs) else read_columns(dvs, STORED_VECTORS, spark, None)
