from __future__ import annotations

import mmap
import struct
from array import array as typed_array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import outcome
from cases import each
from dvcodec.core.cursor import Cursor, as_view, first_true
from dvcodec.core.errors import BadMagic, NotCanonical, Truncated, UsageError

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


def test_take_returns_a_read_only_view_without_a_copy() -> None:
    data = bytearray(b"abcdef")
    cursor = Cursor(data)
    cursor.seek(2, "x")
    view = cursor.take(3, "x")
    assert view.readonly
    data[2] = ord("X")
    assert bytes(view) == b"Xde"
    assert (cursor.pos, cursor.remaining) == (5, 1)


@pytest.mark.parametrize("size", [0, 4])
def test_take_reaches_exactly_to_the_end(size: int) -> None:
    cursor = Cursor(bytes(size))
    assert len(cursor.take(size, "all")) == size
    assert cursor.remaining == 0
    assert len(cursor.take(0, "nothing")) == 0


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_never_read(size: int) -> None:
    cursor = Cursor(bytes(8))
    cursor.seek(4, "x")
    with pytest.raises(Truncated):
        cursor.take(size, "x")
    with pytest.raises(Truncated), cursor.restrict_to(size, "x"):
        pytest.fail("the window was entered")
    assert cursor.pos == 4


# ------------------------------------------------------------------ varints


@each(
    ("data", "value"),
    [
        ("00", 0),
        ("7f", 127),
        ("8001", 128),
        ("ac02", 300),
        ("8000", 0),
        ("ffffffff0f", 2**32 - 1),
        ("80808080808080808001", 2**63),
        ("ffffffffffffffffff01", 2**64 - 1),
    ],
)
def test_varints_are_little_endian_groups_of_seven_bits(data: str, value: int) -> None:
    cursor = Cursor(bytes.fromhex(data))
    assert cursor.uvarint("v") == value
    assert cursor.remaining == 0


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_every_64_bit_value_is_a_varint(value: int, rest: bytes) -> None:
    groups = [(value >> shift) & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    data = bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])
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


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9])
def test_an_unfinished_varint_is_truncated_at_the_end(data: bytes) -> None:
    with pytest.raises(Truncated) as caught:
        Cursor(data, base=7).uvarint("v")
    assert caught.value.offset == 7 + len(data)


# ------------------------------------------------------------------ windows


@pytest.mark.parametrize("pos", [0, 3, 8])
def test_seek_moves_anywhere_in_the_window_and_to_its_end(pos: int) -> None:
    cursor = Cursor(bytes(8))
    cursor.seek(pos, "x")
    assert (cursor.pos, cursor.remaining) == (pos, 8 - pos)


@pytest.mark.parametrize("pos", [-1, 9, 2**63])
def test_seek_out_of_the_window_is_truncated(pos: int) -> None:
    cursor = Cursor(bytes(8), source="x.bin", base=100)
    with pytest.raises(Truncated) as caught:
        cursor.seek(pos, "footer start")
    assert (caught.value.what, caught.value.source, caught.value.offset) == ("footer start", "x.bin", 100 + pos)
    assert caught.value.expected == "an offset of at most 108"
    assert cursor.pos == 0


def test_a_restricted_window_ends_early_and_is_given_back() -> None:
    cursor = Cursor(bytes(range(10)))
    with cursor.restrict_to(4, "part") as part:
        assert part.remaining == 4
        assert part.u32le("value") == 0x03020100
        with pytest.raises(Truncated):
            part.u8("one more")
    assert cursor.remaining == 6
    assert cursor.u8("next") == 4


def test_a_restricted_window_must_be_read_to_its_end() -> None:
    cursor = Cursor(bytes(10), source="x.bin", base=100)
    with pytest.raises(NotCanonical) as caught, cursor.restrict_to(6, "bitmap 3") as part:
        part.take(2, "value")
    assert caught.value.what == "bytes after the end of bitmap 3"
    assert (caught.value.offset, caught.value.expected, caught.value.actual) == (102, "0 bytes left", "4")
    assert cursor.end == 10


def test_a_restricted_window_may_not_reach_over_the_end() -> None:
    cursor = Cursor(bytes(10), base=100)
    cursor.seek(3, "x")
    with pytest.raises(Truncated) as caught, cursor.restrict_to(8, "part"):
        pytest.fail("the window was entered")
    assert (caught.value.offset, caught.value.expected, caught.value.actual) == (103, "8 bytes", "7 left")
    assert (cursor.pos, cursor.end) == (3, 10)


def test_a_restricted_window_may_be_empty_or_the_whole_rest() -> None:
    cursor = Cursor(bytes(10))
    with cursor.restrict_to(0, "nothing") as part:
        assert part.remaining == 0
    with cursor.restrict_to(10, "everything") as part:
        part.take(10, "x")
    assert cursor.remaining == 0


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


def test_seek_does_not_leave_a_restricted_window() -> None:
    cursor = Cursor(bytes(10))
    with cursor.restrict_to(4, "part"):
        with pytest.raises(Truncated):
            cursor.seek(5, "x")
        cursor.seek(4, "x")


def test_an_error_inside_a_restricted_window_gives_the_outer_one_back() -> None:
    cursor = Cursor(bytes(10))
    with pytest.raises(BadMagic), cursor.restrict_to(4, "part"):
        raise cursor.error(BadMagic, "magic")
    assert cursor.end == 10


def test_expect_end_names_what_ended() -> None:
    cursor = Cursor(b"abc", source="x.bin", base=9)
    with pytest.raises(NotCanonical) as caught:
        cursor.expect_end("the bitmap")
    assert str(caught.value) == ("x.bin at byte 9: bytes after the end of the bitmap: expected 0 bytes left, found 3")
    cursor.take(3, "all")
    cursor.expect_end("the bitmap")


@pytest.mark.parametrize(("at", "offset"), [(None, 106), (0, 100), (9, 109)])
def test_errors_carry_the_source_and_the_offset_in_it(at: int | None, offset: int) -> None:
    cursor = Cursor(bytes(10), source="s3://bucket/x.bin", base=100)
    cursor.seek(6, "x")
    error = cursor.error(NotCanonical, "value", at=at, expected=1, actual=2)
    assert type(error) is NotCanonical
    assert str(error) == f"s3://bucket/x.bin at byte {offset}: value: expected 1, found 2"


# ------------------------------------------------------------------ buffers


@each(
    "buffer",
    [
        b"abcd",
        bytearray(b"abcd"),
        memoryview(b"abcd"),
        memoryview(b"xabcdx")[1:5],
        memoryview(b"abcd").cast("H"),
        memoryview(b"abcd").cast("B", (2, 2)),
        np.frombuffer(b"abcd", np.uint8),
        np.frombuffer(b"abcd", "<u2"),
        np.frombuffer(b"abcd", np.uint8).reshape(2, 2),
        typed_array("b", b"abcd"),
    ],
    ids=lambda buffer: type(buffer).__name__,
)
def test_any_contiguous_buffer_is_seen_as_flat_read_only_bytes(buffer: Any) -> None:
    view = as_view(buffer)
    assert (view.format, view.ndim, view.readonly) == ("B", 1, True)
    assert bytes(view) == b"abcd"
    assert bytes(Cursor(buffer).take(4, "all")) == b"abcd"


def test_a_memory_map_is_a_buffer(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"abcd")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = as_view(mapped)
        assert bytes(view) == b"abcd"
        view.release()


@pytest.mark.parametrize("buffer", [b"", bytearray(), np.zeros(0, np.uint8), np.zeros(0, "<u4"), typed_array("i")])
def test_an_empty_buffer_is_a_buffer(buffer: Any) -> None:
    assert len(as_view(buffer)) == 0
    assert Cursor(buffer).remaining == 0


@each(
    "buffer",
    [
        memoryview(b"abcdef")[::2],
        memoryview(b"abcdef")[::-1],
        np.arange(10, dtype=np.uint8)[::2],
        np.arange(10, dtype=np.uint8)[::-1],
        np.zeros((4, 4), np.uint8)[:, :2],
        np.zeros((4, 4), np.uint8).T[1:],
    ],
)
def test_strided_buffers_are_refused(buffer: Any) -> None:
    with pytest.raises(UsageError, match="contiguous"):
        as_view(buffer)


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


@pytest.mark.parametrize(("mask", "found"), [([], None), ([False, False], None), ([True], 0), ([False, True, True], 1)])
def test_first_true_is_the_first_index_of_true(mask: list[bool], found: int | None) -> None:
    assert first_true(np.array(mask, np.bool_)) == found
