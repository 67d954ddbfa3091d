"""Locations: the guess that holds for plain text against following the entries, and both against one by one."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from battery import outcome
from cases import each
from dvcodec import DecodeError
from dvcodec.zap import chunks, postings
from dvcodec.zap.postings import decode_locations
from samples.zap import parts
from samples.zap.postings import Place, rows_of_locations
from samples.zap.segments import NOT, chunked, uv

FIELDS = 3
NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 20_000), st.sampled_from([2**63, NOT]))
ARRAYS = st.lists(NUMBERS, max_size=3).map(tuple)
PLACES = st.tuples(st.integers(0, FIELDS - 1), NUMBERS, NUMBERS, NUMBERS, st.one_of(st.just(()), ARRAYS))
ENTRIES = st.lists(st.lists(st.lists(PLACES, min_size=0, max_size=3), max_size=3), min_size=1, max_size=4)
"""Chunks of entries of locations."""

Found = tuple[list[int], list[Place]]


class Case(NamedTuple):
    """Raw chunks, postings with locations in each, and the frequency of each posting."""

    raw: list[bytes]
    per_chunk: list[int]
    freqs: list[int]


def entry(places: list[Place]) -> bytes:
    body = b"".join(uv(*place[:4], len(place[4]), *place[4]) for place in places)
    return uv(len(body)) + body


def case_of(entries: list[list[list[Place]]]) -> Case:
    return Case(
        [b"".join(entry(one) for one in chunk) for chunk in entries],
        [len(chunk) for chunk in entries],
        [len(one) for chunk in entries for one in chunk],
    )


def decode(case: Case) -> Found:
    data = parts.segment(b"?" + chunked(case.raw))
    blocks = chunks.read_blocks(data, np.ones(1, np.int64), np.array([len(case.raw)]), "location")
    counts, found = decode_locations(
        blocks, np.array(case.per_chunk, np.int64), np.array(case.freqs, np.uint64), FIELDS
    )
    return counts.tolist(), rows_of_locations(found)


def check(case: Case, monkeypatch: pytest.MonkeyPatch) -> Found | DecodeError:
    """Decode with the guess and without it, by few strides, by none and by many; return what all find."""
    found = outcome(decode, case)  # type: ignore[arg-type]
    for hop in (1000, 1, 10**9):
        with monkeypatch.context() as patch:
            patch.setattr(postings, "_plain", lambda *_: None)
            patch.setattr(chunks, "_HOP", hop)
            slowly = outcome(decode, case)  # type: ignore[arg-type]
        assert slowly == found or (type(slowly), str(slowly)) == (type(found), str(found))
    return found


@settings(max_examples=examples(300))
@given(ENTRIES, st.integers(0, 2**32))
def test_damaged_locations_are_refused_or_what_the_bytes_say(entries: list[list[list[Place]]], seed: int) -> None:
    case, dice = case_of(entries), random.Random(seed)
    raw = [bytearray(chunk) for chunk in case.raw]
    for _ in range(dice.choice((1, 1, 2))):
        chunk = dice.choice(raw)
        at = dice.randrange(len(chunk) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            chunk[at:at] = bytes([dice.choice((0, 1, 5, 6, 0x80))])
        elif kind == 1:
            del chunk[at : at + 1]
        elif at < len(chunk):
            chunk[at] = dice.choice((0, 1, 5, 6, 0x7F, 0x80, 0xFF, chunk[at] ^ 1))
    per_chunk = [count + dice.choice((0, 0, 0, 0, 0, 1, -1)) for count in case.per_chunk]
    freqs = [1] * max(sum(count for count in per_chunk if count > 0), 0)
    damaged = Case([bytes(chunk) for chunk in raw], [max(count, 0) for count in per_chunk], freqs)
    with pytest.MonkeyPatch.context() as patch:
        check(damaged, patch)


WRONG = {
    "an entry that leaves its chunk": [uv(6, 0, 1, 1, 1, 0)],
    "an entry that ends inside of a location": [uv(4, 0, 1, 1, 1, 0)],
    "an entry that ends inside of a varint": [uv(5, 0, 1, 1, 300, 0)],
    "an entry that is huge": [uv(2**63 + 5, 0, 1, 1, 1, 0)],
    "array positions that leave the entry": [uv(5, 0, 1, 1, 1, 1)],
    "array positions that take the next entry": [uv(5, 0, 1, 1, 1, 1), uv(5, 0, 1, 1, 1, 0)],
    "huge array positions": [uv(14, 0, 1, 1, 1, NOT)],
    "a field that is not there": [uv(5, FIELDS, 1, 1, 1, 0)],
    "a field far away": [uv(14, NOT, 1, 1, 1, 0)],
    "bytes behind the last entry": [uv(5, 0, 1, 1, 1, 0, 5)],
    "an entry too many": [uv(5, 0, 1, 1, 1, 0, 0)],
    "no entry": [b""],
    "half a varint": [uv(6, 0, 1, 1, 1, 0) + b"\x80"],
}


@each("name", WRONG)
@each("freq", [1, 2, 0])
def test_hazard_wrong_entries(name: str, freq: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = WRONG[name]
    found = check(Case(raw, [1] * len(raw), [freq] * len(raw)), monkeypatch)
    assert isinstance(found, DecodeError)
    found = check(Case([b"", *raw, b""], [0, *[1] * len(raw), 0], [freq] * len(raw)), monkeypatch)
    assert isinstance(found, DecodeError)
