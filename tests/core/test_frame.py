from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all, outcome
from cases import each
from dvcodec.core import frame as framing
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.frame import FRAME_OVERHEAD, MAX_FRAME, Magic, StoredFrame, checked_frames
from samples.bitmaps import NATIVE, PAIMON, PORTABLE, crc_oracle, frame

MAGICS = {Magic.PORTABLE64: PORTABLE, Magic.NATIVE64: NATIVE, Magic.PAIMON32: PAIMON}


def read(data: bytes, verify_checksum: bool = True) -> tuple[Magic, bytes, int]:
    found = framing.read(Cursor(data), verify_checksum=verify_checksum)
    return found.magic, bytes(found.vector.view), found.crc


def test_magics_are_the_numbers_the_formats_state() -> None:
    assert struct.unpack("<I", Magic.PORTABLE64.value) == (1681511377,)
    assert struct.unpack("<I", Magic.NATIVE64.value) == (1681511376,)
    assert struct.unpack(">I", Magic.PAIMON32.value) == (1581511376,)
    assert set(MAGICS) == set(Magic)


def test_sizes_are_signed_32_bit_values() -> None:
    assert MAX_FRAME == 2**31 - 1
    assert FRAME_OVERHEAD == 12


@pytest.mark.parametrize(("magic", "raw"), MAGICS.items())
def test_a_magic_is_found_by_its_bytes(magic: Magic, raw: bytes) -> None:
    assert Magic.find(raw) is magic
    assert Magic.find(raw[::-1]) is None


@each("vector", [b"", b"v", bytes(1000)])
@each(("magic", "raw"), MAGICS.items())
def test_a_frame_is_length_magic_vector_and_crc(magic: Magic, raw: bytes, vector: bytes) -> None:
    data = framing.build(magic, vector)
    assert data == frame(raw, vector)
    assert len(data) == len(vector) + FRAME_OVERHEAD
    assert read(data) == (magic, vector, crc_oracle(raw + vector))


@pytest.mark.parametrize("magic", Magic)
def test_frames_pass_the_battery(magic: Magic) -> None:
    check_all(read, framing.build(magic, b"any vector"))


def test_a_frame_keeps_the_offsets_of_the_source() -> None:
    data = frame(PORTABLE, b"one")
    cursor = Cursor(b"\x01" + data, source="dv.bin", base=100)
    cursor.seek(1, "the frame")
    found = framing.read(cursor)
    assert bytes(found.data) == data
    assert (found.vector.source, found.vector.base, found.vector.remaining) == ("dv.bin", 109, 3)
    assert cursor.remaining == 0


def test_peeking_at_the_size_does_not_move() -> None:
    data = frame(PORTABLE, b"vector")
    cursor = Cursor(data + b"rest")
    assert framing.peek_size(cursor) == len(data)
    assert cursor.pos == 0
    with pytest.raises(Truncated) as caught:
        framing.peek_size(Cursor(b"\x00\x00\x00", base=5))
    assert caught.value.offset == 5


def refusal(data: bytes, *, allowed: tuple[Magic, ...] = tuple(Magic)) -> DecodeError:
    cursor = Cursor(b"?" * 7 + data, source="x.bin", base=100)
    cursor.seek(7, "the frame")
    with pytest.raises(DecodeError) as caught:
        framing.read(cursor, allowed=allowed)
    assert caught.value.source == "x.bin"
    return caught.value


@pytest.mark.parametrize("length", [0, 3])
def test_a_length_below_four_is_refused(length: int) -> None:
    error = refusal(frame(PORTABLE, b"vector", length=length))
    assert type(error) is NotCanonical
    assert (error.what, error.offset, error.actual) == ("length field", 107, length)


@pytest.mark.parametrize("length", [11, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_length_past_the_end_is_truncated_at_the_length_field(length: int) -> None:
    error = refusal(frame(PORTABLE, b"vector", length=length))
    assert type(error) is Truncated
    assert (error.what, error.offset, error.actual) == ("length field", 107, length)
    assert error.expected == "at most 10 (bytes left for magic and bitmap)"


def test_a_frame_without_room_for_its_crc_is_truncated() -> None:
    error = refusal(struct.pack(">I", 4) + PORTABLE)
    assert type(error) is Truncated
    assert error.expected == "at most 0 (bytes left for magic and bitmap)"


def test_a_frame_fills_the_window() -> None:
    data = frame(PORTABLE, b"vector") + b"tail"
    error = refusal(data)
    assert type(error) is NotCanonical
    assert (error.offset, error.expected, error.actual) == (107, "14 (bytes of magic and bitmap)", 10)


def test_a_crc_mismatch_gives_both_values_in_hex_and_the_place_of_the_crc() -> None:
    stored, computed = 0x0A0B0C0D, crc_oracle(PORTABLE + b"vector")
    error = refusal(frame(PORTABLE, b"vector", crc=stored))
    assert type(error) is ChecksumMismatch
    assert error.offset == 107 + 4 + 4 + 6
    assert error.expected == "0x0a0b0c0d (stored)"
    assert error.actual == f"0x{computed:08x} (computed)"


def test_the_crc_is_skipped_only_on_demand() -> None:
    data = frame(PORTABLE, b"vector", crc=1)
    assert read(data, verify_checksum=False) == (Magic.PORTABLE64, b"vector", 1)
    with pytest.raises(ChecksumMismatch):
        read(data)


@pytest.mark.parametrize("raw", [PORTABLE[::-1], b"PFA1", bytes(4), NATIVE])
def test_a_magic_that_is_not_allowed_is_named_with_those_that_are(raw: bytes) -> None:
    error = refusal(frame(raw, b"vector"), allowed=(Magic.PORTABLE64, Magic.PAIMON32))
    assert type(error) is BadMagic
    assert (error.offset, error.expected, error.actual) == (111, "d1 d3 39 64 or 5e 43 f2 d0", raw.hex(" "))


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (frame(b"what", b"v", length=99, crc=1), Truncated, "length field"),
        (frame(b"what", b"v", length=4, crc=1), NotCanonical, "length field"),
        (frame(b"what", b"v", crc=1), ChecksumMismatch, "CRC-32 of magic and bitmap"),
        (frame(b"what", b"v"), BadMagic, "magic"),
    ],
)
def test_length_is_checked_before_crc_before_magic(data: bytes, kind: type[DecodeError], what: str) -> None:
    error = refusal(data)
    assert (type(error), error.what) == (kind, what)


class Huge(bytes):
    """Bytes that claim a length of their own."""

    size = 0

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("size", "fits"), [(MAX_FRAME - FRAME_OVERHEAD, True), (MAX_FRAME - FRAME_OVERHEAD + 1, False)]
)
def test_a_frame_holds_no_more_than_a_signed_32_bit_size(size: int, fits: bool) -> None:
    vector = Huge()
    vector.size = size
    if fits:
        assert framing.build(Magic.PORTABLE64, vector)[:4] == struct.pack(">I", size + 4)
    else:
        with pytest.raises(UsageError, match=f"{size + FRAME_OVERHEAD} bytes, more than the {MAX_FRAME}"):
            framing.build(Magic.PORTABLE64, vector)


@given(st.binary(max_size=60))
def test_any_bytes_end_in_a_frame_or_a_decode_error(data: bytes) -> None:
    outcome(lambda body: framing.read(Cursor(body)), data)
    outcome(lambda body: framing.read(Cursor(body), verify_checksum=False), data)


STORED = StoredFrame("a", 1, b"")


def test_frames_are_checked_one_by_one() -> None:
    given: list[Any] = [STORED, STORED._replace(data_file=None), 5]
    frames = checked_frames(iter(given))
    assert [next(frames), next(frames)] == given[:2]
    with pytest.raises(UsageError, match=r"^an item of vectors must be a StoredFrame, not int$"):
        next(frames)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (5, "vectors must be an iterable of StoredFrame, not int"),
        ([tuple(STORED)], "an item of vectors must be a StoredFrame, not tuple"),
        ([STORED._replace(data_file=5)], r"StoredFrame\.data_file must be a str or None, not int"),  # type: ignore[arg-type]
        ([STORED._replace(cardinality="1")], r"StoredFrame\.cardinality must be an integer, not str"),  # type: ignore[arg-type]
        ([STORED._replace(cardinality=-1)], r"StoredFrame\.cardinality must be 0 or more, not -1"),
    ],
)
def test_other_frames_are_refused(frames: Any, message: str) -> None:
    with pytest.raises(UsageError, match=rf"^{message}$"):
        list(checked_frames(frames))
