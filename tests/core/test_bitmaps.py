"""Many bitmaps at once, against pyroaring and against `roaring.walk` one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from cases import each
from dvcodec.core import bitmaps
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError
from dvcodec.core.roaring import walk
from samples.bitmaps import array, bitmap, bitset, runs

FULL = 1 << 16
LARGE = {
    "array of 4096": list(range(0, 8192, 2)),
    "bitset of 4097": list(range(0, 8194, 2)),
    "bitset of 65535": list(range(1, FULL)),
    "full": list(range(FULL)),
    "full in the middle": [5, *range(FULL, 2 * FULL), 2 * FULL + 9, 9 * FULL],
    "two full ones and a bitset": [*range(2 * FULL), *range(2 * FULL, 3 * FULL, 3)],
    "the last value": [0, 2**32 - 1],
}
low = st.one_of(st.integers(0, 6), st.sampled_from([65534, 65535]))
sets = st.sets(st.builds(lambda key, value: key << 16 | value, low, low), min_size=1, max_size=8).map(sorted)


def laid_out(data: list[bytes]) -> tuple[Cursor, np.ndarray, np.ndarray]:
    """Bitmaps in a window, with something between them."""
    parts, starts, at = [], [], 0
    for i, one in enumerate(data):
        gap = b"?" * (i % 3)
        starts.append(at + len(gap))
        parts += [gap, one]
        at += len(gap) + len(one)
    cursor = Cursor(b"".join(parts), source="file", base=1000)
    return cursor, np.array(starts, np.int64), np.array([len(one) for one in data], np.int64)


def expand(data: list[bytes]) -> list[list[int]]:
    values, counts = bitmaps.expand(*laid_out(data))
    assert values.dtype == np.uint32
    bounds = np.cumsum([0, *counts.tolist()]).tolist()
    assert bounds[-1] == len(values)
    return [values[a:b].tolist() for a, b in itertools.pairwise(bounds)]


def one_by_one(data: bytes) -> list[int] | DecodeError:
    try:
        cursor = Cursor(data)
        view = walk(cursor)
        cursor.expect_end("the bitmap")
        return list(view.load())
    except DecodeError as error:
        return error


def serialize(sets_of: list[list[int]]) -> list[bytes]:
    flat = np.array([value for one in sets_of for value in one], np.int64)
    return bitmaps.serialize(flat, np.array([len(one) for one in sets_of], np.int64)).to_list()


def plain(values: list[int]) -> bytes:
    """As `Add` one by one leaves it in Go: no runs, but a full container is one."""
    containers = []
    for key, group in itertools.groupby(values, lambda value: value >> 16):
        here = [value & 0xFFFF for value in group]
        if len(here) == FULL:
            containers.append(runs(key, [(0, FULL)]))
        else:
            containers.append(array(key, here) if len(here) <= 4096 else bitset(key, here))
    return bitmap(*containers)


# ------------------------------------------------------------------ valid ones


@given(st.lists(sets, max_size=6))
def test_values_come_back_as_they_were(spec: list[list[int]]) -> None:
    data = serialize(spec)
    assert data == [plain(one) for one in spec]
    assert expand(data) == spec
    for one, values in zip(data, spec, strict=True):
        assert list(BitMap.deserialize(one)) == values
        assert one == BitMap(values, optimize=False).serialize()  # as Go writes them: no runs of a few
    assert bitmaps.cardinalities(*laid_out(data)).tolist() == [len(one) for one in spec]


@each("name", LARGE)
def test_large_ones_come_back_as_they_were(name: str) -> None:
    spec = [[1], LARGE[name], [7, 70_000], LARGE[name], [3]]
    data = serialize(spec)
    assert data == [plain(one) for one in spec]
    assert expand(data) == spec


# ------------------------------------------------------------------ wrong ones


BROKEN = {
    "bytes behind it": plain([1, 2]) + b"\0\0",
    "bytes behind a run": bitmap(runs(0, [(0, 5)])) + b"\0",
    "a value missing": plain([1, 2])[:-2],
    "values that descend": bitmap(array(0, [2, 1])),
    "values twice": bitmap(array(0, [2, 2])),
    "values that descend behind others": bitmap(array(0, [2, 3]), array(1, [9, 4])),
    "keys that descend": bitmap(array(1, [0]), array(0, [0])),
    "keys twice": bitmap(array(1, [0]), array(1, [5])),
    "offset of 0": bitmap(array(0, [1]), offsets=[0]),
    "offsets that overlap": bitmap(array(0, [1]), array(1, [1]), offsets=[24, 24]),
    "offset far away": bitmap(array(0, [1]), offsets=[2**32 - 1]),
    "a cardinality below": bitmap(array(0, [1, 2, 3]).claiming(2)),
    "a cardinality above": bitmap(array(0, [1, 2, 3]).claiming(4)),
    "cardinalities that even out": bitmap(array(0, [1, 2, 3]).claiming(2), array(1, [1, 2]).claiming(3)),
    "an array that is too large": bitmap(array(0, range(4097)).claiming(4097)),
    "a bitset that is too small": bitmap(bitset(0, range(5000)).claiming(5001)),
    "runs that touch": bitmap(runs(0, [(0, 2), (2, 2)])),
    "runs that descend": bitmap(runs(0, [(9, 1), (2, 2)])),
    "a cookie of runs without runs": bitmap(array(0, [1]), flags=b"\0"),
}


@each("name", BROKEN)
def test_hazard_broken_ones_among_valid_ones(name: str) -> None:
    """The error is that of `walk`, at its place in the file."""
    expected = one_by_one(BROKEN[name])
    assert isinstance(expected, DecodeError)
    for place in [0, 1, 2]:
        data = [plain([1]), plain([5, 6]), bitmap(bitset(0, range(5000)))]
        data.insert(place, BROKEN[name])
        cursor, starts, sizes = laid_out(data)
        with pytest.raises(type(expected)) as caught:
            bitmaps.expand(cursor, starts, sizes)
        error = caught.value
        assert (error.what, error.expected, error.actual) == (expected.what, expected.expected, expected.actual)
        assert (error.source, error.offset) == ("file", 1000 + int(starts[place]) + (expected.offset or 0))
