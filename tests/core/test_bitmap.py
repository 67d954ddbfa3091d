from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap, FrozenBitMap

from cases import each
from dvcodec.core import bitmap as module
from dvcodec.core.bitmap import ARRAY_MAX, BITSET_BYTES, BitmapView, ContainerKind, ContainerMix
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical
from dvcodec.core.roaring import walk
from samples.bitmaps import EMPTY, Container, array, bitmap, bitset, runs, u16s

MIXED = [
    array(1, [5, 65535]),
    bitset(2, range(1, 65536, 2)),
    runs(3, [(0, 10), (20, 1), (65000, 536)]),
    array(9, [0]),
    runs(65535, [(65535, 1)]),
]


def view_of(*containers: Container) -> BitmapView:
    return walk(Cursor(bitmap(*containers)))


def test_sizes_are_those_of_the_specification() -> None:
    assert (ARRAY_MAX, BITSET_BYTES) == (4096, 65536 // 8)


def test_a_view_says_where_containers_are() -> None:
    view = view_of(*MIXED)
    assert view.keys.tolist() == [1, 2, 3, 9, 65535]
    assert view.cards.tolist() == [2, 32768, 547, 1, 1]
    assert [ContainerKind(kind).name for kind in view.kinds.tolist()] == ["ARRAY", "BITSET", "RUN", "ARRAY", "RUN"]
    assert view.sizes.tolist() == [4, 8192, 14, 2, 6]
    for at, size, container in zip(view.starts.tolist(), view.sizes.tolist(), MIXED, strict=True):
        assert bytes(view.data[at : at + size]) == container.payload


def test_cardinality_and_mix_come_from_the_header() -> None:
    view = view_of(*MIXED)
    assert view.cardinality == 2 + 32768 + 547 + 1 + 1
    assert view.mix == ContainerMix(arrays=2, bitsets=1, runs=2)


def test_mixes_add_up_kind_by_kind() -> None:
    assert ContainerMix(1, 2, 3).plus(ContainerMix(10, 20, 30)) == ContainerMix(11, 22, 33)
    assert ContainerMix() == (0, 0, 0)


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


def test_the_lowest_and_the_highest_value_are_those_of_the_outer_containers() -> None:
    view = view_of(*MIXED)
    assert (view.min, view.max) == (1 << 16 | 5, 2**32 - 1)
    view = view_of(runs(0, [(3, 4), (9, 5)]), bitset(8, range(10, 60000)))
    assert (view.min, view.max) == (3, 8 << 16 | 59999)
    view = view_of(bitset(8, range(10, 60000)), runs(9, [(3, 4), (9, 5)]))
    assert (view.min, view.max) == (8 << 16 | 10, 9 << 16 | 13)


def test_a_bitset_without_a_value_has_no_lowest_and_no_highest() -> None:
    void = bitset(9, []).claiming(5000)
    first, last = view_of(void, array(10, [1])), view_of(array(8, [1]), void)
    for view, edge, container in ((first, "min", 0), (last, "max", 1)):
        with pytest.raises(NotCanonical) as caught:
            getattr(view, edge)
        assert f"in bitset container {container} (key 0x0009)" in caught.value.what
        assert (caught.value.expected, caught.value.actual) == (5000, 0)
    assert (first.max, last.min) == (10 << 16 | 1, 8 << 16 | 1)


def test_words_are_all_payloads_in_a_row() -> None:
    view = view_of(*MIXED)
    assert view.words.tobytes() == b"".join(container.payload for container in MIXED)
    for first, container in zip(view.word_starts.tolist(), MIXED, strict=True):
        words = view.words[first : first + len(container.payload) // 2]
        assert words.tobytes() == container.payload


def test_runs_are_gathered_over_all_run_containers() -> None:
    found = view_of(*MIXED).runs()
    assert found.starts.tolist() == [0, 20, 65000, 65535]
    assert found.lengths.tolist() == [10, 1, 536, 1]
    assert found.owner.tolist() == [2, 2, 2, 4]
    none = view_of(array(0, [1])).runs()
    assert [len(part) for part in none] == [0, 0, 0]


def test_an_empty_bitmap_has_no_words_and_no_runs() -> None:
    view = walk(Cursor(EMPTY))
    assert len(view.words) == len(view.word_starts) == len(view.runs().starts) == 0
    view.check()
    view.check_runs()
    assert view.load() == BitMap()


def test_loading_gives_the_values() -> None:
    values = BitMap([1 << 16 | 5, 1 << 16 | 65535, 9 << 16, 2**32 - 1])
    values |= BitMap(range(2 << 16 | 1, 3 << 16, 2))
    values |= (
        BitMap(range(3 << 16, (3 << 16) + 10)) | BitMap([3 << 16 | 20]) | BitMap(range((3 << 16) + 65000, 4 << 16))
    )
    assert view_of(*MIXED).load() == values


@pytest.mark.parametrize(
    ("container", "what"),
    [
        (array(2, [9, 9]), "values not strictly ascending in array container 1 (key 0x0002)"),
        (
            bitset(2, range(5000)).claiming(6000),
            "population is not the cardinality in the header in bitset container 1 (key 0x0002)",
        ),
    ],
)
def test_loading_and_checking_refuse_in_the_same_words(container: Container, what: str) -> None:
    view = view_of(array(1, [1]), container)
    with pytest.raises(NotCanonical) as checked:
        view.check()
    with pytest.raises(NotCanonical) as loaded:
        view.load()
    assert str(checked.value) == str(loaded.value)
    assert checked.value.what == what


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


def test_words_of_other_kinds_are_never_taken_for_array_values() -> None:
    descending = Container(1, 5, u16s([2, 9, 1, 20, 2]), run=True)
    view = view_of(array(0, [8]), descending, array(2, [3, 4]))
    view.check()
    assert len(view.load()) == 1 + 5 + 2
    view_of(bitset(0, range(0, 65536, 5)), array(1, [1, 2])).check()
