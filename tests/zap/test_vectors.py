"""Vector sections, laid out by hand: no released file has one without faiss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.zap.sections import OPTIMIZATIONS, VectorSection, decode_vectors
from samples.zap.parts import footer, plain, segment
from samples.zap.segments import NOT, uv

N = 1000
"""Documents of the segment."""
FRONT = b"\x05" * 7
TOP = 2**64 - 1


def zig_zag(value: int) -> int:
    return (value << 1 ^ value >> 63) & TOP


def lay16(optimization: int, pairs: list[tuple[int, int]], faiss: bytes) -> bytes:
    body = b"".join(uv(zig_zag(number), doc) for number, doc in pairs)
    return uv(NOT, NOT, optimization, len(pairs)) + body + uv(len(faiss)) + faiss


def lay17(
    optimization: int, docs: list[int], faiss: bytes, binary: bytes | None = None, size: int | None = None
) -> bytes:
    body = uv(*docs)
    kind = 0 if binary is None else 1
    raw = uv(NOT, NOT, optimization, len(docs), len(body) if size is None else size) + body
    raw += uv(kind, len(faiss)) + faiss
    return raw if binary is None else raw + uv(len(binary)) + binary


def decode(raw: bytes, version: int = 17) -> VectorSection:
    return decode_vectors(segment(FRONT + raw), footer(version, N), len(FRONT))


docs = st.lists(st.integers(0, N - 1), max_size=20)
blobs = st.one_of(st.binary(max_size=5), st.binary(min_size=200, max_size=300))


@given(
    st.integers(0, len(OPTIMIZATIONS) - 1),
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, N - 1)), max_size=9),
    blobs,
    st.binary(max_size=3),
)
def test_version_16(optimization: int, pairs: list[tuple[int, int]], faiss: bytes, tail: bytes) -> None:
    found = decode(lay16(optimization, pairs, faiss) + tail, 16)
    expected = VectorSection(
        optimization,
        np.array([pair[0] for pair in pairs], np.int64),
        np.array([pair[1] for pair in pairs], np.int64),
        0,
        memoryview(faiss),
    )
    assert plain(found) == plain(expected)
    assert len(found) == len(pairs)


@given(st.integers(0, len(OPTIMIZATIONS) - 1), docs, blobs, st.none() | blobs, st.booleans(), st.binary(max_size=3))
def test_version_17(
    optimization: int, numbers: list[int], faiss: bytes, binary: bytes | None, unsized: bool, tail: bytes
) -> None:
    """zapx v17.0.0 to v17.0.8 wrote 0 for the bytes of the documents."""
    found = decode(lay17(optimization, numbers, faiss, binary, 0 if unsized else None) + tail)
    expected = VectorSection(
        optimization,
        None,
        np.array(numbers, np.int64),
        0 if binary is None else 1,
        memoryview(faiss),
        None if binary is None else memoryview(binary),
    )
    assert plain(found) == plain(expected)


@each(
    ("raw", "version", "kind", "what"),
    [
        (b"", 17, Truncated, "vector section"),
        (uv(NOT, 3), 17, NotCanonical, "start of a vector section"),
        (uv(NOT, NOT, 6, 0, 0, 0, 0), 17, NotCanonical, "optimization"),
        (uv(NOT, NOT, 0, 1, 1), 17, Truncated, "documents of vectors"),
        (uv(NOT, NOT, 0, TOP, 0, 0, 0), 17, Truncated, "documents of vectors"),
        (uv(NOT, NOT, 0, 2**63, 0, 0, 0), 16, Truncated, "documents of vectors"),
        (uv(NOT, NOT, 0, 2, 2, 5) + b"\x80", 17, Truncated, "documents of vectors"),
        (uv(NOT, NOT, 0, 1, 2, N, 0, 0), 17, NotCanonical, "document of a vector"),
        (uv(NOT, NOT, 0, 1, 7, N, N), 16, NotCanonical, "document of a vector"),
        (uv(NOT, NOT, 0, 2, 3, 1, 2, 0, 0), 17, NotCanonical, "bytes of the vectors' documents"),
        (uv(NOT, NOT, 0, 1, 1, 1), 17, Truncated, "vector section"),
        (uv(NOT, NOT, 0, 1, 1, 1, 2, 0), 17, NotCanonical, "type of a vector index"),
        (uv(NOT, NOT, 0, 1, 1, 1, 0, 3) + b"ab", 17, Truncated, "faiss index"),
        (uv(NOT, NOT, 0, 1, 1, 1, 1, 2) + b"ab", 17, Truncated, "size of a faiss binary index"),
        (uv(NOT, NOT, 0, 1, 1, 1, 1, 2) + b"ab" + uv(9), 17, Truncated, "faiss binary index"),
        (uv(NOT, NOT, 0, 1, 4, 5), 16, Truncated, "vector section"),
    ],
)
def test_refused(raw: bytes, version: int, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        decode(raw, version)
    assert (caught.value.offset or 0) >= len(FRONT)
