"""A writer of bbolt files as far as tests need it; it shares nothing with the reader."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

LEAF, BRANCH = 2, 1
Entries: TypeAlias = "dict[bytes, bytes | Entries | Inline]"


class Inline(dict[bytes, Any]):
    """A bucket whose page is in its value."""


def fnv(data: bytes) -> int:
    value = 14695981039346656037
    for byte in data:
        value = ((value ^ byte) * 1099511628211) % 2**64
    return value


def meta(number: int, page_size: int, root: int, pages: int, transaction: int, **other: int) -> bytes:
    """A meta page's beginning; `magic`, `version`, `checksum`, `kind` and `own` can be others than they should."""
    body = struct.pack(
        "<IIIIQQQQQ",
        other.get("magic", 0xED0CDAED),
        other.get("version", 2),
        page_size,
        0,
        root,
        0,
        2,
        pages,
        transaction,
    )
    header = struct.pack("<QHHI", other.get("own", number), other.get("kind", 4), 0, 0)
    return header + body + struct.pack("<Q", other.get("checksum", fnv(body)))


class Bolt:
    """A file of nested buckets; `per_page` elements go into a page.

    Attributes:
        pages: bytes of each page that was written, by its number; damage them, and call `data` again.
    """

    def __init__(self, root: Entries, *, page_size: int = 1024, per_page: int = 100) -> None:
        self.page_size = page_size
        self.per_page = per_page
        self.next = 3
        self.pages: dict[int, bytearray] = {2: bytearray(struct.pack("<QHHI", 2, 0x10, 0, 0))}
        self.root = self._bucket(root)

    def data(self, *, transaction: int = 7) -> bytes:
        size = self.page_size
        out = bytearray(size * self.next)
        for number, page in self.pages.items():
            out[number * size : number * size + len(page)] = page
        for number, when in ((0, transaction), (1, transaction - 1)):
            head = meta(number, size, self.root, self.next, when)
            out[number * size : number * size + len(head)] = head
        return bytes(out)

    def _bucket(self, entries: Entries) -> int:
        items = sorted(entries.items())
        groups = [items[at : at + self.per_page] for at in range(0, len(items), self.per_page)] or [[]]
        level = [(group[0][0] if group else b"", self._page(LEAF, len(group), self._leaf(group))) for group in groups]
        while len(level) > 1:
            wide = max(2, self.per_page)
            groups_of = [level[at : at + wide] for at in range(0, len(level), wide)]
            level = [(group[0][0], self._page(BRANCH, len(group), self._branch(group))) for group in groups_of]
        return level[0][1]

    def _page(self, kind: int, count: int, body: bytes) -> int:
        number = self.next
        further = (16 + len(body) - 1) // self.page_size
        self.next += 1 + further
        self.pages[number] = bytearray(struct.pack("<QHHI", number, kind, count, further) + body)
        return number

    def _leaf(self, items: list[tuple[bytes, Any]]) -> bytes:
        table, rest = b"", b""
        for i, (key, value) in enumerate(items):
            data = value
            if isinstance(value, Inline):
                body = self._leaf(sorted(value.items()))
                data = struct.pack("<QQ", 0, 0) + struct.pack("<QHHI", 0, LEAF, len(value), 0) + body
            elif isinstance(value, dict):
                data = struct.pack("<QQ", self._bucket(value), 0)
            position = 16 * (len(items) - i) + len(rest)
            table += struct.pack("<IIII", int(isinstance(value, dict)), position, len(key), len(data))
            rest += key + data
        return table + rest

    def _branch(self, children: list[tuple[bytes, int]]) -> bytes:
        table, rest = b"", b""
        for i, (key, child) in enumerate(children):
            table += struct.pack("<IIQ", 16 * (len(children) - i) + len(rest), len(key), child)
            rest += key
        return table + rest


def plain(bucket: Any) -> dict[bytes, Any]:
    """A read bucket as nested dictionaries."""
    return {
        key: plain(entry) if hasattr(entry, "entries") else bytes(entry.data) for key, entry in bucket.entries.items()
    }


def scorch_root(deleted: bytes, *, page_size: int = 1024) -> bytes:
    """root.bolt of a scorch index: a snapshot of one segment of version 15, and its deleted rows as a bitmap."""
    meta = Inline({b"timeStamp": b"2026-01-02T03:04:05.678Z", b"type": b"zap", b"version": b"\0\0\0\x0f\0"})
    segment = Inline({b"p": b"000000000001.zap", b"d": deleted})
    return Bolt({b"s": {b"\x89": {b"i": Inline(), b"m": meta, b"\x89": segment}}}, page_size=page_size).data()
