"""Windows of a segment: nothing behind the footer's first byte can be read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import NotCanonical
from dvcodec.core.errors import Truncated
from dvcodec.zap.footer import SegmentData
from samples.zap.parts import segment

RAW = bytes(range(20))
END = 16


@pytest.fixture
def data() -> SegmentData:
    """16 bytes, and a footer of 4."""
    return SegmentData(segment(RAW).source, END)


def test_one_window_around_many_places(data: SegmentData) -> None:
    cursor = data.around(np.array([9, 4, 6]), 3, "x")
    assert (cursor.base, bytes(cursor.view)) == (4, RAW[4:12])
    cursor = data.around(np.array([4, 14]), np.array([1, 100]), "x")
    assert (cursor.base, bytes(cursor.view)) == (4, RAW[4:16])
    assert data.around(np.zeros(0, np.int64), 3, "x").end == 0
    for outside in ([-1, 3], [3, 16], [2**62]):
        with pytest.raises(Truncated):
            data.around(np.array(outside), 3, "x")


spans = st.lists(st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted), max_size=5)


@given(spans)
def test_pieces_are_joined_and_know_where_they_come_from(spec: list[list[int]]) -> None:
    starts = np.array([start for start, _ in spec], np.int64)
    sizes = np.array([stop - start for start, stop in spec], np.int64)
    data = SegmentData(segment(RAW).source, END)
    if sizes.sum() > END:
        with pytest.raises(NotCanonical, match="things overlap"):
            data.pieces(starts, sizes, "things")
        return
    found = data.pieces(starts, sizes, "things")
    assert bytes(found.view) == b"".join(RAW[start:stop] for start, stop in spec)
    at = 0
    for start, stop in spec:
        for place in range(start, stop):
            assert found.error(NotCanonical, "x", at=at).offset == place
            at += 1
    assert at == found.end


@pytest.mark.parametrize(("start", "size"), [(16, 1), (0, 17), (-1, 1), (10, 7), (17, 0), (2**62, 1), (0, 2**62)])
def test_pieces_outside_are_refused(data: SegmentData, start: int, size: int) -> None:
    with pytest.raises(Truncated) as caught:
        data.pieces(np.array([2, start]), np.array([1, size]), "things")
    assert caught.value.offset == start
