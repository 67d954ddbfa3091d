"""Jobs of one Spark task for each of some values, pickled one by one: a worker unpickles its own.

Readers of data sources run so as well, in any session: Spark's interface for them came with 4.0.
"""

from __future__ import annotations

import pickle
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa
from pyspark.errors import PythonException

from dvcodec.core.errors import UsageError
from dvcodec.spark.columns import BINARY, struct
from dvcodec.spark.compat import datasource, to_arrow
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Value = TypeVar("Value")
_GROUP_BYTES = 8 << 20
"""Bytes of tasks in one job: Spark Connect takes functions of some tens of megabytes."""
_PLANNED = struct(task=BINARY)


@dataclass(frozen=True, slots=True)
class Tasks(Generic[Value]):
    """The tasks of one Spark job."""

    packed: tuple[bytes, ...]

    def values(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[Value]:
        """Yield the values of some tasks, whose numbers are the first column of batches."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield pickle.loads(zlib.decompress(self.packed[number]))  # noqa: S301  (of this driver)

    def run(self, spark: SparkSession, work: Callable[..., Iterator[pa.RecordBatch]], schema: StructType) -> DataFrame:
        """Return a DataFrame of what some work makes of each task's number, one Spark task for each."""
        count = len(self.packed)
        return spark.range(0, count, 1, count).mapInArrow(settled(work), schema)


def pack(values: Iterable[Value]) -> Iterator[Tasks[Value]]:
    """Make a task of each value, and jobs of those."""
    yield from _jobs(zlib.compress(pickle.dumps(value), 1) for value in values)


def _jobs(tasks: Iterable[bytes]) -> Iterator[Tasks[Any]]:
    group, weight = [], 0
    for task in tasks:
        group.append(task)
        weight += len(task)
        if weight >= _GROUP_BYTES:
            yield Tasks(tuple(group))
            group, weight = [], 0
    if group:
        yield Tasks(tuple(group))


def read(spark: SparkSession, reader: datasource.DataSourceReader, schema: StructType) -> DataFrame:
    """Return what a reader reads: its partitions are found now, by a job of one task, and read when it runs.

    Raises:
        UsageError: see the reader.
        PythonException: its partitions cannot be found; the message has the worker's error.
    """
    try:
        found = to_arrow(spark.range(0, 1, 1, 1).mapInArrow(settled(_Plan(reader)), _PLANNED))
    except PythonException as err:
        raise refusal(err) or err from None
    jobs = (job.run(spark, _Read(reader, job), schema) for job in _jobs(found["task"].to_pylist()))
    return reduce(lambda one, other: one.union(other), jobs)


def refusal(err: PythonException) -> UsageError | None:
    """Return the error of a worker that it is to blame on arguments; None if it is another one."""
    said = re.search(r"UsageError: ([^\n]*)", str(err))
    return None if said is None else UsageError(said[1])


@dataclass(frozen=True)
class _Plan:
    """Finds the partitions of a reader, whatever the batches."""

    reader: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            tasks = [zlib.compress(pickle.dumps(one), 1) for one in self.reader.partitions()]
            yield pa.record_batch([pa.array(tasks, pa.binary())], ["task"])


@dataclass(frozen=True)
class _Read:
    """Reads the partitions of some tasks."""

    reader: Any
    tasks: Tasks[Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition in self.tasks.values(batches):
            yield from self.reader.read(partition)
