from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from amounts import examples
from dvcodec.core.bitmap import BitmapView
from dvcodec.core.cursor import Cursor
from dvcodec.core.expand import pack_into, ranges_of
from dvcodec.core.roaring import walk
from samples.bitmaps import EMPTY, Container, array, bitmap, bitset, runs

SPAN = 6 << 16
"""Values below this are looked at one by one."""


def view_of(*containers: Container) -> BitmapView:
    return walk(Cursor(bitmap(*containers)))


def bools_of(view: BitmapView) -> NDArray[np.bool_]:
    out = np.zeros(SPAN, np.bool_)
    out[np.frombuffer(view.load().to_array(), np.uint32)] = True
    return out


def ranges_one_by_one(bools: NDArray[np.bool_]) -> list[list[int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bools, [False]]).astype(int)))
    return edges.reshape(-1, 2).tolist()


BITMAPS: dict[str, BitmapView] = {
    "empty": walk(Cursor(EMPTY)),
    "array": view_of(array(0, [0, 1, 2, 7, 8, 15, 65535])),
    "bitset": view_of(bitset(1, [value for value in range(65536) if value % 7 < 3])),
    "full bitset": view_of(bitset(1, range(65536))),
    "runs": view_of(runs(0, [(0, 1), (3, 9), (16, 8), (25, 30), (100, 1), (65535, 1)])),
    "runs inside one byte": view_of(runs(0, [(0, 2), (3, 2), (6, 1), (8, 8), (17, 6)])),
    "full run": view_of(runs(2, [(0, 65536)])),
    "every kind": view_of(
        array(0, [5, 65534, 65535]),
        bitset(1, range(60000)),
        runs(2, [(0, 10), (20, 65516)]),
        array(3, [0, 1]),
        bitset(4, range(1, 65536, 2)),
        runs(5, [(0, 3), (9, 2)]),
    ),
    "kinds that touch": view_of(runs(0, [(65000, 536)]), bitset(1, range(65536)), array(2, [0, 1]), array(3, [1])),
}
every_bitmap = pytest.mark.parametrize("view", BITMAPS.values(), ids=BITMAPS)


@every_bitmap
def test_ranges_are_maximal_and_ascending(view: BitmapView) -> None:
    found = ranges_of(view)
    assert found.dtype == np.int64
    assert found.shape == (len(found), 2)
    assert found.tolist() == ranges_one_by_one(bools_of(view))


def packed(view: BitmapView, first: int, size: int) -> NDArray[np.uint8]:
    out = np.zeros((size + 7) // 8 * 8, np.uint8)
    pack_into(view, out, first)
    return out[:size]


@every_bitmap
def test_bits_are_those_of_the_values_inside(view: BitmapView) -> None:
    for first, size in [
        (0, SPAN // 8),
        (0, 1),
        (0, 0),
        (1, 1),
        (1, 2),
        (2, 3),
        (8191, 2),
        (8192, 8192),
        (8193, 8190),
        (12345, 20000),
        (SPAN // 8 - 1, 1),
        (SPAN // 8, 100),
    ]:
        bits = np.packbits(bools_of(view), bitorder="little")
        expected = np.zeros(size, np.uint8)
        expected[: max(len(bits) - first, 0)] = bits[first : first + size]
        assert np.array_equal(packed(view, first, size), expected)


@st.composite
def views(draw: st.DrawFn) -> BitmapView:
    parts = []
    for key in sorted(draw(st.sets(st.integers(0, 5), min_size=1))):
        kind = draw(st.integers(0, 2))
        if kind == 0:
            values = draw(st.sets(st.integers(0, 40) | st.integers(0, 65535), min_size=1, max_size=30))
            parts.append(array(key, sorted(values)))
        elif kind == 1:
            step, start = draw(st.integers(1, 13)), draw(st.integers(0, 9))
            stop = draw(st.integers(start + 4097 * step, 65536)) if start + 4097 * step < 65536 else 65536
            parts.append(bitset(key, range(start, stop, step)))
        else:
            pairs, at = [], draw(st.integers(0, 20))
            for gap, length in draw(
                st.lists(st.tuples(st.integers(1, 20), st.integers(1, 40)), min_size=1, max_size=30)
            ):
                pairs.append((at, length))
                at += length + gap
            parts.append(runs(key, pairs))
    return view_of(*parts)


@settings(max_examples=examples(150))
@given(views(), st.integers(0, SPAN // 8), st.integers(0, 3 << 13))
def test_any_bitmap_expands_to_its_values(view: BitmapView, first: int, size: int) -> None:
    bools = bools_of(view)
    assert ranges_of(view).tolist() == ranges_one_by_one(bools)
    bits = np.packbits(bools, bitorder="little")[first : first + size]
    assert np.array_equal(packed(view, first, size)[: len(bits)], bits)
