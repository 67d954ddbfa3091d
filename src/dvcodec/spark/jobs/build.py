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
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType

from dvcodec.core.errors import UsageError
from dvcodec.iceberg.position_deletes import FILE_PATH, POS
from dvcodec.spark.accumulate import CHUNK_ROWS, RowAccumulator
from dvcodec.spark.fragments import FRAGMENTS, cut, join
from dvcodec.spark.hand_over import hands_over, task_bytes, without_byte_limit
from dvcodec.spark.paths import data_file_column, data_file_of, file_path_of, match_key_column, twin_column
from dvcodec.spark.scanned import CHANGED, MOST_FILES, POSITION_BITS, UNLISTED, KnownFiles, packed
from dvcodec.spark.schemas import VECTORS
from dvcodec.spark.sources import register
from dvcodec.spark.sources.position_deletes import PositionDeleteSource
from dvcodec.spark.union import VectorUnion
from dvcodec.spark.worker import OverBatches, settled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["STRATEGIES", "Strategy", "build_vectors", "by_data_file", "positions", "union"]

Strategy: TypeAlias = Literal["auto", "partial", "shuffle", "hash"]
STRATEGIES: tuple[str, ...] = ("auto", "partial", "shuffle", "hash")
_INTEGERS = (ByteType, ShortType, IntegerType, LongType)
_SAMPLE_ROWS = 50_000
_NAME_BYTES = 1 << 15
"""Maximum bytes of a name where 10,000 of them may be in one batch."""
_PLACE = ("_metadata.file_path", "_metadata.row_index")
_scans: WeakKeyDictionary[DataFrame, DataFrame] = WeakKeyDictionary()
"""The rows that a result of `positions` was made from."""
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
            with a hash of each data file instead of its path: twice as fast, but the rows are computed twice, once for
            the paths. Use it for rows that are read, not computed. ``auto`` is ``partial`` or ``shuffle``: it
            samples some 50,000 rows to find how many rows of one data file come together. Paths always use ``partial``.
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
        UsageError: a column is missing or of another type. While it runs: a null, or a negative position; with
            ``hash``, two data files with the same hash, or rows that changed between the two computations; rows of
            `positions` from a file that Spark did not list.
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
    files = KnownFiles.scanned(uris) if uris else None
    if strategy == "auto" and not uris:
        strategy = _choose(rows)
    encode: OverBatches
    if scan is not None and files is not None:
        rows, encode = scan.select(packed(*map(sf.col, _PLACE))), files
    elif scan is not None and uris:
        return _maybe_now(_listed(scan, uris, partitions), partitions, eager=eager)
    elif strategy == "shuffle":
        return _maybe_now(_by_name(rows, partitions).mapInArrow(settled(_build), VECTORS), partitions, eager=eager)
    elif strategy == "hash" and eager and not hands_over(rows) and (known := _names_of(rows)) is not None:
        rows, encode = rows.select(packed(sf.col("data_file"), sf.col("pos"))), known
    elif strategy == "hash":
        return _maybe_now(_hashed(rows, partitions), partitions, eager=eager)
    else:
        rows, encode = _refuse_long(rows) if eager else rows, _partial
    if not eager or hands_over(rows):
        return _maybe_now(rows.mapInArrow(settled(encode), VECTORS), partitions, eager=eager)
    partials = by_data_file(rows.mapInArrow(settled(partial(_fragments, encode=encode)), FRAGMENTS), partitions)
    with without_byte_limit(rows.sparkSession, task_bytes(rows)):
        return partials.mapInArrow(settled(_union_fragments), VECTORS).localCheckpoint()


def positions(df: DataFrame) -> DataFrame:
    """Return data file and position of rows of Parquet files, for `build_vectors`: ``file_path string, pos long``.

    Data files are spelled as tables do, not as Spark's ``_metadata.file_path`` does.

    Args:
        df: rows to delete, read from Parquet: ``spark.read.parquet(..).where(..)``. Its
            ``_metadata`` must be visible, as it is through filters and projections but not through joins or views.
    """
    uri, row = map(sf.col, _PLACE)
    found = df.select(data_file_column(uri).alias(FILE_PATH), row.alias(POS))
    _scans[found] = df
    return found


def union(partials: DataFrame, partitions: int | None = None) -> DataFrame:
    """Merge partial vectors of `RowAccumulator`: `VECTORS` in, `VECTORS` out, one row per data file.

    Raises:
        UsageError: less than one partition.
    """
    return by_data_file(partials, partitions).mapInArrow(settled(_union), VECTORS)


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


def _by_name(rows: DataFrame, partitions: int | None) -> DataFrame:
    """Bring all rows of a name into one task; spellings of one data file are merged later, as vectors."""
    return _by(rows, sf.col("data_file"), partitions)


def _by(df: DataFrame, key: Column, partitions: int | None) -> DataFrame:
    """Shuffle by a key. ``repartition`` keeps equal keys together; a rebalancing hint would not."""
    if partitions is None:
        return df.repartition(key)
    if partitions < 1:
        raise UsageError(f"partitions must be at least 1, not {partitions}")
    return df.repartition(partitions, key)


def _rows(source: DataFrame, file_col: str, pos_col: str) -> DataFrame:
    """Select and check the two columns."""
    chosen = source.select(sf.col(file_col).alias("data_file"), sf.col(pos_col).alias("pos"))
    file_type, pos_type = (field.dataType for field in chosen.schema.fields)
    if not isinstance(file_type, StringType):
        raise UsageError(f"column {file_col!r} holds {file_type.simpleString()}, not strings")
    if not isinstance(pos_type, _INTEGERS):
        raise UsageError(f"column {pos_col!r} holds {pos_type.simpleString()}, not integers")
    return chosen.withColumn("pos", sf.col("pos").cast("long"))


def _choose(rows: DataFrame) -> Strategy:
    """Estimate from the first rows how many of one data file a chunk will hold.

    n rows drawn at random from f files show about f (1 - exp(-n/f)) of them. Rows in file order show fewer, which
    rightly favours partial vectors.
    """
    sample = rows.select(sf.xxhash64("data_file").alias("file")).limit(_SAMPLE_ROWS).toArrow()["file"]
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


def _refuse_long(rows: DataFrame) -> DataFrame:
    """Fail on names that are too long for batches of 10,000 rows; no store has them."""
    file = sf.col("data_file")
    refused = sf.raise_error(sf.lit(f"a data file's name has more than {_NAME_BYTES} bytes: leave out eager=True"))
    short = sf.when(sf.octet_length(file) > _NAME_BYTES, refused.cast("string")).otherwise(file)
    return rows.select(short.alias("data_file"), "pos")


def _listed(scan: DataFrame, uris: list[str], partitions: int | None) -> DataFrame:
    """Build partial vectors of a scan of so many files that their names go through the shuffle."""
    uri, row = map(sf.col, _PLACE)
    listed = pa.table({"uri": list(map(file_path_of, uris)), "data_file": list(map(data_file_of, uris))})
    named = scan.sparkSession.createDataFrame(listed).select(sf.xxhash64("uri").alias("key"), "data_file")
    return _by_hash(scan.select(sf.xxhash64(uri).alias("key"), row.alias("pos")), named, UNLISTED, partitions)


def _names_of(rows: DataFrame) -> KnownFiles | None:
    """Return the data files of rows, by a job of its own; None if rows do not fit `packed`.

    That is if there are too many data files, two have the same hash, or a position has more than 32 bits.

    Raises:
        UsageError: a row names none.
    """
    found = rows.groupBy("data_file").agg(sf.max("pos").alias("last")).limit(MOST_FILES + 1).toArrow()
    if found["data_file"].null_count:
        raise UsageError("rows name no data file")
    if (pc.max(found["last"]).as_py() or 0) >> POSITION_BITS:
        return None
    return KnownFiles.named(found["data_file"].to_pylist())


def _hashed(rows: DataFrame, partitions: int | None) -> DataFrame:
    """Build partial vectors by hash; the names come from a second computation of the rows."""
    key = sf.xxhash64("data_file").alias("key")
    named = rows.select("data_file").distinct().select(key, "data_file")
    return _by_hash(rows.select(key, "pos"), named, CHANGED, partitions)


def _by_hash(rows: DataFrame, names: DataFrame, unknown: str, partitions: int | None) -> DataFrame:
    """Build vectors keyed by the hash of the data file; the names go through the same shuffle.

    Args:
        rows: hash and position.
        names: the data file of each hash, as ``key`` and ``data_file``.
        unknown: the error if a hash has no name.
        partitions: tasks after the shuffle.
    """
    vectors = rows.mapInArrow(settled(_partial), VECTORS).withColumn("name", sf.lit(None).cast("string"))
    others = [sf.lit(None).cast(field.dataType).alias(field.name) for field in VECTORS.fields[1:]]
    named = names.select(sf.col("key").cast("string").alias("data_file"), *others, sf.col("data_file").alias("name"))
    return _by_name(vectors.union(named), partitions).mapInArrow(
        settled(partial(_union_named, unknown=unknown)), VECTORS
    )


def _partial(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode rows as vectors; a data file may be repeated."""
    accumulator = RowAccumulator()
    for batch in batches:
        yield from accumulator.add(batch.column(0), batch.column(1))
    yield from accumulator.flush()


def _union(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors to one per data file."""
    merged = VectorUnion(trusted=True)
    for batch in batches:
        merged.add(batch.column(0), batch.column(2), batch.column(1))
    yield from merged.flush()


def _union_named(batches: Iterator[pa.RecordBatch], *, unknown: str = CHANGED) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors keyed by hash, and resolve the hashes to data files; every hash needs a name."""
    merged = VectorUnion(trusted=True)
    names = []
    for batch in batches:
        is_name = batch.column(2).is_null()
        names.append(batch.filter(is_name).select([0, 3]))
        vectors = batch.filter(pc.invert(is_name))
        merged.add(vectors.column(0), vectors.column(2), vectors.column(1))
    if not names:
        return
    known = pa.Table.from_batches(names).combine_chunks()
    if known.column(1).null_count:
        raise UsageError("rows name no data file")
    hashes = known.column(0).combine_chunks()
    if len(hashes.unique()) < len(hashes):
        raise UsageError("two data files have the same hash: build these vectors with strategy 'partial'")
    for batch in merged.flush():
        index = pc.index_in(batch.column(0), value_set=hashes)
        if index.null_count:
            raise UsageError(unknown)
        files = known.column(1).take(index).combine_chunks()
        yield pa.record_batch([files, *batch.columns[1:]], schema=batch.schema)


def _fragments(batches: Iterator[pa.RecordBatch], *, encode: OverBatches) -> Iterator[pa.RecordBatch]:
    """Encode rows as vectors, in rows of bounded size."""
    return cut(encode(batches))


def _union_fragments(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge partial vectors, which come in fragments."""
    return _union(join(batches))


def _build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode all rows of some data files as their vectors."""
    yield from _union(_partial(batches))


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
