from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import Recorder
from dvcodec import Truncated
from dvcodec.io import source
from dvcodec.io.source import BLOCK_BYTES, BlockSource

DATA = bytes(i * 7919 >> 5 & 0xFF for i in range(3 * BLOCK_BYTES + 100))


@given(st.integers(0, len(DATA)), st.integers(0, 2 * BLOCK_BYTES + 5))
def test_every_range_is_that_of_the_source(offset: int, size: int) -> None:
    size = min(size, len(DATA) - offset)
    assert bytes(BlockSource(Recorder(DATA)).read(offset, size)) == DATA[offset : offset + size]


def test_a_block_is_read_once() -> None:
    counted = Recorder(DATA)
    source = BlockSource(counted)
    for offset in (0, 10, 500, BLOCK_BYTES - 4):
        source.read(offset, 4)
    source.read(BLOCK_BYTES - 2, 4)
    source.read(len(DATA) - 1, 1)
    assert counted.reads == [(0, BLOCK_BYTES), (BLOCK_BYTES, BLOCK_BYTES), (3 * BLOCK_BYTES, 100)]


def test_a_large_range_goes_through_as_it_is() -> None:
    counted = Recorder(DATA)
    BlockSource(counted).read(10, 2 * BLOCK_BYTES)
    assert counted.reads == [(10, 2 * BLOCK_BYTES)]


def test_the_blocks_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BLOCKS", 2)
    counted = Recorder(DATA)
    blocks = BlockSource(counted)
    for number in (0, 1, 0, 2, 0, 1):
        blocks.read(number * BLOCK_BYTES, 1)
    assert [offset // BLOCK_BYTES for offset, _ in counted.reads] == [0, 1, 2, 1]


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (len(DATA), 1), (len(DATA) - 1, 2)])
def test_a_range_outside_is_truncated(offset: int, size: int) -> None:
    with pytest.raises(Truncated):
        BlockSource(Recorder(DATA)).read(offset, size)
