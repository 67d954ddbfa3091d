from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.zap.postings import convert_norms, norm_values, norms_from_lengths


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


def test_lengths_survive_the_way_through_floats() -> None:
    lengths = np.unique(np.concatenate([np.arange(100_000), np.linspace(1, 4_000_000, 100_000)]).astype(np.uint64))
    floats = convert_norms(lengths, 15, 11)
    assert (convert_norms(floats, 11, 16) == lengths).all()
