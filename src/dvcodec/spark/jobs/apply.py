"""Applying vectors to the rows of Parquet files, inside the JVM.

Vectors become words (see `jobs.words`), a table of them is broadcast, and an anti-join on data file and chunk looks the
bit of each row up. No row goes to Python, no user-defined function is in the plan: column pruning, push-down and
whole-stage code stay. A row is known by its file and its physical position in it, ``_metadata.file_path`` and
``_metadata.row_index``; never by the order of rows.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import gather, offsets_of
from dvcodec.spark.columns import list_array, pieces
from dvcodec.spark.jobs.words import CHUNK_BITS, WORD_BITS, Words, estimated_bytes, words_of
from dvcodec.spark.paths import file_uri_of, match_key, match_key_column, spellings
from dvcodec.spark.vectors import NamedVectors, vector_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["MATCHES", "STRATEGIES", "apply", "deleted", "unmatched"]

Strategy: TypeAlias = Literal["auto", "broadcast", "shuffle"]
Match: TypeAlias = Literal["path", "uri", "name"]
Unmatched: TypeAlias = Literal["ignore", "fail"]
STRATEGIES: tuple[str, ...] = ("auto", "broadcast", "shuffle")
MATCHES: tuple[str, ...] = ("path", "uri", "name")

BROADCAST_BYTES = 128 << 20
"""What the words may take in each JVM. The driver needs about four times as much to build the table: as much as there
is in Spark's default heap of 1 GB; with a larger one, more pays."""
_BATCH_BYTES = 4 << 20
_SHOWN = 3

# Names that no table has; all are gone in what is returned.
_FILE, _ROW, _KEY, _NAME, _CHUNK, _FIRST, _WORDS = (
    f"__dvcodec_{name}" for name in ("file", "row", "key", "name", "chunk", "first", "words")
)
_WORD_TABLE = StructType(
    [
        StructField(_NAME, StringType(), nullable=False),
        StructField(_CHUNK, LongType(), nullable=False),
        StructField(_FIRST, IntegerType(), nullable=False),
        StructField(_WORDS, ArrayType(LongType(), containsNull=False), nullable=False),
    ]
)
_BYTES = StructType([StructField("bytes", LongType())])


def apply(
    df: DataFrame,
    dvs: DataFrame,
    *,
    strategy: Strategy = "auto",
    match: Match = "path",
    unmatched: Unmatched = "ignore",
    broadcast_bytes: int = BROADCAST_BYTES,
) -> DataFrame:
    """Return the rows of a DataFrame that no vector deletes; columns and their order stay.

    Args:
        df: rows read from Parquet (``spark.read.parquet``), perhaps filtered or projected since, but with
            ``_metadata`` still visible: apply vectors before joins, aggregations, unions and views.
        dvs: vectors (``data_file``, ``dv``). Several of one data file all apply. A vector deletes nothing where the
            file has no such row.
        strategy: ``broadcast`` sends the words to every worker and leaves the rows where they are; ``shuffle`` sorts
            rows and words by data file and chunk into the same tasks, for words too large for that; ``auto`` runs one
            job over `dvs` that sums up their size, and decides. (Columns ``cardinality``, ``min`` and ``max`` spare
            that job the vectors.) Where `dvs` is costly to compute, write or persist it first.
        match: how `dvs` names data files. ``path``: in plain text, as tables do. ``uri``: as Spark's
            ``_metadata.file_path`` does. ``name``: by the file's name, with or without folders before it, as Paimon.
        unmatched: ``fail`` runs a job first that compares the files named with ``df.inputFiles()``.
        broadcast_bytes: size of the words from which ``auto`` takes ``shuffle``. The default suits a driver of 1 GB.

    Raises:
        UsageError: unknown words, `dvs` without those columns, no ``_metadata.row_index`` in `df`, a data file
            that is not among those of `df` (``unmatched="fail"``), or two of the same name (``match="name"``).
            While it runs: a vector that is null.
        DecodeError: while it runs: a vector is not sound.
    """
    return _join(df, dvs, "left_anti", strategy, match, unmatched, broadcast_bytes)


def deleted(
    df: DataFrame,
    dvs: DataFrame,
    *,
    strategy: Strategy = "auto",
    match: Match = "path",
    unmatched: Unmatched = "ignore",
    broadcast_bytes: int = BROADCAST_BYTES,
) -> DataFrame:
    """Return the rows that vectors delete, and no others; all else as in `apply`.

    Args:
        df: see `apply`.
        dvs: see `apply`.
        strategy: see `apply`.
        match: see `apply`.
        unmatched: see `apply`.
        broadcast_bytes: see `apply`.

    Raises:
        UsageError, DecodeError: see `apply`.
    """
    return _join(df, dvs, "left_semi", strategy, match, unmatched, broadcast_bytes)


def unmatched(df: DataFrame, dvs: DataFrame, *, match: Match = "path") -> DataFrame:
    """Return the vectors whose data file is none of ``df.inputFiles()``: those that `apply` has no rows for.

    Filters on partition columns do not take files out of ``inputFiles``.

    Args:
        df: rows read from files.
        dvs: vectors; `dv` is not looked at.
        match: see `apply`.

    Raises:
        UsageError: an unknown `match`, no column ``data_file``, or two files of `df` of the same name
            (``match="name"``).
    """
    _check("match", match, MATCHES)
    if "data_file" not in dvs.columns:
        raise UsageError("vectors need the column data_file")
    uris = df.inputFiles()
    if match == "name":
        names = _distinct_names(uris)
        key, files = sf.substring_index("data_file", "/", -1), [match_key(name, uri=True) for name in names]
    else:
        key, files = match_key_column(sf.col("data_file"), uri=match == "uri"), [match_key(u, uri=True) for u in uris]
    known = df.sparkSession.createDataFrame(pa.table({_KEY: pa.array(files, pa.string())}))
    return dvs.withColumn(_FILE, key).join(known, sf.col(_FILE) == sf.col(_KEY), "left_anti").drop(_FILE)


def _distinct_names(uris: list[str]) -> list[str]:
    names = [uri.rpartition("/")[2] for uri in uris]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        first, second = itertools.islice((uri for uri in uris if uri.endswith(f"/{twice}")), 2)
        raise UsageError(f"match='name' cannot tell {first} from {second}: their names are the same")
    return names


def _check(argument: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"no {argument} {value!r}, only {', '.join(known)}")


def _join(
    df: DataFrame, dvs: DataFrame, how: str, strategy: Strategy, match: Match, absent: Unmatched, broadcast_bytes: int
) -> DataFrame:
    _check("strategy", strategy, STRATEGIES)
    _check("match", match, MATCHES)
    _check("unmatched", absent, ("ignore", "fail"))
    chosen = vector_columns(dvs)
    rows = _marked(df, "file_name" if match == "name" else "file_path")
    if absent == "fail":
        _refuse_unmatched(df, dvs, match)
    elif match == "name":
        _distinct_names(df.inputFiles())
    if strategy == "auto":
        strategy = "broadcast" if _size(dvs, chosen) <= broadcast_bytes else "shuffle"
    words = chosen.mapInArrow(_WordTable(match), _WORD_TABLE)
    words = words.select(_NAME, _FIRST, _WORDS, _key(sf.col(_NAME), sf.col(_CHUNK)).alias(_KEY))
    words = sf.broadcast(words) if strategy == "broadcast" else words.hint("shuffle_hash")
    in_chunk = sf.shiftright(_ROW, WORD_BITS).bitwiseAND((1 << (CHUNK_BITS - WORD_BITS)) - 1).cast("int")
    word = sf.get(_WORDS, in_chunk - sf.col(_FIRST))
    # Hashes collide, so the data file is compared as well (which makes the chunks equal too): behind the bit, where few
    # rows get; and not by =, for that would make it a key.
    condition = (
        (_key(sf.col(_FILE), sf.shiftright(_ROW, CHUNK_BITS)) == sf.col(_KEY))
        & (sf.getbit(word, sf.col(_ROW).bitwiseAND(63).cast("int")) == 1)
        & (sf.col(_FILE) >= sf.col(_NAME))
        & (sf.col(_FILE) <= sf.col(_NAME))
    )
    return rows.join(words, condition, how).drop(_FILE, _ROW)


def _key(file: Column, chunk: Column) -> Column:
    """Make one number of data file and chunk, not always distinct: Spark keeps tables by one long in a faster form.

    Of Spark's hashes the CRC is by far the fastest for the length of a path, and a hash is made for each row. Of one
    data file, different chunks have different keys.
    """
    return sf.shiftleft(sf.crc32(file.cast("binary")), 31).bitwiseXOR(chunk)


def _marked(df: DataFrame, field: str) -> DataFrame:
    """Add the file and the physical position of each row."""
    try:
        metadata = df.metadataColumn("_metadata")
        rows = df.withColumns({_FILE: metadata.getField(field), _ROW: metadata.getField("row_index")})
        rows.schema  # noqa: B018  (over Connect nothing is resolved before)
    except AnalysisException as err:
        message = "no _metadata.row_index is visible: rows have to come from Parquet files (spark.read.parquet), and "
        raise UsageError(f"{message}vectors be applied before joins, aggregations, unions and views") from err
    return rows


def _refuse_unmatched(df: DataFrame, dvs: DataFrame, match: Match) -> None:
    strangers = unmatched(df, dvs, match=match).select("data_file").distinct()
    shown = [row["data_file"] for row in strangers.limit(_SHOWN + 1).collect()]
    if shown:
        names = ", ".join(map(repr, shown[:_SHOWN])) + (", .." if len(shown) > _SHOWN else "")
        raise UsageError(f"vectors of data files that the rows do not come from: {names} (match={match!r})")


def _size(dvs: DataFrame, chosen: DataFrame) -> int:
    """Estimate the bytes of the words in a broadcast table, in one job."""
    numbers = ("cardinality", "min", "max")
    if set(numbers) <= set(dvs.columns):
        found = dvs.select(*(sf.col(name).cast("long") for name in numbers)).mapInArrow(_size_by_numbers, _BYTES)
    else:
        found = chosen.mapInArrow(_size_by_vectors, _BYTES)
    total = found.agg(sf.sum("bytes").alias("bytes")).first()
    return int(total["bytes"] or 0) if total is not None else 0


def _size_by_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = [np.asarray(column.fill_null(fill)) for column, fill in zip(batch.columns, (0, -1, -1), strict=True)]
        yield _bytes(estimated_bytes(*numbers))


def _size_by_vectors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = NamedVectors.of(*batch.columns).found
        yield _bytes(estimated_bytes(found.cardinality, found.min, found.max))


def _bytes(count: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([count], pa.int64())], ["bytes"])


@dataclass(frozen=True, slots=True)
class _WordTable:
    """Turns vectors into rows of the word table."""

    match: Match

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            vectors = NamedVectors.of(*batch.columns)
            names = [self._names(file) for file in vectors.files]
            often = max(map(len, names), default=0)
            spelled = [[name[k] if k < len(name) else None for name in names] for k in range(often)]
            tables = [pa.array(column, pa.string()) for column in spelled]
            for words in words_of(vectors):
                for table in tables:
                    yield from _rows(words, table)

    def _names(self, data_file: str) -> list[str]:
        """Return every way in which Spark may spell a data file."""
        if self.match == "name":
            return [file_uri_of(data_file.rpartition("/")[2])]
        if self.match == "path":
            return spellings(data_file)
        return spellings(match_key(data_file, uri=True))


def _rows(words: Words, names: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yield words under the names of their data files; a data file whose name is null has no rows."""
    if names.null_count:
        chosen = np.asarray(names.is_valid().to_numpy(zero_copy_only=False))[words.owner]
        starts = np.cumsum(words.counts) - words.counts
        flat = gather(words.words, starts[chosen], words.counts[chosen])
        words = Words(words.owner[chosen], words.chunk[chosen], words.first[chosen], words.counts[chosen], flat)
    bounds = offsets_of(words.counts)
    for part in pieces(8 * words.counts + 64, _BATCH_BYTES):
        columns = [
            names.take(pa.array(words.owner[part])),
            pa.array(words.chunk[part]),
            pa.array(words.first[part].astype(np.int32)),
            list_array(words.words[bounds[part.start] : bounds[part.stop]], words.counts[part]),
        ]
        yield pa.record_batch(columns, _WORD_TABLE.names)
