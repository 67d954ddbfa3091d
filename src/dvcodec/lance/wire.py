"""The protobuf wire format, as Lance uses it: bounds-checked decoding, and encoding with prost's bytes.

Specification: Protocol Buffers, "Encoding". Decoding follows prost, Lance's library: unknown fields are skipped, the
last value of a field wins, and repeated occurrences of a message are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.varints import uvarints

VARINT, FIXED64, LENGTH, GROUP, GROUP_END, FIXED32 = range(6)
_MAX_NUMBER = (1 << 29) - 1
_MAX_DEPTH = 100
"""Maximum nesting of groups, as in prost."""


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: field number.
        value: the varint, or a cursor over the bytes of a length-delimited field; None for fixed-size fields and
            groups, which no known field has.
        at: offset of the field's key in the window it was read from.
    """

    number: int
    value: int | Cursor | None
    at: int

    def integer(self, cursor: Cursor, what: str) -> int:
        """Return a varint.

        Raises:
            NotCanonical: the field has another wire type.
        """
        if not isinstance(self.value, int):
            raise cursor.error(NotCanonical, what, at=self.at, expected="a varint", actual="another wire type")
        return self.value

    def window(self, cursor: Cursor, what: str) -> Cursor:
        """Return the bytes of a length-delimited field.

        Raises:
            NotCanonical: the field has another wire type.
        """
        if not isinstance(self.value, Cursor):
            raise cursor.error(
                NotCanonical, what, at=self.at, expected="a length-delimited field", actual="another wire type"
            )
        return self.value

    def text(self, cursor: Cursor, what: str) -> str:
        """Return a string field.

        Raises:
            NotCanonical: the field has another wire type, or is not UTF-8.
        """
        window = self.window(cursor, what)
        try:
            return bytes(window.view).decode()
        except UnicodeDecodeError as err:
            raise window.error(NotCanonical, what, expected="UTF-8", actual=str(err)) from None


def fields(cursor: Cursor) -> Iterator[Field]:
    """Yield the fields that fill the rest of the window.

    Raises:
        Truncated: the window ends inside a field.
        NotCanonical: an invalid key, varint or group.
    """
    while cursor.remaining:
        at = cursor.pos
        number, kind = _key(cursor)
        if kind == VARINT:
            yield Field(number, cursor.uvarint(f"field {number}"), at)
        elif kind == LENGTH:
            size = cursor.uvarint(f"length of field {number}")
            start = cursor.base + cursor.pos
            yield Field(number, Cursor(cursor.take(size, f"field {number}"), source=cursor.source, base=start), at)
        else:
            if kind == GROUP:
                _skip_group(cursor, number)
            else:
                _skip_fixed(cursor, number, kind, at)
            yield Field(number, None, at)


def read(
    cursor: Cursor,
    integers: Mapping[int, str],
    texts: Mapping[int, str] = MappingProxyType({}),
    windows: Mapping[int, str] = MappingProxyType({}),
) -> dict[int, Any]:
    """Read the rest of the window and return its known fields, ordered by their last places; others are skipped.

    Args:
        cursor: at the message.
        integers: field number -> description for errors: varints, of each the last value.
        texts: the same: strings, of each the last value.
        windows: the same: length-delimited fields, of each all values, in a list.

    Raises:
        Truncated, NotCanonical: see `fields`; or one of these fields has another wire type.
    """
    found: dict[int, Any] = {}
    for entry in fields(cursor):
        number = entry.number
        if number in windows:
            values = found.pop(number, [])
            values.append(entry.window(cursor, windows[number]))
            found[number] = values
        elif number in integers:
            found[number] = entry.integer(cursor, integers[number])
        elif number in texts:
            found[number] = entry.text(cursor, texts[number])
    return found


def _key(cursor: Cursor) -> tuple[int, int]:
    at = cursor.pos
    key = cursor.uvarint("field key")
    number, kind = key >> 3, key & 7
    if not 0 < number <= _MAX_NUMBER or kind > FIXED32:
        raise cursor.error(NotCanonical, "field key", at=at, expected="a field number and a wire type", actual=key)
    return number, kind


def _skip_fixed(cursor: Cursor, number: int, kind: int, at: int) -> None:
    if kind == GROUP_END:
        raise cursor.error(NotCanonical, "field key", at=at, expected="no end without a group", actual=number)
    cursor.take(8 if kind == FIXED64 else 4, f"field {number}")


def _skip_group(cursor: Cursor, number: int) -> None:
    open_groups = [number]
    while open_groups:
        at = cursor.pos
        inner, kind = _key(cursor)
        if kind == GROUP:
            open_groups.append(inner)
            if len(open_groups) > _MAX_DEPTH:
                raise cursor.error(NotCanonical, "groups", at=at, expected=f"at most {_MAX_DEPTH} levels")
        elif kind == GROUP_END:
            if open_groups.pop() != inner:
                raise cursor.error(NotCanonical, "end of a group", at=at, expected="the group that is open")
        elif kind == VARINT:
            cursor.uvarint(f"field {inner}")
        elif kind == LENGTH:
            cursor.take(cursor.uvarint(f"length of field {inner}"), f"field {inner}")
        else:
            _skip_fixed(cursor, inner, kind, at)


def scalar(number: int, value: int) -> bytes:
    """Encode a varint field; zero is omitted."""
    return uvarints(number << 3 | VARINT, value) if value else b""


def nested(number: int, pieces: list[bytes]) -> list[bytes]:
    """Encode a length-delimited field, even if empty, in pieces: large ones are joined only once, by the caller."""
    return [uvarints(number << 3 | LENGTH, sum(map(len, pieces))), *pieces]


def message(number: int, *parts: bytes) -> bytes:
    """Encode a length-delimited field, see `nested`."""
    return b"".join(nested(number, list(parts)))


def blob(number: int, data: bytes) -> list[bytes]:
    """Encode a bytes field, in pieces; an empty one is omitted."""
    return nested(number, [data]) if data else []
