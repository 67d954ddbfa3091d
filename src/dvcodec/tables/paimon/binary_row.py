"""Values of a serialized row, such as a manifest's partition.

Java classes ``SerializationUtils``, ``BinaryRow`` and ``BinarySection``::

    i32 BE fields | u8 kind | null bits, one a field, from bit 8 on; padded to 8 bytes | 8 bytes a field, LE | the rest

Values of up to 8 bytes are stored in place. So is text of up to 7 bytes, with its length in the low 7 bits of the last
byte, whose high bit is set. Longer text, and decimals of more than 18 digits, are in the rest: the low half of the 8
bytes is the length, the high half the offset from the row's first byte. Times finer than milliseconds are in the rest
too: the low half is the nanoseconds of the millisecond, and the milliseconds are at the offset.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import TypeAlias

from dvcodec.core.errors import NotCanonical, Truncated, Unsupported
from dvcodec.tables.paimon.schema import DataType

__all__ = ["Value", "decode_row", "decode_some"]

Value: TypeAlias = "bool | int | float | str | bytes | Decimal | None"
"""Dates are days since 1970, times of day milliseconds, timestamps nanoseconds since 1970."""

_INTEGERS = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "DATE": "<i", "TIME": "<i", "BIGINT": "<q"}
_NUMBERS = {**_INTEGERS, "FLOAT": "<f", "DOUBLE": "<d"}
_TEXT = ("CHAR", "VARCHAR", "BINARY", "VARBINARY")
_COMPACT_DIGITS = 18
_DECIMAL_BYTES = 16
_EXACT = Context(prec=40)


def decode_row(data: bytes, types: Sequence[DataType], *, source: str, what: str) -> tuple[Value, ...]:
    """Decode a row.

    Args:
        data: number of fields, and the row.
        types: types of its fields.
        source: the file, for errors.
        what: the field, for errors.

    Raises:
        NotCanonical: it has other fields, or an invalid value.
        Truncated: it ends before its values do.
        Unsupported: a type that no partition or key can have.
    """
    row = _Row(data, len(types), source, what)
    return tuple(row.value(i, kind) for i, kind in enumerate(types))


def decode_some(data: bytes, arity: int, types: Mapping[int, DataType], *, source: str, what: str) -> dict[int, Value]:
    """Decode some fields of a row of `arity` fields, by their place; see `decode_row`."""
    row = _Row(data, arity, source, what)
    return {i: row.value(i, kind) for i, kind in types.items()}


class _Row:
    def __init__(self, data: bytes, arity: int, source: str, what: str) -> None:
        self._source, self._what = source, what
        found = int.from_bytes(data[:4], "big")
        if len(data) < 4 or found != arity:
            raise NotCanonical(what, source=source, expected=f"{arity} fields", actual=found)
        self._row = data[4:]
        self._bits = (arity + 63 + 8) // 64 * 8
        if len(self._row) < self._bits + 8 * arity:
            expected = f"{self._bits + 8 * arity} bytes of {arity} fields"
            raise Truncated(what, source=source, expected=expected, actual=f"{len(self._row)} bytes")

    def value(self, i: int, kind: DataType) -> Value:
        bit = i + 8
        if self._row[bit >> 3] >> (bit & 7) & 1:
            return None
        start = self._bits + 8 * i
        word = self._row[start : start + 8]
        if kind.root == "BOOLEAN":
            return word[0] != 0
        if kind.root in _NUMBERS:
            number: int | float = struct.unpack_from(_NUMBERS[kind.root], word)[0]
            return number
        if kind.root in _TEXT:
            return self._text(kind, self._inline(word))
        low, high = (int(half) for half in struct.unpack("<II", word))
        if kind.root == "DECIMAL":
            if (kind.precision or 0) <= _COMPACT_DIGITS:
                unscaled = int.from_bytes(word, "little", signed=True)
            elif low > _DECIMAL_BYTES:
                expected = f"at most {_DECIMAL_BYTES} bytes of a decimal"
                raise NotCanonical(self._what, source=self._source, expected=expected, actual=low)
            else:
                unscaled = int.from_bytes(self._rest(high, low), "big", signed=True)
            return Decimal(unscaled).scaleb(-(kind.scale or 0), _EXACT)
        if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
            if (kind.precision or 0) <= 3:
                return int.from_bytes(word, "little", signed=True) * 1_000_000
            return int.from_bytes(self._rest(high, 8), "little", signed=True) * 1_000_000 + low
        raise Unsupported(self._what, source=self._source, expected="a type that partitions have", actual=kind.text)

    def _inline(self, word: bytes) -> bytes:
        if not word[7] & 0x80:
            size, offset = struct.unpack("<II", word)
            return self._rest(offset, size)
        size = word[7] & 0x7F
        if size > 7:
            raise NotCanonical(self._what, source=self._source, expected="at most 7 bytes in place", actual=size)
        return word[:size]

    def _rest(self, offset: int, size: int) -> bytes:
        if offset + size > len(self._row):
            raise Truncated(
                self._what,
                source=self._source,
                expected=f"{size} bytes at byte {offset} of the row",
                actual=f"{len(self._row)} bytes in all",
            )
        return self._row[offset : offset + size]

    def _text(self, kind: DataType, raw: bytes) -> str | bytes:
        if kind.root in ("BINARY", "VARBINARY"):
            return raw
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise NotCanonical(self._what, source=self._source, expected="UTF-8", actual=raw[:20].hex(" ")) from None
