"""compaction_candidates, against plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from dvcodec import UsageError
from dvcodec.spark.jobs import compaction_candidates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = [
    ("untouched", 1_000, None, 10_000),
    ("hardly", 1_000, 99, 10_000),
    ("just", 1_000, 100, 90_000),
    ("much", 10_000, 9_000, 10_001),
    ("all", 50, 50, 700),
    ("empty", 0, None, 4),
    ("tiny", 4, 2, 300),
]


def stats(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(FILES, "data_file string, rows long, cardinality int, bytes long")


def reference(min_ratio: float, min_deleted: int) -> set[str]:
    found = set()
    for name, rows, deleted, _ in FILES:
        gone = deleted or 0
        if rows and (gone == rows or (gone / rows >= min_ratio and gone >= min_deleted)):
            found.add(name)
    return found


@pytest.mark.parametrize(("ratio", "least"), [(0.1, 1), (0.1, 3), (0.9, 1), (1.0, 1000), (0.05, 100)])
def test_candidates(ratio: float, least: int, spark: SparkSession) -> None:
    found = compaction_candidates(stats(spark), min_ratio=ratio, min_deleted=least).collect()
    assert {row["data_file"] for row in found} == reference(ratio, least)
    assert [row["gain"] for row in found] == sorted((row["cardinality"] for row in found), reverse=True)


def test_numbers(spark: SparkSession) -> None:
    df = compaction_candidates(stats(spark), size="bytes", min_ratio=0.1)
    assert df.columns == [*stats(spark).columns, "live_rows", "deleted_ratio", "fully_deleted", "gain"]
    found = [(r["data_file"], r["live_rows"], r["deleted_ratio"], r["fully_deleted"], r["gain"]) for r in df.collect()]
    assert found == [
        ("much", 1_000, 0.9, False, 9_001),
        ("just", 900, 0.1, False, 9_000),
        ("all", 0, 1.0, True, 700),
        ("tiny", 2, 0.5, False, 150),
    ]


def test_everything_with_a_deleted_row(spark: SparkSession) -> None:
    found = compaction_candidates(stats(spark), min_ratio=0).collect()
    assert {row["data_file"] for row in found} == {"hardly", "just", "much", "all", "tiny"}


def test_other_columns(spark: SparkSession) -> None:
    df = stats(spark).select("data_file", sf.col("rows").alias("record count"), sf.col("cardinality").alias("a.b"))
    found = compaction_candidates(df, rows="record count", deleted="a.b", min_ratio=0.5)
    assert [row["data_file"] for row in found.collect()] == ["much", "all", "tiny"]


@pytest.mark.parametrize("numbers", [(10, 11), (None, 3), (-1, None), (5, -1)])
def test_numbers_that_cannot_be(numbers: tuple[Any, Any], spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", *numbers)], "data_file string, rows long, cardinality long")
    with pytest.raises(Exception, match=r"a data file of .* rows cannot have .* deleted ones"):
        compaction_candidates(df).count()  # though no column is asked for


def test_arguments(spark: SparkSession) -> None:
    df = stats(spark)
    with pytest.raises(UsageError, match="no column x among data_file"):
        compaction_candidates(df, rows="x")
    with pytest.raises(UsageError, match="already have a column gain"):
        compaction_candidates(df.withColumn("gain", sf.lit(1)))
    for arguments in ({"min_ratio": 1.5}, {"min_deleted": -1}):
        with pytest.raises(UsageError, match="min_ratio must be between 0 and 1"):
            compaction_candidates(df, **arguments)
