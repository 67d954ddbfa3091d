from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import answers_limited, check_all, check_buffers, check_trailing, check_truncations, outcome
from cases import each
from dvcodec.core import vector
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    NotCanonical,
    Truncated,
    UsageError,
)
from dvcodec.core.frame import Magic
from dvcodec.core.limits import Limits
from dvcodec.core.roaring64 import MAX_DV_POSITION
from dvcodec.core.rowset import RowSet
from samples.bitmaps import (
    EMPTY,
    NATIVE,
    PAIMON,
    PORTABLE,
    array,
    bitmap,
    bitset,
    frame,
    native64,
    runs,
    vector64,
)

SOME = bitmap(array(0, [1, 5, 9]))
TAKEN = RowSet([1, 5, 9])
RAW = {Magic.PORTABLE64: PORTABLE, Magic.NATIVE64: NATIVE, Magic.PAIMON32: PAIMON}


def decode(data: BytesLike, cardinality: int | None = None) -> RowSet:
    return vector.read(Cursor(data), cardinality=cardinality).load()


def decode_payload(data: BytesLike, cardinality: int | None = None) -> RowSet:
    return vector.read_payload(Cursor(data), cardinality=cardinality).load()


VECTORS: dict[str, tuple[Magic, bytes, RowSet]] = {
    "portable, empty": (Magic.PORTABLE64, vector64(), RowSet()),
    "portable": (Magic.PORTABLE64, vector64((0, SOME)), TAKEN),
    "portable with a gap": (
        Magic.PORTABLE64,
        vector64((0, EMPTY), (1, SOME)),
        RowSet([2**32 + 1, 2**32 + 5, 2**32 + 9]),
    ),
    "portable run": (
        Magic.PORTABLE64,
        vector64((0, bitmap(runs(0, [(7, 90)])))),
        RowSet.from_ranges([(7, 97)]),
    ),
    "native, empty": (Magic.NATIVE64, native64(), RowSet()),
    "native": (Magic.NATIVE64, native64(SOME), TAKEN),
    "native with gaps": (
        Magic.NATIVE64,
        native64(EMPTY, EMPTY, bitmap(array(0, [7]), runs(1, [(0, 100)]))),
        RowSet([2**33 + 7]) | RowSet.from_ranges([(2**33 + 2**16, 2**33 + 2**16 + 100)]),
    ),
    "Paimon 32, empty": (Magic.PAIMON32, EMPTY, RowSet()),
    "Paimon 32": (Magic.PAIMON32, SOME, TAKEN),
    "Paimon 32 run": (Magic.PAIMON32, bitmap(runs(0, [(7, 90)])), RowSet.from_ranges([(7, 97)])),
}
vectors_of_each_magic = pytest.mark.parametrize(("magic", "body", "rows"), VECTORS.values(), ids=VECTORS)


@vectors_of_each_magic
def test_frames_of_every_magic_pass_the_battery(magic: Magic, body: bytes, rows: RowSet) -> None:
    data = frame(RAW[magic], body)
    assert decode(data) == rows
    check_all(decode, data)


@vectors_of_each_magic
def test_payloads_are_read_without_their_frame(magic: Magic, body: bytes, rows: RowSet) -> None:
    data = RAW[magic] + body
    assert decode_payload(data) == rows
    check_truncations(decode_payload, data)
    check_trailing(decode_payload, data)
    check_buffers(decode_payload, data)


@vectors_of_each_magic
def test_a_vector_says_what_it_is_without_being_expanded(magic: Magic, body: bytes, rows: RowSet) -> None:
    data = frame(RAW[magic], body)
    framed = vector.read(Cursor(data), cardinality=len(rows))
    assert (framed.magic, framed.cardinality) == (magic, len(rows))
    assert (framed.view.min, framed.view.max) == (rows.min, rows.max)
    assert bytes(framed.view.data) == body
    assert framed.frame is not None
    assert bytes(framed.frame.data) == data
    framed.check()
    bare = vector.read_payload(Cursor(RAW[magic] + body), cardinality=len(rows))
    assert (bare.magic, bare.cardinality, bare.frame) == (magic, len(rows), None)


@vectors_of_each_magic
def test_what_is_written_is_this_byte_for_byte(magic: Magic, body: bytes, rows: RowSet) -> None:
    assert vector.encode_payload(rows, magic) == body


@pytest.mark.parametrize("magic", Magic)
def test_only_allowed_magics_are_read(magic: Magic) -> None:
    body = {Magic.PORTABLE64: vector64(), Magic.NATIVE64: native64(), Magic.PAIMON32: EMPTY}[magic]
    others = tuple(other for other in Magic if other is not magic)
    with pytest.raises(BadMagic) as framed:
        vector.read(Cursor(frame(RAW[magic], body), base=50), allowed=others)
    with pytest.raises(BadMagic) as bare:
        vector.read_payload(Cursor(RAW[magic] + body, base=54), allowed=others)
    for error in (framed.value, bare.value):
        assert (error.offset, error.actual) == (54, RAW[magic].hex(" "))
    assert vector.read(Cursor(frame(RAW[magic], body)), allowed=(magic,)).magic is magic


# ------------------------------------------------------------------ order of checks

UNSORTED = bitmap(array(0, [9, 3, 1]))
KEYS_TWICE = vector64((4, SOME), (4, SOME))


@pytest.mark.parametrize(
    ("data", "cardinality", "kind", "what"),
    [
        pytest.param(
            frame(PORTABLE, KEYS_TWICE, length=1000, crc=1), 5, Truncated, "length field", id="length before CRC"
        ),
        pytest.param(
            frame(b"????", KEYS_TWICE, crc=1), 5, ChecksumMismatch, "CRC-32 of magic and bitmap", id="CRC before magic"
        ),
        pytest.param(frame(b"????", KEYS_TWICE), 5, BadMagic, "magic", id="magic before structure"),
        pytest.param(
            frame(PORTABLE, KEYS_TWICE),
            5,
            NotCanonical,
            "bitmap keys not strictly ascending",
            id="structure before cardinality",
        ),
        pytest.param(
            frame(PORTABLE, vector64((0, UNSORTED)) + b"\x00"),
            5,
            NotCanonical,
            "bytes after the end of the bitmap",
            id="trailing bytes before cardinality",
        ),
        pytest.param(
            frame(PORTABLE, vector64((0, UNSORTED))),
            5,
            CardinalityMismatch,
            "cardinality",
            id="cardinality before values",
        ),
        pytest.param(
            frame(PORTABLE, vector64((0, UNSORTED))),
            3,
            NotCanonical,
            "values not strictly ascending in array container 0 (key 0x0000)",
            id="values last",
        ),
    ],
)
def test_of_two_faults_the_outer_one_is_named(
    data: bytes, cardinality: int, kind: type[DecodeError], what: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(data, cardinality)
    assert (type(caught.value), caught.value.what) == (kind, what)


def test_the_size_limit_stands_before_the_length() -> None:
    data = frame(PORTABLE, vector64((0, SOME)), length=2000)
    limits = Limits(max_vector_bytes=len(data) - 1)
    with pytest.raises(LimitExceeded) as caught:
        vector.read(Cursor(data, base=9), limits=limits)
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("Limits.max_vector_bytes", 9, len(data))
    with pytest.raises(LimitExceeded):
        vector.read_payload(Cursor(data[4:-4]), limits=Limits(max_vector_bytes=len(data) - 9))


def test_a_damaged_vector_is_looked_into_on_demand() -> None:
    data = frame(PORTABLE, vector64((0, SOME)), crc=0)
    with pytest.raises(ChecksumMismatch):
        decode(data)
    assert vector.read(Cursor(data), verify_checksum=False).load() == TAKEN


@each("promised", [0, 2, 4, 2**63])
@each("name", ["portable", "native", "Paimon 32"])
def test_the_cardinality_is_held_against_the_metadata(name: str, promised: int) -> None:
    magic, body, _ = VECTORS[name]
    with pytest.raises(CardinalityMismatch) as caught:
        vector.read(Cursor(frame(RAW[magic], body), source="x.bin", base=40), cardinality=promised)
    assert (caught.value.source, caught.value.offset) == ("x.bin", 40)
    assert (caught.value.expected, caught.value.actual) == (f"{promised} (metadata)", 3)
    with pytest.raises(CardinalityMismatch):
        decode_payload(RAW[magic] + body, promised)


@pytest.mark.parametrize("name", ["portable", "native", "Paimon 32"])
def test_rows_are_limited_in_every_layout(name: str) -> None:
    magic, body, rows = VECTORS[name]
    data = frame(RAW[magic], body)
    assert vector.read(Cursor(data), limits=Limits(max_cardinality=3)).load() == rows
    with pytest.raises(LimitExceeded) as caught:
        vector.read(Cursor(data), limits=Limits(max_cardinality=2))
    assert (caught.value.what, caught.value.expected, caught.value.actual) == (
        "Limits.max_cardinality",
        "at most 2 (Limits(max_cardinality=...) raises it)",
        3,
    )


@pytest.mark.parametrize(
    ("name", "depth"), [("portable", 8 + 4 + 16 + 2), ("native", 4 + 4 + 16 + 2), ("Paimon 32", 16 + 2)]
)
def test_offsets_in_errors_are_those_of_the_source(name: str, depth: int) -> None:
    magic, body, _ = VECTORS[name]
    damaged = bytearray(body)
    damaged[depth : depth + 2] = b"\x00\x00"
    cursor = Cursor(b"\x01" + frame(RAW[magic], bytes(damaged)), source="x.bin", base=500)
    cursor.seek(1, "the frame")
    with pytest.raises(NotCanonical) as caught:
        vector.read(cursor).load()
    assert (caught.value.source, caught.value.offset) == ("x.bin", 501 + 8 + depth)


# ------------------------------------------------------------------ the native layout


def native_refusal(body: bytes, offset: int) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        vector.read_payload(Cursor(NATIVE + body, source="x.bin", base=100))
    assert (caught.value.source, caught.value.offset) == ("x.bin", 104 + offset)
    return caught.value


@pytest.mark.parametrize("count", [-1, -(2**31), 3, 2**31 - 1])
def test_a_native_count_fits_the_bytes(count: int) -> None:
    error = native_refusal(native64(SOME, count=count), 0)
    assert type(error) is Truncated
    assert (error.what, error.expected, error.actual) == ("bitmap count", "0 to 2 in 26 bytes", count)


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_native_length_is_not_negative(size: int) -> None:
    error = native_refusal(native64(SOME, SOME, sizes=[len(SOME), size]), 4 + 4 + len(SOME))
    assert type(error) is NotCanonical
    assert (error.what, error.actual) == ("bitmap length", size)


@pytest.mark.parametrize("gap_count", [0, 1, 9, 80])
def test_a_native_length_is_that_of_its_bitmap(gap_count: int) -> None:
    def body(size: int) -> bytes:
        return native64(*[EMPTY] * gap_count, SOME, SOME, sizes=[8] * gap_count + [size, len(SOME)])

    at = 4 + 12 * gap_count + 4
    error = native_refusal(body(len(SOME) + 4), at + len(SOME))
    assert type(error) is NotCanonical
    assert (error.what, error.actual) == (f"bytes after the end of bitmap {gap_count}", "4")
    error = native_refusal(body(len(SOME) - 2), at + 16)
    assert type(error) is Truncated
    error = native_refusal(body(1000), at)
    assert type(error) is Truncated
    assert (error.what, error.expected) == (f"bitmap {gap_count}", "1000 bytes")


@pytest.mark.parametrize("size", [4, 12, 16])
def test_the_length_of_a_native_gap_is_eight(size: int) -> None:
    with pytest.raises(DecodeError):
        decode_payload(NATIVE + native64(EMPTY, EMPTY, SOME, sizes=[8, size, len(SOME)]))


@each("size", [0, 1, 2, 7, 8, 9, 63, 64, 65, 66, 600])
def test_native_gaps_are_counted_however_many_there_are(size: int) -> None:
    for tail in (0, 1, 8, 70):
        data = NATIVE + native64(*[EMPTY] * size, SOME, *[EMPTY] * tail, SOME)
        found = vector.read_payload(Cursor(data))
        assert found.view.gaps == size + tail
        assert [key for key, _ in found.view.bitmaps] == [size, size + 1 + tail]
    only = vector.read_payload(Cursor(NATIVE + native64(*[EMPTY] * size)))
    assert (only.view.gaps, only.cardinality) == (size, 0)


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize(
    ("magic", "highest"),
    [(Magic.PAIMON32, 2**31 - 1), (Magic.PORTABLE64, MAX_DV_POSITION)],
)
def test_the_highest_position_of_a_layout_is_written_and_the_next_is_not(magic: Magic, highest: int) -> None:
    data = vector.encode_payload(RowSet([highest]), magic, gap_keys=False)
    assert decode_payload(magic.value + data) == RowSet([highest])
    with pytest.raises(UsageError, match=f"position {highest + 1} "):
        vector.encode_payload(RowSet([5, highest + 1]), magic, gap_keys=False)


def test_a_native_vector_that_would_not_fit_is_refused_before_it_is_built() -> None:
    with pytest.raises(UsageError, match="a native vector up to key 2147483646"):
        vector.encode_payload(RowSet([MAX_DV_POSITION]), Magic.NATIVE64)
    with pytest.raises(UsageError, match=f"position {MAX_DV_POSITION + 1} is above {MAX_DV_POSITION}"):
        vector.encode_payload(RowSet([MAX_DV_POSITION + 1]), Magic.NATIVE64)
    with pytest.raises(UsageError, match="the gap keys below key 2147483646"):
        vector.encode_payload(RowSet([MAX_DV_POSITION]), Magic.PORTABLE64)


def test_native_gaps_are_written_without_a_loop_over_them() -> None:
    count = 300_000
    data = vector.encode_payload(RowSet([5, count << 32 | 1]), Magic.NATIVE64)
    gap = struct.pack("<i", 8) + EMPTY
    first, last = bitmap(array(0, [5])), bitmap(array(0, [1]))
    head = struct.pack("<ii", count + 1, len(first)) + first
    assert data == head + gap * (count - 1) + struct.pack("<i", len(last)) + last


@pytest.mark.parametrize(
    ("magic", "wrap"),
    [
        (Magic.PORTABLE64, lambda data: vector64((0, data))),
        (Magic.NATIVE64, native64),
        (Magic.PAIMON32, bytes),
    ],
)
def test_run_optimize_is_the_callers_choice_in_every_layout(magic: Magic, wrap: Callable[[bytes], bytes]) -> None:
    rows = RowSet.from_ranges([(0, 5000)])
    assert vector.encode_payload(rows, magic) == wrap(bitmap(runs(0, [(0, 5000)])))
    assert vector.encode_payload(rows, magic, run_optimize=False) == wrap(bitmap(bitset(0, range(5000))))


positions = st.integers(0, 70_000) | st.integers(2**31 - 3, 2**31 - 1)
wide = positions | st.integers(2**32 - 3, 2**32 + 3) | st.integers(0, 20 << 32)


@given(st.sets(wide, max_size=30))
def test_every_layout_gives_back_what_was_written(values: set[int]) -> None:
    rows = RowSet(values)
    for magic in Magic:
        if magic is Magic.PAIMON32 and max(values, default=0) >= 2**31:
            continue
        for options in ({}, {"run_optimize": False}, {"gap_keys": False}):
            data = vector.encode_payload(rows, magic, **options)
            assert decode_payload(magic.value + data, len(rows)) == rows
            assert decode(frame(magic.value, data), len(rows)) == rows


# ------------------------------------------------------------------ any bytes whatever


@given(st.binary(max_size=150), st.sampled_from(Magic), st.integers(-1, 4))
def test_any_bytes_end_in_a_vector_or_a_decode_error(data: bytes, magic: Magic, count: int) -> None:
    counted = struct.pack("<q", count) if magic is Magic.PORTABLE64 else struct.pack("<i", count)
    for body in (data, counted + data, counted + bytes(4) + EMPTY + data):
        outcome(decode_payload, data)
        outcome(decode_payload, magic.value + body)
        outcome(decode, frame(magic.value, body))
        outcome(decode, body)
    outcome(partial(decode_payload, cardinality=1), magic.value + data)


@given(st.sampled_from(sorted(VECTORS)), st.data())
def test_damaged_vectors_under_a_right_crc_end_in_a_vector_or_a_decode_error(name: str, data: st.DataObject) -> None:
    magic, body, _ = VECTORS[name]
    damaged = bytearray(body)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(body) - 1), st.integers(0, 255)), max_size=3)):
        damaged[at] = byte
    found = outcome(decode, frame(magic.value, bytes(damaged)))
    if isinstance(found, RowSet):
        assert len(found) == vector.read(Cursor(frame(magic.value, bytes(damaged)))).cardinality


@pytest.mark.skipif(sys.platform != "linux", reason="caps the address space")
def test_bombs_are_answered_in_little_memory() -> None:
    bombs = [
        ("bitmaps.NATIVE + bitmaps.native64(count=2**31 - 1) + bytes(60)", "Truncated"),
        (
            "bitmaps.NATIVE + np.int32(2_000_000).tobytes() + (b'\\x08\\0\\0\\0' + bitmaps.EMPTY) * 2_000_000",
            "0 rows",
        ),
        (
            "bitmaps.PAIMON + bitmaps.bitmap(*(bitmaps.runs(k, [(0, 65536)]) for k in range(65536)))",
            "4294967296 rows",
        ),
        (
            "bitmaps.PORTABLE + bitmaps.vector64((0x7ffffffe, bitmaps.bitmap(bitmaps.runs(0, [(0, 65536)]))))",
            "65536 rows",
        ),
    ]
    call = """
        found = vector.read_payload(Cursor(bomb))
        found.check()
        print(found.load().cardinality, "rows")
    """
    assert answers_limited((f"bomb = {bomb}", call) for bomb, _ in bombs) == [answer for _, answer in bombs]


def test_a_valid_vector_for_which_memory_is_short_is_not_called_corrupt() -> None:
    calls = [
        "iceberg.decode(blob)",
        "delta.decode(blob)",
        "paimon.decode(blob)",
        "batch.expand(many, starts, sizes)",
    ]
    setup = """
        from dvcodec import delta, iceberg, paimon
        from dvcodec.core import batch
        blob = iceberg.encode(RowSet(np.arange(0, 40_000 << 16, 1 << 14)))
        one = iceberg.encode(RowSet(np.arange(0, 30_000, 2)))
        many, starts = one * 1000, np.arange(1000, dtype=np.int64) * len(one)
        sizes = np.full(1000, len(one), np.int64)
    """
    asked = [(setup, f"[{call} for i in range(60)]") for call in calls]
    assert answers_limited(asked, megabytes=2) == ["LimitExceeded"] * len(calls)
