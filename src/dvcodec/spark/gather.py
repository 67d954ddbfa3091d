"""From rows of (data file, position), and from vectors of the same data file, to one vector a data file.

Both are worked off in chunks of bounded size, with no loop over rows: data files become codes, code and position one
sortable number, and all files of a chunk are encoded in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from dvcodec.core import batch, frame, vector
from dvcodec.core.batch.containers import sums
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import UsageError
from dvcodec.core.frame import Magic
from dvcodec.core.ragged import ByteStrings, offsets_of, spread
from dvcodec.core.rowset import RowSet
from dvcodec.spark.columns import BinaryColumn, binary_array, binary_column, pieces
from dvcodec.spark.schemas import VECTORS, arrow_schema
from dvcodec.spark.vectors import NamedVectors

__all__ = ["RowGatherer", "VectorGatherer", "vector_batches"]

Index = NDArray[np.int64]
CHUNK_ROWS = 4_000_000
"""Rows that are gathered before they become vectors: the more, the fewer partial vectors of a data file."""
CHUNK_BYTES = 256 << 20
"""Bytes of Arrow data after which a chunk is full, whatever its rows; a Python worker stays well below 1 GB."""
FOLD_BYTES = 192 << 20
"""Bytes of vectors after which those of one data file are united, and the rest is copied together."""
BATCH_BYTES = 16 << 20
"""Bytes of vectors in one record batch that goes back to Spark."""
_POSITION_BITS = 40
"""Code and position share 63 bits; positions above 2**40 are sorted the long way."""
_MANY_FILES = 1 << 16
_ROWS_A_FILE = 64
"""Rows of a data file, on the average, from which sorting each file by itself pays."""
_DENSE = 256
"""Rows a partial vector has on the average from which uniting bitmaps beats sorting positions."""
_ONE_BITMAP = Magic.PORTABLE64.value + (1).to_bytes(8, "little") + bytes(4)
"""What stands in a frame between its length and its bitmap, where that is the only one and of key 0."""
_SCHEMA = arrow_schema(VECTORS)


def vector_batches(files: pa.Array, cardinality: Index, frames: ByteStrings) -> Iterator[pa.RecordBatch]:
    """Yield vectors as record batches of schema `VECTORS`, of bounded size."""
    for part in pieces(frames.lengths + 64, BATCH_BYTES):
        yield pa.record_batch(
            [
                files.slice(part.start, part.stop - part.start),
                pa.array(cardinality[part]),
                binary_array(frames[part]),
            ],
            schema=_SCHEMA,
        )


@dataclass(slots=True)
class RowGatherer:
    """Gathers rows of (data file, position), and makes vectors of each full chunk.

    The same data file may come out of several chunks: `VectorGatherer` unites them.
    """

    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0
    _dictionary: int = 0

    def add(self, files: pa.Array, positions: pa.Array) -> Iterator[pa.RecordBatch]:
        """Take rows; yields vectors when a chunk is full.

        Args:
            files: strings, dictionary-encoded or not; or numbers that stand for them, which are spelled out.
            positions: integers, as long; 0-based physical row positions, in any order, duplicates fine.

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
        """Yield the vectors of what is gathered."""
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        self._batches, self._rows, self._bytes = [], 0, 0
        codes, names = _encode_files(table["file"])
        positions = _positions(table["pos"])
        del table
        files, counts, rows = _group(codes, positions)
        del codes, positions
        frames = batch.encode(rows, counts)
        yield from vector_batches(names.take(pa.array(files)), counts, frames)


def _encode_files(files: pa.ChunkedArray) -> tuple[Index, pa.Array]:
    """Give each data file a code: int64 codes, and the names they stand for."""
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


def _group(codes: Index, positions: Index) -> tuple[Index, Index, Index]:
    """Sort rows by file and position and drop duplicates: the codes, how many rows each has, the positions."""
    highest, files = int(positions.max()), int(codes.max()) + 1
    if highest >> _POSITION_BITS or files >> (63 - _POSITION_BITS):
        order = np.lexsort((positions, codes))
        codes, positions = codes[order], positions[order]
    else:
        keys = codes << _POSITION_BITS | positions
        if not (keys[1:] >= keys[:-1]).all():
            if files <= _MANY_FILES and highest < 1 << 32 and len(codes) >= _ROWS_A_FILE * files:
                return _group_by_radix(codes.astype(np.uint16), positions.astype(np.uint32), files)
            keys.sort()
        codes, positions = keys >> _POSITION_BITS, keys & ((1 << _POSITION_BITS) - 1)
    new = np.ones(len(codes), np.bool_)
    new[1:] = (codes[1:] != codes[:-1]) | (positions[1:] != positions[:-1])
    if not new.all():
        codes, positions = codes[new], positions[new]
    heads = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    return codes[heads], np.diff(heads, append=len(codes)), positions


def _group_by_radix(codes: NDArray[np.uint16], positions: NDArray[np.uint32], files: int) -> tuple[Index, Index, Index]:
    """Do what `_group` does for many rows of few files, in a third of the time.

    A stable sort of 16-bit codes is a radix sort, and the rows of one file then are few enough to be sorted in cache,
    half as wide.
    """
    rows = positions[np.argsort(codes, kind="stable")]
    counts = np.bincount(codes, minlength=files)
    bounds = offsets_of(counts)
    for start, stop in pairwise(bounds.tolist()):
        rows[start:stop].sort()
    new = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=new[1:])
    new[bounds[:-1][counts > 0]] = True
    if not new.all():
        counts = sums(new, counts)
        rows = rows[new]
    present = np.flatnonzero(counts)
    return present, counts[present], rows.astype(np.int64)


@dataclass(slots=True)
class VectorGatherer:
    """Gathers vectors, and unites those of one data file.

    Args:
        trusted: the frames are what `RowGatherer` has just made: one that is alone for its data file is not parsed
            at all, and CRCs are not compared. Otherwise every vector is checked whole.
    """

    trusted: bool = False
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0
    _folded: int = 0

    def add(self, files: pa.Array, frames: pa.Array, cardinality: pa.Array | None = None) -> None:
        """Take vectors.

        Args:
            files: strings, the data file of each.
            frames: binary, whole frames.
            cardinality: int64, rows of each where known; needed if they are `trusted`.

        Raises:
            UsageError: a null (if they are not `trusted`).
            DecodeError: a vector is not sound; the message names its data file.
        """
        if not len(files):
            return
        if not self.trusted:
            cardinality = pa.array(NamedVectors.of(files, frames).found.cardinality)
        columns = [files.cast(pa.string()), cardinality, frames.cast(pa.binary())]
        self._batches.append(pa.record_batch(columns, schema=_SCHEMA))
        self._bytes += frames.nbytes
        if self._bytes - self._folded >= FOLD_BYTES:
            self._batches = list(self.flush())
            self._bytes = self._folded = sum(part.nbytes for part in self._batches)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield one vector a data file, as record batches of schema `VECTORS`."""
        batches, self._batches = self._batches, []
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        files = table["data_file"].dictionary_encode().unify_dictionaries()
        codes = np.concatenate([chunk.indices.to_numpy() for chunk in files.chunks])
        names = files.chunk(0).dictionary
        often = np.bincount(codes, minlength=len(names))
        alone = often[codes] == 1
        if alone.any():
            for part in table.filter(pa.array(alone)).to_batches():
                yield from vector_batches(
                    part["data_file"], part["cardinality"].to_numpy(), _strings(binary_column(part["dv"]))
                )
        if alone.all():
            return
        shared = np.flatnonzero(~alone)
        shared = shared[np.argsort(codes[shared], kind="stable")]
        codes = codes[shared]
        # Stretches of files whose vectors are at hand together; their bytes are copied once.
        heads = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        sizes = np.concatenate([np.diff(_lengths(chunk)) for chunk in table["dv"].chunks])[shared]
        rows = table["cardinality"].to_numpy()[shared]
        weights = np.add.reduceat(sizes + 2 * rows, heads)
        bounds = np.append(heads, len(codes))
        for part in pieces(weights, 2 * BATCH_BYTES):
            lo, hi = int(bounds[part.start]), int(bounds[part.stop])
            chosen = table["dv"].take(pa.array(shared[lo:hi])).combine_chunks()
            counts = np.diff(bounds[part.start : part.stop + 1])
            united = _unite(_whole(chosen), counts, rows[lo:hi])
            yield from vector_batches(names.take(pa.array(codes[heads[part]])), *united)


def _whole(array: Any) -> BinaryColumn:
    """Take apart what `combine_chunks` gives: an array, or a chunked one if it was too large for one."""
    if isinstance(array, pa.ChunkedArray):
        return binary_column(
            array.chunk(0) if array.num_chunks == 1 else array.cast(pa.large_binary()).combine_chunks()
        )
    return binary_column(array)


def _lengths(chunk: pa.Array) -> Index:
    column = binary_column(chunk)
    return offsets_of(column.sizes)


def _strings(column: BinaryColumn) -> ByteStrings:
    return ByteStrings.cut(column.data, column.starts, column.sizes)


def _unite(column: BinaryColumn, counts: Index, rows: Index) -> tuple[Index, ByteStrings]:
    """Unite runs of vectors, `counts[i]` of them each: cardinalities, and frames.

    Small vectors are expanded, sorted and encoded together; large ones are united one data file at a time.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    dense = np.bincount(owner, weights=rows, minlength=len(counts)) >= _DENSE * counts
    cards, lengths = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    sparse = np.flatnonzero(~dense[owner])
    small = None
    if len(sparse):
        positions, each = batch.expand(column.data, column.starts[sparse], column.sizes[sparse], verify_checksum=False)
        which, cards_small, positions = _group_keeping_empty(np.repeat(owner[sparse], each), positions, ~dense)
        small = batch.encode(positions, cards_small)
        cards[which], lengths[which] = cards_small, small.lengths
    large = {}
    bounds = offsets_of(counts)
    for i in np.flatnonzero(dense).tolist():
        cards[i], large[i] = _unite_bitmaps([column.view(j) for j in range(int(bounds[i]), int(bounds[i + 1]))])
        lengths[i] = len(large[i])
    if not large and small is not None:
        return cards, small
    places = offsets_of(lengths)
    out = np.empty(int(places[-1]), np.uint8)
    if small is not None:
        out[spread(places[:-1][~dense], lengths[~dense])] = small.data
    for i, data in large.items():
        out[places[i] : places[i + 1]] = np.frombuffer(data, np.uint8)
    return cards, ByteStrings(places, out)


def _group_keeping_empty(owner: Index, positions: Index, wanted: NDArray[np.bool_]) -> tuple[Index, Index, Index]:
    """Sort positions by owner and drop duplicates; a wanted owner without any has none."""
    which = np.flatnonzero(wanted)
    if not len(positions):
        return which, np.zeros(len(which), np.int64), positions
    owners, counts, positions = _group(owner, positions)
    all_counts = np.zeros(len(wanted), np.int64)
    all_counts[owners] = counts
    return which, all_counts[which], positions


def _unite_bitmaps(frames: Iterable[memoryview]) -> tuple[int, bytes]:
    """Unite vectors of one data file that were checked before: cardinality and frame."""
    bitmaps, others = [], []
    for data in frames:
        # One bitmap of key 0, as nearly all are, is handed to pyroaring as it lies there.
        if bytes(data[4:20]) == _ONE_BITMAP:
            bitmaps.append(BitMap.deserialize(data[20:-4]))  # type: ignore[arg-type]  # takes any buffer
        else:
            others.append(vector.read(Cursor(data), exact=True, verify_checksum=False).load())
    united = RowSet._wrap({0: BitMap.union(*bitmaps)} if bitmaps else {})
    if others:
        united = RowSet.union(united, *others)
    return united.cardinality, frame.build(Magic.PORTABLE64, vector.encode_payload(united, Magic.PORTABLE64))
