"""Pickles of pyroaring's ``BitMap`` and ``BitMap64``, or their frozen forms, without pickle: no class is loaded.

A pickle is a program. Only the one that pickle writes for such an object is read, in protocols 2 to 5: its class is one
of the four, its state a portable bitmap of 32 or 64 bits. Written is that of protocol 4, Python's default, with the
bytes of ``pickle.dumps(bitmap, 4)``. Source: Python, ``pickletools``; pyroaring, ``__getstate__``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Unsupported
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Wrapper, read32, read64, write32, write64

_MODULE = b"pyroaring"
_PROTO, _FRAME, _MEMOIZE = b"\x80", b"\x95", b"\x94"
_GLOBAL, _STACK_GLOBAL = b"c", b"\x93"
_EMPTY_TUPLE, _NEW_OBJECT, _TUPLE_2, _REDUCE, _BUILD, _STOP = b")", b"\x81", b"\x86", b"R", b"b", b"."
_TEXT_1 = b"\x8c"
_TEXT = {_TEXT_1: 1, b"X": 4, b"\x8d": 8}
"""Bytes of the length that follows, by instruction."""
_BYTES = {b"C": 1, b"B": 4, b"\x8e": 8}
_PASSED_BY = {_FRAME: 8, _MEMOIZE: 0, b"q": 1, b"r": 4}
"""Instructions that change nothing for a single object, and the bytes of their arguments."""
_MOST_PASSED_BY = 4
"""More of them in a row than pickle writes."""
_PROTOCOLS = range(2, 6)
_LONGEST_NAME = 64
_SHORT = 255
_FRAME_LIMIT = 1 << 16
"""Bytes from which a string is not part of a frame."""


def _read(
    cursor: Cursor, limits: Limits, names: tuple[bytes, ...], inner: Callable[[Cursor, Limits], RowSet]
) -> RowSet:
    _expect(cursor, _PROTO)
    protocol = cursor.u8("protocol")
    if protocol not in _PROTOCOLS:
        raise cursor.error(Unsupported, "protocol", at=1, expected="2 to 5", actual=protocol)
    at = cursor.pos
    found = _read_global(cursor)
    if found not in [(_MODULE, name) for name in names]:
        expected = " or ".join(name.decode() for name in names)
        raise cursor.error(BadMagic, "class", at=at, expected=expected, actual=b".".join(found))
    _expect(cursor, _EMPTY_TUPLE)
    _expect(cursor, _NEW_OBJECT)
    state = _read_state(cursor)
    _expect(cursor, _BUILD)
    _expect(cursor, _STOP)
    rows = inner(state, limits)
    state.expect_end("the bitmap")
    return rows


def _next(cursor: Cursor) -> bytes:
    """Read the next instruction that matters."""
    found = bytes(cursor.take(1, "instruction"))
    for _ in range(_MOST_PASSED_BY):
        if found not in _PASSED_BY:
            break
        cursor.take(_PASSED_BY[found], "argument")
        found = bytes(cursor.take(1, "instruction"))
    return found


def _expect(cursor: Cursor, instruction: bytes) -> None:
    found = _next(cursor)
    if found != instruction:
        raise _unexpected(cursor, found, instruction)


def _unexpected(cursor: Cursor, found: bytes, expected: object) -> BadMagic:
    return cursor.error(BadMagic, "instruction of the pickle", at=cursor.pos - 1, expected=expected, actual=found)


def _read_global(cursor: Cursor) -> tuple[bytes, bytes]:
    """Read the module and the name of a global."""
    found = _next(cursor)
    if found == _GLOBAL:
        return _line(cursor), _line(cursor)
    if found not in _TEXT:
        raise _unexpected(cursor, found, "a class")
    module = _string(cursor, _TEXT[found])
    found = _next(cursor)
    if found not in _TEXT:
        raise _unexpected(cursor, found, "a name")
    name = _string(cursor, _TEXT[found])
    _expect(cursor, _STACK_GLOBAL)
    return bytes(module), bytes(name)


def _line(cursor: Cursor) -> bytes:
    """Read a name up to the end of its line."""
    window = bytes(cursor.view[cursor.pos : min(cursor.end, cursor.pos + _LONGEST_NAME)])
    name, found, _ = window.partition(b"\n")
    if not found:
        raise cursor.error(NotCanonical, "name", expected=f"a line of at most {_LONGEST_NAME} bytes")
    cursor.take(len(name) + 1, "name")
    return name


def _string(cursor: Cursor, width: int) -> memoryview:
    """Read a string after its length, a little-endian number of `width` bytes."""
    return cursor.take(int.from_bytes(cursor.take(width, "length"), "little"), "string")


def _read_state(cursor: Cursor) -> Cursor:
    """Read the state, a string of bytes; protocol 2 has it as a call of ``_codecs.encode(text, "latin1")``."""
    found = _next(cursor)
    if found in _BYTES:
        state = _string(cursor, _BYTES[found])
        return Cursor(state, source=cursor.source, base=cursor.base + cursor.pos - len(state))
    if found != _GLOBAL or (_line(cursor), _line(cursor)) != (b"_codecs", b"encode"):
        raise _unexpected(cursor, found, "a string of bytes")
    texts = []
    for _ in range(2):
        found = _next(cursor)
        if found not in _TEXT:
            raise _unexpected(cursor, found, "a text")
        texts.append(_string(cursor, _TEXT[found]))
    at = cursor.pos
    _expect(cursor, _TUPLE_2)
    _expect(cursor, _REDUCE)
    if bytes(texts[1]) != b"latin1":
        raise cursor.error(NotCanonical, "encoding", at=at, expected="latin1", actual=bytes(texts[1][:_LONGEST_NAME]))
    try:
        data = str(texts[0], "utf-8").encode("latin1")
    except ValueError as error:
        raise cursor.error(NotCanonical, "text", at=at, expected="bytes as latin1", actual=str(error)) from None
    return Cursor(data, source=cursor.source)


def _write(rows: RowSet, name: bytes, inner: Callable[[RowSet], bytes]) -> bytes:
    state = inner(rows)
    made = b"".join(_TEXT_1 + bytes([len(text)]) + text + _MEMOIZE for text in (_MODULE, name))
    made += _STACK_GLOBAL + _MEMOIZE + _EMPTY_TUPLE + _NEW_OBJECT + _MEMOIZE
    if len(state) <= _SHORT:
        made += b"C" + bytes([len(state)])
    else:
        header = (
            b"B" + struct.pack("<I", len(state)) if len(state) < 1 << 32 else b"\x8e" + struct.pack("<Q", len(state))
        )
        if len(state) >= _FRAME_LIMIT:
            return _PROTO + b"\4" + _framed(made) + header + state + _MEMOIZE + _BUILD + _STOP
        made += header
    return _PROTO + b"\4" + _framed(made + state + _MEMOIZE + _BUILD + _STOP)


def _framed(data: bytes) -> bytes:
    return _FRAME + struct.pack("<Q", len(data)) + data


PICKLE32 = Wrapper(
    partial(_read, names=(b"BitMap", b"FrozenBitMap"), inner=read32),
    partial(_write, name=b"BitMap", inner=write32),
    highest=2**32 - 1,
)
"""A pickled ``BitMap``; a ``FrozenBitMap`` is read too."""
PICKLE64 = Wrapper(
    partial(_read, names=(b"BitMap64", b"FrozenBitMap64"), inner=read64),
    partial(_write, name=b"BitMap64", inner=write64),
)
"""A pickled ``BitMap64``; a ``FrozenBitMap64`` is read too."""
