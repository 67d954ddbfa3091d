"""Row-id sequences: real ones, laws against lists, what is refused and where, and bytes that come back as they were."""

from __future__ import annotations

import json
import sys
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest
from google.protobuf import unknown_fields
from google.protobuf.message import DecodeError as ProtobufDecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from battery import answers_limited, check_truncations, flipped, outcome
from cases import each
from dvcodec import DecodeError, LimitExceeded, NotCanonical, RowSet, Unsupported, UsageError
from dvcodec.lance import (
    ArraySegment,
    EncodedArray,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
    RowIdSequence,
    Segment,
    SortedArray,
    decode_row_ids,
    encode_row_ids,
    rechunk,
)
from samples.lance import (
    TOP,
    Seg,
    as_array,
    expand,
    field,
    id_lists,
    join,
    message,
    scalar,
    segment,
    sequence_bytes,
    sequences,
    span,
    u16,
    write,
    write_array,
)
from samples.zap.segments import uv

KIND_NAMES: dict[str, type[Segment]] = {
    "range": RangeSegment,
    "range_with_holes": RangeWithHoles,
    "range_with_bitmap": RangeWithBitmap,
    "sorted_array": SortedArray,
    "array": ArraySegment,
}


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
        assert encode_row_ids(RowIdSequence.from_values(ids)) == data, case["name"]
        found = decode_row_ids(data)
        assert found.to_numpy().tolist() == ids, case["name"]
        assert encode_row_ids(found) == data, case["name"]
        assert encode_row_ids(RowIdSequence(found.segments)) == data, case["name"]
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
        assert encode_row_ids(RowIdSequence(found.segments)) == data, path.name


@each(
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
    assert encode_row_ids(RowIdSequence.from_values(ids)) == data
    assert decode_row_ids(data).to_numpy().tolist() == list(ids)


# ---------------------------------------------------------------------- laws


@settings(max_examples=examples(300))
@given(sequences)
def test_sequence_is_its_list(specs: list[Seg]) -> None:
    data, model = sequence_bytes(specs), expand(specs)
    found = decode_row_ids(data)
    assert found == RowIdSequence(tuple(spec.ours() for spec in specs))
    assert encode_row_ids(found) == data
    assert encode_row_ids(RowIdSequence(found.segments)) == data
    assert found.to_numpy().tolist() == model
    assert found.to_numpy().dtype == np.uint64
    assert found.count == len(found) == len(model)
    assert [found.get(i) for i in range(-1, len(model) + 1)] == [None, *model, None]
    for value in {known + by for known in model for by in (-1, 0, 1)} | {0, TOP, -1}:
        assert found.position(value) == (model.index(value) if value in model else None)


@settings(max_examples=examples(200))
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
    assert encode_row_ids(found) == sequence_bytes(join(pieces))


@settings(max_examples=examples(200))
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
    assert encode_row_ids(found) == sequence_bytes(wanted)
    assert found == decode_row_ids(sequence_bytes(specs)).mask(RowSet(gone))


@settings(max_examples=examples(100))
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


@pytest.mark.parametrize(
    "ids",
    [range(4), [0, 1, 3, 4, 5, 6, 7, 8], [0, 1, 3, 5, 8], [0, 100, 7000], [5, 3, 9]],
    ids=["range", "holes", "bitmap", "sorted", "array"],
)
def test_rechunk_cuts_each_segment_once(ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of segments may be cut thousands of times."""
    whole = RowIdSequence(RowIdSequence.from_values(ids).segments * 500)
    kind = type(whole.segments[0])
    cut = create_autospec(kind.cut, side_effect=kind.cut)
    monkeypatch.setattr(kind, "cut", cut)
    found = rechunk([whole], [2] * (whole.count // 2) + [whole.count % 2])
    assert np.concatenate([one.to_numpy() for one in found]).tolist() == list(ids) * 500
    assert cut.call_count == 500


@settings(max_examples=examples(300))
@given(id_lists())
def test_from_values_is_the_writers_rule(ids: list[int]) -> None:
    found = RowIdSequence.from_values(ids)
    assert found.to_numpy().tolist() == ids
    assert encode_row_ids(found) == (sequence_bytes([write(ids)]) if ids else b"")
    assert decode_row_ids(encode_row_ids(found)) == found
    assert RowIdSequence.from_values(as_array(ids)) == found
    assert RowIdSequence.from_values(iter(ids)) == found


def test_slice_joins_ranges_that_touch_and_drops_empty_pieces() -> None:
    holes = RangeWithHoles(20, 24, EncodedArray(2, 22, b"\0\0"))
    whole = RowIdSequence(
        (RangeSegment(0, 5), RangeSegment(5, 9), RangeSegment(0, 0), RangeSegment(9, 12), holes, RangeSegment(30, 31))
    )
    assert whole.slice(0, 12).segments == (RangeSegment(0, 12),)
    assert whole.slice(3, 6).segments == (RangeSegment(3, 9),)
    assert whole.slice(3, 11).segments == (RangeSegment(3, 12), RangeSegment(20, 22))
    assert whole.slice(11, 5).segments == (RangeSegment(11, 12), RangeWithBitmap(20, 24, b"\x0b"), RangeSegment(30, 31))
    assert whole.slice(5, 0).segments == ()


def test_mask_keeps_what_it_does_not_touch() -> None:
    wide = SortedArray(EncodedArray(8, 0, as_array([7, 9]).tobytes()))
    whole = RowIdSequence(
        (RangeSegment(0, 3), RangeSegment(3, 6), wide, ArraySegment(EncodedArray.from_values(as_array([50, 40, 41]))))
    )
    assert whole.mask([]).segments == whole.segments
    assert whole.mask([4]).segments == (RangeSegment(0, 3), RangeWithBitmap(3, 6, b"\x05"), *whole.segments[2:])
    assert whole.mask(range(3)).segments == whole.segments[1:]
    assert whole.mask([8]).segments[3] == ArraySegment(EncodedArray(2, 40, b"\0\0\1\0"))
    assert whole.mask([6]).segments[2] == RangeSegment(9, 10)
    assert whole.mask(range(11)).segments == ()


def test_compaction_makes_sorted_forms_of_an_array_that_lost_its_descents() -> None:
    masked = RowIdSequence.from_values([24, 7, 25]).mask([0])
    assert isinstance(masked.segments[0], ArraySegment)
    assert isinstance(rechunk([masked], [2])[0].segments[0], RangeWithBitmap)


def test_only_ranges_without_steps_may_be_of_any_length() -> None:
    assert RowIdSequence.from_values(range(2**62)).count == 2**62
    with pytest.raises(UsageError, match=r"range\(0, 4611686018427387904, 2\) is too long: only a range with step 1"):
        RowIdSequence.from_values(range(0, 2**62, 2))
    assert RowIdSequence.from_values(range(8, 0, -2)).to_numpy().tolist() == [8, 6, 4, 2]


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


@each("ids", [[-1], [2**64], [1.5], "ab", b"ab", range(-3, 2), np.array([[1]])], ids=str)
def test_invalid_ids_are_refused(ids: Any) -> None:
    with pytest.raises(UsageError):
        RowIdSequence.from_values(ids)


@each(
    ("ids", "segments"),
    [
        (range(2**60), (RangeSegment(0, 2**60),)),
        (range(5, TOP), (RangeSegment(5, TOP),)),
        (range(7, 7), ()),
        (range(7, 3), ()),
        (range(0, 6, 2), (RangeWithBitmap(0, 5, b"\x15"),)),
        (range(2, -1, -1), (ArraySegment(EncodedArray(2, 0, b"\2\0\1\0\0\0")),)),
        (range(TOP - 1, TOP + 1), (SortedArray(EncodedArray(2, TOP - 1, b"\0\0\1\0")),)),
    ],
    ids=str,
)
def test_python_ranges(ids: range, segments: tuple[object, ...]) -> None:
    assert RowIdSequence.from_values(ids).segments == segments


def test_what_was_changed_is_not_given_its_old_bytes() -> None:
    data = segment(1, b"\x08\x00", scalar(2, 3))
    found = decode_row_ids(data)
    assert encode_row_ids(found) == data
    assert encode_row_ids(found.mask([])) == encode_row_ids(found.slice(0, 3)) == segment(1, scalar(2, 3))


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
        at += len(encode_row_ids(RowIdSequence((part,))))
        borders.add(at)
    check_truncations(
        decode_row_ids,
        MIXED,
        allowed=lambda found, size: size in borders and found.segments == whole.segments[: len(found.segments)],
    )


def test_every_flipped_bit_ends_in_a_value_or_a_decode_error() -> None:
    for bit in range(8 * len(MIXED)):
        damaged = flipped(MIXED, bit)
        check_outcome(bytes(damaged))


def check_outcome(data: bytes) -> None:
    found = outcome(decode_row_ids, data)
    if isinstance(found, RowIdSequence):
        assert encode_row_ids(found) == data
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


@settings(max_examples=examples(400))
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
        assert encode_row_ids(found) == bytes(damaged)
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
def test_hazard_bombs_are_answered_in_little_memory() -> None:
    bombs = [
        (repr(segment(1, scalar(2, TOP))), "LimitExceeded"),
        (repr(segment(1, scalar(2, 2**40))) + " * 50", "LimitExceeded"),
        (repr(segment(2, scalar(2, TOP), field(3, u16(5)))), "LimitExceeded"),
        (repr(segment(3, scalar(2, TOP), field(3, b"\1"))), "NotCanonical"),
        (repr(segment(4, field(3, b"\x12" + uv(2**40)))), "Truncated"),
        (repr(segment(1)) + " * 5", "0"),
        (r"b'\x0a\xff\xff\x3f' + b'\x7b' * 0xfffff", "NotCanonical"),
    ]
    call = "print(len(decode_row_ids(data).to_numpy()))"
    asked = [(f"from dvcodec.lance import decode_row_ids; data = {data}", call) for data, _ in bombs]
    assert answers_limited(asked) == [answer for _, answer in bombs]


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_hazard_what_no_memory_holds_is_over_a_limit() -> None:
    cases = [
        ("data = RowIdSequence((RangeSegment(0, 2**29),))", "data.to_numpy()"),
        ("data = RowIdSequence((RangeSegment(0, 2**62),))", "data.to_numpy(max_rows=None)"),
        ("data = RowIdSequence((RangeSegment(0, 2**29), RangeSegment(0, 2**28)))", "data.to_numpy()"),
        ("rows = RowSet(range(2**29)); data = RowIdSequence((RangeSegment(0, 2**30),))", "data.mask(rows)"),
        ("rows = RowSet(range(2**31)); data = RowIdSequence((RangeSegment(0, 2**32),))", "data.mask(rows)"),
        ("data = RowIdSequence((RangeWithBitmap(0, 2**28, bytes(255 for _ in range(2**25))),))", "live_row_ids(data)"),
    ]
    names = "from dvcodec.lance import RangeSegment, RangeWithBitmap, RowIdSequence, live_row_ids"
    asked = [(f"{names}\n{setup}", expression) for setup, expression in cases]
    assert answers_limited(asked, megabytes=256) == ["LimitExceeded"] * len(cases)


@pytest.mark.parametrize("depth", [1, 50, 90])
def test_hazard_groups_are_skipped(depth: int) -> None:
    groups = b"\x7b" * depth + b"\x7c" * depth
    assert decode_row_ids(segment(1, span(0, 2), groups)).to_numpy().tolist() == [0, 1]


def test_hazard_groups_too_deep_are_refused() -> None:
    with pytest.raises(NotCanonical, match="groups"):
        decode_row_ids(segment(1, span(0, 2), b"\x7b" * 5000 + b"\x7c" * 5000))


def test_hazard_many_small_segments() -> None:
    data = b"".join(segment(1, span(3 * i, 3 * i + 1)) for i in range(5000))
    found = decode_row_ids(data)
    assert found.to_numpy().tolist() == list(range(0, 15000, 3))
    assert encode_row_ids(found) == data
