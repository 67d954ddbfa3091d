from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import AbstractBitMap, BitMap, FrozenBitMap

from amounts import examples
from battery import check_truncations, outcome
from cases import each
from dvcodec.core import roaring
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, LimitExceeded, NotCanonical, Truncated
from dvcodec.core.roaring import ARRAY_MAX, BitmapView, ContainerKind, ContainerMix, from_sorted, serialize, walk
from samples.bitmaps import Container, array, bitmap, bitset, runs, small_bitmaps

FULL = 1 << 16
PREFIX = 7
BASE = 1000


def decode(data: bytes) -> AbstractBitMap:
    """Walk a bitmap that fills the bytes, and load it."""
    cursor = Cursor(data)
    view = walk(cursor)
    cursor.expect_end("the bitmap")
    view.check()
    return view.load()


def refusal(data: bytes, offset: int) -> DecodeError:
    """Walk and check; return what was wrong, which must stand at that offset of `data`."""
    cursor = Cursor(b"?" * PREFIX + data, source="x.bin", base=BASE)
    cursor.seek(PREFIX, "the bitmap")
    with pytest.raises(DecodeError) as caught:
        walk(cursor).check()
    error = caught.value
    assert error.source == "x.bin"
    assert error.offset == BASE + PREFIX + offset
    return error


# ------------------------------------------------------------------ hazard 1: too short


@each("name", small_bitmaps())
def test_hazard_payload_or_header_truncated_anywhere(name: str) -> None:
    data = small_bitmaps()[name]
    check_truncations(decode, data)
    for size in range(len(data)):
        cursor = Cursor(b"?" * 99 + data[:size])
        cursor.seek(99, "the bitmap")
        with pytest.raises(Truncated):
            walk(cursor)


# ------------------------------------------------------------------ hazard 12: runs


def test_the_wrong_one_of_several_run_containers_is_named() -> None:
    containers = [runs(0, [(0, 5), (9, 1)]), array(1, [9]), runs(2, [(3, 1), (5, 2)]), runs(3, [(4, 4), (6, 1)])]
    header = 4 + 1 + 8 * 4
    error = refusal(bitmap(*containers), header + 10 + 2 + 10 + 2 + 4)
    assert error.what == "runs unsorted, overlapping or unmerged in run container 3 (key 0x0003)"
    containers[3] = runs(3, [])
    error = refusal(bitmap(*containers[:3], containers[3].claiming(1)), header + 10 + 2 + 10)
    assert error.what == "no run in run container 3 (key 0x0003)"


# ------------------------------------------------------------------ what is legal though not canonical

LEGAL: dict[str, tuple[bytes, bytes]] = {
    "run of singles": (bitmap(runs(0, [(1, 1), (3, 1), (5, 1)])), bitmap(array(0, [1, 3, 5]))),
    "3000 runs, larger than a bitset": (
        bitmap(runs(4, [(start, 3) for start in range(0, 15000, 5)])),
        bitmap(bitset(4, (start + i for start in range(0, 15000, 5) for i in range(3)))),
    ),
    "array of 5 as runs": (bitmap(runs(0, [(1, 2), (5, 3)])), bitmap(array(0, [1, 2, 5, 6, 7]))),
    "array of 3 as a run": (bitmap(runs(0, [(1, 3)])), bitmap(array(0, [1, 2, 3]))),
    "run as an array": (bitmap(array(0, [1, 2, 3, 4])), bitmap(runs(0, [(1, 4)]))),
    "run as a bitset": (bitmap(bitset(0, range(10, 60000))), bitmap(runs(0, [(10, 59990)]))),
    "full bitset": (bitmap(bitset(0, range(FULL))), bitmap(runs(0, [(0, FULL)]))),
    "a tie among others": (
        bitmap(runs(0, [(0, 3)]), array(1, [1]), runs(2, [(0, 9)]), array(3, [1]), runs(4, [(7, 1)])),
        bitmap(array(0, [0, 1, 2]), array(1, [1]), runs(2, [(0, 9)]), array(3, [1]), array(4, [7])),
    ),
}


@each(("legal", "canonical"), LEGAL.values(), ids=LEGAL)
def test_legal_forms_are_read_and_written_in_the_canonical_form(legal: bytes, canonical: bytes) -> None:
    rows = decode(legal)
    assert rows == decode(canonical)
    assert serialize(rows) == canonical
    assert serialize(decode(canonical)) == canonical


# ------------------------------------------------------------------ what a walk gives


def test_the_largest_number_of_containers_is_read() -> None:
    data = bitmap(*(array(key, [key]) for key in range(FULL)))
    assert decode(data) == BitMap(np.arange(FULL, dtype=np.uint32) * 65537)
    data = bitmap(*(runs(key, [(key, 1)]) for key in range(FULL)))
    assert walk(Cursor(data)).mix == ContainerMix(runs=FULL)


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
    monkeypatch.setattr(roaring, "FrozenBitMap", Refusing)
    with pytest.raises(LimitExceeded, match="memory: expected enough for the bitmap, found Could not") as caught:
        view.load()
    assert caught.value.source == "x.bin"


# ------------------------------------------------------------------ which container a writer chooses


def java_kind(card: int, run_count: int) -> ContainerKind:
    """What ``runOptimize()`` of RoaringBitmap 1.x makes of a container that was filled value by value."""
    if card <= ARRAY_MAX:
        return ContainerKind.RUN if 2 * card > 2 + 4 * run_count else ContainerKind.ARRAY
    return ContainerKind.RUN if 2 + 4 * run_count < 8192 else ContainerKind.BITSET


def runs_of(card: int, run_count: int) -> list[tuple[int, int]]:
    """That many runs with that many values: one long, the others single."""
    long = card - run_count + 1
    return [(0, long), *((long + 1 + 2 * i, 1) for i in range(run_count - 1))]


def values_of(pairs: list[tuple[int, int]]) -> list[int]:
    return [value for start, length in pairs for value in range(start, start + length)]


def stored(kind: ContainerKind, key: int, pairs: list[tuple[int, int]]) -> Container:
    if kind is ContainerKind.RUN:
        return runs(key, pairs)
    return (array if kind is ContainerKind.ARRAY else bitset)(key, values_of(pairs))


def from_ranges(key: int, pairs: list[tuple[int, int]]) -> BitMap:
    rows = BitMap()
    for start, length in pairs:
        rows.add_range(key << 16 | start, (key << 16) + start + length)
    return rows


BUILDERS: dict[str, Callable[[int, list[tuple[int, int]]], AbstractBitMap]] = {
    "one by one": lambda key, pairs: BitMap([key << 16 | value for value in values_of(pairs)]),
    "ranges": from_ranges,
    "decoded runs": lambda key, pairs: walk(Cursor(bitmap(runs(key, pairs)))).load(),
    "union of two": lambda key, pairs: from_ranges(key, pairs[::2]) | from_ranges(key, pairs[1::2]),
    "holes cut into a range": lambda key, pairs: (
        from_ranges(key, [(0, FULL)]) - (from_ranges(key, [(0, FULL)]) - from_ranges(key, pairs))
    ),
}

TIES = [
    *((2 * r + more, r) for r in (1, 2, 3, 100, 1000, 2040, 2047) for more in (0, 1, 2)),
    *((card, r) for r in range(2040, 2056) for card in (4097, 40000)),
    *((card, r) for r in (2040, 2046, 2047, 2048) for card in (4095, 4096)),
    (1, 1), (4096, 1), (4097, 1), (4096, 4096), (4097, 4097), (4098, 2048), (32768, 32768), (FULL - 1, 1), (FULL, 1),
]  # fmt: skip


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_containers_are_chosen_like_java_however_the_bitmap_was_built(
    build: Callable[[int, list[tuple[int, int]]], AbstractBitMap],
) -> None:
    for card, run_count in TIES:
        pairs = runs_of(card, run_count)
        for key in (0, 65535):
            expected = bitmap(stored(java_kind(card, run_count), key, pairs))
            rows = build(key, pairs)
            assert len(rows) == card
            assert serialize(rows) == expected, (card, run_count)
            rows.run_optimize()
            assert serialize(rows) == expected, (card, run_count)


def test_containers_side_by_side_are_chosen_one_by_one() -> None:
    parts = [(key, runs_of(card, run_count), java_kind(card, run_count)) for key, (card, run_count) in enumerate(TIES)]
    expected = bitmap(*(stored(kind, key, pairs) for key, pairs, kind in parts))
    for build in BUILDERS.values():
        assert serialize(BitMap.union(*(build(key, pairs) for key, pairs, _ in parts))) == expected


@each("some", [1 << 16, 100_000, 1 << 17])
@each("first", [0, 65_535, 2**32 - 400_000])
def test_runs_are_expanded_a_few_at_a_time(first: int, some: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = BitMap([*range(first, first + 300_000), *range(first + 300_001, first + 400_000, 3)])
    rows.run_optimize()
    whole = serialize(rows, run_optimize=False)
    assert ContainerKind.RUN not in walk(Cursor(whole)).kinds
    monkeypatch.setattr(roaring, "_SOME_VALUES", some)
    expand = Mock(wraps=from_sorted)
    monkeypatch.setattr(roaring, "from_sorted", expand)
    assert serialize(rows, run_optimize=False) == whole
    assert len(expand.call_args_list) > 1
    assert all(len(call.args[0]) <= some + 65_536 for call in expand.call_args_list)


# ------------------------------------------------------------------ real files


def test_the_positions_java_was_given_are_written_as_javas_bytes(vectors: Path) -> None:
    for path in sorted((vectors / "roaring" / "java").glob("*.jrb")):
        data = path.read_bytes()
        positions = np.frombuffer(gzip.decompress(path.with_suffix(".pos.gz").read_bytes()), "<u4")
        assert serialize(BitMap(positions)) == serialize(decode(data)) == data, path.name


def test_the_specifications_samples_hold_what_it_says(vectors: Path) -> None:
    expected = BitMap(range(0, 100_000, 1000)) | BitMap(range(300_000, 600_000, 3)) | BitMap(range(700_000, 800_000))
    assert len(expected) == 200_100
    folder = vectors / "roaring" / "format-spec"
    with_runs = (folder / "bitmapwithruns.bin").read_bytes()
    without = (folder / "bitmapwithoutruns.bin").read_bytes()
    assert decode(with_runs) == decode(without) == expected
    assert serialize(expected) == with_runs
    assert serialize(expected, run_optimize=False) == without
    assert walk(Cursor(without)).mix.runs == 0


# ------------------------------------------------------------------ any bytes whatever


def agree_with_pyroaring(data: bytes) -> bool:
    """Whether the bytes are accepted; if so, pyroaring has to accept them too, with the same content."""

    def checked(body: bytes) -> BitmapView:
        view = walk(Cursor(body))
        view.check()
        return view

    view = outcome(checked, data)
    loaded = outcome(lambda body: walk(Cursor(body)).load(), data)
    if isinstance(view, DecodeError):
        assert isinstance(loaded, DecodeError), "load takes what check refuses"
        return False
    theirs = BitMap.deserialize(data)
    assert view.cardinality == len(theirs)
    assert loaded == theirs
    assert (view.min, view.max) == ((theirs.min(), theirs.max()) if theirs else (None, None))
    return True


words = st.integers(0, 12) | st.integers(0, 65535)


@st.composite
def containers(draw: st.DrawFn) -> Container:
    """An array or run container, more often valid than not."""
    key = draw(st.integers(0, 5))
    if draw(st.booleans()):
        values = draw(st.lists(words, min_size=1, max_size=8))
        made = array(key, sorted(set(values)) if draw(st.booleans()) else values)
    else:
        pairs = draw(st.lists(st.tuples(words, st.integers(1, 8)), min_size=1, max_size=5))
        made = runs(key, sorted(pairs) if draw(st.booleans()) else pairs)
    return made if draw(st.integers(0, 5)) else made.claiming(draw(st.integers(1, 20)))


def is_valid(container: Container) -> bool:
    """Whether a container keeps the specification's rules, one value at a time."""
    words: list[int] = np.frombuffer(container.payload, "<u2").tolist()
    if not container.run:
        return len(words) == container.card and all(a < b for a, b in itertools.pairwise(words))
    pairs = list(zip(words[1::2], words[2::2], strict=True))
    last = -2
    for start, more in pairs:
        if start <= last + 1 or start + more > 65535:
            return False
        last = start + more
    return container.card == sum(more + 1 for _, more in pairs)


@settings(max_examples=examples(600))
@given(st.lists(containers(), min_size=1, max_size=6))
def test_a_bitmap_is_accepted_exactly_if_every_rule_is_kept(parts: list[Container]) -> None:
    parts.sort(key=lambda part: part.key)
    keys = [part.key for part in parts]
    data = bitmap(*parts)
    found = outcome(decode, data)
    assert isinstance(found, AbstractBitMap) == (len(set(keys)) == len(keys) and all(map(is_valid, parts)))
    agree_with_pyroaring(data)
