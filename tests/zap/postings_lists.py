"""Postings lists for the tests: drawn, and read out of crafted segments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from dvcodec import DecodeError
from dvcodec.zap import Segment
from dvcodec.zap.data import SegmentData
from dvcodec.zap.footer import Footer
from dvcodec.zap.postings import decode_postings
from dvcodec.zap.postings_lists import Postings
from dvcodec.zap.postings_records import decode_records
from zap.craft import NOT, VERSIONS, Craft
from zap.slow import Lists, Place, Posting, Sparse, rows

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


def segment_of(craft: Craft) -> Segment:
    return Segment.open(craft.finish())


def read(craft: Craft, at: int, *, locations: bool = True) -> list[Posting]:
    """Read the list whose record is at an address, of a segment with `FIELDS` fields."""
    while len(craft.records) < FIELDS:
        craft.field(f"f{len(craft.records)}" if craft.records else "_id")
    with segment_of(craft) as segment:
        records = decode_records(segment.contents.data, segment.footer, np.array([at], np.uint64))
        (found,) = rows(decode_postings(segment.contents.data, segment.footer, FIELDS, records, locations=locations))
        return found


def refusal(craft: Craft, at: int, *, locations: bool = True) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read(craft, at, locations=locations)
    assert caught.value.source == "<bytes>"
    assert caught.value.offset is not None
    return caught.value


def one_hit(doc: int, norm: int) -> int:
    return 2 << 62 | norm << 31 | doc
