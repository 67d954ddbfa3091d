"""Writes whose tasks, workers or commits fail: readers see all vectors once, or nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from dvcodec import RowSet, decode_at, iceberg
from dvcodec.spark import register
from dvcodec.spark.sources import read_manifest
from dvcodec.spark.sources.options import ReadOptions, WriteOptions
from dvcodec.spark.sources.vectors import reader_of, schema_of
from dvcodec.spark.sources.writer import VectorWriter, Written, writer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
KIND = "data_file string, dv binary"
COUNT = 120
TASKS = 3


def rows_of(number: int) -> RowSet:
    """8 kB of a bitset: ten are more than what waits in buffers between two workers."""
    return RowSet(range(number, number + 15_000, 3))


ROWS = {f"f{i:03d}": rows_of(i) for i in range(COUNT)}


@pytest.fixture(scope="module", autouse=True)
def _small_batches(spark: SparkSession) -> Iterator[None]:
    register(spark)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")  # four batches a task
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # no import there
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def faulty(spark: SparkSession, fault: Callable[[int, int], None]) -> DataFrame:
    """The vectors, and `fault(task, batch)` before each batch of a task goes to the write."""

    def through(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            fault(context.partitionId(), number)
            numbers = batch.column(0).to_pylist()
            dvs = pa.array([iceberg.encode(rows_of(i)) for i in numbers], pa.binary())
            yield pa.record_batch({"data_file": [f"f{i:03d}" for i in numbers], "dv": dvs})

    return spark.range(0, COUNT, 1, TASKS).mapInArrow(through, KIND)


def write(df: DataFrame, path: Path, target: str = "iceberg") -> None:
    """Containers of seven vectors, so that tasks leave some before they fail."""
    options = {"target": target, "max-vectors": "7"}
    df.write.format("dvcodec").mode("append").options(**options).save(str(path))


def check_whole(spark: SparkSession, folder: Path) -> None:
    """Every vector once, in containers that a manifest names; readers see nothing else."""
    found = read_manifest(str(folder)).to_pylist()
    assert Counter(row["data_file"] for row in found) == Counter(ROWS.keys())
    for row in found:
        rows = decode_at(row["path"], row["offset"], row["size"], cardinality=row["cardinality"])
        assert rows == ROWS[row["data_file"]]
    assert not list(folder.glob("_writing-*"))
    read = spark.read.format("dvcodec").schema("data_file string, cardinality long").load(str(folder)).collect()
    assert {row["data_file"]: row["cardinality"] for row in read} == {name: len(rows) for name, rows in ROWS.items()}
    assert len(read) == COUNT


def check_nothing(spark: SparkSession, folder: Path) -> None:
    """Readers see nothing, whatever tasks that were cancelled have left."""
    assert not list(folder.glob("_manifest-*"))
    assert spark.read.format("dvcodec").load(str(folder)).count() == 0


def once(marker: Path) -> bool:
    """Whether this is the first time, in whatever process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def finished(folder: Path, task: int) -> list[Path]:
    """Wait until a task has a container, and return those it has."""
    for _ in range(12_000):
        found = list(folder.glob(f"*-{task:05d}-*.puffin"))
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"task {task} has written nothing yet")


def siblings() -> list[int]:
    """The other Python workers of this one's daemon: those that write are among them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getppid():
                found.append(int(entry.name))
    return found


def test_a_worker_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    def fault(task: int, batch: int) -> None:
        if task == 1 and batch == 3 and once(tmp_path / "killed"):
            os.kill(os.getpid(), 9)

    write(faulty(spark, fault), tmp_path / "out", "delta")
    assert (tmp_path / "killed").exists()
    check_whole(spark, tmp_path / "out")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the workers that write are found in /proc")
def test_the_workers_that_write_are_killed(spark: SparkSession, tmp_path: Path) -> None:
    def fault(task: int, batch: int) -> None:
        if task == 1 and batch == 3 and once(tmp_path / "killed"):
            assert finished(tmp_path / "out", task)
            for worker in siblings():
                os.kill(worker, 9)

    write(faulty(spark, fault), tmp_path / "out")
    assert (tmp_path / "killed").exists()
    check_whole(spark, tmp_path / "out")


def test_a_task_fails_for_good(spark: SparkSession, tmp_path: Path) -> None:
    write(faulty(spark, lambda *_: None), tmp_path)

    def fault(task: int, batch: int) -> None:
        if task == 1 and batch == 1:
            raise RuntimeError("always")

    with pytest.raises(PySparkException, match="RuntimeError: always"):
        write(faulty(spark, fault), tmp_path)
    assert len(list(tmp_path.glob("_manifest-*"))) == 1
    for marker in tmp_path.glob("_writing-*"):
        marker.unlink()
    check_whole(spark, tmp_path)  # what was there before


def test_a_manifest_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def fault(task: int, batch: int) -> None:
        (marker,) = folder.glob("_writing-*")
        (folder / f"_manifest-{marker.name.removeprefix('_writing-')}.parquet").mkdir(exist_ok=True)

    with pytest.raises(PySparkException, match="IsADirectoryError"):
        write(faulty(spark, fault), folder)
    (obstacle,) = folder.glob("_manifest-*")
    obstacle.rmdir()
    check_nothing(spark, folder)


def batches(rows: dict[str, RowSet]) -> Batches:
    for name, one in rows.items():
        yield pa.record_batch({"data_file": [name], "dv": pa.array([iceberg.encode(one)])})


def test_two_attempts_of_a_task(spark: SparkSession, tmp_path: Path) -> None:
    """Speculation: both attempts write all of it, and one of them counts. (Spark never speculates on one machine.)"""
    to = VectorWriter(WriteOptions.parse({"path": str(tmp_path), "max-vectors": "50"}), "0" * 32)
    attempts = [attempt(to, number) for number in (4, 9)]
    assert not set(attempts[0].containers) & set(attempts[1].containers)
    to.commit([attempts[1]])
    check_whole(spark, tmp_path)
    attempt(to, 11)  # one that goes on after the commit
    check_whole(spark, tmp_path)


def attempt(to: VectorWriter, number: int) -> Written:
    with attempt_number(number):
        return to.write(batches(ROWS))


class attempt_number:  # noqa: N801  (a context manager)
    """Runs as a task's attempt, as far as the writer asks."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        from pyspark import TaskContext

        self.get = TaskContext.get
        TaskContext.get = classmethod(lambda _: self)  # type: ignore[assignment,method-assign]

    def __exit__(self, *_: object) -> None:
        from pyspark import TaskContext

        TaskContext.get = self.get  # type: ignore[method-assign]

    def partitionId(self) -> int:
        return 0

    def taskAttemptId(self) -> int:
        return self.number


def commit_until(folder: Path, step: int) -> bool:
    """Commit in a process that is killed before its n-th change of a file; whether it came to the end."""
    schema = StructType([StructField("data_file", StringType()), StructField("dv", BinaryType())])
    child = os.fork()
    if not child:
        seen = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal seen
            if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link") or (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            ):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        to = writer_of(WriteOptions.parse({"path": str(folder), "max-vectors": "50"}), schema, overwrite=False)
        written = attempt(to, 4)
        sys.addaudithook(hook)
        to.commit([written])
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def test_a_driver_that_dies_in_the_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Killed at any step: all or nothing is committed."""
    outcomes = set()
    for step in range(1, 100):
        folder = tmp_path / str(step)
        ended = commit_until(folder, step)
        committed = bool(list(folder.glob("_manifest-*")))
        if ended:
            check_whole(spark, folder)
        options = ReadOptions.parse({"path": str(folder), "columns": "data_file"})
        reader = reader_of(options, schema_of(options))
        rows = sum(len(batch) for part in reader.partitions() for batch in reader.read(part))
        assert rows == (COUNT if committed else 0)
        outcomes.add((ended, committed))
        if ended:
            break
    assert ended
    assert outcomes == {(False, False), (False, True), (True, True)}
