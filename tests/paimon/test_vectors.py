"""Paimon's vectors, 32- and 64-bit: one frame."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import BadMagic, RowSet, UsageError, decode_at, paimon
from samples.paimon_index import BITMAP_ROWS, INDEX_FILES, metas_of

# ---------------------------------------------------------------------- real files


@each("name", INDEX_FILES)
def test_vector_of_java_is_decoded_and_encoded_byte_for_byte(vectors: Path, name: str) -> None:
    path = vectors / "paimon" / name
    data = path.read_bytes()
    bits: Literal[32, 64] = 32 if INDEX_FILES[name] == 32 else 64
    for data_file, offset, length, cardinality in metas_of(path):
        rows = BITMAP_ROWS[data_file]
        assert cardinality in (None, len(rows))
        frame = data[offset : offset + length + (8 if bits == 32 else 0)]
        assert paimon.decode(frame, cardinality=cardinality) == rows
        assert paimon.encode(rows, layout=f"bitmap{bits}") == frame
        assert decode_at(path, offset, length, cardinality=len(rows)) == rows


# ---------------------------------------------------------------------- bytes


@pytest.mark.parametrize("position", [2**31, 2**32, 2**40])
def test_position_above_31_bits_needs_64(position: int) -> None:
    rows = RowSet([position])
    with pytest.raises(UsageError, match="use 64 bits"):
        paimon.encode(rows)
    assert paimon.decode(paimon.encode(rows, layout="bitmap64")) == rows


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 2**31 - 1)


@given(st.lists(POSITIONS, max_size=80), st.sampled_from([32, 64]), st.booleans())
def test_round_trip(positions: list[int], bits: Literal[32, 64], run_optimize: bool) -> None:
    rows = RowSet(positions)
    frame = paimon.encode(rows, layout=f"bitmap{bits}", run_optimize=run_optimize)
    assert paimon.decode(frame, cardinality=len(rows)) == rows


def test_errors_are_placed_in_the_file() -> None:
    frame = paimon.encode(RowSet([1, 3, 5]))
    with pytest.raises(BadMagic) as caught:
        paimon.decode(frame[:4] + bytes(4) + frame[8:], verify_checksum=False, base=100)
    assert caught.value.offset == 104
