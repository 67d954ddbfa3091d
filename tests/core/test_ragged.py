"""Ragged arrays against Python lists."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.core import ragged
from dvcodec.core.ragged import ByteStrings, cut_by_weight, gather, spread, sums

strings = st.lists(st.binary(max_size=5), max_size=8)
lengths = st.lists(st.integers(0, 5), max_size=8)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Values, and pieces of them: in any order, empty, overlapping, or one behind the other."""
    values = draw(st.lists(st.integers(0, 255), max_size=20))
    if draw(st.booleans()):
        cuts = sorted(draw(st.lists(st.integers(0, len(values)), min_size=1, max_size=8)))
        return values, cuts[:-1], [b - a for a, b in itertools.pairwise(cuts)]
    spans = draw(st.lists(st.tuples(st.integers(0, len(values)), st.integers(0, len(values))), max_size=8))
    return values, [min(span) for span in spans], [abs(a - b) for a, b in spans]


@given(lengths)
def test_sums_are_those_of_each_run(spec: list[int]) -> None:
    values = np.arange(sum(spec))
    cuts = itertools.pairwise(itertools.accumulate(spec, initial=0))
    assert sums(values, np.array(spec, np.int64)).tolist() == [sum(range(a, b)) for a, b in cuts]


@given(pieces())
def test_spread_counts_through_every_piece(spec: tuple[list[int], list[int], list[int]]) -> None:
    _, starts, sizes = spec
    found = spread(np.array(starts, np.int64), np.array(sizes, np.int64))
    assert found.dtype == np.int64
    assert found.tolist() == [start + i for start, size in zip(starts, sizes, strict=True) for i in range(size)]


@pytest.mark.parametrize("long", [1, 3])
@given(pieces())
def test_long_pieces_are_copied_like_short_ones(long: int, spec: tuple[list[int], list[int], list[int]]) -> None:
    values, starts, sizes = spec
    places = [1 + i + sum(sizes[:i]) for i in range(len(sizes))]
    expected = [0] * (1 + len(sizes) + sum(sizes))
    for place, start, size in zip(places, starts, sizes, strict=True):
        expected[place : place + size] = values[start : start + size]
    arrays = [np.array(column, np.int64) for column in (values, starts, sizes, places)]
    out = np.zeros(len(expected), np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "_LONG", long)
        ragged.copy_pieces(out, arrays[3], arrays[0], arrays[1], arrays[2])
        assert out.tolist() == expected
        found = gather(arrays[0], arrays[1], arrays[2])
    assert found.tolist() == [
        value for start, size in zip(starts, sizes, strict=True) for value in values[start : start + size]
    ]


@given(strings)
def test_strings_are_a_sequence(spec: list[bytes]) -> None:
    found = ByteStrings.from_list(spec)
    assert len(found) == len(spec)
    assert found.to_list() == list(found) == spec
    assert found.lengths.tolist() == [len(one) for one in spec]
    assert [found[i] for i in range(-len(spec), len(spec))] == spec + spec
    assert found.data.tobytes() == b"".join(spec)
    assert list(reversed(found)) == spec[::-1]
    for wrong in (len(spec), -len(spec) - 1):
        with pytest.raises(IndexError):
            found[wrong]


bounds = st.one_of(st.none(), st.integers(-10, 10))


@given(strings, bounds, bounds, st.sampled_from([None, 1, 2, -1, -3]))
def test_slices_are_those_of_lists(spec: list[bytes], start: int | None, stop: int | None, step: int | None) -> None:
    found = ByteStrings.from_list(spec)[start:stop:step]
    assert isinstance(found, ByteStrings)
    assert found.to_list() == spec[start:stop:step]
    check(found)
    assert found[1:].to_list() == spec[start:stop:step][1:]


def check(found: ByteStrings) -> None:
    """What every `ByteStrings` promises."""
    assert found.offsets.dtype == np.int64
    assert found.data.dtype == np.uint8
    assert int(found.offsets[0]) == 0
    assert int(found.offsets[-1]) == len(found.data)
    assert (found.lengths >= 0).all()


@given(strings, st.data())
def test_taking_strings_in_any_order(spec: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.lists(st.integers(0, max(len(spec) - 1, 0)), max_size=10 if spec else 0))
    found = ByteStrings.from_list(spec).take(np.array(index, np.int64))
    assert found.to_list() == [spec[i] for i in index]
    check(found)


@given(st.lists(strings, max_size=4))
def test_strings_are_put_one_behind_the_other(spec: list[list[bytes]]) -> None:
    found = ByteStrings.concat([ByteStrings.from_list(part) for part in spec])
    assert found.to_list() == list(itertools.chain.from_iterable(spec))
    check(found)


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 40))
def test_cuts_weigh_at_most_the_limit_or_are_one_item(weights: list[int], most: int) -> None:
    cuts = list(cut_by_weight(np.array(weights, np.int64), most))
    assert [i for cut in cuts for i in range(len(weights))[cut]] == list(range(len(weights)))
    for cut in cuts:
        assert sum(weights[cut]) <= most or cut.stop == cut.start + 1
        assert cut.stop == len(weights) or sum(weights[cut.start : cut.stop + 1]) > most
