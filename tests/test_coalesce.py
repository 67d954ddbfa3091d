"""Ranges of a file that are read together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import Recorder
from dvcodec import Truncated
from dvcodec.io import source as module
from dvcodec.io.source import by_windows, coalesce


def cut(ranges: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    table = np.array(ranges, np.int64).reshape(-1, 2)
    return list(coalesce(table[:, 0], table[:, 1]))


def test_what_is_read_at_once_has_16_mib() -> None:
    half = 1 << 23
    assert cut([(0, half), (half, half), (2 * half, 1)]) == [(0, 2, 0, 2 * half), (2, 3, 2 * half, 2 * half + 1)]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 90)), max_size=30))
def test_every_range_is_in_one_stretch(ranges: list[tuple[int, int]]) -> None:
    ranges = sorted(ranges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW_BYTES", 100)
        patch.setattr(module, "WINDOW_VECTORS", 4)
        patch.setattr(module, "_GAP", 20)
        found = cut(ranges)
    at = 0
    for first, last, start, stop in found:
        assert first == at < last <= first + 4
        assert (start, stop) == (ranges[first][0], max(offset + size for offset, size in ranges[first:last]))
        assert stop - start <= 100 or last == first + 1
        at = last
    assert at == len(ranges)


@given(st.lists(st.tuples(st.integers(-3, 130), st.integers(-2, 40)), min_size=2, max_size=9))
def test_windows_give_what_the_source_gives(ranges: list[tuple[int, int]]) -> None:
    data = bytes(range(120))
    source = Recorder(data)
    source.remote = True  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_GAP", 20)
        found = by_windows(source, *zip(*ranges, strict=True))
    valid = [(offset, size) for offset, size in ranges if offset >= 0 and size > 0 and offset + size <= len(data)]
    for offset, size in sorted(valid):
        assert found.read(offset, size) == data[offset : offset + size]
    assert source.reads == sorted(set(source.reads)), "each window once, and within the file"
    with pytest.raises(Truncated):
        found.read(len(data) - 1, 2)
