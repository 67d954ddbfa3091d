"""What the parts of a segment claim of its bytes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from io import BytesIO
from itertools import chain
from typing import Any

import pytest

from cases import each
from dvcodec import NotCanonical, zap
from dvcodec.zap.footer import Claims
from samples.zap.segments import VERSIONS, SegmentBuilder, chunked, minimal, norm, uv

ONE_RUN = bytes.fromhex("3b300000 01 0000 0000 0100 0000 0000".replace(" ", ""))
"""A bitmap with a run, of document 0: such bitmaps are read one by one."""
READERS: dict[str, Callable[[zap.Segment], Any]] = {
    "lists": lambda segment: list(segment.lists("f")),
    "terms": lambda segment: list(segment.terms("f")),
    "prefix": lambda segment: list(segment.terms("f", prefix=b"t")),
    "to_arrow terms": lambda segment: list(segment.to_arrow("terms")),
    "to_arrow postings": lambda segment: list(segment.to_arrow("postings")),
    "merge": lambda segment: zap.merge_segments(BytesIO(), [segment]),
}


def one_run(craft: SegmentBuilder, located: int = 0, **more: Any) -> int:
    """A list of document 0, whose term it has once, or at some places; return the address of its record."""
    freq = 2 * located + 1 if located else 2
    return craft.postings(ONE_RUN, chunked([uv(freq, norm(craft.version, 1))]), **more)


def sharing(version: int, terms: int, shared: bool, located: int = 0) -> bytes:
    """A field whose terms have one list, or one each; with locations of the only posting."""
    craft = minimal(version, 1)
    entry = bytes([1, 1, 0, 0, 0]) * located
    places = chunked([uv(len(entry)) + entry]) if located else None

    def record() -> int:
        return one_run(craft, located, places=places)

    first = record()
    at = [first] + [first if shared else record() for _ in range(terms - 1)]
    craft.field("f", craft.dictionary({f"t{i:05}".encode(): place for i, place in enumerate(at)}))
    return craft.finish()


def test_spans_are_claimed_once() -> None:
    claims = Claims()
    assert claims.add_span("a", 10, 20) is None
    assert claims.add_span("a", 10, 20) is None  # it is read again
    assert claims.add_span("b", 15, 25) is None  # another kind of part
    assert claims.add_span("a", 20, 30) is claims.add_span("a", 5, 10) is None
    for start, stop in ((10, 19), (10, 21), (11, 12), (9, 11), (0, 100), (19, 20), (29, 40), (4, 6)):
        found = claims.add_span("a", start, stop)
        assert found is not None
        assert found[0] < stop
        assert start < found[1]


@each("version", [11, 15, 17])
@each("reader", READERS)
def test_terms_share_no_lists(version: int, reader: str) -> None:
    """Each would be read by itself: postings of any number in a small file."""
    read = READERS[reader]
    with zap.Segment.open(sharing(version, 500, shared=True)) as segment, pytest.raises(NotCanonical) as caught:
        read(segment)
    assert "overlap" in str(caught.value) or "of a dictionary" in str(caught.value)
    with zap.Segment.open(sharing(version, 500, shared=False)) as segment:
        for _ in range(2):  # reading it again claims nothing more
            read(segment)


@each("version", VERSIONS)
def test_lists_share_no_locations(version: int) -> None:
    """Lists of their own whose records all name one block of locations."""
    craft = minimal(version, 1)
    entry = bytes([1, 1, 0, 0, 0]) * 100
    places = craft.put(chunked([uv(len(entry)) + entry]))
    for name in "abcdefgh":
        craft.field(name, craft.dictionary({b"t": one_run(craft, 100, location_at=places)}))
    with zap.Segment.open(craft.finish()) as segment:
        for name in "abcdefgh":
            list(segment.lists(name))
        with pytest.raises(NotCanonical, match=r"locations overlap: expected at most [0-9]+ bytes, found [0-9]+"):
            deque(chain.from_iterable(segment.lists(name, locations=True) for name in "abcdefgh"), maxlen=0)
    with zap.Segment.open(sharing(version, 20, shared=False, located=100)) as segment:
        assert sum(len(found.locations) for _, found in segment.lists("f", locations=True)) == 2000


@each("version", VERSIONS)
def test_dictionaries_share_no_bytes(version: int) -> None:
    """One within another, with a header of its own: fields would share all their terms."""
    craft = minimal(version, 1)
    at = craft.dictionary({b"t": craft.postings([0])})
    size = craft.out[at]
    assert size < 128
    craft.field("a", at)
    craft.field("b", at + 1)
    with zap.Segment.open(craft.finish()) as segment:
        assert list(segment.terms("a")) == [(b"t", 1)]
        message = f"dictionaries overlap: expected none of bytes {at} to {at + 1 + size}, which another one has"
        with pytest.raises(NotCanonical, match=re.escape(message)):
            list(segment.terms("b"))
        assert list(segment.terms("a")) == [(b"t", 1)]
