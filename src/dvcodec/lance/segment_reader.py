"""Decodes the message ``U64Segment`` of a Lance sequence, which has five kinds.

`segments` describes and encodes them. As strict as the reader of pylance 14.
"""

from __future__ import annotations

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.lance import wire
from dvcodec.lance.arrays import ArrayParts
from dvcodec.lance.segments import ArraySegment, RangeSegment, RangeWithBitmap, RangeWithHoles, Segment, SortedArray

__all__ = ["decode_segment"]

RANGE_WITH_RUNS = 6
"""Field number of a proposed segment kind that no release writes."""
_NAMES = {1: "Range", 2: "RangeWithHoles", 3: "RangeWithBitmap", 4: "sorted_array", 5: "array"}
_START, _END, _THIRD = 1, 2, 3


def decode_segment(parts: list[Cursor]) -> Segment:
    """Decode one segment, whose message may come in several parts.

    Raises:
        Truncated: the bytes end inside a field.
        NotCanonical: none of the five kinds, or an invalid segment.
        Unsupported: the proposed kind ``RangeWithRuns``.
    """
    number, start, end = 0, 0, 0
    third: Cursor | None = None
    array: ArrayParts | None = None
    whole = parts[0]
    for cursor in parts:
        for entry in wire.fields(cursor):
            if entry.number == RANGE_WITH_RUNS:
                raise cursor.error(
                    Unsupported,
                    "segment of kind RangeWithRuns (field 6)",
                    at=entry.at,
                    expected=f"one of {', '.join(_NAMES.values())}",
                )
            if entry.number not in _NAMES:
                continue
            if entry.number != number:  # the last one wins
                number, start, end, third, array = entry.number, 0, 0, None, None
            window = entry.window(cursor, _NAMES[number])
            if number in (SortedArray.number, ArraySegment.number):
                array = array or ArrayParts()
                array.read(window)
                continue
            for inner in wire.fields(window):
                if inner.number == _START:
                    start = inner.integer(window, "start")
                elif inner.number == _END:
                    end = inner.integer(window, "end")
                elif inner.number == _THIRD and number == RangeWithBitmap.number:
                    third = inner.window(window, "bitmap")
                elif inner.number == _THIRD and number == RangeWithHoles.number:
                    array = array or ArrayParts()
                    array.read(inner.window(window, "holes"))
    if not number:
        raise whole.error(NotCanonical, "segment", at=0, expected=f"one of {', '.join(_NAMES.values())}")
    if number in (SortedArray.number, ArraySegment.number):
        return _array_segment(number, array or ArrayParts(), whole)
    if start > end:
        raise whole.error(NotCanonical, _NAMES[number], at=0, expected="start <= end", actual=f"{start} > {end}")
    if number == RangeSegment.number:
        return RangeSegment(start, end)
    if number == RangeWithHoles.number:
        return _with_holes(start, end, array, whole)
    return _with_bitmap(start, end, third, whole)


def _array_segment(number: int, parts: ArrayParts, cursor: Cursor) -> Segment:
    array = parts.finish(cursor, 0)
    if number == ArraySegment.number:
        return ArraySegment(array)
    if not array.ascends:
        raise (parts.data or cursor).error(NotCanonical, "sorted_array", expected="values that ascend strictly")
    return SortedArray(array)


def _with_holes(start: int, end: int, parts: ArrayParts | None, cursor: Cursor) -> Segment:
    if parts is None:
        raise cursor.error(NotCanonical, "RangeWithHoles", at=0, expected="holes")
    holes = parts.finish(cursor, 0)
    where = parts.data or cursor
    if not holes.ascends:
        raise where.error(NotCanonical, "holes", expected="values that ascend strictly")
    if len(holes) and not (start <= holes.at(0) and holes.at(len(holes) - 1) < end):
        raise where.error(
            NotCanonical,
            "holes",
            expected=f"values from {start} to {end - 1}",
            actual=f"{holes.at(0)} to {holes.at(len(holes) - 1)}",
        )
    return RangeWithHoles(start, end, holes)


def _with_bitmap(start: int, end: int, bits: Cursor | None, cursor: Cursor) -> Segment:
    data = b"" if bits is None else bytes(bits.view)
    where = bits or cursor
    expected = -(-(end - start) // 8)
    if len(data) != expected:
        raise where.error(
            NotCanonical,
            "bitmap",
            at=0,
            expected=f"{expected} bytes for {end - start} values",
            actual=len(data),
        )
    padding = (end - start) % 8
    if padding and data[-1] >> padding:
        raise where.error(
            NotCanonical, "padding bits of the bitmap", at=len(data) - 1, expected="zeros", actual=f"{data[-1]:#04x}"
        )
    return RangeWithBitmap(start, end, data)
