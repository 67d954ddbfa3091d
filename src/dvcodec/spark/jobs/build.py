"""Build one vector per data file from rows of (data file, position), by one of two plans.

The cost of such a job is shipping rows from the JVM to Python, not the bitmaps. So rows become partial vectors where
they are read, and only those are shuffled and merged (``partial``). If every data file has so few rows in a task that
its partial vectors are no smaller than the rows, the rows are shuffled instead (``shuffle``). Python workers read files
of positions themselves: their rows never reach the JVM, only partial vectors do.

What crosses to Python for ``partial`` is the name and the position, or a number for both where files are known before
(`hand_over.packed`). ``eager`` runs it at once, under settings that make rows cross faster (`hand_over`).

Spark shows ``_metadata`` through most operators, and adds it below them when it is asked for. Below ``distinct`` that
changes which rows are equal; beside a join it belongs to one of the sides. So a plan may have only operators that are
known to make each row from one row of a file (`origin`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType, StructType

from dvcodec.core.errors import UsageError
from dvcodec.iceberg import FILE_PATH, POS
from dvcodec.spark import tasks
from dvcodec.spark.accumulate import CHUNK_ROWS, RowAccumulator, VectorUnion
from dvcodec.spark.columns import VECTORS
from dvcodec.spark.compat import is_frame, keep, metadata_of, reason, to_arrow
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


_EACH = re.compile(
    r"~?(Project|Filter|Generate|Sample|Sort|Repartition|RepartitionByExpression|RebalancePartitions|SubqueryAlias"
    r"|ResolvedHint|PipeOperator|CollectMetrics|EventTimeWatermark|Join Left(Semi|Anti))\b"
)
"""Operators that treat each row by itself: deleting rows before or after them is the same. Spark marks streams by ~."""
_CHOOSE = re.compile(r"(Window|GlobalLimit|LocalLimit|Offset)\b")
"""Operators whose rows are rows of files, but depend on what other rows there are."""
_READ = re.compile(r"~?(Relation|StreamingRelation)\b")
_NAME = re.compile(r"~?(Join \w+|\w+)")
_SHOWN = 25
"""Fields of an operator in text, as Spark prints it by default: with fewer, it logs a warning."""
_ROOT = "__dvcodec_rows"
_FIELDS = ("file_path", "row_index")


def origin(df: DataFrame, file: str, job: str, *, choosing: bool = False) -> tuple[Column, Column]:
    """Return columns of `df`: the file that a row comes from, and its position in it.

    Args:
        df: the caller's rows.
        file: ``file_path`` or ``file_name``, percent-encoded as in ``_metadata``.
        job: what needs the rows.
        choosing: True accepts limits and windows, which see rows that vectors delete.

    Raises:
        UsageError: the plan has an operator that is not known to keep rows, or Spark has no such columns.
    """
    _check(df, job, choosing)
    try:
        metadata = metadata_of(df)
        columns = metadata.getField(file), metadata.getField("row_index")
        df.select(*columns).schema  # noqa: B018  (over Connect nothing is resolved before)
    except AnalysisException as err:
        raise UsageError(
            f"{job} needs rows of Parquet files, but Spark shows no _metadata.row_index: read files with "
            "spark.read.parquet, and give semi joins an expression (on=df.a == keys.b) instead of names"
        ) from err
    return columns


def origin_or_column(df: DataFrame, job: str) -> tuple[Column, Column]:
    """Return `origin` with any choice of rows, or what a column ``_metadata`` of `df` has, which rows carry with them.

    Raises:
        UsageError: see `origin`.
    """
    if "_metadata" in df.columns:
        kind = df.schema["_metadata"].dataType
        if isinstance(kind, StructType) and set(_FIELDS) <= set(kind.names):
            return sf.col("_metadata.file_path"), sf.col("_metadata.row_index")
    return origin(df, "file_path", job, choosing=True)


def _check(df: DataFrame, job: str, choosing: bool) -> None:
    why = "Spark does not print the whole plan (spark.sql.maxPlanStringLength)"
    for operator in _operators(df):
        if _READ.match(operator):
            return
        if not (_EACH.match(operator) or (choosing and _CHOOSE.match(operator))):
            name = _NAME.match(operator)
            why = f"these come out of {name[1] if name else operator}"
            break
    instead = "call it before that, on spark.read.parquet(..)"
    if choosing:
        instead += ", select the column _metadata before that, or choose the rows by a left semi join"
    raise UsageError(f"{job} needs rows as spark.read.parquet returns them, but {why}: {instead}")


def _operators(df: DataFrame) -> Iterator[str]:
    """Yield the operators of the analyzed plan from the last to the first; of a join, only those on the left."""
    frame: Any = df
    if hasattr(frame, "_jdf"):
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  (no other way to the plan)
        yield plan.simpleString(_SHOWN)
        while not plan.children().isEmpty():
            plan = plan.children().head()
            yield plan.simpleString(_SHOWN)
        return
    # Connect has only the text of the plan, where an operator's children are indented by one step and its subqueries
    # by two. A literal may have line breaks and look like a child, so there must be just as many as are expected.
    text = frame.alias(_ROOT)._explain_string(extended=True)  # noqa: SLF001  (`explain` only prints)
    analyzed = text.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    lines = analyzed.partition(f"SubqueryAlias {_ROOT}\n")[2].split("\n")
    margin, operator = "", ""
    while True:
        left, last = ([line for line in lines if line.startswith(margin + branch)] for branch in (":- ", "+- "))
        if (len(left), len(last)) != (int(operator.startswith("Join")), 1):
            return
        operator = (left or last)[0][len(margin) + 3 :]
        yield operator
        margin += ":  " if left else "   "
