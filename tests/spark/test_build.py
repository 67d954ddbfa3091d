"""build_vectors and merge, against plain Python."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from dvcodec import RowSet, UsageError, iceberg
from dvcodec.spark import hand_over, tasks
from dvcodec.spark.columns import VECTORS
from dvcodec.spark.jobs import build
from dvcodec.spark.jobs.build import STRATEGIES, Strategy, build_vectors, positions
from dvcodec.spark.jobs.change import merge
from dvcodec.spark.sources.position_deletes import PositionDeleteReader
from samples.position_rows import collected, reference, rows, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def values(spark: SparkSession, *rows: tuple[str | None, int | None]) -> DataFrame:
    """Rows that come from no Python function, so that their hand-over is fast."""
    texts = [f"({'NULL' if f is None else repr(f)}, {'NULL' if p is None else f'{p}L'})" for f, p in rows]
    return spark.sql(f"SELECT * FROM VALUES {', '.join(texts)} AS t (file_path, pos)")


@pytest.mark.parametrize(
    "order", [pytest.param(o, marks=[pytest.mark.everywhere] * (o == "random")) for o in ("random", "far")]
)
def test_every_strategy_gives_the_bytes_of_plain_python(order: str, spark: SparkSession, tmp_path: Path) -> None:
    table = rows(order)
    folder = write(tmp_path / "deletes", table)
    want = reference(table)
    df = spark.read.parquet(folder)
    for strategy in STRATEGIES:
        found = build_vectors(df.repartition(7), strategy=strategy, partitions=5)  # type: ignore[arg-type]
        assert collected(found) == want, strategy
    assert collected(build_vectors(folder, spark=spark)) == want
    assert collected(build_vectors([f"{folder}/{i}.parquet" for i in range(3)])) == want


@pytest.mark.parametrize(("strategy", "eager"), [("partial", False), ("shuffle", False), ("auto", True)])
def test_names_that_are_not_utf8(strategy: Strategy, eager: bool, spark: SparkSession) -> None:
    df = spark.sql("SELECT cast(X'61FF' AS string) AS file_path, id AS pos FROM range(100)")
    with pytest.raises(
        Exception, match=r"UsageError: 'a\\udcff': a data file whose name is not UTF-8|^'a\\udcff': a data"
    ):
        build_vectors(df, strategy=strategy, eager=eager).collect()


@pytest.mark.parametrize(("strategy", "eager"), [("partial", False), ("shuffle", False), ("auto", True)])
def test_names_of_a_collation_are_told_apart_by_their_bytes(
    strategy: Strategy, eager: bool, spark: SparkSession
) -> None:
    texts = "SELECT element_at(array('A', 'a', 'b'), cast(id % 3 AS int) + 1) AS name, id AS pos FROM range(300)"
    df = spark.sql(f"SELECT name COLLATE UTF8_LCASE AS file_path, pos FROM ({texts})")
    want = {name: iceberg.encode(RowSet(range(i, 300, 3))) for i, name in enumerate(("A", "a", "b"))}
    assert collected(build_vectors(df, strategy=strategy, eager=eager)) == want


@pytest.mark.everywhere
def test_files_are_split_at_row_groups(spark: SparkSession, tmp_path: Path) -> None:
    table = rows("random")
    folder = write(tmp_path / "deletes", table, parts=2, row_group=500)
    size = sum(path.stat().st_size for path in Path(folder).iterdir())
    partials = tasks.read(spark, PositionDeleteReader([folder], "file_path", "pos", size // 11), VECTORS)
    assert partials.select(sf.spark_partition_id()).distinct().count() >= 9
    assert collected(merge(partials)) == reference(table)


def test_nothing_gives_nothing(spark: SparkSession, tmp_path: Path) -> None:
    assert collected(build_vectors(tmp_path, spark=spark)) == {}
    df = spark.createDataFrame([], "file_path string, pos long")
    for strategy in STRATEGIES:
        assert collected(build_vectors(df, strategy=strategy)) == {}  # type: ignore[arg-type]


@pytest.mark.everywhere
def test_arguments(spark: SparkSession) -> None:
    df = spark.createDataFrame([], "file_path string, pos long")
    with pytest.raises(UsageError, match="no strategy 'fast'"):
        build_vectors(df, strategy="fast")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="partitions must be at least 1"):
        build_vectors(df, strategy="partial", partitions=0)
    with pytest.raises(UsageError, match="read in the workers"):
        build_vectors("x", strategy="shuffle")
    for schema, message in (
        ("file_path long, pos long", "'file_path' holds bigint, not strings"),
        ("file_path string, pos double", "'pos' holds double, not integers"),
    ):
        with pytest.raises(UsageError, match=message):
            build_vectors(spark.createDataFrame([], schema))
    text = r"columns file_path and pos: .*file_path.* build_vectors\(positions\(rows\)\); .* are file_col= and pos_col="
    with pytest.raises(UsageError, match=text):
        build_vectors(spark.range(3))
    nested = spark.sql("SELECT named_struct('f', 'a') AS m, CAST(id AS INT) AS p FROM range(5)")
    assert collected(build_vectors(nested, "m.f", "p")) == {"a": iceberg.encode(RowSet(range(5)))}


@pytest.mark.parametrize(
    ("row", "strategy", "eager", "message"),
    [
        ((None, 1), "auto", True, "name no data file"),
        (("a", None), "shuffle", False, "no position"),
        (("a", None), "auto", True, "no position"),
        (("a", -1), "partial", False, "negative"),
    ],
)
def test_nulls_and_negative_positions_fail(
    row: tuple[str | None, int | None], strategy: Strategy, eager: bool, message: str, spark: SparkSession
) -> None:
    df = values(spark, ("a", 7), row)
    with pytest.raises(Exception, match=message):
        build_vectors(df, strategy=strategy, eager=eager).collect()


def test_parquet_without_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"file_path": ["a"], "position": [1]}), tmp_path / "x.parquet")
    with pytest.raises(Exception, match="no column 'pos'"):
        build_vectors(str(tmp_path)).collect()
    found = build_vectors(str(tmp_path), pos_col="position")
    assert collected(found) == {"a": iceberg.encode(RowSet([1]))}


@pytest.mark.everywhere
def test_rows_of_a_scan_cross_without_their_paths(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(4):
        pq.write_table(pa.table({"id": np.arange(i, 3000, i + 1)}), tmp_path / f"day=%3A é+#{i}.parquet")
    want = {
        f"file:{path}": iceberg.encode(RowSet(np.flatnonzero(pq.read_table(path)["id"].to_numpy() % 7 < 3)))
        for path in map(str, tmp_path.glob("*.parquet"))
    }
    rows = positions(spark.read.parquet(str(tmp_path)).where("id % 7 < 3"))
    frame = type(rows)
    files = frame.inputFiles
    assert collected(build_vectors(rows)) == want
    assert collected(build_vectors(rows.where("pos >= 0"))) == want, "made from those rows, and so with their paths"
    monkeypatch.setattr(frame, "inputFiles", lambda self: files(self)[1:])
    with pytest.raises(Exception, match="did not list"):
        build_vectors(rows).collect()
    monkeypatch.setattr(hand_over, "MOST_FILES", 1)
    assert collected(build_vectors(rows)) == want, "with their paths, as files are many"
    far = spark.range(3).select(hand_over.packed(sf.lit("a"), sf.shiftleft("id", 31)))
    assert far.limit(2).count() == 2
    with pytest.raises(Exception, match="more than 32 bits"):
        far.collect()


@pytest.mark.everywhere
def test_merge_unites_vectors_and_positions(spark: SparkSession, tmp_path: Path) -> None:
    old, new = rows("random", 5_000, seed=2), rows("clustered", 5_000, seed=3)
    first = build_vectors(spark.read.parquet(write(tmp_path / "old", old)))
    second = spark.read.parquet(write(tmp_path / "new", new))
    want = reference(pa.concat_tables([old, new]))
    assert collected(merge(first, second)) == want
    assert collected(merge(first, build_vectors(second), first)) == want


def test_spellings_of_one_file_are_one(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(pa.table({"id": np.arange(100)}), tmp_path / f"a b%20é+#{i}.parquet")
    paths = sorted(str(path) for path in tmp_path.glob("*.parquet"))
    df = spark.read.parquet(str(tmp_path)).where("id % 10 = 0")
    frames = [(path, bytearray(iceberg.encode(RowSet([1, 2])))) for path in paths]
    stored = spark.createDataFrame(frames, "data_file string, dv binary")
    want = {path: iceberg.encode(RowSet([1, 2, *range(0, 100, 10)])) for path in paths}
    assert collected(merge(stored, build_vectors(positions(df)))) == want
    assert collected(merge(build_vectors(positions(df)), stored)) == {f"file:{path}": want[path] for path in paths}
    with pytest.raises(Exception, match="may be one data file, percent-encoded and in plain text, or two"):
        merge(stored, df.select("_metadata.file_path", sf.col("_metadata.row_index").alias("pos"))).collect()
    rows = [("s3://b/x", 1), ("s3a://b/x", 2), ("S3://b//x/", 3), ("gs://b/x", 4)]
    given = spark.createDataFrame(rows, "file_path string, pos long")
    for strategy in STRATEGIES:
        built = collected(build_vectors(given, strategy=strategy))  # type: ignore[arg-type]
        assert built == {"S3://b//x/": iceberg.encode(RowSet([1, 2, 3])), "gs://b/x": iceberg.encode(RowSet([4]))}


def test_merge_keeps_a_lone_vector_as_it_is_and_names_a_broken_one(spark: SparkSession) -> None:
    odd = iceberg.encode(RowSet(range(100)), run_optimize=False)
    dvs = spark.createDataFrame([("a", bytearray(odd))], "data_file string, dv binary")
    assert collected(merge(dvs)) == {"a": odd}
    bad = bytearray(odd)
    bad[40] ^= 1
    with pytest.raises(Exception, match=r"vector of a.*CRC-32"):
        merge(spark.createDataFrame([("a", bad)], "data_file string, dv binary")).collect()
    with pytest.raises(Exception, match="'a' has no vector"):
        merge(spark.createDataFrame([("a", None)], "data_file string, dv binary")).collect()
    with pytest.raises(UsageError, match="no dv"):
        merge(dvs.drop("dv"))


# ---------------------------------------------------------------------- workers that die, tasks that fail


Plan = Callable[[Iterator[Any]], Iterator[Any]]


def faulty(plan: Plan, marker: Path, how: str) -> Plan:
    """A plan whose first task dies (or fails) when it has read something."""
    path = str(marker)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def broken() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                try:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                if how == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("failed once")

        yield from plan(broken())

    return run


@pytest.mark.parametrize(("phase", "how"), [("encode_rows", "is killed"), ("union_vectors", "fails")])
def test_a_task_that_dies_once_is_repeated(
    phase: str, how: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows("clustered", 9_000)
    df = spark.read.parquet(write(tmp_path / "deletes", table))
    monkeypatch.setattr(build, phase, faulty(getattr(build, phase), tmp_path / "died", how))
    assert collected(build_vectors(df, strategy="partial")) == reference(table)
    assert (tmp_path / "died").exists()
