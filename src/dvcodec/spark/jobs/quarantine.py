"""Setting apart what is not sound, with the reason, so that the rest of a pipeline goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from dvcodec.spark.functions.checked import Vectors
from dvcodec.spark.vectors import vector_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["quarantine"]


def quarantine(dvs: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Part vectors into those that are sound and those that are not; no row is in both, or in neither.

    The other jobs fail at a vector that is not sound, for what they make would lack its rows. After this one they
    cannot, and what was set apart can be written where somebody looks at it.

    Args:
        dvs: vectors (``data_file``, ``dv``). All other columns are kept. Where there is a ``cardinality``, a vector has
            to have so many rows, unless it is null. Where there is an ``error``, as the data source gives, a row with
            one is not sound, whatever is in its ``dv``.

    Returns:
        The sound ones, with the columns of `dvs`; and the others, whose ``error`` says why. Each is computed by itself:
        persist `dvs` if reading it twice costs more than keeping it.

    Raises:
        UsageError: `dvs` without those columns.
    """
    vector_columns(dvs)
    told = dvs if "error" in dvs.columns else dvs.withColumn("error", sf.lit(None).cast("string"))
    checked = told.mapInArrow(_check, StructType([StructField(f.name, f.dataType) for f in told.schema.fields]))
    sound = checked.where(sf.col("error").isNull())
    return (sound if "error" in dvs.columns else sound.drop("error")), checked.where(sf.col("error").isNotNull())


def _check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fill ``error`` in where it is null and a row is not sound."""
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
    """Yield what is wrong, the first reason of a row first."""
    yield from ((row, "no data file is named") for row in np.flatnonzero(files.is_null()).tolist())
    yield from ((row, "there is no vector") for row in np.flatnonzero(frames.is_null()).tolist())
    vectors = Vectors.of(frames, strict=False)
    for i, error in sorted(vectors.found.errors.items()):
        yield int(vectors.rows[i]), str(vectors.local(i, error))
    if counted is None:
        return
    held = vectors.spread(vectors.found.cardinality)
    differ = pc.fill_null(pc.not_equal(counted.cast(pa.int64()), held), False)
    for row in np.flatnonzero(differ).tolist():
        yield row, f"cardinality: expected {counted[row].as_py()}, found {held[row].as_py()}"
