"""Lance's ``EncodedU64Array``: unsigned 64-bit values as 16- or 32-bit offsets from a base, or in full.

Specification: Lance's ``rowids.proto``; Rust module ``rowids/encoded_array.rs``. A message of one of three::

    1 U16Array   base = 1, offsets = 2 (u16 LE)     2 U32Array   the same with u32     3 U64Array   values = 2 (u64 LE)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import Values
from dvcodec.core.usage import as_count
from dvcodec.lance import wire

WIDTHS = {1: 2, 2: 4, 3: 8}
"""Field number -> bytes of a value."""
_NUMBERS = {width: number for number, width in WIDTHS.items()}
_FULL_WIDTH = 8
_TOP = 2**64 - 1
_MOST_VALUES = 2**60 - 1
"""Maximum number of values whose bytes NumPy can address."""


@dataclass(frozen=True, slots=True)
class EncodedArray:
    """Unsigned 64-bit values as stored.

    Attributes:
        width: bytes of a stored value: 2, 4 or 8.
        base: added to each value; 0 with 8 bytes.
        data: the stored values, little-endian, in element order.
    """

    width: int
    base: int = 0
    data: bytes = field(default=b"", repr=False)

    @classmethod
    def from_values(cls, values: Values) -> EncodedArray:
        """Encode with the narrowest width; the base is the minimum."""
        if not len(values):
            return cls(_FULL_WIDTH)
        low, high = int(values.min()), int(values.max())
        width = 2 if high - low < 1 << 16 else 4 if high - low < 1 << 32 else _FULL_WIDTH
        base = low if width < _FULL_WIDTH else 0
        return cls(
            width, base, (values - np.uint64(base) if base else values).astype(f"<u{width}", copy=False).tobytes()
        )

    def __len__(self) -> int:
        return len(self.data) // self.width

    @property
    def offsets(self) -> NDArray[Any]:
        """The stored values, without the base."""
        return np.frombuffer(self.data, f"<u{self.width}")

    def to_numpy(self) -> Values:
        """Return the values in element order: uint64[n]."""
        values: Values = self.offsets.astype(np.uint64)
        if self.base:
            values += np.uint64(self.base)
        return values

    def at(self, i: int) -> int:
        """Return one value; `i` must be in range."""
        return self.base + int.from_bytes(self.data[i * self.width : (i + 1) * self.width], "little")

    def cut(self, offset: int, length: int) -> EncodedArray:
        """Return `length` elements from index `offset`, with the same base."""
        data = self.data[offset * self.width : (offset + length) * self.width]
        return EncodedArray(self.width, self.base, data)

    def search(self, value: int) -> int:
        """Return the number of values below `value` in an ascending array."""
        wanted = value - self.base
        if wanted <= 0:
            return 0
        if wanted >= 1 << 8 * self.width:
            return len(self)
        return int(np.searchsorted(self.offsets, np.array(wanted, f"<u{self.width}")))

    @property
    def ascends(self) -> bool:
        """Whether the values ascend strictly."""
        offsets = self.offsets
        return bool((offsets[1:] > offsets[:-1]).all())

    def pieces(self) -> list[bytes]:
        """Encode the message, in pieces."""
        base = [wire.scalar(1, self.base)] if self.width < _FULL_WIDTH else []
        return wire.nested(_NUMBERS[self.width], base + wire.blob(2, self.data))

    def encode(self) -> bytes:
        """Encode the message."""
        return b"".join(self.pieces())


@dataclass(slots=True)
class ArrayParts:
    """An array being decoded: its message may come in several parts."""

    number: int = 0
    base: int = 0
    data: Cursor | None = None

    def read(self, cursor: Cursor) -> None:
        """Read one part.

        Raises:
            Truncated: the bytes end inside a field.
            NotCanonical: a field of the wrong wire type, or an invalid varint.
        """
        for entry in wire.fields(cursor):
            if entry.number not in WIDTHS:
                continue
            if entry.number != self.number:  # the last one wins
                self.number, self.base, self.data = entry.number, 0, None
            window = entry.window(cursor, "array")
            for inner in wire.fields(window):
                if inner.number == 1 and WIDTHS[self.number] < _FULL_WIDTH:
                    self.base = inner.integer(window, "base of an array")
                elif inner.number == 2:
                    self.data = inner.window(window, "values of an array")

    def finish(self, cursor: Cursor, at: int) -> EncodedArray:
        """Check the array and return it; `at` is its position in `cursor`, for errors.

        Raises:
            NotCanonical: no array, an incomplete value, or a value above 2**64 - 1.
        """
        if not self.number:
            raise cursor.error(NotCanonical, "array", at=at, expected="a U16Array, U32Array or U64Array")
        width = WIDTHS[self.number]
        array = EncodedArray(width, self.base, b"" if self.data is None else bytes(self.data.view))
        if len(array.data) % width:
            raise (self.data or cursor).error(
                NotCanonical,
                f"values of a U{8 * width}Array",
                expected=f"a multiple of {width} bytes",
                actual=len(array.data),
            )
        if len(array) and array.base + int(array.offsets.max()) > _TOP:
            highest = array.base + int(array.offsets.max())
            raise (self.data or cursor).error(
                NotCanonical, "base and offset", expected=f"a sum of at most {_TOP}", actual=highest
            )
        return array


@contextmanager
def expanding(what: str, count: int, max_rows: int | None) -> Iterator[None]:
    """Bound an expansion: a few bytes can encode any number of values.

    Args:
        what: the values, in the plural.
        count: number of values.
        max_rows: upper bound on `count`; None bounds by memory only.

    Raises:
        LimitExceeded: `count` is above `max_rows`, or an allocation in the block failed.
        UsageError: `max_rows` is not a count.
    """
    most = _MOST_VALUES if max_rows is None else as_count(max_rows, "max_rows")
    if count > most:
        raise LimitExceeded(f"{what} to expand (max_rows)", expected=f"at most {most}", actual=count)
    with enough_memory(f"{count} {what}", None):
        yield
