"""Apply vectors to the rows of Parquet files, inside the JVM.

Vectors become 64-bit words in chunks of 4,096 rows, a table of them is broadcast, and an anti-join on data file and
chunk looks up the bit of each row. Chunks without deleted rows are omitted; of the others, the words from the first to
the last non-zero one are stored: a single row costs one word, a full chunk 64.

No row is sent to Python and the plan has no user-defined function, so column pruning,
push-down and whole-stage code generation still work. A row is identified by its file and physical position,
``_metadata.file_path`` and ``_metadata.row_index``; never by the order of rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import Index, cut_by_weight, gather, offsets_of
from dvcodec.core.roaring import BITSET_BYTES, BitmapView, pack_into
from dvcodec.io.target import check_data_file, decoded_key, file_key
from dvcodec.spark.columns import LONG, STRING, arrow_schema, list_array, struct, texts_of
from dvcodec.spark.compat import frame_of, to_arrow
from dvcodec.spark.jobs.build import origin
from dvcodec.spark.jobs.stored import as_vectors
from dvcodec.spark.paths import data_file_of, decoded_key_column, file_uri_of, match_key, match_key_column, spellings
from dvcodec.spark.sources.options import PathsInput
from dvcodec.spark.tasks import OverBatches, settled
from dvcodec.spark.vectors import NamedVectors, vector_columns

CHUNK_BITS = 12
"""A chunk has ``1 << CHUNK_BITS`` rows."""
WORD_BITS = 6
"""A word has ``1 << WORD_BITS`` rows."""
ROW_BYTES = 200
"""Approximate bytes of a chunk in a broadcast table besides its words: its data file, keys, headers, a hash slot."""
_CHUNK_WORDS = 1 << (CHUNK_BITS - WORD_BITS)
_SMALL = 1 << 14
"""Vectors of at most this many rows are expanded in bulk; larger ones are converted container by container."""
_AT_ONCE = 1 << 20
"""Rows expanded at once."""
_CONTAINERS = 128
"""Containers converted at once, 8 KiB each."""


class Words(NamedTuple):
    """Chunks of vectors, one entry per chunk with deleted rows."""

    owner: Index
    """Index of the vector in the batch."""
    chunk: Index
    """``position >> CHUNK_BITS`` of its rows."""
    first: Index
    """Index of the first stored word of the chunk."""
    counts: Index
    """Number of stored words."""
    words: Index
    """The words of all chunks, concatenated: bit ``position & 63`` of each is a row."""


def estimated_bytes(cardinality: Index, low: Index, high: Index) -> int:
    """Estimate the bytes of the words of vectors in a broadcast table, assuming evenly spread rows.

    Args:
        cardinality: rows of each vector.
        low: its lowest position, negative if there is none.
        high: its highest position.
    """
    span = np.maximum((high >> CHUNK_BITS) - (low >> CHUNK_BITS) + 1, 0)
    chunks = np.minimum(cardinality, span).astype(np.float64)
    rows = cardinality / np.maximum(chunks, 1)
    # The lowest and highest of k random numbers are (k - 1) / (k + 1) of the range apart.
    words = 1 + (_CHUNK_WORDS - 1) * (rows - 1) / (rows + 1)
    return int((chunks * (ROW_BYTES + 8 * np.maximum(words, 1))).sum())


def words_of(vectors: NamedVectors) -> Iterator[Words]:
    """Yield the words of vectors in parts of bounded size."""
    cardinality = vectors.found.cardinality
    small = np.flatnonzero((cardinality > 0) & (cardinality <= _SMALL))
    for part in cut_by_weight(cardinality[small], _AT_ONCE):
        chosen = small[part]
        positions, counts = vectors.expand(chosen)
        yield _from_positions(np.repeat(chosen, counts), positions)
    for i in np.flatnonzero(cardinality > _SMALL).tolist():
        for key, view in vectors.read(i).view.bitmaps:
            for start in range(0, len(view.keys), _CONTAINERS):
                yield _from_containers(i, key, cut(view, slice(start, start + _CONTAINERS)))


def _from_positions(owner: Index, positions: Index) -> Words:
    """Set bits: positions ascend in each vector, and the rows of one vector follow one another."""
    index = positions >> WORD_BITS
    heads = _heads(owner, index)
    bits = np.left_shift(np.uint64(1), (positions & 63).astype(np.uint64))
    words = np.bitwise_or.reduceat(bits, heads).view(np.int64)
    owner, index = owner[heads], index[heads]
    chunk = index >> (CHUNK_BITS - WORD_BITS)
    bounds = np.append(_heads(owner, chunk), len(index))
    first, last = index[bounds[:-1]], index[bounds[1:] - 1]
    counts = last - first + 1
    out = np.zeros(int(counts.sum()), np.int64)
    out[index + np.repeat(offsets_of(counts)[:-1] - first, np.diff(bounds))] = words
    return Words(owner[bounds[:-1]], chunk[bounds[:-1]], first & (_CHUNK_WORDS - 1), counts, out)


def _heads(owner: Index, values: Index) -> Index:
    """Return where runs of equal pairs begin."""
    new = np.ones(len(values), np.bool_)
    new[1:] = (values[1:] != values[:-1]) | (owner[1:] != owner[:-1])
    return np.flatnonzero(new)


def cut(view: BitmapView, part: slice) -> BitmapView:
    """Return some containers of a bitmap, without a copy."""
    return replace(
        view,
        keys=view.keys[part],
        cards=view.cards[part],
        kinds=view.kinds[part],
        starts=view.starts[part],
        sizes=view.sizes[part],
    )


def _from_containers(owner: int, key: int, view: BitmapView) -> Words:
    """Convert containers to adjacent bitsets; runs are never expanded."""
    count = len(view.keys)
    packed = np.zeros(count * BITSET_BYTES, np.uint8)
    pack_into(replace(view, keys=np.arange(count, dtype=np.uint16)), packed, 0)
    table = packed.view("<i8").reshape(-1, _CHUNK_WORDS)
    filled = table != 0
    rows = np.flatnonzero(filled.any(axis=1))
    filled = filled[rows]
    first = filled.argmax(axis=1)
    counts = _CHUNK_WORDS - filled[:, ::-1].argmax(axis=1) - first
    in_container = 1 << (16 - CHUNK_BITS)
    chunks = (key << 16 | view.keys.astype(np.int64)) * in_container
    chunk = chunks[rows // in_container] + rows % in_container
    words = gather(table.ravel(), rows * _CHUNK_WORDS + first, counts)
    return Words(np.full(len(rows), owner), chunk, first, counts, words)


Match: TypeAlias = Literal["path", "plain", "uri", "name"]
Unmatched: TypeAlias = Literal["fail_if_all", "fail", "ignore"]
_SHOWN = 3
_WORD_TASKS, _WORD_BYTES = 4, 4 << 20
"""The first tasks of a survey return words, each up to so many bytes of them, by estimate."""
_MOST_ROWS, _MOST_BYTES = 1 << 40, 1 << 48
"""Upper bounds in an estimate: rows of a vector, bytes of a batch."""
_LOG = logging.getLogger("dvcodec.paths")
_COUNTS = struct(bytes=LONG, vectors=LONG, unmatched=LONG, left=LONG, examples=ArrayType(STRING))


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """The files that rows come from, by the hashes of their names.

    Attributes:
        match: how vectors name them; see `jobs.apply`.
        hashes: uint64, ascending; empty if Spark does not report which files it reads.
    """

    match: Match
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, uris: list[str], match: Match) -> Files:
        """Return the files of ``df.inputFiles()``.

        Raises:
            UsageError: two of the same name (``match="name"``).
        """
        return cls(match, np.unique(np.array([_hash(key) for key in keys_of(uris, match)], np.uint64)))

    def names(self, data_file: str) -> tuple[list[str], bool]:
        """Return every way in which Spark may spell a data file, and whether a file of it is read.

        Raises:
            UsageError: it is one file in plain text, and another percent-encoded.
        """
        if self.match == "name":
            name = data_file.rpartition("/")[2]
            return [file_uri_of(name)], self._has(file_key(name))
        if self.match == "uri":
            key = match_key(data_file, uri=True)
            return spellings(key), self._has(key)
        key = file_key(data_file)
        plain = self._has(key)
        other = decoded_key(data_file) if self.match == "path" else None
        if other is None or other == key:
            return spellings(key), plain
        encoded = self._has(other)
        if plain and encoded:
            raise UsageError(
                f"vector of {data_file!r}: there is a file of that name, and one whose percent-encoded name it is "
                f"({other!r}): choose one with match='plain' or match='uri'"
            )
        # Files may be newer than the list: if neither is known, both spellings are possible.
        chosen = [key] if plain else [other] if encoded else [key, other]
        return [name for one in chosen for name in spellings(one)], plain or encoded

    def _has(self, key: str) -> bool:
        at = int(np.searchsorted(self.hashes, np.uint64(_hash(key))))
        return at < len(self.hashes) and int(self.hashes[at]) == _hash(key)


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "little")


def keys_of(uris: list[str], match: Match) -> list[str]:
    """Return the keys of ``df.inputFiles()`` by which vectors are matched.

    Raises:
        UsageError: two of the same name (``match="name"``).
    """
    return [match_key(name, uri=True) for name in (_distinct_names(uris) if match == "name" else uris)]


def _distinct_names(uris: list[str]) -> list[str]:
    names = [uri.rpartition("/")[2] for uri in uris]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        first, second = [uri for uri in uris if uri.endswith(f"/{twice}")][:2]
        raise UsageError(f"match='name' needs distinct file names: {first} and {second} have the same")
    return names


@dataclass(frozen=True, slots=True)
class Survey:
    """Results of one job over the vectors.

    Attributes:
        bytes: bytes of their words in a broadcast table; 0 if not requested.
        vectors: number of vectors.
        unmatched: number of these whose data files are not read.
        examples: names of some of these.
        words: the words of all vectors, if they are small and the job has read them; None otherwise.
    """

    bytes: int
    vectors: int
    unmatched: int
    examples: tuple[str, ...]
    words: pa.Table | None


def survey(
    dvs: DataFrame, chosen: DataFrame, files: Files, *, sized: bool, words: tuple[OverBatches, StructType]
) -> Survey:
    """Summarise all vectors in one job.

    Args:
        dvs: vectors.
        chosen: their columns, from `vector_columns`.
        files: the files that are read.
        sized: True estimates the bytes of the words: from the vectors, unless `dvs` has ``cardinality``, ``min`` and
            ``max``. False reads only the names.
        words: what converts vectors to words, and their schema.
    """
    numbers = ("cardinality", "min", "max")
    function, schema = words
    if not sized:
        found = dvs.select("data_file").mapInArrow(settled(_Count(files, _no_bytes)), _COUNTS)
    elif set(numbers) <= set(dvs.columns):
        columns = (sf.col(name).cast("long") for name in numbers)
        found = dvs.select("data_file", *columns).mapInArrow(settled(_Count(files, _bytes_by_numbers)), _COUNTS)
    else:
        both = StructType([*_COUNTS.fields, *(StructField(field.name, field.dataType) for field in schema.fields)])
        found = chosen.mapInArrow(settled(_Count(files, _bytes_by_vectors, both, function, _WORD_BYTES)), both)
    # A few rows for each batch. Spark would plan two stages to aggregate them, which takes longer than the counting.
    total = to_arrow(found)
    size, vectors, unmatched, left = (int(pc.sum(total[name]).as_py() or 0) for name in _COUNTS.names[:4])
    examples = sorted(pc.unique(pc.list_flatten(total["examples"])).to_pylist())
    small = None
    if not left and schema.names[0] in total.column_names:
        small = total.filter(total[schema.names[0]].is_valid()).select(schema.names)
    return Survey(size, vectors, unmatched, tuple(examples[: _SHOWN + 1]), small or None)


@dataclass(frozen=True, slots=True)
class _Count:
    """Counts the vectors of each batch, and those that match no file; may return the words of small ones, too."""

    files: Files
    bytes_of: Any
    schema: StructType = _COUNTS
    words: OverBatches | None = None
    most_bytes: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        room = self.most_bytes if task is not None and task.partitionId() < _WORD_TASKS else -1
        for batch in batches:
            names = [name for name in texts_of(batch.column(0)) if name is not None]
            for name in names:
                check_data_file(name)
            absent = [name for name in names if not self.files.names(name)[1]]
            size = min(self.bytes_of(batch), _MOST_BYTES)
            room = room - size if size <= room else -1
            counts = [size, len(names), len(absent), int(room < 0), sorted(set(absent))[: _SHOWN + 1]]
            row = {name: [count] for name, count in zip(_COUNTS.names, counts, strict=True)}
            yield self._rows(pa.table(row, arrow_schema(_COUNTS)))
            if self.words is not None and room >= 0:
                for words in self.words(iter([batch])):
                    yield self._rows(pa.Table.from_batches([words]))

    def _rows(self, some: pa.Table) -> pa.RecordBatch:
        """Add the other columns, null."""
        schema = arrow_schema(self.schema)
        columns = [
            some[field.name] if field.name in some.column_names else pa.nulls(len(some), field.type) for field in schema
        ]
        return pa.table(columns, schema=schema).combine_chunks().to_batches()[0]


def _no_bytes(_: pa.RecordBatch) -> int:
    return 0


def _bytes_by_numbers(batch: pa.RecordBatch) -> int:
    """Estimate by columns of the caller's, which may say anything."""
    columns = zip(batch.columns[1:], (0, -1, -1), strict=True)
    return estimated_bytes(*(np.clip(np.asarray(column.fill_null(fill)), fill, _MOST_ROWS) for column, fill in columns))


def _bytes_by_vectors(batch: pa.RecordBatch) -> int:
    found = NamedVectors.of(*batch.columns).found
    return estimated_bytes(found.cardinality, found.min, found.max)


def refuse_unmatched(found: Survey, uris: list[str], match: Match, absent: Unmatched) -> None:
    """Log how many vectors match no file that is read, and refuse them if requested.

    Raises:
        UsageError: a vector does not match (``fail``), or none does (``fail_if_all``).
    """
    if not found.unmatched:
        return
    _LOG.info("%d of %d vectors match no file that is read (match=%r)", found.unmatched, found.vectors, match)
    if absent == "fail":
        names = ", ".join(map(repr, found.examples[:_SHOWN])) + (", .." if len(found.examples) > _SHOWN else "")
        raise UsageError(f"vectors for data files that are not read: {names} (match={match!r})")
    if absent == "fail_if_all" and found.unmatched == found.vectors and uris:
        raise UsageError(
            f"no vector matches a file that is read (match={match!r}): vectors name {found.examples[0]!r}, rows come "
            f"from {_like(found.examples[0], uris)!r}; unmatched='ignore' would keep all rows"
        )


def _like(name: str, uris: list[str]) -> str:
    """Return an example of a file that the name may mean: one of the same bare name."""
    plain = map(data_file_of, uris)
    first = next(plain)
    bare = {part.rpartition("/")[2] for part in (name, data_file_of(name))}
    return next((path for path in (first, *plain) if path.rpartition("/")[2] in bare), first)


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
