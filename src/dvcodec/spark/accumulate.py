"""Rows of (data file, position) to vectors, and the vectors of a data file to one.

Both are processed in chunks of bounded size, without a loop over rows. `RowAccumulator` makes data files codes, code
and position one sortable number, and encodes all files of a chunk in one pass. `VectorUnion` expands, sorts and encodes
small vectors together, and merges large ones as bitmaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import UsageError
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight, merge_pieces, offsets_of
from dvcodec.core.roaring import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet
from dvcodec.io.target import check_data_file, check_encodings, file_keys, log_merged_spellings, shared_head
from dvcodec.spark.columns import VECTORS, BinaryColumn, arrow_schema, binary_array, binary_column
from dvcodec.spark.tasks import release_memory
from dvcodec.spark.vectors import NamedVectors, encode

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

    A data file may be in several chunks: `VectorUnion` merges their vectors.
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


FOLD_BYTES = 64 << 20
"""Bytes of collected vectors after which those of one data file are merged and the others compacted."""
_DENSE = 256
"""With at least this many rows per partial vector on average, merging bitmaps is faster than sorting positions."""
_SCHEMA = pa.schema([*SCHEMA, pa.field("inputs", pa.int64())])


@dataclass(slots=True)
class VectorUnion:
    """Collects vectors, and merges those of one data file, in whatever spelling.

    Args:
        trusted: the frames come straight from `RowAccumulator`: the only vector of a data file is not parsed, and CRCs
            are not compared. Otherwise every vector is verified.
    """

    trusted: bool = False
    _batches: list[pa.RecordBatch] = field(default_factory=list)
    _bytes: int = 0
    _folded: int = 0

    def add(
        self,
        files: pa.Array,
        frames: pa.Array,
        cardinality: pa.Array | None = None,
        *,
        inputs: pa.Array | None = None,
    ) -> None:
        """Add vectors.

        Args:
            files: strings, the data file of each.
            frames: binary, whole frames.
            cardinality: int64, rows of each where known; needed if they are `trusted`.
            inputs: int64, the input of each as a bit (see `input_bit`): spellings of earlier inputs take precedence,
                and ``a b`` and ``a%20b`` are two files where one input has both. None: all are from one.

        Raises:
            UsageError: a null (if they are not `trusted`).
            DecodeError: a vector is corrupt; the message names its data file.
        """
        if not len(files):
            return
        if not self.trusted:
            cardinality = pa.array(NamedVectors.of(files, frames).found.cardinality)
        if inputs is None:
            inputs = pa.array(np.ones(len(files), np.int64))
        columns = [files.cast(pa.string()), cardinality, frames.cast(pa.binary()), inputs]
        self._batches.append(pa.record_batch(columns, schema=_SCHEMA))
        self._bytes += files.nbytes + frames.nbytes
        if self._bytes - self._folded >= FOLD_BYTES:
            self._batches = list(self._fold())
            self._bytes = self._folded = sum(part.column(0).nbytes + part.column(2).nbytes for part in self._batches)
            release_memory()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield one vector per data file, as record batches of schema `VECTORS`.

        Raises:
            DecodeError: a `trusted` vector, one of several of a data file, is corrupt.
            UsageError: a name may be the percent-encoded spelling of another input's.
        """
        for part in self._fold():
            yield part.select(SCHEMA.names)
        release_memory()

    def _fold(self) -> Iterator[pa.RecordBatch]:
        """Yield one vector per data file, and the inputs that have it."""
        batches, self._batches = self._batches, []
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        coded, names = encode_names(table["data_file"])
        names = as_text(names)
        inputs = table["inputs"].to_numpy()
        codes, inputs_of = _merge_spellings(names, coded.astype(np.int64), inputs)
        often = np.bincount(codes, minlength=len(names))
        alone = often[codes] == 1
        if alone.any():
            yield from _alone(batches, alone)
        if alone.all():
            return
        shared = np.flatnonzero(~alone)
        shared = shared[np.argsort(codes[shared], kind="stable")]
        codes = codes[shared]
        # Slices of files whose vectors are merged together; their bytes are copied once.
        heads = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        sizes = np.concatenate([binary_column(chunk).sizes for chunk in table["dv"].chunks])[shared]
        rows = table["cardinality"].to_numpy()[shared]
        weights = np.add.reduceat(sizes + 2 * rows, heads)
        bounds = np.append(heads, len(codes))
        for part in cut_by_weight(weights, 2 * BATCH_BYTES):
            lo, hi = int(bounds[part.start]), int(bounds[part.stop])
            chosen = table["dv"].take(pa.array(shared[lo:hi])).combine_chunks()
            counts = np.diff(bounds[part.start : part.stop + 1])
            merged = _union(_whole(chosen), counts, rows[lo:hi])
            owners = codes[heads[part]]
            yield from _from_inputs(vector_batches(names.take(pa.array(owners)), *merged), inputs_of[owners])


def _alone(batches: list[pa.RecordBatch], alone: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    """Yield the chosen vectors of batches; `alone` has a value for each."""
    begin = 0
    for whole in batches:
        chosen = alone[begin : begin + len(whole)]
        begin += len(whole)
        part = whole if chosen.all() else whole.filter(pa.array(chosen))
        vectors = vector_batches(part["data_file"], part["cardinality"].to_numpy(), _strings(binary_column(part["dv"])))
        yield from _from_inputs(vectors, part["inputs"].to_numpy())


def input_bit(number: int) -> int:
    """Return the bit of an input, by its number; those from the 63rd on share one."""
    return 1 << min(number, 62)


def _from_inputs(vectors: Iterator[pa.RecordBatch], inputs: Index) -> Iterator[pa.RecordBatch]:
    """Add the column of inputs to batches of vectors."""
    done = 0
    for part in vectors:
        yield pa.record_batch([*part.columns, pa.array(inputs[done : done + len(part)])], schema=_SCHEMA)
        done += len(part)


def _merge_spellings(names: pa.Array, codes: Index, inputs: Index) -> tuple[Index, Index]:
    """Give spellings of one data file one code: the codes, and of each code the inputs that have it.

    Raises:
        UsageError: a name may be the percent-encoded spelling of another input's.
    """
    inputs_of = np.zeros(len(names), np.int64)
    np.bitwise_or.at(inputs_of, codes, inputs)
    every = int(np.bitwise_or.reduce(inputs_of))
    if not every & (every - 1) and _spelled_alike(names):
        return codes, inputs_of
    texts = names.to_pylist()
    keys = file_keys(texts)
    kept: dict[str, int] = {}
    if len(set(keys)) < len(keys):
        first = (inputs_of & -inputs_of).tolist()
        for i in sorted(range(len(texts)), key=lambda i: (first[i], texts[i])):
            kept.setdefault(keys[i], i)
        of_code = np.array([kept[key] for key in keys], np.int64)
        codes = of_code[codes]
        np.bitwise_or.at(inputs_of, of_code, inputs_of.copy())
        log_merged_spellings([(texts[i], texts[j]) for i, j in enumerate(of_code.tolist()) if i != j])
    if every & (every - 1):
        kept = kept or dict(zip(keys, range(len(keys)), strict=True))
        named = {key: texts[kept[key]] for key in keys}
        check_encodings(named, lambda key, other: bool(inputs_of[kept[key]] & inputs_of[kept[other]]))
    return codes, inputs_of


def _spelled_alike(names: pa.Array) -> bool:
    """Return whether different names are certainly different files, without a Python string for each.

    They are if all share the root or host and have no other repeated or trailing slashes, as those of a table do.
    """
    bounds = pc.min_max(names)
    head = shared_head(bounds["min"].as_py(), bounds["max"].as_py())
    double = pc.sum(pc.count_substring(names, "//")).as_py()
    return bool(head) and double == len(names) * head.count("//") and not pc.any(pc.ends_with(names, "/")).as_py()


def _whole(array: Any) -> BinaryColumn:
    """Return the column of a `combine_chunks` result: an array, or a chunked one if too large for one."""
    if isinstance(array, pa.ChunkedArray):
        return binary_column(
            array.chunk(0) if array.num_chunks == 1 else array.cast(pa.large_binary()).combine_chunks()
        )
    return binary_column(array)


def _strings(column: BinaryColumn) -> ByteStrings:
    return ByteStrings.cut(column.data, column.starts, column.sizes)


def _union(column: BinaryColumn, counts: Index, rows: Index) -> tuple[Index, ByteStrings]:
    """Merge runs of vectors, `counts[i]` each; return cardinalities and frames.

    Small vectors are expanded, sorted and encoded together; large ones are merged one data file at a time.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    dense = np.bincount(owner, weights=rows, minlength=len(counts)) >= _DENSE * counts
    cards, lengths = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
    sparse = np.flatnonzero(~dense[owner])
    small = ByteStrings.from_list([])
    if len(sparse):
        positions, each = batch.expand(column.data, column.starts[sparse], column.sizes[sparse], verify_checksum=False)
        if len(positions):
            owners, each, positions = group(np.repeat(owner[sparse], each), positions)
            cards[owners] = each
        small = batch.encode(positions, cards[~dense])
        lengths[~dense] = small.lengths
    if not dense.any():
        return cards, small
    large = {}
    bounds = offsets_of(counts)
    for i in np.flatnonzero(dense).tolist():
        frames = (Cursor(column.view(j)) for j in range(int(bounds[i]), int(bounds[i + 1])))
        merged = RowSet().union(*(vector.load(frame, verify_checksum=False) for frame in frames))
        large[i] = np.frombuffer(encode(merged), np.uint8)
        cards[i], lengths[i] = merged.cardinality, len(large[i])
    return cards, ByteStrings(offsets_of(lengths), merge_pieces(lengths, small.data, large.items()))
