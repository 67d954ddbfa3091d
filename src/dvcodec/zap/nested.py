"""Nested documents, version 17: children and their parents.

Source: zapx ``write.go`` (``persistStoredFields``), ``segment.go`` (``loadNestedEdges``). Directly after the stored
index::

    uv edges | edges * (uv child | uv parent)

Every document that is not a root has one edge, to a parent with a lower number; zapx writes them in any order. A merge
that drops all documents writes no list; its stored index has address 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core import varints
from dvcodec.core.cursor import first_true
from dvcodec.core.errors import Truncated, UsageError
from dvcodec.core.ragged import Index
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import Footer

NESTED_FROM = 17
"""First version with nested documents."""


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The tree of nested documents.

    Attributes:
        children: int64[n], documents that are not roots, ascending.
        parents: int64[n], the parent of each.
    """

    children: Index
    parents: Index

    def __len__(self) -> int:
        return len(self.children)

    @classmethod
    def none(cls) -> Edges:
        """No nested documents."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))


def decode_edges(data: SegmentData, footer: Footer) -> Edges:
    """Read the edge list; versions before 17 have none.

    Raises:
        Truncated: the list extends beyond the footer.
        NotCanonical: a document that the segment does not have, a parent that is not numbered before its child, a
            document with two parents, or no root.
    """
    if footer.version < NESTED_FROM or not footer.stored_index:
        return Edges.none()
    start = footer.stored_index + 8 * footer.num_docs
    cursor = data.at(start, varints.MAX_BYTES, "number of edges")
    count = cursor.uvarint("number of edges")
    if not count:
        return Edges.none()
    if count >= footer.num_docs:
        raise data.error("number of edges", start, expected=f"below {footer.num_docs} documents", actual=count)
    at = start + cursor.pos
    room = data.end - at
    if 2 * count > room:
        raise data.error("edge list", at, Truncated, expected=f"{2 * count} varints", actual=f"{room} bytes")
    cursor = data.at(at, 2 * count * varints.MAX_BYTES, "edge list")
    numbers, _ = varints.read_runs(cursor, np.zeros(1, np.int64), np.array([2 * count]), "edge list")
    children, parents = numbers[::2], numbers[1::2]

    def check(wrong: NDArray[np.bool_], what: str, expected: object, actual: NDArray[np.uint64]) -> None:
        if (i := first_true(wrong)) is not None:
            raise data.error(what, at, expected=expected, actual=actual[i])

    check(children >= footer.num_docs, "nested document", f"below {footer.num_docs}", children)
    check(parents >= children, "parent of a nested document", "a document before its child", parents)
    order = np.argsort(children, kind="stable")
    edges = Edges(children[order].astype(np.int64), parents[order].astype(np.int64))
    twice = edges.children[1:] == edges.children[:-1]
    check(twice, "nested document", "one parent of each", children[order])
    return edges


def encode_edges(edges: Edges) -> bytes:
    """Encode the edge list, by child.

    Raises:
        UsageError: a parent that is not numbered before its child, or a document with two parents.
    """
    order = np.argsort(edges.children, kind="stable")
    children, parents = edges.children[order], edges.parents[order]
    if len(edges) and (
        bool((parents >= children).any()) or bool((parents < 0).any()) or bool((children[1:] == children[:-1]).any())
    ):
        raise UsageError("nested documents: each needs one parent, numbered before it")
    numbers, _ = varints.encode(np.stack([children, parents], axis=1).ravel())
    return varints.uvarints(len(edges)) + numbers.tobytes()
