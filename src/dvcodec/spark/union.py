"""Union of the vectors of each data file.

They are processed in chunks of bounded size: small vectors are expanded, sorted and encoded together, large ones are
merged as bitmaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import FrozenBitMap

from dvcodec.core import batch, vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import ByteStrings, Index, cut_by_weight, offsets_of, spread
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Magic
from dvcodec.io.target import check_encodings, file_keys, log_merged_spellings, shared_head
from dvcodec.spark.accumulate import BATCH_BYTES, SCHEMA, as_text, encode_names, group, vector_batches
from dvcodec.spark.columns import BinaryColumn, binary_column
from dvcodec.spark.vectors import NamedVectors
from dvcodec.spark.worker import release_memory

FOLD_BYTES = 64 << 20
"""Bytes of collected vectors after which those of one data file are merged and the others compacted."""
_DENSE = 256
"""With at least this many rows per partial vector on average, merging bitmaps is faster than sorting positions."""
_SCHEMA = pa.schema([*SCHEMA, pa.field("inputs", pa.int64())])
_ONE_BITMAP = Magic.PORTABLE64.value + (1).to_bytes(8, "little") + bytes(4)
"""Bytes between the length field and the bitmap of a frame with one bitmap of key 0."""


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
    small = None
    if len(sparse):
        positions, each = batch.expand(column.data, column.starts[sparse], column.sizes[sparse], verify_checksum=False)
        which, cards_small, positions = _group_keeping_empty(np.repeat(owner[sparse], each), positions, ~dense)
        small = batch.encode(positions, cards_small)
        cards[which], lengths[which] = cards_small, small.lengths
    large = {}
    bounds = offsets_of(counts)
    for i in np.flatnonzero(dense).tolist():
        cards[i], large[i] = _union_bitmaps([column.view(j) for j in range(int(bounds[i]), int(bounds[i + 1]))])
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
    """Sort positions by owner and drop duplicates; a wanted owner without positions is kept."""
    which = np.flatnonzero(wanted)
    if not len(positions):
        return which, np.zeros(len(which), np.int64), positions
    owners, counts, positions = group(owner, positions)
    all_counts = np.zeros(len(wanted), np.int64)
    all_counts[owners] = counts
    return which, all_counts[which], positions


def _union_bitmaps(frames: Iterable[memoryview]) -> tuple[int, bytes]:
    """Merge verified vectors of one data file; return cardinality and frame."""
    bitmaps, others = [], []
    for data in frames:
        # One bitmap of key 0, the usual case, is passed to pyroaring in place.
        if bytes(data[4:20]) == _ONE_BITMAP:
            bitmaps.append(FrozenBitMap.deserialize(data[20:-4]))  # type: ignore[arg-type]  # takes any buffer
        else:
            others.append(vector.read(Cursor(data), verify_checksum=False).load())
    merged = RowSet.from_bitmaps({0: FrozenBitMap.union(*bitmaps)} if bitmaps else {})
    if others:
        merged = merged.union(*others)
    return merged.cardinality, vector.build(Magic.PORTABLE64, *vector.encode_pieces(merged, Magic.PORTABLE64))
