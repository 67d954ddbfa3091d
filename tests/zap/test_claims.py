"""What the parts of a segment claim of its bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from io import BytesIO
from itertools import chain
from typing import Any

import pytest

from cases import each
from dvcodec import NotCanonical, zap
from samples.zap.segments import VERSIONS, SegmentBuilder, chunked, minimal, norm, take, uv
from samples.zap.vellum import blob, one

ONE_RUN = bytes.fromhex("3b300000 01 0000 0000 0100 0000 0000".replace(" ", ""))
"""A bitmap with a run, of document 0: such bitmaps are read one by one."""
READERS: dict[str, Callable[[zap.Segment], Any]] = {
    "lists": lambda segment: list(segment.lists("f")),
    "prefix": lambda segment: list(segment.terms("f", prefix=b"t")),
    "to_arrow terms": lambda segment: list(segment.to_arrow("terms")),
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
    entry = bytes([1, 1, 0, 0, 5, *range(5)]) * 50  # array positions take bytes too
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
    """One in another, and so on: fields would share most of their bytes."""
    craft, data = minimal(version, 1), blob(one(97, 0), 1)
    for _ in range(40):
        data = blob(uv(len(data)) + data + one(97, 0), 1)
    at = craft.put(uv(len(data)) + data)
    names = [f"f{i}" for i in range(40)]
    for name in names:
        craft.field(name, at)
        at = take(bytes(craft.out), at)[1] + 16
    with zap.Segment.open(craft.finish()) as segment:
        with pytest.raises(NotCanonical, match=r"dictionaries overlap: expected at most [0-9]+ bytes, found [0-9]+"):
            deque(map(segment.dictionary, names), maxlen=0)
        assert segment.dictionary("f0") is not None  # it is read again
