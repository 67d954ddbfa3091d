"""Build one vector per data file from rows of (data file, position).

The cost of such a job is shipping rows from the JVM to Python, not the bitmaps. So rows become partial vectors where
they are read, and only those are shuffled (strategy ``partial``). If every data file has so few rows in a task that
its partial vectors are no smaller than the rows, the rows are shuffled instead (``shuffle``). If most of the shipped
bytes are long paths, their hashes are shipped instead, and the paths are joined to the vectors at the end (``hash``).
Python workers read files of positions themselves: their rows never reach the JVM.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from dvcodec.core.errors import UsageError
from dvcodec.iceberg.position_deletes import FILE_PATH, POS
from dvcodec.spark.accumulate import CHUNK_ROWS
from dvcodec.spark.fragments import FRAGMENTS, cut, join
from dvcodec.spark.hand_over import BATCH_ROWS, NUMBER_ROWS, hands_over, short_name, task_bytes, without_byte_limit
from dvcodec.spark.jobs.by_hash import hashed, listed
from dvcodec.spark.jobs.origin import origin_or_column
from dvcodec.spark.jobs.partials import by_data_file, by_name, encode_rows, union, union_vectors
from dvcodec.spark.paths import data_file_column
from dvcodec.spark.sampled import SampledFiles
from dvcodec.spark.scanned import URI, ScannedFiles, packed
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.sources import register
from dvcodec.spark.sources.position_deletes import PositionDeleteSource
from dvcodec.spark.worker import OverBatches, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["STRATEGIES", "Strategy", "build_vectors", "positions"]

Strategy: TypeAlias = Literal["auto", "partial", "shuffle", "hash"]
STRATEGIES: tuple[str, ...] = ("auto", "partial", "shuffle", "hash")
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_SAMPLE_ROWS, _SAMPLE_BYTES = 50_000, 1 << 12
_scans: WeakKeyDictionary[DataFrame, DataFrame] = WeakKeyDictionary()
"""A result of `positions` -> its rows as Spark names their files: columns `URI` and `POS`."""
_FEW = 32
"""With fewer rows of a data file in one chunk, its partial vector does not save space."""


def build_vectors(
    source: DataFrame | str | os.PathLike[str] | list[str] | tuple[str, ...],
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
        strategy: ``partial`` makes vectors before the shuffle, ``shuffle`` after it. ``hash`` works like ``partial``,
            with a 64-bit hash of each data file instead of its path: twice as fast, but the rows are computed twice,
            once for the paths. Use it for rows that are read, not computed. ``auto`` is ``partial`` or ``shuffle``: it
            samples some 50,000 rows to find how many rows of one data file come together. Paths always use ``partial``.
            With `eager`, names that it finds there cross to Python as numbers, unless rows of one file come together.
            For a result of `positions`, as it is, ``auto`` and ``hash`` need neither: Spark lists the files of a scan
            before it runs, so that rows are computed once and cross to Python as numbers.
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
            negative position; with ``hash``, two data files with the same hash, or rows that changed between the two
            computations; rows of `positions` from a file that Spark did not list.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"no strategy {strategy!r}, only {', '.join(STRATEGIES)}")
    if isinstance(source, (str, os.PathLike, list, tuple)):
        if strategy in ("shuffle", "hash"):
            raise UsageError(f"files of positions are read in the workers, where strategy {strategy!r} has no meaning")
        paths = [source] if isinstance(source, (str, os.PathLike)) else list(source)
        named = [os.fspath(path) for path in paths]
        built = union(_read_paths(named, file_col, pos_col, spark, storage_options), partitions)
        return built.localCheckpoint() if eager else built
    rows = _rows(source, file_col, pos_col)
    scan = _scans.get(source) if (file_col, pos_col) == (FILE_PATH, POS) else None
    uris = [] if scan is None or scan.isStreaming or strategy in ("partial", "shuffle") else scan.inputFiles()
    files = ScannedFiles.of(uris) if uris else None
    fast = eager and not hands_over(rows)
    sampled = None
    if strategy == "auto" and not uris:
        sample = _sample(rows)
        strategy = _choose(sample)
        sampled = SampledFiles.of(sample) if fast and strategy == "partial" else None
    encode: OverBatches
    batch_rows = BATCH_ROWS
    if scan is not None and files is not None:
        batch_rows = NUMBER_ROWS
        rows, encode = scan.select(packed(sf.col(URI), sf.col(POS))), files
    elif scan is not None and uris:
        return _maybe_now(listed(scan, uris, partitions), partitions, eager=eager)
    elif strategy == "shuffle":
        return _maybe_now(by_name(rows, partitions).mapInArrow(settled(_build), VECTORS), partitions, eager=eager)
    elif strategy == "hash":
        return _maybe_now(hashed(rows, partitions), partitions, eager=eager)
    elif sampled is not None:
        rows, encode = sampled.numbered(rows), sampled
    else:
        rows, encode = rows.withColumn("data_file", short_name(sf.col("data_file"))) if fast else rows, encode_rows
    if not fast:
        return _maybe_now(rows.mapInArrow(settled(encode), VECTORS), partitions, eager=eager)
    fragments = rows.mapInArrow(settled(partial(_fragments, encode=encode, batch_rows=batch_rows)), FRAGMENTS)
    partials = by_data_file(fragments, partitions)
    with without_byte_limit(rows.sparkSession, task_bytes(rows), batch_rows):
        return partials.mapInArrow(settled(_union_fragments), VECTORS).localCheckpoint()


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
    chosen = source.select(sf.col(file_col).alias("data_file"), sf.col(pos_col).alias("pos"))
    file_type, pos_type = (field.dataType for field in chosen.schema.fields)
    if not isinstance(file_type, StringType):
        raise UsageError(f"column {file_col!r} holds {file_type.simpleString()}, not strings")
    if not isinstance(pos_type, _INTEGERS):
        raise UsageError(f"column {pos_col!r} holds {pos_type.simpleString()}, not integers")
    # Rows are compared and hashed by bytes, so a collation, by which "A" may equal "a", is dropped.
    return chosen.select(sf.col("data_file").cast("string"), sf.col("pos").cast("long"))


def _sample(rows: DataFrame) -> pa.ChunkedArray:
    """Return the names of the first rows; null for those that would take too much memory here."""
    name = sf.when(sf.octet_length("data_file") <= _SAMPLE_BYTES, sf.col("data_file")).alias("name")
    return rows.select(name).limit(_SAMPLE_ROWS).toArrow()["name"]


def _choose(sample: pa.ChunkedArray) -> Strategy:
    """Estimate from the first rows how many of one data file a chunk will hold.

    n rows drawn at random from f files show about f (1 - exp(-n/f)) of them. Rows in file order show fewer, which
    rightly favours partial vectors.
    """
    if not len(sample):
        return "partial"
    distinct = len(sample.unique())
    candidates = np.geomspace(distinct, 1e9, 200)
    shown = candidates * -np.expm1(-len(sample) / candidates)
    files = candidates[int(np.abs(shown - distinct).argmin())]
    return "partial" if CHUNK_ROWS / files >= _FEW else "shuffle"


def _maybe_now(partials: DataFrame, partitions: int | None, *, eager: bool) -> DataFrame:
    built = union(partials, partitions)
    return built.localCheckpoint() if eager else built


def _fragments(batches: Iterator[pa.RecordBatch], *, encode: OverBatches, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Encode rows as vectors, in rows of bounded size."""
    return cut(encode(batches), batch_rows)


def _union_fragments(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors, which come in fragments."""
    return union_vectors(join(batches))


def _build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode all rows of some data files as their vectors."""
    yield from union_vectors(encode_rows(batches))


def _read_paths(
    paths: list[str],
    file_col: str,
    pos_col: str,
    spark: SparkSession | None,
    storage_options: Mapping[str, object] | None,
) -> DataFrame:
    session = spark or SparkSession.active()
    register(session)
    return PositionDeleteSource.read(session, paths, file_col, pos_col, storage_options)
