from __future__ import annotations

import gzip
import itertools
import random
import struct
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import AbstractBitMap, BitMap

from amounts import examples
from battery import check_buffers, check_truncations, outcome
from cases import each
from dvcodec.core import roaring
from dvcodec.core.bitmap import ARRAY_MAX, BitmapView, ContainerKind, ContainerMix
from dvcodec.core.build import from_sorted
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import BadMagic, DecodeError, NotCanonical, Truncated
from dvcodec.core.roaring import EMPTY_BITMAP, serialize, walk
from samples.bitmaps import EMPTY, Container, array, bitmap, bitset, offsets_of, runs, small_bitmaps, u16s

FULL = 1 << 16
PREFIX = 7
BASE = 1000


def decode(data: bytes) -> AbstractBitMap:
    """Walk a bitmap that fills the bytes, and load it."""
    cursor = Cursor(data)
    view = walk(cursor)
    cursor.expect_end("the bitmap")
    view.check()
    return view.load()


def refusal(data: bytes, offset: int) -> DecodeError:
    """Walk and check; return what was wrong, which must stand at that offset of `data`."""
    cursor = Cursor(b"?" * PREFIX + data, source="x.bin", base=BASE)
    cursor.seek(PREFIX, "the bitmap")
    with pytest.raises(DecodeError) as caught:
        walk(cursor).check()
    error = caught.value
    assert error.source == "x.bin"
    assert error.offset == BASE + PREFIX + offset
    return error


def pyroaring_takes(data: bytes) -> bool:
    try:
        BitMap.deserialize(data)
    except (ValueError, IndexError):
        return False
    return True


def singles(count: int, step: int = 2) -> list[int]:
    return list(range(0, step * count, step))


# ------------------------------------------------------------------ hazard 1: too short


@pytest.mark.parametrize("size", range(4))
def test_hazard_fewer_than_four_bytes(size: int) -> None:
    error = refusal(EMPTY[:size], 0)
    assert type(error) is Truncated
    assert (error.what, error.expected, error.actual) == ("roaring cookie", "4 bytes", f"{size} left")


@pytest.mark.parametrize("size", range(4, 8))
def test_hazard_fewer_than_eight_bytes(size: int) -> None:
    error = refusal(EMPTY[:size], 4)
    assert type(error) is Truncated
    assert (error.what, error.actual) == ("roaring container count", f"{size - 4} left")


@each("name", small_bitmaps())
def test_hazard_payload_or_header_truncated_anywhere(name: str) -> None:
    data = small_bitmaps()[name]
    check_truncations(decode, data)
    for size in range(len(data)):
        cursor = Cursor(b"?" * 99 + data[:size])
        cursor.seek(99, "the bitmap")
        with pytest.raises(Truncated):
            walk(cursor)


# ------------------------------------------------------------------ hazard 2: cookie


@each("cookie", [0, 12345, 12348, 0x3A30, 0x303A0000, 0x3B300000, 2**32 - 1])
def test_hazard_unknown_cookie(cookie: int) -> None:
    error = refusal(struct.pack("<I", cookie) + bytes(40), 0)
    assert type(error) is BadMagic
    assert (error.what, error.expected, error.actual) == ("roaring cookie", "12346 or 12347", f"{cookie:#x}")


@pytest.mark.parametrize("high", [1, 0x8000, 0xFFFF])
def test_hazard_cookie_12346_with_a_high_half(high: int) -> None:
    data = bytearray(bitmap(array(0, [1])))
    data[2:4] = struct.pack("<H", high)
    error = refusal(bytes(data), 0)
    assert type(error) is BadMagic
    assert error.actual == f"{high << 16 | 12346:#x}"


# ------------------------------------------------------------------ hazards 3 and 4: counts


@pytest.mark.parametrize("count", [65537, 2**31 - 1, 2**31, 2**32 - 1])
def test_hazard_more_than_65536_containers(count: int) -> None:
    error = refusal(struct.pack("<II", 12346, count) + bytes(100), 4)
    assert type(error) is NotCanonical
    assert (error.what, error.expected, error.actual) == ("container count", "at most 65536", count)


@each(
    ("head", "what", "offset"),
    [
        (struct.pack("<II", 12346, 65536), "roaring descriptors", 8),
        (struct.pack("<II", 12346, 2) + bytes([0, 0, 0, 0, 1, 0, 0]), "roaring descriptors", 8),
        (struct.pack("<II", 12346, 1) + bytes(4) + bytes(3), "roaring offset table", 12),
        (struct.pack("<HH", 12347, 65535) + bytes(100), "run flags", 4),
        (struct.pack("<HH", 12347, 65535) + b"\xff" * 8192, "roaring descriptors", 4 + 8192),
        (struct.pack("<HH", 12347, 3) + b"\x01" + u16s([0, 0, 1, 0, 2, 0, 3, 0]), "roaring offset table", 21),
    ],
)
def test_hazard_header_longer_than_the_bytes(head: bytes, what: str, offset: int) -> None:
    error = refusal(head, offset)
    assert type(error) is Truncated
    assert error.what == what


# ------------------------------------------------------------------ hazards 5 and 6: run flags


@each("bit", range(1, 8))
def test_hazard_padding_bit_of_the_run_flags_set(bit: int) -> None:
    data = bitmap(runs(0, [(5, 3)]), flags=bytes([1 | 1 << bit]))
    error = refusal(data, 4)
    assert type(error) is NotCanonical
    assert (error.what, error.actual) == ("padding bits of the run flags", f"{1 | 1 << bit:#04x}")
    assert pyroaring_takes(data)


def test_hazard_padding_bit_in_the_second_flag_byte() -> None:
    nine = [runs(key, [(0, 9)]) for key in range(9)]
    data = bitmap(*nine, flags=b"\xff\x03")
    assert refusal(data, 5).what == "padding bits of the run flags"
    assert pyroaring_takes(data)
    decode(bitmap(*nine, flags=b"\xff\x01"))


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_hazard_run_cookie_without_a_run_container(count: int) -> None:
    data = bitmap(*(array(key, [1, 4]) for key in range(count)), flags=bytes((count + 7) // 8))
    error = refusal(data, 0)
    assert type(error) is NotCanonical
    assert error.what == "run cookie without a run container"
    assert pyroaring_takes(data)


# ------------------------------------------------------------------ hazard 7: keys


@pytest.mark.parametrize(("keys", "wrong"), [((5, 3), 1), ((5, 5), 1), ((0, 1, 65535, 2), 3), ((0, 0, 0), 1)])
def test_hazard_container_keys_unsorted_or_duplicate(keys: tuple[int, ...], wrong: int) -> None:
    error = refusal(bitmap(*(array(key, [1]) for key in keys)), 8 + 4 * wrong)
    assert type(error) is NotCanonical
    assert error.what == "container keys not strictly ascending"
    assert (error.expected, error.actual) == (f"a key above {keys[wrong - 1]}", keys[wrong])


def test_hazard_container_keys_unsorted_after_run_flags() -> None:
    error = refusal(bitmap(runs(9, [(0, 9)]), runs(8, [(0, 9)])), 4 + 1 + 4)
    assert (error.expected, error.actual) == ("a key above 9", 8)


# ------------------------------------------------------------------ hazard 8: offset table

ARRAYS = [array(0, [1]), array(1, [2, 3]), array(2, [65535])]
WITH_RUNS = [array(0, [1]), runs(1, [(2, 9)]), array(2, [4, 7]), runs(3, [(0, 4), (9, 9)])]


@each("containers", [ARRAYS, WITH_RUNS], ids=["arrays", "with runs"])
@each("value", [0, 1, 2**31, 2**32 - 1, None])
def test_hazard_wrong_offset_table(containers: list[Container], value: int | None) -> None:
    table = 8 + 4 * len(containers) if containers is ARRAYS else 5 + 4 * len(containers)
    right = offsets_of(containers, table + 4 * len(containers))
    for i in range(len(containers)):
        wrong = right[i] + 2 if value is None else value
        data = bitmap(*containers, offsets=[*right[:i], wrong, *right[i + 1 :]])
        error = refusal(data, table + 4 * i)
        assert type(error) is NotCanonical
        assert error.what == f"offset of container {i}"
        assert (error.expected, error.actual) == (right[i], wrong)
        assert pyroaring_takes(data)


@pytest.mark.parametrize("value", [0, 2**32 - 1])
def test_hazard_offset_table_all_wrong(value: int) -> None:
    for containers in (ARRAYS, WITH_RUNS):
        data = bitmap(*containers, offsets=[value] * len(containers))
        table = 8 + 4 * len(containers) if containers is ARRAYS else 5 + 4 * len(containers)
        assert refusal(data, table).what == "offset of container 0"
        assert pyroaring_takes(data)


def test_hazard_offsets_of_two_containers_exchanged() -> None:
    twins = [array(0, [1, 2]), array(1, [3, 4]), array(2, [5, 6])]
    first, second, third = offsets_of(twins, 8 + 8 * 3)
    data = bitmap(*twins, offsets=[first, third, second])
    assert refusal(data, 8 + 12 + 4).what == "offset of container 1"
    assert pyroaring_takes(data)


def test_hazard_offset_table_missing_at_four_containers() -> None:
    with pytest.raises(DecodeError):
        decode(bitmap(*WITH_RUNS, with_offsets=False))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_hazard_offset_table_present_below_four_containers(count: int) -> None:
    containers = [runs(0, [(0, 9)]), *(array(key, [1, 2]) for key in range(1, count))]
    with pytest.raises(DecodeError):
        decode(bitmap(*containers, with_offsets=True))


# ------------------------------------------------------------------ hazard 9: arrays


@each(
    ("values", "wrong"),
    [([5, 3], 1), ([5, 5], 1), ([1, 2, 4, 3], 3), ([1, 2, 2, 3], 2), ([65535, 0], 1), ([0, 0], 1)],
)
def test_hazard_array_unsorted_or_duplicate(values: list[int], wrong: int) -> None:
    error = refusal(bitmap(array(7, values)), 8 + 8 + 2 * wrong)
    assert type(error) is NotCanonical
    assert error.what == "values not strictly ascending in array container 0 (key 0x0007)"
    assert (error.expected, error.actual) == (f"a value above {values[wrong - 1]}", values[wrong])


def test_hazard_array_unsorted_behind_valid_containers() -> None:
    wrong = array(300, [7, 7])
    containers = [array(0, [5]), bitset(1, range(0, 65536, 3)), runs(2, [(9, 5), (65000, 3)]), wrong]
    header = 4 + 1 + 8 * 4
    error = refusal(bitmap(*containers), header + 2 + 8192 + 10 + 2)
    assert error.what == "values not strictly ascending in array container 3 (key 0x012c)"


def test_descents_between_containers_are_no_fault() -> None:
    containers = [array(0, [60000]), array(1, [5]), runs(2, [(60000, 2), (60010, 1)]), array(3, [1]), array(4, [0])]
    assert len(decode(bitmap(*containers))) == 7


# ------------------------------------------------------------------ hazards 10 and 11: bitsets


@pytest.mark.parametrize("claim", [5001, 4999, 65536, 4097])
def test_hazard_bitset_population_is_not_the_cardinality(claim: int) -> None:
    error = refusal(bitmap(array(0, [1]), bitset(9, singles(5000)).claiming(claim)), 8 + 16 + 2)
    assert type(error) is NotCanonical
    assert error.what == "population is not the cardinality in the header in bitset container 1 (key 0x0009)"
    assert (error.expected, error.actual) == (claim, 5000)


@pytest.mark.parametrize("population", [0, 1, 4095, 4096])
def test_hazard_bitset_of_no_more_than_4096_values(population: int) -> None:
    error = refusal(bitmap(bitset(0, singles(population)).claiming(4097)), 16)
    assert type(error) is NotCanonical
    assert (error.expected, error.actual) == (4097, population)


def test_hazard_bitset_claims_to_be_an_array() -> None:
    with pytest.raises(DecodeError):
        decode(bitmap(bitset(0, singles(5000)).claiming(4096)))


@pytest.mark.parametrize("wrong", range(3))
def test_the_wrong_one_of_several_bitsets_is_named(wrong: int) -> None:
    containers = [bitset(key, singles(5000 + key)) for key in range(3)]
    containers[wrong] = containers[wrong].claiming(6000)
    error = refusal(bitmap(*containers), 8 + 24 + 8192 * wrong)
    assert f"bitset container {wrong} (key 0x000{wrong})" in error.what
    assert error.actual == 5000 + wrong


# ------------------------------------------------------------------ hazard 12: runs

RUN_AT = 4 + 1 + 4
"""Offset of the payload of a run container that is alone."""


def run_refusal(pairs: list[tuple[int, int]], run: int, *, card: int | None = None) -> DecodeError:
    """Refusal of a lone run container; the fault stands at that run, or at the payload for -1."""
    container = runs(1, pairs) if card is None else runs(1, pairs).claiming(card)
    error = refusal(bitmap(container), RUN_AT if run < 0 else RUN_AT + 2 + 4 * run)
    assert type(error) is NotCanonical
    assert error.what.endswith(" in run container 0 (key 0x0001)")
    return error


def test_hazard_run_container_without_a_run() -> None:
    error = run_refusal([], -1, card=1)
    assert error.what.startswith("no run in")
    assert (error.expected, error.actual) == ("at least 1 run", 0)


@pytest.mark.parametrize(
    ("pairs", "wrong", "last"),
    [([(65535, 2)], 0, 65536), ([(1, 65536)], 0, 65536), ([(5, 1), (65000, 1000)], 1, 65999)],
)
def test_hazard_run_past_65535(pairs: list[tuple[int, int]], wrong: int, last: int) -> None:
    card = min(sum(length for _, length in pairs), FULL)
    error = run_refusal(pairs, wrong, card=card)
    assert error.what.startswith("run ends past 65535")
    assert (error.expected, error.actual) == ("a last value of at most 65535", last)


@pytest.mark.parametrize(
    ("pairs", "wrong"),
    [
        pytest.param([(5, 10), (14, 2)], 1, id="overlapping"),
        pytest.param([(5, 10), (7, 2)], 1, id="nested"),
        pytest.param([(5, 10), (5, 10)], 1, id="twice"),
        pytest.param([(1, 2), (50, 1), (20, 1)], 2, id="unsorted"),
        pytest.param([(5, 10), (15, 2)], 1, id="adjacent and unmerged"),
    ],
)
def test_hazard_runs_overlap_descend_or_touch(pairs: list[tuple[int, int]], wrong: int) -> None:
    error = run_refusal(pairs, wrong)
    assert error.what.startswith("runs unsorted, overlapping or unmerged")
    assert error.expected == f"a start above {sum(pairs[wrong - 1])}"
    assert error.actual == pairs[wrong][0]


@each("card", [1, 11, 13, 4000, 4097, 65536])
def test_hazard_run_lengths_do_not_add_up_to_the_header(card: int) -> None:
    error = run_refusal([(5, 10), (20, 2)], -1, card=card)
    assert error.what.startswith("run lengths do not add up to the cardinality in the header")
    assert (error.expected, error.actual) == (card, 12)
    assert pyroaring_takes(bitmap(runs(1, [(5, 10), (20, 2)]).claiming(card)))


def test_the_wrong_one_of_several_run_containers_is_named() -> None:
    containers = [runs(0, [(0, 5), (9, 1)]), array(1, [9]), runs(2, [(3, 1), (5, 2)]), runs(3, [(4, 4), (6, 1)])]
    header = 4 + 1 + 8 * 4
    error = refusal(bitmap(*containers), header + 10 + 2 + 10 + 2 + 4)
    assert error.what == "runs unsorted, overlapping or unmerged in run container 3 (key 0x0003)"
    containers[3] = runs(3, [])
    error = refusal(bitmap(*containers[:3], containers[3].claiming(1)), header + 10 + 2 + 10)
    assert error.what == "no run in run container 3 (key 0x0003)"


def test_runs_of_two_containers_may_touch() -> None:
    assert len(decode(bitmap(runs(0, [(65530, 6)]), runs(1, [(0, 6)])))) == 12


# ------------------------------------------------------------------ hazards 13 to 15: payloads


@pytest.mark.parametrize(
    "container",
    [array(0, [1, 2, 5]), bitset(0, singles(5000)), runs(0, [(1, 1), (5, 9)])],
    ids=["array", "bitset", "run"],
)
def test_hazard_payload_truncated(container: Container) -> None:
    data = bitmap(container)
    error = refusal(data[:-1], len(data) - len(container.payload))
    assert type(error) is Truncated
    assert error.what == "roaring containers"
    assert (error.expected, error.actual) == (
        f"{len(container.payload)} bytes",
        f"{len(container.payload) - 1} left",
    )


def test_hazard_run_count_truncated() -> None:
    data = bitmap(runs(0, [(1, 9)]))
    for kept in (RUN_AT, RUN_AT + 1):
        assert type(refusal(data[:kept], RUN_AT)) is Truncated


def test_hazard_run_count_larger_than_the_bytes() -> None:
    data = bytearray(bitmap(runs(0, [(1, 9)])))
    data[RUN_AT : RUN_AT + 2] = b"\xff\xff"
    error = refusal(bytes(data), RUN_AT)
    assert type(error) is Truncated
    assert error.expected == f"{2 + 4 * 65535} bytes"


@each("name", small_bitmaps())
def test_hazard_trailing_bytes(name: str) -> None:
    for tail in [b"\x00", bytes(1000), EMPTY]:
        data = small_bitmaps()[name]
        cursor = Cursor(data + tail)
        assert bytes(walk(cursor).data) == data
        assert cursor.remaining == len(tail)
        with pytest.raises(NotCanonical, match="bytes after the end of the bitmap"):
            decode(data + tail)
        assert pyroaring_takes(data + tail)


def test_hazard_array_header_smaller_than_the_payload_leaves_trailing_bytes() -> None:
    data = bitmap(array(0, [1, 2, 3]).claiming(2))
    with pytest.raises(NotCanonical) as caught:
        decode(data)
    assert caught.value.what == "bytes after the end of the bitmap"
    assert (caught.value.offset, caught.value.actual) == (len(data) - 2, "2")
    assert pyroaring_takes(data)


def test_hazard_array_header_smaller_than_the_payload_shifts_the_next_container() -> None:
    data = bitmap(array(0, [1, 2, 3]).claiming(2), array(1, [4, 5]))
    error = refusal(data, 8 + 8 + 4)
    assert error.what == "offset of container 1"
    assert (error.expected, error.actual) == (8 + 16 + 4, 8 + 16 + 6)
    assert pyroaring_takes(data)


def test_hazard_array_header_larger_than_the_payload() -> None:
    error = refusal(bitmap(array(0, [1, 2, 3]).claiming(4)), 16)
    assert type(error) is Truncated


# ------------------------------------------------------------------ hazard 17: dense bitmaps


def test_hazard_fifteen_bytes_hold_65536_values_and_are_not_expanded() -> None:
    data = bitmap(runs(0, [(0, FULL)]))
    assert len(data) == 15
    assert walk(Cursor(data)).cardinality == FULL


# ------------------------------------------------------------------ what is legal though not canonical

LEGAL: dict[str, tuple[bytes, bytes]] = {
    "run of singles": (bitmap(runs(0, [(1, 1), (3, 1), (5, 1)])), bitmap(array(0, [1, 3, 5]))),
    "3000 runs, larger than a bitset": (
        bitmap(runs(4, [(start, 3) for start in range(0, 15000, 5)])),
        bitmap(bitset(4, (start + i for start in range(0, 15000, 5) for i in range(3)))),
    ),
    "array of 5 as runs": (bitmap(runs(0, [(1, 2), (5, 3)])), bitmap(array(0, [1, 2, 5, 6, 7]))),
    "array of 3 as a run": (bitmap(runs(0, [(1, 3)])), bitmap(array(0, [1, 2, 3]))),
    "run as an array": (bitmap(array(0, [1, 2, 3, 4])), bitmap(runs(0, [(1, 4)]))),
    "run as a bitset": (bitmap(bitset(0, range(10, 60000))), bitmap(runs(0, [(10, 59990)]))),
    "full bitset": (bitmap(bitset(0, range(FULL))), bitmap(runs(0, [(0, FULL)]))),
    "a tie among others": (
        bitmap(runs(0, [(0, 3)]), array(1, [1]), runs(2, [(0, 9)]), array(3, [1]), runs(4, [(7, 1)])),
        bitmap(array(0, [0, 1, 2]), array(1, [1]), runs(2, [(0, 9)]), array(3, [1]), array(4, [7])),
    ),
}


@each(("legal", "canonical"), LEGAL.values(), ids=LEGAL)
def test_legal_forms_are_read_and_written_in_the_canonical_form(legal: bytes, canonical: bytes) -> None:
    rows = decode(legal)
    assert rows == decode(canonical)
    assert serialize(rows) == canonical
    assert serialize(decode(canonical)) == canonical


# ------------------------------------------------------------------ what a walk gives


@each("name", small_bitmaps())
def test_valid_bitmaps_are_walked_to_their_end(name: str) -> None:
    data = small_bitmaps()[name]
    cursor = Cursor(b"??" + data + b"!", base=50)
    cursor.seek(2, "the bitmap")
    view = walk(cursor)
    assert bytes(view.data) == data
    assert cursor.remaining == 1
    assert view.load() == BitMap.deserialize(data)
    assert view.cardinality == len(view.load())
    check_buffers(decode, data)


@pytest.mark.parametrize(
    ("card", "kind"), [(4095, ContainerKind.ARRAY), (4096, ContainerKind.ARRAY), (4097, ContainerKind.BITSET)]
)
def test_an_array_holds_up_to_4096_values_and_a_bitset_more(card: int, kind: ContainerKind) -> None:
    container = (array if kind is ContainerKind.ARRAY else bitset)(5, singles(card))
    data = bitmap(container, array(6, [1]))
    view = walk(Cursor(data))
    view.check()
    assert view.kinds.tolist() == [kind, ContainerKind.ARRAY]
    assert view.load() == BitMap(5 << 16 | value for value in singles(card)) | BitMap([6 << 16 | 1])


def test_the_empty_bitmap_has_one_form() -> None:
    view = walk(Cursor(EMPTY_BITMAP))
    assert EMPTY_BITMAP == EMPTY
    assert (view.cardinality, view.min, view.max, view.mix) == (0, None, None, ContainerMix())
    assert serialize(BitMap()) == serialize(BitMap(), run_optimize=False) == EMPTY


def test_the_largest_number_of_containers_is_read() -> None:
    data = bitmap(*(array(key, [key]) for key in range(FULL)))
    assert decode(data) == BitMap(np.arange(FULL, dtype=np.uint32) * 65537)
    data = bitmap(*(runs(key, [(key, 1)]) for key in range(FULL)))
    assert walk(Cursor(data)).mix == ContainerMix(runs=FULL)


# ------------------------------------------------------------------ which container a writer chooses


def java_kind(card: int, run_count: int) -> ContainerKind:
    """What ``runOptimize()`` of RoaringBitmap 1.x makes of a container that was filled value by value."""
    if card <= ARRAY_MAX:
        return ContainerKind.RUN if 2 * card > 2 + 4 * run_count else ContainerKind.ARRAY
    return ContainerKind.RUN if 2 + 4 * run_count < 8192 else ContainerKind.BITSET


def runs_of(card: int, run_count: int) -> list[tuple[int, int]]:
    """That many runs with that many values: one long, the others single."""
    long = card - run_count + 1
    return [(0, long), *((long + 1 + 2 * i, 1) for i in range(run_count - 1))]


def values_of(pairs: list[tuple[int, int]]) -> list[int]:
    return [value for start, length in pairs for value in range(start, start + length)]


def stored(kind: ContainerKind, key: int, pairs: list[tuple[int, int]]) -> Container:
    if kind is ContainerKind.RUN:
        return runs(key, pairs)
    return (array if kind is ContainerKind.ARRAY else bitset)(key, values_of(pairs))


def from_ranges(key: int, pairs: list[tuple[int, int]]) -> BitMap:
    rows = BitMap()
    for start, length in pairs:
        rows.add_range(key << 16 | start, (key << 16) + start + length)
    return rows


BUILDERS: dict[str, Callable[[int, list[tuple[int, int]]], AbstractBitMap]] = {
    "one by one": lambda key, pairs: BitMap([key << 16 | value for value in values_of(pairs)]),
    "ranges": from_ranges,
    "decoded runs": lambda key, pairs: walk(Cursor(bitmap(runs(key, pairs)))).load(),
    "union of two": lambda key, pairs: from_ranges(key, pairs[::2]) | from_ranges(key, pairs[1::2]),
    "holes cut into a range": lambda key, pairs: (
        from_ranges(key, [(0, FULL)]) - (from_ranges(key, [(0, FULL)]) - from_ranges(key, pairs))
    ),
}

TIES = [
    *((2 * r + more, r) for r in (1, 2, 3, 100, 1000, 2040, 2047) for more in (0, 1, 2)),
    *((card, r) for r in range(2040, 2056) for card in (4097, 40000)),
    *((card, r) for r in (2040, 2046, 2047, 2048) for card in (4095, 4096)),
    (1, 1),
    (4096, 1),
    (4097, 1),
    (4096, 4096),
    (4097, 4097),
    (4098, 2048),
    (32768, 32768),
    (FULL - 1, 1),
    (FULL, 1),
]


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_containers_are_chosen_like_java_however_the_bitmap_was_built(
    build: Callable[[int, list[tuple[int, int]]], AbstractBitMap],
) -> None:
    for card, run_count in TIES:
        pairs = runs_of(card, run_count)
        for key in (0, 65535):
            expected = bitmap(stored(java_kind(card, run_count), key, pairs))
            rows = build(key, pairs)
            assert len(rows) == card
            assert serialize(rows) == expected, (card, run_count)
            rows.run_optimize()
            assert serialize(rows) == expected, (card, run_count)


def test_containers_side_by_side_are_chosen_one_by_one() -> None:
    parts = [(key, runs_of(card, run_count), java_kind(card, run_count)) for key, (card, run_count) in enumerate(TIES)]
    expected = bitmap(*(stored(kind, key, pairs) for key, pairs, kind in parts))
    for build in BUILDERS.values():
        assert serialize(BitMap.union(*(build(key, pairs) for key, pairs, _ in parts))) == expected


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_without_run_optimize_there_is_no_run_container(
    build: Callable[[int, list[tuple[int, int]]], AbstractBitMap],
) -> None:
    for card, run_count in TIES:
        pairs = runs_of(card, run_count)
        kind = ContainerKind.ARRAY if card <= ARRAY_MAX else ContainerKind.BITSET
        assert serialize(build(3, pairs), run_optimize=False) == bitmap(stored(kind, 3, pairs)), (card, run_count)


def test_serializing_leaves_the_bitmap_as_it_is() -> None:
    rows = BitMap(range(3))
    form = rows.serialize()
    serialize(rows)
    serialize(rows, run_optimize=False)
    assert rows.serialize() == form


@each("some", [1 << 16, 100_000, 1 << 17])
@each("first", [0, 65_535, 2**32 - 400_000])
def test_runs_are_expanded_a_few_at_a_time(first: int, some: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = BitMap([*range(first, first + 300_000), *range(first + 300_001, first + 400_000, 3)])
    rows.run_optimize()
    whole = serialize(rows, run_optimize=False)
    assert ContainerKind.RUN not in walk(Cursor(whole)).kinds
    monkeypatch.setattr(roaring, "_SOME_VALUES", some)
    expand = Mock(wraps=from_sorted)
    monkeypatch.setattr(roaring, "from_sorted", expand)
    assert serialize(rows, run_optimize=False) == whole
    assert len(expand.call_args_list) > 1
    assert all(len(call.args[0]) <= some + 65_536 for call in expand.call_args_list)


@given(st.lists(st.tuples(st.integers(0, 4 * FULL), st.integers(1, 300)), max_size=40), st.randoms())
def test_the_bytes_depend_on_the_values_alone(spans: list[tuple[int, int]], order: random.Random) -> None:
    values = sorted({value for start, length in spans for value in range(start, start + length)})
    expected = serialize(BitMap(values))
    by_range = BitMap()
    order.shuffle(spans)
    for start, length in spans:
        by_range.add_range(start, start + length)
    assert serialize(by_range) == expected
    assert serialize(decode(expected)) == expected
    assert decode(expected) == BitMap(values)


# ------------------------------------------------------------------ real files


def java_cases(vectors: Path) -> list[Path]:
    return sorted((vectors / "roaring" / "java").glob("*.jrb"))


def java_positions(path: Path) -> BitMap:
    return BitMap(np.frombuffer(gzip.decompress(path.with_suffix(".pos.gz").read_bytes()), "<u4"))


def test_javas_bytes_are_read_as_the_positions_java_was_given(vectors: Path) -> None:
    cases = java_cases(vectors)
    assert len(cases) == 30
    for path in cases:
        assert decode(path.read_bytes()) == java_positions(path), path.name


def test_the_positions_java_was_given_are_written_as_javas_bytes(vectors: Path) -> None:
    for path in java_cases(vectors):
        data = path.read_bytes()
        assert serialize(java_positions(path)) == data, path.name
        assert serialize(decode(data)) == data, path.name


def test_javas_files_hold_every_container_kind(vectors: Path) -> None:
    mix = ContainerMix()
    for path in java_cases(vectors):
        mix = mix.plus(walk(Cursor(path.read_bytes())).mix)
    assert min(mix) > 10


def test_the_specifications_samples_hold_what_it_says(vectors: Path) -> None:
    expected = BitMap(range(0, 100_000, 1000)) | BitMap(range(300_000, 600_000, 3)) | BitMap(range(700_000, 800_000))
    assert len(expected) == 200_100
    folder = vectors / "roaring" / "format-spec"
    with_runs = (folder / "bitmapwithruns.bin").read_bytes()
    without = (folder / "bitmapwithoutruns.bin").read_bytes()
    assert decode(with_runs) == decode(without) == expected
    assert serialize(expected) == with_runs
    assert serialize(expected, run_optimize=False) == without
    assert walk(Cursor(without)).mix.runs == 0


def test_croarings_offset_sample_is_read_as_croaring_reads_it(vectors: Path) -> None:
    data = (vectors / "roaring" / "croaring" / "addoffsetinput.bin").read_bytes()
    assert decode(data) == BitMap.deserialize(data)


@each("number", range(1, 8))
def test_croarings_crash_prone_inputs_are_refused(vectors: Path, number: int) -> None:
    data = (vectors / "roaring" / "croaring" / f"crashproneinput{number}.bin").read_bytes()
    with pytest.raises(DecodeError):
        decode(data)


# ------------------------------------------------------------------ any bytes whatever


def agree_with_pyroaring(data: bytes) -> bool:
    """Whether the bytes are accepted; if so, pyroaring has to accept them too, with the same content."""

    def checked(body: bytes) -> BitmapView:
        view = walk(Cursor(body))
        view.check()
        return view

    view = outcome(checked, data)
    loaded = outcome(lambda body: walk(Cursor(body)).load(), data)
    if isinstance(view, DecodeError):
        assert isinstance(loaded, DecodeError), "load takes what check refuses"
        return False
    theirs = BitMap.deserialize(data)
    assert view.cardinality == len(theirs)
    assert loaded == theirs
    assert (view.min, view.max) == ((theirs.min(), theirs.max()) if theirs else (None, None))
    return True


SEEDS = [
    *small_bitmaps().values(),
    bitmap(array(0, [3, 4]), bitset(1, singles(4097)), runs(2, [(0, 9), (20, 1)])),
    bitmap(bitset(0, singles(5000, 3)), array(1, [0])),
    *(legal for legal, _ in LEGAL.values() if len(legal) < 100),
]
HINTS = [0, 1, 2, 3, 255, 256, 4095, 4096, 4097, 12346, 12347, 65534, 65535]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Damage the bytes, most often where the header is."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(min(len(out), 60) or 1) if rng.random() < 0.7 else rng.randrange(len(out) or 1)
        kind = rng.randrange(6)
        if kind == 0:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            out[at : at + 1] = bytes([(out[at] if at < len(out) else 0) ^ 1 << rng.randrange(8)])
        elif kind == 2:
            out[at & ~1 : (at & ~1) + 2] = struct.pack("<H", rng.choice(HINTS))
        elif kind == 3:
            del out[at : at + rng.choice((1, 2, 4))]
        elif kind == 4:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 4)))
        else:
            other = rng.randrange(len(out) or 1) & ~1
            out[at & ~1 : (at & ~1) + 2] = out[other : other + 2]
    return bytes(out)


def test_damaged_bitmaps_are_accepted_only_where_pyroaring_accepts_the_same() -> None:
    rng = random.Random(20240917)
    accepted = sum(agree_with_pyroaring(mutate(rng.choice(SEEDS), rng)) for _ in range(25_000))
    assert 500 < accepted < 20_000


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_bitmap_or_a_decode_error(data: bytes) -> None:
    for body in (data, b"\x3a\x30\x00\x00" + data, b"\x3b\x30" + data, b"\x3b\x30\x00\x00\x01" + data):
        agree_with_pyroaring(body) if body else outcome(decode, body)


words = st.integers(0, 12) | st.integers(0, 65535)


@st.composite
def containers(draw: st.DrawFn) -> Container:
    """An array or run container, more often valid than not."""
    key = draw(st.integers(0, 5))
    if draw(st.booleans()):
        values = draw(st.lists(words, min_size=1, max_size=8))
        made = array(key, sorted(set(values)) if draw(st.booleans()) else values)
    else:
        pairs = draw(st.lists(st.tuples(words, st.integers(1, 8)), min_size=1, max_size=5))
        made = runs(key, sorted(pairs) if draw(st.booleans()) else pairs)
    return made if draw(st.integers(0, 5)) else made.claiming(draw(st.integers(1, 20)))


def is_valid(container: Container) -> bool:
    """Whether a container keeps the specification's rules, one value at a time."""
    words: list[int] = np.frombuffer(container.payload, "<u2").tolist()
    if not container.run:
        return len(words) == container.card and all(a < b for a, b in itertools.pairwise(words))
    pairs = list(zip(words[1::2], words[2::2], strict=True))
    last = -2
    for start, more in pairs:
        if start <= last + 1 or start + more > 65535:
            return False
        last = start + more
    return container.card == sum(more + 1 for _, more in pairs)


@settings(max_examples=examples(600))
@given(st.lists(containers(), min_size=1, max_size=6))
def test_a_bitmap_is_accepted_exactly_if_every_rule_is_kept(parts: list[Container]) -> None:
    parts.sort(key=lambda part: part.key)
    keys = [part.key for part in parts]
    data = bitmap(*parts)
    found = outcome(decode, data)
    assert isinstance(found, AbstractBitMap) == (len(set(keys)) == len(keys) and all(map(is_valid, parts)))
    agree_with_pyroaring(data)
