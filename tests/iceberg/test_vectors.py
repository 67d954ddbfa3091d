"""The deletion-vector-v1 blob."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all, check_truncations, flipped, outcome
from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    iceberg,
)

MAGIC = b"\xd1\xd3\x39\x64"
MAX_POSITION = 0x7FFFFFFE80000000
KEY = 1 << 32
EMPTY_BITMAP = struct.pack("<II", 12346, 0)

# Written out from Iceberg's TestBitmapPositionDeleteIndex: containers 0, 1 and 2 of keys 0 and 1.
ALL_CONTAINERS = RowSet([5, 7, KEY + 10, KEY + 20]) | RowSet.from_ranges(
    [
        (65537, 66536),
        (131073, 196607),
        (KEY + 65536 + 10, KEY + 65536 + 500),
        (KEY + 131072 + 1, KEY + 131072 + 65535),
    ]
)
JAVA_BLOBS = {
    "java-resources/empty-position-index.bin": RowSet(),
    "java-resources/small-alternating-values-position-index.bin": RowSet([1, 3, 5, 7, 9]),
    "java-resources/small-and-large-values-position-index.bin": RowSet([100, 101, 2**31 + 99, 2**31 + 100]),
    "java-resources/all-container-types-position-index.bin": ALL_CONTAINERS,
    "java-main/range0-1.dv": RowSet(range(1)),
    "java-main/range0-2.dv": RowSet(range(2)),
    "java-main/range0-4.dv": RowSet(range(4)),
    "iceberg-go/deletion-vector-v1-payload.bin": RowSet([1, 3, 5, 7, 9]),
}
SMALL_SETS = {
    "empty": RowSet(),
    "first row": RowSet([0]),
    "array": RowSet([1, 3, 5, 7, 9]),
    "run": RowSet(range(1000, 2000)),
    "two containers": RowSet([7, 65536]),
    "five containers with runs": RowSet([0, 1 << 16, 2 << 16, 3 << 16]) | RowSet(range(4 << 16, 5 << 16)),
    "gap keys": RowSet([5, 3 * KEY + 7]),
}


def framed(vector: bytes, *, magic: bytes = MAGIC, length: int | None = None, crc: int | None = None) -> bytes:
    body = magic + vector
    stated = len(body) if length is None else length
    return struct.pack(">I", stated) + body + struct.pack(">I", zlib.crc32(body) if crc is None else crc)


def bitmap(*values: int) -> bytes:
    """A 32-bit bitmap of one array container, in any order given."""
    payload = struct.pack(f"<{len(values)}H", *values)
    return struct.pack("<IIHHI", 12346, 1, 0, len(values) - 1, 16) + payload


def buckets(*entries: tuple[int, bytes], count: int | None = None) -> bytes:
    stated = len(entries) if count is None else count
    return struct.pack("<Q", stated) + b"".join(struct.pack("<I", key) + data for key, data in entries)


# ---------------------------------------------------------------------- real blobs


@each("name", JAVA_BLOBS)
def test_java_blob_decodes_to_its_rows(vectors: Path, name: str) -> None:
    rows = JAVA_BLOBS[name]
    assert iceberg.decode((vectors / "iceberg" / name).read_bytes(), cardinality=len(rows)) == rows


@each("name", JAVA_BLOBS)
def test_java_blob_is_encoded_byte_for_byte(vectors: Path, name: str) -> None:
    assert iceberg.encode(JAVA_BLOBS[name]) == (vectors / "iceberg" / name).read_bytes()


def test_java_range_delete_keeps_a_run_where_single_deletes_make_an_array(vectors: Path) -> None:
    data = (vectors / "iceberg/java-main/range0-3.dv").read_bytes()
    assert iceberg.decode(data) == RowSet([0, 1, 2])
    assert (len(data), len(iceberg.encode(RowSet([0, 1, 2])))) == (39, 46)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("64mapempty.bin", RowSet()),
        ("64map32bitvals.bin", RowSet(range(10))),
        ("64mapspreadvals.bin", RowSet([key * KEY + low for key in range(10) for low in range(10)])),
    ],
)
def test_bare_map_in_a_frame_decodes(vectors: Path, name: str, rows: RowSet) -> None:
    data = (vectors / "iceberg/java-resources" / name).read_bytes()
    assert iceberg.decode(framed(data)) == rows
    assert iceberg.encode(rows, run_optimize=False) == framed(data)


def test_mangled_map_in_a_frame_is_refused(vectors: Path) -> None:
    with pytest.raises(DecodeError):
        iceberg.decode(framed((vectors / "iceberg/java-resources/64maphighvals.bin").read_bytes()))


def test_empty_vector_is_20_bytes() -> None:
    assert iceberg.encode(RowSet()).hex() == "0000000cd1d339640000000000000000bf18480c"


# ---------------------------------------------------------------------- battery


@each("name", SMALL_SETS)
def test_blob_passes_the_battery(name: str) -> None:
    check_all(iceberg.decode, iceberg.encode(SMALL_SETS[name]))


def test_bitset_blob_cannot_be_cut() -> None:
    check_truncations(iceberg.decode, iceberg.encode(RowSet(range(0, 65536, 2))))


@each("name", SMALL_SETS)
def test_bit_flips_under_a_right_crc_give_a_valid_set_or_an_error(name: str) -> None:
    blob = iceberg.encode(SMALL_SETS[name])
    for bit in range(64, 8 * (len(blob) - 4)):
        damaged = flipped(blob, bit)
        found = outcome(iceberg.decode, framed(bytes(damaged[8:-4])))
        if isinstance(found, RowSet):
            assert found != SMALL_SETS[name]
            positions = found.to_numpy()
            assert len(positions) == found.cardinality
            assert (np.diff(positions) > 0).all()


@given(st.binary(max_size=80))
def test_any_vector_bytes_end_in_a_value_or_a_decode_error(data: bytes) -> None:
    outcome(iceberg.decode, data)
    outcome(iceberg.decode, framed(data))
    outcome(iceberg.decode, framed(buckets((0, data))))


# ---------------------------------------------------------------------- refused, by name

VALID = buckets((0, bitmap(1, 3)))
RUN_COOKIE_WITHOUT_RUNS = struct.pack("<HHBHHHH", 12347, 0, 0, 0, 1, 1, 3)


@each(
    ("blob", "kind", "what", "offset"),
    [
        (b"", Truncated, "length field", 0),
        (framed(VALID)[:3], Truncated, "length field", 0),
        (framed(VALID, length=3), NotCanonical, "length field", 0),
        (framed(VALID, length=0), NotCanonical, "length field", 0),
        (framed(VALID, length=len(VALID) + 3), NotCanonical, "length field", 0),
        (framed(VALID, length=len(VALID) + 5), Truncated, "length field", 0),
        (framed(VALID, length=2**32 - 1), Truncated, "length field", 0),
        (framed(VALID, length=len(framed(VALID))), Truncated, "length field", 0),
        (framed(VALID) + b"\0", NotCanonical, "length field", 0),
        (framed(VALID, magic=b"\xd0\xd3\x39\x64"), BadMagic, "magic", 4),
        (framed(VALID, magic=b"\x5e\x43\xf2\xd0"), BadMagic, "magic", 4),
        (framed(VALID, magic=MAGIC[::-1]), BadMagic, "magic", 4),
        (framed(VALID, crc=0), ChecksumMismatch, "CRC-32", 40),
        (framed(VALID, crc=zlib.crc32(VALID)), ChecksumMismatch, "CRC-32", 40),
        (framed(VALID, crc=~zlib.crc32(MAGIC + VALID) & 0xFFFFFFFF), ChecksumMismatch, "CRC-32", 40),
        (framed(b""), Truncated, "bitmap count", 8),
        (framed(VALID + b"\0"), NotCanonical, "bytes after the end of the bitmap", 40),
        (framed(buckets((0, bitmap(1, 3)), (1, EMPTY_BITMAP), count=1)), NotCanonical, "bytes after the end", 40),
        (framed(buckets((0, bitmap(1, 3)), count=2)), Truncated, "", None),
        (framed(buckets((0, bitmap(1, 3)), count=3)), Truncated, "bitmap count", 8),
        (framed(buckets(count=2**32 - 1)), Truncated, "bitmap count", 8),
        (framed(buckets(count=2**32)), NotCanonical, "bitmap count", 8),
        (framed(buckets(count=2**64 - 1)), NotCanonical, "bitmap count", 8),
        (framed(buckets((0, bitmap(1)), (0, bitmap(2)))), NotCanonical, "bitmap keys not strictly ascending", 38),
        (framed(buckets((1, bitmap(1)), (0, bitmap(2)))), NotCanonical, "bitmap keys not strictly ascending", 38),
        (framed(buckets((1, EMPTY_BITMAP), (1, EMPTY_BITMAP))), NotCanonical, "bitmap keys not strictly", 28),
        (framed(buckets((2**31 - 1, bitmap(1)))), NotCanonical, "bitmap key", 16),
        (framed(buckets((2**32 - 1, EMPTY_BITMAP))), NotCanonical, "bitmap key", 16),
        (framed(buckets((0, bitmap(3, 1)))), NotCanonical, "values not strictly ascending", 38),
        (framed(buckets((0, bitmap(3, 3)))), NotCanonical, "values not strictly ascending", 38),
        (framed(buckets((0, RUN_COOKIE_WITHOUT_RUNS))), NotCanonical, "run cookie without a run container", 20),
        (framed(buckets((0, b"\x00" * 8))), BadMagic, "roaring cookie", 20),
    ],
)
def test_corrupt_blob_is_refused(blob: bytes, kind: type[DecodeError], what: str, offset: int | None) -> None:
    with pytest.raises(kind) as caught:
        iceberg.decode(blob, source="some.puffin", base=0)
    assert type(caught.value) is kind
    assert what in caught.value.what
    if offset is not None:
        assert caught.value.offset == offset
    assert str(caught.value).startswith("some.puffin at byte ")


def test_offsets_in_errors_count_from_the_base() -> None:
    with pytest.raises(ChecksumMismatch) as caught:
        iceberg.decode(framed(VALID, crc=0x0A), base=1000)
    assert caught.value.offset == 1040
    assert caught.value.expected == "0x0000000a (stored)"
    assert caught.value.actual == f"0x{zlib.crc32(MAGIC + VALID):08x} (computed)"


def test_crc_is_skipped_on_demand_and_nothing_else() -> None:
    assert iceberg.decode(framed(VALID, crc=0), verify_checksum=False) == RowSet([1, 3])
    for blob in (framed(VALID, crc=0, magic=b"\xd0\xd3\x39\x64"), framed(VALID + b"\0", crc=0)):
        with pytest.raises(DecodeError):
            iceberg.decode(blob, verify_checksum=False)


@pytest.mark.parametrize("promised", [0, 1, 3, 2**40])
def test_cardinality_of_the_manifest_is_checked(promised: int) -> None:
    with pytest.raises(CardinalityMismatch) as caught:
        iceberg.decode(framed(VALID), cardinality=promised)
    assert (caught.value.expected, caught.value.actual) == (f"{promised} (metadata)", 2)


@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        (Limits(max_vector_bytes=41), RowSet([1, 3])),
        (Limits(max_cardinality=999), RowSet(range(1000))),
    ],
)
def test_limits_are_kept(limits: Limits, rows: RowSet) -> None:
    blob = iceberg.encode(rows)
    assert iceberg.decode(blob) == rows
    with pytest.raises(LimitExceeded):
        iceberg.decode(blob, limits=limits)


# ---------------------------------------------------------------------- encode


def test_options_leave_out_runs_and_gaps() -> None:
    rows = RowSet(range(100)) | RowSet([2 * KEY])
    sizes = {
        (runs, gaps): len(iceberg.encode(rows, run_optimize=runs, gap_keys=gaps))
        for runs in (True, False)
        for gaps in (True, False)
    }
    run, array, single = 4 + 1 + 4 + 2 + 4, 8 + 8 + 200, 8 + 8 + 2
    assert sizes == {
        (runs, gaps): 12 + 8 + 4 + (run if runs else array) + 12 * gaps + 4 + single
        for runs in (True, False)
        for gaps in (True, False)
    }
    for runs, gaps in sizes:
        assert iceberg.decode(iceberg.encode(rows, run_optimize=runs, gap_keys=gaps)) == rows


def test_highest_position_fits_without_gap_keys() -> None:
    rows = RowSet([MAX_POSITION])
    assert iceberg.decode(iceberg.encode(rows, gap_keys=False)) == rows


@pytest.mark.parametrize(
    ("rows", "gap_keys", "match"),
    [
        (RowSet([MAX_POSITION + 1]), False, "highest in a deletion vector"),
        (RowSet([2**63]), True, "highest in a deletion vector"),
        (RowSet([MAX_POSITION]), True, "gap_keys=False"),
    ],
)
def test_rows_that_do_not_fit_are_a_usage_error(rows: RowSet, gap_keys: bool, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        iceberg.encode(rows, gap_keys=gap_keys)


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 5 * KEY)
RANGES = st.tuples(POSITIONS, st.integers(1, 5000)).map(lambda pair: (pair[0], pair[0] + pair[1]))
ROW_SETS = st.builds(
    lambda singles, ranges: RowSet(singles) | RowSet.from_ranges(ranges),
    st.lists(POSITIONS, max_size=50),
    st.lists(RANGES, max_size=4),
)


@given(ROW_SETS, st.booleans(), st.booleans())
def test_round_trip(rows: RowSet, run_optimize: bool, gap_keys: bool) -> None:
    blob = iceberg.encode(rows, run_optimize=run_optimize, gap_keys=gap_keys)
    assert iceberg.decode(blob, cardinality=len(rows)) == rows
    assert struct.unpack(">I", blob[:4])[0] == len(blob) - 8
