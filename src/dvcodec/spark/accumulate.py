"""Accumulate rows of (data file, position) into vectors, one per data file and chunk of rows.

Chunks have a bounded size and are processed without a loop over rows: data files become codes, code and position one
sortable number, and all files of a chunk are encoded in one pass. `union` merges the vectors of several chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from dvcodec.core import batch
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight
from dvcodec.spark.columns import binary_array
from dvcodec.spark.schemas import VECTORS, arrow_schema

__all__ = ["RowAccumulator", "group", "vector_batches"]

CHUNK_ROWS = 4_000_000
"""Rows per chunk: the more, the fewer partial vectors per data file."""
CHUNK_BYTES = 256 << 20
"""Bytes of Arrow data after which a chunk is full, whatever its rows, so that a Python worker stays well below 1 GB."""
BATCH_BYTES = 16 << 20
"""Bytes of vectors in one record batch that goes back to Spark."""
_POSITION_BITS = 40
"""Code and position share 63 bits; positions above 2**40 take a slower sort."""
SCHEMA = arrow_schema(VECTORS)


def vector_batches(files: pa.Array, cardinality: Index, frames: ByteStrings) -> Iterator[pa.RecordBatch]:
    """Yield vectors as record batches of schema `VECTORS`, of bounded size."""
    for part in cut_by_weight(frames.lengths + 64, BATCH_BYTES):
        yield pa.record_batch(
            [
                files.slice(part.start, part.stop - part.start),
                pa.array(cardinality[part]),
                binary_array(frames[part]),
            ],
            schema=SCHEMA,
        )


@dataclass(slots=True)
class RowAccumulator:
    """Collects rows of (data file, position), and encodes each full chunk as vectors.

    A data file may be in several chunks: `union.VectorUnion` merges their vectors.
    """

    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0
    _dictionary: int = 0

    def add(self, files: pa.Array, positions: pa.Array) -> Iterator[pa.RecordBatch]:
        """Add rows; yields vectors when a chunk is full.

        Args:
            files: strings, dictionary-encoded or not; or numbers, which are formatted as text.
            positions: integers, one per file; 0-based physical row positions, in any order, duplicates fine.

        Raises:
            UsageError: a null, or a negative position.
        """
        if len(files):
            self._batches.append(pa.record_batch([files, positions], ["file", "pos"]))
            self._rows += len(files)
            self._bytes += positions.nbytes + self._weight(files)
        if self._rows >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES:
            yield from self.flush()

    def _weight(self, files: pa.Array) -> int:
        """Bytes of a column of data files; a dictionary that several batches share counts once."""
        if not pa.types.is_dictionary(files.type):
            return int(files.nbytes)
        values = files.dictionary.buffers()[-1]
        address = values.address if values is not None else 0
        known, self._dictionary = address == self._dictionary, address
        return int(files.indices.nbytes + (0 if known else files.dictionary.nbytes))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the vectors of the rows added so far.

        Raises:
            UsageError: a null, a negative position, or positions that are not integers.
        """
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        self._batches, self._rows, self._bytes = [], 0, 0
        codes, names = _encode_files(table["file"])
        positions = _positions(table["pos"])
        del table
        files, counts, rows = group(codes, positions)
        del codes, positions
        frames = batch.encode(rows, counts)
        yield from vector_batches(names.take(pa.array(files)), counts, frames)


def _encode_files(files: pa.ChunkedArray) -> tuple[Index, pa.Array]:
    """Give each data file a code: int64 codes, and the name of each."""
    if files.null_count:
        raise UsageError(f"{files.null_count} rows name no data file")
    if not pa.types.is_dictionary(files.type):
        files = files.dictionary_encode()
    files = files.unify_dictionaries()
    names = files.chunk(0).dictionary
    if names.null_count:
        raise UsageError("rows name no data file: the dictionary holds a null")
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in files.chunks])
    return codes.astype(np.int64), names.cast(pa.string())


def _positions(column: pa.ChunkedArray) -> Index:
    if column.null_count:
        raise UsageError(f"{column.null_count} rows have no position")
    if not pa.types.is_integer(column.type):
        raise UsageError(f"positions must be integers, not {column.type}")
    positions = column.cast(pa.int64()).to_numpy()
    lowest = int(positions.min()) if len(positions) else 0
    if lowest < 0:
        raise UsageError(f"position {lowest} is negative")
    return np.asarray(positions)


def group(codes: Index, positions: Index) -> tuple[Index, Index, Index]:
    """Sort rows by file and position and drop duplicates; return the codes, the rows of each, and the positions."""
    highest, files = int(positions.max()), int(codes.max()) + 1
    if highest >> _POSITION_BITS or files >> (63 - _POSITION_BITS):
        order = np.lexsort((positions, codes))
        codes, positions = codes[order], positions[order]
    else:
        keys = codes << _POSITION_BITS | positions
        if not (keys[1:] >= keys[:-1]).all():
            keys.sort()
        codes, positions = keys >> _POSITION_BITS, keys & ((1 << _POSITION_BITS) - 1)
    new = np.ones(len(codes), np.bool_)
    new[1:] = (codes[1:] != codes[:-1]) | (positions[1:] != positions[:-1])
    if not new.all():
        codes, positions = codes[new], positions[new]
    heads = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    return codes[heads], np.diff(heads, append=len(codes)), positions
