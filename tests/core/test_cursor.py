from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import outcome
from dvcodec.core.cursor import Cursor, _fastest, as_view
from dvcodec.core.errors import NotCanonical, Truncated, UsageError
from samples.bitmaps import crc_oracle

Read = Callable[[Cursor], int]

FIXED: dict[str, tuple[Read, str]] = {
    "u8": (lambda cursor: cursor.u8("x"), "<B"),
    "u32le": (lambda cursor: cursor.u32le("x"), "<I"),
    "i32le": (lambda cursor: cursor.i32le("x"), "<i"),
    "u64le": (lambda cursor: cursor.u64le("x"), "<Q"),
    "u32be": (lambda cursor: cursor.u32be("x"), ">I"),
    "u64be": (lambda cursor: cursor.u64be("x"), ">Q"),
}
fixed = pytest.mark.parametrize(("read", "layout"), FIXED.values(), ids=FIXED)


@fixed
def test_fixed_width_values_are_read_as_struct_reads_them(read: Read, layout: str) -> None:
    for pattern in [b"\x00" * 8, b"\xff" * 8, bytes(range(1, 9)), b"\x80" + bytes(7), bytes(7) + b"\x80"]:
        size = struct.calcsize(layout)
        cursor = Cursor(b"?" + pattern)
        cursor.seek(1, "the value")
        assert read(cursor) == struct.unpack_from(layout, pattern)[0]
        assert cursor.pos == 1 + size


@fixed
def test_a_short_value_is_truncated_and_moves_nothing(read: Read, layout: str) -> None:
    size = struct.calcsize(layout)
    cursor = Cursor(bytes(10 + size - 1), source="x.bin", base=100)
    cursor.seek(10, "the value")
    with pytest.raises(Truncated) as caught:
        read(cursor)
    assert caught.value.what == "x"
    assert (caught.value.source, caught.value.offset) == ("x.bin", 110)
    assert (caught.value.expected, caught.value.actual) == (f"{size} bytes", f"{size - 1} left")
    assert cursor.pos == 10


# ------------------------------------------------------------------ varints


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_every_64_bit_value_is_a_varint(value: int, rest: bytes) -> None:
    """Of its shortest form, and of one with a byte too many."""
    groups = [(value >> shift) & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    for form in (groups, [*groups, 0][:10]):
        data = bytes(group | 0x80 for group in form[:-1]) + bytes(form[-1:])
        cursor = Cursor(data + rest)
        assert cursor.uvarint("v") == value
        assert cursor.remaining == len(rest)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("ff" * 9 + "02", "a varint below 2**64"),
        ("ff" * 9 + "7f", "a varint below 2**64"),
        ("80" * 10 + "01", "a varint of at most 10 bytes"),
        ("80" * 100, "a varint of at most 10 bytes"),
    ],
)
def test_a_varint_above_64_bits_is_refused_where_it_begins(data: str, expected: str) -> None:
    cursor = Cursor(b"??" + bytes.fromhex(data), base=50)
    cursor.seek(2, "v")
    with pytest.raises(NotCanonical) as caught:
        cursor.uvarint("v")
    assert (caught.value.offset, caught.value.expected) == (52, expected)


# ------------------------------------------------------------------ windows


def test_restricted_windows_nest() -> None:
    cursor = Cursor(bytes(10))
    with cursor.restrict_to(8, "outer"):
        with cursor.restrict_to(3, "inner"):
            assert len(cursor.take(3, "x")) == 3
        assert cursor.remaining == 5
        with pytest.raises(Truncated), cursor.restrict_to(6, "too large"):
            pytest.fail("the window was entered")
        cursor.seek(8, "x")
    assert cursor.remaining == 2


# ------------------------------------------------------------------ buffers


@pytest.mark.parametrize("thing", ["text", 5, None, [1, 2], np.zeros(2, "M8[s]")])
def test_what_has_no_bytes_is_refused(thing: Any) -> None:
    with pytest.raises(UsageError, match="need a bytes-like object, got"):
        as_view(thing)


@given(st.binary(max_size=40), st.lists(st.sampled_from([*FIXED, "uvarint", "take"]), max_size=12))
def test_no_sequence_of_reads_leaves_the_window(data: bytes, names: list[str]) -> None:
    cursor = Cursor(b"<<" + data + b">>", base=1000)
    cursor.seek(2, "the window")

    def read_all(_: bytes) -> None:
        with cursor.restrict_to(len(data), "the window"):
            for name in names:
                before = cursor.pos
                read = getattr(cursor, name)
                read(3, "x") if name == "take" else read("x")
                assert before < cursor.pos <= 2 + len(data)

    outcome(read_all, data)
    assert cursor.pos <= 2 + len(data)


# ------------------------------------------------------------------ CRC-32


@pytest.mark.parametrize("with_isal", [False, True])
def test_a_crc_of_every_size_agrees_with_crcmod(with_isal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if with_isal:
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
    crc32 = _fastest()
    for size in [0, 1, 3, 4, 7, 8, 15, 16, 31, 63, 64, 65, 255, 256, 1023, 4097, 100_003]:
        data = random.Random(size).randbytes(size)
        assert crc32(data) == crc32(memoryview(data)) == crc_oracle(data)
