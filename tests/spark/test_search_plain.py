"""Parquet files without a table: the rows that Spark's own SELECT finds, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import UsageError
from dvcodec.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def partition_in_files(_: SparkSession, folder: Path) -> None:
    """The column of the partition is in the files, too, with other values."""
    for day in (1, 2):
        (folder / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": range(10), "day": [3 - day] * 10}), folder / f"day={day}" / "f.parquet")


def leading_zero(_: SparkSession, folder: Path) -> None:
    for day in ("01", "02"):
        (folder / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": range(10)}), folder / f"day={day}" / "f.parquet")


def collated(spark: SparkSession, folder: Path) -> None:
    rows = spark.sql("SELECT id, CAST(IF(id % 2 = 0, 'a', 'A') AS STRING COLLATE UTF8_LCASE) s FROM range(20)")
    rows.coalesce(1).write.parquet(str(folder))


def folders_that_are_not_read(_: SparkSession, folder: Path) -> None:
    (folder / "other").mkdir(parents=True)
    for name, count in (("f.parquet", 5), ("other/f.parquet", 2), ("_hidden", 3)):
        pq.write_table(pa.table({"id": range(count)}), folder / name)


def other_types(_: SparkSession, folder: Path) -> None:
    """A bigint column that is int in some files, as engines write it after a change of the type."""
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1, 2**40])}), folder / "0.parquet")
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), folder / "1.parquet")


@pytest.mark.parametrize(
    ("make", "conditions"),
    [
        (partition_in_files, ["day = 1 AND id < 7", "day = '01'"]),
        (leading_zero, ["day = '01'", "day = 1 OR id > 7"]),
        (collated, ["s = 'a'", "s IN ('A')"]),
        (folders_that_are_not_read, ["id >= 0"]),
        (other_types, ["id = 1"]),
    ],
)
def test_spark_s_own_rows(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], None], conditions: list[str]
) -> None:
    folder, vectors = tmp_path / "t", tmp_path / "vectors"
    make(spark, folder)
    for text in conditions:
        rows = spark.read.parquet(str(folder))
        kept = rows.where(f"NOT coalesce({text}, false)").orderBy(*rows.columns).collect()
        assert jobs.delete(spark, folder, text, vectors=vectors / text).rows == rows.count() - len(kept), text
        if len(kept) < rows.count():
            found = jobs.apply(rows, spark.read.format("dvcodec").load(str(vectors / text)))
            assert found.orderBy(*rows.columns).collect() == kept, text


def test_keys_and_positions(spark: SparkSession, tmp_path: Path) -> None:
    leading_zero(spark, tmp_path / "t")
    keys = spark.createDataFrame([(1, 3), (1, 4), (5, 5)], "day int, id long")
    vectors = tmp_path / "v"
    assert jobs.delete(spark, tmp_path / "t", keys=keys, on=["id", "day"], vectors=vectors).rows == 2
    file = str(tmp_path / "t" / "day=02" / "f.parquet")
    assert jobs.delete(spark, tmp_path / "t", positions={file: [0, 9]}, vectors=vectors).rows == 2
    with pytest.raises(UsageError, match="position 10 is beyond its 10 rows"):
        jobs.delete(spark, tmp_path / "t", positions={file: [10]}, vectors=vectors)
    for asked in ({"where": pc.field("id") > 3}, {"keys": pa.table({"id": [1]}), "on": "id"}):
        with pytest.raises(UsageError, match="read by Spark alone"):
            jobs.delete(spark, tmp_path / "t", **asked, vectors=vectors)
    for asked in ({"where": "no_such = 1"}, {"keys": spark.range(1), "on": "no_such"}):
        with pytest.raises(UsageError, match="no_such"):
            jobs.delete(spark, tmp_path / "t", **asked, vectors=vectors)
