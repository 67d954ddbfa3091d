"""Functions over Arrow batches in Spark's Python workers, and jobs of one task for each of some values.

Spark collects garbage in a worker after every task, and each time Python walks all objects of all imported modules: 20
to 30 ms with dvcodec's, more than the rest of a small task. `settle` exempts them.

The values of a job are pickled one by one: a worker unpickles its own. Readers of data sources run so as well, in any
session: Spark's interface for them came with 4.0.
"""

from __future__ import annotations

import gc
import pickle
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dvcodec.core.errors import UsageError
from dvcodec.spark.columns import BINARY, struct
from dvcodec.spark.compat import datasource, to_arrow

OverBatches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_MORE_MODULES = 50
"""With so many new modules, the objects of this process are exempted again."""
_settled_modules = 0


def settle() -> None:
    """Exempt the objects that this process has now from garbage collection, if it has imported modules since.

    They are collected once before. Reference counting frees them as before; only a cycle of them that becomes garbage
    later is never freed.
    """
    global _settled_modules  # noqa: PLW0603  (a state of the process)
    if len(sys.modules) >= _settled_modules + _MORE_MODULES:
        gc.collect()
        gc.freeze()
        _settled_modules = len(sys.modules)


def release_memory() -> None:
    """Return freed memory to the system: the allocators of Arrow and NumPy would keep some 200 MB after a chunk."""
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()  # NumPy's, too


@dataclass(frozen=True, slots=True)
class _Settled:
    """A function over batches; the class is importable, so that it can be pickled."""

    function: OverBatches

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        release_memory()  # what an earlier task has left
        return self.function(batches)


def settled(function: OverBatches) -> OverBatches:
    """Return the function for ``mapInArrow``, so that it settles its worker first."""
    return _Settled(function)


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
    found = collected(spark.range(0, 1, 1, 1).mapInArrow(settled(_Plan(reader)), _PLANNED))
    jobs = (job.run(spark, _Read(reader, job), schema) for job in _jobs(found["task"].to_pylist()))
    return reduce(lambda one, other: one.union(other), jobs)


def collected(df: DataFrame) -> pa.Table:
    """Return all rows.

    Raises:
        UsageError: of a worker.
        PythonException: a task failed otherwise; the message has the worker's error.
    """
    try:
        return to_arrow(df)
    except PythonException as err:
        said = re.search(r"UsageError: ([^\n]*)", str(err))
        raise (err if said is None else UsageError(said[1])) from None


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
