"""Thrift's compact protocol: what is read, and what pyarrow's parser would read differently."""

from __future__ import annotations

import pytest

from dvcodec import NotCanonical, Truncated
from dvcodec.core.cursor import Cursor
from dvcodec.io.thrift import BINARY, I32, I64, LIST, STRUCT, check_elements, element_count, get, read_struct, skip

STOP = b"\x00"


def cursor(data: bytes) -> Cursor:
    return Cursor(data, source="f")


def test_a_struct() -> None:
    data = b"\x11\x12\x15\x03\x16\x04\x18\x01a\x19\x25\x02\x04\x1c\x00" + STOP
    found = read_struct(cursor(data), 0)
    assert found == {
        1: (1, True), 2: (2, False), 3: (I32, -2), 4: (I64, 2), 5: (BINARY, b"a"), 6: (LIST, [1, 2]), 7: (STRUCT, {}),
    }  # fmt: skip
    assert get(found, 3, I32) == -2
    assert get(found, 3, I64, "absent") == get(found, 9, I64, "absent") == "absent"
    stepped = cursor(data)
    skip(stepped, STRUCT)
    assert not stepped.remaining


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x15\x02\x05\x02\x02" + STOP, 1),  # twice, of one type
        (b"\x15\x02\x06\x02\x02" + STOP, 1),  # twice, of two types
        (b"\x05\x84\x80\x08\x02" + STOP, 65538),  # 2, if cut off to 16 bits
        (b"\x05\xfe\xff\x03\x02\x15\x02" + STOP, 32768),  # the one after the highest
    ],
)
def test_numbers_of_fields(data: bytes, found: int) -> None:
    with pytest.raises(NotCanonical, match=f"number of a field: expected each number once, .* found {found}$"):
        read_struct(cursor(data), 0)


@pytest.mark.parametrize(("kind", "bits"), [(4, 16), (5, 32)])
def test_numbers_that_do_not_fit_their_type(kind: int, bits: int) -> None:
    def stored(value: int) -> bytes:
        coded = value << 1 ^ (-1 if value < 0 else 0)
        out = bytearray([0x10 | kind])
        while coded > 127:
            out.append(coded & 127 | 128)
            coded >>= 7
        return bytes(out) + bytes([coded]) + STOP

    top = 1 << bits - 1
    for value in (top - 1, -top):
        assert read_struct(cursor(stored(value)), 0) == {1: (kind, value)}
    for value in (top, -top - 1, (1 << bits) + 5):
        with pytest.raises(NotCanonical, match=f"number: expected at most {bits} bits, found {value}"):
            read_struct(cursor(stored(value)), 0)


def test_a_stop_that_has_a_number() -> None:
    """pyarrow ends the struct there."""
    for data in (b"\x10" + STOP, b"\x1c\x10" + STOP + STOP):
        with pytest.raises(NotCanonical, match="type of a field: expected 1 to 12, found 0"):
            read_struct(cursor(data), 0)
        with pytest.raises(NotCanonical, match="type of a field: expected 1 to 12, found 0"):
            skip(cursor(data), STRUCT)


def test_element_types() -> None:
    for head, wanted in ((b"\x25", I32), (b"\x26", I32), (b"\x05", STRUCT), (b"\x2c", STRUCT)):
        one = cursor(head)
        check_elements(one, wanted)
        assert not one.pos
    for head, wanted in ((b"\x25", STRUCT), (b"\x28", STRUCT), (b"\x2c", I32)):
        with pytest.raises(NotCanonical, match=f"element type of a list: expected {wanted}, found {head[0] & 15}"):
            check_elements(cursor(head), wanted)
    assert element_count(cursor(b"\x2c"), STRUCT) == 2
    assert element_count(cursor(b"\xfc\x80\x01"), STRUCT) == 128
    with pytest.raises(NotCanonical, match="element type"):
        element_count(cursor(b"\x05"), STRUCT)


def test_the_types_of_inner_lists() -> None:
    """Only those of known fields are checked, at any depth."""
    data = b"\x3c\x29\x28\x01a\x01b" + STOP + STOP  # field 3 is a struct, its field 2 a list of two texts
    assert read_struct(cursor(data), 0, {3: {2: BINARY}}) == {3: (STRUCT, {2: (LIST, [b"a", b"b"])})}
    assert read_struct(cursor(data), 0, {3: {1: I32}, 2: I32})
    with pytest.raises(NotCanonical, match="expected 5, found 8"):
        read_struct(cursor(data), 0, {3: {2: I32}})


def test_what_ends_early() -> None:
    for data in (b"", b"\x15", b"\x15\x80", b"\x18\x02a"):
        with pytest.raises(Truncated):
            read_struct(cursor(data), 0)
