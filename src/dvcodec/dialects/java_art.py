"""Java's ``Roaring64Bitmap``, an adaptive radix tree (ART) over the 48 high bits of the values.

``u8 0`` if it is empty, else ``u8 1 | i64 keys | tree | containers``. A node of the tree comes before its children::

    u8 kind | u16 children | u8 prefix length | prefix     then of kind
    0 (at most 4), 1 (16)   the key bytes of the children in words of 4 and 8 bytes, the first one as the highest byte
    2 (48)                  an index for each key byte, 255 for none, in words of 8 bytes likewise
    3 (256)                 a bit for each key byte, the least significant first
    4 (a leaf)              the 6 bytes of the key, the highest first | i64 container: list << 32 | place

    containers              i32 lists | lists | i64 containers | i32 last list | i32 last place
    a list                  u8 254 | i32 places | places
    a place                 u8 0 if it is free, else u8 1 | u8 type | i32 cardinality | payload
    type and payload        0 runs, 1 bitset, 2 array, as in a portable bitmap

Integers are little-endian, but for the key of a leaf. Source: RoaringBitmap, packages ``art`` and ``longlong``.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import BadMagic, NotCanonical
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import gather
from dvcodec.core.roaring import BITSET_BYTES, ContainerKind
from dvcodec.core.rowset import RowSet
from dvcodec.dialects.base import Stored, Wrapper, views_of

_KEY_BYTES = 6
_CAPACITIES = (4, 16, 48, 256)
"""Children of a node of each kind."""
_BODY_BYTES = (4, 16, 256, 32)
_NODE_48, _NODE_256, _LEAF = 2, 3, 4
_NONE = 255
_MARK = 254
_MOST = 1 << 16
"""Values of a container."""
_KINDS = (ContainerKind.RUN, ContainerKind.BITSET, ContainerKind.ARRAY)
"""The kind of each of Java's types."""
_WINDOW = 1 << 16
"""Free places that are passed by at once."""


def _read(cursor: Cursor, limits: Limits) -> RowSet:
    flag = cursor.u8("flag")
    if flag > 1:
        raise cursor.error(BadMagic, "flag", at=0, expected="0 or 1", actual=flag)
    if not flag:
        return RowSet()
    at = cursor.pos
    stated = cursor.u64le("key count")
    keys: list[int] = []
    wanted: list[int] = []
    _read_node(cursor, b"", keys, wanted)
    if stated != len(keys):
        raise cursor.error(NotCanonical, "key count", at=at, expected=len(keys), actual=stated)
    at = cursor.pos
    found = _read_containers(cursor)
    if len(wanted) != len(found) or found.keys() != set(wanted):
        raise cursor.error(NotCanonical, "containers", at=at, expected="one for each key", actual=len(found))
    kinds, cards, starts, sizes = np.array([found[place] for place in wanted], np.int64).T
    payload = gather(np.frombuffer(cursor.view, np.uint8), starts, sizes)
    return Stored(np.array(keys, np.int64), cards, kinds, sizes, payload).load(cursor, limits)


def _read_node(cursor: Cursor, path: bytes, keys: list[int], places: list[int]) -> None:
    """Read a node, whose keys begin with `path`, and all below it; append the key and the container of each leaf."""
    at = cursor.pos
    kind = cursor.u8("kind of a node")
    count = int.from_bytes(cursor.take(2, "children of a node"), "little")
    prefix = bytes(cursor.take(cursor.u8("prefix length"), "prefix"))
    if kind == _LEAF:
        key = bytes(cursor.take(_KEY_BYTES, "key"))
        if count or prefix or not key.startswith(path):
            raise cursor.error(NotCanonical, "leaf", at=at, expected=f"a key with {path.hex()}", actual=key.hex())
        keys.append(int.from_bytes(key, "big"))
        places.append(cursor.u64le("container of a leaf"))
        return
    if kind > _LEAF:
        raise cursor.error(BadMagic, "kind of a node", at=at, expected="0 to 4", actual=kind)
    path += prefix
    if len(path) >= _KEY_BYTES:
        expected = f"at most {_KEY_BYTES - 1} bytes of the key"
        raise cursor.error(NotCanonical, "prefix of a node", at=at, expected=expected, actual=len(path))
    children = _read_children(cursor, kind, count)
    if not count or count != len(children) or (children[1:] <= children[:-1]).any():
        expected, actual = f"keys of {count} children, at least 1, ascending", children.tolist()
        raise cursor.error(NotCanonical, "children of a node", at=at, expected=expected, actual=actual)
    for child in children.tolist():
        _read_node(cursor, path + bytes([child]), keys, places)


def _read_children(cursor: Cursor, kind: int, count: int) -> NDArray[Any]:
    """Read the key bytes of a node's children."""
    at = cursor.pos
    body = np.frombuffer(cursor.take(_BODY_BYTES[kind], "keys of a node"), np.uint8)
    if kind == _NODE_256:
        return np.flatnonzero(np.unpackbits(body, bitorder="little"))
    listed = _swapped(body, 4 if kind == 0 else 8)
    if kind != _NODE_48:
        return listed[:count]
    children = np.flatnonzero(listed != _NONE)
    indexes = listed[children]
    if len(np.unique(indexes)) != len(indexes) or (indexes >= _CAPACITIES[kind]).any():
        raise cursor.error(NotCanonical, "indexes of a node", at=at, expected="each once, at most 47")
    return children


def _swapped(data: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Return bytes in the other order within each word."""
    return data.reshape(-1, width)[:, ::-1].reshape(-1)


def _read_containers(cursor: Cursor) -> dict[int, tuple[int, int, int, int]]:
    """Read the lists of containers: list << 32 | place -> kind, cardinality, start and size of the payload."""
    found = {}
    lists, size = cursor.u32le("lists"), 0
    for number in range(lists):
        at = cursor.pos
        mark = cursor.u8("mark")
        if mark != _MARK:
            raise cursor.error(BadMagic, "mark of a list", at=at, expected=_MARK, actual=mark)
        size = cursor.u32le("places")
        place = 0
        while place < size:
            at = cursor.pos
            used = cursor.u8("place")
            if used > 1:
                raise cursor.error(BadMagic, "place", at=at, expected="0 or 1", actual=used)
            if used:
                found[number << 32 | place] = _read_container(cursor)
                place += 1
            else:
                place += 1 + _skip_free(cursor, size - place - 1)
    at = cursor.pos
    stated, last_list, last_place = (
        cursor.u64le("container count"),
        cursor.u32le("last list"),
        cursor.u32le("last place"),
    )
    if (stated, last_list) != (len(found), lists - 1) or last_place >= size:
        expected = f"{len(found)} containers, list {lists - 1} of {size} places"
        actual = f"{stated}, {last_list} and {last_place}"
        raise cursor.error(NotCanonical, "end of the containers", at=at, expected=expected, actual=actual)
    return found


def _skip_free(cursor: Cursor, left: int) -> int:
    """Pass by free places, at most `left`; return how many."""
    window = np.frombuffer(cursor.view[cursor.pos : cursor.pos + min(left, cursor.remaining, _WINDOW)], np.uint8)
    used = first_true(window != 0)
    free = len(window) if used is None else used
    cursor.take(free, "free places")
    return free


def _read_container(cursor: Cursor) -> tuple[int, int, int, int]:
    """Read a container: kind, cardinality, start and size of its payload."""
    at = cursor.pos
    java_type, card = cursor.u8("type of a container"), cursor.u32le("cardinality")
    if java_type >= len(_KINDS):
        raise cursor.error(BadMagic, "type of a container", at=at, expected="0, 1 or 2", actual=java_type)
    if not 1 <= card <= _MOST:
        raise cursor.error(NotCanonical, "cardinality", at=at + 1, expected=f"1 to {_MOST}", actual=card)
    kind, start = _KINDS[java_type], cursor.pos
    if kind == ContainerKind.RUN:
        cursor.take(4 * int.from_bytes(cursor.take(2, "run count"), "little"), "runs")
    else:
        cursor.take(BITSET_BYTES if kind == ContainerKind.BITSET else 2 * card, "container")
    return kind, card, start, cursor.pos - start


def _write(rows: RowSet) -> bytes:
    """Encode the tree and the lists as they are after inserting the containers in ascending order."""
    keys, containers = [], []
    for high, view in views_of(rows):
        columns = (view.keys, view.kinds, view.cards, view.starts, view.sizes)
        for key, kind, card, start, size in zip(*(column.tolist() for column in columns), strict=True):
            keys.append((high << 16 | key).to_bytes(_KEY_BYTES, "big"))
            containers.append(struct.pack("<BBI", 1, _KINDS.index(kind), card) + view.data[start : start + size])
    if not keys:
        return b"\0"
    capacity = 1
    while capacity < len(keys):  # as Java's list grows
        capacity = max(capacity + (capacity >> 1), capacity + 1)
    out = [struct.pack("<BQ", 1, len(keys)), *_write_node(keys, 0, len(keys), 0)]
    out += [struct.pack("<IBI", 1, _MARK, capacity), *containers, bytes(capacity - len(keys))]
    return b"".join([*out, struct.pack("<QII", len(keys), 0, len(keys) - 1)])


def _write_node(keys: list[bytes], first: int, stop: int, depth: int) -> Iterator[bytes]:
    """Yield the node of some ascending keys, which have the same first `depth` bytes, and all below it."""
    if stop - first == 1:
        yield struct.pack("<BHB", _LEAF, 0, 0) + keys[first] + first.to_bytes(8, "little")
        return
    fork = depth
    while keys[first][fork] == keys[stop - 1][fork]:
        fork += 1
    groups = [(byte, len(list(group))) for byte, group in groupby(keys[first:stop], itemgetter(fork))]
    kind = bisect_left(_CAPACITIES, len(groups))
    yield struct.pack("<BHB", kind, len(groups), fork - depth) + keys[first][depth:fork]
    yield _children(kind, np.array([byte for byte, _ in groups])).tobytes()
    for _, count in groups:
        yield from _write_node(keys, first, first + count, fork + 1)
        first += count


def _children(kind: int, children: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the body of a node with children of these key bytes, inserted in ascending order."""
    if kind == _NODE_256:
        bits = np.zeros(256, np.uint8)
        bits[children] = 1
        return np.packbits(bits, bitorder="little")
    if kind == _NODE_48:
        indexes = np.full(256, _NONE, np.uint8)
        indexes[children] = np.arange(len(children))
        return _swapped(indexes, 8)
    listed = np.zeros(_CAPACITIES[kind], np.uint8)
    listed[: len(children)] = children
    return _swapped(listed, 4 if kind == 0 else 8)


ART = Wrapper(_read, _write)
"""The serialized map."""
