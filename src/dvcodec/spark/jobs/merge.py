"""Merge vectors of the same data file: older ones with newer ones, or with new positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from dvcodec.iceberg.position_deletes import FILE_PATH, POS
from dvcodec.spark.jobs.build import Strategy, build_vectors, by_data_file
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.union import VectorUnion, input_bit
from dvcodec.spark.vectors import vector_columns
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["merge"]

_INPUTS = "__dvcodec_inputs"


def merge(
    dvs: DataFrame,
    *more: DataFrame,
    file_col: str = FILE_PATH,
    pos_col: str = POS,
    strategy: Strategy = "auto",
    partitions: int | None = None,
) -> DataFrame:
    """Merge vectors to one per data file, which deletes every row that any of its vectors deletes.

    Every vector is verified. The only vector of a data file keeps its bytes, whatever its layout; several
    become the frame that Iceberg, Delta and Paimon 64-bit share. Spellings of one data file (``/x`` and
    ``file:/x``, ``s3://`` and ``s3a://``, ..) are merged under that of the first DataFrame that has it; if it has
    several, under the one that sorts first. Each task logs how many at INFO (logger ``dvcodec.paths``).

    Args:
        dvs: vectors (``data_file``, ``dv``); a data file may be repeated. Each DataFrame spells its files in one
            way: ``a b`` and ``a%20b`` are two files where one DataFrame has both.
        more: further vectors; or rows of (data file, position), without a column ``dv``.
        file_col: of rows of positions: the data file.
        pos_col: of rows of positions: the position.
        strategy: for rows of positions; see `build_vectors`.
        partitions: tasks after the shuffle; see `build_vectors`.

    Returns:
        `VECTORS`: ``data_file``, ``cardinality``, ``dv``; one row per data file.

    Raises:
        UsageError: vectors without those columns. While it runs: a null data file or vector; or one
            DataFrame has ``a b`` and another ``a%20b``, which may be the same file percent-encoded.
        DecodeError: while it runs: a vector is corrupt.
    """
    parts = [vector_columns(dvs).drop("error")]
    for part in more:
        rows = (
            part
            if "dv" in part.columns
            else build_vectors(part, file_col, pos_col, strategy=strategy, partitions=partitions)
        )
        parts.append(vector_columns(rows).drop("error"))
    together = parts[0].withColumn(_INPUTS, sf.lit(input_bit(0)).cast("long"))
    for i, part in enumerate(parts[1:], 1):
        together = together.unionByName(part.withColumn(_INPUTS, sf.lit(input_bit(i)).cast("long")))
    return by_data_file(together, partitions, twins=True).mapInArrow(settled(_merge), VECTORS)


def _merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    union = VectorUnion()
    for batch in batches:
        union.add(batch.column(0), batch.column(1), inputs=batch.column(2))
    yield from union.flush()
