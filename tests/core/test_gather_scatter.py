"""Numbers at many places: the same as one by one."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dvcodec.core.ragged import put_words, u16, u32, words_at

SIZE = 200
places = st.lists(st.integers(0, SIZE - 4), max_size=20).map(lambda at: np.array(at, np.int64))
buffers = st.binary(min_size=SIZE, max_size=SIZE)


@given(buffers, places)
def test_values_are_read_at_any_byte(data: bytes, at: NDArray[np.int64]) -> None:
    raw = np.frombuffer(data, np.uint8)
    assert u16(raw, at).tolist() == [struct.unpack_from("<H", data, i)[0] for i in at.tolist()]
    assert u32(raw, at).tolist() == [struct.unpack_from("<I", data, i)[0] for i in at.tolist()]
    assert u16(raw, at).dtype == u32(raw, at).dtype == np.int64


@given(
    buffers, st.integers(0, 3), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), max_size=8), st.booleans()
)
def test_runs_of_words_are_copied_and_written_back(
    data: bytes, start: int, runs: list[tuple[int, int]], even: bool
) -> None:
    starts, counts, at = [], [], start * (2 if even else 1)
    for gap, count in runs:
        at += gap * (2 if even else 1)
        starts.append(at)
        counts.append(count)
        at += 2 * count
    data += bytes(at)
    raw, first, many = np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(counts, np.int64)
    words = words_at(raw, first, many)
    pieces = [data[i : i + 2 * n] for i, n in zip(starts, counts, strict=True)]
    assert words.astype("<u2").tobytes() == b"".join(pieces)
    out = np.zeros(len(data), np.uint8)
    put_words(out, first, many, words)
    assert [out[i : i + 2 * n].tobytes() for i, n in zip(starts, counts, strict=True)] == pieces
    assert int(out.sum()) == sum(map(sum, pieces))
