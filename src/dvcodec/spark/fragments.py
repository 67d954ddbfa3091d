"""Vectors as rows of bounded size, for shuffles between two Python functions whose batches are bounded by rows only."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import StructType

from dvcodec.core.ragged import ByteStrings, Index, offsets_of
from dvcodec.spark.accumulate import SCHEMA
from dvcodec.spark.columns import binary_array, binary_column
from dvcodec.spark.schemas import INT, LONG, VECTORS, arrow_schema, struct

__all__ = ["FRAGMENTS", "cut", "join"]

BATCH_BYTES = 80 << 20
"""Maximum bytes of vectors in one batch after the shuffle; a row has that, divided by the rows of a batch."""
JOINED_BYTES = 64 << 20
"""Bytes of fragments that are collected before those of complete vectors are joined."""
FRAGMENTS = StructType([*VECTORS.fields, *struct(vector=LONG, part=INT, parts=INT).fields])
"""`VECTORS`, each vector in ``parts`` rows; ``vector`` is the same in these and in no others."""
_SCHEMA = arrow_schema(FRAGMENTS)
_VECTORS_A_TASK = 40
"""Bits of `vector` below the number of the task."""


def cut(vectors: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Cut vectors, `VECTORS`, into `FRAGMENTS`, so that a batch of so many stays small."""
    most = BATCH_BYTES // batch_rows
    context = TaskContext.get()
    number = (context.partitionId() if context is not None else 0) << _VECTORS_A_TASK
    for batch in vectors:
        column = binary_column(batch.column(2))
        parts = np.maximum(-(-column.sizes // most), 1)
        owner = np.repeat(np.arange(len(parts)), parts)
        part = np.arange(len(owner)) - offsets_of(parts)[owner]
        starts = column.starts[owner] + part * most
        sizes = np.minimum(column.sizes[owner] - part * most, most)
        index = pa.array(owner)
        columns = [
            batch.column(0).take(index),
            batch.column(1).take(index),
            binary_array(ByteStrings.cut(column.data, starts, sizes)),
            pa.array(number + owner),
            pa.array(part.astype(np.int32)),
            pa.array(parts[owner].astype(np.int32)),
        ]
        number += len(parts)
        yield pa.record_batch(columns, schema=_SCHEMA)


def join(fragments: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join `FRAGMENTS`, in any order, to vectors, `VECTORS`.

    Raises:
        RuntimeError: a fragment is missing, or there twice: Spark lost rows, or repeated them.
    """
    waiting: list[pa.RecordBatch] = []
    held = 0
    for received in fragments:
        batch = received.cast(_SCHEMA)  # sessions may use large types (spark.sql.execution.arrow.useLargeVarTypes)
        whole = pc.equal(batch.column("parts"), 1)
        yield batch.filter(whole).select(SCHEMA.names)
        waiting.append(batch.filter(pc.invert(whole)))
        held += waiting[-1].nbytes
        if held >= JOINED_BYTES:
            joined, waiting = _join(waiting)
            held = 0
            yield joined
    joined, left = _join(waiting)
    yield joined
    if sum(batch.num_rows for batch in left):
        name = left[0].column(0)[0].as_py()
        raise RuntimeError(f"vector of {name}: fragments are missing")


def _join(fragments: list[pa.RecordBatch]) -> tuple[pa.RecordBatch, list[pa.RecordBatch]]:
    """Return the vectors whose fragments are all there, and the other fragments.

    Raises:
        RuntimeError: a fragment is there twice.
    """
    table = pa.Table.from_batches(fragments, _SCHEMA)
    vector, part, parts = (table[name].to_numpy() for name in ("vector", "part", "parts"))
    order = np.lexsort((part, vector))
    heads = np.flatnonzero(np.diff(vector[order], prepend=-1))
    counts = np.diff(heads, append=len(order))
    complete = counts == parts[order][heads]
    twice = (np.diff(vector[order]) == 0) & (np.diff(part[order]) == 0)
    if twice.any():
        raise RuntimeError(f"vector of {table['data_file'][int(order[twice.argmax()])]}: a fragment is there twice")
    chosen = table.take(pa.array(order[np.repeat(complete, counts)]))
    left = table.take(pa.array(order[np.repeat(~complete, counts)])).to_batches()
    return _merged(chosen, counts[complete]), left


def _merged(table: pa.Table, counts: Index) -> pa.RecordBatch:
    """Join adjacent rows, `counts[i]` each."""
    chunks = [binary_column(chunk) for chunk in table["dv"].chunks]
    data = [ByteStrings.cut(chunk.data, chunk.starts, chunk.sizes).data for chunk in chunks]
    sizes = np.concatenate([chunk.sizes for chunk in chunks]) if chunks else np.zeros(0, np.int64)
    bounds = offsets_of(counts)
    whole = ByteStrings(offsets_of(sizes)[bounds], np.concatenate(data) if data else np.zeros(0, np.uint8))
    first = table.select(SCHEMA.names[:2]).take(pa.array(bounds[:-1])).combine_chunks()
    columns = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in first.columns]
    return pa.record_batch([*columns, binary_array(whole)], schema=SCHEMA)
