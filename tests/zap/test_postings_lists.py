from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.zap.locations import Locations
from dvcodec.zap.postings import Postings


def sample(counts: list[int]) -> Postings:
    """Lists in which posting i has i % 3 locations, the k-th at position 10 i + k."""
    total = sum(counts)
    index = np.arange(total, dtype=np.int64)
    located = index % 3
    places = np.array([10 * i + k for i in range(total) for k in range(i % 3)], np.uint64)
    none = np.zeros(len(places), np.int64)
    locations = Locations(none, places, places, places, none, np.zeros(0, np.uint64))
    return Postings(
        np.array(counts, np.int64), index, index.astype(np.uint64), 7 * index.astype(np.uint64), located, locations
    )


def rows(postings: Postings) -> list[tuple[int, int, int, int, list[int]]]:
    """Term, document, frequency, norm and positions of every posting."""
    stops = np.cumsum(postings.location_counts).tolist()
    positions = postings.locations.positions.tolist()
    return [
        (term, doc, freq, norm, positions[stop - count : stop])
        for term, doc, freq, norm, count, stop in zip(
            postings.owner.tolist(),
            postings.docs.tolist(),
            postings.freqs.tolist(),
            postings.norms.tolist(),
            postings.location_counts.tolist(),
            stops,
            strict=True,
        )
    ]


@given(st.lists(st.integers(1, 5), max_size=6), st.data())
def test_lists_of_some_terms_are_those_of_these_terms(counts: list[int], data: st.DataObject) -> None:
    postings = sample(counts)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts))), np.bool_)
    numbers = dict(zip(np.flatnonzero(chosen).tolist(), range(len(counts)), strict=False))
    expected = [(numbers[row[0]], *row[1:]) for row in rows(postings) if row[0] in numbers]
    assert rows(postings.lists(chosen)) == expected
    assert rows(postings.lists(slice(0, len(counts)))) == rows(postings)


@given(st.lists(st.lists(st.integers(1, 4), max_size=3), max_size=4))
def test_concat_puts_lists_one_behind_the_other(parts: list[list[int]]) -> None:
    joined = Postings.concat([sample(counts) for counts in parts])
    assert joined.counts.tolist() == [count for counts in parts for count in counts]
    assert [row[1:] for row in rows(joined)] == [row[1:] for counts in parts for row in rows(sample(counts))]
    assert joined.docs.dtype == np.int64
    assert joined.freqs.dtype == np.uint64


@pytest.mark.parametrize("part", [slice(0, 0), slice(1, 2), slice(2, None)])
def test_a_slice_of_terms_keeps_their_locations(part: slice) -> None:
    postings = sample([2, 3, 4])
    wanted = range(3)[part]
    expected = [row[1:] for row in rows(postings) if row[0] in wanted]
    assert [row[1:] for row in rows(postings.lists(part))] == expected
