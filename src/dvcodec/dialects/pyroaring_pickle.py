"""Pickles of pyroaring's ``BitMap`` and ``BitMap64``, or their frozen forms, without pickle: no class is loaded.

A pickle is a program. Only the one that pickle writes for such an object is read, in protocols 2 to 5: its class is one
of the four, its state a portable bitmap of 32 or 64 bits. Written is that of protocol 4, Python's default, with the
bytes of ``pickle.dumps(bitmap, 4)``. Source: Python, ``pickletools``; pyroaring, ``__getstate__``.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, NotCanonical, Unsupported
from dvcodec.core.limits import Limits
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Wrapper, read32, read64, write32, write64

_MODULE = "pyroaring"
_PASSED_BY = ("FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT")
"""Instructions that change nothing for a single object."""
_MOST = 40
"""More instructions than pickle writes."""
_TEXT = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_BYTES = {"SHORT_BINBYTES": 2, "BINBYTES": 5, "BINBYTES8": 9}
"""Instructions with a string of bytes, and their bytes before it."""
_PROTOCOLS = range(2, 6)
_SHORT = 255
_FRAME_LIMIT = 1 << 16
"""Bytes from which a string is not part of a frame."""


class _Program:
    """The instructions of a pickle that matter, which are read but not run."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._instructions = self._read()

    def _read(self) -> Iterator[tuple[str, Any, int]]:
        cursor = self._cursor
        try:
            for opcode, argument, at in islice(pickletools.genops(bytes(cursor.view)), _MOST):
                cursor.pos = at or 0
                if opcode.name not in _PASSED_BY:
                    yield opcode.name, argument, cursor.pos
        except ValueError as error:
            raise cursor.error(NotCanonical, "pickle", expected="instructions", actual=str(error)[:80]) from None
        raise cursor.error(NotCanonical, "pickle", expected=f"at most {_MOST} instructions")

    def next(self, *names: str) -> tuple[str, Any, int]:
        """Return the name, argument and place of the next instruction, which is one of these."""
        found = next(self._instructions)
        if found[0] not in names:
            expected = " or ".join(names)
            raise self._cursor.error(BadMagic, "instruction of the pickle", expected=expected, actual=found[0])
        return found

    def next_global(self) -> str:
        """Return the next global, as ``module name``."""
        name, argument, _ = self.next("GLOBAL", *_TEXT)
        if name != "GLOBAL":
            argument += f" {self.next(*_TEXT)[1]}"
            self.next("STACK_GLOBAL")
        return str(argument)


def _read(cursor: Cursor, limits: Limits, names: tuple[str, ...], inner: Callable[[Cursor, Limits], RowSet]) -> RowSet:
    program = _Program(cursor)
    _, protocol, _ = program.next("PROTO")
    if protocol not in _PROTOCOLS:
        raise cursor.error(Unsupported, "protocol", at=1, expected="2 to 5", actual=protocol)
    found = program.next_global()
    if found not in [f"{_MODULE} {name}" for name in names]:
        raise cursor.error(BadMagic, "class", expected=" or ".join(names), actual=found[:80])
    program.next("EMPTY_TUPLE")
    program.next("NEWOBJ")
    state = _read_state(cursor, program)
    program.next("BUILD")
    _, _, at = program.next("STOP")
    cursor.seek(at + 1, "the pickle")
    rows = inner(state, limits)
    state.expect_end("the bitmap")
    return rows


def _read_state(cursor: Cursor, program: _Program) -> Cursor:
    """Read the state, a string of bytes; protocol 2 has it as a call of ``_codecs.encode(text, "latin1")``."""
    name, argument, at = program.next("GLOBAL", *_BYTES)
    if name != "GLOBAL":
        return Cursor(argument, source=cursor.source, base=cursor.base + at + _BYTES[name])
    texts = [program.next(*_TEXT)[1] for _ in range(2)]
    program.next("TUPLE2")
    program.next("REDUCE")
    if (argument, texts[1]) != ("_codecs encode", "latin1"):
        raise cursor.error(
            NotCanonical,
            "encoding",
            at=at,
            expected="_codecs encode, latin1",
            actual=f"{argument[:40]}, {texts[1][:40]}",
        )
    try:
        return Cursor(texts[0].encode("latin1"), source=cursor.source)
    except ValueError as error:
        raise cursor.error(NotCanonical, "text", at=at, expected="bytes as latin1", actual=str(error)) from None


def _write(rows: RowSet, name: bytes, inner: Callable[[RowSet], bytes]) -> bytes:
    state = inner(rows)
    texts = b"".join(b"\x8c" + bytes([len(text)]) + text + b"\x94" for text in (_MODULE.encode(), name))
    made = texts + b"\x93\x94)\x81\x94"
    header = b"C" + bytes([len(state)]) if len(state) <= _SHORT else b"B" + struct.pack("<I", len(state))
    if len(state) >> 32:
        header = b"\x8e" + struct.pack("<Q", len(state))
    if len(state) >= _FRAME_LIMIT:
        return b"\x80\4" + _framed(made) + header + state + b"\x94b."
    return b"\x80\4" + _framed(made + header + state + b"\x94b.")


def _framed(data: bytes) -> bytes:
    return b"\x95" + struct.pack("<Q", len(data)) + data


PICKLE32 = Wrapper(
    partial(_read, names=("BitMap", "FrozenBitMap"), inner=read32),
    partial(_write, name=b"BitMap", inner=write32),
    highest=2**32 - 1,
)
"""A pickled ``BitMap``; a ``FrozenBitMap`` is read too."""
PICKLE64 = Wrapper(
    partial(_read, names=("BitMap64", "FrozenBitMap64"), inner=read64),
    partial(_write, name=b"BitMap64", inner=write64),
)
"""A pickled ``BitMap64``; a ``FrozenBitMap64`` is read too."""
