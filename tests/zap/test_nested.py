"""The edge list of nested documents."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.zap.stored import Edges, decode_edges, encode_edges
from samples.zap.parts import footer, plain, segment
from samples.zap.segments import uv

INDEX = 5
"""Address of the stored index of the crafted segments."""
TOP = 2**64 - 1


def edges_of(pairs: list[tuple[int, int]]) -> Edges:
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return Edges(rows[:, 0], rows[:, 1])


def decode(listed: bytes, num_docs: int, tail: bytes = b"") -> Edges:
    raw = bytes(INDEX + 8 * num_docs) + listed + tail
    return decode_edges(segment(raw), footer(17, num_docs, INDEX))


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Any parent in front of the child, in any order."""
    children = draw(st.sets(st.integers(1, 300), max_size=20))
    return draw(st.permutations([(child, draw(st.integers(0, child - 1))) for child in sorted(children)]))


@given(trees(), st.binary(max_size=3))
def test_both_ways(pairs: list[tuple[int, int]], tail: bytes) -> None:
    listed = uv(len(pairs)) + b"".join(uv(*pair) for pair in pairs)
    found = decode(listed, 301, tail)
    assert plain(found) == plain(edges_of(sorted(pairs)))
    assert encode_edges(edges_of(pairs)) == uv(len(pairs)) + b"".join(uv(*pair) for pair in sorted(pairs))
    assert plain(decode(encode_edges(found), 301)) == plain(found)


@each(
    ("listed", "kind", "what"),
    [
        (b"", Truncated, "number of edges"),
        (b"\x80" * 10 + b"\x01", NotCanonical, "number of edges"),
        (uv(4), NotCanonical, "number of edges"),
        (uv(TOP), NotCanonical, "number of edges"),
        (uv(1), Truncated, "edge list"),
        (uv(2, 1, 0, 2), Truncated, "edge list"),
        (uv(1, 1) + b"\xff" * 9 + b"\x02", NotCanonical, "edge list"),
        (uv(1, 4, 0), NotCanonical, "nested document"),
        (uv(1, TOP, 0), NotCanonical, "nested document"),
        (uv(1, 2, 2), NotCanonical, "parent of a nested document"),
        (uv(1, 2, 3), NotCanonical, "parent of a nested document"),
        (uv(1, 2, TOP), NotCanonical, "parent of a nested document"),
        (uv(2, 2, 1, 2, 0), NotCanonical, "nested document"),
    ],
)
def test_refused(listed: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        decode(listed, 4)
    assert (caught.value.offset or 0) >= INDEX + 8 * 4
