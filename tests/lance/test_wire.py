"""The protobuf wire format against the protobuf runtime."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import unknown_fields
from google.protobuf.message import DecodeError as ProtobufDecodeError
from hypothesis import given
from hypothesis import strategies as st

from battery import outcome
from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated
from dvcodec.core.cursor import Cursor
from dvcodec.core.varints import uvarints
from dvcodec.lance import wire
from samples.lance import TOP, message

numbers = st.one_of(st.integers(1, 20), st.integers(1, 2**29 - 1))
integers = st.one_of(st.integers(0, 300), st.integers(0, TOP), st.sampled_from([2**63, TOP]))
Entry = tuple[int, "int | bytes | None"]


def read(data: bytes) -> list[Entry]:
    found: list[Entry] = []
    for entry in wire.fields(Cursor(data)):
        value = entry.value
        found.append((entry.number, bytes(value.view) if isinstance(value, Cursor) else value))
    return found


def zero_inside(entries: Any) -> bool:
    """Whether a field has the number 0, which the runtime passes and Lance's reader does not."""
    return any(entry.field_number == 0 or (entry.wire_type == 3 and zero_inside(entry.data)) for entry in entries)


def by_protobuf(data: bytes) -> list[Entry] | None:
    """The fields as unknown fields of an empty message; None where the runtime refuses them."""
    found = message("Marker")
    try:
        found.ParseFromString(data)
    except ProtobufDecodeError:
        return None
    entries = unknown_fields.UnknownFieldSet(found)
    if zero_inside(entries):
        return None
    return [(entry.field_number, entry.data if entry.wire_type in (0, 2) else None) for entry in entries]


@given(st.lists(st.tuples(numbers, st.one_of(integers, st.binary(max_size=200)))))
def test_what_is_written_is_read(entries: list[tuple[int, int | bytes]]) -> None:
    data = b"".join(
        uvarints(number << 3, value) if isinstance(value, int) else wire.message(number, value)
        for number, value in entries
    )
    assert read(data) == entries
    assert by_protobuf(data) == entries


@given(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 9, 10, 11, 12, 13, 18, 19, 20, 27, 28, 96, 127]), max_size=24))
def test_small_messages_are_judged_as_by_protobuf(parts: list[int]) -> None:
    data = bytes(parts)
    found = outcome(read, data)
    assert (None if isinstance(found, DecodeError) else found) == by_protobuf(data)


@each(
    ("data", "kind", "offset"),
    [
        (b"\x08", Truncated, 1),
        (b"\x08\x80", Truncated, 2),
        (b"\x80", Truncated, 1),
        (b"\x12\x02a", Truncated, 2),
        (b"\x09" + bytes(7), Truncated, 1),
        (b"\x0d" + bytes(3), Truncated, 1),
        (b"\x0b", Truncated, 1),
        (b"\x0b\x08", Truncated, 2),
        (b"\x0b\x12\x05a\x0c", Truncated, 3),
        (b"\x00\x00", NotCanonical, 0),
        (b"\x0e", NotCanonical, 0),
        (b"\x0c", NotCanonical, 0),
        (b"\x0b\x14", NotCanonical, 1),
        (b"\x0b\x13\x0c\x14", NotCanonical, 2),
        (b"\x80\x80\x80\x80\x10\x00", NotCanonical, 0),  # field number 2**29
        (b"\x08" + b"\x80" * 9 + b"\x02", NotCanonical, 1),
        (b"\x12" + b"\xff" * 9 + b"\x01", Truncated, 11),
    ],
)
def test_refused_with_where(data: bytes, kind: type[DecodeError], offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        list(wire.fields(Cursor(data, source="f", base=50)))
    assert type(caught.value) is kind
    assert (caught.value.source, caught.value.offset) == ("f", 50 + offset)


@pytest.mark.parametrize(("depth", "fits"), [(1, True), (100, True), (101, False), (100_000, False)])
def test_groups_in_groups(depth: int, fits: bool) -> None:
    found = outcome(read, b"\x0b" * depth + b"\x0c" * depth)
    assert isinstance(found, DecodeError) is not fits
    assert not fits or found == [(1, None)]
