"""Roaring bitmaps in the wrappers of other systems: what a bitmap column, a log block or a cache holds.

`decode` and `encode` take the name of a dialect; docs/formats/dialects.md says what each was held against.

- ``clickhouse8``, ``16``, ``32``, ``64``: the state of ``groupBitmap`` for a column of unsigned integers of that many
  bits. ``u8 0 | varint n | n integers`` up to 32 values, else ``u8 1 | varint size | bitmap``; the bitmap is portable,
  in its 64-bit form for 64 bits. Varints are LEB128. Source: ClickHouse, ``AggregateFunctionGroupBitmapData.h``.
- ``doris``, ``starrocks``: values of BITMAP columns; ``u8 code``, then nothing (0), a u32 (1), a 32-bit bitmap (2), a
  u64 (3), ``varint n | n x (u32 key | 32-bit bitmap)`` (4), ``u8 n | n x u64`` (5, Doris), ``u32 n | n x u64`` (10); 12
  and 13 are 2 and 4 with bitmaps in CRoaring's form. Written are 0 to 4, which all releases read. Base64 of these bytes
  is what ``bitmap_from_base64`` takes. Source: ``bitmap_value.h`` of both.
- ``croaring``: CRoaring's ``roaring_bitmap_serialize``: ``u8 1 | u32 n | n x u32`` or ``u8 2 | 32-bit bitmap``,
  whichever is smaller.
- ``java-legacy``: Java's ``Roaring64NavigableMap`` in its default mode: ``u8 signed | i32 n | n x (i32 key | 32-bit
  bitmap)``, where the integers are big-endian.
- ``delvec``: StarRocks' delete vectors: ``u8 1 | 32-bit bitmap``, nothing after the 1 if it is empty.
- ``hudi``: record positions in the header of a log block: Base64 text of a 64-bit portable bitmap.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias, get_args

import numpy as np
from pyroaring import FrozenBitMap

from dvcodec.core import roaring
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import check_choice

__all__ = ["DIALECTS", "Dialect", "decode", "encode"]

Dialect: TypeAlias = Literal[
    "clickhouse8",
    "clickhouse16",
    "clickhouse32",
    "clickhouse64",
    "doris",
    "starrocks",
    "croaring",
    "java-legacy",
    "delvec",
    "hudi",
]
"""The name of a dialect."""
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
"""All of them."""

_ReadKey: TypeAlias = Callable[[Cursor], int]
_ReadBitmap: TypeAlias = Callable[[Cursor, Limits], FrozenBitMap]
_SMALL_SET = 32
"""Values up to which ClickHouse keeps a state as a list."""


def decode(
    buf: BytesLike,
    dialect: Dialect,
    *,
    limits: Limits = DEFAULT_LIMITS,
    source: str | None = None,
    base: int = 0,
) -> RowSet:
    """Decode one bitmap.

    Args:
        buf: exactly the bitmap; for ``hudi``, its text as ASCII.
        dialect: one of `DIALECTS`.
        limits: bounds on what the bytes may claim.
        source: name of the file, for errors.
        base: byte offset of the bitmap in that file, for errors.

    Returns:
        The values: unsigned integers of 64 bits.

    Raises:
        DecodeError: the bitmap is corrupt, or has a code that is not known.
        UsageError: another dialect, or an argument of a wrong type.

    >>> decode(bytes.fromhex("00 02 05000000 07000000"), "clickhouse32")
    RowSet([5, 7])
    """
    check_choice(dialect, DIALECTS, "dialect")
    check_limits(limits)
    cursor = Cursor(buf, source=source, base=base)
    limits.check("max_vector_bytes", cursor.remaining, cursor)
    rows = _READERS[dialect](cursor, limits)
    cursor.expect_end("the bitmap")
    most = _HIGHEST.get(dialect, 2**64 - 1)
    if rows and (rows.max or 0) > most:
        raise cursor.error(NotCanonical, "values", at=0, expected=f"at most {most}", actual=rows.max)
    return rows


def encode(rows: RowSet, dialect: Dialect) -> bytes:
    """Encode one bitmap, as the system itself would after adding the values one by one.

    Args:
        rows: the values.
        dialect: one of `DIALECTS`.

    Raises:
        UsageError: not a `RowSet`, another dialect, or a value that does not fit it.

    >>> encode(RowSet([5]), "doris").hex(" ")
    '01 05 00 00 00'
    """
    check_rows(rows)
    check_choice(dialect, DIALECTS, "dialect")
    most = _HIGHEST.get(dialect, 2**64 - 1)
    if rows and (rows.max or 0) > most:
        raise UsageError(f"value {rows.max} does not fit a bitmap of the dialect {dialect} (at most {most})")
    return _WRITERS[dialect](rows)


# ------------------------------------------------------------------ what they share


def _bitmap(cursor: Cursor, limits: Limits) -> FrozenBitMap:
    """Read a 32-bit portable bitmap."""
    start = cursor.pos
    view = roaring.walk(cursor)
    limits.check("max_cardinality", view.cardinality, cursor, start)
    return view.load()


def _portable32(cursor: Cursor, limits: Limits) -> RowSet:
    bitmap = _bitmap(cursor, limits)
    return RowSet.from_bitmaps({0: bitmap} if bitmap else {})


def _portable64(cursor: Cursor, limits: Limits) -> RowSet:
    return RowSet.from_bitmaps(roaring.walk64(cursor, limits=limits, max_key=roaring.MAX_KEY).load())


def _map(cursor: Cursor, count: int, limits: Limits, read_key: _ReadKey, read_bitmap: _ReadBitmap) -> RowSet:
    """Read bitmaps after their keys, the high halves of their values."""
    found: dict[int, FrozenBitMap] = {}
    total = 0
    for _ in range(count):
        at = cursor.pos
        key = read_key(cursor)
        if key in found:
            raise cursor.error(NotCanonical, "key", at=at, expected="each key once", actual=key)
        found[key] = read_bitmap(cursor, limits)
        total += len(found[key])
        limits.check("max_cardinality", total, cursor, at)
    return RowSet.from_bitmaps({key: found[key] for key in sorted(found) if found[key]})


def _values(cursor: Cursor, count: int, width: int) -> RowSet:
    """Read a list of integers of a width in bytes."""
    return RowSet(np.frombuffer(cursor.take(count * width, "values"), f"<u{width}").astype(np.uint64))


def _write32(rows: RowSet) -> bytes:
    return b"".join(rows.serialized().get(0, [roaring.EMPTY_BITMAP]))


def _write64(rows: RowSet) -> bytes:
    return b"".join(roaring.pieces_of(rows.serialized(), gap_keys=False))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


# ------------------------------------------------------------------ each of them


def _read_clickhouse(cursor: Cursor, limits: Limits, width: int) -> RowSet:
    kind = cursor.u8("kind")
    if kind == 0:
        return _values(cursor, cursor.uvarint("count"), width)
    if kind != 1:
        raise cursor.error(BadMagic, "kind", at=0, expected="0 or 1", actual=kind)
    with cursor.restrict_to(cursor.uvarint("size"), "the bitmap"):
        return (_portable64 if width == 8 else _portable32)(cursor, limits)


def _write_clickhouse(rows: RowSet, width: int) -> bytes:
    if len(rows) <= _SMALL_SET:
        return b"\0" + _varint(len(rows)) + rows.to_numpy(np.uint64).astype(f"<u{width}").tobytes()
    data = (_write64 if width == 8 else _write32)(rows)
    return b"\1" + _varint(len(data)) + data


def _read_value(cursor: Cursor, limits: Limits) -> RowSet:
    """Read a BITMAP value of Doris or StarRocks."""
    code = cursor.u8("code")
    if code == 0:
        return RowSet()
    if code in (1, 3):
        return _values(cursor, 1, 4 if code == 1 else 8)
    if code in (2, 12):
        return (_portable32 if code == 2 else _read_croaring)(cursor, limits)
    if code in (4, 13):
        read = _bitmap if code == 4 else _croaring_bitmap
        return _map(cursor, cursor.uvarint("bitmap count"), limits, lambda cursor: cursor.u32le("key"), read)
    if code in (5, 10):
        return _values(cursor, cursor.u8("count") if code == 5 else cursor.u32le("count"), 8)
    raise cursor.error(BadMagic, "code", at=0, expected="0 to 5, 10, 12 or 13", actual=code)


def _write_value(rows: RowSet) -> bytes:
    highest = rows.max
    if highest is None:
        return b"\0"
    wide = highest >> 32 > 0
    if len(rows) == 1:
        return bytes([3 if wide else 1]) + highest.to_bytes(8 if wide else 4, "little")
    if not wide:
        return b"\2" + _write32(rows)
    parts = rows.serialized()
    entries = (struct.pack("<I", key) + b"".join(pieces) for key, pieces in parts.items())
    return b"\4" + _varint(len(parts)) + b"".join(entries)


def _croaring_bitmap(cursor: Cursor, limits: Limits) -> FrozenBitMap:
    at = cursor.pos
    kind = cursor.u8("kind")
    if kind == 1:
        count = cursor.u32le("count")
        return FrozenBitMap(np.frombuffer(cursor.take(4 * count, "values"), "<u4").tolist())
    if kind != 2:
        raise cursor.error(BadMagic, "kind", at=at, expected="1 or 2", actual=kind)
    return _bitmap(cursor, limits)


def _read_croaring(cursor: Cursor, limits: Limits) -> RowSet:
    bitmap = _croaring_bitmap(cursor, limits)
    return RowSet.from_bitmaps({0: bitmap} if bitmap else {})


def _write_croaring(rows: RowSet) -> bytes:
    data = _write32(rows)
    if len(data) < 4 + 4 * len(rows):
        return b"\2" + data
    return b"\1" + struct.pack("<I", len(rows)) + rows.to_numpy(np.uint64).astype("<u4").tobytes()


def _read_java(cursor: Cursor, limits: Limits) -> RowSet:
    signed = cursor.u8("flag for signed values")
    if signed > 1:
        raise cursor.error(BadMagic, "flag for signed values", at=0, expected="0 or 1", actual=signed)
    return _map(cursor, cursor.u32be("bitmap count"), limits, lambda cursor: cursor.u32be("key"), _bitmap)


def _write_java(rows: RowSet) -> bytes:
    parts = rows.serialized()
    entries = (struct.pack(">I", key) + b"".join(pieces) for key, pieces in parts.items())
    return struct.pack(">BI", 0, len(parts)) + b"".join(entries)


def _read_delvec(cursor: Cursor, limits: Limits) -> RowSet:
    version = cursor.u8("version")
    if version != 1:
        raise cursor.error(BadMagic, "version", at=0, expected=1, actual=version)
    return _portable32(cursor, limits) if cursor.remaining else RowSet()


def _read_hudi(cursor: Cursor, limits: Limits) -> RowSet:
    text = bytes(cursor.take(cursor.remaining, "text"))
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise cursor.error(NotCanonical, "Base64", at=0, actual=str(error)) from None
    inner = Cursor(data, source=cursor.source)
    rows = _portable64(inner, limits)
    inner.expect_end("the bitmap")
    return rows


_READERS: dict[Dialect, Callable[[Cursor, Limits], RowSet]] = {
    "clickhouse8": partial(_read_clickhouse, width=1),
    "clickhouse16": partial(_read_clickhouse, width=2),
    "clickhouse32": partial(_read_clickhouse, width=4),
    "clickhouse64": partial(_read_clickhouse, width=8),
    "doris": _read_value,
    "starrocks": _read_value,
    "croaring": _read_croaring,
    "java-legacy": _read_java,
    "delvec": _read_delvec,
    "hudi": _read_hudi,
}
_WRITERS: dict[Dialect, Callable[[RowSet], bytes]] = {
    "clickhouse8": partial(_write_clickhouse, width=1),
    "clickhouse16": partial(_write_clickhouse, width=2),
    "clickhouse32": partial(_write_clickhouse, width=4),
    "clickhouse64": partial(_write_clickhouse, width=8),
    "doris": _write_value,
    "starrocks": _write_value,
    "croaring": _write_croaring,
    "java-legacy": _write_java,
    "delvec": lambda rows: b"\1" + (_write32(rows) if rows else b""),
    "hudi": lambda rows: base64.b64encode(_write64(rows)),
}
_HIGHEST: dict[str, int] = {
    "clickhouse8": 2**8 - 1,
    "clickhouse16": 2**16 - 1,
    "clickhouse32": 2**32 - 1,
    "croaring": 2**32 - 1,
    "delvec": 2**32 - 1,
}
