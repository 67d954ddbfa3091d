"""Postings lists: drawn as rows, and read out of segments built by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from dvcodec import DecodeError
from dvcodec.zap import Segment
from dvcodec.zap.footer import Footer, SegmentData
from dvcodec.zap.postings import Locations, Postings, decode_postings, decode_records
from samples.zap.segments import NOT, VERSIONS, SegmentBuilder

Place = tuple[int, int, int, int, tuple[int, ...]]
"""Field, position, start, end, array positions."""


class Posting(NamedTuple):
    doc: int
    freq: int
    norm: int
    places: tuple[Place, ...] = ()


Lists = list[list[Posting]]


class Sparse:
    """A source with `data` at offset `base`, whose first bytes cannot be read."""

    name = "sparse"

    def __init__(self, base: int, data: bytes) -> None:
        self.base, self.data, self.size = base, data, base + len(data)

    def read(self, offset: int, size: int) -> memoryview:
        assert not size or self.base <= offset <= offset + size <= self.size
        return memoryview(self.data)[offset - self.base :][:size]


def columns(lists: Lists) -> Postings:
    postings = [posting for one in lists for posting in one]
    return Postings(
        np.array([len(one) for one in lists], np.int64),
        np.array([posting.doc for posting in postings], np.int64),
        np.array([posting.freq for posting in postings], np.uint64),
        np.array([posting.norm for posting in postings], np.uint64),
        np.array([len(posting.places) for posting in postings], np.int64),
        locations([place for posting in postings for place in posting.places]),
    )


def locations(places: Sequence[Place]) -> Locations:
    positions, starts, ends = (np.array([place[k] for place in places], np.uint64) for k in (1, 2, 3))
    return Locations(
        np.array([place[0] for place in places], np.int64),
        positions,
        starts,
        ends,
        np.array([len(place[4]) for place in places], np.int64),
        np.array([position for place in places for position in place[4]], np.uint64),
    )


def rows_of_locations(found: Locations) -> list[Place]:
    stops = np.cumsum(found.array_counts).tolist()
    arrays = [
        tuple(found.array_positions[stop - count : stop].tolist())
        for stop, count in zip(stops, found.array_counts.tolist(), strict=True)
    ]
    heads = (found.fields, found.positions, found.starts, found.ends)
    return list(zip(*(head.tolist() for head in heads), arrays, strict=True))


def rows(found: Postings) -> Lists:
    places = rows_of_locations(found.locations)
    flat, at = [], 0
    numbers = (found.docs, found.freqs, found.norms, found.location_counts)
    for doc, freq, norm, count in zip(*(column.tolist() for column in numbers), strict=True):
        flat.append(Posting(doc, freq, norm, tuple(places[at : at + count])))
        at += count
    assert at == len(places)
    bounds = np.cumsum([0, *found.counts.tolist()]).tolist()
    assert bounds[-1] == len(flat)
    return [flat[a:b] for a, b in itertools.pairwise(bounds)]


FIELDS = 5
MODES = {
    11: (1, 2, 7, 1024, 1025, 1026, 5000, 2**32 - 1),
    12: (1, 3, 1000, 1024, 1025),
    13: (1, 2, 1024, 1025),
    14: (1, 5, 1024, 1025, 1026),
    15: (1, 2, 1024, 1025, 1026),
    16: (1, 1025, 1026),
    17: (2, 1025, 1026),
}
WIDE = ((11, 5000), (12, 1025), (15, 1026), (17, 1026))
KINDS = [(version, mode) for version in VERSIONS for mode in MODES[version]]
numbers = st.one_of(st.integers(0, 3), st.integers(0, 300), st.sampled_from([2**32, 2**62, 2**63 - 1]))
places = st.tuples(
    st.integers(0, FIELDS - 1),
    numbers,
    numbers,
    st.one_of(numbers, st.just(NOT)),
    st.one_of(st.just(()), st.lists(numbers, max_size=3).map(tuple)),
)


@st.composite
def posting_lists(draw: st.DrawFn, version: int, num_docs: int) -> Lists:
    """Lists of a few terms; in half of the cases each posting has as many locations as its frequency, as text has."""
    text = draw(st.booleans())
    found: Lists = []
    for _ in range(draw(st.integers(0, 4))):
        docs = draw(st.sets(st.integers(0, num_docs - 1), min_size=1, max_size=6))
        located = draw(st.booleans())
        one = []
        for doc in sorted(docs):
            here: tuple[Place, ...] = ()
            if located:
                here = tuple(draw(st.lists(places, max_size=3)))
            freq = len(here) if text else draw(numbers)
            if version < 15:
                freq = max(freq, len(here))
            one.append(Posting(doc, freq, draw(numbers) if freq or version < 15 else 0, here))
        found.append(one)
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Footer, Lists]:
    version, mode = draw(st.sampled_from(KINDS))
    num_docs = draw(st.one_of(st.integers(1, 8), st.sampled_from([1023, 1024, 1025, 70_000])))
    if num_docs > 3000 and mode < 1000:
        num_docs = 2000
    return Footer(version, num_docs, 0, 0, None, mode), draw(posting_lists(version, num_docs))


def decoded(data: bytes, values: np.ndarray, footer: Footer, *, base: int = 0, locations: bool = True) -> Postings:
    found = SegmentData(Sparse(base, data), base + len(data))
    records = decode_records(found, footer, values)
    return decode_postings(found, footer, FIELDS, records, locations=locations)


# ------------------------------------------------------------------ records


def segment_of(craft: SegmentBuilder, *, salvage: bool = False) -> Segment:
    return Segment.open(craft.finish(), salvage=salvage)


def read(craft: SegmentBuilder, at: int, *, locations: bool = True, salvage: bool = False) -> list[Posting]:
    """Read the list whose record is at an address, of a segment with `FIELDS` fields."""
    while len(craft.records) < FIELDS:
        craft.field(f"f{len(craft.records)}" if craft.records else "_id")
    with segment_of(craft, salvage=salvage) as segment:
        records = decode_records(segment.contents.data, segment.footer, np.array([at], np.uint64))
        (found,) = rows(decode_postings(segment.contents.data, segment.footer, FIELDS, records, locations=locations))
        return found


def refusal(craft: SegmentBuilder, at: int, *, locations: bool = True) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read(craft, at, locations=locations)
    assert caught.value.source == "<bytes>"
    assert caught.value.offset is not None
    return caught.value


def one_hit(doc: int, norm: int) -> int:
    return 2 << 62 | norm << 31 | doc
