"""Vectors written by a job: in every session the files that the data source writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PythonException

from dvcodec import RowSet, UsageError, decode_at, iceberg, paimon
from dvcodec.spark import jobs
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.sources import read_manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.everywhere
ROWS = {f"s3://lake/t/é #{i}.parquet": RowSet(range(i, 9000, i + 1)) for i in range(30)}


def vectors(spark: SparkSession) -> DataFrame:
    encoders = (iceberg.encode, paimon.encode)
    items = [(name, bytearray(encoders[i % 2](rows)), 5) for i, (name, rows) in enumerate(ROWS.items())]
    return spark.createDataFrame(items, "data_file string, dv binary, other long").repartition(3)


@pytest.mark.parametrize("target", ["iceberg", "paimon32"])
def test_every_target(target: str, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    found = jobs.write_vectors(vectors(spark), folder, target=target)  # type: ignore[arg-type]
    assert found.equals(read_manifest(str(folder)))
    assert {row["data_file"]: decode_at(row["path"], row["offset"], row["size"]) for row in found.to_pylist()} == ROWS
    assert set(found["format"].to_pylist()) == {target}
    again = to_arrow(jobs.read_vectors(folder, spark=spark).select("data_file", "cardinality", "crc_ok", "error"))
    expected = sorted((name, len(rows), True, None) for name, rows in ROWS.items())
    assert sorted(tuple(row.values()) for row in again.to_pylist()) == expected


def test_a_second_write_is_appended(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = vectors(spark)
    jobs.write_vectors(made.where("data_file like '%1.parquet'"), tmp_path)
    monkeypatch.chdir(tmp_path.parent)
    jobs.write_vectors(made.where("data_file like '%2.parquet'"), tmp_path.name)
    jobs.write_vectors(made.where("false"), tmp_path)
    assert jobs.read_vectors(tmp_path, spark=spark).count() == 6
    assert {Path(path).parent for path in read_manifest(str(tmp_path))["path"].to_pylist()} == {tmp_path}


def test_a_write_that_fails_is_not_seen(spark: SparkSession, tmp_path: Path) -> None:
    made = vectors(spark)
    corrupt = made.selectExpr("data_file", "concat(dv, X'00') AS dv")
    with pytest.raises(PythonException, match=r"Truncated|length field"):
        jobs.write_vectors(corrupt, tmp_path)
    with pytest.raises(UsageError, match="has no vector"):
        jobs.write_vectors(made.selectExpr("data_file", "CAST(NULL AS BINARY) AS dv"), tmp_path)
    with pytest.raises(UsageError, match="two vectors for the data file"):
        jobs.write_vectors(made.union(made), tmp_path)
    assert jobs.read_vectors(tmp_path, spark=spark).count() == 0


def test_wrong_use(spark: SparkSession, tmp_path: Path) -> None:
    made, out = vectors(spark), tmp_path / "out"
    with pytest.raises(UsageError, match=r"expected one of iceberg, delta, .*; did you mean 'iceberg'"):
        jobs.write_vectors(made, out, target="puffin")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"data_file is not one of them"):
        jobs.write_vectors(made.select("dv"), out)
    assert not out.exists()
