"""The footer of a Parquet file as a tree of Thrift's compact protocol, to be damaged and written again."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from samples.avro import zigzag

Tree = dict[int, tuple[int, Any]]
"""Field number -> type and value of each field of a struct; a list is its items' type, and the items; a
map the two types, and the pairs."""
ROW_GROUPS, COLUMNS, META_DATA, CRYPTO, STATISTICS, SIZE_STATISTICS = 4, 1, 3, 8, 12, 16


def rewritten(data: bytes, change: Callable[[Tree], object]) -> bytes:
    """A file with another footer than it should."""
    size = struct.unpack("<I", data[-8:-4])[0]
    footer, _ = _read(data[-8 - size : -8], 0, 12)
    change(footer)
    body = _write(12, footer)
    return data[: -8 - size] + body + struct.pack("<I", len(body)) + b"PAR1"


def altered(data: bytes, change: Callable[[list[Tree]], object]) -> bytes:
    """A file whose first row group has other columns than it should."""
    return rewritten(data, lambda footer: change(footer[ROW_GROUPS][1][1][0][COLUMNS][1][1]))


def footer(tree: Tree) -> bytes:
    """The bytes of a footer, without its length and magic."""
    return _write(12, tree)


def _varint(value: int) -> bytes:
    return zigzag(value >> 1 ^ -(value & 1))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, at


def _read(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return None, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _read_varint(data, at)
    if kind == 7:
        return data[at : at + 8], at + 8
    if kind == 8:
        size, at = _read_varint(data, at)
        return data[at : at + size], at + size
    if kind == 9:
        count, inner = data[at] >> 4, data[at] & 15
        count, at = _read_varint(data, at + 1) if count == 15 else (count, at + 1)
        if count > len(data) - at:
            raise IndexError(f"{count} items in {len(data) - at} bytes")
        items = []
        for _ in range(count):
            item, at = _read(data, at, 3 if inner in (1, 2) else inner)
            items.append(item)
        return (inner, items), at
    tree: Tree = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            coded, at = _read_varint(data, at)
            number = coded >> 1
        value, at = _read(data, at, head & 15)
        tree[number] = head & 15, value
    return tree, at + 1


def _write(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == 3:
        return bytes([value])
    if kind in (4, 5, 6):
        return _varint(value)
    if kind == 7:
        return bytes(value)
    if kind == 8:
        return _varint(len(value)) + bytes(value)
    if kind == 11:
        kinds, pairs = value
        items = [(3 if one in (1, 2) else one, item) for pair in pairs for one, item in zip(kinds, pair, strict=True)]
        head = bytes([kinds[0] << 4 | kinds[1]]) if pairs else b""
        return _varint(len(pairs)) + head + b"".join(_write(one, item) for one, item in items)
    if kind in (9, 10):
        inner, items = value
        head = bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([0xF0 | inner]) + _varint(len(items))
        return head + b"".join(_write(3 if inner in (1, 2) else inner, item) for item in items)
    out, last = b"", 0
    for number in sorted(value):
        inner, item = value[number]
        step, last = number - last, number
        out += (bytes([step << 4 | inner]) if step < 16 else bytes([inner]) + _varint(number << 1)) + _write(
            inner, item
        )
    return out + b"\0"
