"""Segments as they are read: forms that others write and that come back as they were, and what is refused and where."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest

from battery import check_buffers
from cases import each
from dvcodec import NotCanonical, Unsupported
from dvcodec.lance import (
    EncodedArray,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
    RowIdSequence,
    decode_row_ids,
    encode_row_ids,
)
from dvcodec.lance.segments import from_values
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

REFUSED: dict[str, tuple[bytes, str, int]] = {
    # bytes, what is wrong, offset of the fault
    "no kind": (segment(1, span(0, 2)) + field(1), "segment", 10),
    "no array": (segment(4), "array", 2),
    "no array, unknown field": (segment(5, scalar(9, 1)), "array", 2),
    "start after end": (segment(1, span(5, 3)), "Range", 2),
    "start after end, holes": (segment(2, span(5, 3), field(3, field(3))), "RangeWithHoles", 2),
    "start after end, bitmap": (segment(3, span(5, 3)), "RangeWithBitmap", 2),
    "no holes": (segment(2, span(3, 5)), "RangeWithHoles", 2),
    "holes without an array": (segment(2, span(3, 5), field(3)), "array", 2),
    "holes descend": (segment(2, span(0, 9), field(3, u16(5, 3))), "holes", 16),
    "holes repeat": (segment(2, span(0, 9), field(3, u16(5, 5))), "holes", 16),
    "hole before the start": (segment(2, span(4, 9), field(3, u16(3, 5))), "holes", 16),
    "hole at the end": (segment(2, span(4, 9), field(3, u16(5, 9))), "holes", 16),
    "holes as offsets": (segment(2, span(100, 104), field(3, u16(1))), "holes", 16),
    "bitmap too short": (segment(3, span(0, 17), field(3, b"\1\1")), "bitmap", 10),
    "bitmap too long": (segment(3, span(0, 16), field(3, b"\1\1\0")), "bitmap", 10),
    "no bitmap": (segment(3, span(0, 16)), "bitmap", 2),
    "padding bits": (segment(3, span(0, 12), field(3, b"\xff\x1f")), "padding bits of the bitmap", 11),
    "sorted array descends": (segment(4, u16(5, 3)), "sorted_array", 10),
    "sorted array repeats": (segment(4, u16(5, 5)), "sorted_array", 10),
    "odd 16-bit array": (segment(5, field(1, field(2, b"\1\1\1"))), "values of a U16Array", 8),
    "odd 32-bit array": (segment(5, field(2, field(2, b"\1\1"))), "values of a U32Array", 8),
    "odd 64-bit array": (segment(5, field(3, field(2, bytes(12)))), "values of a U64Array", 8),
    "sum too large": (segment(5, u16(0, 1, base=TOP)), "base and offset", 19),
    "sum too large, in holes": (segment(2, span(0, TOP), field(3, u16(9, base=TOP))), "base and offset", 34),
    "too many ids": (segment(1, scalar(2, TOP)) + segment(1, scalar(2, 1)), "row ids", 15),
    "unknown field": (segment(1, span(0, 2)) + scalar(2, 1), "field of RowIdSequence", 8),
    "segment of another type": (b"\x08\x05", "segment", 0),
    "range of another type": (field(1, b"\x08\x05"), "Range", 2),
    "start of another type": (segment(1, field(1, b"abc")), "start", 4),
    "end is fixed": (segment(1, b"\x11" + bytes(8)), "end", 4),
    "bitmap of another type": (segment(3, span(0, 8), scalar(3, 255)), "bitmap", 8),
    "holes of another type": (segment(2, span(0, 8), scalar(3, 255)), "holes", 8),
    "array of another type": (segment(4, scalar(1, 3)), "array", 4),
    "base of another type": (segment(4, field(1, field(1, b"a"))), "base of an array", 6),
    "values of another type": (segment(4, field(1, scalar(2, 1))), "values of an array", 6),
}


@each("name", REFUSED)
def test_refused_with_what_and_where(name: str) -> None:
    """What the wire format itself refuses is tested with it."""
    data, what, offset = REFUSED[name]
    with pytest.raises(NotCanonical) as caught:
        decode_row_ids(data, source="x.manifest", base=1000)
    assert (caught.value.what, caught.value.source, caught.value.offset) == (what, "x.manifest", 1000 + offset)


def test_the_proposed_kind_is_not_supported() -> None:
    with pytest.raises(Unsupported, match="RangeWithRuns") as caught:
        decode_row_ids(segment(1, span(0, 2)) + segment(6, span(0, 9)))
    assert caught.value.offset == 10


# ---------------------------------------------------------------------- huge spans, and holes wherever they are


MANY = 2**60


@pytest.mark.parametrize("start", [0, 5, 2**63, TOP - MANY])
def test_huge_range_with_few_holes_is_never_expanded(start: int) -> None:
    end = start + MANY
    holes = [start + 3, start + 4, start + 1000, end - 9, end - 2]
    huge = RangeWithHoles(start, end, EncodedArray.from_values(as_array(holes)))
    tracemalloc.start()
    assert huge.count == MANY - 5
    assert huge.get(0) == start
    assert huge.get(3) == start + 5
    assert huge.get(997) == start + 999
    assert huge.get(998) == start + 1001
    assert huge.get(MANY - 6) == end - 1
    assert huge.get(MANY - 5) is None
    assert huge.position(end - 1) == MANY - 6
    assert huge.position(end - 2) is None
    assert huge.position(start + 2**59) == 2**59 - 3
    assert huge.slice(3, 100) == RangeSegment(start + 5, start + 105)
    assert huge.slice(10, MANY - 40) == RangeWithHoles(
        start + 12, end - 27, EncodedArray.from_values(as_array([start + 1000]))
    )
    assert huge.slice(MANY - 8, 3) == RangeWithBitmap(end - 4, end, b"\x0b")
    # Positions 0 to 2 leave the front, which the two holes that follow then lengthen; the same at the back.
    masked = huge.mask(np.array([0, 1, 2, 500, MANY - 6], np.int64))
    assert masked == RangeWithHoles(
        start + 5, end - 2, EncodedArray.from_values(as_array([start + 502, start + 1000, end - 9]))
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_nothing_is_left() -> None:
    holes = EncodedArray.from_values(as_array([4]))
    for one in (RangeSegment(3, 5), RangeWithHoles(3, 6, holes), RangeWithBitmap(3, 6, b"\x05")):
        assert one.mask(np.array([0, 1], np.int64)) == RangeSegment(0, 0)


@each("hole", [1, 16_383, 16_384, 16_385, 32_769, 39_999])
def test_a_hole_is_found_once_wherever_it_is(hole: int) -> None:
    """The values are looked at in blocks of 2**14."""
    values = np.arange(40_000, dtype=np.uint64)
    values[hole:] += np.uint64(1)
    assert from_values(values) == RangeWithHoles(0, 40_001, EncodedArray.from_values(as_array([hole])))
