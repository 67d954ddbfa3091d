"""Thrift's compact protocol, as Parquet's footers and page headers use it.

pyarrow reads the same bytes, so both must see the same values. What its parser reads differently is refused: repeated
fields, of which it takes the last of the right type, and numbers that do not fit their type, which it cuts off.

Specification: Thrift's ``doc/specs/thrift-compact-protocol.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Truncated

__all__ = [
    "BINARY",
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "ElementTypes",
    "Struct",
    "check_elements",
    "element_count",
    "fields",
    "get",
    "read",
    "read_struct",
    "skip",
]

_TRUE, _FALSE, _BYTE, _I16, I32, I64, _DOUBLE, BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 16
_LONG = 15
"""In the head of a list: its length follows."""
_BITS = {_I16: 15, I32: 31, I64: 63}
_LAST_BYTE = 127
_NUMBERS = 1 << 15
"""Field numbers have 16 bits, one of them the sign."""

Struct: TypeAlias = dict[int, tuple[int, Any]]
"""Field number -> type and value."""
ElementTypes: TypeAlias = Mapping[int, "int | ElementTypes"]
"""Field number of a struct -> element type of a list, or those of a struct."""


def fields(cursor: Cursor) -> Iterator[tuple[int, int]]:
    """Yield number and type of each field of a struct; the caller reads the value of each.

    Raises:
        NotCanonical: a field is repeated, or its number does not fit.
        Truncated: the bytes end first.
    """
    number = 0
    seen = set()
    while head := cursor.u8("field"):
        number = number + (head >> 4) if head >> 4 else _zigzag(cursor)
        if number in seen or not -_NUMBERS <= number < _NUMBERS:
            raise _bad_number(cursor, number)
        seen.add(number)
        yield number, head & 15


def _bad_number(cursor: Cursor, number: int) -> NotCanonical:
    return cursor.error(NotCanonical, "number of a field", expected="each number once, within 16 bits", actual=number)


def read_struct(cursor: Cursor, depth: int, types: ElementTypes | None = None) -> Struct:
    """Read a struct.

    Args:
        cursor: at its first field.
        depth: how many structs and lists it is in.
        types: element types of known lists: pyarrow reads these types, whatever the list states.

    Raises:
        NotCanonical: a field is repeated, too large or of an unknown type, or a list has other elements than `types`.
        Truncated: the bytes end first.
    """
    found: Struct = {}
    number = 0
    while head := cursor.u8("field"):  # as `fields`, which takes longer
        number = number + (head >> 4) if head >> 4 else _zigzag(cursor)
        if number in found or not -_NUMBERS <= number < _NUMBERS:
            raise _bad_number(cursor, number)
        kind = head & 15
        if kind <= _FALSE and kind:
            found[number] = kind, kind == _TRUE
            continue
        inner = types.get(number) if types else None
        if isinstance(inner, int):
            if kind == LIST:
                check_elements(cursor, inner)
            inner = None
        found[number] = kind, read(cursor, kind, depth + 1, inner)
    return found


def get(struct: Struct, number: int, kind: int, default: Any = None) -> Any:
    """Return a field of a struct, or the default if it is absent or of another type; pyarrow skips it then."""
    found, value = struct.get(number, (0, None))
    return value if found == kind else default


def check_elements(cursor: Cursor, wanted: int) -> None:
    """Check the element type of the list at the cursor, which does not move.

    Raises:
        NotCanonical: a list that is not empty has elements of another type.
        Truncated: the bytes end first.
    """
    at = cursor.pos
    head = cursor.u8("list")
    cursor.seek(at, "list")
    kind = head & 15
    if kind != wanted and head >> 4 and not (kind in _BITS and wanted in _BITS):  # all integers look the same
        raise cursor.error(NotCanonical, "element type of a list", expected=wanted, actual=kind)


def element_count(cursor: Cursor, wanted: int) -> int:
    """Read the head of a list, check the element type, and return the number of elements.

    Raises:
        NotCanonical: the list has elements of another type.
        Truncated: the bytes end first.
    """
    head = cursor.u8("list")
    if head & 15 != wanted:
        raise cursor.error(NotCanonical, "element type of a list", expected=wanted, actual=head & 15)
    return cursor.uvarint("length of a list") if head >> 4 == _LONG else head >> 4


def skip(cursor: Cursor, kind: int) -> None:
    """Step over the value of a field.

    Not checked: whether fields inside it are repeated, and the sizes of numbers.

    Raises:
        NotCanonical: a value is of an unknown type, or nested too deeply.
        Truncated: the bytes end first.
    """
    if kind in (_TRUE, _FALSE):
        return
    try:
        cursor.seek(_end(cursor, cursor.pos, kind, 1), "value")
    except IndexError:
        raise cursor.error(Truncated, "value", expected="a whole one", actual="the end of the footer") from None


def _end(cursor: Cursor, at: int, kind: int, depth: int) -> int:
    """Return where a value ends; raise `IndexError` if the footer ends first.

    This takes a third of the time of reading the value, and most of a footer describes columns that are not requested.
    """
    if depth > _MAX_DEPTH:
        raise cursor.error(NotCanonical, "footer", at=at, expected=f"at most {_MAX_DEPTH} levels", actual="more")
    data = cursor.view
    if kind in (_I16, I32, I64):
        while data[at] > _LAST_BYTE:
            at += 1
        return at + 1
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            if head < 16:  # the number of the field follows
                at = _end(cursor, at, _I16, depth)
            inner = head & 15
            if inner > _FALSE:
                at = _end(cursor, at, inner, depth + 1)
            elif not inner:  # the end of the struct to pyarrow, whatever the number
                raise cursor.error(NotCanonical, "type of a field", at=at, expected=f"1 to {STRUCT}", actual=0)
        return at + 1
    if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):  # booleans in a list take a byte
        at += 8 if kind == _DOUBLE else 1
        if at > len(data):  # a list may claim any number of them
            raise IndexError
        return at
    if kind not in (BINARY, LIST, _SET, _MAP):
        raise cursor.error(NotCanonical, "type of a field", at=at, expected=f"1 to {STRUCT}", actual=kind)
    cursor.seek(at, "value")
    if kind == BINARY:
        size = cursor.uvarint("length")
        return cursor.pos + size
    if kind == _MAP:
        count = cursor.uvarint("length of a map")
        kinds: tuple[int, ...] = divmod(cursor.u8("types of a map") if count else 0, 16)
    else:
        head = cursor.u8("list")
        count = cursor.uvarint("length of a list") if head >> 4 == _LONG else head >> 4
        kinds = (head & 15,)
    at = cursor.pos
    for _ in range(count):
        for one in kinds:
            at = _end(cursor, at, one, depth + 1)
    return at


def read(cursor: Cursor, kind: int, depth: int, types: ElementTypes | None = None) -> Any:
    """Read the value of a field; see `read_struct`."""
    if depth > _MAX_DEPTH:
        raise cursor.error(NotCanonical, "footer", expected=f"at most {_MAX_DEPTH} levels", actual="more")
    if kind in _BITS:
        number = _zigzag(cursor)
        if kind != I64 and not -1 <= number >> _BITS[kind] <= 0:
            raise cursor.error(NotCanonical, "number", expected=f"at most {_BITS[kind] + 1} bits", actual=number)
        return number
    if kind in (_DOUBLE, BINARY):
        return bytes(cursor.take(8 if kind == _DOUBLE else cursor.uvarint("length"), "value"))
    if kind in (LIST, _SET):
        head = cursor.u8("list")
        count = cursor.uvarint("length of a list") if head >> 4 == _LONG else head >> 4
        return [read(cursor, head & 15, depth + 1) for _ in range(count)]
    if kind in (_TRUE, _FALSE, _BYTE):  # booleans in a list take a byte
        return cursor.u8("value")
    if kind == _MAP:
        count = cursor.uvarint("length of a map")
        kinds = cursor.u8("types of a map") if count else 0
        return [[read(cursor, one, depth + 1) for one in (kinds >> 4, kinds & 15)] for _ in range(count)]
    if kind == STRUCT:
        return read_struct(cursor, depth, types)
    raise cursor.error(NotCanonical, "type of a field", expected=f"1 to {STRUCT}", actual=kind)


def _zigzag(cursor: Cursor) -> int:
    value = cursor.u8("number")
    if value > _LAST_BYTE:
        cursor.pos -= 1
        value = cursor.uvarint("number")
    return value >> 1 ^ -(value & 1)
