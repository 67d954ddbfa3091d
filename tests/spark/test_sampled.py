"""Rows whose data files a sample knows, or not, against plain Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from dvcodec import RowSet, iceberg
from dvcodec.spark import keyed_rows
from dvcodec.spark.jobs import build
from dvcodec.spark.jobs.build import build_vectors
from dvcodec.spark.keyed_rows import SampledFiles
from samples.position_rows import ORDERS, reference, rows, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def collected(df: DataFrame) -> dict[str, bytes]:
    found = df.collect()
    assert len({row["data_file"] for row in found}) == len(found)
    return {row["data_file"]: bytes(row["dv"]) for row in found}


def sample(*texts: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string())])


@pytest.mark.parametrize("order", [pytest.param(o, marks=[pytest.mark.everywhere] * (o == "random")) for o in ORDERS])
@pytest.mark.parametrize("known", ["all", "some"])
def test_a_sample_changes_no_byte(
    order: str, known: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows(order)
    df = spark.read.parquet(write(tmp_path / "deletes", table))
    names = table["file_path"].unique().to_pylist()
    found = SampledFiles(pa.array(names if known == "all" else names[::3]))
    monkeypatch.setattr(SampledFiles, "of", lambda _: found)
    monkeypatch.setattr(build, "_come_together", lambda _: True)
    assert collected(build_vectors(df, eager=True)) == reference(table)


@pytest.mark.everywhere
def test_only_names_that_the_sample_misses_cross(spark: SparkSession) -> None:
    same = ["s3://b/plumless", "s3://b/buckeroo"]  # of one CRC-32
    rows = [
        f"('{same[0]}', 7L)",
        f"('{same[1]}', 8L)",
        "('a', 9L)",
        "('c', 1L)",
        "('a', shiftleft(1L, 48))",
        "('a', -1L)",
    ]
    df = spark.sql(f"SELECT * FROM VALUES {', '.join(rows)}, ('a', NULL) AS t (data_file, pos)")
    found = {tuple(row) for row in SampledFiles(pa.array(["a", *same])).numbered(df).collect()}
    known = {(9, None), ((2 << 48) + 8, None)}
    assert found == known | {(None, "a"), (-1, "a"), (1 << 48, "a"), (1, "c"), (7, same[0])}
    missing = SampledFiles(pa.array(["a"])).numbered(df.withColumn("data_file", sf.lit(None).cast("string")))
    with pytest.raises(Exception, match="rows name no data file"):
        missing.collect()


def test_rows_of_both_kinds_are_vectors() -> None:
    files = SampledFiles(pa.array(["a", "b"]))
    batch = pa.record_batch(
        [pa.array([3, (1 << 48) + 7, 5, 1 << 50]), pa.array([None, None, "c", "b"])], ["key", "name"]
    )
    found: dict[str, list[int]] = {}
    for vectors in files(iter([batch, batch.slice(0, 2), batch.slice(2), batch.slice(0, 0)])):
        for name, _, data in zip(*vectors.to_pydict().values(), strict=True):
            found.setdefault(name, []).extend(iceberg.decode(data))
    assert found == {"a": [3], "b": [7, 1 << 50], "c": [5]}
    assert list(files(iter([]))) == []


def test_what_a_sample_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = ["a", "b", "c"] * 20
    known = SampledFiles.of(sample(*mixed, None))
    assert known is not None
    assert known.names.to_pylist() == ["a", "b", "c"]
    assert SampledFiles.of(sample(*(["a"] * 50))) is not None
    assert SampledFiles.of(sample(*sorted(mixed))) is None, "file by file: others follow"
    assert SampledFiles.of(sample(*mixed, *"defg")) is None, "most names are new"
    assert SampledFiles.of(sample()) is SampledFiles.of(sample(None)) is None
    monkeypatch.setattr(keyed_rows, "_SAMPLED_FILES", 2)
    assert SampledFiles.of(sample(*mixed)) is None


def test_a_plan_that_asks_for_a_sample(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SampledFiles | None] = []
    made = SampledFiles.of

    def recorded(names: pa.ChunkedArray) -> SampledFiles | None:
        asked.append(made(names))
        return asked[-1]

    monkeypatch.setattr(SampledFiles, "of", recorded)
    table = rows("random")
    df = spark.read.parquet(write(tmp_path / "deletes", table))
    assert collected(build_vectors(df)) == collected(build_vectors(df, strategy="partial", eager=True))
    assert not asked
    assert collected(build_vectors(df, eager=True)) == reference(table)
    assert len(asked) == 1
    assert asked[0] is not None
    assert collected(build_vectors(df.limit(0), eager=True)) == {}
    one = spark.range(50).select(sf.lit("one").alias("file_path"), sf.col("id").alias("pos"))
    assert collected(build_vectors(one, eager=True)) == {"one": iceberg.encode(RowSet(range(50)))}
