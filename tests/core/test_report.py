from __future__ import annotations

import json

import pytest

from dvcodec.core.errors import ChecksumMismatch, DecodeError, Truncated
from dvcodec.core.report import Check, Report, Status

PASSED = Check.passed("length", "dv.bin", 1)
CRC_FAILED = Check.failed("crc", "dv.bin", 45, "CRC-32 of magic and bitmap", "0x00000001", "0x00000002")


@pytest.mark.parametrize(
    ("error", "expected", "actual"),
    [
        (ChecksumMismatch("CRC", source="x", offset=9, expected="0x1", actual="0x2"), "0x1", "0x2"),
        (Truncated("magic", offset=9, expected=4, actual=0), "4", "0"),
        (DecodeError("run cookie without a run container", offset=9), None, None),
    ],
)
def test_an_error_becomes_a_failed_check(error: DecodeError, expected: str | None, actual: str | None) -> None:
    check = Check.from_error("step", "dv.bin", error)
    assert check == Check("step", Status.FAIL, "dv.bin", 9, expected, actual, error.what)


def test_a_report_is_plain_json() -> None:
    report = Report("dv.bin", None, (PASSED, CRC_FAILED))
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["source"] == "dv.bin"
    assert plain["kind"] is None
    assert plain["ok"] is False
    assert [check["status"] for check in plain["checks"]] == ["pass", "fail"]
    assert plain["checks"][1] == {
        "name": "crc",
        "status": "fail",
        "subject": "dv.bin",
        "offset": 45,
        "expected": "0x00000001",
        "actual": "0x00000002",
        "message": "CRC-32 of magic and bitmap",
    }
