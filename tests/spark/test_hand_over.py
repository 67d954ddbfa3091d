"""Rows cross to Python in large batches and as numbers: the vectors are those of plain Python."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

from dvcodec import RowSet, UsageError, iceberg
from dvcodec.spark import hand_over
from dvcodec.spark.hand_over import (
    BATCH_ROWS,
    SampledFiles,
    ScannedFiles,
    hands_over,
    small_shuffles,
    task_bytes,
    without_byte_limit,
)
from dvcodec.spark.jobs import build, build_vectors, positions
from samples.position_rows import collected, reference, rows, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BYTES, ROWS = "spark.sql.execution.arrow.maxBytesPerBatch", "spark.sql.execution.arrow.maxRecordsPerBatch"
FILES = "spark.sql.files.maxPartitionBytes"
SHUFFLED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


@pytest.mark.everywhere
@pytest.mark.parametrize("before", [{BYTES: "7000000", ROWS: "123"}, {ROWS: "0", SHUFFLED: "7m"}])
def test_settings_come_back(before: dict[str, str], spark: SparkSession) -> None:
    for key, value in before.items():
        spark.conf.set(key, value)

    def failing() -> None:
        with without_byte_limit(spark):
            with without_byte_limit(spark, batch_rows=10 * BATCH_ROWS):
                pass
            with small_shuffles(spark):
                assert spark.conf.get(SHUFFLED) == before.get(SHUFFLED, str(16 << 20))
            assert spark.conf.get(BYTES) == str(2**31 - 1)
            assert spark.conf.get(ROWS) == ("123" if before.get(ROWS) == "123" else str(BATCH_ROWS))
            raise ZeroDivisionError

    try:
        with pytest.raises(ZeroDivisionError):
            failing()
        assert {key: spark.conf.get(key, None) for key in before} == before
        assert all(spark.conf.get(key, None) is None for key in {BYTES, ROWS, SHUFFLED} - set(before))
    finally:
        for key in before:
            spark.conf.unset(key)


@pytest.mark.everywhere
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


@pytest.mark.everywhere
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


@pytest.mark.everywhere
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


def keys(uris: list[str], code: np.ndarray, pos: np.ndarray) -> pa.RecordBatch:
    """What `packed` gives."""
    hashes = np.array([zlib.crc32(uri.encode()) for uri in uris], np.uint64)
    return pa.record_batch([pa.array((hashes[code] << np.uint64(32) | pos.astype(np.uint64)).view(np.int64))], ["key"])


@pytest.mark.parametrize("order", ["random", "ascending"])
def test_chunks_of_rows_are_vectors(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    uris = [f"file:/wh/a%20{i}.parquet" for i in range(30)]
    code, pos = chance.integers(0, 29, 20_000), chance.integers(0, 1 << 32, 20_000) % 90_001
    pos[:9], pos[9:18] = (1 << 32) - 1, 0
    if order == "ascending":  # file after file, the first one again at the end
        code, pos = np.append(np.sort(code), code.min()), np.append(pos, 7)
        pos = pos[np.lexsort((pos, np.append(code[:-1], 29)))]
    monkeypatch.setattr(hand_over, "CHUNK_ROWS", 6_000)
    files = ScannedFiles.of([uri.replace("file:/", "file:///") for uri in uris])
    assert files is not None
    whole = keys(uris, code, pos)
    found: dict[str, list[int]] = {}
    for batch in files(
        iter([whole.slice(0, 100), whole.slice(100, 0), *(whole.slice(at, 5000) for at in range(100, 20_000, 5000))])
    ):
        for name, count, data in zip(*batch.to_pydict().values(), strict=True):
            positions = iceberg.decode(data)
            assert count == len(positions)
            found.setdefault(name, []).extend(positions)
    want = {f"file:/wh/a {i}.parquet": sorted(set(pos[code == i].tolist())) for i in range(29)}
    assert {name: sorted(set(rows)) for name, rows in found.items()} == want
    assert len(list(files(iter([whole.slice(0, 0)])))) == 0


def test_hashes_that_are_not_distinct_and_files_that_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    same = ["s3://b/plumless", "s3://b/buckeroo"]  # of one length and CRC-32, and so in any folder
    assert len({zlib.crc32(uri.encode()) for uri in same}) == 1
    assert ScannedFiles.of([*same, "s3://b/c"]) is None
    assert ScannedFiles.of([same[0], same[0]]) is not None, "the same file twice"
    assert ScannedFiles.of(["s3://b/" + "a" * 4089]) is not None
    assert ScannedFiles.of(["s3://b/" + "a" * 4090]) is None, "too long for large batches"
    files = ScannedFiles.of(["s3://b/a", "s3://b/c"])
    assert files is not None
    other = keys(["s3://b/d"], np.array([0]), np.array([1]))
    with pytest.raises(UsageError, match="did not list"):
        list(files(iter([other])))
    (batch,) = files(iter([keys(["s3://b/c"], np.array([0]), np.array([1]))]))
    assert batch.to_pydict() == {"data_file": ["s3://b/c"], "cardinality": [1], "dv": [iceberg.encode(RowSet([1]))]}
    monkeypatch.setattr(hand_over, "MOST_FILES", 1)
    assert ScannedFiles.of(["s3://b/a", "s3://b/c"]) is None


def sample(*texts: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string())])


@pytest.mark.parametrize(
    "order", [pytest.param(o, marks=[pytest.mark.everywhere] * (o == "random")) for o in ("random", "many files")]
)
def test_a_sample_changes_no_byte(
    order: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows(order)
    df = spark.read.parquet(write(tmp_path / "deletes", table))
    names = table["file_path"].unique().to_pylist()
    found = SampledFiles(pa.array(names[::3]))
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


def test_what_a_sample_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = ["a", "b", "c"] * 20
    known = SampledFiles.of(sample(*mixed, None))
    assert known is not None
    assert known.names.to_pylist() == ["a", "b", "c"]
    assert SampledFiles.of(sample(*(["a"] * 50))) is not None
    assert SampledFiles.of(sample(*sorted(mixed))) is None, "file by file: others follow"
    assert SampledFiles.of(sample(*mixed, *"defg")) is None, "most names are new"
    assert SampledFiles.of(sample()) is SampledFiles.of(sample(None)) is None
    monkeypatch.setattr(hand_over, "_SAMPLED_FILES", 2)
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
