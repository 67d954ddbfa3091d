"""Named checks: every damage is found under its name, with its place."""

from __future__ import annotations

import io
import struct

import pytest

from battery import flipped
from cases import each
from dvcodec import Check, Report, Status, iceberg, verify, zap
from dvcodec.ops.verify import VECTOR_CHECKS
from dvcodec.puffin import BlobMetadata, Footer, encode_footer
from samples.containers import BARE, FRAMED, SAMPLES, A

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


def test_vectors_are_called_by_data_file_place_or_nothing() -> None:
    def subjects(name: str) -> list[str]:
        return [check.subject for check in verify(SAMPLES[name].data).checks if check.name == "crc"]

    assert subjects("puffin") == ["vector of a", "vector of b", "vector of c"]
    assert subjects("delta") == [f"vector at byte {at}" for at in SAMPLES["delta"].vectors]
    assert subjects("blob") == ["vector"]


# ---------------------------------------------------------------------- one flipped bit

BLOB = iceberg.encode(A)


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
        assert found.message is not None
        assert (found.message.partition(";")[0], found.offset) == ("length field", at)
        assert found.actual == str(int.from_bytes(data[:4], "big"))
        assert str(len(BLOB) - 8) in (found.expected or "")
        after = [check.status for check in report.checks if check.name in VECTOR_CHECKS[1:]]
        assert after == [NOT_APPLICABLE] * 5


PUFFIN = SAMPLES["puffin of one"].data
FOOTER_AT = 4 + len(BLOB)


@each(
    ("at", "message"),
    [
        (0, "magic at the start of the file"),
        (FOOTER_AT, "magic before the footer payload"),
        (len(PUFFIN) - 10, "footer payload size"),
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
    found = statuses(verify(data, cardinality=3, row_count=5))
    assert (found["cardinality"], found["rows"]) == (NOT_APPLICABLE, NOT_APPLICABLE)
