"""Varints by the thousand, against `Cursor.uvarint` one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amounts import examples
from dvcodec.core import varints
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, NotCanonical, Truncated

Read = Callable[[Cursor], object]
TOP = 2**64 - 1
EDGES = sorted(
    {value for k in range(1, 10) for value in (2 ** (7 * k) - 1, 2 ** (7 * k))} | {0, 1, 2**63, TOP - 1, TOP}
)
values = st.one_of(st.sampled_from(EDGES), st.integers(0, 200), st.integers(0, TOP))
noise = st.lists(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]), max_size=40).map(bytes)
"""Bytes that are varints of all lengths, and too long ones."""


def one_by_one(data: bytes, at: int) -> tuple[int, int] | type[DecodeError]:
    cursor = Cursor(data)
    cursor.pos = at
    try:
        return cursor.uvarint("x"), cursor.pos
    except DecodeError as error:
        return type(error)


def padded(value: int, size: int) -> bytes:
    """A varint of a chosen length; the shortest is not asked for."""
    groups = [value >> 7 * k & 0x7F for k in range(size)]
    return bytes([group | 0x80 for group in groups[:-1]] + [groups[-1]])


@given(st.lists(values, max_size=20))
@example(EDGES)
@example([])
def test_encoding_is_that_of_each_value(spec: list[int]) -> None:
    data, sizes = varints.encode(np.array(spec, np.uint64))
    assert data.tobytes() == b"".join(varints.uvarints(value) for value in spec) == varints.uvarints(*spec)
    assert sizes.tolist() == varints.sizes(np.array(spec, np.uint64)).tolist()
    assert sizes.tolist() == [max((value.bit_length() + 6) // 7, 1) for value in spec]


@given(st.lists(values, max_size=20))
@example(EDGES)
def test_values_come_back_as_they_were(spec: list[int]) -> None:
    data, sizes = varints.encode(np.array(spec, np.uint64))
    found, lasts = varints.decode(Cursor(data), "x")
    assert found.dtype == np.uint64
    assert found.tolist() == spec
    assert lasts.tolist() == [end - 1 for end in itertools.accumulate(sizes.tolist())]
    assert varints.read_at(Cursor(data), np.cumsum(sizes) - sizes, "x")[0].tolist() == spec


@settings(max_examples=examples(300))
@given(noise)
def test_decoding_a_window_is_reading_one_by_one(data: bytes) -> None:
    expected: list[int] = []
    at, wrong = 0, None
    while at < len(data):
        one = one_by_one(data, at)
        if isinstance(one, type):
            wrong = one
            break
        expected.append(one[0])
        at = one[1]
    try:
        found, lasts = varints.decode(Cursor(data, base=7), "x")
    except DecodeError as error:
        assert wrong is not None
        assert error.offset is not None
        assert error.offset - 7 >= at or isinstance(error, Truncated)
    else:
        assert wrong is None
        assert found.tolist() == expected
        assert len(lasts) == len(expected)


@st.composite
def run_cases(draw: st.DrawFn) -> tuple[bytes, list[int], list[int]]:
    """Bytes, and runs in them: in any order, empty, overlapping, at the very end, or outside."""
    data = draw(st.one_of(noise, st.lists(values, max_size=12).map(lambda spec: varints.uvarints(*spec))))
    place = st.integers(0, len(data)) if draw(st.booleans()) else st.integers(-2, len(data) + 2)
    runs = draw(st.lists(st.tuples(place, st.integers(0, 4)), max_size=5))
    return data, [at for at, _ in runs], [count for _, count in runs]


@settings(max_examples=examples(250))
@pytest.mark.parametrize("far", [0, 1, 1000])
@given(case=run_cases())
@example(case=(b"\x05", [1], [0]))
@example(case=(b"", [0], [0]))
@example(case=(b"\x80\x80", [0], [0]))
@example(case=(b"\x80\x80\x01\x02", [1, 0], [2, 1]))
@example(case=(b"\x01" * 5, [3, 0], [2, 0]))
@example(case=(b"\x01\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", [0], [1]))
def test_reading_runs_is_reading_one_by_one(case: tuple[bytes, list[int], list[int]], far: int) -> None:
    """Whether the window is read, or the runs are copied out of it first."""
    data, starts, counts = case
    expected: list[int] | None = []
    stops = []
    for at, count in zip(starts, counts, strict=True):
        if not 0 <= at <= len(data):
            expected = None
            break
        here: int | None = at
        for _ in range(count):
            one = one_by_one(data, here) if here is not None and here < len(data) else Truncated
            if isinstance(one, type):
                expected = here = None
                break
            if expected is not None:
                expected.append(one[0])
            here = one[1]
        stops.append(here)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(varints, "_FAR", far)
            found, behind = varints.read_runs(Cursor(data), np.array(starts, np.int64), np.array(counts, np.int64), "x")
    except DecodeError:
        assert expected is None
    else:
        assert expected is not None
        assert found.tolist() == expected
        assert behind.tolist() == stops


LONG = {
    "eleven bytes": padded(0, 11),
    "65 bits": b"\x80" * 9 + b"\x02",
    "70 bits": b"\xff" * 9 + b"\x7f",
    "thirty bytes": b"\xff" * 29 + b"\x01",
}


def check_refused(reads: tuple[Read, ...], data: bytes, kind: type[DecodeError], offset: int) -> None:
    for read in reads:
        with pytest.raises(kind) as caught:
            read(Cursor(data, source="file", base=50))
        assert (caught.value.what, caught.value.source) == ("a number", "file")
        assert (caught.value.offset or 0) - 50 == offset


@pytest.mark.parametrize("name", LONG)
def test_too_long_ones_are_refused_everywhere(name: str) -> None:
    data = b"\x05" + LONG[name] + b"\x06"
    reads: tuple[Read, ...] = (
        lambda cursor: varints.decode(cursor, "a number"),
        lambda cursor: varints.read_at(cursor, np.array([0, 1]), "a number"),
        lambda cursor: varints.read_runs(cursor, np.array([1]), np.array([1]), "a number"),
    )
    check_refused(reads, data, NotCanonical, 1)
    runs: Read = lambda cursor: varints.read_runs(cursor, np.array([0]), np.array([2]), "a number")  # noqa: E731
    with pytest.raises(NotCanonical):
        runs(Cursor(data))


def test_truncated_varints_report_where_they_begin() -> None:
    data = varints.uvarints(1, 300) + b"\xff\xff"
    reads: tuple[Read, ...] = (
        lambda cursor: varints.decode(cursor, "a number"),
        lambda cursor: varints.read_at(cursor, np.array([1, 3]), "a number"),
        lambda cursor: varints.read_runs(cursor, np.array([3]), np.array([1]), "a number"),
    )
    check_refused(reads, data, Truncated, 3)
    check_refused((lambda cursor: varints.read_at(cursor, np.array([0, 1]), "a number"),), b"\1", Truncated, 1)
