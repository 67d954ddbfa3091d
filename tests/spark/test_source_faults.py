"""Writes whose tasks, workers or commits fail: all vectors once, or nothing, and nothing temporary either way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from dvcodec import RowSet, decode_at, iceberg
from dvcodec.spark import register
from dvcodec.spark.sources import read_manifest, vacuum
from dvcodec.spark.sources.options import WriteOptions
from dvcodec.spark.sources.writer import VectorWriter, Written
from spark.sessions import environment

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


def write(df: DataFrame, path: Path, target: str = "puffin") -> None:
    """Containers of seven vectors, so that tasks leave some before they fail."""
    options = {"target": target, "max-vectors": "7"}
    df.write.format("dvcodec").mode("append").options(**options).save(str(path))


def check_whole(spark: SparkSession, folder: Path) -> None:
    """Every vector once, in containers that the manifest names, and nothing else."""
    found = read_manifest(str(folder)).to_pylist()
    assert Counter(row["data_file"] for row in found) == Counter(ROWS.keys())
    for row in found:
        rows = decode_at(row["path"], row["offset"], row["size"], cardinality=row["cardinality"])
        assert rows == ROWS[row["data_file"]]
    names = {entry.name for entry in folder.iterdir()}
    assert {name for name in names if not name.startswith("_manifest-")} == {Path(row["path"]).name for row in found}
    assert len(names) == len({row["path"] for row in found}) + 1
    read = spark.read.format("dvcodec").schema("data_file string, cardinality long").load(str(folder)).collect()
    assert {row["data_file"]: row["cardinality"] for row in read} == {name: len(rows) for name, rows in ROWS.items()}
    assert len(read) == COUNT


def check_nothing(folder: Path, *, but: str = "") -> None:
    """Not at the end of the job, and not when tasks that were cancelled have had time to go on."""
    for _ in range(2):
        assert [entry.name for entry in folder.iterdir()] == ([but] if but else [])
        time.sleep(1.5)


def once(marker: Path) -> bool:
    """Whether this is the first time, in whatever process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def staging(folder: Path) -> Path:
    (found,) = folder.glob(".dvcodec-*")
    return found


def finished(folder: Path, task: int) -> list[Path]:
    """Wait until a task has a container, and return those it has."""
    for _ in range(12_000):
        found = [path.with_suffix("") for path in staging(folder).glob(f"*-{task:05d}-*.part")]
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


@pytest.mark.parametrize("target", ["puffin", "delta"])
def test_a_worker_is_killed(target: str, spark: SparkSession, tmp_path: Path) -> None:
    def fault(task: int, batch: int) -> None:
        if task == 1 and batch == 3 and once(tmp_path / "killed"):
            os.kill(os.getpid(), 9)

    write(faulty(spark, fault), tmp_path / "out", target)
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


def test_a_task_fails_once(spark: SparkSession, tmp_path: Path) -> None:
    def fault(task: int, batch: int) -> None:
        if task != 1 and batch == 3 and once(tmp_path / f"failed{task}"):
            raise RuntimeError("once")

    write(faulty(spark, fault), tmp_path / "out")
    assert len(list(tmp_path.glob("failed*"))) == 2
    check_whole(spark, tmp_path / "out")


def test_a_task_fails_for_good(spark: SparkSession, tmp_path: Path) -> None:
    write(faulty(spark, lambda *_: None), tmp_path)
    before = sorted(entry.name for entry in tmp_path.iterdir())

    def fault(task: int, batch: int) -> None:
        if task == 1 and batch == 1:
            raise RuntimeError("always")
        time.sleep(0.4)  # the others are still at it when the job ends

    with pytest.raises(PySparkException, match="RuntimeError: always"):
        write(faulty(spark, fault), tmp_path)
    for _ in range(2):  # tasks that were cancelled do not come back to it
        assert sorted(entry.name for entry in tmp_path.iterdir()) == before
        time.sleep(1.5)
    check_whole(spark, tmp_path)  # what was there before


def test_a_manifest_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def fault(task: int, batch: int) -> None:
        job = staging(folder).name.removeprefix(".dvcodec-")
        (folder / f"_manifest-{job}.parquet").mkdir(exist_ok=True)

    with pytest.raises(PySparkException, match="IsADirectoryError"):
        write(faulty(spark, fault), folder)
    (obstacle,) = folder.glob("_manifest-*")
    check_nothing(folder, but=obstacle.name)


def test_a_commit_that_fails_midway(spark: SparkSession, tmp_path: Path) -> None:
    """A part of the manifest is gone: all containers have been moved by then."""
    folder = tmp_path / "out"

    def fault(task: int, batch: int) -> None:
        if task == 2 and batch == 3:
            container = finished(folder, task)[0]
            container.with_name(f"{container.name}.part").unlink()

    with pytest.raises(PySparkException, match="FileNotFoundError"):
        write(faulty(spark, fault), folder)
    check_nothing(folder)


def test_a_container_that_cannot_be_moved(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def fault(task: int, batch: int) -> None:
        if task == 2 and batch == 3:
            (folder / finished(folder, task)[0].name).mkdir(exist_ok=True)

    with pytest.raises(PySparkException, match="IsADirectoryError"):
        write(faulty(spark, fault), folder)
    (obstacle,) = folder.iterdir()
    check_nothing(folder, but=obstacle.name)


def batches(rows: dict[str, RowSet]) -> Batches:
    for name, one in rows.items():
        yield pa.record_batch({"data_file": [name], "dv": pa.array([iceberg.encode(one)])})


def test_two_attempts_of_a_task(spark: SparkSession, tmp_path: Path) -> None:
    """Speculation: both attempts write all of it, and one of them counts. (Spark never speculates on one machine.)"""
    options = WriteOptions.parse({"path": str(tmp_path), "max-vectors": "50"})
    to = VectorWriter(options, "0" * 32)
    Path(to.staging).mkdir()
    attempts = [attempt(to, number) for number in (4, 9)]
    assert not set(attempts[0].containers) & set(attempts[1].containers)
    late = attempt_begun(to, 11)
    to.commit([attempts[1]])
    check_whole(spark, tmp_path)
    with pytest.raises(FileNotFoundError):  # one that goes on after the commit has nowhere to write to
        late()
    check_whole(spark, tmp_path)


def attempt(to: VectorWriter, number: int) -> Written:
    with attempt_number(number):
        return to.write(batches(ROWS))


def attempt_begun(to: VectorWriter, number: int) -> Callable[[], Written]:
    """An attempt that has taken its first vector, and the rest of it."""
    taken = batches(ROWS)
    first = next(taken)

    def rest() -> Written:
        with attempt_number(number):
            return to.write(iter([first, *taken]))

    return rest


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


DRIVER = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from dvcodec import RowSet, iceberg
from dvcodec.spark import register

folder = sys.argv[1]
spark = SparkSession.builder.master("local[1]").getOrCreate()
register(spark)

def slowly(batches):
    for number, batch in enumerate(batches):
        yield batch
        while number == 5 and not list(Path(folder).glob(".dvcodec-*/*.part")):
            time.sleep(0.1)
    Path(folder, "..", "written").touch()
    time.sleep(600)

rows = [(f"f{i}", bytearray(iceberg.encode(RowSet(range(i, 60_000, 3))))) for i in range(300)]
df = spark.createDataFrame(rows, "data_file string, dv binary").repartition(2)
spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
df = df.mapInArrow(slowly, df.schema)
df.write.format("dvcodec").mode("append").options(**{"target": "puffin", "max-vectors": "7"}).save(folder)
"""


def test_a_driver_that_dies_before_the_commit(tmp_path: Path) -> None:
    """It is killed with the JVM: nothing is committed, and `vacuum` takes away what is left."""
    folder, program = tmp_path / "out", tmp_path / "driver.py"
    program.write_text(DRIVER)
    log = tmp_path / "log"
    with log.open("w") as said:
        command = [sys.executable, str(program), str(folder)]
        driver = subprocess.Popen(command, env=environment(), start_new_session=True, stdout=said, stderr=said)
    try:
        for _ in range(9000):
            assert driver.poll() is None, log.read_text()[-2000:]
            if (tmp_path / "written").exists():
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the tasks never wrote")
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    (left,) = (entry.name for entry in folder.iterdir())
    assert left.startswith(".dvcodec-")
    assert vacuum(str(folder), timedelta()) == [str(folder / left)]
    assert list(folder.iterdir()) == []


def commit_until(folder: Path, step: int) -> bool:
    """Commit in a process that is killed before its n-th change of a file; whether it came to the end."""
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

        to = VectorWriter(WriteOptions.parse({"path": str(folder), "max-vectors": "50"}), "0" * 32)
        Path(to.staging).mkdir()
        written = attempt(to, 4)
        sys.addaudithook(hook)
        to.commit([written])
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def test_a_driver_that_dies_in_the_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Killed at any step: all or nothing is committed, and `vacuum` leaves just that."""
    outcomes = set()
    for step in range(1, 100):
        folder = tmp_path / str(step)
        folder.mkdir()
        ended = commit_until(folder, step)
        committed = any(entry.name.startswith("_manifest-") for entry in folder.iterdir())
        vacuum(str(folder), timedelta())
        if committed:
            check_whole(spark, folder)
        else:
            assert list(folder.iterdir()) == []
        outcomes.add((ended, committed))
        if ended:
            break
    assert ended
    assert outcomes == {(False, False), (False, True), (True, True)}
