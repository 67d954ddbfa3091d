"""Dictionaries where they stand in a segment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError
from dvcodec.core.errors import LimitExceeded
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import ByteStrings
from dvcodec.zap.vellum import build, decode_dictionary, encode_dictionary
from samples.zap.parts import Sample, segment
from samples.zap.segments import NOT, uv

terms = st.dictionaries(st.binary(max_size=4), st.integers(0, NOT), max_size=20)


def encoded(spec: dict[bytes, int]) -> bytes:
    keys = sorted(spec)
    return encode_dictionary(ByteStrings.from_list(keys), np.array([spec[key] for key in keys], np.uint64))


@given(terms, st.integers(0, 200))
def test_terms_come_back_as_they_were(spec: dict[bytes, int], at: int) -> None:
    raw = bytes(at) + encoded(spec) + b"something behind"
    fst = decode_dictionary(segment(raw), at)
    assert fst.num_keys == len(spec)
    assert list(fst.range()) == sorted(spec.items())
    blocks = list(fst.blocks())
    found = [pair for block in blocks for pair in zip(block.keys, block.values.tolist(), strict=True)]
    assert found == sorted(spec.items())
    assert all(fst.get(key) == value for key, value in spec.items())


def test_dictionaries_are_written_as_go_does(samples: list[Sample]) -> None:
    for sample in samples:
        for info in sample.fields:
            assert info.dictionary is not None
            block = decode_dictionary(sample.data, info.dictionary).to_block()
            data = encode_dictionary(block.keys, block.values)
            assert sample.raw[info.dictionary : info.dictionary + len(data)] == data


FST = build(ByteStrings.from_list([b"a", b"b"]), np.array([1, 2], np.uint64))
WRONG = {
    "no bytes": uv(0),
    "too few bytes": uv(31) + FST,
    "a byte short": uv(len(FST) - 1) + FST,
    "more bytes than there are": uv(len(FST) + 1) + FST,
    "a huge size": uv(2**63) + FST,
    "the highest size": uv(NOT) + FST,
    "a size that does not end": b"\xff" * 10,
    "a size of eleven bytes": b"\x80" * 10 + b"\1" + FST,
}


@each("name", WRONG)
def test_hazard_wrong_sizes(name: str) -> None:
    raw = b"???" + WRONG[name]
    with pytest.raises(DecodeError) as caught:
        decode_dictionary(segment(raw), 3)
    assert caught.value.offset is not None
    assert 3 <= caught.value.offset <= len(raw)


def test_bytes_of_keys_are_counted_for_all_dictionaries_of_a_segment() -> None:
    """Keys that share a long suffix: 256 of a kilobyte each, in 2000 bytes."""
    raw = encoded({bytes((i,)) + b"x" * 1000: 0 for i in range(256)})
    assert len(raw) < 2000
    data = segment(raw * 2)
    room = Limits(max_blob_bytes=2 * 256 * 1001 - 1 - 2 * len(raw))
    for _ in range(3):  # reading them again counts once
        fst = decode_dictionary(data, 0, room)
        assert len(fst.to_block()) == len(list(fst.range())) == 256
    second = decode_dictionary(data, len(raw), room)
    with pytest.raises(LimitExceeded, match=r"Limits\.max_blob_bytes: .* found 512512 for "):
        second.to_block()
    assert second.get(b"a" + b"x" * 1000) == 0
    tight = Limits(max_blob_bytes=100_000)
    with pytest.raises(LimitExceeded, match="max_blob_bytes"):
        list(decode_dictionary(segment(raw), 0, tight).range())
