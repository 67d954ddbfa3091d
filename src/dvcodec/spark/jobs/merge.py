"""Uniting vectors of the same data file: older ones with newer ones, or with new positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from dvcodec.core.errors import UsageError
from dvcodec.iceberg.position_deletes import FILE_PATH, POS
from dvcodec.spark.jobs.build import Strategy, build_vectors, by_data_file
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.unite import VectorGatherer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["merge"]


def merge(
    dvs: DataFrame,
    *more: DataFrame,
    file_col: str = FILE_PATH,
    pos_col: str = POS,
    strategy: Strategy = "auto",
    partitions: int | None = None,
) -> DataFrame:
    """Unite vectors, one a data file: every row that is deleted in any of them.

    Every vector is checked whole. One that is alone for its data file keeps its bytes, whatever its layout; the
    others become the frame that Iceberg, Delta and Paimon 64-bit share.

    Args:
        dvs: vectors (``data_file``, ``dv``); a data file may come several times.
        more: further vectors; or rows of (data file, position), that is: without a column ``dv``.
        file_col: of rows of positions: the data file.
        pos_col: of rows of positions: the position.
        strategy: for rows of positions; see `build_vectors`.
        partitions: tasks after the shuffle; see `build_vectors`.

    Returns:
        `VECTORS`: ``data_file``, ``cardinality``, ``dv``; one row a data file.

    Raises:
        UsageError: vectors without those columns. While it runs: a null where a data file or a vector should be.
        DecodeError: while it runs: a vector is not sound.
    """
    parts = [_vectors(dvs)]
    for part in more:
        rows = (
            part
            if "dv" in part.columns
            else build_vectors(part, file_col, pos_col, strategy=strategy, partitions=partitions)
        )
        parts.append(_vectors(rows))
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part)
    return by_data_file(together, partitions).mapInArrow(_merge, VECTORS)


def _vectors(dvs: DataFrame) -> DataFrame:
    missing = {"data_file", "dv"} - set(dvs.columns)
    if missing:
        raise UsageError(f"vectors need the columns data_file and dv: no {' and no '.join(sorted(missing))}")
    return dvs.select("data_file", "dv")


def _merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    gatherer = VectorGatherer()
    for batch in batches:
        gatherer.add(batch.column(0), batch.column(1))
    yield from gatherer.flush()
