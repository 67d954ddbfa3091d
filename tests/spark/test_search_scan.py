"""Spark finds the rows that it finds in the same rows of its own, whoever reads the data files."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.spark import jobs
from dvcodec.tables import enable, live_batches, open_table
from tables.deleting.random_tables import FORMATS, folder_table
from tables.deleting.random_where import SCHEMA, random_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [random_rows(random.Random(number), 200 * number, 200) for number in range(3)]
ALL = pa.concat_tables(FILES)
EVERY = tuple(SCHEMA.names)
FLAT = tuple(name for name in EVERY if name not in ("nested", "part"))
CONDITIONS = (
    "key BETWEEN 100 AND 350",
    "n IN (1, 2, 3) OR n IS NULL",
    "x > 1.5 AND NOT f <= 0.125",
    "price > 1000000000000001 OR wide < 0",
    "word LIKE 'A%' OR raw = X'00'",
    "day >= '2024-02-10' AND time < '2024-03-02 10:00:00' OR local = TIMESTAMP_NTZ '2024-02-29 00:30:00'",
)


def live(folder: Path, column: str = "key") -> list[Any]:
    found = live_batches(open_table(folder), columns=[column])
    return sorted(value for batch in found for value in batch.column(column).to_pylist())


@pytest.mark.parametrize(
    ("kind", "read_by", "columns"),
    [
        ("delta", "spark", (*FLAT, "nested")),
        ("delta", "workers", EVERY),
        ("iceberg", "spark", (*FLAT, "part")),
        ("iceberg", "auto", EVERY),
        ("lance", "auto", EVERY),
        ("paimon", "auto", EVERY),
    ],
)
def test_values_of_every_type_are_spark_s_own(
    spark: SparkSession, tmp_path: Path, kind: str, read_by: Any, columns: tuple[str, ...]
) -> None:
    FORMATS[kind][0](tmp_path / "t", FILES)
    own = spark.createDataFrame(ALL)
    condition = f"pmod(xxhash64({', '.join(columns)}), 3) = 0"
    kept = own.where(f"NOT {condition}").toArrow()["key"].to_pylist()
    assert jobs.delete(spark, tmp_path / "t", condition, read_by=read_by).committed
    assert live(tmp_path / "t") == sorted(kept)
    if read_by == "spark":
        for text in CONDITIONS:
            found = own.where(f"({text}) AND NOT {condition}").count()
            assert jobs.delete(spark, tmp_path / "t", text, read_by=read_by, dry_run=True).rows == found > 0, text


@pytest.mark.parametrize("kind", ["delta", "plain"])
def test_nan_is_found_though_statistics_leave_it_out(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Arrow's writers leave it out; Spark's own query then skips the row groups."""
    floats = [0.5, math.nan, None, 0.25]
    rows = pa.table({"id": range(4), "d": floats, "s": [{"f": value} for value in floats]})
    folder, more = tmp_path / "t", {}
    if kind == "delta":
        pytest.importorskip("deltalake").write_deltalake(str(folder), rows)
        enable(open_table(folder))
    else:
        folder.mkdir()
        pq.write_table(rows, folder / "f.parquet")
        more = {"vectors": tmp_path / "v"}
    own = spark.createDataFrame(rows)
    assert own.where("d > 1").count() == 1
    for text in ("d > 1", "s.f = 'NaN'"):
        done = jobs.delete(spark, folder, text, dry_run=True, **more)  # type: ignore[arg-type]
        assert done.rows == 1, text


def test_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's are in the names of folders, from which Spark reads them; or decide alone, so that no file is opened."""
    deltalake = pytest.importorskip("deltalake")
    parts = ["01", "a b", "x=y/z", None, "ż"] * 20
    rows = pa.table({"id": range(100), "part": parts, "number": [1, 10, None, 3, -4] * 20})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["part", "number"])
    enable(open_table(tmp_path / "t"))
    own = spark.createDataFrame(rows)
    for text, read_by in (
        ("number > 1 AND id < 50", "spark"),
        ("part = '01' AND id % 3 = 1", "workers"),
        ("coalesce(part, 'a b') = 'a b' AND id > 7", "workers"),
        ("part IN ('01', 'ż') OR number IS NULL", "spark"),
    ):
        done = jobs.delete(spark, tmp_path / "t", text, read_by=read_by, dry_run=True)  # type: ignore[arg-type]
        assert done.rows == own.where(text).count() > 0, text
    for file in open_table(tmp_path / "t").snapshot().data_files:
        Path(file.location).write_bytes(b"")
    assert jobs.delete(spark, tmp_path / "t", "part IN ('01', 'ż') OR number IS NULL", dry_run=True).rows == 60


def test_columns_of_iceberg_are_those_of_the_field_ids(spark: SparkSession, tmp_path: Path) -> None:
    """In a file that is older than the change of their names, Spark's statistics are those of another column."""
    pytest.importorskip("pyiceberg")
    from pyiceberg.types import LongType

    folder = tmp_path / "t"
    rows = pa.table({"a": range(100), "b": range(1000, 1100)})
    table = folder_table(folder, rows.schema)
    table.append(rows)
    with table.update_schema() as change:
        change.rename_column("a", "other")
        change.rename_column("b", "a")
    with table.update_schema() as change:
        change.rename_column("other", "b")
        change.add_column("c", LongType())
    table.append(pa.table({"b": range(5), "a": range(5), "c": range(5)}))
    enable(open_table(folder))
    for text, count in (("a > 1090", 9), ("b < 3", 6), ("a < 3 AND c IS NOT NULL", 3)):
        assert jobs.delete(spark, folder, text, read_by="spark", dry_run=True).rows == count, text
    assert jobs.delete(spark, folder, "c IS NULL", dry_run=True).rows == 100


def test_workers_read_what_spark_cannot(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    times = pa.array([day * 86_400_000_000 for day in range(10)], pa.timestamp("us"))
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"time": times, "id": range(10)}))
    enable(open_table(tmp_path / "t"))
    (file,) = open_table(tmp_path / "t").snapshot().data_files
    fine = pq.read_table(file.location).set_column(0, "time", times.cast(pa.timestamp("ns")))
    pq.write_table(fine, file.location, version="2.6")
    assert jobs.delete(spark, tmp_path / "t", "day(time) > 4 AND id > 0", dry_run=True).rows == 6
    with pytest.raises(UsageError, match=r"cannot read the data files: .FAILED_READ_FILE"):
        jobs.delete(spark, tmp_path / "t", "day(time) > 4", read_by="spark", dry_run=True)
    FORMATS["paimon"][0](tmp_path / "paimon", FILES[:1])
    with pytest.raises(UsageError, match="cannot read the data files: it might find other values"):
        jobs.delete(spark, tmp_path / "paimon", "key > 4", read_by="spark", dry_run=True)


def test_a_file_with_more_rows_than_are_recorded_is_not_removed(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": range(10)}))
    enable(open_table(tmp_path / "t"))
    (file,) = open_table(tmp_path / "t").snapshot().data_files
    pq.write_table(pa.table({"id": range(12)}), file.location)
    with pytest.raises(NotCanonical, match="10 rows"):
        jobs.delete(spark, tmp_path / "t", "id < 10")


def test_uuids_of_iceberg_are_text(spark: SparkSession, tmp_path: Path) -> None:
    """As in Iceberg's connector."""
    pytest.importorskip("pyiceberg")
    folder = tmp_path / "t"
    uuids = [None, UUID(int=0), UUID(int=2**128 - 1), UUID("0f000000-0000-4000-8000-0000000000Ab")]
    raw = pa.array([None if one is None else one.bytes for one in uuids], pa.binary(16))
    rows = pa.table({"id": range(4), "u": pa.ExtensionArray.from_storage(pa.uuid(), raw)})
    folder_table(folder, rows.schema).append(rows)
    enable(open_table(folder))
    own = spark.createDataFrame([(one and str(one),) for one in uuids], "u string")
    for text in (
        "u <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "u IN ('0f000000-0000-4000-8000-0000000000ab', '0F000000-0000-4000-8000-0000000000AB')",
        "u > '0f'",
        "u LIKE '%-4000-%' OR u IS NULL",
    ):
        assert jobs.delete(spark, folder, text, dry_run=True).rows == own.where(text).count() > 0, text
