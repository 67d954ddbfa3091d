"""The edge list of nested documents."""

from __future__ import annotations

import pytest

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.zap.stored import Edges, decode_edges
from samples.zap.parts import footer, segment
from samples.zap.segments import uv

INDEX = 5
"""Address of the stored index of the crafted segments."""
TOP = 2**64 - 1


def decode(listed: bytes, num_docs: int, tail: bytes = b"") -> Edges:
    raw = bytes(INDEX + 8 * num_docs) + listed + tail
    return decode_edges(segment(raw), footer(17, num_docs, INDEX))


@each(
    ("listed", "kind", "what"),
    [
        (b"", Truncated, "number of edges"),
        (b"\x80" * 10 + b"\x01", NotCanonical, "number of edges"),
        (uv(4), NotCanonical, "number of edges"),
        (uv(1), Truncated, "edge list"),
        (uv(2, 1, 0, 2), Truncated, "edge list"),
        (uv(1, 1) + b"\xff" * 9 + b"\x02", NotCanonical, "edge list"),
        (uv(1, 4, 0), NotCanonical, "nested document"),
        (uv(1, 2, 2), NotCanonical, "parent of a nested document"),
        (uv(1, 2, TOP), NotCanonical, "parent of a nested document"),
        (uv(2, 2, 1, 2, 0), NotCanonical, "nested document"),
    ],
)
def test_refused(listed: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        decode(listed, 4)
    assert (caught.value.offset or 0) >= INDEX + 8 * 4
