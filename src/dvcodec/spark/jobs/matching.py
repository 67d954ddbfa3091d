"""Match vectors to the files that are read: names of data files against ``df.inputFiles()``.

A vector's name is plain text or, if no file that is read has that name, percent-encoded as Spark's
``_metadata.file_path``. The files are shipped to the workers as 64-bit hashes, eight bytes each.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from dvcodec.core.errors import UsageError
from dvcodec.io.target import check_data_file, decoded_key, file_key
from dvcodec.spark.columns import LONG, STRING, arrow_schema, struct, texts_of
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.jobs.bitset_words import estimated_bytes
from dvcodec.spark.paths import data_file_of, file_uri_of, match_key, spellings
from dvcodec.spark.vectors import NamedVectors
from dvcodec.spark.worker import OverBatches, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Match: TypeAlias = Literal["path", "plain", "uri", "name"]
Unmatched: TypeAlias = Literal["fail_if_all", "fail", "ignore"]
_SHOWN = 3
_WORD_TASKS, _WORD_BYTES = 4, 4 << 20
"""The first tasks of a survey return words, each up to so many bytes of them, by estimate."""
_MOST_ROWS, _MOST_BYTES = 1 << 40, 1 << 48
"""Upper bounds in an estimate: rows of a vector, bytes of a batch."""
_LOG = logging.getLogger("dvcodec.paths")
_COUNTS = struct(bytes=LONG, vectors=LONG, unmatched=LONG, left=LONG, example=STRING)


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
    examples = sorted(pc.unique(total["example"].drop_null()).to_pylist())
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
            examples: list[str | None] = [*sorted(set(absent))[: _SHOWN + 1]] or [None]
            size = min(self.bytes_of(batch), _MOST_BYTES)
            room = room - size if size <= room else -1
            first = [size, len(names), len(absent), int(room < 0)]
            columns = [pa.array([number] + [0] * (len(examples) - 1)) for number in first]
            yield self._rows(pa.table([*columns, pa.array(examples, pa.string())], _COUNTS.names))
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
