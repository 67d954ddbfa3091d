"""Verify every vector of a lake: by container, or at the ranges that a table's metadata names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from dvcodec.core.errors import UsageError
from dvcodec.io import Storage
from dvcodec.spark.columns import texts_of
from dvcodec.spark.schemas import FILE_VECTORS, arrow_schema
from dvcodec.spark.sources import register
from dvcodec.spark.sources.counts import counted
from dvcodec.spark.sources.located import containers_of, located_windows
from dvcodec.spark.sources.options import storage_keys
from dvcodec.spark.sources.reader import batches
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["audit"]

_SCHEMA = arrow_schema(FILE_VECTORS)


def audit(
    source: DataFrame | str | os.PathLike[str] | list[str] | tuple[str, ...],
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Verify every vector: CRC, structure, order, population, and the cardinality that metadata states.

    Args:
        source: paths of containers (files, folders or patterns; see the data source ``dvcodec``); or places:
            a DataFrame with ``container string`` (path or URL; also called ``path``), ``offset``, ``size``, and
            perhaps ``cardinality``, ``data_file`` and ``format``. A size is the whole frame's, or 8 less as in
            Delta's log; null leaves it to the frame. Adjacent ranges in a container are read together.
        spark: the session that reads paths; by default the active one.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Returns:
        `FILE_VECTORS`, one row per vector. Corrupt vectors and missing containers have ``error`` and never fail
        the job. For places, ``format`` is the given one.

    Raises:
        UsageError: places without their columns, or invalid storage options.
    """
    options = storage_keys(storage_options)
    if isinstance(source, (str, os.PathLike, list, tuple)):
        return _audit_paths(source, spark, options)
    places = _places(source)
    return (
        places.repartitionByRange("container", "offset")
        .sortWithinPartitions("container", "offset")
        .mapInArrow(settled(partial(_check, storage_options=storage_options)), FILE_VECTORS)
    )


def _audit_paths(
    paths: str | os.PathLike[str] | list[str] | tuple[str, ...], spark: SparkSession | None, options: dict[str, str]
) -> DataFrame:
    session = spark or SparkSession.active()
    register(session)
    several = isinstance(paths, (list, tuple))
    named: list[str] | str = [os.fspath(path) for path in paths] if several else os.fspath(paths)  # type: ignore[union-attr,arg-type]
    return session.read.format("dvcodec").options(**options).schema(FILE_VECTORS).load(named)


def _places(source: DataFrame) -> DataFrame:
    names = source.columns
    container = "container" if "container" in names else "path"
    missing = [name for name in (container, "offset", "size") if name not in names]
    if missing:
        raise UsageError(f"places of vectors need container, offset and size: no {' and no '.join(missing)}")

    def column(name: str, kind: str) -> Column:
        return (sf.col(name) if name in names else sf.lit(None)).cast(kind).alias(name)

    return source.select(
        sf.col(container).alias("container"),
        *(column(name, "long") for name in ("offset", "size", "cardinality")),
        *(column(name, "string") for name in ("data_file", "format")),
    )


def _check(
    places: Iterator[pa.RecordBatch], storage_options: Mapping[str, object] | None = None
) -> Iterator[pa.RecordBatch]:
    stores = Storage(storage_options)
    for batch in places:
        if not batch.num_rows:
            continue
        if batch.column("container").null_count or batch.column("offset").null_count:
            raise UsageError("a vector's place has no container or no offset")
        with counted("audit", str(texts_of(batch.column("container").slice(0, 1))[0])):
            found = located_windows(containers_of(batch), stores)
            yield from batches(found, _SCHEMA, content=True, verify=True)
