"""Windows of a segment: nothing behind the footer's first byte can be read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import NotCanonical
from dvcodec.core.errors import Truncated
from dvcodec.zap.data import Pieces, SegmentData
from samples.zap.parts import segment
from samples.zap.postings import Sparse

RAW = bytes(range(20))
END = 16
FAR = (2**31, 2**63 - 1, 2**63, 2**64 - 1)


@pytest.fixture
def data() -> SegmentData:
    """16 bytes, and a footer of 4."""
    return SegmentData(segment(RAW).source, END)


def test_a_window_is_the_bytes_it_names(data: SegmentData) -> None:
    for start, stop in itertools.combinations_with_replacement(range(END + 1), 2):
        cursor = data.window(start, stop, "x")
        assert bytes(cursor.view) == RAW[start:stop]
        assert (cursor.base, cursor.source) == (start, "crafted")


@pytest.mark.parametrize(("start", "stop"), [(0, 17), (16, 17), (17, 17), (-1, 3), (5, 4), *((0, far) for far in FAR)])
def test_a_window_outside_is_refused(data: SegmentData, start: int, stop: int) -> None:
    with pytest.raises(Truncated) as caught:
        data.window(start, stop, "thing")
    assert (caught.value.what, caught.value.offset, caught.value.source) == ("thing", start, "crafted")


def test_room_is_cut_at_the_footer(data: SegmentData) -> None:
    assert bytes(data.at(3, 5, "x").view) == RAW[3:8]
    assert bytes(data.at(12, 500, "x").view) == RAW[12:16]
    assert bytes(data.at(15, 2**64, "x").view) == RAW[15:16]
    for outside in (-1, 16, 17, *FAR):
        with pytest.raises(Truncated):
            data.at(outside, 5, "x")


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


def test_no_pieces(data: SegmentData) -> None:
    none = np.zeros(0, np.int64)
    found = data.pieces(none, none, "x")
    assert found.end == 0
    assert found.error(NotCanonical, "x").offset == 0
    assert Pieces(np.zeros(0, np.uint8), none, none, "y").error(NotCanonical, "x", at=3).offset == 3


def test_only_the_bytes_between_the_pieces_are_read() -> None:
    source = Sparse(1 << 40, RAW)
    data = SegmentData(source, source.size)
    found = data.pieces(np.array([3, 7]) + source.base, np.array([2, 3]), "x")
    assert bytes(found.view) == RAW[3:5] + RAW[7:10]


def test_errors_name_the_file(data: SegmentData) -> None:
    error = data.error("thing", 7, expected=1, actual=2)
    assert str(error) == "crafted at byte 7: thing: expected 1, found 2"
    assert "1 bytes before the footer" in str(data.outside("thing", 20, 1))
    assert data.outside("thing", 20, 1).actual == "0 left"
    assert data.outside("thing", 10, 9).actual == "6 left"
    assert data.outside("thing", -5, 9).actual == "an address above 2**63"
