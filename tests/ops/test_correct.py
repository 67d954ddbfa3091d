"""Damage that the checksum explains is corrected; what it cannot tell is refused; and what is provable about it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import flipped
from cases import each
from dvcodec import (
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    correct,
    delta,
    iceberg,
    paimon,
    verify,
)
from samples.bitmaps import framed

ROWS = RowSet([1, 3, 5, 70_000, 1 << 33])
POLYNOMIAL = 0x1_04C1_1DB7
"""Of CRC-32, the highest power first."""

FRAMES = {
    "Iceberg": iceberg.encode(ROWS),
    "Delta, native": delta.encode(ROWS, layout="native"),
    "Paimon": paimon.encode(RowSet([1, 3, 5, *range(90_000, 90_500)])),
    "no rows": iceberg.encode(RowSet()),
}


@each("name", FRAMES)
def test_every_flipped_bit_is_corrected(name: str) -> None:
    data = FRAMES[name]
    rows = correct(data).rows
    for bit in range(8 * len(data)):
        found = correct(flipped(data, bit))
        assert found.data == data, bit
        assert found.rows == rows
        ((change),) = found.changes
        assert (change.offset, change.bits, change.after) == (bit >> 3, (bit & 7,), data[bit >> 3])
        assert found.describe() == f"one flipped bit (byte {bit >> 3}, bit {bit & 7})"
        assert found.describe(1000) == f"one flipped bit (byte {1000 + (bit >> 3)}, bit {bit & 7})"


def test_a_frame_as_large_as_it_may_be_is_corrected() -> None:
    frame = FRAMES["Iceberg"]
    damaged = flipped(frame, 100)
    assert correct(damaged, limits=Limits(max_vector_bytes=len(frame))).data == frame
    with pytest.raises(LimitExceeded):
        correct(damaged, limits=Limits(max_vector_bytes=len(frame) - 1))


@given(st.binary(min_size=1, max_size=3), st.data())
def test_a_wrong_byte_is_corrected(values: bytes, data: st.DataObject) -> None:
    frame = FRAMES["Iceberg"]
    at = data.draw(st.integers(0, len(frame) - 1))
    damaged = frame[:at] + values[:1] + frame[at + 1 :]
    found = correct(damaged, cardinality=len(ROWS))
    assert found.data == frame
    assert [change.offset for change in found.changes] == ([] if damaged == frame else [at])


@each(("first", "second"), [(7, 0), (0, 7)])
def test_adjacent_bits_of_two_bytes_are_corrected(first: int, second: int) -> None:
    frame = FRAMES["Iceberg"]
    for at in (*range(4, len(frame) - 5), len(frame) - 4, 0):  # not across the borders of what the checksum covers
        found = correct(flipped(frame, 8 * at + first, 8 * at + 8 + second))
        assert found.data == frame, at
        assert found.describe().startswith("two adjacent bits (byte ")


def test_a_vector_of_many_blocks_is_corrected_at_its_borders() -> None:
    frame = iceberg.encode(RowSet(np.random.default_rng(1).choice(1 << 24, 60_000, replace=False)))
    assert len(frame) > 3 << 15
    last = len(frame) - 5
    for at in (4, 5, last, last - (1 << 15), last + 1 - (1 << 15), last - (2 << 15)):
        found = correct(flipped(frame, 8 * at + 3))
        assert found.data == frame, at


def test_two_wrong_bytes_are_refused_with_the_first_error() -> None:
    frame = FRAMES["Iceberg"]
    damaged = flipped(frame, 8 * 10, 8 * 20 + 1)
    with pytest.raises(ChecksumMismatch, match="bitmap; no single flipped bit or wrong byte explains it: expected 0x"):
        correct(damaged)


def test_an_answer_without_a_valid_structure_is_none() -> None:
    """The bit that the checksum names is in a bitmap that is corrupt with and without it."""
    invalid = framed(b"\1\0\0\0\0\0\0\0" + b"\0\0\0\0" + b"\xff" * 30)
    with pytest.raises(DecodeError):
        correct(flipped(invalid, 8 * 30))


def test_an_invalid_structure_under_a_valid_checksum_is_a_writers_error() -> None:
    frame = iceberg.encode(RowSet([1, 3]))
    body = frame[4:-8] + bytes([3, 0, 1, 0])
    forged = frame[:4] + body + zlib.crc32(body).to_bytes(4, "big")
    with pytest.raises(NotCanonical):
        correct(forged)


def test_a_cardinality_that_no_answer_has_is_refused() -> None:
    with pytest.raises(ChecksumMismatch):
        correct(flipped(FRAMES["Iceberg"], 8 * 33), cardinality=6)


def test_in_large_vectors_only_bits_are_corrected_and_with_their_doubt() -> None:
    """One byte in 16 MiB explains any checksum, and sparse arrays confirm about every second wrong answer."""
    frame = iceberg.encode(RowSet(range(0, 57_000_000, 700)))
    assert len(frame) > 1 << 17
    assert correct(flipped(frame, 800_000, 800_002)).data == frame
    frame = iceberg.encode(RowSet(range(0, 1 << 28, 700)))
    found = correct(flipped(frame, 800_000))
    assert (found.data, found.doubt) == (frame, 8 * len(frame) / 2**32)
    assert found.caution == f", but up to 1 in {2**32 // (8 * len(frame))} cases of other damage would look like it"
    with pytest.raises(ChecksumMismatch, match="no single flipped bit explains it"):
        correct(flipped(frame, 800_000, 800_002))
    found = correct(flipped(frame, 8, 10))  # in the length field: the checksum is right
    assert (found.data, found.doubt) == (frame, 0)


def test_verify_explains_nothing_that_contradicts_what_is_known() -> None:
    damaged = flipped(FRAMES["Delta, native"], 8 * 40 + 3)
    explained = [
        "explains" in str(verify(damaged, cardinality=rows, row_count=count).findings[0].message)
        for rows, count in [(None, None), (len(ROWS), None), (6, None), (None, 1 << 34), (None, 1 << 33)]
    ]
    assert explained == [True, True, False, True, False]


def test_verify_names_the_bit_in_the_file() -> None:
    data = b"\1" + FRAMES["Iceberg"] + FRAMES["Delta, native"]
    at = len(FRAMES["Iceberg"]) + 30
    (finding,) = (check for check in verify(flipped(data, 8 * at + 3)).findings if check.name == "crc")
    assert finding.message == f"CRC-32 of magic and bitmap; one flipped bit (byte {at}, bit 3) explains it"
    (finding,) = verify(flipped(FRAMES["Iceberg"], 0)).findings
    assert finding.message == "length field; one flipped bit (byte 0, bit 0) explains it"


# ---------------------------------------------------------------------- what is provable


def times(a: int, b: int) -> int:
    """The product of two polynomials, modulo that of CRC-32."""
    found = 0
    while b:
        if b & 1:
            found ^= a
        a <<= 1
        a ^= POLYNOMIAL if a >> 32 else 0
        b >>= 1
    return found


def power(exponent: int) -> int:
    """x to some power."""
    found, factor = 1, 2
    while exponent:
        if exponent & 1:
            found = times(found, factor)
        factor, exponent = times(factor, factor), exponent >> 1
    return found


def test_no_two_single_bits_have_one_syndrome_below_512_mib() -> None:
    """The order of x is 2**32 - 1, so its powers up to there differ."""
    order = 2**32 - 1
    assert order == 3 * 5 * 17 * 257 * 65537
    assert power(order) == 1
    assert all(power(order // prime) != 1 for prime in (3, 5, 17, 257, 65537))


def test_two_bits_look_like_one_from_91_640_bits_on() -> None:
    """The first x**b that is x**a + 1 is b = 91,639: then the errors 0, a and b have no syndrome together."""
    index: dict[int, int] = {}
    value = 1
    for exponent in range(91_640):
        other = index.get(value ^ 1)
        assert (other is not None) == (exponent == 91_639)
        index[value] = exponent
        value = times(value, 2)
