"""Named checks: every damage is found under its name, with its place."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amounts
from battery import flipped
from cases import each
from dvcodec import Check, ContainerKind, Limits, Report, Status, iceberg, verify, zap
from dvcodec.core.frame import Magic
from dvcodec.io import open_source
from dvcodec.ops.verify import VECTOR_CHECKS, verify_source
from dvcodec.puffin import BlobMetadata, Footer, encode_footer
from samples.bitmaps import framed
from samples.containers import BARE, FRAMED, SAMPLES, A, C

PASS, FAIL, NOT_APPLICABLE = Status.PASS, Status.FAIL, Status.NOT_APPLICABLE


def failed(report: Report) -> list[str]:
    return [check.name for check in report.findings]


def finding(report: Report, name: str) -> Check:
    (found,) = [check for check in report.findings if check.name == name]
    return found


def statuses(report: Report) -> dict[str, Status]:
    return {check.name: check.status for check in report.checks}


# ---------------------------------------------------------------------- valid files


@each("name", SAMPLES)
def test_valid_file_passes(name: str) -> None:
    sample = SAMPLES[name]
    report = verify(sample.data)
    assert report.ok
    assert (report.source, report.kind) == ("<bytes>", sample.kind.value)
    assert report.checks[0] == Check("container", PASS, "file", 0)
    per_vector = [check.name for check in report.checks if check.name in VECTOR_CHECKS]
    assert per_vector == [*VECTOR_CHECKS] * len(sample.vectors)


@each("name", FRAMED)
def test_vector_is_checked_in_order(name: str) -> None:
    sample = SAMPLES[name]
    report = verify(sample.data, row_count=1 << 40)
    checks = [check for check in report.checks if check.name in VECTOR_CHECKS]
    promised = PASS if sample.kind is ContainerKind.PUFFIN else NOT_APPLICABLE
    expected = dict.fromkeys(VECTOR_CHECKS, PASS) | {"cardinality": promised}
    assert [(check.name, check.status, check.offset) for check in checks] == [
        (check, status, at) for at in sample.vectors for check, status in expected.items()
    ]


@pytest.mark.parametrize("name", BARE)
def test_bare_bitmap_has_no_frame_to_check(name: str) -> None:
    report = verify(SAMPLES[name].data, cardinality=len(SAMPLES[name].rows[0]))
    assert statuses(report) == {
        "container": PASS,
        "length": NOT_APPLICABLE,
        "crc": NOT_APPLICABLE,
        "magic": NOT_APPLICABLE,
        "structure": PASS,
        "cardinality": PASS,
        "rows": NOT_APPLICABLE,
    }


@each(
    "name",
    [
        "iceberg/java-main/three-files.puffin",
        "iceberg/java-resources/all-container-types-position-index.bin",
        "delta/cdf-table-with-cdc-and-dvs/deletion_vector_7f94a4d4-4d29-440e-b1c0-387e410aeded.bin",
        "paimon/java-0.9.0/index-java09-2097152-0",
        "paimon/java-2.1-snapshot/index-java21src-64-2097152-0",
        "roaring/format-spec/bitmapwithruns.bin",
        "roaring/format-spec/portable_bitmap64.bin",
    ],
)
def test_real_file_passes(vectors: Path, name: str) -> None:
    report = verify(vectors / name)
    assert report.ok, report.findings
    assert report.source == str(vectors / name)


def test_vectors_are_called_by_data_file_place_or_nothing() -> None:
    def subjects(name: str) -> list[str]:
        return [check.subject for check in verify(SAMPLES[name].data).checks if check.name == "crc"]

    assert subjects("puffin") == ["vector of a", "vector of b", "vector of c"]
    assert subjects("delta") == [f"vector at byte {at}" for at in SAMPLES["delta"].vectors]
    assert subjects("blob") == ["vector"]


# ---------------------------------------------------------------------- one flipped bit

BLOB = iceberg.encode(A)
STORED = zlib.crc32(BLOB[4:-4])


@pytest.mark.parametrize("at", [0, 4, 1000])
def test_flip_in_the_length_is_found_there(at: int) -> None:
    for bit in range(32):
        data = flipped(BLOB, bit)
        if at == 0:
            report = verify(data)
        else:
            metadata = BlobMetadata(
                "deletion-vector-v1", (), -1, -1, at, len(data), None, {"referenced-data-file": "a", "cardinality": "3"}
            )
            report = verify(b"PFA1" + bytes(at - 4) + data + encode_footer(Footer((metadata,))))
        assert failed(report) == ["length"]
        found = finding(report, "length")
        assert (found.message, found.offset) == ("length field", at)
        assert found.actual == str(int.from_bytes(data[:4], "big"))
        assert str(len(BLOB) - 8) in (found.expected or "")
        after = [check.status for check in report.checks if check.name in VECTOR_CHECKS[1:]]
        assert after == [NOT_APPLICABLE] * 5


def test_flip_in_the_magic_is_found_there() -> None:
    for bit in range(32, 64):
        data = flipped(BLOB, bit)
        report = verify(data)
        if data[4:8] == Magic.NATIVE64.value:
            assert failed(report) == ["crc", "structure"]
            continue
        assert failed(report) == ["crc", "magic"]
        found = finding(report, "magic")
        assert (found.offset, found.actual) == (4, data[4:8].hex(" "))
        assert "d1 d3 39 64" in (found.expected or "")
        assert statuses(report)["structure"] is NOT_APPLICABLE


def test_flip_in_the_vector_is_found_by_the_crc() -> None:
    for bit in range(64, 8 * (len(BLOB) - 4)):
        data = flipped(BLOB, bit)
        report = verify(data)
        assert failed(report)[0] == "crc"
        assert set(failed(report)) <= {"crc", "structure"}
        found = finding(report, "crc")
        assert found.offset == len(BLOB) - 4
        assert found.expected == f"0x{STORED:08x} (stored)"
        assert found.actual == f"0x{zlib.crc32(data[4:-4]):08x} (computed)"


def test_flip_in_the_crc_is_found_there() -> None:
    for bit in range(8 * (len(BLOB) - 4), 8 * len(BLOB)):
        data = flipped(BLOB, bit)
        report = verify(data)
        assert failed(report) == ["crc"]
        found = finding(report, "crc")
        assert found.expected == f"0x{int.from_bytes(data[-4:], 'big'):08x} (stored)"
        assert found.actual == f"0x{STORED:08x} (computed)"
        assert statuses(report)["structure"] is PASS


@each("name", FRAMED)
def test_flip_anywhere_in_a_frame_is_found(name: str) -> None:
    sample = SAMPLES[name]
    for at, (size, _) in sample.vectors.items():
        for bit in range(8 * at, 8 * (at + size), amounts.of(5, 1)):
            report = verify(flipped(sample.data, bit))
            assert set(failed(report)) & {"container", *VECTOR_CHECKS}


def test_flip_in_one_vector_leaves_the_others_alone() -> None:
    sample = SAMPLES["delta"]
    first, second, third = sample.vectors
    report = verify(flipped(sample.data, 8 * (second + 20)))
    assert {check.subject for check in report.findings} == {f"vector at byte {second}"}
    assert finding(report, "crc").offset == third - 4
    for other in (first, third):
        assert Check("crc", PASS, f"vector at byte {other}", other) in report.checks


PUFFIN = SAMPLES["puffin of one"].data
FOOTER_AT = 4 + len(BLOB)


@each(
    ("at", "message"),
    [
        (0, "magic at the start of the file"),
        (3, "magic at the start of the file"),
        (FOOTER_AT, "magic before the footer payload"),
        (FOOTER_AT + 4, "footer payload"),
        (len(PUFFIN) - 10, "footer payload size"),
        (len(PUFFIN) - 8, "footer flags"),
        (len(PUFFIN) - 5, "footer flags"),
        (len(PUFFIN) - 1, "magic at the end of the file"),
    ],
)
def test_flip_in_the_wrapper_of_a_puffin_file_is_found_there(at: int, message: str) -> None:
    for bit in range(8 * at + 1, 8 * at + 8):
        report = verify(flipped(PUFFIN, bit))
        assert failed(report) == ["container"]
        assert finding(report, "container").message == message
        assert report.kind is None
        assert len(report.checks) == 1


@each(
    ("old", "new", "name"),
    [
        (b'"length":46', b'"length":47', "blob-range"),
        (b'"length":46', b'"length":45', "length"),
        (b'"offset":4,', b'"offset":5,', "length"),
        (b'"snapshot-id":-1', b'"snapshot-id":11', "blob-ids"),
        (b'"sequence-number":-1', b'"sequence-number":+1', "container"),
        (b'"cardinality":"3"', b'"cardinality":"4"', "cardinality"),
        (b'"cardinality":"3"', b'"cardinality":"x"', "blob-properties"),
        (b'"referenced-data-file"', b'"referenced-data-fi1e"', "blob-properties"),
        (b'"properties":{"referenced', b'"propertie5":{"referenced', "blob-properties"),
        (b'"type":"deletion-vector-v1"', b'"type":"delete-vector-v1"', "blob-type"),
    ],
)
def test_wrong_metadata_is_found_under_its_name(old: bytes, new: bytes, name: str) -> None:
    payload = PUFFIN[FOOTER_AT + 4 : -12]
    assert payload.count(old) == 1
    changed = payload.replace(old, new)
    data = PUFFIN[: FOOTER_AT + 4] + changed + struct.pack("<i", len(changed)) + PUFFIN[-8:]
    assert name in failed(verify(data))


def test_version_byte_of_a_vector_file_is_checked() -> None:
    report = verify(b"\2" + SAMPLES["delta"].data[1:])
    assert failed(report) == ["container"]
    found = finding(report, "container")
    assert (found.message, found.offset, found.expected, found.actual) == ("version byte", 0, "1", "2")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"nothing we know"])
def test_other_bytes_are_a_finding(data: bytes) -> None:
    report = verify(data)
    assert failed(report) == ["container"]
    assert not report.ok


def test_wrong_structure_under_a_right_crc_is_found_there() -> None:
    unsorted = struct.pack("<QIIIHHIHH", 1, 0, 12346, 1, 0, 1, 16, 9, 7)
    report = verify(b"\1" + BLOB + framed(Magic.PORTABLE64.value + unsorted))
    assert failed(report) == ["structure"]
    found = finding(report, "structure")
    assert found.subject == f"vector at byte {1 + len(BLOB)}"
    assert found.offset == 1 + len(BLOB) + 8 + len(unsorted) - 2
    assert (found.expected, found.actual) == ("a value above 9", "7")


def test_wrong_crc_does_not_hide_a_wrong_structure_and_cardinality() -> None:
    report = verify(flipped(BLOB, 8 * len(BLOB) - 1), cardinality=4, row_count=5)
    assert failed(report) == ["crc", "cardinality", "rows"]
    data = bytearray(BLOB)
    data[-6] = 0
    report = verify(bytes(data), cardinality=4, row_count=5)
    assert failed(report) == ["crc", "structure"]
    assert statuses(report)["cardinality"] is NOT_APPLICABLE


def test_bytes_after_the_vector_are_wrong_structure() -> None:
    report = verify(framed(BLOB[4:-4] + b"\0"))
    assert failed(report) == ["structure"]
    assert finding(report, "structure").offset == len(BLOB) - 4


# ---------------------------------------------------------------------- promises


@each("name", [*FRAMED, *BARE])
def test_row_count_is_checked(name: str) -> None:
    sample = SAMPLES[name]
    highest = max(rows.max if rows.max is not None else -1 for rows in sample.rows)
    if highest < 0:
        assert statuses(verify(sample.data, row_count=0))["rows"] is PASS
        return
    assert verify(sample.data, row_count=highest + 1).ok
    report = verify(sample.data, row_count=highest)
    assert set(failed(report)) == {"rows"}
    found = report.findings[-1]
    assert (found.message, found.actual) == ("highest position", str(highest))
    assert found.expected == f"below {highest} (rows of the data file)"


@each("name", ["blob", "roaring 64", "roaring 32", "native blob", "paimon blob", "puffin of one"])
def test_cardinality_of_the_caller_is_checked(name: str) -> None:
    sample = SAMPLES[name]
    count = len(sample.rows[0])
    assert statuses(verify(sample.data, cardinality=count))["cardinality"] is PASS
    found = finding(verify(sample.data, cardinality=count + 1), "cardinality")
    assert (found.message, found.expected, found.actual) == (
        "cardinality stated by the caller",
        str(count + 1),
        str(count),
    )


def test_cardinality_of_the_container_is_checked() -> None:
    data = PUFFIN.replace(b'"cardinality":"3"', b'"cardinality":"2"')
    found = finding(verify(data), "cardinality")
    assert (found.message, found.expected, found.actual) == ("cardinality stated by the container", "2", "3")
    assert failed(verify(data, cardinality=3)) == ["cardinality"]
    assert failed(verify(data, cardinality=2)) == ["cardinality"]


def test_only_the_vector_of_one_data_file_is_looked_at() -> None:
    data = SAMPLES["puffin"].data
    report = verify(data, data_file="c", cardinality=2, row_count=(C.max or 0) + 1)
    assert report.ok
    assert {check.subject for check in report.checks if check.name in VECTOR_CHECKS} == {"vector of c"}
    damaged = flipped(data, 8 * (4 + len(BLOB)) - 1)
    assert verify(damaged, data_file="b").ok
    assert failed(verify(damaged, data_file="a")) == ["crc"]


@pytest.mark.parametrize("name", ["puffin", "delta", "blob"])
def test_unknown_data_file_is_a_finding(name: str) -> None:
    report = verify(SAMPLES[name].data, data_file="nowhere.parquet")
    assert failed(report) == ["data-file"]
    assert finding(report, "data-file").expected == "nowhere.parquet"


def test_limits_are_findings() -> None:
    found = finding(verify(BLOB, limits=Limits(max_vector_bytes=20)), "length")
    assert (found.message, found.actual) == ("Limits.max_vector_bytes", str(len(BLOB)))
    assert failed(verify(BLOB, limits=Limits(max_cardinality=2))) == ["structure"]
    assert failed(verify(SAMPLES["delta"].data, limits=Limits(max_records=2))) == ["container"]


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "none.puffin")


def test_open_source_is_verified() -> None:
    with open_source(BLOB, name="my blob") as source:
        assert verify_source(source).source == "my blob"


def test_report_goes_into_json() -> None:
    report = verify(flipped(BLOB, 8 * len(BLOB) - 1))
    plain = json.loads(json.dumps(report.to_dict()))
    assert (plain["ok"], plain["kind"], plain["source"]) == (False, "blob", "<bytes>")
    (found,) = [check for check in plain["checks"] if check["status"] == "fail"]
    assert found["name"] == "crc"
    assert found["expected"].startswith("0x")
    assert {check["status"] for check in plain["checks"]} == {"pass", "fail", "n/a"}


# ---------------------------------------------------------------------- any bytes


@given(st.binary(max_size=100), st.sampled_from(["", "01", "50464131", "3a300000", "3b30", "0100000000000000"]))
def test_any_bytes_give_a_report(data: bytes, head: str) -> None:
    wrappers: list[Callable[[bytes], bytes]] = [
        bytes,
        framed,
        lambda body: framed(Magic.PORTABLE64.value + body),
        lambda body: framed(Magic.PAIMON32.value + body),
        lambda body: b"\1" + framed(Magic.NATIVE64.value + body),
        lambda body: body + b"PFA1",
    ]
    for wrap in wrappers:
        report = verify(wrap(bytes.fromhex(head) + data), cardinality=1, row_count=10, data_file=None)
        assert report.checks[0].name == "container"


@given(st.sampled_from(sorted(SAMPLES)), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=6), st.integers(0, 50))
def test_any_damage_gives_a_report(name: str, bits: list[int], cut: int) -> None:
    data = SAMPLES[name].data
    damaged = flipped(data, *(bit % (8 * len(data)) for bit in bits))
    for found in (verify(damaged), verify(damaged[: len(damaged) - cut]), verify(damaged + bytes(cut))):
        assert isinstance(found.ok, bool)
        assert all(check.message for check in found.findings)


def test_rows_of_a_valid_report_are_readable() -> None:
    for bit in range(8 * len(PUFFIN)):
        damaged = flipped(PUFFIN, bit)
        if verify(damaged).ok:
            assert list(iceberg.read_deletion_vectors(damaged).values()) in ([A], [])


# ---------------------------------------------------------------------- search segments


def segment() -> bytes:
    out = io.BytesIO()
    zap.write_segment(out, [zap.Document(b"a", (zap.text_field("title", "some words"),))], 15)
    return out.getvalue()


def test_segment_gets_the_checks_of_segments() -> None:
    data = segment()
    report = verify(data)
    own = zap.verify_segment(data)
    assert report.ok
    assert (report.source, report.kind) == ("<bytes>", "zap v15")
    assert report.checks == (Check("container", PASS, "file", 0), *own.checks)


def test_damaged_segment() -> None:
    data = segment()
    assert failed(verify(flipped(data, 8 * 3))) == failed(zap.verify_segment(flipped(data, 8 * 3)))
    assert "crc" in failed(verify(flipped(data, 8 * 3)))
    assert failed(verify(data[:-1])) == ["container"]


def test_promises_about_vectors_do_not_apply_to_a_segment() -> None:
    found = statuses(verify(segment(), cardinality=3, row_count=5))
    assert (found["cardinality"], found["rows"]) == (NOT_APPLICABLE, NOT_APPLICABLE)
    assert failed(verify(segment(), data_file="x")) == ["data-file"]
