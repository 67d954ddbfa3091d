"""Many framed vectors at once: a table has one per data file, most with a few rows.

They are checked, expanded and made row sets by the table of their containers (`core.bitmaps`). Large, multi-bitmap or
corrupt vectors fall back to `core.vector`, one at a time. Row sets are encoded in the same way, with the bytes of
Java's writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import vector
from dvcodec.core.bitmaps import MIN_BITMAP, ContainerTable, serialize, walk_many
from dvcodec.core.cursor import BytesLike, Cursor, crc32
from dvcodec.core.errors import ChecksumMismatch, DecodeError, LimitExceeded, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, enough_memory
from dvcodec.core.ragged import ByteStrings, Flags, Index, merge_pieces, offsets_of, put, u32
from dvcodec.core.roaring import MAX_DV_KEY, MIN_BUCKET, from_sorted
from dvcodec.core.rowset import DEFAULT_MAX_ROWS, RowSet, Stored
from dvcodec.core.vector import BITMAP32, BITMAP64, CRC_BYTES, FRAME_OVERHEAD, LENGTH_BYTES, UNCOUNTED, Magic, Vector

__all__ = ["Few", "Survey", "encode", "expand", "few", "load", "survey"]


_LARGE_FRAME = 1 << 18
"""For vectors of more than this many bytes, the cost of a separate call is negligible."""


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Statistics and errors of many framed vectors, one entry per vector.

    Attributes:
        cardinality: int64[n], rows; 0 for corrupt vectors.
        min: int64[n], lowest position, -1 for empty or corrupt vectors.
        max: int64[n], highest position, -1 for empty or corrupt vectors.
        mix: int64[n, 3], number of array, bitset and run containers.
        crc_ok: bool[n]; False if the CRC differs, or the frame is too short for one.
        errors: index of the vector -> its error.
    """

    cardinality: Index
    min: Index
    max: Index
    mix: Index
    crc_ok: Flags
    errors: dict[int, DecodeError]


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Framed vectors in a window, and what they are checked against.

    Attributes:
        window: contains the frames.
        starts: int64[n], offset of each frame in the window.
        sizes: int64[n], bytes of each frame, within the window.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown. None if all are unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
    """

    window: Cursor
    starts: Index
    sizes: Index
    allowed: tuple[Magic, ...] = tuple(Magic)
    cardinalities: Index | None = None
    limits: Limits = DEFAULT_LIMITS
    verify_checksum: bool = True

    def read(self, i: int) -> Vector:
        """Read a single vector.

        Raises:
            DecodeError: see `core.vector.read`.
        """
        return vector.read(*self._of(i), verify_checksum=self.verify_checksum)

    def load(self, i: int) -> RowSet:
        """Build the row set of a single vector.

        Raises:
            DecodeError: see `core.vector.load`.
        """
        return vector.load(*self._of(i), verify_checksum=self.verify_checksum)

    def _of(self, i: int) -> tuple[Cursor, tuple[Magic, ...], int | None, Limits]:
        start, stop = int(self.starts[i]), int(self.starts[i] + self.sizes[i])
        frame = Cursor(self.window.view[start:stop], source=self.window.source, base=self.window.base + start)
        stated = -1 if self.cardinalities is None else int(self.cardinalities[i])
        return frame, self.allowed, stated if stated >= 0 else None, self.limits


@dataclass(frozen=True, slots=True, eq=False)
class SmallVectors:
    """The small valid vectors of a single bitmap among n vectors.

    Attributes:
        data: uint8, the buffer with all vectors.
        table: their containers.
        keys: int64[n], high half of the positions.
        begins: int64[n], offset of the bitmap in `data`.
        sizes: int64[n], bytes of the bitmap.
        rows: int64[n], number of positions.
        crc_ok: bool[n]; False if the CRC differs, or the frame is too short for one.
        others: bool[n], the vectors to read one at a time: not small, invalid, or beyond a limit or their metadata.
    """

    data: NDArray[np.uint8]
    table: ContainerTable
    keys: Index
    begins: Index
    sizes: Index
    rows: Index
    crc_ok: Flags
    others: Flags


def read_small(frames: Frames) -> SmallVectors:
    """Walk and check the small vectors of a single bitmap."""
    data, starts, sizes = np.frombuffer(frames.window.view, np.uint8), frames.starts, frames.sizes
    limits, allowed, stated = frames.limits, frames.allowed, frames.cardinalities
    n = len(starts)
    key = np.zeros(n, np.int64)
    begin, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    crc_ok = _checksums(frames.window.view, starts, sizes) if frames.verify_checksum else np.ones(n, np.bool_)
    whole = np.flatnonzero((sizes >= FRAME_OVERHEAD + BITMAP32) & (sizes <= _LARGE_FRAME) & crc_ok)
    length = u32(data, starts[whole]).astype("<u4").byteswap().astype(np.int64)
    magic = u32(data, starts[whole] + 4)
    framed = length == sizes[whole] - UNCOUNTED
    if Magic.PAIMON32 in allowed:
        small = whole[framed & (magic == int.from_bytes(Magic.PAIMON32.value, "little"))]
        begin[small], size[small] = starts[small] + BITMAP32, sizes[small] - BITMAP32 - CRC_BYTES
    if Magic.PORTABLE64 in allowed:
        framed &= magic == int.from_bytes(Magic.PORTABLE64.value, "little")
        framed &= sizes[whole] >= BITMAP64 + MIN_BITMAP + CRC_BYTES
        wide = whole[framed]
        single = (u32(data, starts[wide] + 8) == 1) & (u32(data, starts[wide] + 12) == 0)
        keys = u32(data, starts[wide] + 16)
        wide, keys = wide[single & (keys <= MAX_DV_KEY)], keys[single & (keys <= MAX_DV_KEY)]
        key[wide] = keys
        begin[wide], size[wide] = starts[wide] + BITMAP64, sizes[wide] - BITMAP64 - CRC_BYTES
    table = walk_many(data, begin, size)
    table = table.without(table.broken(data))
    rows = table.cardinalities()
    others = ~table.valid | (rows > limits.max_cardinality) | (sizes > limits.max_vector_bytes)
    if stated is not None:
        others |= (stated >= 0) & (stated != rows)
    return SmallVectors(data, table, key, begin, size, rows, crc_ok, others)


def _checksums(view: memoryview, starts: Index, sizes: Index) -> Flags:
    """Return whether the CRC of each frame matches: bool[n]; False for frames too short for one."""
    ok = sizes >= FRAME_OVERHEAD
    begins, ends = starts[ok] + LENGTH_BYTES, (starts + sizes)[ok] - CRC_BYTES
    computed = list(map(crc32, map(view.__getitem__, map(slice, begins.tolist(), ends.tolist()))))
    stored = u32(np.frombuffer(view, np.uint8), ends).astype("<u4").byteswap()
    ok[ok] = stored == np.array(computed, np.uint32)
    return ok


@enough_memory("the vectors", None)
def survey(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> Survey:
    """Check all framed vectors of a buffer: length, CRC, magic, structure, values, cardinality.

    Errors of vectors are returned, not raised; their offsets count from the start of the buffer. Nothing is expanded.

    Args:
        data: the buffer.
        starts: int64[n], offset of each frame.
        sizes: int64[n], bytes of each frame, within the buffer.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs; `crc_ok` is all True then.

    Raises:
        LimitExceeded: there is too little memory for the vectors.
        UsageError: `data` is not a contiguous buffer.
    """
    frames = Frames(Cursor(data), starts, sizes, allowed, cardinalities, limits, verify_checksum)
    found = read_small(frames)
    rows, crc_ok = found.rows, found.crc_ok
    low, high = found.table.edges(found.data)
    base_row = found.keys << 32
    low, high = np.where(low >= 0, low | base_row, -1), np.where(high >= 0, high | base_row, -1)
    mix, errors = found.table.mix(), {}
    for i in np.flatnonzero(found.others).tolist():
        rows[i], low[i], high[i], mix[i] = 0, -1, -1, 0
        try:
            one = frames.read(i)
            one.check()
        except DecodeError as err:
            errors[i] = err
            crc_ok[i] &= not isinstance(err, ChecksumMismatch)
            continue
        rows[i], mix[i] = one.cardinality, one.view.mix
        if rows[i]:
            low[i], high[i] = one.view.min or 0, one.view.max or 0
    return Survey(rows, low, high, mix, crc_ok, errors)


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """The valid vectors of few rows among n, and their positions.

    Attributes:
        found: bool[n], which vectors these are; the others are not small, have more rows, or are invalid.
        cardinality: int64[n], rows; of `found` ones, as all below.
        max: int64[n], highest position, -1 for empty vectors.
        mix: int64[n, 3], number of array, bitset and run containers.
        positions: int64, those of all `found` vectors one after the other, ascending in each.
    """

    found: Flags
    cardinality: Index
    max: Index
    mix: Index
    positions: Index

    def of(self, wanted: Flags) -> Few:
        """Return those of some vectors alone: bool[n]."""
        found = self.found & wanted
        keep = np.repeat(found[self.found], self.cardinality[self.found])
        return Few(found, self.cardinality, self.max, self.mix, self.positions[keep])

    def taken(self) -> Few:
        """Return the `found` vectors alone, as all that there are."""
        rows = self.cardinality[self.found], self.max[self.found], self.mix[self.found]
        return Few(self.found[self.found], *rows, self.positions)

    @classmethod
    def join(cls, parts: Sequence[Few]) -> Few:
        """Put the vectors of several calls one after the other."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__slots__))


@enough_memory("the positions", None)
def few(
    window: Cursor,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...],
    cardinalities: Index,
    limits: Limits = DEFAULT_LIMITS,
    most_rows: int,
) -> Few:
    """Check the small framed vectors of a window as `survey` does, and read the positions of those with few rows.

    Args:
        window: contains the frames.
        starts: int64[n], offset of each frame in the window.
        sizes: int64[n], bytes of each frame, within the window.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        limits: bounds on what the bytes may claim.
        most_rows: rows of a vector, above which it is not `found`.

    Raises:
        LimitExceeded: there is too little memory for them.
    """
    small = read_small(Frames(window, starts, sizes, allowed, cardinalities, limits))
    found = ~small.others & (small.rows <= most_rows)
    table, rows = small.table.without(~found), np.where(found, small.rows, 0)
    _, high = table.edges(small.data)
    values = table.expand(small.data).astype(np.int64)
    if small.keys.any():
        values |= np.repeat(small.keys << 32, rows)
    return Few(found, rows, np.where(high >= 0, high | small.keys << 32, -1), table.mix(), values)


@enough_memory("the positions", None)
def expand(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    max_rows: int | None = DEFAULT_MAX_ROWS,
) -> tuple[Index, Index]:
    """Read the positions of all framed vectors of a buffer.

    Args:
        data: the buffer.
        starts: int64[n], offset of each frame.
        sizes: int64[n], bytes of each frame, within the buffer.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.
        max_rows: upper bound on all rows together; None for no bound.

    Returns:
        int64, the positions of all vectors one after the other, ascending in each; and int64[n], the number of
        positions of each.

    Raises:
        DecodeError: a vector is corrupt; the error is that of the first one.
        LimitExceeded: more than `max_rows` rows, or too little memory for them.
        UsageError: `data` is not a contiguous buffer.
    """
    frames = Frames(Cursor(data), starts, sizes, limits=limits, verify_checksum=verify_checksum)
    found = read_small(frames)
    others = {i: frames.load(i) for i in np.flatnonzero(found.others).tolist()}
    counts = np.where(found.others, 0, found.rows)
    rows = counts.copy()
    for i, found_rows in others.items():
        rows[i] = found_rows.cardinality
    total = int(rows.sum())
    if max_rows is not None and total > max_rows:
        raise LimitExceeded("rows to expand (max_rows)", expected=f"at most {max_rows}", actual=total)
    values = found.table.without(found.others).expand(found.data).astype(np.int64)
    if found.keys.any():
        values |= np.repeat(found.keys << 32, counts)
    if not others:
        return values, rows
    return merge_pieces(rows, values, ((i, one.to_numpy(max_rows=None)) for i, one in others.items())), rows


_VECTORS = 512
"""Vectors per pass: its arrays fit the CPU caches."""
_ONE_BY_ONE = 16
"""Up to so many vectors are loaded one by one, each in 20 microseconds: a pass over them takes 0.4 ms."""


def load(
    window: Cursor,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...],
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
) -> list[RowSet]:
    """Read all framed vectors of a window. They are fully checked now; a bitmap is built when first used.

    Args:
        window: contains the frames. It is copied once if its bytes are mutable.
        starts: int64[n], offset of each frame in the window.
        sizes: int64[n], bytes of each frame, within the window.
        allowed: magics that the format allows.
        cardinalities: int64[n], rows according to the metadata; negative: unknown.
        limits: bounds on what the bytes may claim.
        verify_checksum: False skips the CRCs.

    Raises:
        DecodeError: a vector is corrupt; the error is that of the first one, see `core.vector.read`.
    """
    if not isinstance(window.view.obj, bytes):  # row sets keep the checked bytes
        window = Cursor(bytes(window.view), source=window.source, base=window.base)
    rows: list[RowSet] = []
    for first in range(0, len(starts), _VECTORS):
        some = slice(first, first + _VECTORS)
        stated = None if cardinalities is None else cardinalities[some]
        with enough_memory("the vectors", window.source):
            rows += _load(Frames(window, starts[some], sizes[some], allowed, stated, limits, verify_checksum))
    return rows


def _load(frames: Frames) -> list[RowSet]:
    if len(frames.starts) <= _ONE_BY_ONE:
        return [frames.load(i) for i in range(len(frames.starts))]
    found = read_small(frames)
    stops = found.begins + found.sizes
    stored = zip(repeat(frames.window.view), found.keys.tolist(), found.begins.tolist(), stops.tolist())
    rows = list(map(RowSet, map(Stored, stored)))
    for i in np.flatnonzero(found.others | (found.rows == 0)).tolist():
        rows[i] = frames.load(i)
    return rows


_MANY_ROWS = 1 << 14
"""For row sets of more than this many positions, a call to pyroaring is faster."""


@enough_memory("the vectors", None)
def encode(positions: NDArray[np.int64], counts: NDArray[np.int64]) -> ByteStrings:
    """Encode many row sets, each as the frame that Iceberg, Delta and Paimon 64-bit share.

    The bytes are those of `dvcodec.iceberg.encode`.

    Args:
        positions: int64, the positions of all row sets one after the other, strictly ascending in each (not checked).
        counts: int64[n], number of positions of each.

    Raises:
        UsageError: a position above 0x7ffffffe80000000, or positions so high that the empty bitmaps below them fill
            more than 2**31 - 1 bytes in total.
        LimitExceeded: the vectors need more memory than the process has.
    """
    bounds = offsets_of(counts)
    filled = np.flatnonzero(counts)
    last = np.zeros(len(counts), np.int64)
    last[filled] = positions[bounds[1:][filled] - 1]
    alone = (counts == 0) | (counts > _MANY_ROWS) | (last >> 32 > 0)
    if not alone.any():
        return _encode_small(positions, counts)
    vector.check_highest(int(last.max()), Magic.PORTABLE64)
    gaps = MIN_BUCKET * int((last >> 32).sum())
    if gaps > vector.MAX_FRAME:  # a file of a kilobyte may ask for 2 GB a row
        raise UsageError(
            f"positions up to {int(last.max())}: the empty bitmaps below them would have {gaps} bytes, more than the "
            f"{vector.MAX_FRAME} that fit"
        )
    small = np.flatnonzero(~alone)
    parts = ByteStrings.from_list([])
    if len(small):
        parts = _encode_small(positions[np.repeat(~alone, counts)], counts[small])
    others = {i: _encode_one(positions[bounds[i] : bounds[i + 1]]) for i in np.flatnonzero(alone).tolist()}
    lengths = np.zeros(len(counts), np.int64)
    lengths[small] = parts.lengths
    for i, data in others.items():
        lengths[i] = len(data)
    frames = ((i, np.frombuffer(data, np.uint8)) for i, data in others.items())
    return ByteStrings(offsets_of(lengths), merge_pieces(lengths, parts.data, frames))


def _encode_one(positions: Index) -> bytes:
    if len(positions) and not int(positions[-1]) >> 32:  # the positions ascend: no need to check and sort them
        rows = RowSet.from_bitmaps({0: from_sorted(positions.astype(np.uint32))})
    else:
        rows = RowSet(positions)
    return vector.build(Magic.PORTABLE64, *vector.encode_pieces(rows, Magic.PORTABLE64))


def _encode_small(positions: Index, counts: Index) -> ByteStrings:
    """Encode non-empty row sets of positions below 2**32, all at once."""
    made = serialize(positions, counts, runs=True, before=BITMAP64, after=CRC_BYTES)
    bounds, out = made.offsets, made.data
    begin = bounds[:-1]
    put(out, begin, (np.diff(bounds) - UNCOUNTED).astype(">u4").view("<u4"), 4)
    put(out, begin + 4, int.from_bytes(Magic.PORTABLE64.value, "little"), 4)
    out[begin + 8] = 1  # one bitmap, of key 0
    view = out.data
    crcs = [crc32(view[a + 4 : b - 4]) for a, b in zip(begin.tolist(), bounds[1:].tolist(), strict=True)]
    put(out, bounds[1:] - CRC_BYTES, np.array(crcs, ">u4").view("<u4"), 4)
    return made
