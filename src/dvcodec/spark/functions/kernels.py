"""Kernels: the Arrow function behind each of `dvcodec.spark.functions`, under the same name, run in the workers.

They map Arrow arrays to Arrow arrays, one element per row, without a loop over rows or positions, and can be called
from a ``mapInArrow`` too. A null vector gives a null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dvcodec.core import batch
from dvcodec.core.errors import ChecksumMismatch, DecodeError, LimitExceeded, UsageError
from dvcodec.core.ragged import ByteStrings, Flags, Index, cut_by_weight, offsets_of
from dvcodec.core.rowset import RowSet
from dvcodec.core.vector import Magic
from dvcodec.ops.read import format_of
from dvcodec.spark.columns import binary_array, binary_column, list_array, maximal_ranges, range_array
from dvcodec.spark.vectors import EMPTY, POSITION_BITS, VerifiedVectors, differences, encode, is_in, narrow

SHOWN = 12
"""Bytes of a vector that an error repeats."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors(VerifiedVectors):
    """The non-null vectors of a column, all verified.

    Attributes:
        rows: int64[n], the row of each vector.
        valid: bool, False for a null, of all rows.
    """

    rows: Index
    valid: Flags

    @classmethod
    def of(cls, dv: pa.Array, *, strict: bool = True) -> Vectors:
        """Verify the vectors of a column.

        Raises:
            UsageError: a column of text, which SQL does not refuse before it runs.
            DecodeError: the first corrupt one, if `strict`.
        """
        if pa.types.is_string(dv.type) or pa.types.is_large_string(dv.type):
            raise UsageError(NO_TEXT)
        whole = binary_column(dv)
        rows = np.flatnonzero(whole.valid)
        column = whole.take(rows)
        vectors = cls(column, batch.survey(column.data, column.starts, column.sizes), rows, whole.valid)
        if strict and vectors.found.errors:
            i = min(vectors.found.errors)
            vectors.refuse(i, vectors.found.errors[i])
        return vectors

    def refuse(self, i: int, error: DecodeError) -> NoReturn:
        """Raise an error that identifies the vector by its bytes, as it has no file or offset.

        Raises:
            DecodeError: always.
        """
        size = int(self.column.sizes[i])
        head = bytes(self.column.view(i)[:SHOWN]).hex(" ")
        source = f"deletion vector of {size} bytes ({head}{' ..' if size > SHOWN else ''})"
        raise self.local(i, error, source)

    def local(self, i: int, error: DecodeError, source: str | None = None) -> DecodeError:
        """Return an error with its offset relative to the vector, not to the buffer."""
        offset = None if error.offset is None else error.offset - int(self.column.starts[i])
        return type(error)(error.what, source=source, offset=offset, expected=error.expected, actual=error.actual)

    def spread(self, values: NDArray[np.generic], kind: pa.DataType | None = None) -> pa.Array:
        """Spread one value per vector to a column with one per row, null where the vector is null."""
        out = np.zeros(len(self.valid), values.dtype)
        out[self.rows] = values
        return pa.array(out, kind, mask=~self.valid)


NO_TEXT = "a vector is binary, and this column is text"
"""Error for a column that is not one of vectors."""
MAX_POSITIONS = 1 << 27
"""Maximum positions of one vector that are expanded: 1 GiB, half of what a row of Spark can hold."""
_AT_ONCE = 1 << 22
"""Positions that are expanded at once."""
_FEW = 1 << 11
"""Vectors of at most this many rows are expanded in bulk even if few of their rows are queried."""
_MAX_CODE = 1 << (63 - POSITION_BITS)
_LAYOUTS = pa.array([magic.name.lower() for magic in Magic])
_MAGICS = np.array([list(magic.value) for magic in Magic], np.uint8)


# ---------------------------------------------------------------------- asking


def dv_contains(dv: pa.Array, pos: pa.Array) -> pa.Array:
    """Return whether the position is in the vector, row by row.

    Each distinct vector of the batch is read once, as after a broadcast join.
    """
    encoded = dv.dictionary_encode()
    vectors = Vectors.of(encoded.dictionary)
    known = np.asarray(pc.and_(dv.is_valid(), pos.is_valid()).to_numpy(zero_copy_only=False), np.bool_)
    code = np.asarray(pc.fill_null(encoded.indices, 0)).astype(np.int64)
    position = np.asarray(pc.fill_null(pos, -1)).astype(np.int64)
    found = np.zeros(len(dv), np.bool_)
    if len(vectors.rows):
        inside = known & (position >= 0) & (position <= vectors.found.max[code])
        asked = np.bincount(code[inside], minlength=len(vectors.rows))
        small = vectors.found.cardinality <= 16 * asked + _FEW
        small &= (vectors.found.max >> POSITION_BITS == 0) & (len(asked) < _MAX_CODE)
        few = np.flatnonzero(inside & small[code])
        few = few[np.argsort(code[few], kind="stable")]
        chosen = np.flatnonzero(small & (asked > 0))
        for part in cut_by_weight(vectors.found.cardinality[chosen], _AT_ONCE):
            codes = chosen[part]
            rows = few[slice(*np.searchsorted(code[few], [codes[0], codes[-1] + 1]))]
            found[rows] = is_in(code[rows] << POSITION_BITS | position[rows], vectors.keys(codes, codes))
        many = np.flatnonzero(inside & ~small[code])
        many = many[np.argsort(code[many], kind="stable")]
        for rows in np.split(many, np.flatnonzero(np.diff(code[many])) + 1) if len(many) else ():
            found[rows] = vectors.load(int(code[rows[0]])).contains(position[rows])
    return pa.array(found, mask=~known)


def dv_cardinality(dv: pa.Array) -> pa.Array:
    """Return the number of rows in each vector."""
    vectors = Vectors.of(dv)
    return vectors.spread(vectors.found.cardinality)


def dv_decode(dv: pa.Array) -> pa.Array:
    """Describe each vector without expanding it: layout, cardinality, min, max, containers."""
    vectors = Vectors.of(dv)
    found = vectors.found
    magic = vectors.column.data[vectors.column.starts[:, None] + np.arange(4, 8)]
    layout = (magic[:, None] == _MAGICS).all(axis=2).argmax(axis=1)
    mix = [vectors.spread(found.mix[:, k], pa.int32()) for k in range(3)]
    edges = [_without(vectors.spread(edge), -1) for edge in (found.min, found.max)]
    return _struct(
        vectors.valid,
        layout=_LAYOUTS.take(vectors.spread(layout)),
        cardinality=vectors.spread(found.cardinality),
        min=edges[0],
        max=edges[1],
        containers=pa.StructArray.from_arrays(mix, ["arrays", "bitsets", "runs"]),
    )


def dv_verify(dv: pa.Array) -> pa.Array:
    """Verify each vector; report errors instead of raising."""
    vectors = Vectors.of(dv, strict=False)
    found, errors = vectors.found, vectors.found.errors
    counted = found.cardinality.copy()
    counted[list(errors)] = -1
    # Rows can be counted even if the CRC is wrong.
    damaged = np.array([i for i, error in sorted(errors.items()) if isinstance(error, ChecksumMismatch)], np.int64)
    column = vectors.column.take(damaged)
    again = batch.survey(column.data, column.starts, column.sizes, verify_checksum=False)
    again.cardinality[list(again.errors)] = -1
    counted[damaged] = again.cardinality
    texts: list[str | None] = [None] * len(vectors.valid)
    for i, error in errors.items():
        texts[int(vectors.rows[i])] = str(vectors.local(i, error))
    valid = np.ones(len(vectors.rows), np.bool_)
    valid[list(errors)] = False
    return _struct(
        vectors.valid,
        ok=vectors.spread(valid),
        crc_ok=vectors.spread(found.crc_ok),
        cardinality=_without(vectors.spread(counted), -1),
        error=pa.array(texts, pa.string()),
    )


# ---------------------------------------------------------------------- expanding


def dv_positions(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Return the positions in each vector, ascending; a batch comes back in several of bounded size."""
    for dv in batches:
        vectors = Vectors.of(dv)
        counts = np.zeros(len(dv), np.int64)
        counts[vectors.rows] = vectors.found.cardinality
        for i in np.flatnonzero(vectors.found.cardinality > MAX_POSITIONS).tolist():
            wanted = f"at most {MAX_POSITIONS}: use dv_ranges"
            error = LimitExceeded("positions in one row", expected=wanted, actual=int(vectors.found.cardinality[i]))
            vectors.refuse(i, error)
        for part in cut_by_weight(counts, _AT_ONCE):
            chosen = np.arange(*np.searchsorted(vectors.rows, [part.start, part.stop]))
            positions, _ = vectors.expand(chosen)
            yield list_array(positions, counts[part], vectors.valid[part])


def dv_ranges(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Return the maximal ranges ``[start, stop)`` of each vector; a batch comes back in several of bounded size."""
    for dv in batches:
        vectors = Vectors.of(dv)
        cardinality, dense = vectors.found.cardinality, 4 * vectors.column.sizes  # a bitset has up to 4 ranges a byte
        plain = cardinality <= np.clip(dense, _FEW, MAX_POSITIONS)
        most = np.zeros(len(dv), np.int64)
        most[vectors.rows] = np.where(plain, cardinality, dense)
        for part in cut_by_weight(most, _AT_ONCE):
            chosen = np.arange(*np.searchsorted(vectors.rows, [part.start, part.stop]))
            ranges, owner = _ranges(vectors, chosen[plain[chosen]], chosen[~plain[chosen]])
            counts = np.bincount(vectors.rows[owner] - part.start, minlength=part.stop - part.start)
            yield list_array(range_array(ranges), counts, vectors.valid[part])


def _ranges(vectors: Vectors, plain: Index, large: Index) -> tuple[Index, Index]:
    """Return the ranges of some vectors, int64[k, 2], and the vector of each; the `large` are not expanded."""
    positions, counts = vectors.expand(plain)
    ranges, owner = maximal_ranges(positions, np.repeat(plain, counts))
    if not len(large):
        return ranges, owner
    parts, owners = [ranges], [owner]
    for i in large.tolist():
        parts.append(vectors.load(i).ranges())
        owners.append(np.full(len(parts[-1]), i))
    ranges, owner = np.concatenate(parts), np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return ranges[order], owner[order]


# ---------------------------------------------------------------------- making


def dv_encode(positions: pa.Array, magic: Magic = Magic.PORTABLE64) -> pa.Array:
    """Encode lists of positions, in any order and with duplicates, as vectors.

    Raises:
        UsageError: a null or negative position, or one that the layout cannot hold.
    """
    flat = positions.flatten()
    if flat.null_count:
        raise UsageError(f"dv_encode: {flat.null_count} positions are null")
    values = np.asarray(flat).astype(np.int64, copy=False)
    if len(values) and int(values.min()) < 0:
        raise UsageError(f"dv_encode: position {int(values.min())} is negative")
    valid = np.asarray(positions.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    counts = np.asarray(pc.fill_null(pc.list_value_length(positions), 0)).astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    if ((np.diff(values) <= 0) & (np.diff(owner) == 0)).any():
        order = np.lexsort((values, owner))
        values, owner = values[order], owner[order]
        new = np.append(True, (np.diff(values) != 0) | (np.diff(owner) != 0))
        values, owner = values[new], owner[new]
    counts = np.bincount(owner, minlength=len(counts)).astype(np.int64)
    frames = batch.encode(values, counts[valid])
    if magic is Magic.PAIMON32:
        frames = _narrowed(frames, values)
    return binary_array(_at_rows(frames, valid), valid=valid)


def _at_rows(frames: ByteStrings, valid: Flags) -> ByteStrings:
    """Return one frame per row, from those of the valid rows; other rows get an empty one."""
    lengths = np.zeros(len(valid), np.int64)
    lengths[valid] = frames.lengths
    return ByteStrings(offsets_of(lengths), frames.data)


def _narrowed(frames: ByteStrings, values: Index) -> ByteStrings:
    """Re-frame 64-bit vectors as 32-bit ones: the only bitmap is copied."""
    highest = int(values.max()) if len(values) else 0
    if highest > 2**31 - 1:
        raise UsageError(f"position {highest} does not fit a 32-bit vector (at most 2147483647): use paimon64")
    return ByteStrings.from_list([narrow(data) for data in frames])


def dv_union(dv: pa.Array) -> bytes | None:
    """Return the union of all vectors of a group; None if there is none."""
    vectors = Vectors.of(dv)
    if not len(vectors.rows):
        return None
    everything = np.arange(len(vectors.rows))
    if int(vectors.found.cardinality.sum()) <= _AT_ONCE:
        return encode(RowSet(vectors.expand(everything)[0]))
    return encode(RowSet().union(*map(vectors.load, everything.tolist())))


def dv_export(dv: pa.Array, format: str) -> pa.Array:  # noqa: A002
    """Encode the rows of each vector in another format of one vector.

    Raises:
        UsageError: rows that do not fit.
    """
    vectors = Vectors.of(dv)
    write = format_of(format).write
    data = [write(vectors.load(i)) for i in range(len(vectors.rows))]
    return binary_array(_at_rows(ByteStrings.from_list(data), vectors.valid), valid=vectors.valid)


def bitmap_build(ids: pa.Array, format: str) -> pa.Array:  # noqa: A002
    """Encode lists of ids, in any order and with duplicates, as one bitmap each.

    Raises:
        UsageError: a negative id, or ids that do not fit.
    """
    values = np.asarray(ids.flatten()).astype(np.int64, copy=False)
    if len(values) and int(values.min()) < 0:
        raise UsageError(f"bitmap_build: id {int(values.min())} is negative")
    write = format_of(format).write
    bounds = offsets_of(np.asarray(pc.list_value_length(ids), np.int64)).tolist()
    return pa.array([write(RowSet(values[a:b])) for a, b in pairwise(bounds)], pa.binary())


def dv_import(data: pa.Array, format: str) -> pa.Array:  # noqa: A002
    """Return what `dv_export` encodes as vectors."""
    load = format_of(format).load
    return pa.array([None if one is None else encode(load(one)) for one in data.to_pylist()], pa.binary())


def dv_diff(old: pa.Array, new: pa.Array) -> pa.Array:
    """Return the rows only in the new vector, and those only in the old one, as vectors."""
    both = pc.and_(old.is_valid(), new.is_valid())
    valid = np.asarray(both.to_numpy(zero_copy_only=False), np.bool_)
    before, after = Vectors.of(old.filter(both)), Vectors.of(new.filter(both))
    out = {name: [EMPTY] * len(before.rows) for name in ("added", "restored")}
    for rows, _, frames in differences(before, after):
        for side, strings in zip(out.values(), frames, strict=True):
            for i, data in zip(rows.tolist(), strings, strict=True):
                side[i] = data
    found = {
        name: binary_array(_at_rows(ByteStrings.from_list(data), valid), valid=valid) for name, data in out.items()
    }
    return _struct(valid, **found)


# ---------------------------------------------------------------------- columns


def _struct(valid: Flags, **columns: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(columns.values()), list(columns), mask=pa.array(~valid))


def _without(column: pa.Array, value: int) -> pa.Array:
    """Return a column with nulls where it has this value."""
    return pc.if_else(pc.equal(column, value), None, column)
