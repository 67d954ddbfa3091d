"""Encoded arrays against lists of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.core.cursor import Cursor
from dvcodec.lance import EncodedArray
from dvcodec.lance.segments import ArrayParts
from samples.lance import TOP, WIDTHS, Arr, starts

values = st.one_of(st.integers(0, 300), st.integers(0, 2**33), st.integers(0, TOP), st.integers(TOP - 10, TOP))


@st.composite
def arrays(draw: st.DrawFn, ascending: bool = False) -> Arr:
    width = draw(st.sampled_from(WIDTHS))
    most = min((1 << 8 * width) - 1, TOP)
    offsets = draw(st.lists(st.one_of(st.integers(0, min(most, 50)), st.integers(0, most)), max_size=20))
    if ascending:
        offsets = sorted(set(offsets))
    base = 0 if width == 8 else draw(starts)
    return Arr(width, min(base, TOP - max(offsets, default=0)), tuple(offsets))


def decode(data: bytes) -> EncodedArray:
    parts = ArrayParts()
    cursor = Cursor(data)
    parts.read(cursor)
    return parts.finish(cursor, 0)


@given(arrays())
def test_array_is_its_list(spec: Arr) -> None:
    array = spec.ours()
    data = spec.message().SerializeToString()
    assert array.encode() == data
    assert decode(data) == array
    assert array.to_numpy().tolist() == spec.values()
    assert array.to_numpy().dtype == np.uint64
    assert len(array) == len(spec.offsets)
    assert [array.at(i) for i in range(len(array))] == spec.values()
    assert array.ascends is (sorted(set(spec.values())) == spec.values())


@given(arrays(ascending=True), values)
def test_search_counts_what_is_below(spec: Arr, value: int) -> None:
    array = spec.ours()
    near = {near for known in spec.values() for near in (known - 1, known, known + 1)}
    for wanted in near | {value, 0, TOP, -1, TOP + 1, spec.base}:
        assert array.search(wanted) == sum(known < wanted for known in spec.values())
