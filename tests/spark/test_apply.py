"""apply and deleted on real Parquet, against pyarrow reading each file and deleting by position."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyspark.sql import functions as sf

from dvcodec import RowSet, UsageError, delta, iceberg, paimon
from dvcodec.core.ragged import offsets_of
from dvcodec.spark.compat import HAS_SOURCES
from dvcodec.spark.jobs import apply, build_vectors, deleted, positions, unmatched
from dvcodec.spark.jobs.apply import CHUNK_BITS, estimated_bytes, words_of
from dvcodec.spark.paths import file_uri_of
from dvcodec.spark.vectors import NamedVectors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

applying = import_module("dvcodec.spark.jobs.apply")
ROWS = 3_000
DAYS = ["plain", "a b", "50%", "a%20b", "x#y?", "été 漢", "[1]^{2}|+&=~'", 'q"<>`\\']
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table by days whose names try every spelling; files of many row groups, read in many splits."""
    root = tmp_path_factory.mktemp("apply") / "t"
    day = sf.element_at(sf.array(*map(sf.lit, DAYS)), (sf.col("id") % len(DAYS)).cast("int") + 1)
    rows = spark.range(ROWS * len(DAYS)).select(
        "id", sf.sha1(sf.col("id").cast("string")).alias("text"), day.alias("day")
    )
    rows.repartition(2, "day").write.option("parquet.block.size", 20_000).partitionBy("day").parquet(str(root))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "40k")
    yield str(root)
    spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.fixture(scope="module")
def files(table: str) -> list[str]:
    found = sorted(str(path) for path in Path(table).rglob("*.parquet"))
    assert len(found) >= len(DAYS)
    assert all(pq.ParquetFile(path).num_row_groups >= 3 for path in found)
    return found


def deletes(files: list[str], seed: int = 1) -> dict[str, RowSet]:
    """Random, clustered and whole files of deletes, some beyond the end of the file; one file has none."""
    chance = np.random.default_rng(seed)
    found = {}
    for i, path in enumerate(files):
        count = pq.ParquetFile(path).metadata.num_rows
        kinds: list[Callable[[], RowSet]] = [
            lambda n=count: RowSet(chance.integers(0, n, n // 50)),  # type: ignore[misc]
            lambda n=count: RowSet.from_ranges([(a, a + 70) for a in range(0, n, 350)]),  # type: ignore[misc]
            lambda n=count: RowSet(range(n)),  # type: ignore[misc]
            lambda n=count: RowSet([0, 63, 64, 4095, 4096, n - 1, n, n + 1, 2**33 + 5, 2**41]),  # type: ignore[misc]
            lambda n=count: RowSet(range(0, n, 2)),  # type: ignore[misc]
            RowSet,
        ]
        if i != 1:
            found[path] = kinds[i % len(kinds)]()
    return found


def vectors(
    spark: SparkSession, rows: dict[str, RowSet], encode: Callable[[RowSet], bytes] = iceberg.encode
) -> DataFrame:
    data = [(path, bytearray(encode(positions))) for path, positions in rows.items()]
    return spark.createDataFrame(data, "data_file string, dv binary")


def kept(files: list[str], rows: dict[str, RowSet], *, keep: bool = True) -> set[int]:
    """Ids that live (or do not), by the position of each row in its file."""
    found: set[int] = set()
    for path in files:
        ids = pq.read_table(path, columns=["id"], partitioning=None)["id"].to_numpy()
        mask = rows.get(path, RowSet()).mask(0, len(ids))
        found.update(ids[mask != keep].tolist())
    return found


def ids(df: DataFrame) -> set[int]:
    found = [row["id"] for row in df.select("id").collect()]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.everywhere
@pytest.mark.parametrize("strategy", ["broadcast", "shuffle", "auto"])
def test_rows_that_live_and_rows_that_do_not(strategy: Any, spark: SparkSession, table: str, files: list[str]) -> None:
    rows = deletes(files)
    df = spark.read.parquet(table)
    dvs = vectors(spark, rows).repartition(3)
    left = apply(df, dvs, strategy=strategy)
    assert left.columns == df.columns
    assert left.schema == df.schema
    assert ids(left) == kept(files, rows)
    assert ids(deleted(df, dvs, strategy=strategy)) == kept(files, rows, keep=False)


@pytest.mark.everywhere
def test_words_of_small_vectors_are_part_of_the_plan(
    spark: SparkSession, table: str, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = deletes(files, 4)
    df, want = spark.read.parquet(table), kept(files, rows)
    dvs = vectors(spark, rows)

    def reads_vectors(df: DataFrame) -> bool:
        frame: Any = df
        plan = frame._jdf.queryExecution().optimizedPlan() if hasattr(frame, "_jdf") else frame._explain_string()
        return "MapInArrow" in str(plan)

    left = apply(df, dvs)
    assert not reads_vectors(left) or not HAS_SOURCES, "Spark 3.5 takes no Arrow table but from a function"
    assert ids(left) == want
    assert reads_vectors(apply(df, dvs.repartition(8))), "tasks from the fifth on return no words"
    assert ids(apply(df, dvs.repartition(8))) == want
    sized = dvs.withColumns({"cardinality": sf.lit(9), "min": sf.lit(0), "max": sf.lit(9)})
    assert reads_vectors(apply(df, sized)), "their size is known without them"
    monkeypatch.setattr(applying, "_WORD_BYTES", 5_000)
    left = apply(df, dvs.coalesce(1))
    assert reads_vectors(left), "too large"
    assert ids(left) == want
    none = apply(df, vectors(spark, {files[0]: RowSet()}))
    assert ids(none) == kept(files, {})


@pytest.mark.everywhere
def test_row_groups_that_push_down_skips_still_count(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    numbers = np.arange(50_000)
    pq.write_table(pa.table({"id": numbers, "_metadata": numbers, "key": numbers}), path, row_group_size=1_000)
    df = spark.read.parquet(str(path)).where("id between 30500 and 31500")
    dvs = vectors(spark, {str(path): RowSet([30_600, 31_400, 5])})
    left = apply(df, dvs)
    assert left.columns == ["id", "_metadata", "key"], "though some are called like Spark's own"
    assert ids(left) == set(range(30_500, 31_501)) - {30_600, 31_400}
    assert ids(deleted(df, dvs)) == {30_600, 31_400}


def test_several_vectors_of_one_file_all_apply(spark: SparkSession, files: list[str]) -> None:
    first, second = RowSet(range(0, 2_900, 5)), RowSet(range(0, 2_900, 7))
    dvs = vectors(spark, {files[0]: first}).union(vectors(spark, {f"file://{files[0]}": second}))
    df = spark.read.parquet(files[0])
    assert ids(apply(df, dvs)) == kept(files[:1], {files[0]: first | second})
    assert ids(deleted(df, dvs)) == kept(files[:1], {files[0]: first | second}, keep=False)


def test_names_of_data_files(spark: SparkSession, table: str, files: list[str], tmp_path: Path) -> None:
    rows = deletes(files[:4], 4)
    df = spark.read.parquet(table)
    want = kept(files, rows)
    uris = {file_uri_of(path): positions for path, positions in rows.items()}
    assert ids(apply(df, vectors(spark, uris), match="uri")) == want
    # files[2] and others are in folders that are encoded: as plain text, the URI is another file.
    assert ids(apply(df, vectors(spark, uris))) == want
    with pytest.raises(UsageError, match="no vector matches a file that is read"):
        apply(df, vectors(spark, uris), match="plain")
    assert ids(apply(df, vectors(spark, rows), match="plain", unmatched="fail")) == want
    with pytest.raises(UsageError, match="needs distinct file names"):
        apply(df, vectors(spark, rows), match="name")
    folder = tmp_path / "flat"
    folder.mkdir()
    for i, name in enumerate(["a b.parquet", "a%20b.parquet", "c+é.parquet"]):
        pq.write_table(pa.table({"id": np.arange(100) + 100 * i}), folder / name)
    flat = spark.read.parquet(str(folder))
    named = {"elsewhere/a b.parquet": RowSet([1]), "a%20b.parquet": RowSet([2]), "s3://b/c+é.parquet": RowSet([3])}
    assert ids(deleted(flat, vectors(spark, named), match="name")) == {1, 102, 203}


def test_vectors_that_match_no_file(spark: SparkSession, table: str, files: list[str], tmp_path: Path) -> None:
    df = spark.read.parquet(table)
    rows = deletes(files, 5)
    encoded = file_uri_of(next(path for path in files if "a%2520b" in path))
    strangers = [f"{table}/day=plain/gone.parquet", file_uri_of(f"{table}/day=a%2520b/gone.parquet")]
    dvs = vectors(spark, {**rows, **{path: RowSet([1]) for path in strangers}}).withColumn("snapshot", sf.lit(7))
    found = unmatched(df, dvs)
    assert found.columns == dvs.columns
    assert {row["data_file"] for row in found.collect()} == set(strangers)
    raw = vectors(spark, {encoded: RowSet([1])})
    assert [unmatched(df, raw, match=how).count() for how in ("path", "uri", "plain")] == [0, 0, 1]
    with pytest.raises(UsageError, match=r"vectors for data files that are not read: .*gone\.parquet"):
        apply(df, dvs, unmatched="fail")
    assert ids(apply(df, dvs)) == kept(files, rows)
    assert ids(apply(df, vectors(spark, rows), unmatched="fail")) == kept(files, rows)
    one = spark.read.parquet(files[0])
    named = vectors(spark, {files[0].rpartition("/")[2]: RowSet([1]), "other": RowSet([1])})
    assert [row["data_file"] for row in unmatched(one, named, match="name").collect()] == ["other"]


def test_vectors_of_which_none_matches(
    spark: SparkSession, table: str, files: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    df = spark.read.parquet(table)
    dvs = vectors(spark, {f"s3://elsewhere{path}": RowSet([0]) for path in files})
    numbered = dvs.selectExpr("*", "1L AS cardinality", "0L AS min", "0L AS max")
    name = re.escape(min(f"s3://elsewhere{path}" for path in files))
    words = rf"no vector matches a file that is read.*: vectors name '{name}', rows come from 'file:/.*parquet';"
    cases: Any = ((apply, dvs, "auto"), (apply, numbered, "auto"), (deleted, dvs, "broadcast"))
    for job, given, strategy in cases:
        with pytest.raises(UsageError, match=words):
            job(df, given, strategy=strategy)
        assert ids(apply(df, given, strategy=strategy, unmatched="ignore")) == kept(files, {})
    # Vectors of no data file at all, and vectors where no file is read, are nothing wrong.
    assert ids(apply(df, dvs.limit(0), strategy="shuffle")) == kept(files, {})
    assert ids(apply(df.where("false"), dvs)) == set()
    one = vectors(spark, {files[0]: RowSet([0])})
    with caplog.at_level("INFO", "dvcodec.paths"):
        assert ids(apply(df, dvs.union(one))) == kept(files, {files[0]: RowSet([0])})
    assert f"{len(files)} of {len(files) + 1} vectors match no file that is read" in caplog.text


def test_raw_file_paths_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t" / "ts=2020-01-01 10%3A00"
    folder.mkdir(parents=True)
    names = ["a b%20é+#.parquet", "plain.parquet"]
    for i, name in enumerate(names):
        pq.write_table(pa.table({"id": np.arange(100) + 100 * i}), folder / name)
    df = spark.read.parquet(str(folder))
    raw = df.where("id in (3, 177)").select("_metadata.file_path", sf.col("_metadata.row_index").alias("pos"))
    built = build_vectors(raw)
    assert {row["data_file"] for row in built.collect()} == {file_uri_of(f"{folder}/{name}") for name in names}
    for strategy in ("broadcast", "shuffle"):
        assert ids(deleted(df, built, strategy=strategy, unmatched="fail")) == {3, 177}
    assert unmatched(df, built).count() == 0
    assert ids(deleted(df, build_vectors(positions(df.where("id in (3, 177)"))), unmatched="fail")) == {3, 177}
    # A folder whose name has a % says which spelling it is; without it, a name may be that of two files.
    named = vectors(spark, {f"{folder}/a b%20é+#.parquet": RowSet([3])})
    assert ids(deleted(df, named)) == {3}
    folder = tmp_path / "u"
    folder.mkdir()
    pq.write_table(pa.table({"id": np.arange(100) + 200}), folder / "x y.parquet")
    pq.write_table(pa.table({"id": np.arange(100) + 300}), folder / "x%20y.parquet")
    both = spark.read.parquet(str(folder))
    dvs = vectors(spark, {f"{folder}/x%20y.parquet": RowSet([5])})
    with pytest.raises(Exception, match="choose one with match='plain' or match='uri'"):
        apply(both, dvs).count()
    assert ids(deleted(both, dvs, match="plain")) == {305}
    assert ids(deleted(both, dvs, match="uri")) == {205}
    assert ids(deleted(both, vectors(spark, {f"{folder}/x y.parquet": RowSet([5])}))) == {205}


def test_vectors_that_are_not_valid_fail(spark: SparkSession, files: list[str]) -> None:
    df = spark.read.parquet(files[0])
    nothing = spark.createDataFrame([(files[0], None, "CRC-32")], "data_file string, dv binary, error string")
    with pytest.raises(Exception, match=r"has no vector \(CRC-32\)"):
        apply(df, nothing, strategy="broadcast").count()
    bad = bytearray(iceberg.encode(RowSet([1, 2, 3])))
    bad[30] ^= 1
    broken = spark.createDataFrame([(files[0], bad)], "data_file string, dv binary")
    for strategy in ("auto", "shuffle"):
        with pytest.raises(Exception, match=r"vector of .*parquet.*CRC-32"):
            apply(df, broken, strategy=strategy).count()


@pytest.mark.everywhere
def test_arguments(spark: SparkSession, files: list[str], tmp_path: Path) -> None:
    df, dvs = spark.read.parquet(files[0]), vectors(spark, {files[0]: RowSet([1])})
    for arguments in ({"strategy": "x"}, {"match": "x"}, {"unmatched": "x"}):
        with pytest.raises(UsageError, match=r"no .* 'x', only"):
            apply(df, dvs, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no dv"):
        apply(df, dvs.drop("dv"))
    df.write.orc(str(tmp_path / "orc"))
    for other in (spark.read.orc(str(tmp_path / "orc")), df.join(df.select("id"), "id", "left_semi")):
        for job in (apply, deleted, unmatched):
            with pytest.raises(
                UsageError, match=rf"^{job.__name__} needs .* shows no _metadata\.row_index: read files"
            ):
                job(other, dvs)
    with pytest.raises(UsageError, match="column data_file"):
        unmatched(df, dvs.drop("data_file"))


def test_size_decides_between_strategies(spark: SparkSession, files: list[str]) -> None:
    rows = {files[0]: RowSet(range(0, 5_000, 3))}
    df, dvs = spark.read.parquet(files[0]), vectors(spark, rows)
    numbered = dvs.selectExpr("*", "1667L AS cardinality", "0L AS min", "4998L AS max")
    for given in (dvs, numbered):
        for limit, join in ((1 << 20, "BroadcastHashJoin"), (100, "ShuffledHashJoin")):
            left = apply(df, given, broadcast_bytes=limit)
            # One long is the only key: the comparison of names must not have become another.
            assert re.search(rf"{join} \[[^\[\]]*\], \[__dvcodec_key#\d+L\], LeftAnti", explained(left))
            assert ids(left) == kept(files[:1], rows)


def test_data_files_whose_keys_collide(spark: SparkSession, tmp_path: Path) -> None:
    seen: dict[int, str] = {}
    pairs = []
    for number in np.random.default_rng(1).integers(0, 2**62, 300_000).tolist():
        path = str(tmp_path / f"{number:x}.parquet")
        other = seen.setdefault(zlib.crc32(file_uri_of(path).encode()), path)
        if other != path:
            pairs.append((other, path))
    assert pairs  # ten are to be expected
    chosen = [path for pair in pairs[:3] for path in pair]
    for i, path in enumerate(chosen):
        pq.write_table(pa.table({"id": np.arange(1000 * i, 1000 * i + 1000)}), path)
    rows = {path: RowSet(range(i, 1000, 2 + i)) for i, path in enumerate(chosen)}
    df = spark.read.parquet(*chosen)
    for some in (rows, dict(list(rows.items())[::2]), dict(list(rows.items())[1::2])):
        assert ids(apply(df, vectors(spark, some))) == kept(chosen, some)
        assert ids(deleted(df, vectors(spark, some), strategy="shuffle")) == kept(chosen, some, keep=False)


def explained(df: DataFrame) -> str:
    with redirect_stdout(StringIO()) as out:
        df.explain()
    return out.getvalue()


# ---------------------------------------------------------------------- words


def named(rows: list[RowSet], encode: Callable[[RowSet], bytes] = iceberg.encode) -> NamedVectors:
    names = [str(i) for i in range(len(rows))]
    return NamedVectors.of(pa.array(names, pa.string()), pa.array([encode(one) for one in rows], pa.binary()))


def looked_up(vectors: NamedVectors) -> list[set[int]]:
    """Read words the slow way."""
    found: list[set[int]] = [set() for _ in vectors.files]
    chunks: set[tuple[int, int]] = set()
    for part in words_of(vectors):
        bounds = offsets_of(part.counts).tolist()
        assert bounds[-1] == len(part.words)
        for k, (owner, chunk, first) in enumerate(zip(part.owner, part.chunk, part.first, strict=True)):
            words: NDArray[np.int64] = part.words[bounds[k] : bounds[k + 1]]
            assert words[0]
            assert words[-1]
            assert 0 <= first < first + len(words) <= 64
            assert (int(owner), int(chunk)) not in chunks
            chunks.add((int(owner), int(chunk)))
            bits = np.unpackbits(words.view(np.uint8), bitorder="little")
            base = (int(chunk) << CHUNK_BITS) + 64 * int(first)
            found[int(owner)].update(base + int(bit) for bit in np.flatnonzero(bits))
    return found


def test_words_hold_the_rows() -> None:
    chance = np.random.default_rng(7)
    rows = [
        RowSet(),
        RowSet([0]),
        RowSet([63, 64, 4095, 4096, 2**32 - 1, 2**32, 2**62]),
        RowSet(chance.integers(0, 1 << 21, 40_000)),
        RowSet(chance.integers(0, 1 << 40, 20_000)),
        RowSet.from_ranges([(5, 100_000), (2**32 - 70_000, 2**32 + 70_000), (2**33, 2**33 + 1)]),
        RowSet([*range(0, 131_072, 2), *range(1 << 20, (1 << 20) + 300)]),
        *(RowSet(chance.integers(0, 20_000, int(n))) for n in chance.integers(0, 2_000, 50)),
    ]
    for runs in (True, False):
        encode = partial(iceberg.encode, run_optimize=runs, gap_keys=False)
        assert looked_up(named(rows, encode)) == [set(one) for one in rows]
    near = [one for one in rows if (one.max or 0) < 2**31]
    for of_format in (paimon.encode, partial(delta.encode, layout="native")):
        assert looked_up(named(near, of_format)) == [set(one) for one in near]


def test_runs_are_not_expanded() -> None:
    count = sum(len(part.chunk) for part in words_of(named([RowSet(range(1 << 28))])))
    assert count == 1 << (28 - CHUNK_BITS)


def test_the_estimate_is_near_the_words() -> None:
    chance = np.random.default_rng(8)
    for share in (0.000_01, 0.001, 0.01, 0.3):
        rows = [RowSet(np.flatnonzero(chance.random(400_000) < share)) for _ in range(5)]
        vectors = named(rows)
        found = vectors.found
        words = list(words_of(vectors))
        exact = sum(200 * len(part.chunk) + 8 * len(part.words) for part in words)
        assert 0.7 * exact <= estimated_bytes(found.cardinality, found.min, found.max) <= 1.4 * exact + 1000
