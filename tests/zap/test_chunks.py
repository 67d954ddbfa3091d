"""Chunks of postings: how large they are, and how they are laid out."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.chunks import (
    ChunkedBlocks,
    chunk_sizes,
    encode_blocks,
    interleave,
    read_blocks,
)
from samples.zap import parts
from samples.zap.segments import NOT, chunked, take, uv

Blocks = list[list[list[int]]]
"""The varints in the chunks of blocks."""
values = st.one_of(st.integers(0, 300), st.sampled_from([2**32, 2**63, NOT]))
block_lists = st.lists(st.lists(st.lists(values, max_size=4), min_size=1, max_size=4), max_size=4)

# ------------------------------------------------------------------ sizes


def test_the_worked_examples() -> None:
    """3001 documents, all of which have the term: 4 chunks, not 3."""
    cards = np.array([3001, 1024, 1])
    assert chunk_sizes(15, 1026, 3001, cards).tolist() == [1000, 1500, 3001]
    assert chunk_sizes(12, 1025, 3001, cards).tolist() == [1024, 3001, 3001]
    assert chunk_sizes(11, 100, 3001, cards).tolist() == [100] * 3
    assert chunk_sizes(11, 1026, 3001, cards).tolist() == [1026] * 3


# ------------------------------------------------------------------ blocks


def read(
    raw: bytes, places: list[int], counts: list[int], entries: list[int] | None = None, *, salvage: bool = False
) -> ChunkedBlocks:
    data = dataclasses.replace(parts.segment(raw), salvage=salvage)
    wanted = None if entries is None else np.array(entries, np.int64)
    return read_blocks(data, np.array(places, np.int64), np.array(counts, np.int64), "some", entries=wanted)


def contents(found: ChunkedBlocks, counts: list[int]) -> Blocks:
    """Take chunks apart by both of the ways that they can be."""
    bounds = found.firsts.tolist()
    flat = [found.values[a:b].tolist() for a, b in itertools.pairwise(bounds)]
    data = bytes(found.cursor.view)
    assert [data[a:b] for a, b in itertools.pairwise(found.bounds.tolist())] == [uv(*chunk) for chunk in flat]
    assert [take(data, at)[0] for at in found.edges[:-1].tolist()] == found.values.tolist()
    assert bounds[-1] == len(found.values)
    stops = list(itertools.accumulate(counts, initial=0))
    return [flat[a:b] for a, b in itertools.pairwise(stops)]


@given(block_lists, st.integers(0, 300), st.randoms())
@example([[[]]], 0, None)
@example([[[], [], []], [[1], [], [300]]], 5, None)
def test_blocks_come_back_as_they_were(spec: Blocks, gap: int, dice: object) -> None:
    counts = [len(block) for block in spec]
    chunks = [uv(*chunk) for block in spec for chunk in block]
    found = encode_blocks(
        np.array(counts, np.int64),
        np.array([len(chunk) for chunk in chunks], np.int64),
        np.frombuffer(b"".join(chunks), np.uint8),
    ).to_list()
    assert found == [chunked([uv(*chunk) for chunk in block]) for block in spec]
    order = list(range(len(spec)))
    if dice is not None:
        dice.shuffle(order)  # type: ignore[attr-defined]
    raw, places = bytes(gap), dict.fromkeys(order, 0)
    for i in order:
        places[i] = len(raw)
        raw += found[i] + b"\xff" * (i % 2)
    assert contents(read(raw, [places[i] for i in range(len(spec))], counts), counts) == spec


def test_errors_have_the_file_offset_of_the_chunk() -> None:
    first, second = chunked([uv(1), uv(2)]), chunked([uv(3, 4), b"", uv(5)])
    raw = b"???" + second + b"?" + first
    found = read(raw, [4 + len(second), 3], [2, 3])
    starts = [len(raw) - 2, len(raw) - 1, 3 + len(uv(3, 2, 2, 3)), 0, 3 + len(second) - 1]
    for chunk in (0, 1, 2, 4):
        error = found.error("x", chunk, expected=1, actual=2)
        assert (error.what, error.offset, error.source) == ("x", starts[chunk], "crafted")
    with pytest.raises(NotCanonical) as caught:
        found.expect("numbers", np.array([1, 1, 2, 0, 1]), np.array([1, 1, 2, 0, 9]))
    assert (caught.value.offset, caught.value.expected, caught.value.actual) == (starts[4], 9, 1)
    found.expect("numbers", np.array([1]), np.array([1]))


WRONG = {
    "too few chunks": (chunked([b"\1"]), 2),
    "too many chunks": (chunked([b"\1"] * 3), 2),
    "no chunk": (uv(0), 1),
    "chunks by the million": (uv(2**40), 2),
    "chunks beyond counting": (uv(NOT), 2),
    "ends that descend": (chunked([b"\1", b"\1"], ends=[2, 1]), 2),
    "ends that descend to 0": (chunked([b"\1", b"\1"], ends=[1, 0]), 2),
    "an end beyond the segment": (chunked([b"\1"], ends=[2]), 1),
    "a first end beyond the segment": (chunked([b"\1", b"\1"], ends=[2**40, 1]), 2),
    "an end above 2**63": (chunked([b"\1"], ends=[2**63 + 1]), 1),
    "the highest end": (chunked([b"\1"], ends=[NOT]), 1),
    "a chunk that ends inside of a varint": (chunked([b"\x80", b"\1"]), 2),
    "a varint of eleven bytes": (chunked([b"\x80" * 10 + b"\1"]), 1),
    "a varint of 65 bits": (chunked([b"\xff" * 9 + b"\2"]), 1),
    "ends that are no varints": (uv(2) + b"\xff" * 11, 2),
    "ends that are missing": (uv(2) + b"\1", 2),
}


@each("name", WRONG)
def test_hazard_wrong_blocks(name: str) -> None:
    raw, count = WRONG[name]
    for entries in (None, [0] * count):
        with pytest.raises(DecodeError) as caught:
            read(b"?" + raw, [1], [count], entries)
        assert "some" in caught.value.what
        assert caught.value.offset is not None
    with pytest.raises(DecodeError):
        read(chunked([b"\1"]) + raw, [0, 3], [1, count])


# ------------------------------------------------------------------ rows


@given(st.integers(1, 4), st.data())
def test_columns_are_joined_row_by_row(width: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.lists(st.binary(max_size=4), min_size=width, max_size=width), max_size=6))
    columns = [ByteStrings.from_list([row[k] for row in rows]) for k in range(width)]
    assert interleave(columns).to_list() == [b"".join(row) for row in rows]
