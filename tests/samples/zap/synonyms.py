"""Thesauri for the tests: as dictionaries, and a slow writer."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
from pyroaring import BitMap

from dvcodec import Limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.sections import Thesaurus, decode_thesaurus
from dvcodec.zap.vellum import build
from samples.zap.parts import footer, segment
from samples.zap.segments import NOT, uv

FRONT = b"\x03" * 9
TOP = 2**64 - 1
Book = dict[bytes, dict[int, list[int]]]
"""Term -> synonym id -> documents."""
Names = dict[int, bytes]


def thesaurus_of(book: Book, names: Names) -> Thesaurus:
    members = [
        (number, doc) for term in sorted(book) for number in sorted(book[term]) for doc in sorted(book[term][number])
    ]
    return Thesaurus(
        ByteStrings.from_list(sorted(book)),
        np.array([sum(map(len, book[term].values())) for term in sorted(book)], np.int64),
        np.array([member[0] for member in members], np.int64),
        np.array([member[1] for member in members], np.int64),
        np.array(sorted(names), np.int64),
        ByteStrings.from_list([names[number] for number in sorted(names)]),
    )


def arrays(docs: list[int]) -> bytes:
    """A bitmap of array containers."""
    blocks = sorted({doc >> 16 for doc in docs})
    head, body = struct.pack("<II", 12346, len(blocks)), b""
    offsets = b""
    for block in blocks:
        values = sorted(doc & 0xFFFF for doc in docs if doc >> 16 == block)
        head += struct.pack("<HH", block, len(values) - 1)
        offsets += struct.pack("<I", 8 + 8 * len(blocks) + len(body))
        body += struct.pack(f"<{len(values)}H", *values)
    return head + offsets + body


def roaring64(lists: dict[int, list[int]], bitmap: Callable[[list[int]], bytes] = arrays) -> bytes:
    return struct.pack("<Q", len(lists)) + b"".join(
        struct.pack("<I", number) + bitmap(lists[number]) for number in sorted(lists)
    )


def lay(
    version: int,
    lists: dict[bytes, bytes],
    names: bytes,
    base: int = len(FRONT),
    addresses: dict[bytes, int] | None = None,
) -> tuple[bytes, int]:
    """Lists, terms, names and section; and where the section is."""
    out, found = b"", {}
    for term in sorted(lists):
        found[term] = base + len(out)
        out += uv(len(lists[term])) + lists[term]
    found |= addresses or {}
    terms = build(sorted(found), np.array([found[term] for term in sorted(found)], np.uint64))
    address = base + len(out)
    out += uv(len(terms)) + terms + names
    return out + uv(NOT, NOT, address), base + len(out)


def names_of(version: int, names: Names, size: int | None = None) -> bytes:
    body = b"".join(uv(number, len(name)) + name for number, name in names.items())
    if version == 16:
        return uv(len(names)) + body if names else b""
    return uv(len(names), len(body) if size is None else size) + body


def write(version: int, book: Book, names: Names) -> tuple[bytes, int]:
    return lay(version, {term: roaring64(book[term]) for term in book}, names_of(version, names))


def decode(raw: bytes, at: int, version: int = 17, num_docs: int = 200_000, limits: Limits | None = None) -> Thesaurus:
    return decode_thesaurus(segment(FRONT + raw), footer(version, num_docs), at, limits=limits or Limits())


def optimized(docs: list[int]) -> bytes:
    bitmap = BitMap(docs)
    bitmap.run_optimize()
    return bitmap.serialize()


ONE = roaring64({1: [0]})
NAMES = names_of(17, {1: b"s"})


def bucket(number: int, body: bytes) -> bytes:
    return struct.pack("<I", number) + body


BOOK: Book = {
    b"big": {0: [0], 1: [0], 130: [1, 300]},
    b"bigger": {1: [2], 2: [2]},
    b"small": {130: list(range(5))},
    b"": {7: [3]},
}
BOOK_NAMES = {0: b"large", 1: b"huge", 2: "größer".encode(), 7: b"", 130: b"vast"}
