"""Explode vectors to rows: one for each deleted row, or one for each range.

Rows do not cross from Python to the JVM one by one: arrays of bounded length cross, and the JVM explodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType

from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import Index, cut_by_weight, gather, offsets_of
from dvcodec.core.roaring import ranges_of
from dvcodec.spark.columns import LONG, RANGE, STRING, list_array, maximal_ranges, range_array, struct
from dvcodec.spark.jobs.apply import cut
from dvcodec.spark.jobs.stored import as_vectors
from dvcodec.spark.sources.options import PathsInput
from dvcodec.spark.tasks import settled
from dvcodec.spark.vectors import NamedVectors, vector_columns

Lists: TypeAlias = tuple[Index, Index, Index]
"""Indices of vectors in the batch, the count of numbers (or pairs) of each, and these, concatenated."""

MAX_ROWS = 1 << 20
_SMALL = 1 << 14
"""Vectors of at most this many rows are expanded in bulk."""
_CONTAINERS = 32
"""Containers whose ranges are read at once: each has up to 32,768."""

_POSITIONS = struct(data_file=STRING, positions=ArrayType(LONG))
_RANGES = struct(data_file=STRING, ranges=ArrayType(RANGE))


def explode(dvs: DataFrame | PathsInput, *, max_rows: int = MAX_ROWS) -> DataFrame:
    """Return one row for each deleted row: ``data_file string, pos long``.

    The positions of one data file ascend, unless they are shuffled later.

    Args:
        dvs: vectors (``data_file``, ``dv``).
        max_rows: maximum positions in one array between Python and the JVM, at 8 bytes each.

    Raises:
        UsageError: `max_rows` below 1, or `dvs` without those columns. While it runs: a vector that is null.
        DecodeError: while it runs: a vector is corrupt.
    """
    arrays = vector_columns(as_vectors(dvs)).mapInArrow(settled(_Arrays(_positions, _checked(max_rows))), _POSITIONS)
    return arrays.select("data_file", sf.explode("positions").alias("pos"))


def ranges(dvs: DataFrame | PathsInput, *, max_rows: int = MAX_ROWS) -> DataFrame:
    """Return one row for each maximal range ``[start, stop)`` of deleted rows: ``data_file, start long, stop long``.

    Runs are not expanded: a billion consecutive rows are one range.

    Args:
        dvs: vectors (``data_file``, ``dv``).
        max_rows: maximum ranges in one array between Python and the JVM, at 16 bytes each.

    Raises:
        UsageError, DecodeError: as `explode`.
    """
    arrays = vector_columns(as_vectors(dvs)).mapInArrow(settled(_Arrays(_ranges, _checked(max_rows))), _RANGES)
    return arrays.select("data_file", sf.inline("ranges"))


def _checked(max_rows: int) -> int:
    if max_rows < 1:
        raise UsageError(f"max_rows must be at least 1, not {max_rows}")
    return max_rows


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Converts vectors to rows with an array of bounded length."""

    expand: Callable[[NamedVectors, int], Iterator[Lists]]
    max_rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            vectors = NamedVectors.of(*batch.columns)
            files = pa.array(vectors.files, pa.string())
            for owner, counts, values in self.expand(vectors, self.max_rows):
                if not len(owner):
                    continue
                bounds = offsets_of(counts)
                # Long lists become several; each batch holds at most as many numbers as one list.
                shares = -(-counts // self.max_rows)
                within = np.arange(int(shares.sum())) - np.repeat(offsets_of(shares)[:-1], shares)
                starts = np.repeat(bounds[:-1], shares) + within * self.max_rows
                sizes = np.minimum(np.repeat(bounds[1:], shares) - starts, self.max_rows)
                names = files.take(pa.array(np.repeat(owner, shares)))
                for part in cut_by_weight(sizes, self.max_rows):
                    flat = gather(values, starts[part], sizes[part])
                    rows = slice(part.start, part.stop)
                    items = flat if flat.ndim == 1 else range_array(flat)
                    yield pa.record_batch([names[rows], list_array(items, sizes[part])], ["data_file", "list"])


def _small(vectors: NamedVectors, max_rows: int) -> Iterator[tuple[Index, Index, Index]]:
    """Expand the small vectors, several at a time."""
    cardinality = vectors.found.cardinality
    chosen = np.flatnonzero((cardinality > 0) & (cardinality <= _SMALL))
    for part in cut_by_weight(cardinality[chosen], max(max_rows, _SMALL)):
        positions, counts = vectors.expand(chosen[part])
        yield chosen[part], counts, positions


def _large(vectors: NamedVectors) -> list[int]:
    found: list[int] = np.flatnonzero(vectors.found.cardinality > _SMALL).tolist()
    return found


def _positions(vectors: NamedVectors, max_rows: int) -> Iterator[Lists]:
    yield from _small(vectors, max_rows)
    for i in _large(vectors):
        for positions in vectors.load(i).chunks(max_rows):
            yield np.array([i]), np.array([len(positions)]), positions


def _ranges(vectors: NamedVectors, max_rows: int) -> Iterator[Lists]:
    for owner, counts, positions in _small(vectors, max_rows):
        table, of_each = maximal_ranges(positions, np.repeat(np.arange(len(owner)), counts))
        yield owner, np.bincount(of_each, minlength=len(owner)), table
    for i in _large(vectors):
        for table in _ranges_of_one(vectors, i):
            yield np.array([i]), np.array([len(table)]), table


def _ranges_of_one(vectors: NamedVectors, i: int) -> Iterator[Index]:
    """Yield the ranges of a large vector, some containers at a time; a range that may continue is held back."""
    last = np.zeros((0, 2), np.int64)
    for key, view in vectors.read(i).view.bitmaps:
        for start in range(0, len(view.keys), _CONTAINERS):
            table = ranges_of(cut(view, slice(start, start + _CONTAINERS))) + (key << 32)
            if len(last) and last[0, 1] == table[0, 0]:
                table[0, 0] = last[0, 0]
            elif len(last):
                yield last
            last = table[-1:]
            if len(table) > 1:
                yield table[:-1]
    if len(last):
        yield last
