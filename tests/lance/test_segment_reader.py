"""Segments as they are read: forms that others write and that come back as they were, and what is refused and where."""

from __future__ import annotations

import pickle

import pytest

from battery import check_buffers
from cases import each
from dvcodec import DecodeError, NotCanonical, Truncated, Unsupported
from dvcodec.lance import RowIdSequence, decode_row_ids, encode_row_ids
from samples.lance import TOP, as_array, field, scalar, segment, span, u16, u64

# ---------------------------------------------------------------------- what comes back as it was

START0 = b"\x08\x00"
LOSSLESS: dict[str, tuple[bytes, list[int]]] = {
    "zero scalars are written": (segment(1, START0, scalar(2, 3)), [0, 1, 2]),
    "empty range": (field(1, field(1)), []),
    "empty range elsewhere": (segment(1, span(9, 9)), []),
    "overlong varint": (segment(1, b"\x10\x83\x80\x00"), [0, 1, 2]),
    "overlong length": (b"\x0a\x84\x00\x0a\x02\x10\x03", [0, 1, 2]),
    "fields in another order": (segment(1, scalar(2, 9), scalar(1, 7)), [7, 8]),
    "the last scalar wins": (segment(1, scalar(2, 1), scalar(2, 3)), [0, 1, 2]),
    "the last of the five wins": (field(1, field(4, u64(5)), field(1, span(3, 5))), [3, 4]),
    "a kind that comes back starts anew": (field(1, field(1, span(3, 5)), field(3), field(1, scalar(2, 2))), [0, 1]),
    "split messages merge": (field(1, field(1, scalar(1, 3)), field(1, scalar(2, 5))), [3, 4]),
    "split holes merge": (
        field(
            1,
            field(2, span(0, 4)),
            field(2, field(3, field(1, scalar(1, 1)))),
            field(2, field(3, field(1, field(2, b"\0\0")))),
        ),
        [0, 2, 3],
    ),
    "the last width wins": (segment(4, u16(1, 2), u64(9)), [9]),
    "a width that comes back starts anew": (segment(4, u16(1, 2, base=7), u64(9), field(1, field(2, b"\3\0"))), [3]),
    "unknown field of a segment": (field(1, field(1, span(0, 2)), field(15, b"x"), scalar(9, 3)), [0, 1]),
    "unknown field of a range": (segment(1, span(0, 2), scalar(3, 77)), [0, 1]),
    "unknown group": (segment(1, span(0, 2), bytes([5 << 3 | 3]), scalar(1, 2), bytes([5 << 3 | 4])), [0, 1]),
    "unknown fixed fields": (
        segment(1, span(0, 2), bytes([5 << 3 | 5]) + bytes(4), bytes([5 << 3 | 1]) + bytes(8)),
        [0, 1],
    ),
    "field 1 of a u64 array": (segment(4, field(3, scalar(1, 7), field(2, as_array([4, 9]).tobytes()))), [4, 9]),
    "empty holes": (segment(2, span(3, 6), field(3, field(3))), [3, 4, 5]),
    "empty holes of 16 bits with a base": (segment(2, span(3, 6), field(3, field(1, scalar(1, 99)))), [3, 4, 5]),
    "all holes": (segment(2, span(3, 5), field(3, u16(0, 1, base=3))), []),
    "bitmap of zeros": (segment(3, span(3, 20), field(3, bytes(3))), []),
    "empty bitmap": (segment(3, span(3, 3)), []),
    "empty bitmap that is written": (segment(3, span(3, 3), field(3)), []),
    "empty arrays": (segment(4, field(1)) + segment(4, field(2)) + segment(5, field(3)), []),
    "wide array": (segment(4, u64(1, 2)), [1, 2]),
    "any base": (segment(4, u16(4, 5, base=3)), [7, 8]),
    "duplicates in an array": (segment(5, u16(4, 4, 4)), [4, 4, 4]),
    "overlapping segments": (segment(1, span(0, 3)) + segment(1, span(0, 3)), [0, 1, 2, 0, 1, 2]),
    "descending segments": (segment(1, span(5, 7)) + segment(1, span(0, 2)), [5, 6, 0, 1]),
    "touching ranges stay apart": (segment(1, span(0, 2)) + segment(1, span(2, 4)), [0, 1, 2, 3]),
    "the largest sum": (segment(4, u16(0, 1, base=TOP - 1)), [TOP - 1, TOP]),
}


@each("name", LOSSLESS)
def test_accepted_forms_come_back_as_they_were(name: str) -> None:
    data, ids = LOSSLESS[name]
    found = decode_row_ids(data)
    assert found.to_numpy().tolist() == ids
    assert found.count == len(ids)
    assert encode_row_ids(found) == data
    assert decode_row_ids(encode_row_ids(RowIdSequence(found.segments))) == found
    assert encode_row_ids(pickle.loads(pickle.dumps(found))) == data
    check_buffers(decode_row_ids, data)


# ---------------------------------------------------------------------- what is refused

WRONG_TYPE = "another wire type"
A_VARINT, A_LENGTH = "a varint", "a length-delimited field"
REFUSED: dict[str, tuple[bytes, type[DecodeError], str, int, object, object]] = {
    # bytes, error, what, offset of the fault, expected, actual
    "no kind": (segment(1, span(0, 2)) + field(1), NotCanonical, "segment", 10, "RangeWithBitmap", None),
    "no array": (segment(4), NotCanonical, "array", 2, "U16Array", None),
    "no array, unknown field": (segment(5, scalar(9, 1)), NotCanonical, "array", 2, "U16Array", None),
    "start after end": (segment(1, span(5, 3)), NotCanonical, "Range", 2, "start <= end", "5 > 3"),
    "start after end, holes": (
        segment(2, span(5, 3), field(3, field(3))),
        NotCanonical,
        "RangeWithHoles",
        2,
        "start <= end",
        "5 > 3",
    ),
    "start after end, bitmap": (segment(3, span(5, 3)), NotCanonical, "RangeWithBitmap", 2, "start <= end", "5 > 3"),
    "no holes": (segment(2, span(3, 5)), NotCanonical, "RangeWithHoles", 2, "holes", None),
    "holes without an array": (segment(2, span(3, 5), field(3)), NotCanonical, "array", 2, "U16Array", None),
    "holes descend": (segment(2, span(0, 9), field(3, u16(5, 3))), NotCanonical, "holes", 16, "ascend strictly", None),
    "holes repeat": (segment(2, span(0, 9), field(3, u16(5, 5))), NotCanonical, "holes", 16, "ascend strictly", None),
    "hole before the start": (
        segment(2, span(4, 9), field(3, u16(3, 5))),
        NotCanonical,
        "holes",
        16,
        "values from 4 to 8",
        "3 to 5",
    ),
    "hole at the end": (
        segment(2, span(4, 9), field(3, u16(5, 9))),
        NotCanonical,
        "holes",
        16,
        "values from 4 to 8",
        "5 to 9",
    ),
    "holes as offsets": (
        segment(2, span(100, 104), field(3, u16(1))),
        NotCanonical,
        "holes",
        16,
        "values from 100 to 103",
        "1 to 1",
    ),
    "bitmap too short": (
        segment(3, span(0, 17), field(3, b"\1\1")),
        NotCanonical,
        "bitmap",
        10,
        "3 bytes for 17 values",
        2,
    ),
    "bitmap too long": (
        segment(3, span(0, 16), field(3, b"\1\1\0")),
        NotCanonical,
        "bitmap",
        10,
        "2 bytes for 16 values",
        3,
    ),
    "no bitmap": (segment(3, span(0, 16)), NotCanonical, "bitmap", 2, "2 bytes for 16 values", 0),
    "padding bits": (segment(3, span(0, 12), field(3, b"\xff\x1f")), NotCanonical, "padding bits", 11, "zeros", "0x1f"),
    "sorted array descends": (segment(4, u16(5, 3)), NotCanonical, "sorted_array", 10, "ascend strictly", None),
    "sorted array repeats": (segment(4, u16(5, 5)), NotCanonical, "sorted_array", 10, "ascend strictly", None),
    "odd 16-bit array": (
        segment(5, field(1, field(2, b"\1\1\1"))),
        NotCanonical,
        "values of a U16Array",
        8,
        "a multiple of 2 bytes",
        3,
    ),
    "odd 32-bit array": (
        segment(5, field(2, field(2, b"\1\1"))),
        NotCanonical,
        "values of a U32Array",
        8,
        "a multiple of 4 bytes",
        2,
    ),
    "odd 64-bit array": (
        segment(5, field(3, field(2, bytes(12)))),
        NotCanonical,
        "values of a U64Array",
        8,
        "a multiple of 8 bytes",
        12,
    ),
    "sum too large": (
        segment(5, u16(0, 1, base=TOP)),
        NotCanonical,
        "base and offset",
        19,
        f"a sum of at most {TOP}",
        TOP + 1,
    ),
    "sum too large, in holes": (
        segment(2, span(0, TOP), field(3, u16(9, base=TOP))),
        NotCanonical,
        "base and offset",
        34,
        f"a sum of at most {TOP}",
        TOP + 9,
    ),
    "too many ids": (
        segment(1, scalar(2, TOP)) + segment(1, scalar(2, 1)),
        NotCanonical,
        "row ids",
        15,
        f"at most {TOP}",
        TOP + 1,
    ),
    "unknown field": (segment(1, span(0, 2)) + scalar(2, 1), NotCanonical, "field of RowIdSequence", 8, 1, 2),
    "unknown first field": (field(7, b"abc"), NotCanonical, "field of RowIdSequence", 0, 1, 7),
    "segment of another type": (b"\x08\x05", NotCanonical, "segment", 0, A_LENGTH, WRONG_TYPE),
    "range of another type": (field(1, b"\x08\x05"), NotCanonical, "Range", 2, A_LENGTH, WRONG_TYPE),
    "start of another type": (segment(1, field(1, b"abc")), NotCanonical, "start", 4, A_VARINT, WRONG_TYPE),
    "end is fixed": (segment(1, b"\x11" + bytes(8)), NotCanonical, "end", 4, A_VARINT, WRONG_TYPE),
    "bitmap of another type": (segment(3, span(0, 8), scalar(3, 255)), NotCanonical, "bitmap", 8, A_LENGTH, WRONG_TYPE),
    "holes of another type": (segment(2, span(0, 8), scalar(3, 255)), NotCanonical, "holes", 8, A_LENGTH, WRONG_TYPE),
    "array of another type": (segment(4, scalar(1, 3)), NotCanonical, "array", 4, A_LENGTH, WRONG_TYPE),
    "base of another type": (
        segment(4, field(1, field(1, b"a"))),
        NotCanonical,
        "base of an array",
        6,
        A_VARINT,
        WRONG_TYPE,
    ),
    "values of another type": (
        segment(4, field(1, scalar(2, 1))),
        NotCanonical,
        "values of an array",
        6,
        A_LENGTH,
        WRONG_TYPE,
    ),
    "range is a group": (field(1, b"\x0b\x0c"), NotCanonical, "Range", 2, A_LENGTH, WRONG_TYPE),
    "field number 0": (field(1, b"\x02\x00"), NotCanonical, "field key", 2, "a field number and a wire type", 2),
    "wire type 7": (field(1, b"\x0f"), NotCanonical, "field key", 2, "a field number and a wire type", 15),
    "end without a group": (field(1, b"\x7c"), NotCanonical, "field key", 2, "no end without a group", 15),
    "varint of 65 bits": (
        segment(1, b"\x10" + b"\xff" * 9 + b"\x02"),
        NotCanonical,
        "field 2",
        5,
        "a varint below 2**64",
        None,
    ),
    "varint of 11 bytes": (
        segment(1, b"\x10" + b"\x80" * 10 + b"\x00"),
        NotCanonical,
        "field 2",
        5,
        "a varint of at most 10 bytes",
        None,
    ),
    "cut inside a segment": (segment(1, span(0, 2))[:-1], Truncated, "field 1", 2, "6 bytes", "5 left"),
    "cut inside a range": (field(1, b"\x0a\x04\x10"), Truncated, "field 1", 4, "4 bytes", "1 left"),
    "cut inside a varint": (segment(1, b"\x10\x83"), Truncated, "field 2", 6, "1 bytes", "0 left"),
    "RangeWithRuns": (
        segment(1, span(0, 2)) + segment(6, span(0, 9)),
        Unsupported,
        "RangeWithRuns",
        10,
        "sorted_array",
        None,
    ),
}


@each("name", REFUSED)
def test_refused_with_what_and_where(name: str) -> None:
    data, kind, what, offset, expected, actual = REFUSED[name]
    for base in (0, 1000):
        with pytest.raises(DecodeError) as caught:
            decode_row_ids(data, source="x.manifest", base=base)
        error = caught.value
        assert type(error) is kind
        assert what in error.what
        assert error.offset == base + offset
        assert error.source == "x.manifest"
        if isinstance(expected, str):
            assert expected in str(error.expected)
        else:
            assert error.expected == expected
        if actual is not None:
            assert error.actual == actual
