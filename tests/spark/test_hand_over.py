"""Batches without a limit on bytes: the session's settings come back, and nothing wide crosses under them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from dvcodec import RowSet, iceberg
from dvcodec.spark import hand_over
from dvcodec.spark.hand_over import BATCH_ROWS, hands_over, task_bytes, without_byte_limit
from dvcodec.spark.jobs import build_vectors, positions
from samples.position_rows import reference, rows, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.everywhere

BYTES, ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
FILES = "spark.sql.files.maxPartitionBytes"
SHUFFLED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def collected(df: DataFrame) -> dict[str, bytes]:
    return {row["data_file"]: bytes(row["dv"]) for row in df.collect()}


@pytest.mark.parametrize("before", [{}, {BYTES: "7000000", ROWS: "123"}, {ROWS: "0", SHUFFLED: "7m"}])
def test_settings_come_back(before: dict[str, str], spark: SparkSession) -> None:
    for key, value in before.items():
        spark.conf.set(key, value)

    def failing() -> None:
        with without_byte_limit(spark):
            with without_byte_limit(spark, batch_rows=10 * BATCH_ROWS):
                pass
            assert spark.conf.get(BYTES) == str(2**31 - 1)
            assert spark.conf.get(ROWS) == ("123" if before.get(ROWS) == "123" else str(BATCH_ROWS))
            assert spark.conf.get(SHUFFLED) == before.get(SHUFFLED, str(16 << 20))
            raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError):
            failing()
        assert {key: spark.conf.get(key, None) for key in before} == before
        assert all(spark.conf.get(key, None) is None for key in {BYTES, ROWS, SHUFFLED} - set(before))
    finally:
        for key in before:
            spark.conf.unset(key)


def test_large_tables_are_cut_into_some_tasks_a_core(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(1)
    wide = pa.table({"keep": np.zeros(20_000, np.bool_)} | {f"c{i}": chance.random(20_000) for i in range(20)})
    for i in range(4):
        pq.write_table(wide, tmp_path / f"{i}.parquet")
    scan = spark.read.parquet(str(tmp_path)).where("NOT keep")
    size = sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    assert task_bytes(scan) is None, "no more than is usual for a task"
    monkeypatch.setattr(hand_over, "_USUAL_TASK_BYTES", 1 << 10)
    found = task_bytes(scan)
    if hasattr(scan, "_jdf"):
        assert found == size // (8 * spark.sparkContext.defaultParallelism)
        monkeypatch.setattr(hand_over, "_MOST_TASK_BYTES", 1 << 15)
        assert task_bytes(scan) == 1 << 15
    else:
        assert found is None, "Connect does not tell the number of cores"
    monkeypatch.setattr(hand_over, "_MOST_TASK_BYTES", 1 << 30)
    built = list(collected(build_vectors(positions(scan), eager=True)).values())
    assert built == 4 * [iceberg.encode(RowSet(range(20_000)))]
    assert spark.conf.get(FILES, None) is None
    spark.conf.set(FILES, "10000000")
    try:
        assert task_bytes(scan) is None, "the session has its own"
        with without_byte_limit(spark, 1 << 20):
            assert spark.conf.get(FILES) == str(1 << 20)
        assert spark.conf.get(FILES) == "10000000"
    finally:
        spark.conf.unset(FILES)


@pytest.mark.parametrize("order", ["skewed", "many files"])
def test_vectors_that_are_built_now_stay(order: str, spark: SparkSession, tmp_path: Path) -> None:
    table = rows(order)
    folder = write(tmp_path / "deletes", table)
    df = spark.read.parquet(folder)
    assert not hands_over(df)
    built = [build_vectors(df, strategy="partial", eager=True), build_vectors(folder, eager=True)]
    some = positions(df.where("pos % 3 = 0"))
    want = collected(build_vectors(some))
    assert len(want) == 3
    assert spark.conf.get(BYTES, None) is None
    built.append(build_vectors(some, eager=True))
    shutil.rmtree(folder)
    assert [collected(one) for one in built] == [reference(table), reference(table), want]


def test_rows_of_megabytes_do_not_cross_without_the_limit(spark: SparkSession) -> None:
    def narrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.nbytes > 100 << 20:
                raise ValueError(f"a batch of {batch.nbytes} bytes")
            yield pa.record_batch([pa.repeat("a", batch.num_rows), batch.column(0)], ["file_path", "pos"])

    wide = spark.range(0, 150, 1, 1).select("id", sf.repeat(sf.lit("x"), 1 << 20).alias("wide"))
    given = wide.mapInArrow(narrow, "file_path string, pos long")
    assert hands_over(given)
    if spark.version >= "4.1":  # before, only rows limit a batch
        assert collected(build_vectors(given, strategy="partial", eager=True)) == {
            "a": iceberg.encode(RowSet(range(150)))
        }
    named = spark.range(9).select(sf.repeat(sf.lit("x"), 40_000).alias("file_path"), sf.col("id").alias("pos"))
    with pytest.raises(Exception, match="name has more than 32768 bytes"):
        build_vectors(named, strategy="partial", eager=True)
    assert spark.conf.get(BYTES, None) is None
    assert collected(build_vectors(named, strategy="partial")) == {"x" * 40_000: iceberg.encode(RowSet(range(9)))}
