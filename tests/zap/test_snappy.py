"""Snappy blocks: what they announce is not believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, Limits, NotCanonical, Truncated
from dvcodec.core.cursor import Cursor
from dvcodec.core.ragged import offsets_of
from dvcodec.zap import chunks
from samples.zap.parts import pack
from samples.zap.segments import uv


def unpack(blocks: list[bytes], limits: Limits | None = None) -> list[bytes]:
    cursor = Cursor(b"".join(blocks), source="here", base=1000)
    bounds = offsets_of(np.array([len(block) for block in blocks], np.int64))
    sizes = chunks.content_sizes(cursor, bounds[:-1], bounds[1:], "blocks", limits=limits or Limits())
    places = offsets_of(sizes)
    out = np.empty(int(places[-1]), np.uint8)
    chunks.decompress_into(cursor, bounds[:-1], bounds[1:], out, places[:-1], sizes, "blocks")
    return [out[low:high].tobytes() for low, high in zip(places[:-1].tolist(), places[1:].tolist(), strict=True)]


@given(st.lists(st.one_of(st.binary(), st.text("ab", min_size=50, max_size=500).map(str.encode)), max_size=5))
@example([b"a" * 100_000, b"ab" * 50_000])
def test_both_ways(contents: list[bytes]) -> None:
    bounds = offsets_of(np.array([len(content) for content in contents], np.int64))
    data = np.frombuffer(b"".join(contents), np.uint8)
    blocks = chunks.compress(data, bounds[:-1], bounds[1:])
    assert blocks == [pack(content) for content in contents]
    assert unpack(blocks) == contents


@each(
    ("block", "kind", "what"),
    [
        (b"", Truncated, "blocks: expected a snappy block"),
        (b"\x80", Truncated, "content size"),
        (b"\x03", NotCanonical, "content size"),
        (b"\x00\x00", NotCanonical, "blocks"),
        (b"\x00\x08abc", NotCanonical, "blocks"),
        (b"\x03\x08abcd", NotCanonical, "blocks"),
        (uv(8) + b"\x0cabcd" + b"\x01\x05", NotCanonical, "blocks"),  # a copy from in front
        (uv(2**32) + b"\xfe\x01\x00" * 10, NotCanonical, "content size"),
        (uv(2**64 - 1) + b"\x08abc", NotCanonical, "content size"),
        (b"\xff" * 9 + b"\x02\x08abc", NotCanonical, "content size"),
        (uv(577) + b"\xfe\x01\x00" * 9, NotCanonical, "content size"),
    ],
)
def test_refused(block: bytes, kind: type[DecodeError], what: str) -> None:
    good = pack(b"good")
    for blocks in ([block], [good, block]):
        with pytest.raises(kind, match=what) as caught:
            unpack(blocks)
        assert caught.value.offset is not None
        assert caught.value.offset >= 1000 + sum(map(len, blocks[:-1]))
        assert caught.value.source == "here"


def test_a_size_ends_with_its_block() -> None:
    """The next block's bytes are not taken for the rest of a size."""
    with pytest.raises(Truncated, match="content size"):
        unpack([b"\x80", b"\x00"])
