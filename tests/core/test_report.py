from __future__ import annotations

import dataclasses
import json

import pytest

from calls import calls_of
from dvcodec.core.errors import ChecksumMismatch, DecodeError, Truncated
from dvcodec.core.report import Check, Report, Status

PASSED = Check.passed("length", "dv.bin", 1)
SKIPPED = Check.not_applicable("cardinality", "dv.bin")
CRC_FAILED = Check.failed("crc", "dv.bin", 45, "CRC-32 of magic and bitmap", "0x00000001", "0x00000002")


@pytest.mark.parametrize(
    ("checks", "ok", "findings"),
    [
        ((), True, ()),
        ((PASSED,), True, ()),
        ((PASSED, SKIPPED), True, ()),
        ((PASSED, CRC_FAILED, SKIPPED), False, (CRC_FAILED,)),
        ((CRC_FAILED, CRC_FAILED), False, (CRC_FAILED, CRC_FAILED)),
    ],
)
def test_a_report_is_ok_unless_a_check_failed(checks: tuple[Check, ...], ok: bool, findings: tuple[Check, ...]) -> None:
    report = Report("dv.bin", "delta", checks)
    assert report.ok is ok
    assert report.findings == findings


@pytest.mark.parametrize("value", [PASSED, Report("dv.bin", "delta", (PASSED,))])
def test_checks_and_reports_do_not_change(value: Check | Report) -> None:
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)


def test_checks_say_what_came_of_them() -> None:
    assert (PASSED.status, PASSED.offset, PASSED.message) == (Status.PASS, 1, None)
    assert (SKIPPED.status, SKIPPED.offset) == (Status.NOT_APPLICABLE, None)
    assert (CRC_FAILED.status, CRC_FAILED.offset, CRC_FAILED.message) == (
        Status.FAIL,
        45,
        "CRC-32 of magic and bitmap",
    )
    assert (CRC_FAILED.expected, CRC_FAILED.actual) == ("0x00000001", "0x00000002")


def test_a_failed_check_spells_numbers_as_text() -> None:
    check = Check.failed("cardinality", "dv.bin", None, "cardinality", 5, 6)
    assert (check.expected, check.actual) == ("5", "6")


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


def test_values_of_a_check_are_not_copied() -> None:
    """An audit may have 80,000 of them."""
    check = Check.failed("crc", "vector", 4, "CRC", 1, 2)
    assert calls_of(check.to_dict) < 5 + 2 * len(check.to_dict())
