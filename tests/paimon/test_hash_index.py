"""The hash index of dynamic-bucket tables: a flat file of big-endian ints."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import name_of
from cases import each
from dvcodec import CardinalityMismatch, Truncated, UsageError
from dvcodec.paimon import decode_hash_index, encode_hash_index

FILES = {"0": 67, "1": 67, "2": 66}
"""Number at the end of the file's name -> hashes."""
TABLE = "paimon/java-0.9.0-tables/db.db/dyn"
NAME = "index-e78f7992-de86-492a-959c-c01bdc22eb4e-"
INT32 = np.iinfo(np.int32)


@pytest.mark.parametrize(("number", "count"), FILES.items())
def test_file_of_java_is_read_and_written_byte_for_byte(vectors: Path, number: str, count: int) -> None:
    data = (vectors / TABLE / "index" / f"{NAME}{number}").read_bytes()
    hashes = decode_hash_index(data, row_count=count)
    assert hashes.dtype == np.int32
    assert hashes.dtype.isnative
    assert hashes.tolist() == list(struct.unpack(f">{count}i", data))
    assert len(set(hashes.tolist())) == count, "keys of a bucket: every hash once here"
    assert encode_hash_index(hashes) == data


@pytest.mark.parametrize("hashes", [[2**31], [0, -(2**31) - 1], np.array([2**32 - 1], np.uint32), [2**63 - 1]])
def test_hash_beyond_32_bits_is_a_usage_error(hashes: Any) -> None:
    with pytest.raises(UsageError, match="not a signed 32-bit integer"):
        encode_hash_index(hashes)


@each(
    "hashes",
    [
        [1.0],
        [True],
        [None],
        [2**70],
        [[1, 2], [3]],
        np.zeros((2, 2), np.int32),
        5,
        np.array(["2020-01-01"], "M8[D]"),
    ],
    ids=name_of,
)
def test_hashes_other_than_a_flat_array_of_integers_are_a_usage_error(hashes: Any) -> None:
    with pytest.raises(UsageError, match="flat array of integers"):
        encode_hash_index(hashes)


def test_last_hash_has_to_be_whole() -> None:
    with pytest.raises(Truncated, match=r"^index-0 at byte 8: hash: expected 4 bytes, found 3 left"):
        decode_hash_index(bytes(11), source="index-0")


@given(st.lists(st.integers(INT32.min, INT32.max)))
def test_round_trip(hashes: list[int]) -> None:
    data = encode_hash_index(hashes)
    assert data == struct.pack(f">{len(hashes)}i", *hashes)
    assert decode_hash_index(data, row_count=len(hashes)).tolist() == hashes
    with pytest.raises(CardinalityMismatch):
        decode_hash_index(data, row_count=len(hashes) + 1)
