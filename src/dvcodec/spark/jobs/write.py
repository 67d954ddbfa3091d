"""Vectors written into containers in any session: what ``write.format("dvcodec")`` does from Spark 4.0 on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql.types import ArrayType

from dvcodec.io import is_url
from dvcodec.spark.columns import BINARY, INT, STRING, struct
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.sources.manifest import read_manifest
from dvcodec.spark.sources.options import Target, WriteOptions, storage_keys
from dvcodec.spark.sources.writer import VectorWriter, Written, writer_of
from dvcodec.spark.tasks import refusal
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    written: list[Any] = []
    try:
        chosen = vectors.select(*(name for name in _COLUMNS if name in vectors.columns))
        found = to_arrow(chosen.mapInArrow(settled(_Write(writer)), _MESSAGE))
        written.extend(
            Written(one["partition"], tuple(one["containers"]), tuple(one["locations"])) for one in found.to_pylist()
        )
        writer.commit(written)
    except BaseException as err:
        writer.abort(written)
        refused = refusal(err) if isinstance(err, PythonException) else None
        if refused is not None:
            raise refused from None
        raise
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
