"""Chains against the loops that they stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dvcodec.core import varints
from dvcodec.core.cursor import Cursor
from dvcodec.zap import chunks
from samples.zap.segments import take, uv

TOP = 2**64 - 1
HUGE = (TOP, TOP - 4, 2**63, 2**63 - 1, 2**32)


class Row(NamedTuple):
    """Values, and spans of them."""

    values: list[int]
    starts: list[int]
    stops: list[int]


@pytest.fixture(params=[1000, 1, 10**9], autouse=True)
def hop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few strides, none at all, and as many as there can be."""
    monkeypatch.setattr(chunks, "_HOP", request.param)


def follow_counted(row: Row, head: int) -> tuple[list[int], list[int], int]:
    begins, owner, bad = [], [], -1
    for span, (start, stop) in enumerate(zip(row.starts, row.stops, strict=True)):
        at = start
        while at < stop:
            if at + head > stop or at + head + row.values[at + head - 1] > stop:
                bad = span if bad < 0 else bad
                break
            begins.append(at)
            owner.append(span)
            at += head + row.values[at + head - 1]
    return begins, owner, bad


@st.composite
def counted_rows(draw: st.DrawFn) -> tuple[Row, int]:
    head = draw(st.integers(1, 5))
    row = Row([], [], [])
    small = st.integers(0, 3)
    counts = draw(st.sampled_from([st.just(0), st.just(2), small]))
    for _ in range(draw(st.integers(0, 4))):
        row.values.extend(draw(st.lists(small, max_size=2)))  # a gap
        row.starts.append(len(row.values))
        for _ in range(draw(st.integers(0, 6))):
            more = draw(counts)
            row.values.extend(draw(small) for _ in range(head - 1))
            row.values.append(more)
            row.values.extend(draw(small) for _ in range(more))
        row.stops.append(len(row.values))
    for _ in range(draw(st.integers(0, 2)) if row.values else 0):
        row.values[draw(st.integers(0, len(row.values) - 1))] = draw(st.sampled_from((*HUGE, 0, 1, 2, 5)))
    return row, head


@given(counted_rows())
@example((Row([], [], []), 5))
@example((Row([], [0, 0], [0, 0]), 5))
@example((Row([0, 0, 0, 0, TOP], [0], [5]), 5))
@example((Row([0, 0, 0, 0, 0, 1], [0], [6]), 5))
@example((Row([1], [0, 0, 1], [0, 1, 1]), 1))
def test_counted(case: tuple[Row, int]) -> None:
    row, head = case
    begins, owner, bad = chunks.counted(
        np.array(row.values, np.uint64), np.array(row.starts, np.int64), np.array(row.stops, np.int64), head
    )
    expected = follow_counted(row, head)
    assert bad == expected[2]
    if bad < 0:
        assert (begins.tolist(), owner.tolist()) == expected[:2]


def follow_sized(row: Row, ends: list[int]) -> tuple[list[int], list[int], int]:
    begins, owner, bad = [], [], -1
    for span, (start, stop) in enumerate(zip(row.starts, row.stops, strict=True)):
        at = start
        while at < stop:
            target = ends[at] + row.values[at]
            if target not in ends[at:stop]:
                bad = span if bad < 0 else bad
                break
            begins.append(at)
            owner.append(span)
            at = ends.index(target, at) + 1
    return begins, owner, bad


@st.composite
def sized_rows(draw: st.DrawFn) -> tuple[Row, bytes]:
    row, out = Row([], [], []), bytearray()
    value = st.sampled_from([0, 1, 2, 3, 127, 128, 70_000])

    def put(*values: int) -> None:
        row.values.extend(values)
        out.extend(uv(*values))

    for _ in range(draw(st.integers(0, 4))):
        put(*draw(st.lists(value, max_size=2)))  # a gap
        row.starts.append(len(row.values))
        for _ in range(draw(st.integers(0, 5))):
            body = draw(st.lists(value, max_size=4)) or [0] * draw(st.sampled_from([0, 130]))
            put(len(uv(*body)), *body)
        row.stops.append(len(row.values))
    if out and draw(st.booleans()):
        at = draw(st.integers(0, len(out) - 1))
        out[at] = out[at] & 0x80 | draw(st.integers(0, 127))
        at = 0
        for i in range(len(row.values)):
            row.values[i], at = take(bytes(out), at)
    return row, bytes(out)


@given(sized_rows())
@example((Row([], [], []), b""))
@example((Row([], [0], [0]), b""))
@example((Row([TOP], [0], [1]), uv(TOP)))
@example((Row([2, 128], [0], [2]), uv(2, 128)))
@example((Row([1, 128], [0], [2]), uv(1, 128)))
def test_sized(case: tuple[Row, bytes]) -> None:
    row, raw = case
    values, ends = varints.decode(Cursor(raw), "entries")
    assert values.tolist() == row.values
    found, owner, bad = chunks.sized(values, ends, np.array(row.starts, np.int64), np.array(row.stops, np.int64))
    expected = follow_sized(row, ends.tolist())
    assert bad == expected[2]
    if bad < 0:
        assert (found.tolist(), owner.tolist()) == expected[:2]
