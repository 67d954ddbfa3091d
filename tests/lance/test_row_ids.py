"""Row-id sequences: real ones, laws against lists, what is refused and where, and bytes that come back as they were."""

from __future__ import annotations

import json
import pickle
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import unknown_fields
from google.protobuf.message import DecodeError as ProtobufDecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from battery import check_buffers, check_truncations, outcome
from core.crafting import run_limited
from dvcodec import DecodeError, LimitExceeded, NotCanonical, RowSet, Truncated, Unsupported, UsageError
from dvcodec.lance import (
    Array,
    EncodedArray,
    Range,
    RangeWithBitmap,
    RangeWithHoles,
    RowIdSequence,
    Segment,
    SortedArray,
    decode_row_ids,
    rechunk,
)

from .craft import (
    TOP,
    Seg,
    as_array,
    expand,
    id_lists,
    join,
    message,
    sequence_bytes,
    sequences,
    write,
    write_array,
)

KIND_NAMES: dict[str, type[Segment]] = {
    "range": Range,
    "range_with_holes": RangeWithHoles,
    "range_with_bitmap": RangeWithBitmap,
    "sorted_array": SortedArray,
    "array": Array,
}


def field(number: int, *parts: bytes, wire: int = 2) -> bytes:
    content = b"".join(parts)
    return bytes([number << 3 | wire]) + (uvarint(len(content)) if wire == 2 else b"") + content


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def scalar(number: int, value: int) -> bytes:
    return bytes([number << 3]) + uvarint(value)


def segment(number: int, *content: bytes) -> bytes:
    return field(1, field(number, *content))


def span(start: int, end: int) -> bytes:
    return scalar(1, start) + scalar(2, end)


def u16(*offsets: int, base: int = 0) -> bytes:
    return field(1, scalar(1, base), field(2, as_array(list(offsets)).astype("<u2").tobytes()))


def u64(*values: int) -> bytes:
    return field(3, field(2, as_array(list(values)).astype("<u8").tobytes()))


# ---------------------------------------------------------------------- real bytes


def corpus(vectors: Path) -> list[dict[str, Any]]:
    path = vectors / "lance" / "rowidsequence_corpus.json"
    cases: list[dict[str, Any]] = json.loads(path.read_text())["cases"]
    return cases


def ids_of(case: dict[str, Any]) -> list[int]:
    if "values_runs" in case:
        return [value for start, stop in case["values_runs"] for value in range(start, stop)]
    ids: list[int] = case["values"]
    return ids


def test_corpus_of_pylance_both_ways(vectors: Path) -> None:
    cases = corpus(vectors)
    assert len(cases) == 251
    for case in cases:
        ids, data = ids_of(case), bytes.fromhex(case["hex"])
        assert RowIdSequence.from_values(ids).encode() == data, case["name"]
        found = decode_row_ids(data)
        assert found.to_numpy().tolist() == ids, case["name"]
        assert found.encode() == data, case["name"]
        assert RowIdSequence(found.segments).encode() == data, case["name"]
        if case["kind"] is not None:
            assert type(found.segments[0]) is KIND_NAMES[case["kind"]], case["name"]


def test_corpus_has_every_kind(vectors: Path) -> None:
    kinds = {type(part) for case in corpus(vectors) for part in decode_row_ids(bytes.fromhex(case["hex"])).segments}
    assert kinds == set(KIND_NAMES.values())


def test_sequences_of_datasets(vectors: Path) -> None:
    names = sorted((vectors / "lance").glob("*.row_ids.bin"))
    assert len(names) >= 15
    for path in names:
        data = path.read_bytes()
        found = decode_row_ids(data)
        assert RowIdSequence(found.segments).encode() == data, path.name


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([], ""),
        (range(10), "0a04 0a02 100a"),
        ([42], "0a06 0a04 082a 102b"),
        ([0, 2], "0a07 1a05 1003 1a01 05"),
        ([1, 0, 2], "0a0c 2a0a 0a08 1206 0100 0000 0200"),
        ([TOP], "0a13 2211 0a0f 08ffffffffffffffffff01 1202 0000"),
        ([1, 2, 4, 5, 6, 7, 8, 9, 10, 12], "0a0a 1a08 0801 100d 1a02 fb0b"),
    ],
    ids=str,
)
def test_bytes_by_hand(ids: Any, text: str) -> None:
    data = bytes.fromhex(text)
    assert RowIdSequence.from_values(ids).encode() == data
    assert decode_row_ids(data).to_numpy().tolist() == list(ids)


# ---------------------------------------------------------------------- laws


@settings(max_examples=300)
@given(sequences)
def test_sequence_is_its_list(specs: list[Seg]) -> None:
    data, model = sequence_bytes(specs), expand(specs)
    found = decode_row_ids(data)
    assert found == RowIdSequence(tuple(spec.ours() for spec in specs))
    assert found.encode() == data
    assert RowIdSequence(found.segments).encode() == data
    assert found.to_numpy().tolist() == model
    assert found.to_numpy().dtype == np.uint64
    assert found.count == len(found) == len(model)
    assert [found.get(i) for i in range(-1, len(model) + 1)] == [None, *model, None]
    for value in {known + by for known in model for by in (-1, 0, 1)} | {0, TOP, -1}:
        assert found.position(value) == (model.index(value) if value in model else None)


@settings(max_examples=200)
@given(sequences, st.data())
def test_slice(specs: list[Seg], data: st.DataObject) -> None:
    model = expand(specs)
    lo = data.draw(st.integers(0, len(model)))
    hi = data.draw(st.integers(lo, len(model)))
    found = decode_row_ids(sequence_bytes(specs)).slice(lo, hi - lo)
    pieces, at = [], 0
    for spec in specs:
        values = spec.values()
        pieces.append(write(values[max(lo - at, 0) : max(hi - at, 0)]))
        at += len(values)
    assert found.to_numpy().tolist() == model[lo:hi]
    assert found.encode() == sequence_bytes(join(pieces))


@settings(max_examples=200)
@given(sequences, st.data())
def test_mask(specs: list[Seg], data: st.DataObject) -> None:
    model = expand(specs)
    gone = data.draw(st.sets(st.integers(0, len(model) - 1))) if model else set()
    found = decode_row_ids(sequence_bytes(specs)).mask(gone)
    assert found.to_numpy().tolist() == [value for i, value in enumerate(model) if i not in gone]
    wanted, at = [], 0
    for spec in specs:
        values = spec.values()
        rest = [value for i, value in enumerate(values, at) if i not in gone]
        if rest == values:
            wanted += [spec] if rest else []
        elif rest:
            # The form is chosen anew, but what was in any order stays an array.
            ordered = write(rest)
            wanted.append(Seg("array", array=write_array(rest)) if spec.kind == "array" else ordered)
        at += len(values)
    assert found.encode() == sequence_bytes(wanted)
    assert found == decode_row_ids(sequence_bytes(specs)).mask(RowSet(gone))


@settings(max_examples=100)
@given(st.lists(sequences, max_size=3), st.data())
def test_rechunk(groups: list[list[Seg]], data: st.DataObject) -> None:
    specs = [spec for group in groups for spec in group]
    model = expand(specs)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(model)), max_size=4)))
    sizes = [b - a for a, b in pairwise([0, *cuts, len(model)])]
    found = rechunk([decode_row_ids(sequence_bytes(group)) for group in groups], sizes)
    whole = decode_row_ids(sequence_bytes(specs))
    at = 0
    for size, chunk in zip(sizes, found, strict=True):
        assert chunk.to_numpy().tolist() == model[at : at + size]
        assert chunk == whole.slice(at, size)
        at += size


@settings(max_examples=300)
@given(id_lists())
def test_from_values_is_the_writers_rule(ids: list[int]) -> None:
    found = RowIdSequence.from_values(ids)
    assert found.to_numpy().tolist() == ids
    assert found.encode() == (sequence_bytes([write(ids)]) if ids else b"")
    assert decode_row_ids(found.encode()) == found
    assert RowIdSequence.from_values(as_array(ids)) == found
    assert RowIdSequence.from_values(iter(ids)) == found


def test_slice_joins_ranges_that_touch_and_drops_empty_pieces() -> None:
    holes = RangeWithHoles(20, 24, EncodedArray(2, 22, b"\0\0"))
    whole = RowIdSequence((Range(0, 5), Range(5, 9), Range(0, 0), Range(9, 12), holes, Range(30, 31)))
    assert whole.slice(0, 12).segments == (Range(0, 12),)
    assert whole.slice(3, 6).segments == (Range(3, 9),)
    assert whole.slice(3, 11).segments == (Range(3, 12), Range(20, 22))
    assert whole.slice(11, 5).segments == (Range(11, 12), RangeWithBitmap(20, 24, b"\x0b"), Range(30, 31))
    assert whole.slice(5, 0).segments == ()


def test_mask_keeps_what_it_does_not_touch() -> None:
    wide = SortedArray(EncodedArray(8, 0, as_array([7, 9]).tobytes()))
    whole = RowIdSequence((Range(0, 3), Range(3, 6), wide, Array(EncodedArray.from_values(as_array([50, 40, 41])))))
    assert whole.mask([]).segments == whole.segments
    assert whole.mask([4]).segments == (Range(0, 3), RangeWithBitmap(3, 6, b"\x05"), *whole.segments[2:])
    assert whole.mask(range(3)).segments == whole.segments[1:]
    assert whole.mask([8]).segments[3] == Array(EncodedArray(2, 40, b"\0\0\1\0"))
    assert whole.mask([6]).segments[2] == Range(9, 10)
    assert whole.mask(range(11)).segments == ()


def test_compaction_makes_sorted_forms_of_an_array_that_lost_its_descents() -> None:
    masked = RowIdSequence.from_values([24, 7, 25]).mask([0])
    assert isinstance(masked.segments[0], Array)
    assert isinstance(rechunk([masked], [2])[0].segments[0], RangeWithBitmap)


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (0, -1), (9, 3), (0, 11), (11, 0)])
def test_slice_of_rows_that_are_not_there(offset: int, length: int) -> None:
    with pytest.raises(UsageError):
        RowIdSequence.from_values(range(10)).slice(offset, length)


@pytest.mark.parametrize("rows", [[10], [2, 11], [2**40]])
def test_mask_of_rows_that_are_not_there(rows: list[int]) -> None:
    with pytest.raises(UsageError, match="sequence of 10"):
        RowIdSequence.from_values(range(10)).mask(rows)
    with pytest.raises(UsageError):
        RowIdSequence().mask([0])


@pytest.mark.parametrize("sizes", [[], [9], [5, 6], [11, -1], [-1, 11]])
def test_rechunk_into_other_rows(sizes: list[int]) -> None:
    with pytest.raises(UsageError):
        rechunk([RowIdSequence.from_values(range(10))], sizes)


@pytest.mark.parametrize("ids", [[1, 1], [5, 3, 5], np.array([0, 2**63, 2**63], np.uint64), [TOP, TOP]], ids=str)
def test_repeated_ids_are_refused_by_the_writer(ids: Any) -> None:
    with pytest.raises(UsageError, match="repeated"):
        RowIdSequence.from_values(ids)


@given(st.lists(st.sampled_from([k << shift for shift in (0, 7, 40) for k in range(9)]), max_size=12))
def test_ids_are_taken_as_long_as_they_are_distinct(ids: list[int]) -> None:
    """Also those with the same low bits, by which repeated ones are looked for."""
    if len(set(ids)) == len(ids):
        assert RowIdSequence.from_values(ids).to_numpy().tolist() == ids
    else:
        lowest = min(one for one in ids if ids.count(one) > 1)
        with pytest.raises(UsageError, match=f"row id {lowest} is repeated"):
            RowIdSequence.from_values(ids)


@pytest.mark.parametrize("ids", [[-1], [2**64], [1.5], "ab", b"ab", range(-3, 2), np.array([[1]])], ids=str)
def test_what_is_no_id(ids: Any) -> None:
    with pytest.raises(UsageError):
        RowIdSequence.from_values(ids)


@pytest.mark.parametrize(
    ("ids", "segments"),
    [
        (range(2**60), (Range(0, 2**60),)),
        (range(5, TOP), (Range(5, TOP),)),
        (range(7, 7), ()),
        (range(7, 3), ()),
        (range(0, 6, 2), (RangeWithBitmap(0, 5, b"\x15"),)),
        (range(2, -1, -1), (Array(EncodedArray(2, 0, b"\2\0\1\0\0\0")),)),
        (range(TOP - 1, TOP + 1), (SortedArray(EncodedArray(2, TOP - 1, b"\0\0\1\0")),)),
    ],
    ids=str,
)
def test_python_ranges(ids: range, segments: tuple[object, ...]) -> None:
    assert RowIdSequence.from_values(ids).segments == segments


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


@pytest.mark.parametrize("name", LOSSLESS)
def test_accepted_forms_come_back_as_they_were(name: str) -> None:
    data, ids = LOSSLESS[name]
    found = decode_row_ids(data)
    assert found.to_numpy().tolist() == ids
    assert found.count == len(ids)
    assert found.encode() == data
    assert decode_row_ids(RowIdSequence(found.segments).encode()) == found
    assert pickle.loads(pickle.dumps(found)).encode() == data
    check_buffers(decode_row_ids, data)


def test_what_was_changed_is_not_given_its_old_bytes() -> None:
    data = segment(1, START0, scalar(2, 3))
    found = decode_row_ids(data)
    assert found.encode() == data
    assert found.mask([]).encode() == found.slice(0, 3).encode() == segment(1, scalar(2, 3))


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
    "end without a group": (field(1, b"\x7c"), NotCanonical, "field key", 2, "a group before its end", 15),
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


@pytest.mark.parametrize("name", REFUSED)
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


def test_proposed_kind_is_named() -> None:
    with pytest.raises(Unsupported, match=r"RangeWithRuns \(field 6\)"):
        decode_row_ids(segment(6, span(0, 9)))


def test_known_kinds_are_named_where_none_is() -> None:
    with pytest.raises(NotCanonical, match="one of Range, RangeWithHoles, RangeWithBitmap, sorted_array, array"):
        decode_row_ids(b"\x0a\x00")


# ---------------------------------------------------------------------- damage

MIXED = sequence_bytes(
    [
        Seg("range", 2**40, 2**40 + 500),
        Seg("bitmap", 7, 30, bits=(1, 0) * 11 + (1,)),
        write([5, 3, 2**20]),
        write([0, 3, 70, 900, 2**34]),
        write([value for value in range(300) if value not in (5, 80, 81)]),
    ]
)


def test_cuts_are_refused_but_between_segments() -> None:
    whole = decode_row_ids(MIXED)
    assert {type(part) for part in whole.segments} == set(KIND_NAMES.values())
    borders, at = {0}, 0
    for part in whole.segments:
        at += len(RowIdSequence((part,)).encode())
        borders.add(at)
    check_truncations(
        decode_row_ids,
        MIXED,
        allowed=lambda found, size: size in borders and found.segments == whole.segments[: len(found.segments)],
    )


def test_every_flipped_bit_ends_in_a_value_or_a_decode_error() -> None:
    for bit in range(8 * len(MIXED)):
        damaged = bytearray(MIXED)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        check_outcome(bytes(damaged))


def check_outcome(data: bytes) -> None:
    found = outcome(decode_row_ids, data)
    if isinstance(found, RowIdSequence):
        assert found.encode() == data
        assert found.count == sum(part.count for part in found.segments)
        if found.count < 10_000:
            ids = found.to_numpy().tolist()
            assert [found.get(i) for i in range(len(ids))] == ids


@given(st.binary(max_size=80))
def test_any_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    check_outcome(data)
    check_outcome(field(1, data))
    for kind in range(1, 7):
        check_outcome(segment(kind, data))


def verdict(data: bytes) -> list[int] | None:
    """What the protobuf runtime reads, with the rules of section 3 on top; None where they refuse it."""
    try:
        whole = message("RowIdSequence")
        whole.ParseFromString(data)
    except ProtobufDecodeError:
        return None
    if len(unknown_fields.UnknownFieldSet(whole)):
        return None
    ids: list[int] = []
    for part in whole.segments:
        values = _values(part)
        if values is None:
            return None
        ids += values
    return ids


def _clean(found: Any) -> bool:
    """Protobuf keeps a known field of the wrong wire type as unknown; Lance's reader refuses it, and the number 0."""
    known = {entry.number for entry in found.DESCRIPTOR.fields}
    return not has_any(unknown_fields.UnknownFieldSet(found), {0, *known})


def has_any(entries: Any, numbers: set[int]) -> bool:
    return any(
        entry.field_number in numbers or (entry.wire_type == 3 and has_any(entry.data, {0})) for entry in entries
    )


def _array(found: Any) -> list[int] | None:
    name = found.WhichOneof("group0")
    if name is None or not _clean(found):
        return None
    inner = getattr(found, name)
    width = int(name[1:]) // 8
    data = inner.values if width == 8 else inner.offsets
    if not _clean(inner) or len(data) % width:
        return None
    base = 0 if width == 8 else inner.base
    values = [base + int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]
    return values if max(values, default=0) <= TOP else None


def _values(found: Any) -> list[int] | None:
    name = found.WhichOneof("group0")
    if name is None or not _clean(found):
        return None
    inner = getattr(found, name)
    if not _clean(inner):
        return None
    if name in ("sorted", "array"):
        values = _array(inner)
        ascends = values is None or all(a < b for a, b in pairwise(values))
        return values if name == "array" or ascends else None
    start, end = inner.start, inner.end
    if start > end:
        return None
    assert end - start < 10**6, "the damage stays small"
    if name == "range":
        return list(range(start, end))
    if name == "holes":
        holes = _array(inner.holes) if inner.HasField("holes") else None
        if holes is None or any(a >= b for a, b in pairwise(holes)):
            return None
        if holes and not (start <= holes[0] and holes[-1] < end):
            return None
        return [value for value in range(start, end) if value not in set(holes)]
    bits = [byte >> i & 1 for byte in inner.bitmap for i in range(8)]
    if len(inner.bitmap) != -(-(end - start) // 8) or any(bits[end - start :]):
        return None
    return [start + i for i, bit in enumerate(bits) if bit]


@settings(max_examples=400)
@given(sequences, st.data())
def test_damage_is_judged_as_by_protobuf_and_the_rules(specs: list[Seg], data: st.DataObject) -> None:
    damaged = bytearray(sequence_bytes(specs))
    for _ in range(data.draw(st.integers(1, 2))):
        if damaged:
            at = data.draw(st.integers(0, len(damaged) - 1))
            damaged[at] = data.draw(
                st.one_of(st.sampled_from([0, 1, 2, 8, 10, 16, 18, 24, 26, 34, 42, 58]), st.integers(0, 127))
            )
    found = outcome(decode_row_ids, bytes(damaged))
    if isinstance(found, Unsupported) or "a varint below 2**64" in str(found):  # upb cuts it off
        return
    if (
        isinstance(found, RowIdSequence)
        and found.count + sum(len(part.holes) if isinstance(part, RangeWithHoles) else 0 for part in found.segments)
        > 100_000
    ):
        assert found.encode() == bytes(damaged)
        return
    try:
        wanted = verdict(bytes(damaged))
    except AssertionError:  # a range grew: ours says that something else is wrong with it
        assert isinstance(found, DecodeError)
        return
    assert (found.to_numpy().tolist() if isinstance(found, RowIdSequence) else None) == wanted


# ---------------------------------------------------------------------- hazards


def test_hazard_ranges_are_not_expanded_beyond_the_limit() -> None:
    found = decode_row_ids(segment(1, scalar(2, TOP)))
    assert found.count == TOP
    tracemalloc.start()
    for sequence in (found, decode_row_ids(segment(2, scalar(2, TOP), field(3, u16(5))))):
        with pytest.raises(LimitExceeded) as caught:
            sequence.to_numpy()
        assert "max_rows" in caught.value.what
        assert caught.value.actual == sequence.count
        assert sequence.get(4) == 4
        assert sequence.position(2**62) == 2**62 - (sequence is not found)
        assert sequence.slice(1, 3).to_numpy().tolist() == [1, 2, 3]
        assert sequence.slice(2**62, 2).count == 2
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    with pytest.raises(LimitExceeded):
        RowIdSequence.from_values(range(5)).to_numpy(max_rows=4)
    assert len(RowIdSequence.from_values(range(5)).to_numpy(max_rows=5)) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (repr(segment(1, scalar(2, TOP))), "LimitExceeded"),
        (repr(segment(1, scalar(2, 2**40))) + " * 50", "LimitExceeded"),
        (repr(segment(2, scalar(2, TOP), field(3, u16(5)))), "LimitExceeded"),
        (repr(segment(3, scalar(2, TOP), field(3, b"\1"))), "NotCanonical"),
        (repr(segment(4, field(3, b"\x12" + uvarint(2**40)))), "Truncated"),
        (repr(segment(1)) + " * 5", "0"),
        (r"b'\x0a\xff\xff\x3f' + b'\x7b' * 0xfffff", "NotCanonical"),
    ],
    ids=["range", "ranges", "holes", "bitmap", "array", "empty", "groups"],
)
def test_hazard_bombs_are_answered_in_little_memory(data: str, answer: str) -> None:
    output = run_limited(
        f"""
        from dvcodec.lance import decode_row_ids
        data = {data}
        cap()
        try:
            print(len(decode_row_ids(data).to_numpy()))
        except DecodeError as error:
            print(type(error).__name__)
        """,
        megabytes=50,
    )
    assert output == answer + "\n"


@pytest.mark.parametrize("depth", [1, 50, 90])
def test_hazard_groups_are_passed_over(depth: int) -> None:
    groups = b"\x7b" * depth + b"\x7c" * depth
    assert decode_row_ids(segment(1, span(0, 2), groups)).to_numpy().tolist() == [0, 1]


def test_hazard_groups_too_deep_are_refused() -> None:
    with pytest.raises(NotCanonical, match="groups"):
        decode_row_ids(segment(1, span(0, 2), b"\x7b" * 5000 + b"\x7c" * 5000))


def test_hazard_many_small_segments() -> None:
    data = b"".join(segment(1, span(3 * i, 3 * i + 1)) for i in range(5000))
    found = decode_row_ids(data)
    assert found.to_numpy().tolist() == list(range(0, 15000, 3))
    assert found.encode() == data
