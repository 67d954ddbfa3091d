"""Z85 in both of Delta's paddings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated, delta

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def digits(value: int, count: int) -> str:
    text = ""
    for _ in range(count):
        value, digit = divmod(value, 85)
        text = ALPHABET[digit] + text
    assert value == 0
    return text


def java(data: bytes) -> str:
    padded = data + bytes(-len(data) % 4)
    return "".join(digits(int.from_bytes(padded[i : i + 4], "big"), 5) for i in range(0, len(padded), 4))


def rust(data: bytes) -> str:
    """The crate z85 from version 3.0 on: n bytes at the end become 4 - n times # and n + 1 digits."""
    whole = len(data) - len(data) % 4
    tail = data[whole:]
    marked = "#" * (4 - len(tail)) + digits(int.from_bytes(tail, "big"), len(tail) + 1) if tail else ""
    return java(data[:whole]) + marked


@given(st.binary(max_size=50))
def test_java_padding_round_trip(data: bytes) -> None:
    text = delta.encode_z85(data)
    assert text == java(data)
    assert delta.decode_z85(text, len(data)) == data
    assert delta.decode_z85(text) == data + bytes(-len(data) % 4)


@pytest.mark.parametrize("tail", [1, 2, 3])
def test_marked_tail_above_its_bytes_is_refused(tail: int) -> None:
    text = "#" * (4 - tail) + digits(2 ** (8 * tail), tail + 1)
    with pytest.raises(NotCanonical) as caught:
        delta.decode_z85("00000" + text)
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("Z85 tail", 5, repr(text))


@each(
    ("text", "offset"),
    [
        ("%nSc1", 0),
        ("#####", 0),
        ("00000#####", 5),
        ("##09300000", 0),
        ("HelloWorld%nSd000000", 10),
        ("$0000", 0),
    ],
)
def test_group_above_32_bits_is_refused(text: str, offset: int) -> None:
    with pytest.raises(NotCanonical) as caught:
        delta.decode_z85(text, source="log")
    assert (caught.value.what, caught.value.offset) == ("Z85 group", offset)
    assert caught.value.actual == repr(text[offset : offset + 5])
    assert caught.value.source == "log"


@each(
    ("text", "size", "kind"),
    [
        (java(b"\1\2\3\4"), 3, NotCanonical),
        (java(b"\1\0\0\4"), 1, NotCanonical),
        (java(b"\1\2\3\4" + bytes(4)), 4, NotCanonical),
        (java(b"\1\2\3\4"), 5, Truncated),
        ("", 1, Truncated),
        (rust(b"\1\2\3\4\5"), 6, Truncated),
        (rust(b"\1\2\3\4\5\0"), 5, NotCanonical),
        (rust(b"\1\2\3\4\0"), 4, NotCanonical),
    ],
)
def test_size_has_to_agree(text: str, size: int, kind: type[DecodeError]) -> None:
    with pytest.raises(kind) as caught:
        delta.decode_z85(text, size)
    assert (type(caught.value), caught.value.offset) == (kind, 0)
