"""Faster hand-over of narrow rows from the JVM to Python.

Spark adds up the bytes of a batch after every row, which costs more than the row: 463 against 212 ns for a path and a
position. It does not if ``spark.sql.execution.arrow.maxBytesPerBatch`` is the largest integer; then only
``maxRecordsPerBatch`` bounds a batch. Both are settings of the session, read when a query starts.

Spark also cuts files into tasks by their size, whichever columns it reads. A task that hands over rows takes it some 20
ms for nothing, and those of a few columns of a wide table often take no longer: `task_bytes` returns a larger size.

Without the limit on bytes, vectors cross the shuffle in fragments of bounded size: `cut` and `join`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.spark.accumulate import SCHEMA as VECTOR_SCHEMA
from dvcodec.spark.columns import INT, LONG, VECTORS, arrow_schema, binary_array, binary_column, struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BATCH_ROWS = 10_000
"""Maximum rows of a batch without a limit on bytes: the caller makes sure that so many are far below 2 GiB."""
NUMBER_ROWS = 100_000
"""The same for rows of one number: larger batches cost 5 % less, and even larger ones no less."""
_NAME_BYTES = 1 << 15
"""Maximum bytes of a name where `BATCH_ROWS` of them may be in one batch."""
_BYTES, _ROWS = (f"spark.sql.execution.arrow.max{name}PerBatch" for name in ("Bytes", "Records"))
_FILES = "spark.sql.files.maxPartitionBytes"
_SHUFFLED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_KEYS = (_BYTES, _ROWS, _FILES, _SHUFFLED)
_SHUFFLED_BYTES = 16 << 20
"""Compressed bytes that a task reads after a shuffle, where adaptive execution joins small ones. With Spark's 64 MB of
vectors that have long names, a worker takes up to 680 MiB."""
_TASKS_PER_CORE = 8
"""So that tasks of different sizes still keep all cores busy."""
_USUAL_TASK_BYTES, _MOST_TASK_BYTES = 128 << 20, 1 << 30
_HANDS_OVER = re.compile(r"Python|Pandas|Arrow|Existing ?RDD")
"""In the names of the nodes of a plan: those that send rows to Python, or may hide others that do."""
FRAGMENT_BATCH_BYTES = 80 << 20
"""Maximum bytes of vectors in one batch after the shuffle; a row has that, divided by the rows of a batch."""
JOINED_BYTES = 64 << 20
"""Bytes of fragments that are collected before those of complete vectors are joined."""
FRAGMENTS = StructType([*VECTORS.fields, *struct(vector=LONG, part=INT, parts=INT).fields])
"""`VECTORS`, each vector in ``parts`` rows; ``vector`` is the same in these and in no others."""
_SCHEMA = arrow_schema(FRAGMENTS)
_VECTORS_A_TASK = 40
"""Bits of `vector` below the number of the task."""
_lock = Lock()
_under_way: WeakKeyDictionary[SparkSession, list[Any]] = WeakKeyDictionary()
"""Session -> number of active blocks, and the settings before the first."""


def hands_over(df: DataFrame) -> bool:
    """Return whether rows of a DataFrame pass through Python functions, whatever their width."""
    frame: Any = df
    if hasattr(frame, "_jdf"):
        jvm, plan = frame.sparkSession._jvm, frame._jdf  # noqa: SLF001  (`explain` only prints)
        text = jvm.PythonSQLUtils.explainString(plan.queryExecution(), "simple")
    else:
        text = frame._explain_string()  # noqa: SLF001  (`explain` only prints)
    return any(_HANDS_OVER.search(line.partition("[")[0]) for line in text.splitlines())


def task_bytes(df: DataFrame) -> int | None:
    """Return how many bytes of files a task should read, so that there are some for each core and not many more.

    None leaves that to the session: it has its own ``maxPartitionBytes``, is one of Spark Connect, which does not tell
    the number of cores, or reads no more than is usual for a task.
    """
    frame: Any = df
    spark = df.sparkSession
    if not hasattr(frame, "_jdf") or spark.conf.get(_FILES, None) is not None:
        return None
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()  # noqa: SLF001  (no other way to the sizes)
    size = sum(int(str(leaves.apply(i).stats().sizeInBytes())) for i in range(leaves.size()))
    wanted = size // (_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    return min(wanted, _MOST_TASK_BYTES) if wanted > _USUAL_TASK_BYTES else None


def short_name(file: Column) -> Column:
    """Return the name of a data file, for rows that cross `without_byte_limit`.

    A null, or a name that is too long for batches of so many rows, as no store has, fails the job.
    """
    long = sf.lit(f"a data file's name has more than {_NAME_BYTES} bytes: leave out eager=True")
    wrong = sf.when(file.isNull(), sf.lit("rows name no data file")).otherwise(long)
    return sf.when(sf.octet_length(file) <= _NAME_BYTES, file).otherwise(sf.raise_error(wrong).cast("string"))


@contextmanager
def without_byte_limit(
    spark: SparkSession, task_bytes: int | None = None, batch_rows: int = BATCH_ROWS
) -> Iterator[None]:
    """Bound batches for Python by rows only; the session's settings are restored at the end of the block.

    This also affects queries that other threads start in this session meanwhile.

    Args:
        spark: the session.
        task_bytes: bytes of files that a task reads; None: as the session has it.
        batch_rows: maximum rows of a batch; a lower maximum of the session, or of another block, applies instead.
    """
    with _lock:
        state = _under_way.setdefault(spark, [0])
        if not state[0]:
            state[1:] = [spark.conf.get(key, None) for key in _KEYS]
        state[0] += 1
    try:
        if task_bytes is not None:
            spark.conf.set(_FILES, str(task_bytes))
        rows = int((state[2] if state[0] == 1 else spark.conf.get(_ROWS, None)) or 0)
        spark.conf.set(_ROWS, str(min(rows, batch_rows) if rows > 0 else batch_rows))
        spark.conf.set(_BYTES, str(2**31 - 1))
        if state[4] is None:
            spark.conf.set(_SHUFFLED, str(_SHUFFLED_BYTES))
        yield
    finally:
        with _lock:
            state[0] -= 1
            if not state[0]:
                for key, value in zip(_KEYS, state[1:], strict=True):
                    if value is None:
                        spark.conf.unset(key)
                    else:
                        spark.conf.set(key, value)


def cut(vectors: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Cut vectors, `VECTORS`, into `FRAGMENTS`, so that a batch of so many stays small."""
    most = FRAGMENT_BATCH_BYTES // batch_rows
    context = TaskContext.get()
    number = (context.partitionId() if context is not None else 0) << _VECTORS_A_TASK
    for batch in vectors:
        column = binary_column(batch.column(2))
        parts = np.maximum(-(-column.sizes // most), 1)
        owner = np.repeat(np.arange(len(parts)), parts)
        part = np.arange(len(owner)) - offsets_of(parts)[owner]
        starts = column.starts[owner] + part * most
        sizes = np.minimum(column.sizes[owner] - part * most, most)
        index = pa.array(owner)
        columns = [
            batch.column(0).take(index),
            batch.column(1).take(index),
            binary_array(ByteStrings.cut(column.data, starts, sizes)),
            pa.array(number + owner),
            pa.array(part.astype(np.int32)),
            pa.array(parts[owner].astype(np.int32)),
        ]
        number += len(parts)
        yield pa.record_batch(columns, schema=_SCHEMA)


def join(fragments: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join `FRAGMENTS`, in any order, to vectors, `VECTORS`.

    Raises:
        RuntimeError: a fragment is missing, or there twice: Spark lost rows, or repeated them.
    """
    waiting: list[pa.RecordBatch] = []
    held = 0
    for received in fragments:
        batch = received.cast(_SCHEMA)  # sessions may use large types (spark.sql.execution.arrow.useLargeVarTypes)
        whole = pc.equal(batch.column("parts"), 1)
        yield batch.filter(whole).select(VECTOR_SCHEMA.names)
        waiting.append(batch.filter(pc.invert(whole)))
        held += waiting[-1].nbytes
        if held >= JOINED_BYTES:
            joined, waiting = _join(waiting)
            held = 0
            yield joined
    joined, left = _join(waiting)
    yield joined
    if sum(batch.num_rows for batch in left):
        name = left[0].column(0)[0].as_py()
        raise RuntimeError(f"vector of {name}: fragments are missing")


def _join(fragments: list[pa.RecordBatch]) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """Return the vectors whose fragments are all there, and the other fragments.

    Raises:
        RuntimeError: a fragment is there twice.
    """
    table = pa.Table.from_batches(fragments, _SCHEMA)
    vector, part, parts = (table[name].to_numpy() for name in ("vector", "part", "parts"))
    order = np.lexsort((part, vector))
    heads = np.flatnonzero(np.diff(vector[order], prepend=-1))
    counts = np.diff(heads, append=len(order))
    complete = counts == parts[order][heads]
    twice = (np.diff(vector[order]) == 0) & (np.diff(part[order]) == 0)
    if twice.any():
        raise RuntimeError(f"vector of {table['data_file'][int(order[twice.argmax()])]}: a fragment is there twice")
    chosen = table.take(pa.array(order[np.repeat(complete, counts)]))
    left = table.take(pa.array(order[np.repeat(~complete, counts)])).to_batches()
    return _merged(chosen, counts[complete]), left


def _merged(table: pa.Table, counts: Index) -> pa.RecordBatch:
    """Join adjacent rows, `counts[i]` each."""
    chunks = [binary_column(chunk) for chunk in table["dv"].chunks]
    data = [ByteStrings.cut(chunk.data, chunk.starts, chunk.sizes).data for chunk in chunks]
    sizes = np.concatenate([chunk.sizes for chunk in chunks]) if chunks else np.zeros(0, np.int64)
    bounds = offsets_of(counts)
    whole = ByteStrings(offsets_of(sizes)[bounds], np.concatenate(data) if data else np.zeros(0, np.uint8))
    first = table.select(VECTOR_SCHEMA.names[:2]).take(pa.array(bounds[:-1])).combine_chunks()
    columns = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in first.columns]
    return pa.record_batch([*columns, binary_array(whole)], schema=VECTOR_SCHEMA)
