"""The deletion-vector-v1 blob."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all, flipped, outcome
from cases import each
from dvcodec import (
    BadMagic,
    ChecksumMismatch,
    DecodeError,
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


# ---------------------------------------------------------------------- battery


@each("name", SMALL_SETS)
def test_blob_passes_the_battery(name: str) -> None:
    check_all(iceberg.decode, iceberg.encode(SMALL_SETS[name]))


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
