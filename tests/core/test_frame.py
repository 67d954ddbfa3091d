from __future__ import annotations

import struct
from typing import Any

import pytest

from dvcodec.core import vector as framing
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, ChecksumMismatch, DecodeError, NotCanonical, Truncated, UsageError
from dvcodec.core.vector import FRAME_OVERHEAD, MAX_FRAME, Magic, StoredFrame, checked_frames
from samples.bitmaps import PORTABLE, frame


def read(data: bytes, verify_checksum: bool = True) -> tuple[Magic, bytes, int]:
    found = framing.read_frame(Cursor(data), verify_checksum=verify_checksum)
    return found.magic, bytes(found.vector.view), found.crc


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
        framing.read_frame(cursor, allowed=allowed)
    assert caught.value.source == "x.bin"
    return caught.value


def test_the_crc_is_skipped_only_on_demand() -> None:
    data = frame(PORTABLE, b"vector", crc=1)
    assert read(data, verify_checksum=False) == (Magic.PORTABLE64, b"vector", 1)
    with pytest.raises(ChecksumMismatch):
        read(data)


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


STORED = StoredFrame("a", 1, b"")


def test_frames_are_checked_one_by_one() -> None:
    given: list[Any] = [STORED, STORED._replace(data_file=None), 5]
    frames = checked_frames(iter(given))
    assert [next(frames), next(frames)] == given[:2]
    with pytest.raises(UsageError, match=r"^an item of vectors must be a StoredFrame, not int$"):
        next(frames)
