from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyroaring import FrozenBitMap

from cases import each
from dvcodec.core import bitmap as module
from dvcodec.core.bitmap import BitmapView
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.roaring import walk
from samples.bitmaps import Container, array, bitmap, bitset, runs


def view_of(*containers: Container) -> BitmapView:
    return walk(Cursor(bitmap(*containers)))


EDGES = [0, 1, 15, 16, 17, 4095, 32767, 32768, 65519, 65520, 65534, 65535]


@each("value", EDGES)
def test_the_lowest_and_the_highest_value_are_found_in_every_kind(value: int) -> None:
    below = np.linspace(0, value, 5000).astype(int).tolist() if value >= 5000 else None
    above = np.linspace(value, 65535, 5000).astype(int).tolist() if value <= 65535 - 5000 else None
    for low, high in ((None, above), (below, None)):
        values = low or high
        if values is None:
            continue
        for container in (bitset(7, values), array(7, sorted(set(values))[:: len(values) - 1])):
            view = view_of(container)
            assert view.min == (7 << 16) + values[0]
            assert view.max == (7 << 16) + values[-1]
    single = view_of(array(7, [value]))
    assert single.min == single.max == (7 << 16) + value
    run = view_of(runs(7, [(value, 1)]))
    assert run.min == run.max == (7 << 16) + value


@each("part", [slice(0, 2), slice(1, 3), slice(2, 4), slice(3, 4)])
def test_runs_of_some_containers_are_those_of_the_whole(part: slice) -> None:
    whole = view_of(*(runs(key, [(9 * i, 2 + key) for i in range(1 + 3 * key)]) for key in range(4)))
    names = ("keys", "cards", "kinds", "starts", "sizes")
    some = replace(whole, **{name: getattr(whole, name)[part] for name in names})
    chosen = np.isin(whole.runs().owner, np.arange(4)[part])
    assert some.runs().starts.tolist() == whole.runs().starts[chosen].tolist()
    assert some.runs().lengths.tolist() == whole.runs().lengths[chosen].tolist()
    assert (some.runs().owner + part.start).tolist() == whole.runs().owner[chosen].tolist()


def test_a_bitset_without_a_value_has_no_lowest_and_no_highest() -> None:
    void = bitset(9, []).claiming(5000)
    first, last = view_of(void, array(10, [1])), view_of(array(8, [1]), void)
    for view, edge, container in ((first, "min", 0), (last, "max", 1)):
        with pytest.raises(NotCanonical) as caught:
            getattr(view, edge)
        assert f"in bitset container {container} (key 0x0009)" in caught.value.what
        assert (caught.value.expected, caught.value.actual) == (5000, 0)
    assert (first.max, last.min) == (10 << 16 | 1, 8 << 16 | 1)


def test_a_valid_bitmap_that_croaring_cannot_build_wants_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        @staticmethod
        def deserialize(_: memoryview) -> FrozenBitMap:
            raise ValueError("Could not deserialize bitmap")

    cursor = Cursor(b"??" + bitmap(array(1, [1])), source="x.bin", base=98)
    cursor.seek(2, "the bitmap")
    view = walk(cursor)
    monkeypatch.setattr(module, "FrozenBitMap", Refusing)
    with pytest.raises(LimitExceeded, match="memory: expected enough for the bitmap, found Could not") as caught:
        view.load()
    assert caught.value.source == "x.bin"
