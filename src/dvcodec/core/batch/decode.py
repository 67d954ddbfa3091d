"""Checking and expanding many framed vectors of one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import vector
from dvcodec.core.batch.containers import ContainerTable, u32, walk_many
from dvcodec.core.checksum import crc32
from dvcodec.core.cursor import BytesLike, Cursor, as_view
from dvcodec.core.errors import ChecksumMismatch, DecodeError, LimitExceeded
from dvcodec.core.frame import FRAME_OVERHEAD, Magic
from dvcodec.core.limits import DEFAULT_LIMITS, Limits
from dvcodec.core.ragged import offsets_of, spread
from dvcodec.core.roaring64 import MAX_DV_KEY
from dvcodec.core.rowset import DEFAULT_MAX_ROWS
from dvcodec.core.vector import Vector

__all__ = ["Survey", "expand", "survey"]

Index = NDArray[np.int64]
Flags = NDArray[np.bool_]
_LARGE = 1 << 18
"""Bytes of a vector from which a call for itself costs nothing beside its content."""
_BITMAP64 = 20
"""Bytes of a frame before the only bitmap of a 64-bit vector: length, magic, count, key."""
_BITMAP32 = 8
"""Bytes of a frame before the bitmap of a 32-bit vector."""
_CRC = 4


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What many framed vectors hold, one entry a vector.

    Attributes:
        cardinality: int64[n], rows; 0 where there is an error.
        min: int64[n], lowest position, -1 where there is none.
        max: int64[n], highest position, -1 where there is none.
        mix: int64[n, 3], array, bitset and run containers.
        crc_ok: bool[n]; False where the CRC differs or there is no whole frame to compute it of.
        errors: what is wrong, by the index of the vector.
    """

    cardinality: Index
    min: Index
    max: Index
    mix: Index
    crc_ok: Flags
    errors: dict[int, DecodeError]


@dataclass(frozen=True, slots=True, eq=False)
class _Plain:
    """Sound vectors of one bitmap each, and what is left to be read one by one."""

    data: NDArray[np.uint8]
    table: ContainerTable
    key: Index
    others: list[int]


def _plain(
    data: NDArray[np.uint8], starts: Index, sizes: Index, allowed: Sequence[Magic], crc_ok: Flags | None
) -> _Plain:
    """Walk those that are one small bitmap in a whole frame; all but what metadata says of them is checked."""
    n = len(starts)
    key = np.zeros(n, np.int64)
    begin, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    whole = np.flatnonzero((sizes >= FRAME_OVERHEAD + _BITMAP32) & (sizes <= _LARGE))
    if crc_ok is not None:
        whole = whole[crc_ok[whole]]
    at = starts[whole]
    length = u32(data, at).astype("<u4").byteswap().astype(np.int64)
    magic = u32(data, at + 4)
    framed = length == sizes[whole] - 8
    if Magic.PAIMON32 in allowed:
        small = whole[framed & (magic == int.from_bytes(Magic.PAIMON32.value, "little"))]
        begin[small], size[small] = starts[small] + _BITMAP32, sizes[small] - _BITMAP32 - _CRC
    if Magic.PORTABLE64 in allowed:
        framed &= (magic == int.from_bytes(Magic.PORTABLE64.value, "little")) & (sizes[whole] >= _BITMAP64 + _CRC + 8)
        wide = whole[framed]
        single = (u32(data, starts[wide] + 8) == 1) & (u32(data, starts[wide] + 12) == 0)
        keys = u32(data, starts[wide] + 16)
        wide, keys = wide[single & (keys <= MAX_DV_KEY)], keys[single & (keys <= MAX_DV_KEY)]
        key[wide] = keys
        begin[wide], size[wide] = starts[wide] + _BITMAP64, sizes[wide] - _BITMAP64 - _CRC
    table = walk_many(data, begin, size)
    table = table.without(table.broken(data))
    return _Plain(data, table, key << 32, np.flatnonzero(~table.sound).tolist())


def _checksums(view: memoryview, starts: Index, sizes: Index) -> Flags:
    """Compare the CRC of every frame; False where there is no room for one."""
    bounds = zip(starts.tolist(), (starts + sizes).tolist(), strict=True)
    stop = len(view)
    return np.array(
        [
            FRAME_OVERHEAD <= b - a <= stop and crc32(view[a + 4 : b - 4]) == int.from_bytes(view[b - 4 : b], "big")
            for a, b in bounds
        ],
        np.bool_,
    )


def survey(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    allowed: tuple[Magic, ...] = tuple(Magic),
    cardinalities: Index | None = None,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    source: str | None = None,
    base: int = 0,
) -> Survey:
    """Check every framed vector of a buffer, whole: length, CRC, magic, structure, values, stated cardinality.

    Nothing is raised for a vector that is not sound, and none is expanded.

    Args:
        data: holds them all.
        starts: int64[n], where each frame begins.
        sizes: int64[n], bytes of each; they lie inside.
        allowed: magics the container knows.
        cardinalities: int64[n], what metadata says; negative where it says nothing.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRCs; `crc_ok` is True then.
        source: name of the file, for errors.
        base: offset of `data` in that file, for errors.
    """
    view = as_view(data)
    n = len(starts)
    crc_ok = _checksums(view, starts, sizes) if verify_checksum else np.ones(n, np.bool_)
    plain = _plain(np.frombuffer(view, np.uint8), starts, sizes, allowed, crc_ok)
    table = plain.table
    rows = table.cardinalities()
    others = np.zeros(n, np.bool_)
    others[plain.others] = True
    others |= (rows > limits.max_cardinality) | (sizes > limits.max_vector_bytes)
    if cardinalities is not None:
        others |= (cardinalities >= 0) & (cardinalities != rows)
    low, high = table.edges(plain.data)
    low, high = np.where(low >= 0, low | plain.key, -1), np.where(high >= 0, high | plain.key, -1)
    mix, errors = table.mix(), {}
    for i in np.flatnonzero(others).tolist():
        promised = None if cardinalities is None or cardinalities[i] < 0 else int(cardinalities[i])
        a, b = int(starts[i]), int(starts[i] + sizes[i])
        rows[i], low[i], high[i], mix[i] = 0, -1, -1, 0
        try:
            found = _read(view, a, b, allowed, promised, limits, verify_checksum, source, base)
            found.check()
        except DecodeError as err:
            errors[i] = err
            crc_ok[i] &= not isinstance(err, ChecksumMismatch)
            continue
        rows[i], mix[i] = found.cardinality, found.view.mix
        if rows[i]:
            low[i], high[i] = found.view.min or 0, found.view.max or 0
    return Survey(rows, low, high, mix, crc_ok, errors)


def _read(
    view: memoryview,
    start: int,
    stop: int,
    allowed: tuple[Magic, ...],
    cardinality: int | None,
    limits: Limits,
    verify_checksum: bool,
    source: str | None,
    base: int,
) -> Vector:
    cursor = Cursor(view[start:stop], source=source, base=base + start)
    return vector.read(
        cursor, allowed=allowed, exact=True, cardinality=cardinality, limits=limits, verify_checksum=verify_checksum
    )


def expand(
    data: BytesLike,
    starts: Index,
    sizes: Index,
    *,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksum: bool = True,
    max_rows: int | None = DEFAULT_MAX_ROWS,
) -> tuple[Index, Index]:
    """Read the positions of every framed vector of a buffer.

    Args:
        data: holds them all.
        starts: int64[n], where each frame begins.
        sizes: int64[n], bytes of each; they lie inside.
        limits: what the bytes may ask for.
        verify_checksum: False skips the CRCs.
        max_rows: refuse to expand more rows than this together; None for no bound.

    Returns:
        int64 positions, ascending in each vector, one vector behind the other; and int64[n] positions of each.

    Raises:
        DecodeError: the first vector that is not sound.
        LimitExceeded: more than `max_rows` rows.
    """
    view = as_view(data)
    crc_ok = _checksums(view, starts, sizes) if verify_checksum else None
    plain = _plain(np.frombuffer(view, np.uint8), starts, sizes, tuple(Magic), crc_ok)
    rows = plain.table.cardinalities()
    large = np.flatnonzero((rows > limits.max_cardinality) | (sizes > limits.max_vector_bytes)).tolist()
    others = {}
    for i in sorted({*plain.others, *large}):
        a, b = int(starts[i]), int(starts[i] + sizes[i])
        found = _read(view, a, b, tuple(Magic), None, limits, verify_checksum, None, 0)
        others[i] = found.load()
        rows[i] = others[i].cardinality
    total = int(rows.sum())
    if max_rows is not None and total > max_rows:
        raise LimitExceeded("rows to expand (max_rows)", expected=f"at most {max_rows}", actual=total)
    alone = np.zeros(len(starts), np.bool_)
    alone[list(others)] = True
    counts = np.where(alone, 0, rows)
    values = plain.table.expand(plain.data).astype(np.int64)
    if plain.key.any():
        values |= np.repeat(plain.key, counts)
    if not others:
        return values, rows
    bounds = offsets_of(rows)
    out = np.empty(total, np.int64)
    out[spread(bounds[:-1], counts)] = values
    for i, found_rows in others.items():
        out[bounds[i] : bounds[i + 1]] = found_rows.to_numpy(max_rows=None)
    return out, rows
