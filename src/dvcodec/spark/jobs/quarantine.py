"""Separate corrupt vectors, with the reason, so that the rest of a pipeline continues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from dvcodec.spark.columns import is_utf8, texts_of
from dvcodec.spark.functions.kernels import Vectors
from dvcodec.spark.vectors import vector_columns
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["quarantine"]


def quarantine(dvs: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split vectors into valid and corrupt ones; every row is in exactly one of the two.

    Other jobs fail on a corrupt vector, because their result would lack its rows. After this job they succeed, and the
    corrupt vectors can be written elsewhere for inspection.

    Args:
        dvs: vectors (``data_file``, ``dv``). All other columns are kept. With a column ``cardinality``, a vector
            must have that many rows, unless it is null. With a column ``error``, as the data source has, a row with
            an error is corrupt, whatever its ``dv``.

    Returns:
        The valid ones, with the columns of `dvs`; and the corrupt ones, with ``error``. Each is computed separately:
        persist `dvs` if reading it twice costs more than keeping it.

    Raises:
        UsageError: `dvs` without those columns.
    """
    vector_columns(dvs)
    marked = dvs if "error" in dvs.columns else dvs.withColumn("error", sf.lit(None).cast("string"))
    checked = marked.mapInArrow(
        settled(_check), StructType([StructField(f.name, f.dataType) for f in marked.schema.fields])
    )
    valid = checked.where(sf.col("error").isNull())
    return (valid if "error" in dvs.columns else valid.drop("error")), checked.where(sf.col("error").isNotNull())


def _check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Set ``error`` of corrupt rows where it is null."""
    for table in batches:
        names = table.schema.names
        texts = table.column("error").to_pylist()
        counted = table.column("cardinality") if "cardinality" in names else None
        for row, text in _faults(table.column("data_file"), table.column("dv"), counted):
            if texts[row] is None:
                texts[row] = text
        at = names.index("error")
        yield table.set_column(at, table.schema.field(at), pa.array(texts, table.schema.field(at).type))


def _faults(files: pa.Array, frames: pa.Array, counted: pa.Array | None) -> Iterator[tuple[int, str]]:
    """Yield errors by row; the first of a row counts."""
    yield from ((row, "data_file is null") for row in np.flatnonzero(files.is_null()).tolist())
    yield from ((row, "data_file is not UTF-8") for row in _not_utf8(files))
    yield from ((row, "dv is null") for row in np.flatnonzero(frames.is_null()).tolist())
    vectors = Vectors.of(frames, strict=False)
    for i, error in sorted(vectors.found.errors.items()):
        yield int(vectors.rows[i]), str(vectors.local(i, error))
    if counted is None:
        return
    held = vectors.spread(vectors.found.cardinality)
    for row in np.flatnonzero(_differ(counted, held)).tolist():
        yield row, f"cardinality: expected {counted[row].as_py()}, found {held[row].as_py()}"


def _not_utf8(files: pa.Array) -> list[int]:
    try:
        files.validate(full=True)
    except pa.ArrowInvalid:
        return [row for row, name in enumerate(texts_of(files)) if not is_utf8(name)]
    return []


def _differ(counted: pa.Array, held: pa.Array) -> pa.Array:
    """Return which stated cardinalities are wrong. One that is not an integer is wrong, too; null is not."""
    try:
        stated = counted.cast(pa.int64())
    except pa.ArrowInvalid:  # a fraction, a text, a number beyond 64 bits
        pairs = zip(counted, held.to_pylist(), strict=True)
        return pa.array([one.is_valid and found is not None and _whole(one) != found for one, found in pairs])
    return pc.fill_null(pc.not_equal(stated, held), False)


def _whole(value: pa.Scalar) -> int | None:
    """Return an integer as it is, None for anything else."""
    try:
        number: int = value.cast(pa.int64()).as_py()
    except pa.ArrowInvalid:
        return None
    return number
