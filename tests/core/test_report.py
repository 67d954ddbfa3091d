from __future__ import annotations

import json

from dvcodec.core.errors import DecodeError
from dvcodec.core.report import Check, Report, check_that

CRC = {"expected": "0x00000001", "actual": "0x00000002", "message": "CRC-32 of magic and bitmap"}
CHECKS = (
    check_that(True, "length", "dv.bin", 1, "what", 3, 4),
    check_that(False, "crc", "dv.bin", 45, CRC["message"], CRC["expected"], CRC["actual"]),
    Check.not_applicable("cardinality", "dv.bin"),
    Check.from_error("crc", "dv.bin", DecodeError("magic", offset=4)),
)


def test_a_report_is_plain_json_and_one_line() -> None:
    report = Report("dv.bin", None, CHECKS)
    plain = json.loads(json.dumps(report.to_dict()))
    assert (plain["source"], plain["kind"], plain["ok"]) == ("dv.bin", None, False)
    assert [check["status"] for check in plain["checks"]] == ["pass", "fail", "n/a", "fail"]
    assert plain["checks"][1] == {"name": "crc", "status": "fail", "subject": "dv.bin", "offset": 45, **CRC}
    assert plain["checks"][3] | {"message": "magic", "offset": 4, "expected": None} == plain["checks"][3]
    assert report.findings == (CHECKS[1], CHECKS[3])
    assert repr(report) == "<report of dv.bin: 1 check passed, failed: crc>"
    assert repr(Report("a", "blob", CHECKS[:1])) == "<report of a: 1 check passed>"
    assert Report("a", "blob", CHECKS[:1]).ok
    html = report._repr_html_()
    assert "unknown kind · 1 check passed" in html
    assert html.count("<tr>") == 3
