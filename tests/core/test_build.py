from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from amounts import examples
from cases import each
from dvcodec.core import bitmap as module
from dvcodec.core.bitmap import ContainerMix
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import UsageError
from dvcodec.core.roaring import serialize, walk
from dvcodec.core.rowset import Holder, canonical
from samples.bitmaps import bitmap, runs

# ------------------------------------------------------------------ canonical


def joined(found: Holder) -> dict[int, bytes]:
    return {key: b"".join(pieces) for key, pieces in found.measured().pieces().items()}


@st.composite
def blocks_of_values(draw: st.DrawFn) -> list[int]:
    """Values in a few blocks, each scattered, dense, in runs, full, or in pairs and triples, where forms are tied."""
    values: list[int] = []
    for block in draw(st.sets(st.integers(0, 9) | st.integers(60000, 65535), min_size=1, max_size=5)):
        chance = np.random.default_rng(draw(st.integers(0, 2**32)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            low = chance.integers(0, 1 << 16, draw(st.integers(1, 5000)))
        elif kind == 1:
            low = np.flatnonzero(chance.random(1 << 16) < draw(st.floats(0.05, 0.99)))
        elif kind == 2:
            starts = chance.integers(0, 60000, draw(st.integers(1, 30)))
            low = np.concatenate([np.arange(start, start + chance.integers(1, 5000)) for start in starts])
        elif kind == 3:
            low = np.arange(1 << 16)
        else:
            starts = chance.integers(0, 65000, draw(st.integers(1, 2500)))
            low = np.concatenate([starts + i for i in range(draw(st.integers(2, 4)))])
        values += (low + (block << 16)).tolist()
    return draw(st.sampled_from([values, sorted(set(values))]))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(blocks_of_values(), st.sampled_from([0, 7]))
def test_the_form_is_the_one_that_depends_on_the_values_alone(values: list[int], key: int) -> None:
    expected = BitMap(values)
    found = canonical(np.array(values, np.uint64) + np.uint64(key << 32))
    assert joined(found) == {key: serialize(expected)}
    assert module.from_sorted(np.array(expected, np.uint32)).serialize() == serialize(expected, run_optimize=False)


def test_values_of_more_pieces_than_one_are_cut_between_containers() -> None:
    values = np.flatnonzero(np.random.default_rng(1).random(1 << 20) < 0.6).astype(np.uint64)
    assert len(values) > 2 * module._PIECE
    assert joined(canonical(values)) == {0: serialize(BitMap(values.tolist()))}
    full = np.arange(5 << 18, dtype=np.uint64)
    assert joined(canonical(full)) == {0: serialize(BitMap(range(5 << 18)))}


# ------------------------------------------------------------------ ranges

pairs = st.tuples(st.integers(0, 300_000), st.integers(0, 70_000)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(pairs, max_size=20))
def test_merging_keeps_the_positions_and_leaves_no_ranges_that_touch(ranges: list[tuple[int, int]]) -> None:
    ranges = sorted(pair for pair in ranges if pair[0] < pair[1])
    merged = module.merge_touching(np.array(ranges, np.int64).reshape(-1, 2)).tolist()
    assert all(before[1] < after[0] for before, after in itertools.pairwise(merged))
    covered = BitMap()
    for start, stop in merged:
        covered.add_range(start, stop)
    expected = BitMap()
    for start, stop in ranges:
        expected.add_range(start, stop)
    assert covered == expected


RANGES = [
    [(0, 1)],
    [(0, 2**16)],
    [(2**16 - 1, 2**16 + 1)],
    [(5, 6), (7, 9), (65530, 65536), (65537, 65538)],
    [(100, 5 * 2**16 + 7)],
    [(start, start + 1) for start in range(0, 20 * 2**16, 2**16 + 3)],
    [(2**32 - 3, 2**32 + 3)],
    [(2**31 - 1, 2**31 + 1), (2**32 + 2**31, 2**33 + 2**20)],
    [(2**63 - 70000, 2**63 - 1)],
]


@each("ranges", RANGES, ids=repr)
def test_ranges_become_run_containers_with_the_same_positions(ranges: list[tuple[int, int]]) -> None:
    found = module.from_ranges(np.array(ranges, np.int64))
    by_position: dict[int, BitMap] = {}
    for start, stop in ranges:
        for key in range(start >> 32, (stop - 1 >> 32) + 1):
            low, high = max(start - (key << 32), 0), min(stop - (key << 32), 2**32)
            by_position.setdefault(key, BitMap()).add_range(low, high)
    assert found == by_position
    assert list(found) == sorted(found)
    for rows in found.values():
        mix = walk(Cursor(rows.serialize())).mix
        assert mix == ContainerMix(runs=mix.runs)


def test_ranges_over_as_many_containers_as_are_allowed_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RANGE_CONTAINERS", 3)
    assert len(module.from_ranges(np.array([[0, 3 << 16]], np.int64))[0]) == 3 << 16
    with pytest.raises(UsageError, match="span 4 blocks"):
        module.from_ranges(np.array([[0, (3 << 16) + 1]], np.int64))


# ------------------------------------------------------------------ ascending values


@each("at", range(9))
def test_values_that_descend_anywhere_are_sorted(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(module, "_PIECE", 4)
    values = np.arange(10, dtype=np.uint64)
    values[at : at + 2] = values[at : at + 2][::-1].copy()
    assert module.ascending(values).tolist() == list(range(10))
    values[at] = values[at + 1]
    assert module.ascending(values).tolist() == sorted(set(range(10)) - {at + 1})


@pytest.mark.parametrize("containers", [1, 3, 4, 9])
def test_ranges_are_handed_over_in_a_valid_bitmap(containers: int) -> None:
    keys = np.repeat(np.arange(containers), 2)
    starts = np.tile([3, 10], containers)
    data = b"".join(
        module.serialize_containers([module._run_containers(keys, starts, starts + np.tile([2, 5], containers))])
    )
    assert data == bitmap(*(runs(key, [(3, 2), (10, 5)]) for key in range(containers)))
    cursor = Cursor(data)
    walk(cursor)
    cursor.expect_end("the bitmap")
