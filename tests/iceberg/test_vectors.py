"""The deletion-vector-v1 blob and Puffin files of blobs."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from battery import check_all, check_truncations, outcome
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    ChecksumMismatch,
    DecodeError,
    DvLocation,
    LimitExceeded,
    Limits,
    NotCanonical,
    RowSet,
    Truncated,
    UsageError,
    __version__,
    iceberg,
    read_rows,
    sniff,
    verify,
)
from dvcodec.core.frame import StoredFrame
from dvcodec.iceberg.vectors import blob_cardinality
from dvcodec.puffin import BlobMetadata, Footer, PuffinWriter, encode_footer, open_puffin

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
PUFFIN_FILES = {
    "java-main/one-small.puffin": {"s3://b/t/data/f1.parquet": [1, 3, 5, 7, 9]},
    "java-main/gap-keys.puffin": {"f": [5, 3 * KEY + 7]},
    "java-main/three-files.puffin": {
        "s3://b/t/data/f0.parquet": list(range(10)),
        "s3://b/t/data/f1.parquet": list(range(0, 21, 2)),
        "s3://b/t/data/f2.parquet": list(range(0, 34, 3)),
    },
    "iceberg-go/deletion-vector-v1.puffin": {"data/test.parquet": [1, 3, 5, 7, 9]},
    "iceberg-go/single-blob-dv.puffin": {"s3://warehouse/db/table/data/00000-0-abc.parquet": [1, 3, 5, 7, 9]},
    "iceberg-go/multi-blob-dv.puffin": {
        "s3://warehouse/db/table/data/file-001.parquet": [0, 100, 200],
        "s3://warehouse/db/table/data/file-002.parquet": [50, 150],
    },
    "puffin-v1/empty-puffin-uncompressed.bin": {},
    "puffin-v1/sample-metric-data-uncompressed.bin": {},
    "puffin-v1/sample-metric-data-compressed-zstd.bin": {},
}
JAVA_PUFFINS = ("one-small", "three-files", "gap-keys")
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


@pytest.mark.parametrize("name", JAVA_BLOBS)
def test_java_blob_decodes_to_its_rows(vectors: Path, name: str) -> None:
    rows = JAVA_BLOBS[name]
    assert iceberg.decode((vectors / "iceberg" / name).read_bytes(), cardinality=len(rows)) == rows


@pytest.mark.parametrize("name", JAVA_BLOBS)
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


@pytest.mark.parametrize("name", SMALL_SETS)
def test_blob_passes_the_battery(name: str) -> None:
    check_all(iceberg.decode, iceberg.encode(SMALL_SETS[name]))


def test_bitset_blob_cannot_be_cut() -> None:
    check_truncations(iceberg.decode, iceberg.encode(RowSet(range(0, 65536, 2))))


@pytest.mark.parametrize("name", SMALL_SETS)
def test_bit_flips_under_a_right_crc_give_a_sound_set_or_an_error(name: str) -> None:
    blob = iceberg.encode(SMALL_SETS[name])
    for bit in range(64, 8 * (len(blob) - 4)):
        damaged = bytearray(blob)
        damaged[bit >> 3] ^= 1 << (bit & 7)
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

SOUND = buckets((0, bitmap(1, 3)))
RUN_COOKIE_WITHOUT_RUNS = struct.pack("<HHBHHHH", 12347, 0, 0, 0, 1, 1, 3)


@pytest.mark.parametrize(
    ("blob", "kind", "what", "offset"),
    [
        (b"", Truncated, "length field", 0),
        (framed(SOUND)[:3], Truncated, "length field", 0),
        (framed(SOUND, length=3), NotCanonical, "length field", 0),
        (framed(SOUND, length=0), NotCanonical, "length field", 0),
        (framed(SOUND, length=len(SOUND) + 3), NotCanonical, "length field", 0),
        (framed(SOUND, length=len(SOUND) + 5), Truncated, "length field", 0),
        (framed(SOUND, length=2**32 - 1), Truncated, "length field", 0),
        (framed(SOUND, length=len(framed(SOUND))), Truncated, "length field", 0),
        (framed(SOUND) + b"\0", NotCanonical, "length field", 0),
        (framed(SOUND, magic=b"\xd0\xd3\x39\x64"), BadMagic, "magic", 4),
        (framed(SOUND, magic=b"\x5e\x43\xf2\xd0"), BadMagic, "magic", 4),
        (framed(SOUND, magic=MAGIC[::-1]), BadMagic, "magic", 4),
        (framed(SOUND, crc=0), ChecksumMismatch, "CRC-32", 40),
        (framed(SOUND, crc=zlib.crc32(SOUND)), ChecksumMismatch, "CRC-32", 40),
        (framed(SOUND, crc=~zlib.crc32(MAGIC + SOUND) & 0xFFFFFFFF), ChecksumMismatch, "CRC-32", 40),
        (framed(b""), Truncated, "bitmap count", 8),
        (framed(SOUND + b"\0"), NotCanonical, "bytes after the end of the bitmap", 40),
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
def test_unsound_blob_is_refused(blob: bytes, kind: type[DecodeError], what: str, offset: int | None) -> None:
    with pytest.raises(kind) as caught:
        iceberg.decode(blob, source="some.puffin", base=0)
    assert type(caught.value) is kind
    assert what in caught.value.what
    if offset is not None:
        assert caught.value.offset == offset
    assert str(caught.value).startswith("some.puffin at byte ")


def test_offsets_in_errors_count_from_the_base() -> None:
    with pytest.raises(ChecksumMismatch) as caught:
        iceberg.decode(framed(SOUND, crc=0x0A), base=1000)
    assert caught.value.offset == 1040
    assert caught.value.expected == "0x0000000a (stored)"
    assert caught.value.actual == f"0x{zlib.crc32(MAGIC + SOUND):08x} (computed)"


def test_crc_is_skipped_on_demand_and_nothing_else() -> None:
    assert iceberg.decode(framed(SOUND, crc=0), verify_checksum=False) == RowSet([1, 3])
    for blob in (framed(SOUND, crc=0, magic=b"\xd0\xd3\x39\x64"), framed(SOUND + b"\0", crc=0)):
        with pytest.raises(DecodeError):
            iceberg.decode(blob, verify_checksum=False)


@pytest.mark.parametrize("promised", [0, 1, 3, 2**40])
def test_cardinality_of_the_manifest_is_checked(promised: int) -> None:
    with pytest.raises(CardinalityMismatch) as caught:
        iceberg.decode(framed(SOUND), cardinality=promised)
    assert (caught.value.expected, caught.value.actual) == (f"{promised} (metadata)", 2)


@pytest.mark.parametrize(
    ("limits", "rows"),
    [
        (Limits(max_vector_bytes=41), RowSet([1, 3])),
        (Limits(max_cardinality=999), RowSet(range(1000))),
        (Limits(max_bitmaps=1), RowSet([0, KEY])),
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
        (RowSet([MAX_POSITION + 1]), False, "above the highest"),
        (RowSet([2**63]), True, "above the highest"),
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


# ---------------------------------------------------------------------- files


def file_of(*blobs: tuple[bytes, dict[str, Any]]) -> bytes:
    """A Puffin file of blobs, the metadata of each changed as asked."""
    data, metadata = b"PFA1", []
    for stored, changes in blobs:
        known: dict[str, Any] = {
            "type": "deletion-vector-v1",
            "fields": (),
            "snapshot_id": -1,
            "sequence_number": -1,
            "offset": len(data),
            "length": len(stored),
        }
        metadata.append(BlobMetadata(**(known | changes)))
        data += stored
    return data + encode_footer(Footer(tuple(metadata)))


def vector_for(path: str | None, rows: Iterable[int], cardinality: str | None = None) -> tuple[bytes, dict[str, Any]]:
    properties = {"referenced-data-file": path, "cardinality": cardinality}
    return iceberg.encode(RowSet(rows)), {"properties": {k: v for k, v in properties.items() if v is not None}}


def with_changes(blob: tuple[bytes, dict[str, Any]], **changes: Any) -> tuple[bytes, dict[str, Any]]:
    return blob[0], blob[1] | changes


@pytest.mark.parametrize("name", PUFFIN_FILES)
def test_real_file_holds_its_vectors(vectors: Path, name: str) -> None:
    path = vectors / "iceberg" / name
    expected = {file: RowSet(rows) for file, rows in PUFFIN_FILES[name].items()}
    assert iceberg.read_deletion_vectors(path) == expected
    assert iceberg.read_deletion_vectors(path.read_bytes()) == expected
    with path.open("rb") as file:
        assert iceberg.read_deletion_vectors(file) == expected


@pytest.mark.parametrize("name", JAVA_PUFFINS)
def test_java_file_is_written_byte_for_byte(vectors: Path, name: str, tmp_path: Path) -> None:
    source = vectors / f"iceberg/java-main/{name}.puffin"
    with open_puffin(source) as reader:
        created_by = reader.footer.properties["created-by"]
    found = iceberg.read_deletion_vectors(source)
    for order in permutations(found):
        path = tmp_path / f"{name}.puffin"
        locations = iceberg.write_deletion_vectors(path, {file: found[file] for file in order}, created_by=created_by)
        assert path.read_bytes() == source.read_bytes()
        assert [location.data_file for location in locations] == list(found)


@pytest.mark.parametrize("name", JAVA_PUFFINS)
def test_locations_are_what_java_put_into_its_manifest(vectors: Path, name: str, tmp_path: Path) -> None:
    source = vectors / f"iceberg/java-main/{name}.puffin"
    entries = json.loads(source.with_suffix(".json").read_text())
    with open_puffin(source) as reader:
        created_by = reader.footer.properties["created-by"]
    path = tmp_path / "out.puffin"
    written = iceberg.write_deletion_vectors(path, iceberg.read_deletion_vectors(source), created_by=created_by)
    assert [iceberg.manifest_entry(location) for location in written] == [
        {
            "content": 1,
            "file_path": str(path),
            "file_format": entry["format"],
            "record_count": entry["record_count"],
            "file_size_in_bytes": entry["file_size"],
            "referenced_data_file": entry["referenced"],
            "content_offset": entry["offset"],
            "content_size_in_bytes": entry["size"],
        }
        for entry in entries
    ]


@pytest.mark.parametrize(
    ("duplicates", "expected"),
    [("union", {"a": RowSet([1, 2, 3]), "b": RowSet([9])}), ("last", {"a": RowSet([2, 3]), "b": RowSet([9])})],
)
def test_two_vectors_for_one_file(duplicates: Literal["union", "last"], expected: dict[str, RowSet]) -> None:
    data = file_of(vector_for("a", [1, 2]), vector_for("b", [9]), vector_for("a", [2, 3]))
    assert iceberg.read_deletion_vectors(data, duplicates=duplicates) == expected
    with pytest.raises(NotCanonical) as caught:
        iceberg.read_deletion_vectors(data)
    assert (caught.value.what, caught.value.actual) == ("referenced-data-file", "a twice")
    assert caught.value.offset == 4 + len(vector_for("a", [1, 2])[0]) + len(vector_for("b", [9])[0])


GOOD = vector_for("a", [1, 3], "2")


@pytest.mark.parametrize(
    ("blob", "kind", "what"),
    [
        (vector_for(None, [1, 3], "2"), NotCanonical, "blob property referenced-data-file"),
        (vector_for("a", [1, 3], "3"), CardinalityMismatch, "cardinality"),
        (vector_for("a", [], "1"), CardinalityMismatch, "cardinality"),
        *(
            (vector_for("a", [1, 3], text), NotCanonical, "blob property cardinality")
            for text in ("", "two", "-2", "+2", " 2", "2.0", "2_0", "0x2", "\u0662", "\u00b2", "1" * 20)
        ),
        (with_changes(GOOD, compression_codec="zstd"), NotCanonical, "compression-codec of a deletion vector"),
        (with_changes(GOOD, compression_codec="lz4"), NotCanonical, "compression-codec of a deletion vector"),
        (with_changes(GOOD, compression_codec="none"), NotCanonical, "compression-codec of a deletion vector"),
        (with_changes(GOOD, length=len(GOOD[0]) + 1), Truncated, "range of the deletion-vector-v1 blob"),
        (with_changes(GOOD, length=len(GOOD[0]) - 1), Truncated, "length field"),
        (with_changes(GOOD, offset=0), Truncated, "range of the deletion-vector-v1 blob"),
        (with_changes(GOOD, offset=5, length=len(GOOD[0]) - 1), DecodeError, ""),
    ],
)
def test_unsound_file_is_refused(blob: tuple[bytes, dict[str, Any]], kind: type[DecodeError], what: str) -> None:
    with pytest.raises(kind) as caught:
        iceberg.read_deletion_vectors(file_of(blob))
    assert what in caught.value.what
    assert "<bytes>" in str(caught.value)


def test_cardinality_is_unchecked_where_it_is_missing() -> None:
    data = file_of(vector_for("a", [1, 3]))
    assert iceberg.read_deletion_vectors(data) == {"a": RowSet([1, 3])}
    with open_puffin(data) as reader:
        assert blob_cardinality(reader.blobs[0]) is None


def test_java_fields_and_ids_are_not_required() -> None:
    odd = with_changes(GOOD, fields=(480, 7), snapshot_id=5, sequence_number=6)
    assert iceberg.read_deletion_vectors(file_of(odd)) == {"a": RowSet([1, 3])}


@pytest.mark.parametrize("kind", ["apache-datasketches-theta-v1", "delete-vector-v1", "DELETION-VECTOR-V1", ""])
def test_other_blobs_are_left_alone(kind: str) -> None:
    other = (b"anything", {"type": kind, "compression_codec": "brotli"})
    assert iceberg.read_deletion_vectors(file_of(other, GOOD, other)) == {"a": RowSet([1, 3])}


def test_wrong_crc_is_read_on_demand() -> None:
    blob = bytearray(GOOD[0])
    blob[-1] ^= 1
    data = file_of((bytes(blob), GOOD[1]))
    with pytest.raises(ChecksumMismatch):
        iceberg.read_deletion_vectors(data)
    assert iceberg.read_deletion_vectors(data, verify_checksum=False) == {"a": RowSet([1, 3])}


@pytest.mark.parametrize("limits", [Limits(max_cardinality=1), Limits(max_vector_bytes=8), Limits(max_blobs=0)])
def test_limits_reach_the_blobs(limits: Limits) -> None:
    with pytest.raises(LimitExceeded):
        iceberg.read_deletion_vectors(file_of(GOOD), limits=limits)


def test_every_byte_of_a_file_can_be_wrong() -> None:
    data = file_of(GOOD, vector_for("b", [7], "1"))
    for at in range(len(data)):
        for wrong in (data[at] ^ 0x01, data[at] ^ 0x80, 0x00, 0xFF):
            outcome(iceberg.read_deletion_vectors, data[:at] + bytes([wrong]) + data[at + 1 :])


# ---------------------------------------------------------------------- writing files


def test_no_vectors_make_no_file(tmp_path: Path) -> None:
    assert iceberg.write_deletion_vectors(tmp_path / "x.puffin", {}) == []
    assert iceberg.write_stored_vectors(tmp_path / "x.puffin", []) == []
    assert list(tmp_path.iterdir()) == []


def test_locations_say_where_the_blobs_are(tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    sets = {"b": RowSet([1, 2]), "a": RowSet(), "c": RowSet([KEY])}
    written = iceberg.write_deletion_vectors(path, sets, order="given")
    data = path.read_bytes()
    assert [location.data_file for location in written] == ["b", "a", "c"]
    for location in written:
        assert location.data_file is not None
        blob = data[location.offset : location.offset + location.size]
        assert blob == iceberg.encode(sets[location.data_file])
        assert location == DvLocation(
            "iceberg",
            str(path),
            location.offset,
            len(blob),
            len(sets[location.data_file]),
            location.data_file,
            len(data),
        )
    assert iceberg.read_deletion_vectors(path) == sets
    with open_puffin(path) as reader:
        assert reader.footer.properties == {"created-by": f"dvcodec {__version__}"}
        assert {blob.fields for blob in reader.blobs} == {(2147483645,)}
        assert {(blob.snapshot_id, blob.sequence_number) for blob in reader.blobs} == {(-1, -1)}


@pytest.mark.parametrize("order", ["java", "given"])
def test_order_is_a_choice(order: Literal["java", "given"]) -> None:
    sets = {"Aa": RowSet([1]), "BB": RowSet([2])}
    written = iceberg.write_deletion_vectors(io.BytesIO(), sets, order=order)
    assert [location.data_file for location in written] == (["BB", "Aa"] if order == "java" else ["Aa", "BB"])


@pytest.mark.parametrize("options", [{"run_optimize": False}, {"gap_keys": False}])
def test_encoding_options_reach_the_blobs(options: dict[str, bool]) -> None:
    rows = RowSet(range(KEY, KEY + 100))
    out = io.BytesIO()
    written = iceberg.write_deletion_vectors(out, {"a": rows}, **options)  # type: ignore[arg-type]
    expected = iceberg.encode(rows, **options)
    assert out.getvalue()[4 : 4 + written[0].size] == expected != iceberg.encode(rows)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: iceberg.write_deletion_vectors(path, {"a": RowSet([1]), "b": RowSet([MAX_POSITION + 1])}),
        lambda path: iceberg.write_deletion_vectors(path, {"b": RowSet([MAX_POSITION + 1])}),
    ],
)
def test_rows_that_do_not_fit_leave_the_old_file(write: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    path.write_bytes(b"old")
    with pytest.raises(UsageError):
        write(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]


def test_stored_vectors_are_written_as_they_are() -> None:
    frames = [StoredFrame("a", 7, b"not looked at"), StoredFrame("b", 8, b"")]
    out = io.BytesIO()
    written = iceberg.write_stored_vectors(out, frames, created_by="me")
    assert [(location.offset, location.size, location.cardinality) for location in written] == [(4, 13, 7), (17, 0, 8)]
    with open_puffin(out.getvalue()) as reader:
        assert [bytes(reader.read_stored(blob).view) for blob in reader.blobs] == [b"not looked at", b""]
        assert [blob.properties["cardinality"] for blob in reader.blobs] == ["7", "8"]
        assert reader.footer.properties == {"created-by": "me"}


def test_many_names_for_the_same_bytes_are_refused() -> None:
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, {"a": RowSet([1])})
    with open_puffin(out.getvalue()) as reader:
        (blob,) = reader.blobs
    blobs = tuple(replace(blob, properties={**blob.properties, "referenced-data-file": str(i)}) for i in range(3))
    data = out.getvalue()[: 4 + blob.length] + encode_footer(Footer(blobs))
    for read in (iceberg.read_deletion_vectors, sniff, read_rows):
        with pytest.raises(NotCanonical, match="lengths of all vectors"):
            read(data)
    assert "container" in {check.name for check in verify(data).findings}


@pytest.mark.parametrize(("first", "second"), [("a", "a"), ("x\ud800", "x\ud801")])
def test_two_vectors_for_one_data_file_are_not_written(first: str, second: str, tmp_path: Path) -> None:
    blob = iceberg.encode(RowSet([1]))
    with pytest.raises(UsageError, match="two vectors for the data file"):
        iceberg.write_stored_vectors(tmp_path / "x.puffin", [StoredFrame(first, 1, blob), StoredFrame(second, 1, blob)])
    assert not list(tmp_path.iterdir())


def test_file_written_blob_by_blob_is_the_same() -> None:
    rows = {"a": RowSet([1, 3]), "b": RowSet(range(1000))}
    whole, parts = io.BytesIO(), io.BytesIO()
    iceberg.write_deletion_vectors(whole, rows, created_by="me", order="given")
    with PuffinWriter(parts, {"created-by": "me"}) as writer:
        for path, found in rows.items():
            writer.add(
                iceberg.BLOB_TYPE,
                iceberg.encode(found),
                fields=[iceberg.ROW_POSITION_FIELD],
                snapshot_id=-1,
                sequence_number=-1,
                properties={"referenced-data-file": path, "cardinality": str(len(found))},
            )
    assert parts.getvalue() == whole.getvalue()


# ---------------------------------------------------------------------- many vectors, described alike


def many(count: int) -> bytes:
    """A Puffin file of so many vectors, some of them of several bitmaps."""
    sets = {f"s3://b/t/{i:04d}.parquet": RowSet(range(i, 3 * i, 1 + i % 3)) for i in range(count)}
    sets["s3://b/t/wide.parquet"] = RowSet([1, 1 << 33])
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, sets, order="given")
    return out.getvalue()


def test_many_vectors_are_read_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any state of damage, of vectors and of footer: the same value or the same error."""
    sound = many(150)
    footer = sound.index(b'{"blobs"')
    chance = random.Random(4)
    options: list[dict[str, Any]] = [
        {},
        {"verify_checksum": False},
        {"duplicates": "last"},
        {"limits": Limits(max_cardinality=40)},
    ]
    refused = 0

    def read(data: bytes, options: dict[str, Any]) -> object:
        found = outcome(lambda data: iceberg.read_deletion_vectors(data, **options), data)
        return (type(found), str(found)) if isinstance(found, DecodeError) else found

    for turn in range(150):
        data = bytearray(sound)
        for _ in range(turn % 3):
            at = chance.randrange(footer) if chance.random() < 0.5 else chance.randrange(footer, len(data))
            data[at] = chance.choice(b"0189") if chr(data[at]).isdigit() and at > footer else data[at] ^ 1
        chosen = options[turn // 3 % 4]
        found = read(bytes(data), chosen)
        with monkeypatch.context() as patch:
            patch.setattr("dvcodec.iceberg.vectors._read_alike", lambda *_: None)
            assert found == read(bytes(data), chosen)
        refused += isinstance(found, tuple)
    assert 30 < refused < 150


def test_many_vectors_are_read_in_few_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = many(150)
    reads = []

    class Counted:
        name, size = "counted", len(data)

        def read(self, offset: int, size: int) -> memoryview:
            reads.append((offset, size))
            return memoryview(data)[offset : offset + size]

    assert iceberg.read_deletion_vectors(Counted()) == iceberg.read_deletion_vectors(data)
    assert len(reads) == 4
    monkeypatch.setattr("dvcodec.io.stretches.WINDOW_BYTES", 1000)
    assert iceberg.read_deletion_vectors(Counted()) == iceberg.read_deletion_vectors(data)
    assert max(size for _, size in reads[7:]) <= 1000
