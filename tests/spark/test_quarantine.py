"""Vectors that are corrupt are set apart with the reason; the rest of a pipeline succeeds."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from dvcodec import RowSet, UsageError, iceberg, paimon
from dvcodec.spark import jobs, register
from dvcodec.spark.sources import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALID = {f"f{i}": RowSet(range(0, 10 * i + 1, 3)) for i in range(40)}


def damaged(rows: RowSet) -> bytearray:
    found = bytearray(iceberg.encode(rows))
    found[-6] ^= 1
    return found


def test_everything_is_in_one_of_the_two(spark: SparkSession) -> None:
    rows: list[tuple[str | None, bytearray | None, int | None, int]] = [
        (name, bytearray(iceberg.encode(one)), len(one), i) for i, (name, one) in enumerate(VALID.items())
    ]
    some = RowSet([1, 5])
    rows += [
        ("narrow", bytearray(paimon.encode(some)), 2, 100),
        ("uncounted", bytearray(iceberg.encode(some)), None, 101),
        ("flipped", damaged(some), 2, 102),
        ("cut", bytearray(iceberg.encode(some))[:-1], 2, 103),
        ("empty", bytearray(), 2, 104),
        ("miscounted", bytearray(iceberg.encode(some)), 3, 105),
        ("missing", None, 2, 106),
        (None, bytearray(iceberg.encode(some)), 2, 107),
    ]
    dvs = spark.createDataFrame(rows, "data_file string, dv binary, cardinality long, number int").repartition(3)
    valid, apart = jobs.quarantine(dvs)
    assert valid.columns == dvs.columns
    assert {row["number"]: bytes(row["dv"]) for row in valid.collect()} == {
        number: bytes(dv) for _, dv, _, number in rows if dv is not None and number < 102
    }
    why = {row["number"]: row["error"] for row in apart.collect()}
    assert why.keys() == {102, 103, 104, 105, 106, 107}
    assert "CRC" in why[102]
    assert why[103]
    assert why[104]
    assert why[105] == "cardinality: expected 3, found 2"
    assert why[106] == "dv is null"
    assert why[107] == "data_file is null"


def test_a_pipeline_over_a_damaged_lake(spark: SparkSession, tmp_path: Path) -> None:
    """Containers of which one is cut short and one has a flipped bit: read, set apart, merged, written, quarantined."""
    register(spark)
    lake = tmp_path / "lake"
    lake.mkdir()
    for name, rows in VALID.items():
        iceberg.write_deletion_vectors(lake / f"{name}.puffin", {name: rows})
    cut, flipped = lake / "f7.puffin", lake / "f9.puffin"
    cut.write_bytes(cut.read_bytes()[:-3])
    data = bytearray(flipped.read_bytes())
    data[20] ^= 4
    flipped.write_bytes(data)
    found = spark.read.format("dvcodec").load(str(lake))
    valid, apart = jobs.quarantine(found)
    more = spark.createDataFrame([("f3", 1_000_000)], "file_path string, pos long")
    jobs.merge(valid, more).write.format("dvcodec").mode("append").option("target", "iceberg").save(
        str(tmp_path / "merged")
    )
    apart.select("container", "data_file", "error", sf.base64("dv").alias("dv")).write.json(str(tmp_path / "apart"))
    written = {row["data_file"]: row["cardinality"] for row in read_manifest(str(tmp_path / "merged")).to_pylist()}
    expected = {name: len(rows) for name, rows in VALID.items() if name not in ("f7", "f9")}
    assert written == {**expected, "f3": expected["f3"] + 1}
    lines = [json.loads(line) for part in (tmp_path / "apart").glob("*.json") for line in part.read_text().splitlines()]
    assert sorted(Path(line["container"]).name for line in lines) == ["f7.puffin", "f9.puffin"]
    assert all(line["error"] for line in lines)
    with pytest.raises(PySparkException, match="vectors name no data file"):  # what a job does without
        jobs.merge(found).collect()


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ([2.0, 3.5], "cardinality: expected 3.5, found 2"),
        ([2.0, 1e300], r"cardinality: expected 1e+300, found 2"),
        (["2", "x"], "cardinality: expected x, found 2"),
        ([Decimal(2), Decimal(10**30)], f"cardinality: expected {10**30}, found 2"),
    ],
)
def test_a_cardinality_that_is_no_whole_number(spark: SparkSession, stated: list[Any], expected: str) -> None:
    kind = {float: "double", str: "string", Decimal: "decimal(38, 0)"}[type(stated[0])]
    dv = bytearray(iceberg.encode(RowSet([1, 5])))
    rows = [("a", dv, stated[0]), ("b", dv, stated[1])]
    valid, apart = jobs.quarantine(spark.createDataFrame(rows, f"data_file string, dv binary, cardinality {kind}"))
    assert [row["data_file"] for row in valid.collect()] == ["a"]
    assert [row["error"] for row in apart.collect()] == [expected]


def test_a_name_that_is_not_utf8(spark: SparkSession) -> None:
    """Spark's strings hold any bytes; the jobs after this one cannot name such a data file."""
    dv = bytearray(iceberg.encode(RowSet([1, 5])))
    rows = [(bytearray(b"a"), dv), (bytearray(b"\xff"), dv)]
    named = spark.createDataFrame(rows, "data_file binary, dv binary")
    named = named.withColumn("data_file", sf.col("data_file").cast("string"))
    valid, apart = jobs.quarantine(named)
    assert jobs.explode(valid).count() == 2
    assert [row["error"] for row in apart.select("error").collect()] == ["data_file is not UTF-8"]
    for run in (jobs.explode, lambda dvs: jobs.convert(dvs, "delta"), jobs.merge):
        with pytest.raises(PySparkException, match=r"UsageError: .*a data file whose name is not UTF-8"):
            run(named).collect()


def test_nothing_to_set_apart(spark: SparkSession) -> None:
    dvs = spark.createDataFrame([], "data_file string, dv binary")
    valid, apart = jobs.quarantine(dvs)
    assert valid.count() == apart.count() == 0
    with pytest.raises(UsageError, match="no dv"):
        jobs.quarantine(dvs.drop("dv"))
