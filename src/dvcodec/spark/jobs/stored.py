"""Vectors read from and written into files in any session, as the data source does from Spark 4.0 on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StructType

from dvcodec.io import is_url
from dvcodec.spark import tasks
from dvcodec.spark.columns import BINARY, INT, STORED_VECTORS, STRING, struct
from dvcodec.spark.compat import is_frame
from dvcodec.spark.sources.options import PathsInput, ReadOptions, WriteOptions, paths_option, storage_keys
from dvcodec.spark.sources.vectors import reader_of
from dvcodec.spark.sources.writer import VectorWriter, Written, read_manifest, writer_of
from dvcodec.spark.tasks import settled
from dvcodec.spark.vectors import Target


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


_MESSAGE = struct(partition=INT, containers=ArrayType(STRING), locations=ArrayType(BINARY))
"""A `Written`."""
_COLUMNS = ("data_file", "dv", "cardinality", "error")


def write_vectors(
    vectors: DataFrame,
    folder: str | os.PathLike[str],
    *,
    target: Target = "iceberg",
    storage_options: Mapping[str, object] | None = None,
) -> pa.Table:
    """Verify vectors and append them to a folder as new containers: all, or none that a reader sees.

    This is the write of the data source ``dvcodec``, with its files and its manifest, in any session.

    Args:
        vectors: ``data_file string, dv binary``, one row per data file, and optionally ``cardinality``, which is
            checked.
        folder: path or URL; made if it does not exist.
        target: kind of container: ``iceberg`` (Puffin files), ``delta``, ``paimon32`` or ``paimon64``.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        Where each vector is, as `dvcodec.spark.sources.read_manifest` returns it.

    Raises:
        UsageError: missing columns, another target, a null, two vectors for one data file, or rows that the target
            cannot hold.
        PythonException: a task failed: a vector is corrupt, or a container cannot be written. The message has the
            worker's error.
        OSError: the folder or the manifest cannot be written.
    """
    path = os.fspath(folder)
    if not is_url(path):
        path = os.path.abspath(path)  # noqa: PTH100  (workers may have another working folder)
    options = WriteOptions.parse({"path": path, "target": target, **storage_keys(storage_options)})
    writer = writer_of(options, vectors.schema, overwrite=False)
    with writer.committing() as written:
        chosen = vectors.select(*(name for name in _COLUMNS if name in vectors.columns))
        found = tasks.collected(chosen.mapInArrow(settled(_Write(writer)), _MESSAGE)).to_pylist()
        written += [Written(one["partition"], tuple(one["containers"]), tuple(one["locations"])) for one in found]
    return read_manifest(writer.manifest, storage_options=writer.stores())


@dataclass(frozen=True)
class _Write:
    """Writes the vectors of a task, and yields its message to the commit."""

    writer: VectorWriter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = self.writer.write(batches)
        columns = [
            pa.array([written.partition], pa.int32()),
            pa.array([written.containers], pa.list_(pa.string())),
            pa.array([written.locations], pa.list_(pa.binary())),
        ]
        yield pa.record_batch(columns, ["partition", "containers", "locations"])
