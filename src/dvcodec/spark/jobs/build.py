"""Build one vector per data file from rows of (data file, position), by one of two plans.

The cost of such a job is shipping rows from the JVM to Python, not the bitmaps. So rows become partial vectors where
they are read, and only those are shuffled and merged (``partial``). If every data file has so few rows in a task that
its partial vectors are no smaller than the rows, the rows are shuffled instead (``shuffle``). Python workers read files
of positions themselves: their rows never reach the JVM, only partial vectors do.

What crosses to Python for ``partial`` is the name and the position, or a number for both where files are known before
(`keyed_rows`). ``eager`` runs it at once, under settings that make rows cross faster (`hand_over`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from dvcodec.core.errors import UsageError
from dvcodec.iceberg import FILE_PATH, POS
from dvcodec.spark import tasks
from dvcodec.spark.accumulate import CHUNK_ROWS, RowAccumulator, VectorUnion
from dvcodec.spark.columns import VECTORS
from dvcodec.spark.compat import is_frame, keep, reason, to_arrow
from dvcodec.spark.hand_over import (
    BATCH_ROWS,
    NUMBER_ROWS,
    URI,
    SampledFiles,
    ScannedFiles,
    hands_over,
    packed,
    short_name,
    small_shuffles,
    task_bytes,
    without_byte_limit,
)
from dvcodec.spark.jobs.origin import origin_or_column
from dvcodec.spark.paths import data_file_column, match_key_column, twin_column
from dvcodec.spark.sources.options import PathsInput, paths_option, storage_keys
from dvcodec.spark.sources.position_deletes import PositionDeleteSource
from dvcodec.spark.tasks import OverBatches, settled

Strategy: TypeAlias = Literal["auto", "partial", "shuffle"]
STRATEGIES: tuple[str, ...] = ("auto", "partial", "shuffle")
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_SAMPLE_ROWS, _SAMPLE_BYTES = 50_000, 1 << 12
_scans: WeakKeyDictionary[DataFrame, DataFrame] = WeakKeyDictionary()
"""A result of `positions` -> its rows as Spark names their files: columns `URI` and `POS`."""
_FEW = 32
"""With fewer rows of a data file in one chunk, its partial vector does not save space."""


def build_vectors(
    source: DataFrame | PathsInput,
    file_col: str = FILE_PATH,
    pos_col: str = POS,
    *,
    strategy: Strategy = "auto",
    partitions: int | None = None,
    eager: bool = False,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Build one deletion vector per data file.

    The bytes are those of Iceberg Java for the same rows, for every strategy and order of the rows.

    Args:
        source: rows of (data file, position), in any order; duplicates are fine; or paths of Parquet files of such rows
            (Iceberg's position deletes, say: files, folders or globs), which the Python workers read themselves.
        file_col: string column: the data file, spelled as its table spells it. Spellings of one file (``/x`` and
            ``file:/x``, ``s3://`` and ``s3a://``, ..) are merged under the one that sorts first. ``a%20b`` and ``a b``
            are two files: decode Spark's ``_metadata.file_path`` first (`dvcodec.spark.paths.data_file_column`).
        pos_col: integer column: 0-based physical row positions, as ``_metadata.row_index``.
        strategy: ``partial`` makes vectors before the shuffle, ``shuffle`` after it. ``auto`` samples some 50,000 rows
            to find how many rows of one data file come together. Paths always use ``partial``. For a result of
            `positions`, as it is, ``auto`` needs no sample: Spark lists the files of a scan before it runs, so that
            rows cross to Python as numbers. With `eager`, so do rows of files that the sample has, unless rows of one
            file come together.
        partitions: tasks after the shuffle; by default ``spark.sql.shuffle.partitions``; adaptive execution
            joins small ones. A few per core suffice: each task before the shuffle writes a file for every one.
        eager: True runs the job at once and keeps the vectors in Spark (``localCheckpoint``: they are lost with an
            executor). Meanwhile the session's limit on the bytes of Arrow batches is replaced by one of 10,000 rows,
            which about halves the cost of a row, and tables of more than 128 MB for an eighth of a core are cut into
            larger tasks. Neither is done if other Python functions are in the plan of `source`.
        spark: the session that reads paths; by default the active one.
        storage_options: for URLs of such files: how to reach the store, as deltalake and polars spell it.

    Returns:
        `VECTORS`: ``data_file``, ``cardinality``, ``dv``; one row per data file.

    Raises:
        UsageError: a column is missing or of another type. While it runs: a null, a name that is not UTF-8, or a
            negative position; rows of `positions` from a file that Spark did not list.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"no strategy {strategy!r}, only {', '.join(STRATEGIES)}")
    if not is_frame(source):
        if strategy == "shuffle":
            raise UsageError(f"files of positions are read in the workers, where strategy {strategy!r} has no meaning")
        options = {"paths": paths_option(source), "file-column": file_col, "position-column": pos_col}
        reader = PositionDeleteSource(options | storage_keys(storage_options)).reader(VECTORS)
        partials = tasks.read(spark or SparkSession.active(), reader, VECTORS)
        return _built(partials, partitions, eager=eager)
    rows = _rows(source, file_col, pos_col)
    scan = _scans.get(source) if strategy == "auto" and (file_col, pos_col) == (FILE_PATH, POS) else None
    uris = [] if scan is None or scan.isStreaming else scan.inputFiles()
    files = ScannedFiles.of(uris) if uris else None
    sample = _sample(rows) if strategy == "auto" and files is None else None
    if strategy == "shuffle" or (sample is not None and not _come_together(sample)):
        together = _by(rows, sf.col("data_file"), partitions)
        return _built(together.mapInArrow(settled(_build), VECTORS), partitions, eager=eager)
    fast = eager and not hands_over(rows)
    sampled = SampledFiles.of(sample) if fast and sample is not None else None
    encode: OverBatches = encode_rows
    if scan is not None and files is not None:
        rows, encode = scan.select(packed(sf.col(URI), sf.col(POS))), files
    elif sampled is not None:
        rows, encode = sampled.numbered(rows), sampled
    elif fast:
        rows = rows.withColumn("data_file", short_name(sf.col("data_file")))
    if fast:
        return _built_fast(rows, encode, BATCH_ROWS if files is None else NUMBER_ROWS, partitions)
    return _built(rows.mapInArrow(settled(encode), VECTORS), partitions, eager=eager)


def positions(df: DataFrame) -> DataFrame:
    """Return data file and position of rows of Parquet files, for `build_vectors`: ``file_path string, pos long``.

    Data files are spelled as tables do, not as Spark's ``_metadata.file_path`` does.

    Args:
        df: rows to delete, as `apply` takes them, perhaps chosen by limits or windows; or any rows with a column
            ``_metadata`` that was selected from Parquet files and carried along.

    Raises:
        UsageError: other rows.
    """
    uri, row = origin_or_column(df, "positions")
    found = df.select(data_file_column(uri).alias(FILE_PATH), row.alias(POS))
    _scans[found] = df.select(uri.alias(URI), row.alias(POS))
    return found


def _rows(source: DataFrame, file_col: str, pos_col: str) -> DataFrame:
    """Select and check the two columns."""
    try:
        chosen = source.select(sf.col(file_col).alias("data_file"), sf.col(pos_col).alias("pos"))
        file_type, pos_type = (field.dataType for field in chosen.schema.fields)
    except AnalysisException as err:
        more = "rows of a table are build_vectors(positions(rows)); columns of other names are file_col= and pos_col="
        raise UsageError(f"columns {file_col} and {pos_col}: {reason(err)} {more}") from None
    if not isinstance(file_type, StringType):
        raise UsageError(f"column {file_col!r} holds {file_type.simpleString()}, not strings")
    if not isinstance(pos_type, _INTEGERS):
        raise UsageError(f"column {pos_col!r} holds {pos_type.simpleString()}, not integers")
    # Rows are compared and hashed by bytes, so a collation, by which "A" may equal "a", is dropped.
    return chosen.select(sf.col("data_file").cast("string"), sf.col("pos").cast("long"))


def _sample(rows: DataFrame) -> pa.ChunkedArray:
    """Return the names of the first rows; null for those that would take too much memory here."""
    name = sf.when(sf.octet_length("data_file") <= _SAMPLE_BYTES, sf.col("data_file")).alias("name")
    return to_arrow(rows.select(name).limit(_SAMPLE_ROWS))["name"]


def _come_together(sample: pa.ChunkedArray) -> bool:
    """Estimate from the first rows whether a chunk will hold enough rows of one data file for a partial vector.

    n rows drawn at random from f files show about f (1 - exp(-n/f)) of them. Rows in file order show fewer, which
    rightly favours partial vectors.
    """
    if not len(sample):
        return True
    distinct = len(sample.unique())
    candidates = np.geomspace(distinct, 1e9, 200)
    shown = candidates * -np.expm1(-len(sample) / candidates)
    files = candidates[int(np.abs(shown - distinct).argmin())]
    return bool(CHUNK_ROWS / files >= _FEW)


def _built(partials: DataFrame, partitions: int | None, *, eager: bool) -> DataFrame:
    """Merge partial vectors of `RowAccumulator`, `VECTORS`, to one per data file."""
    merged = by_data_file(partials, partitions).mapInArrow(settled(union_vectors), VECTORS)
    return keep(merged) if eager else merged


def _built_fast(rows: DataFrame, encode: OverBatches, batch_rows: int, partitions: int | None) -> DataFrame:
    """Do the same at once, for rows that batches need only bound by their number.

    Partial vectors are kept meanwhile: of these, a batch of so many rows might be too large.
    """
    spark = rows.sparkSession
    partials = rows.mapInArrow(settled(encode), VECTORS).persist()
    try:
        with without_byte_limit(spark, task_bytes(rows), batch_rows):
            partials.count()
        with small_shuffles(spark):
            return _built(partials, partitions, eager=True)
    finally:
        partials.unpersist()


def by_data_file(vectors: DataFrame, partitions: int | None, *, twins: bool = False) -> DataFrame:
    """Bring all vectors of a data file into one task, in whatever spelling.

    Args:
        vectors: with a column ``data_file``. (For rows, computing the key would cost more than the row.)
        partitions: how many tasks; None leaves it to Spark.
        twins: True brings percent-encoded spellings into that task as well.

    Raises:
        UsageError: less than one partition.
    """
    key = match_key_column(sf.col("data_file"))
    return _by(vectors, twin_column(key) if twins else key, partitions)


def _by(df: DataFrame, key: Column, partitions: int | None) -> DataFrame:
    """Shuffle by a key. ``repartition`` keeps equal keys together; a rebalancing hint would not."""
    if partitions is None:
        return df.repartition(key)
    if partitions < 1:
        raise UsageError(f"partitions must be at least 1, not {partitions}")
    return df.repartition(partitions, key)


def encode_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode rows as vectors; a data file may be repeated."""
    accumulator = RowAccumulator()
    for batch in batches:
        yield from accumulator.add(batch.column(0), batch.column(1))
    yield from accumulator.flush()


def union_vectors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors to one per data file."""
    merged = VectorUnion(trusted=True)
    for batch in batches:
        merged.add(batch.column(0), batch.column(2), batch.column(1))
    yield from merged.flush()


def _build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode all rows of some data files as their vectors."""
    yield from union_vectors(encode_rows(batches))
