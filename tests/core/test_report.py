from __future__ import annotations

import json

from dvcodec.core.report import Check, Report

PASSED = Check.passed("length", "dv.bin", 1)
CRC_FAILED = Check.failed("crc", "dv.bin", 45, "CRC-32 of magic and bitmap", "0x00000001", "0x00000002")


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
