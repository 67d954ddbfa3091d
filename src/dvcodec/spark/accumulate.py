"""Accumulate rows of (data file, position) into vectors, one per data file and chunk of rows.

Chunks have a bounded size and are processed without a loop over rows: data files become codes, code and position one
sortable number, and all files of a chunk are encoded in one pass. `union` merges the vectors of several chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dvcodec.core import batch
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight, offsets_of
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.io.target import check_data_file
from dvcodec.spark.columns import VECTORS, arrow_schema, binary_array
from dvcodec.spark.worker import release_memory

CHUNK_ROWS = 4_000_000
"""Rows per chunk: the more, the fewer partial vectors per data file."""
NAME_BYTES = 20 << 20
"""Bytes of names after which a chunk is full, whatever its rows, so that a Python worker stays below 600 MB."""
_PENDING_BYTES = 8 << 20
"""Bytes of Arrow data whose names are encoded together, so that a chunk holds most names a few times at most."""
BATCH_BYTES = 16 << 20
"""Bytes of vectors in one record batch that goes back to Spark."""
_ROW_WORK, _VECTOR_WORK, _WORK_BYTES = 40, 400, 32 << 20
"""About as many bytes are needed to encode a row and a vector; so much is encoded at once."""
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

    _pending: list[pa.RecordBatch] = field(default_factory=list)
    _pending_bytes: int = 0
    _codes: list[NDArray[np.int32]] = field(default_factory=list)
    _positions: list[Index] = field(default_factory=list)
    _names: list[pa.Array] = field(default_factory=list)
    """Their concatenation is what codes refer to; a name may be there several times."""
    _rows: int = 0
    _count: int = 0
    _bytes: int = 0

    def add(self, files: pa.Array, positions: pa.Array) -> Iterator[pa.RecordBatch]:
        """Add rows; yields vectors when a chunk is full.

        Args:
            files: strings, dictionary-encoded or not; or numbers, which are formatted as text.
            positions: integers, one per file; 0-based physical row positions, in any order, duplicates fine.

        Raises:
            UsageError: a null, a name that is not text, or a number that is not a position.
        """
        if len(files):
            rows = pa.record_batch([files, positions], ["file", "pos"])
            if self._pending and rows.schema != self._pending[0].schema:  # of another Parquet file
                self._encode_names()
            self._pending.append(rows)
            self._pending_bytes += files.nbytes + positions.nbytes
            self._rows += len(files)
        if self._pending_bytes >= _PENDING_BYTES:
            self._encode_names()
        if self._rows >= CHUNK_ROWS or self._bytes >= NAME_BYTES:
            yield from self.flush()

    def _encode_names(self) -> None:
        """Replace the names of pending rows by codes."""
        table = pa.Table.from_batches(self._pending)
        self._pending, self._pending_bytes = [], 0
        self._positions.append(_positions(table["pos"]))
        for codes, names in _encode_files(table["file"]):
            if not (self._names and _same(names, self._names[-1])):
                self._names.append(as_text(names))
                self._count += len(names)
                self._bytes += names.nbytes
            self._codes.append(codes + np.int32(self._count - len(names)))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the vectors of the rows added so far.

        Raises:
            UsageError: see `add`; or positions that are not integers.
        """
        if self._pending:
            self._encode_names()
        if not self._codes:
            return
        which, names = encode_names(pa.chunked_array(self._names))
        self._names, self._rows, self._count, self._bytes = [], 0, 0, 0
        codes, self._codes = which[np.concatenate(self._codes)], []
        positions, self._positions = np.concatenate(self._positions), []
        files, counts, rows = group(codes, positions)
        del codes, positions, which
        bounds = offsets_of(counts)
        for part in cut_by_weight(_ROW_WORK * counts + _VECTOR_WORK, _WORK_BYTES):
            frames = batch.encode(rows[bounds[part.start] : bounds[part.stop]], counts[part])
            yield from vector_batches(names.take(pa.array(files[part])), counts[part], frames)
        del files, counts, rows, frames, names
        release_memory()


def _encode_files(files: pa.ChunkedArray) -> Iterator[tuple[NDArray[np.int32], pa.Array]]:
    """Yield codes of rows, in their order, and the names that these refer to."""
    if files.null_count:
        raise UsageError(f"{files.null_count} rows name no data file")
    kind = files.type.value_type if pa.types.is_dictionary(files.type) else files.type
    if pa.types.is_nested(kind):
        raise UsageError(f"names of data files must be strings, not {kind}")
    if not pa.types.is_dictionary(files.type):
        yield encode_names(files)
        return
    for chunk in files.chunks:
        codes, names = chunk.indices.to_numpy().astype(np.int32, copy=False), chunk.dictionary
        if len(names) > len(codes):  # a dictionary of more rows than these
            used, codes = np.unique(codes, return_inverse=True)
            codes, names = codes.astype(np.int32), names.take(pa.array(used))
        if names.null_count:
            raise UsageError("rows name no data file: the dictionary holds a null")
        yield codes, names


def encode_names(names: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    """Return the code of each name, and the names that codes refer to, each once."""
    # All chunks have one dictionary, so that none needs to be unified, which would take time for each name and chunk.
    encoded = names.dictionary_encode()
    return np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]), encoded.chunk(0).dictionary


def as_text(names: pa.Array) -> pa.Array:
    """Return names of data files as strings; an array or a chunked one.

    Raises:
        UsageError: a name is not UTF-8. (Spark's strings hold any bytes, and Arrow does not check them.)
    """
    if pa.types.is_string(names.type) or pa.types.is_large_string(names.type):
        names = names.cast(pa.large_binary() if pa.types.is_large_string(names.type) else pa.binary())
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        for name in names.to_pylist():
            if isinstance(name, bytes):
                check_data_file(name.decode(errors="surrogateescape"))
        raise


def _same(first: pa.Array, second: pa.Array) -> bool:
    """Return whether two dictionaries are over the same bytes."""
    ours, others = (array.buffers()[-1] for array in (first, second))
    return ours is not None and others is not None and ours.address == others.address and first.equals(second)


def _positions(column: pa.ChunkedArray) -> Index:
    if column.null_count:
        raise UsageError(f"{column.null_count} rows have no position")
    if not pa.types.is_integer(column.type):
        raise UsageError(f"positions must be integers, not {column.type}")
    if pa.types.is_uint64(column.type) and (pc.max(column).as_py() or 0) > MAX_DV_POSITION:
        raise UsageError(f"position {pc.max(column)} is above {MAX_DV_POSITION}, the highest in a deletion vector")
    positions = column.cast(pa.int64()).to_numpy()
    lowest = int(positions.min()) if len(positions) else 0
    if lowest < 0:
        raise UsageError(f"position {lowest} is negative")
    return np.asarray(positions)


def group(codes: NDArray[np.signedinteger], positions: Index) -> tuple[Index, Index, Index]:
    """Sort rows by file and position and drop duplicates; return the codes, the rows of each, and the positions."""
    starts = _starts(codes, positions)
    if starts is None:
        order = np.lexsort((positions, codes))
        codes, positions = codes[order], positions[order]
        new = np.append(True, (codes[1:] != codes[:-1]) | (positions[1:] != positions[:-1]))
        codes, positions = codes[new], positions[new]
        heads = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        return codes[heads].astype(np.int64), np.diff(heads, append=len(codes)), positions
    # One number for code and position; sorting those of 32 bits takes half the time.
    kind = np.uint32 if starts[-1] <= 1 << 32 else np.uint64
    bounds = starts[:-1].astype(kind)
    keys = bounds[codes]
    keys += positions.astype(kind)
    if not (keys[1:] >= keys[:-1]).all():
        keys.sort()
    new = np.append(True, keys[1:] != keys[:-1])
    if not new.all():
        keys = keys[new]
    counts = np.diff(np.searchsorted(keys, bounds), append=len(keys))
    files = np.flatnonzero(counts)
    counts = counts[files]
    ordered = keys.astype(np.int64) if kind is np.uint32 else keys.view(np.int64)
    ordered -= np.repeat(starts[files], counts)
    return files, counts, ordered


def _starts(codes: NDArray[np.signedinteger], positions: Index) -> Index | None:
    """Return where the numbers of each file begin, and where those of the last end; None if 63 bits are too few."""
    files, highest = int(codes.max()) + 1, int(positions.max())
    if files * (highest + 1) <= 1 << 32:
        return np.arange(files + 1) * (highest + 1)
    # Few files are as large as the largest, so that those of a table often fit in 32 bits after all.
    spans = np.zeros(files, np.uint64)
    np.maximum.at(spans, codes, positions.view(np.uint64) + np.uint64(1))
    return offsets_of(spans.astype(np.int64)) if float(spans.sum(dtype=np.float64)) < 2.0**63 else None
