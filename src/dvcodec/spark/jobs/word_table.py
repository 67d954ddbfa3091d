"""The words of vectors as a table that Spark can broadcast; see `bitset_words`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from dvcodec.core.ragged import cut_by_weight, gather, offsets_of
from dvcodec.spark.columns import list_array
from dvcodec.spark.jobs.bitset_words import Words, words_of
from dvcodec.spark.jobs.matching import Files
from dvcodec.spark.vectors import NamedVectors

__all__ = ["CHUNK", "FIRST", "NAME", "WORDS", "WORD_TABLE", "WordTable"]

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
