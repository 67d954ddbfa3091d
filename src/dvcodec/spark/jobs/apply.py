"""Apply vectors to the rows of Parquet files, inside the JVM.

Vectors become words (see `jobs.bitset_words`), a table of them is broadcast, and an anti-join on data file and chunk
looks up the bit of each row. No row is sent to Python and the plan has no user-defined function, so column pruning,
push-down and whole-stage code generation still work. A row is identified by its file and physical position,
``_metadata.file_path`` and ``_metadata.row_index``; never by the order of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import cut_by_weight, gather, offsets_of
from dvcodec.spark.columns import STRING, list_array, struct
from dvcodec.spark.compat import frame_of
from dvcodec.spark.jobs.bitset_words import CHUNK_BITS, WORD_BITS, Words, words_of
from dvcodec.spark.jobs.matching import Files, Match, Unmatched, keys_of, refuse_unmatched, survey
from dvcodec.spark.jobs.origin import origin
from dvcodec.spark.jobs.read import as_vectors
from dvcodec.spark.paths import decoded_key_column, match_key_column
from dvcodec.spark.sources.options import PathsInput
from dvcodec.spark.vectors import NamedVectors, vector_columns
from dvcodec.spark.worker import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BATCH_BYTES = 4 << 20
NAME, CHUNK, FIRST, WORDS = (f"__dvcodec_{name}" for name in ("name", "chunk", "first", "words"))
"""Temporary column names."""
WORD_TABLE = StructType(
    [
        StructField(NAME, StringType(), nullable=False),
        StructField(CHUNK, LongType(), nullable=False),
        StructField(FIRST, IntegerType(), nullable=False),
        StructField(WORDS, ArrayType(LongType(), containsNull=False), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class WordTable:
    """Converts vectors to rows of the word table."""

    files: Files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert data files and vectors to `WORD_TABLE`, under every spelling that Spark may have for a data file.

        Raises:
            UsageError, DecodeError: see `NamedVectors.of`.
        """
        for batch in batches:
            vectors = NamedVectors.of(*batch.columns)
            names = [self.files.names(file)[0] for file in vectors.files]
            often = max(map(len, names), default=0)
            spelled = [[name[k] if k < len(name) else None for name in names] for k in range(often)]
            tables = [pa.array(column, pa.string()) for column in spelled]
            for words in words_of(vectors):
                for table in tables:
                    yield from _rows(words, table)


def _rows(words: Words, names: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yield words under the names of their data files; a data file whose name is null has no rows."""
    if names.null_count:
        chosen = np.asarray(names.is_valid().to_numpy(zero_copy_only=False))[words.owner]
        starts = np.cumsum(words.counts) - words.counts
        flat = gather(words.words, starts[chosen], words.counts[chosen])
        words = Words(words.owner[chosen], words.chunk[chosen], words.first[chosen], words.counts[chosen], flat)
    bounds = offsets_of(words.counts)
    for part in cut_by_weight(8 * words.counts + 64, _BATCH_BYTES):
        columns = [
            names.take(pa.array(words.owner[part])),
            pa.array(words.chunk[part]),
            pa.array(words.first[part].astype(np.int32)),
            list_array(words.words[bounds[part.start] : bounds[part.stop]], words.counts[part]),
        ]
        yield pa.record_batch(columns, WORD_TABLE.names)


Strategy: TypeAlias = Literal["auto", "broadcast", "shuffle"]
STRATEGIES: tuple[str, ...] = ("auto", "broadcast", "shuffle")
MATCHES: tuple[str, ...] = get_args(Match)

BROADCAST_BYTES = 128 << 20
"""Bytes of words in each JVM. The driver needs about four times as much to build the table, which suits Spark's default
heap of 1 GB; raise it with a larger heap."""

# Temporary column names, dropped from the result.
_FILE, _ROW, _KEY = (f"__dvcodec_{name}" for name in ("file", "row", "key"))


def apply(
    df: DataFrame,
    dvs: DataFrame | PathsInput,
    *,
    strategy: Strategy = "auto",
    match: Match = "path",
    unmatched: Unmatched = "fail_if_all",
    broadcast_bytes: int = BROADCAST_BYTES,
) -> DataFrame:
    """Return the rows of a DataFrame that no vector deletes; columns keep their order.

    Args:
        df: rows read from Parquet (``spark.read.parquet``, ``spark.table``, SQL), perhaps filtered, projected,
            exploded, sampled, sorted, repartitioned, or joined by a left semi or anti join on an expression since:
            what treats each row by itself. Anything else (other joins, aggregates, ``distinct``, limits, windows, set
            operations, views, checkpoints, ``mapInArrow``) belongs after `apply`, and is refused.
        dvs: vectors (``data_file``, ``dv``). Several of one data file all apply. Positions beyond the rows of the
            file delete nothing.
        strategy: ``broadcast`` sends the words to every worker and leaves the rows where they are; ``shuffle`` brings
            rows and words of one data file and chunk into the same task, for words too large to broadcast; ``auto``
            runs one job over `dvs` that sums up their size, and decides. With columns ``cardinality``, ``min`` and
            ``max``, that job does not read the vectors. Without, it returns the words of small vectors (some
            megabytes), which are then part of the plan. If `dvs` is costly to compute, write or persist it first.
        match: how `dvs` names data files. ``path``: in plain text, as tables do; or, if no file that is read has
            that name, percent-encoded as Spark's ``_metadata.file_path``. ``plain`` and ``uri`` accept only the
            former or the latter. ``name``: by bare file name in plain text, ignoring folders, as in Paimon. Spellings
            such as ``/x`` and ``file:/x``, ``s3://`` and ``s3a://`` are the same throughout.
        unmatched: vectors of files that are not among ``df.inputFiles()``. ``fail_if_all``: an error if there are
            vectors and none matches, which means a wrong spelling or another table; ``fail``: an error if any does
            not match; ``ignore``: they delete nothing. The first two log how many do not match at INFO (logger
            ``dvcodec.paths``). ``auto`` counts them in the job that it runs anyway; with another strategy they cost a
            job over the column ``data_file``, which ``ignore`` avoids.
        broadcast_bytes: ``auto`` chooses ``shuffle`` for words larger than this. The default suits a driver of 1 GB.

    Raises:
        UsageError: an unknown option value, `dvs` without those columns, rows that are not each made from one row of
            a Parquet file, vectors that match no file (see `unmatched`), or two files of the same name
            (``match="name"``). While it runs: a vector that is null, or whose data file is one file in plain text and
            another percent-encoded (``match="path"``).
        DecodeError: while it runs: a vector is corrupt.
    """
    return _join(df, dvs, "apply", strategy, match, unmatched, broadcast_bytes)


def deleted(
    df: DataFrame,
    dvs: DataFrame | PathsInput,
    *,
    strategy: Strategy = "auto",
    match: Match = "path",
    unmatched: Unmatched = "fail_if_all",
    broadcast_bytes: int = BROADCAST_BYTES,
) -> DataFrame:
    """Return only the rows that vectors delete; otherwise like `apply`.

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
    return _join(df, dvs, "deleted", strategy, match, unmatched, broadcast_bytes)


def unmatched(df: DataFrame, dvs: DataFrame | PathsInput, *, match: Match = "path") -> DataFrame:
    """Return the vectors whose data file is not in ``df.inputFiles()``: `apply` has no rows for them.

    Filters on partition columns do not remove files from ``inputFiles``.

    Args:
        df: see `apply`.
        dvs: vectors; `dv` is not read.
        match: see `apply`.

    Raises:
        UsageError: an unknown `match`, no column ``data_file``, other rows than `apply` takes, or two files of `df` of
            the same name (``match="name"``).
    """
    _check("match", match, MATCHES)
    dvs = as_vectors(dvs, df.sparkSession)
    if "data_file" not in dvs.columns:
        raise UsageError("vectors need the column data_file")
    # A cached DataFrame lists no files; these columns are not cached.
    uris = df.select(*origin(df, "file_path", "unmatched")).inputFiles()
    files = pa.table({_KEY: pa.array(keys_of(uris, match), pa.string())})
    known = frame_of(df.sparkSession, files, struct(**{_KEY: STRING}))
    file = sf.col("data_file")
    if match == "name":
        keys = [sf.substring_index(file, "/", -1)]
    elif match == "path":
        keys = [match_key_column(file), decoded_key_column(file)]
    else:
        keys = [match_key_column(file, uri=match == "uri")]
    for key in keys:
        dvs = dvs.withColumn(_FILE, key).join(known, sf.col(_FILE) == sf.col(_KEY), "left_anti").drop(_FILE)
    return dvs


def _check(argument: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"no {argument} {value!r}, only {', '.join(known)}")


def _join(
    df: DataFrame,
    dvs: DataFrame | PathsInput,
    job: str,
    strategy: Strategy,
    match: Match,
    absent: Unmatched,
    broadcast_bytes: int,
) -> DataFrame:
    _check("strategy", strategy, STRATEGIES)
    _check("match", match, MATCHES)
    _check("unmatched", absent, get_args(Unmatched))
    dvs = as_vectors(dvs, df.sparkSession)
    chosen = vector_columns(dvs)
    file, row = origin(df, "file_name" if match == "name" else "file_path", job)
    rows = df.withColumns({_FILE: file, _ROW: row})
    uris = [] if df.isStreaming else rows.inputFiles()
    files = Files.of(uris, match)
    small = None
    if strategy == "auto" or absent != "ignore":
        found = survey(dvs, chosen, files, sized=strategy == "auto", words=(WordTable(files), WORD_TABLE))
        small = None if df.isStreaming else found.words  # a stream may run for longer than the vectors are valid
        if absent != "ignore":
            refuse_unmatched(found, uris, match, absent)
        if strategy == "auto":
            strategy = "broadcast" if found.bytes <= broadcast_bytes else "shuffle"
    if strategy == "broadcast" and small is not None:
        words = frame_of(df.sparkSession, small, WORD_TABLE)
    else:
        words = chosen.mapInArrow(settled(WordTable(files)), WORD_TABLE)
    words = words.selectExpr(NAME, FIRST, WORDS, f"{_key(NAME, CHUNK)} AS {_KEY}")
    words = sf.broadcast(words) if strategy == "broadcast" else words.hint("shuffle_hash")
    in_chunk = f"CAST(shiftright({_ROW}, {WORD_BITS}) & {(1 << (CHUNK_BITS - WORD_BITS)) - 1} AS INT)"
    # Hashes may collide, so the data file is compared as well (if it is equal, so is the chunk). This comes after the
    # bit test, which few rows pass, and does not use =, which would make it a join key.
    condition = sf.expr(
        f"{_key(_FILE, f'shiftright({_ROW}, {CHUNK_BITS})')} = {_KEY}"
        f" AND getbit(get({WORDS}, {in_chunk} - {FIRST}), CAST({_ROW} & 63 AS INT)) = 1"
        f" AND {_FILE} >= {NAME} AND {_FILE} <= {NAME}"
    )
    return rows.join(words, condition, "left_anti" if job == "apply" else "left_semi").drop(_FILE, _ROW)


def _key(file: str, chunk: str) -> str:
    """Return SQL that hashes data file and chunk to one long: Spark keeps tables with such a key in a faster form.

    Not all hashes are distinct, but those of different chunks of one data file are. The CRC is by far the fastest of
    Spark's hashes for strings as long as paths, and every row is hashed. (SQL is one call to the JVM, not one for each
    expression.)
    """
    return f"(shiftleft(crc32(CAST({file} AS BINARY)), 31) ^ {chunk})"
