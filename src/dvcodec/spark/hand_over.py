"""Faster hand-over of narrow rows from the JVM to Python: larger batches, larger tasks, numbers instead of names.

Spark adds up the bytes of a batch after every row, which costs more than the row: 463 against 212 ns for a path and a
position. It does not if ``spark.sql.execution.arrow.maxBytesPerBatch`` is the largest integer; then only
``maxRecordsPerBatch`` bounds a batch. Both are settings of the session, read when a query starts.

Spark also cuts files into tasks by their size, whichever columns it reads. A task that hands over rows costs some 20 ms
besides its work, which is often no more for a few columns of a wide table: `task_bytes` returns a larger size.

Vectors may be large, so they cross with the session's own limits.

Files of a scan are known before it runs (``inputFiles``), so their hashes can be shown to be distinct on the driver,
and a row is one number: of its data file, and the position in it. Of other rows, a sample shows most data files: its
names are broadcast and compared with that of every row, so that a name crosses only if the sample has missed it. A
wrong guess costs time, not rows.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from dvcodec.core.batch import encode
from dvcodec.core.errors import UsageError
from dvcodec.spark.accumulate import CHUNK_ROWS, RowAccumulator, as_text, vector_batches
from dvcodec.spark.columns import LONG, STRING, struct
from dvcodec.spark.compat import frame_of
from dvcodec.spark.paths import data_file_of, file_path_of

BATCH_ROWS = 10_000
"""Maximum rows of a batch without a limit on bytes: the caller makes sure that so many are far below 2 GiB."""
NUMBER_ROWS = 100_000
"""The same for rows of one number: larger batches cost 5 % less, and even larger ones no less."""
_NAME_BYTES = 1 << 15
"""Maximum bytes of a name where `BATCH_ROWS` of them may be in one batch."""
_BYTES, _ROWS = (f"spark.sql.execution.arrow.max{name}PerBatch" for name in ("Bytes", "Records"))
_FILES = "spark.sql.files.maxPartitionBytes"
_SHUFFLED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_SHUFFLED_BYTES = 16 << 20
"""Compressed bytes that a task reads after a shuffle, where adaptive execution joins small ones. With Spark's 64 MB of
vectors that have long names, a worker takes up to 680 MiB."""
_TASKS_PER_CORE = 8
"""So that tasks of different sizes still keep all cores busy."""
_USUAL_TASK_BYTES, _MOST_TASK_BYTES = 128 << 20, 1 << 30
_HANDS_OVER = re.compile(r"Python|Pandas|Arrow|Existing ?RDD")
"""In the names of the nodes of a plan: those that send rows to Python, or may hide others that do."""
_lock = Lock()
_under_way: WeakKeyDictionary[SparkSession, tuple[int, dict[str, str | None]]] = WeakKeyDictionary()
"""Session -> number of active blocks, and the settings before these."""


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

    A null fails the job, and so does a name that is too long for batches of so many rows; no store has such names.
    """
    long = sf.lit(f"a data file's name has more than {_NAME_BYTES} bytes: leave out eager=True")
    wrong = sf.when(file.isNull(), sf.lit("rows name no data file")).otherwise(long)
    return sf.when(sf.octet_length(file) <= _NAME_BYTES, file).otherwise(sf.raise_error(wrong).cast("string"))


def without_byte_limit(
    spark: SparkSession, task_bytes: int | None = None, batch_rows: int = BATCH_ROWS
) -> AbstractContextManager[None]:
    """Bound batches for Python by rows only, in a block.

    Args:
        spark: the session.
        task_bytes: bytes of files that a task reads; None: as the session has it.
        batch_rows: maximum rows of a batch; a lower maximum of the session, or of another block, applies instead.
    """
    rows = int(spark.conf.get(_ROWS, None) or 0)
    wanted = {_ROWS: str(min(rows, batch_rows) if rows > 0 else batch_rows), _BYTES: str(2**31 - 1)}
    return _settings(spark, wanted if task_bytes is None else wanted | {_FILES: str(task_bytes)})


def small_shuffles(spark: SparkSession) -> AbstractContextManager[None]:
    """Bound what a task reads after a shuffle in a block, unless the session does."""
    given = spark.conf.get(_SHUFFLED, None) is not None
    return _settings(spark, {} if given else {_SHUFFLED: str(_SHUFFLED_BYTES)})


@contextmanager
def _settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Change settings of a session, which are restored at the end of the last block.

    This also affects queries that other threads start in this session meanwhile.
    """
    with _lock:
        blocks, before = _under_way.get(spark, (0, {}))
        _under_way[spark] = blocks + 1, {key: spark.conf.get(key, None) for key in wanted} | before
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        with _lock:
            blocks, before = _under_way[spark]
            _under_way[spark] = blocks - 1, before
            if blocks == 1:
                del _under_way[spark]
                for key, old in before.items():
                    if old is None:
                        spark.conf.unset(key)
                    else:
                        spark.conf.set(key, old)


URI = "uri"
"""The column of a file as ``_metadata.file_path`` spells it."""
MOST_FILES = 20_000
"""More names are not shipped to every worker, and would hardly have distinct hashes of 32 bits."""
_NAME_CHARS = 1 << 12
"""The maximum of a name: there may be one in each of 100,000 rows of a batch."""
_UNLISTED = "rows come from files that inputFiles() did not list, perhaps added since: create the DataFrame again"
_POSITION_BITS = 32
_SAMPLED_FILES = 10_000
"""More names of a sample are not sent to every worker."""
_SAMPLED_BITS = 48
"""Bits of a position beside the number of a sampled file."""
_SAMPLED = struct(hash=LONG, known=STRING, number=LONG)
_MIXED = 8
"""Rows of more data files than the sample shows are expected if so many of one data file come together."""
_UNSEEN = 20
"""One row of so many may name a data file that the sample has missed."""
_FEW = 32
"""With fewer consecutive rows of a file than this on average, sorting pays: fewer vectors are encoded and merged."""


def packed(uri: Column, row: Column) -> Column:
    """Return the hash of the file and the position in one long.

    The CRC is the fastest of Spark's hashes for strings as long as paths.

    Args:
        uri: ``_metadata.file_path``.
        row: ``_metadata.row_index``. A position of more than 32 bits fails the job.
    """
    key = sf.shiftleft(sf.crc32(uri.cast("binary")), _POSITION_BITS).bitwiseOR(row)
    refused = sf.raise_error(sf.lit("a position has more than 32 bits: build these vectors with strategy 'partial'"))
    return sf.when(sf.shiftright(row, _POSITION_BITS) == 0, key).otherwise(refused.cast("long")).alias("key")


def packed_places(number: int, start: int, rows: int) -> pa.Array:
    """Return what `packed` does for consecutive rows of a data file that has a number for its hash.

    Raises:
        UsageError: a position has more than 32 bits.
    """
    if start + rows > 1 << _POSITION_BITS:
        raise UsageError(f"row {start + rows - 1} of a data file: positions of more than 32 bits are not searched here")
    return pa.array(np.arange(start, start + rows) + (number << _POSITION_BITS))


@dataclass(frozen=True, slots=True, eq=False)
class ScannedFiles:
    """The files of a scan; a call encodes its rows as vectors.

    Attributes:
        hashes: uint32, ascending, all different.
        names: the data file of each, in plain text.
    """

    hashes: NDArray[np.uint32]
    names: pa.Array

    @classmethod
    def of(cls, uris: list[str]) -> ScannedFiles | None:
        """Return the files of ``df.inputFiles()``; None if they are too many or too long, or two have the same hash."""
        if len(uris) > MOST_FILES or max(map(len, uris), default=0) > _NAME_CHARS:
            return None
        spelled = list(dict.fromkeys(map(file_path_of, uris)))
        hashes = np.array([zlib.crc32(uri.encode()) for uri in spelled], np.uint32)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) == 0).any():
            return None
        names = pa.array([data_file_of(spelled[i]) for i in order.tolist()], pa.string())
        return cls(hashes[order], names)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode rows of `packed` as vectors; a data file may be repeated.

        Raises:
            UsageError: rows of other files.
        """
        chunk: list[NDArray[np.uint64]] = []
        rows = 0
        for rows_of in batches:
            chunk.append(rows_of.column(0).to_numpy().view(np.uint64))
            rows += len(chunk[-1])
            if rows >= CHUNK_ROWS:
                yield from self._encode(np.concatenate(chunk))
                chunk, rows = [], 0
        if rows:
            yield from self._encode(np.concatenate(chunk))

    def _encode(self, keys: NDArray[np.uint64]) -> Iterator[pa.RecordBatch]:
        heads = _scan_order(keys)
        if heads is None:
            keys.sort()
            new = np.append(True, keys[1:] != keys[:-1])
            keys = keys if new.all() else keys[new]
            files = keys >> np.uint64(_POSITION_BITS)
            heads = np.flatnonzero(np.append(True, files[1:] != files[:-1]))
        hashes = (keys[heads] >> np.uint64(_POSITION_BITS)).astype(np.uint32)
        index = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        if (self.hashes[index] != hashes).any():
            raise UsageError(_UNLISTED)
        positions = (keys & np.uint64((1 << _POSITION_BITS) - 1)).view(np.int64)
        counts = np.diff(heads, append=len(keys))
        del keys
        yield from vector_batches(self.names.take(pa.array(index)), counts, encode(positions, counts))


def _scan_order(keys: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """Return where each file begins if rows come file by file and ascend in each, else None.

    A scan returns its rows in that order. Sorting them, which hashes would need, costs 15 times the encoding.
    """
    new_file = (keys[1:] ^ keys[:-1]) >> np.uint64(_POSITION_BITS) != 0
    heads = np.flatnonzero(np.append(True, new_file))
    if len(heads) * _FEW > len(keys) or not ((keys[1:] > keys[:-1]) | new_file).all():
        return None
    return heads


@dataclass(frozen=True, slots=True, eq=False)
class SampledFiles:
    """Names of data files by their numbers; a call encodes rows from `numbered` as vectors.

    Attributes:
        names: strings, all different.
    """

    names: pa.Array

    @classmethod
    def of(cls, sample: pa.ChunkedArray) -> SampledFiles | None:
        """Return the data files of a sample of rows; None if most rows probably have others, or there are too many.

        The sample is the first rows. Where the rows of a data file come together, they say little about the others.

        Raises:
            UsageError: a name is not UTF-8.
        """
        counts = pc.value_counts(sample.drop_null())
        names, each = counts.field("values"), counts.field("counts").to_numpy()
        if not 0 < len(names) <= _SAMPLED_FILES or _UNSEEN * int((each == 1).sum()) > len(sample):
            return None
        whole = sample.combine_chunks()
        changes = pc.sum(pc.not_equal(whole[1:], whole[:-1])).as_py() or 0
        return cls(as_text(names)) if _MIXED * changes >= len(sample) or len(names) == 1 else None

    def numbered(self, rows: DataFrame) -> DataFrame:
        """Replace the columns of rows by a number, and the name of the data file if it is not in the sample.

        Args:
            rows: ``data_file`` and ``pos``. A name that is null or too long fails the job; see `short_name`.

        Returns:
            ``key long``: number of the file and position; or only the position where there is a ``name``.
        """
        # One file for each hash: rows of another with the same hash keep their names.
        numbers = {zlib.crc32(name.encode(errors="surrogatepass")): i for i, name in enumerate(self.names.to_pylist())}
        number = pa.array(numbers.values(), pa.int64())
        table = {"hash": pa.array(numbers.keys(), pa.int64()), "known": self.names.take(number), "number": number}
        distinct = frame_of(rows.sparkSession, pa.table(table), _SAMPLED)
        file, pos = sf.col("data_file"), sf.col("pos")
        joined = rows.join(sf.broadcast(distinct), sf.crc32(file.cast("binary")) == sf.col("hash"), "left")
        same = (file == sf.col("known")) & (sf.shiftright(pos, _SAMPLED_BITS) == 0)
        known = joined.select(file, pos, "number", same.alias("same"))
        return known.select(
            sf.when(sf.col("same"), sf.shiftleft("number", _SAMPLED_BITS).bitwiseOR(pos)).otherwise(pos).alias("key"),
            sf.when(sf.col("same"), sf.lit(None)).otherwise(short_name(file)).alias("name"),
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode rows of `numbered` as vectors; a data file may be repeated.

        Raises:
            UsageError: a row has no position, or a negative one.
        """
        known, others = RowAccumulator(), RowAccumulator()
        for received in batches:
            rows, names = received.column(0), received.column(1)
            if names.null_count < len(names):
                unknown = names.is_valid()
                yield from others.add(names.filter(unknown), rows.filter(unknown))
                rows = rows.filter(names.is_null())
            keys = rows.to_numpy()
            numbers = pa.array((keys >> _SAMPLED_BITS).astype(np.int32))
            positions = pa.array(keys & ((1 << _SAMPLED_BITS) - 1))
            yield from known.add(pa.DictionaryArray.from_arrays(numbers, self.names), positions)
        yield from known.flush()
        yield from others.flush()
