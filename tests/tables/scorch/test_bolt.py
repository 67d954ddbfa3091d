"""bbolt files: those by bleve, and crafted ones with everything that a tree can have, and cannot."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import (
    BadMagic,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    Unsupported,
)
from dvcodec.io import open_source
from dvcodec.tables.scorch.bolt import Bucket, Meta, Value, read_bolt
from samples.bolt import Bolt, Inline, meta, plain


def read(data: bytes, **limits: int) -> tuple[Meta, Bucket]:
    with open_source(data) as source:
        return read_bolt(source, limits=Limits(**limits))


def values(bucket: Bucket) -> list[Value]:
    return [
        value
        for entry in bucket.entries.values()
        for value in (values(entry) if isinstance(entry, Bucket) else [entry])
    ]


DEEP: dict[bytes, Any] = {
    b"a": b"1",
    b"b": Inline({b"x": b"2", b"y": b""}),
    b"c": {b"d": {b"e": {b"f": b"3"}, b"g": Inline()}, b"h": b"\0" * 5000},
    b"empty": {},
}
"""Inline and other buckets, empty ones, a value over several pages."""


KEYS = st.binary(min_size=1, max_size=6)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(KEYS, st.binary(max_size=40), max_size=5).map(Inline),
    lambda inner: st.dictionaries(KEYS, inner | st.binary(max_size=1500), max_size=8),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, TREES | st.binary(max_size=40), max_size=6), st.integers(1, 5))
def test_any_tree(tree: dict[bytes, Any], per_page: int) -> None:
    data = Bolt(tree, per_page=per_page).data()
    _, root = read(data)
    assert plain(root) == tree
    for value in values(root):
        assert data[value.offset : value.offset + len(value.data)] == value.data


# ---------------------------------------------------------------------- meta pages


def test_the_later_transaction_counts() -> None:
    file = Bolt({b"k": b"v"})
    other = Bolt({b"k": b"w"})
    data = bytearray(file.data())
    size = file.page_size
    # The page of the other tree goes behind, and the second meta page leads there.
    page = other.pages[other.root]
    page[:8] = struct.pack("<Q", file.next)
    data += page.ljust(size, b"\0")
    head = meta(1, size, file.next, file.next + 1, 8)
    data[size : size + len(head)] = head
    found, root = read(bytes(data))
    assert (found.transaction, plain(root)) == (8, {b"k": b"w"})
    data[size + 40] ^= 1  # now it is damaged, and the one before it counts
    found, root = read(bytes(data))
    assert (found.transaction, plain(root)) == (7, {b"k": b"v"})


def both(page_size: int = 1024, **other: int) -> bytes:
    data = bytearray(Bolt({b"k": b"v"}).data())
    for number in (0, 1):
        head = meta(number, page_size, 3, 4, 5, **other)
        data[1024 * number : 1024 * number + len(head)] = head
    return bytes(data)


@each(
    ("other", "error", "text"),
    [
        ({"magic": 0xED0CDAEE}, BadMagic, "magic of the meta page: expected ed0cdaed, found ed0cdaee"),
        ({"magic": 0xEDDA0CED}, Unsupported, "byte order: expected little-endian, found big-endian"),
        ({"version": 3}, Unsupported, "version: expected 2, found 3"),
        ({"checksum": 0}, ChecksumMismatch, "FNV-1a of the meta page: expected 0000000000000000"),
        ({"page_size": 1000}, NotCanonical, "page size: expected a power of two, 1024 to 16777216, found 1000"),
        ({"kind": 2}, NotCanonical, "meta page: expected page 0 or 1, kind 4"),
        ({"own": 2}, NotCanonical, "meta page: expected page 0 or 1, kind 4, found page 2"),
    ],
)
def test_meta_pages_that_are_refused(other: dict[str, int], error: type[DecodeError], text: str) -> None:
    assert plain(read(both())[1]) == {b"k": b"v"}
    with pytest.raises(error, match=text):
        read(both(**other))


def test_the_limit() -> None:
    data = Bolt({}).data()
    assert read(data, max_metadata_bytes=len(data))
    with pytest.raises(LimitExceeded, match="max_metadata_bytes"):
        read(data, max_metadata_bytes=len(data) - 1)


# ---------------------------------------------------------------------- pages


def put(file: Bolt, page: int, offset: int, form: str, *numbers: int) -> bytes:
    struct.pack_into(form, file.pages[page], offset, *numbers)
    return file.data()


def two() -> Bolt:
    """A branch (page 5) over two leaves (3 and 4)."""
    return Bolt(dict.fromkeys((b"a", b"b", b"c"), b"v"), per_page=2)


@each(
    ("page", "offset", "form", "numbers", "text"),
    [
        (3, 0, "<Q", (4,), "number of the page: expected 3, found 4"),
        (3, 8, "<H", (4,), r"kind of the page: expected 1 \(branch\) or 2 \(leaf\), found 4"),
        (3, 10, "<H", (0,), "elements of a page: expected one or more, found 0"),
        (5, 10, "<H", (0,), "elements of a page: expected one or more, found 0"),
        (3, 10, "<H", (64,), "elements of a page: expected at most 63, found 64"),
        (5, 12, "<I", (1,), "further pages: expected below 1, found 1"),
        (3, 12, "<I", (1,), "page: expected once in the tree, found page 4 again"),
        (3, 16, "<I", (2,), "flags of an element: expected 0 or 1, found 2"),
        (3, 16, "<I", (1,), "header of a bucket: expected 16 bytes, found 1"),
        (3, 20, "<I", (33,), "place of an element"),
        (3, 24, "<I", (0,), "size of a key: expected one byte or more, found 0"),
        (3, 28, "<I", (2**32 - 1,), "size of an element: expected at most 976 bytes"),
        (3, 48, "<c", (b"c",), "key in a leaf: expected from 61 on, below 63, found 63"),
        (3, 50, "<c", (b"a",), "key: expected above 61, found 61"),
        (4, 32, "<c", (b"b",), "key in a leaf: expected from 63 on, found 62"),
        (5, 24, "<Q", (4,), "key in a leaf: expected from 61 on, below 63, found 63"),
        (5, 20, "<I", (0,), "size of a key"),
        (5, 16, "<I", (31,), "place of an element"),
        (5, 49, "<c", (b"a",), "key of a branch: expected above 61, found 61"),
    ],
)
def test_pages_that_are_refused(page: int, offset: int, form: str, numbers: tuple[Any, ...], text: str) -> None:
    with pytest.raises(NotCanonical, match=text):
        read(put(two(), page, offset, form, *numbers))


def test_a_file_that_was_cut() -> None:
    data = Bolt(DEEP).data()
    for size in range(0, len(data), 97):
        with pytest.raises(DecodeError):
            read(data[:size])


def nested() -> Bolt:
    """A bucket (page 3) in the root (page 4), and an inline one."""
    return Bolt({b"b": {b"x": b"1"}, b"i": Inline({b"y": b"2"})})


@each(
    ("offset", "form", "numbers", "text"),
    [
        (49, "<Q", (0,), "inline bucket: expected a page header of 16 bytes, found 0 bytes"),
        (49, "<Q", (4,), "page: expected once in the tree, found page 4 again"),
        (66, "<Q", (3,), "header of a bucket: expected 16 bytes"),
        (82, "<Q", (1,), "inline bucket: expected page 0, kind 2, no further pages, found page 1"),
        (92, "<H", (2,), "elements of a page: expected at most 1, found 2"),
        (98, "<I", (1,), "element of an inline bucket: expected a value, found a bucket"),
        (110, "<I", (2,), "size of an element: expected at most 2 bytes, found 3"),
    ],
)
def test_buckets_that_are_refused(offset: int, form: str, numbers: tuple[int, ...], text: str) -> None:
    file = nested()
    assert (file.root, plain(read(file.data())[1])) == (4, {b"b": {b"x": b"1"}, b"i": {b"y": b"2"}})
    with pytest.raises(NotCanonical, match=text):
        read(put(file, 4, offset, form, *numbers))


@each(
    ("kind", "element"),
    [
        (2, lambda child: struct.pack("<IIII", 1, 16, 1, 16) + b"k" + struct.pack("<QQ", child, 0)),
        (1, lambda child: struct.pack("<IIQ", 16, 1, child) + b"k"),
    ],
    ["leaves", "branches"],
)
def test_trees_of_any_depth_end(kind: int, element: Callable[[int], bytes]) -> None:
    tree: dict[bytes, Any] = {b"k": b"v"}
    for _ in range(62):
        tree = {b"k": tree}
    assert read(Bolt(tree).data())
    file = Bolt({})
    for number in range(3, 3000):
        file.pages[number] = bytearray(struct.pack("<QHHI", number, kind, 1, 0) + element(number + 1))
    file.root, file.next = 3, 3000
    with pytest.raises(NotCanonical, match="height of the tree: expected at most 64 pages"):
        read(file.data())
