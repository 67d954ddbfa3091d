"""Vector sections, versions 16 and 17: the document of each vector, and faiss indexes, which are not decoded.

Source: zapx ``section_faiss_vector_index.go``, built with the tag ``vectors``::

    v16  uv NOT | uv NOT | uv optimization | uv n | n * (zz id | uv document)      | uv size | faiss index
    v17  uv NOT | uv NOT | uv optimization | uv n | uv bytes | n * uv document     | uv type | uv size | faiss index
                                                                     [type 1: uv size | faiss binary index]

``zz`` is a zig-zag varint. In version 16 the ids in the faiss index are hashes of the vectors; in version 17 they are
0 to n - 1. zapx v17.0.0 to v17.0.8 wrote 0 for the bytes of the documents.

zapx v16.0.0 to v16.0.5 wrote other layouts with the same version number, which cannot be distinguished. Their faiss
bytes are read as vector ids, which almost certainly raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.zap.footer import Footer, SegmentData

OPTIMIZATIONS = ("recall", "latency", "memory-efficient", "bivf-flat", "bivf-sq8", "ivf,rabitq")
"""Meaning of the number in a section."""
FLOAT, BINARY = range(2)
"""Types of indexes."""
_IMPLICIT_IDS_FROM = 17
_ROOM = 5 * varints.MAX_BYTES


@dataclass(frozen=True, slots=True, eq=False)
class VectorSection:
    """The vectors of one field.

    Attributes:
        optimization: goal of the index, an index of `OPTIMIZATIONS`.
        ids: int64[n], id of each vector in the faiss index; None for 0 to n - 1 (version 17).
        docs: int64[n], document of each vector; repeated for a document with several.
        index_type: 0 for a float index; 1 for a float and a binary index (version 17).
        faiss: the serialized float index.
        binary: the serialized binary index; None without one.
    """

    optimization: int
    ids: NDArray[np.int64] | None
    docs: NDArray[np.int64]
    index_type: int
    faiss: memoryview = field(repr=False)
    binary: memoryview | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.docs)


def decode_vectors(data: SegmentData, footer: Footer, address: int) -> VectorSection:
    """Read the vector section at an address.

    Not checked: the faiss indexes, and whether vector ids are distinct.

    Raises:
        Truncated: a length extends beyond the footer.
        NotCanonical: another layout, a document that the segment does not have, or vectors of another section.
    """
    cursor = data.section(address, _ROOM, "vector section")
    what = "optimization of a vector index"
    at, optimization = cursor.pos, cursor.uvarint(what)
    if optimization >= len(OPTIMIZATIONS):
        raise cursor.error(NotCanonical, what, at=at, expected=f"below {len(OPTIMIZATIONS)}", actual=optimization)
    count = cursor.uvarint("number of vectors")
    ids, kind = None, FLOAT
    if footer.version >= _IMPLICIT_IDS_FROM:
        docs, cursor = _read_docs(data, footer, cursor, address, count)
        at, kind = cursor.pos, cursor.uvarint("type of a vector index")
        if kind not in {FLOAT, BINARY}:
            raise cursor.error(NotCanonical, "type of a vector index", at=at, expected="0 or 1", actual=kind)
    else:
        numbers, at, cursor = _read_numbers(data, cursor, address, count, 2)
        docs = _check_docs(data, footer, numbers[1::2], at)
        halves = (numbers[::2] >> np.uint64(1)).astype(np.int64)
        ids = np.where(numbers[::2] & np.uint64(1), ~halves, halves)
    faiss, cursor = _read_index(data, cursor, "faiss index")
    binary = _read_index(data, cursor, "faiss binary index")[0] if kind == BINARY else None
    return VectorSection(optimization, ids, docs, kind, faiss, binary)


def _read_docs(
    data: SegmentData, footer: Footer, cursor: Cursor, address: int, count: int
) -> tuple[NDArray[np.int64], Cursor]:
    size = cursor.uvarint("bytes of the vectors' documents")
    numbers, at, behind = _read_numbers(data, cursor, address, count, 1)
    found = behind.base - at
    if size and size != found:
        raise data.error("bytes of the vectors' documents", at, expected=f"{count} varints, {found} bytes", actual=size)
    return _check_docs(data, footer, numbers, at), behind


def _read_numbers(
    data: SegmentData, cursor: Cursor, address: int, count: int, each: int
) -> tuple[NDArray[np.uint64], int, Cursor]:
    """Read `each` varints per vector of a section; return them, their address, and a cursor after them."""
    at = cursor.base + cursor.pos
    if each * count > data.end - at:
        expected, actual = f"{each * count} varints", f"{data.end - at} bytes"
        raise data.error("documents of vectors", at, Truncated, expected=expected, actual=actual)
    data.claim_span("vector sections", address, at + each * count)  # before the numbers are read: each takes a byte
    window = data.window(at, min(at + each * count * varints.MAX_BYTES, data.end), "documents of vectors")
    counts = np.array([each * count])
    numbers, stops = varints.read_runs(window, np.zeros(1, np.int64), counts, "documents of vectors")
    return numbers, at, data.at(at + int(stops[0]), _ROOM, "vector section")


def _check_docs(data: SegmentData, footer: Footer, docs: NDArray[np.uint64], at: int) -> NDArray[np.int64]:
    if (i := first_true(docs >= footer.num_docs)) is not None:
        raise data.error("document of a vector", at, expected=f"below {footer.num_docs}", actual=docs[i])
    return docs.astype(np.int64)


def _read_index(data: SegmentData, cursor: Cursor, what: str) -> tuple[memoryview, Cursor]:
    """Read the size of an index and the index; return it and a cursor after it."""
    size = cursor.uvarint(f"size of a {what}")
    at = cursor.base + cursor.pos
    index = data.window(at, at + size, what).view
    rest = at + size
    return index, data.window(rest, min(rest + _ROOM, data.end), "vector section")
