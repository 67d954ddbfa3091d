"""`jobs.delete` deletes the rows that Spark would, in one commit, whatever becomes of its tasks."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dvcodec import RowSet
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.spark import jobs
from dvcodec.spark.columns import arrow_schema
from dvcodec.spark.compat import frame_of
from dvcodec.spark.jobs import finders
from dvcodec.spark.jobs.finders import FOUND, Collected, WorkerFinder, jobs_of, pieces_of, spark_schema
from dvcodec.spark.vectors import encode
from dvcodec.tables import DataFile, enable, live_batches, open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.matching import Condition, ConditionFinder
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import Finder, plan_deletes, run
from dvcodec.tables.snapshots.reading import RowsSeen
from dvcodec.tables.table import Snapshot
from tables.deleting.random_tables import FORMATS, folder_table
from tables.deleting.random_where import SCHEMA, random_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILES = [random_rows(random.Random(number), 300 * number, 300) for number in range(3)]
ALL = pa.concat_tables(FILES)


@pytest.mark.everywhere
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] * (kind == "iceberg 2")) for kind in sorted(FORMATS)]
)
def test_commits_to_each_format(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    from pyspark.sql import functions as sf

    folder = tmp_path / "t"
    FORMATS[kind][0](folder, FILES)
    left = set(range(900))

    def check(done: Any, gone: Sequence[int]) -> None:
        assert done.committed
        assert done.rows == len(left.intersection(gone))
        left.difference_update(gone)
        assert live(folder) == sorted(left)

    some = (pc.field("key") >= 100) & (pc.field("key") <= 350) & ~(pc.field("nested", "deep") > 0)
    done = jobs.delete(spark, folder, some, read_by="workers")
    check(done, ALL.filter(some).column("key").to_pylist())
    assert (done.skipped > 0) == (kind in ("delta", "iceberg", "iceberg 2"))
    check(
        jobs.delete(spark, folder, "key % 3 = 0 AND (f < 0.3 OR upper(word) = 'A')"),
        [
            row["key"]
            for row in ALL.to_pylist()
            if row["key"] % 3 == 0 and ((row["f"] is not None and row["f"] < 0.3) or (row["word"] or "").upper() == "A")
        ],
    )
    keys = spark.createDataFrame([(850,), (851,), (None,), (5000,)], "key int")
    check(jobs.delete(spark, folder, keys=keys, on=["key"]), [850, 851])
    file = next(file.path for file in open_table(folder).snapshot().data_files)
    rows = spark.createDataFrame([(file, 0), (file, 0)], "file_path string, pos long")
    done = jobs.delete(spark, folder, positions=rows)
    assert done.rows <= 1
    left = set(live(folder))
    check(jobs.delete(spark, folder, sf.col("key") >= 800), range(800, 900))
    check(jobs.delete(spark, folder, pc.field("key").isin([1, 2, 3]), read_by="driver"), [1, 2, 3])
    check(jobs.delete(spark, folder, keys=pa.table({"key": [20, 21]}), on="key"), [20, 21])
    assert jobs.delete(spark, folder, positions={file: [1]}).rows <= 1
    assert not jobs.delete(spark, folder, "key > 5000").committed
    with pytest.raises(UsageError, match="no_such"):
        jobs.delete(spark, folder, "no_such = 1")


def test_little_is_read_without_a_job(tmp_path: Path) -> None:
    """Up to the share of the condition's columns in the data files' bytes; the same rows are found."""
    columns = ["key", "n"]
    FORMATS["paimon"][0](tmp_path / "t", FILES)
    snapshot = open_table(tmp_path / "t").snapshot()
    most = sum(file.size or 0 for file in snapshot.data_files) * len(columns) // len(snapshot.schema())
    session: Any = None  # a job would need it
    where = where_finder(" AND ".join(f"{column} > 5" for column in columns))
    near = WorkerFinder(session, where, near_bytes=most + 1)
    plan = plan_deletes(snapshot, prepared(near, snapshot))
    assert plan.deletes == plan_deletes(snapshot, prepared(where, snapshot)).deletes
    assert plan.deletes
    with pytest.raises(AttributeError, match="range"):
        plan_deletes(snapshot, prepared(WorkerFinder(session, where, near_bytes=most - 1), snapshot))


def prepared(finder: Finder, snapshot: Snapshot) -> Finder:
    finder.prepare(snapshot)
    return finder


def test_keys_match_in_the_types_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Exactly: as a common type, Spark takes a decimal that does not hold the digits of both."""
    deltalake = pytest.importorskip("deltalake")
    near = Decimal("1.000000000000000000000000000001")
    fine = pa.array([near, Decimal(1), Decimal(2)], pa.decimal128(38, 30))
    numbers = pa.array([1, 2, 3], pa.int32())
    rows = pa.table({"q": fine, "i": numbers, "id": numbers, "a.b": ["x", "y", "z"]})
    deltalake.write_deltalake(str(tmp_path / "t"), rows)
    enable(open_table(tmp_path / "t"))
    # `id` is the column of a range, too.
    assert jobs.delete(spark, tmp_path / "t", "length(`a.b`) = 1 AND id % 3 = 1", dry_run=True).rows == 1
    for keys, on, positions in (
        ("cast(1 as bigint) q", "q", [1]),
        ("cast(1 as decimal(38, 0)) q", "q", [1]),
        (f"cast({near} as decimal(38, 30)) i", "i", []),
        ("cast(3000000001 as bigint) i", "i", []),
        ("cast(3 as bigint) i", "i", [2]),
        ("'y' `a.b`, 2 i", ["i", "a.b"], [1]),
    ):
        done = jobs.delete(spark, tmp_path / "t", keys=spark.sql(f"SELECT {keys}"), on=on, dry_run=True)
        assert [list(one.rows) for one in done.deletes] == [positions][: len(positions)], keys


def test_what_cannot_be_asked(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    FORMATS["paimon"][0](folder, FILES)
    file = open_table(folder).snapshot().data_files[0].path
    keys = spark.createDataFrame([(1, "x")], "key long, word string")

    def refused(match: str, **asked: Any) -> None:
        with pytest.raises(UsageError, match=match):
            jobs.delete(spark, folder, **asked)

    refused("on: expected distinct columns", keys=keys, on=["key", "key"])
    refused("__dvcodec_at", where="__dvcodec_at = 1")
    refused("read_by='driver': only auto, spark, workers for what Spark evaluates", where="key = 1", read_by="driver")
    refused("read_by='spark': only auto, driver, workers for a pyarrow", where=pc.field("key") == 1, read_by="spark")
    refused("read_by='workers': only auto for", keys=pa.table({"key": [1]}), on="key", read_by="workers")
    refused("no read_by 'me'", where="key = 1", read_by="me")
    refused("keys: no column no_such .columns: key, word", keys=keys, on=["no_such"])
    refused(
        "keys: a DataFrame, Arrow data or the path of Parquet, not a list: spark.createDataFrame", keys=[1], on="key"
    )
    refused("positions: no column file_path", positions=keys)
    for pos in (-1, None):
        rows = spark.createDataFrame([(file, pos)], "file_path string, pos long")
        refused("positions: .*(negative|no position)", positions=rows)
    refused("no_such", where="no_such = 1")
    refused("CAST_INVALID_INPUT|'abc'", where="key = 'abc'")


@pytest.mark.everywhere
def test_a_condition_is_a_function_of_the_row(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    FORMATS["delta"][0](tmp_path / "t", FILES)
    coin = sf.udf(lambda _: random.random() < 0.5, "boolean").asNondeterministic()
    other = "n > (SELECT max(id) FROM range(9) WHERE id = key)"
    for where, why in (
        ("monotonically_increasing_id() = 0 AND key = 1", "depends on chance"),
        ("`rand`() < 0.5", "depends on chance"),
        ("key IN (SELECT id FROM range(9) WHERE rand() < 0.5)", "depends on chance"),
        (f"{other} AND reflect('java.util.UUID', 'randomUUID') > '8'", "depends on chance"),
        (coin("key"), "depends on chance"),
        ("hash(*) > 0", "name the columns instead of *"),
        (f"struct(*).key = 3 AND {other}", "name the columns instead of *"),
        (sf.hash("*") > 0, "name the columns instead of *"),
    ):
        with pytest.raises(UsageError) as err:
            jobs.delete(spark, tmp_path / "t", where)
        assert why in str(err.value)
    own = frame_of(spark, ALL, spark_schema(ALL.schema))
    for text in (
        "word IN ('rand()', '*', '__dvcodec_at') OR key * 2 = 8",
        f"key < (SELECT count(*) FROM range(3)) OR {other}",
        "key < 5 AND now() > TIMESTAMP '2020-01-01 00:00:00'",
    ):
        assert jobs.delete(spark, tmp_path / "t", text, dry_run=True).rows == own.where(text).count() > 0, text


@pytest.mark.everywhere
def test_parquet_without_a_table(spark: SparkSession, tmp_path: Path) -> None:
    folder, deletes = tmp_path / "a b", tmp_path / "a b/deletes"
    folder.mkdir()
    for number, rows in enumerate(FILES):
        pq.write_table(rows.drop_columns(["f"]), folder / f"{number}.parquet", row_group_size=100)
    with pytest.raises(UsageError, match="vectors="):
        jobs.delete(spark, folder, "key < 10")
    dry = jobs.delete(spark, folder, "key < 10", vectors=deletes, dry_run=True)
    assert (dry.rows, dry.committed, deletes.exists()) == (10, False, False)
    assert jobs.delete(spark, folder, "key BETWEEN 295 AND 304", vectors=deletes).rows == 10
    assert jobs.delete(spark, folder, "key % 100 = 7", vectors=deletes).rows == 9
    found = jobs.apply(spark.read.parquet(str(folder)), deletes)
    assert found.count() == 900 - 19
    with pytest.raises(UsageError, match="no table, and no Parquet files that Spark reads"):
        jobs.delete(spark, deletes, "key < 10", vectors=deletes)


class Flaky(Condition):
    """A condition whose first task fails, or dies, when it has evaluated rows."""

    name, columns, position = "flaky", ("key",), "position"

    def __init__(self, marker: Path, how: str) -> None:
        self.marker, self.how = str(marker), how

    def may_match(self, known: Any) -> bool:  # noqa: ARG002
        return True

    def positions(self, batch: Any, known: Any) -> Any:  # noqa: ARG002
        import os
        import signal

        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            keys = batch.column("key").to_numpy()
            return batch.column("position").to_numpy()[keys % 10 == 3]
        if self.how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("failed once")


@pytest.mark.parametrize("how", ["fails", "is killed"])
def test_a_task_that_fails_is_repeated(spark: SparkSession, tmp_path: Path, how: str) -> None:
    from pyspark import cloudpickle

    pickling: Any = cloudpickle
    folder = tmp_path / "t"
    FORMATS["iceberg"][0](folder, FILES)
    pickling.register_pickle_by_value(sys.modules[__name__])
    try:
        finder = WorkerFinder(spark, ConditionFinder(lambda _: Flaky(tmp_path / "marker", how)))
        done = run(committer_of(open_table(folder)), finder)
    finally:
        pickling.unregister_pickle_by_value(sys.modules[__name__])
    assert (tmp_path / "marker").exists()
    assert done.rows == 90
    assert len(list(folder.rglob("*.puffin"))) == 1
    assert not set(range(3, 900, 10)) & set(live(folder))


def test_each_part_of_each_file_comes_back_once() -> None:
    file = DataFile("f", "f", 10, 1)

    def row(part: int, rows: int, missing: str | None = None) -> Any:
        values = [[0], [part], [rows], [part], [encode(RowSet([part]))], [missing]]
        return pa.table(values, arrow_schema(FOUND).names)

    found = Collected([file])
    with pytest.raises(NotCanonical, match="found none"):
        found.check()
    found.add(row(0, 6))
    with pytest.raises(NotCanonical, match="expected 10 rows"):
        found.check()
    found.add(row(1, 4))
    found.check()
    assert found.found("f") == (RowSet([0, 1]), 1)
    with pytest.raises(NotCanonical, match="1 twice"):
        found.add(row(1, 4))
    with pytest.raises(FileNotFoundError, match="no f"):
        found.add(row(2, 0, "no f"))


def test_a_large_file_is_cut_by_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FORMATS["delta"][0](tmp_path / "t", [ALL])
    snapshot = open_table(tmp_path / "t").snapshot()
    file = max(snapshot.data_files, key=lambda one: one.size or 0)
    whole = pq.read_table(file.location)
    pq.write_table(whole, file.location, row_group_size=40)
    monkeypatch.setattr(finders, "PART_BYTES", (file.size or 0) // 3)
    found = [(tasks, pa.table({"id": range(len(tasks.packed))})) for tasks in jobs_of(snapshot, [file], ["key"])]
    cut = [piece for tasks, numbers in found for piece in pieces_of(tasks, iter(numbers.to_batches()))]
    assert len(cut) in (3, 4)
    read = [part for piece in cut for part in piece.read(1000, None, RowsSeen())]
    assert [part.start for part in read] == list(range(0, whole.num_rows, 40))
    assert pa.Table.from_batches([part.batch for part in read])["key"].equals(whole["key"])
    seen = RowsSeen()
    for piece in cut:
        assert not list(piece.read(1000, lambda _start, _rows, known: known["key"].lower is None, seen))
    assert (seen.rows, seen.groups_skipped) == (whole.num_rows, -(-whole.num_rows // 40))


@pytest.mark.everywhere
def test_a_stream_is_deleted_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    folder, incoming, checkpoint = tmp_path / "t", tmp_path / "in", tmp_path / "checkpoint"
    FORMATS["delta"][0](folder, FILES)
    delete = jobs.delete_batches(folder, "gdpr", on=["key"])
    spark.createDataFrame([(key,) for key in range(10)], "key long").coalesce(1).write.parquet(str(incoming))

    def stream() -> None:
        rows = spark.readStream.schema("key long").parquet(str(incoming))
        query = rows.writeStream.foreachBatch(delete).option("checkpointLocation", str(checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()

    stream()
    first = open_table(folder).snapshot().info.id
    assert live(folder) == list(range(10, 900))
    # The job died after the commit and before Spark's own: Spark repeats the batch.
    for file in [*checkpoint.glob("commits/0"), *checkpoint.glob("commits/.0.crc")]:
        file.unlink()
    stream()
    assert open_table(folder).snapshot().info.id == first
    # Even where its rows would now be others.
    delete(spark.createDataFrame([(500,)], "key long"), 0)
    assert open_table(folder).snapshot().info.id == first
    delete(spark.createDataFrame([(500,)], "key long"), 1)
    assert live(folder) == [key for key in range(10, 900) if key != 500]
    by_position = jobs.delete_batches(folder, "positions", file_col="f", pos_col="p")
    data_file = open_table(folder).snapshot().data_files[0]
    last = (data_file.physical_rows or 0) - 1
    for number in (0, 0):
        by_position(spark.createDataFrame([(data_file.path, last)], "f string, p long"), number)
    assert len(live(folder)) in (888, 889)
    with pytest.raises(UsageError, match="query"):
        jobs.delete_batches(folder, "")


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
        pytest.param("delta", "workers", EVERY, marks=pytest.mark.long),
        pytest.param("iceberg", "spark", (*FLAT, "part"), marks=pytest.mark.long),
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
    sources: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], None], conditions: list[str]
) -> None:
    folder, vectors = tmp_path / "t", tmp_path / "vectors"
    make(sources, folder)
    for text in conditions:
        rows = sources.read.parquet(str(folder))
        kept = rows.where(f"NOT coalesce({text}, false)").orderBy(*rows.columns).collect()
        assert jobs.delete(sources, folder, text, vectors=vectors / text).rows == rows.count() - len(kept), text
        if len(kept) < rows.count():
            found = jobs.apply(rows, sources.read.format("dvcodec").load(str(vectors / text)))
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
