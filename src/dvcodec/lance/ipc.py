"""Buffer sizes of an Arrow IPC file, from its metadata, before pyarrow allocates them.

Specification: Arrow columnar format, "IPC File Format"; FlatBuffers "Internals". pyarrow takes the decompressed
size of a buffer from the file and allocates it unchecked. The fields that bound it::

    "ARROW1" 0 0 | messages | Footer | i32 size of the Footer | "ARROW1"
    Footer       3 recordBatches: [i64 offset, i32 metadata bytes, i64 body bytes], 2 dictionaries: the same
    Message      2 header: RecordBatch
    RecordBatch  0 length: i64, 2 buffers: [i64 offset, i64 bytes], 3 compression; compressed: i64 size | bytes
"""

from __future__ import annotations

import struct

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical

__all__ = ["MAGIC", "batch_lengths"]

MAGIC = b"ARROW1"
_CONTINUATION = 0xFFFFFFFF
_BLOCK, _BUFFER = 24, 16
"""Bytes of a struct in the vectors of blocks and buffers."""
_MAX_STRUCTS = 64
"""Maximum blocks or buffers in a file of one column."""
_RAW = -1
"""Stored size that marks an uncompressed buffer."""


def batch_lengths(cursor: Cursor) -> list[tuple[int, list[int]]]:
    """Return the rows of each record batch, and the decompressed bytes of its buffers.

    Args:
        cursor: the whole file; its position does not change.

    Raises:
        DecodeError: the metadata points outside the file, or there are dictionaries or too many buffers.
    """
    size = cursor.end
    if bytes(cursor.view[-len(MAGIC) :]) != MAGIC or size < 2 * len(MAGIC) + 4:
        at = max(size - len(MAGIC), 0)
        found = bytes(cursor.view[at:]).hex(" ")
        raise cursor.error(BadMagic, "magic at the end", at=at, expected=MAGIC.hex(" "), actual=found)
    footer_size = _i32(cursor, size - len(MAGIC) - 4)
    start = size - len(MAGIC) - 4 - footer_size
    if footer_size < 0 or start < 0:
        at = size - len(MAGIC) - 4
        raise cursor.error(NotCanonical, "footer size", at=at, expected=f"at most {at}", actual=footer_size)
    footer = _Table(cursor, start + _u32(cursor, start))
    if footer.vector(2, _BLOCK):
        raise cursor.error(NotCanonical, "dictionaries", at=start, expected="none")
    return [_batch(cursor, at) for at in footer.vector(3, _BLOCK)]


def _batch(cursor: Cursor, block: int) -> tuple[int, list[int]]:
    offset, metadata_size = _i64(cursor, block), _i32(cursor, block + 8)
    prefix = 8 if _u32(cursor, offset) == _CONTINUATION else 4
    start = offset + prefix
    message = _Table(cursor, start + _u32(cursor, start))
    if message.has(4):  # custom metadata, from which pyarrow takes the codec of files before V5
        raise cursor.error(NotCanonical, "metadata of a record batch", at=offset, expected="none")
    batch = message.table(2)
    rows = batch.i64(0)
    if rows < 0:
        raise cursor.error(NotCanonical, "rows of a record batch", at=offset, expected="0 or more", actual=rows)
    body = offset + metadata_size
    sizes = []
    for at in batch.vector(2, _BUFFER):
        where, length = _i64(cursor, at), _i64(cursor, at + 8)
        stored = length
        if batch.has(3) and length > 0:
            stored = _i64(cursor, body + where)
            stored = length if stored == _RAW else stored
        sizes.append(stored)
    return rows, sizes


class _Table:
    """A FlatBuffers table at a position; its vtable locates the fields."""

    def __init__(self, cursor: Cursor, at: int) -> None:
        self._cursor = cursor
        self._at = at
        self._vtable = at - _i32(cursor, at)
        self._size = _u16(cursor, self._vtable)

    def _field(self, i: int) -> int | None:
        slot = 4 + 2 * i
        if slot + 2 > self._size:
            return None
        offset = _u16(self._cursor, self._vtable + slot)
        return self._at + offset if offset else None

    def has(self, i: int) -> bool:
        return self._field(i) is not None

    def i64(self, i: int) -> int:
        at = self._field(i)
        return 0 if at is None else _i64(self._cursor, at)

    def table(self, i: int) -> _Table:
        at = self._field(i)
        if at is None:
            raise self._cursor.error(NotCanonical, "header of a message", at=self._at, expected="a record batch")
        return _Table(self._cursor, at + _u32(self._cursor, at))

    def vector(self, i: int, size: int) -> list[int]:
        """Return the positions of the structs in a vector."""
        at = self._field(i)
        if at is None:
            return []
        start = at + _u32(self._cursor, at)
        count = _u32(self._cursor, start)
        if count > _MAX_STRUCTS:
            expected = f"at most {_MAX_STRUCTS} blocks or buffers"
            raise self._cursor.error(NotCanonical, "metadata", at=start, expected=expected, actual=count)
        return [start + 4 + size * j for j in range(count)]


def _unpack(cursor: Cursor, at: int, form: str) -> int:
    size = struct.calcsize(form)
    if not 0 <= at <= cursor.end - size:
        raise cursor.error(
            NotCanonical, "offset in the metadata", at=None, expected=f"at most {cursor.end - size}", actual=at
        )
    return int(struct.unpack_from(form, cursor.view, at)[0])


def _u16(cursor: Cursor, at: int) -> int:
    return _unpack(cursor, at, "<H")


def _u32(cursor: Cursor, at: int) -> int:
    return _unpack(cursor, at, "<I")


def _i32(cursor: Cursor, at: int) -> int:
    return _unpack(cursor, at, "<i")


def _i64(cursor: Cursor, at: int) -> int:
    return _unpack(cursor, at, "<q")
