from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.zap.locations import convert_norms, norm_values, norms_from_lengths


def single(value: float) -> float:
    (found,) = struct.unpack("<f", struct.pack("<f", value))
    return float(found)


@pytest.mark.parametrize("version", range(11, 18))
@given(length=st.integers(1, 2**32 - 1))
def test_a_norm_is_the_rounded_reciprocal_root_of_the_length(version: int, length: int) -> None:
    stored = norms_from_lengths(version, np.array([length], np.uint64))
    assert float(norm_values(version, stored)[0]) == single(1 / math.sqrt(length))
    if version >= 15:
        assert stored.tolist() == [length]
    else:
        assert stored.tolist() == [int.from_bytes(struct.pack("<f", 1 / math.sqrt(length)), "little")]


@pytest.mark.parametrize("version", [11, 14, 15, 17])
def test_a_field_without_tokens_has_an_infinite_norm(version: int) -> None:
    stored = norms_from_lengths(version, np.zeros(1, np.uint64))
    assert norm_values(version, stored).tolist() == [math.inf]
    assert stored.tolist() == [0x7F800000 if version < 15 else 0]


def test_only_32_bits_of_a_length_are_kept() -> None:
    assert norms_from_lengths(15, np.array([2**32 + 7], np.uint64)).tolist() == [7]


def test_lengths_survive_the_way_through_floats() -> None:
    lengths = np.unique(np.concatenate([np.arange(100_000), np.linspace(1, 4_000_000, 100_000)]).astype(np.uint64))
    floats = convert_norms(lengths, 15, 11)
    assert (convert_norms(floats, 11, 16) == lengths).all()


@pytest.mark.parametrize(("source", "target"), [(11, 14), (15, 17), (17, 16), (12, 12)])
def test_norms_of_one_kind_stay_as_they_are(source: int, target: int) -> None:
    norms = np.array([0, 1, 2**31, 2**40], np.uint64)
    assert convert_norms(norms, source, target) is norms


@each(
    ("bits", "length"),
    [
        (0, 0),
        (1, 0),
        (0x37800000, 0),  # 2**-16, of 2**32 tokens
        (0x37800001, 2**32 - 1024),
        (0x7F800000, 0),
        (0x7FC00000, 0),
        (0xBF800000, 1),
    ],
)
def test_a_float_that_no_length_has_becomes_no_length_or_one_below_2_to_the_32(bits: int, length: int) -> None:
    assert convert_norms(np.array([bits], np.uint64), 11, 15).tolist() == [length]
