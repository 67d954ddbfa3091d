"""Paimon's vectors, 32- and 64-bit: one frame."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all, outcome
from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    decode_at,
    paimon,
)
from samples.bitmaps import framed
from samples.paimon_index import BITMAP_ROWS, INDEX_FILES, MAGIC32, MAGIC64, metas_of


def rows_of(positions: Any) -> RowSet:
    """What a truth.json says: a list, a progression, or words."""
    if isinstance(positions, list):
        return RowSet(positions)
    if isinstance(positions, dict):
        rows = RowSet(range(positions["first"], positions["last"] + 1, positions["step"]))
        assert len(rows) == positions["n"]
        return rows
    return {"1000..20999 inclusive": RowSet(range(1000, 21000)), "0,3,6,...,59997": RowSet(range(0, 60000, 3))}[
        positions
    ]


# ---------------------------------------------------------------------- real files


@pytest.mark.parametrize("producer", ["java-0.9.0", "java-2.1-snapshot"])
def test_truth_is_what_is_tested_for(vectors: Path, producer: str) -> None:
    truth = json.loads((vectors / "paimon" / producer / "truth.json").read_text())["positions"]
    assert {name: rows_of(positions) for name, positions in truth.items()} == {
        name: BITMAP_ROWS[name] for name in truth
    }


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

EMPTY = struct.pack("<II", 12346, 0)
SETS = {
    "empty": RowSet(),
    "array": RowSet([1, 3, 5]),
    "run": RowSet(range(500)),
    "highest of 32 bits": RowSet([0, 2**31 - 1]),
}


@each("bits", [32, 64])
@each("name", SETS)
def test_vector_passes_the_battery(name: str, bits: Literal[32, 64]) -> None:
    check_all(paimon.decode, paimon.encode(SETS[name], layout=f"bitmap{bits}"))


def test_gap_keys_of_64_bits_are_written_and_not_needed() -> None:
    bitmap = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 1)
    dense = b"".join(struct.pack("<I", key) + EMPTY for key in (0, 1)) + struct.pack("<I", 2) + bitmap
    rows = BITMAP_ROWS["data-hi-6.parquet"]
    assert paimon.encode(rows, layout="bitmap64") == framed(MAGIC64 + struct.pack("<Q", 3) + dense)
    assert paimon.decode(framed(MAGIC64 + struct.pack("<QI", 1, 2) + bitmap)) == rows


@pytest.mark.parametrize("position", [2**31, 2**32, 2**40])
def test_position_above_31_bits_needs_64(position: int) -> None:
    rows = RowSet([position])
    with pytest.raises(UsageError, match="use 64 bits"):
        paimon.encode(rows)
    assert paimon.decode(paimon.encode(rows, layout="bitmap64")) == rows


VALID = paimon.encode(RowSet([1, 3]))


@each(
    ("frame", "kind", "what"),
    [
        (framed(b"\xd0\xd3\x39\x64" + EMPTY), BadMagic, "magic"),
        (framed(MAGIC32[::-1] + EMPTY), BadMagic, "magic"),
        (framed(MAGIC32 + EMPTY + b"\0"), NotCanonical, "bytes after the end"),
        (framed(MAGIC32), Truncated, "roaring cookie"),
        (framed(MAGIC32 + bytes(8)), BadMagic, "roaring cookie"),
        (framed(MAGIC64 + EMPTY), DecodeError, "bitmap count"),
        (VALID[:-4] + bytes(4), ChecksumMismatch, "CRC-32"),
        (VALID[:-1], Truncated, "length field"),
        (VALID + b"\0", NotCanonical, "length field"),
    ],
)
def test_corrupt_vector_is_refused(frame: bytes, kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind) as caught:
        paimon.decode(frame, source="index-0", base=7)
    assert what in caught.value.what
    assert caught.value.source == "index-0"
    assert (caught.value.offset or 0) >= 7


def test_cardinality_crc_and_limits_are_choices() -> None:
    assert paimon.decode(VALID, cardinality=2) == RowSet([1, 3])
    assert paimon.decode(VALID[:-4] + bytes(4), verify_checksum=False) == RowSet([1, 3])
    for cardinality in (0, 1, 3):
        with pytest.raises(CardinalityMismatch):
            paimon.decode(VALID, cardinality=cardinality)
    for limits in (Limits(max_vector_bytes=10), Limits(max_cardinality=1)):
        with pytest.raises(LimitExceeded):
            paimon.decode(VALID, limits=limits)


@given(st.binary(max_size=80))
def test_any_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    for frame in (data, framed(data), framed(MAGIC32 + data), framed(MAGIC64 + data)):
        outcome(paimon.decode, frame)


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 2**31 - 1)


@given(st.lists(POSITIONS, max_size=80), st.sampled_from([32, 64]), st.booleans())
def test_round_trip(positions: list[int], bits: Literal[32, 64], run_optimize: bool) -> None:
    rows = RowSet(positions)
    assert (
        paimon.decode(paimon.encode(rows, layout=f"bitmap{bits}", run_optimize=run_optimize), cardinality=len(rows))
        == rows
    )
