"""The bounds-checked cursor that every decoder reads through, and CRC-32, that of zlib and ``java.util.zip``."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import ChecksumMismatch, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.usage import as_count

BytesLike: TypeAlias = bytes | bytearray | memoryview | mmap.mmap | NDArray[np.uint8]
"""Any contiguous object with the buffer protocol."""

E = TypeVar("E", bound=DecodeError)

_UVARINT_BITS = 64


def as_view(buf: BytesLike) -> memoryview:
    """Return `buf` as a flat read-only view of bytes, without a copy.

    Raises:
        UsageError: `buf` is not a contiguous buffer. (The libraries below ignore strides, so they must not see any.)
    """
    try:
        view = memoryview(buf)  # type: ignore[arg-type]  # mmap and NumPy state no buffer before 3.12
    except (TypeError, ValueError):  # no buffer at all; a closed map, or an array of dates
        raise UsageError(f"need a bytes-like object, got {type(buf).__name__}") from None
    if not view.c_contiguous:
        raise UsageError("need contiguous bytes, got a strided view: copy it first")
    if not view.nbytes:
        return memoryview(b"")
    return (view if view.format == "B" and view.ndim == 1 else view.cast("B")).toreadonly()


def first_true(mask: NDArray[np.bool_]) -> int | None:
    """Return the first index at which `mask` is True, or None."""
    return first if len(mask) and mask[first := int(mask.argmax())] else None


class Cursor:
    """Reads little- and big-endian values from a window of bytes, in order.

    Every read is checked against the window; a read beyond its end raises `Truncated`. Errors have byte offsets in the
    source: `base` plus the offset in the window.

    Args:
        buf: the window.
        source: name of the source, for errors.
        base: byte offset of the window in the source.

    Raises:
        UsageError: `buf` is not a contiguous buffer, or `base` is not an offset.
    """

    __slots__ = ("base", "end", "pos", "source", "view")

    def __init__(self, buf: BytesLike, *, source: str | None = None, base: int = 0) -> None:
        self.view = as_view(buf)
        self.source = source
        self.base = base if type(base) is int else as_count(base, "base")
        self.pos = 0
        self.end = len(self.view)

    @property
    def remaining(self) -> int:
        """Bytes left in the window."""
        return self.end - self.pos

    def error(self, kind: type[E], what: str, *, at: int | None = None, expected: Any = None, actual: Any = None) -> E:
        """Build an error with the source and the offset `at` in this window (by default the current position)."""
        offset = self.base + (self.pos if at is None else at)
        return kind(what, source=self.source, offset=offset, expected=expected, actual=actual)

    def take(self, size: int, what: str) -> memoryview:
        """Return the next `size` bytes as a view.

        Raises:
            Truncated: fewer bytes are left.
        """
        start = self.pos
        if not 0 <= size <= self.end - start:
            raise self.error(Truncated, what, expected=f"{size} bytes", actual=f"{self.end - start} left")
        self.pos = start + size
        return self.view[start : self.pos]

    def u8(self, what: str) -> int:
        """Read one byte.

        Raises:
            Truncated: the window ends first.
        """
        at = self.pos
        if at < self.end:  # not by `take`: varints are read by the byte
            self.pos = at + 1
            return self.view[at]
        return self.take(1, what)[0]

    def u32le(self, what: str) -> int:
        """Read a little-endian unsigned 32-bit value.

        Raises:
            Truncated: the window ends first.
        """
        return int.from_bytes(self.take(4, what), "little")

    def i32le(self, what: str) -> int:
        """Read a little-endian signed 32-bit value.

        Raises:
            Truncated: the window ends first.
        """
        return int.from_bytes(self.take(4, what), "little", signed=True)

    def u64le(self, what: str) -> int:
        """Read a little-endian unsigned 64-bit value.

        Raises:
            Truncated: the window ends first.
        """
        return int.from_bytes(self.take(8, what), "little")

    def u32be(self, what: str) -> int:
        """Read a big-endian unsigned 32-bit value.

        Raises:
            Truncated: the window ends first.
        """
        return int.from_bytes(self.take(4, what), "big")

    def u64be(self, what: str) -> int:
        """Read a big-endian unsigned 64-bit value.

        Raises:
            Truncated: the window ends first.
        """
        return int.from_bytes(self.take(8, what), "big")

    def uvarint(self, what: str) -> int:
        """Read an unsigned LEB128 value of at most 64 bits (7 bits a byte, least significant first).

        Raises:
            Truncated: the window ends first.
            NotCanonical: more than 10 bytes or 64 bits.
        """
        start, value, shift = self.pos, 0, 0
        while True:
            byte = self.u8(what)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= _UVARINT_BITS:
                raise self.error(NotCanonical, what, at=start, expected="a varint of at most 10 bytes")
        if value >> _UVARINT_BITS:
            raise self.error(NotCanonical, what, at=start, expected="a varint below 2**64", actual=value)
        return value

    def seek(self, pos: int, what: str) -> None:
        """Move to `pos`, an offset in this window.

        Raises:
            Truncated: `pos` is outside the window.
        """
        if not 0 <= pos <= self.end:
            raise self.error(Truncated, what, at=pos, expected=f"an offset of at most {self.base + self.end}")
        self.pos = pos

    @contextmanager
    def restrict_to(self, size: int, what: str) -> Iterator[Cursor]:
        """Narrow the window to the next `size` bytes; the block must read all of them.

        Raises:
            Truncated: fewer bytes are left.
            NotCanonical: bytes are left at the end of the block.
        """
        if not 0 <= size <= self.remaining:
            raise self.error(Truncated, what, expected=f"{size} bytes", actual=f"{self.remaining} left")
        outer, self.end = self.end, self.pos + size
        try:
            yield self
            self.expect_end(what)
        finally:
            self.end = outer

    def expect_end(self, what: str) -> None:
        """Check that the whole window was read.

        Raises:
            NotCanonical: bytes are left.
        """
        if self.pos != self.end:
            raise self.error(
                NotCanonical, f"bytes after the end of {what}", expected="0 bytes left", actual=f"{self.remaining}"
            )


def _fastest() -> Callable[..., int]:
    """Return ISA-L's CRC if installed, an order of magnitude faster than zlib's."""
    try:
        from isal import isal_zlib  # noqa: PLC0415  (optional)
    except ImportError:
        return zlib.crc32
    return cast("Callable[..., int]", isal_zlib.crc32)


crc32: Callable[..., int] = _fastest()


def crc_hex(value: int) -> str:
    """Format a CRC: ``0x0a1b2c3d``."""
    return f"0x{value:08x}"


def check_crc(cursor: Cursor, offset: int, what: str, stored: int, data: memoryview) -> None:
    """Compare the CRC of `data` with the one stored at `offset` of the cursor's window.

    Raises:
        ChecksumMismatch: the CRCs differ.
    """
    computed = crc32(data)
    if computed != stored:
        expected, actual = f"{crc_hex(stored)} (stored)", f"{crc_hex(computed)} (computed)"
        raise cursor.error(ChecksumMismatch, f"CRC-32 of {what}", at=offset, expected=expected, actual=actual)
