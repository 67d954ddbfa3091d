"""Parts of the page: fixed ones, and the list of data files."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np

from cases import each
from dvcodec import RowSet
from dvcodec.core.text import NOTHING, plain
from dvcodec.report import FINDINGS_SHOWN, columns, findings, head, rewrite, shades, summary
from dvcodec.tables import Audit
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.scanning import rewrite_candidates, totals
from samples.audits import HOSTILE, INFO, ROOT, audit_of, file_of, hostile, large, small, some_findings


def finding(severity: Severity, **parts: object) -> Finding:
    return replace(Finding("crc", severity, "what is wrong"), **parts)  # type: ignore[arg-type]


def test_head() -> None:
    made = datetime(2026, 9, 30, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    html = head(small().scan, made)
    assert "<h1>orders</h1>" in html
    assert "Deletion vectors of an Iceberg table" in html
    for pair in (
        "Snapshot</dt><dd>4815162342",
        "Operation</dt><dd>delete",
        "Report of</dt><dd>2026-09-29 23:30:00 UTC",
    ):
        assert pair in html
    assert "Committed</dt><dd>2026-09-21 14:13:20 UTC" in html


def test_a_moment_that_is_none_is_shown_as_its_number() -> None:
    assert f"{1 << 80} ms" in head(audit_of(info=replace(INFO, timestamp_ms=1 << 80)).scan, None)


def test_summary() -> None:
    audit = small()
    html = summary(audit, totals(audit.scan))
    for text in (
        "2 with deleted rows, 1 fully deleted",
        "202,500",
        "150,000 live",
        "52,500",
        "25.9 % of all rows",
        "120 B",
    ):
        assert text in html
    assert "Valid." in html
    assert "2 vectors read and checked" in html


def test_summary_of_files_whose_rows_are_unknown() -> None:
    audit = audit_of(file_of("a", RowSet([1]), None))
    shown = summary(audit, totals(audit.scan))
    assert all(text in shown for text in (f">{NOTHING}<", ">not recorded for 1 file<"))


@each(
    ("severities", "look", "word", "sentence"),
    [
        ([], "fine", "Valid.", "No findings."),
        ([Severity.INFO], "fine", "Valid.", "1 note"),
        ([Severity.INFO, Severity.WARNING], "warning", "Valid.", "1 warning, 1 note"),
        ([Severity.WARNING, Severity.ERROR, Severity.ERROR], "error", "Not valid.", "2 errors, 1 warning"),
    ],
)
def test_verdict(severities: list[Severity], look: str, word: str, sentence: str) -> None:
    audit = audit_of(findings=tuple(map(finding, severities)))
    shown = summary(audit, totals(audit.scan))
    for text in (f'class="verdict {look}"', f"<b>{word}</b>", f">{sentence}<"):
        assert text in shown


def test_the_verdict_counts_what_could_not_be_read() -> None:
    audit = audit_of(file_of("a", RowSet([1])), file_of("b", RowSet([1]), errors=("CRC-32",)))
    counts = replace(audit.counts, vectors=2, unreadable=1)
    shown = summary(replace(audit, counts=counts), totals(audit.scan))
    assert ">1 vector read and checked, 1 could not be read: their rows are unknown.<" in shown


def test_no_findings_no_section() -> None:
    assert findings(small()) == ""
    assert rewrite([], "") == ""


def test_findings_are_grouped_the_worst_first() -> None:
    html = findings(audit_of(findings=tuple(map(finding, reversed(Severity)))))
    places = [html.index(f'class="panel group {severity.value}"') for severity in Severity]
    assert places == sorted(places)
    assert html.count(" open>") == 2


def test_many_findings_are_counted() -> None:
    audit = large(2)
    html = findings(replace(audit, findings=some_findings(audit)))
    assert html.count("<li>") == FINDINGS_SHOWN + 2
    assert "30 more findings: dvcodec audit --json lists them all." in html


def test_a_finding_does_not_say_twice_what_its_message_says() -> None:
    html = findings(audit_of(findings=(finding(Severity.ERROR, what="bad", path="s3://x/a", actual="7"),)))
    assert html.count("s3://x/a") == 1
    assert "<dt>Found</dt><dd>7</dd>" in html
    placed = findings(audit_of(findings=(finding(Severity.ERROR, path="s3://x/a", offset=4096),)))
    assert "byte 4,096" in placed


def test_files_worth_rewriting() -> None:
    html = rewrite(rewrite_candidates(small().scan, min_ratio=0.3), f"{ROOT}/data/")
    assert "2 data files, highest gain first; rewriting frees about 3.05 MiB." in html
    assert ">00000-a.parquet</th>" in html
    assert "drop it instead of rewriting<" in html
    assert "many rows are deleted<" in html


def test_many_files_worth_rewriting_are_cut() -> None:
    candidates = rewrite_candidates(large(60).scan, min_ratio=0, min_deleted=0)
    html = rewrite(candidates, "")
    assert html.count("<tr>") == 1 + 20
    assert "The first 20;" in html


@each("audit", [small(), hostile(), audit_of()], ["small", "hostile", "empty"])
def test_every_column_has_a_value_for_every_file(audit: Audit) -> None:
    found = columns(audit.scan, "", [])
    json.dumps(found, allow_nan=False)
    lists = [found[name] for name in ("path", "partition", "rows", "size", "deleted", "stored", "strip", "vectors")]
    assert {len(value) for value in [*lists, *found["containers"]]} == {len(audit.scan.files)}


def test_columns() -> None:
    found = columns(small().scan, f"{ROOT}/data/", [f"{ROOT}/data/00002-c.parquet"])
    assert found["path"] == ["00000-a.parquet", "00001-b.parquet", "00002-c.parquet"]
    assert found["deleted"] == [50_000, 0, 2_500]
    assert found["rows"] == [100_000, 100_000, 2_500]
    assert found["strip"][1:] == ["", "5" * 64]
    assert found["containers"] == [[0, 0, 0], [0, 0, 0], [2, 0, 1]]
    assert found["places"] == [f"{ROOT}/data/deletes.puffin"]
    assert found["vectors"] == [[[0, 4, 81, 50_000]], [], [[0, 90, 39, 2_500]]]
    assert found["rewrite"] == [2]


def test_what_is_deleted_by_unreadable_vectors_is_not_known() -> None:
    found = columns(audit_of(file_of("a", RowSet([1]), errors=("CRC-32\n",))).scan, "", [])
    assert found["deleted"] == [None]
    assert found["errors"] == {0: ["CRC-32\\n"]}


def test_names_are_plain() -> None:
    found = columns(hostile().scan, "", [])
    assert found["path"] == [plain(f"{text}/{text}") for text in HOSTILE]
    assert all(path.isprintable() for path in found["path"])


@each(("share", "shade"), [(0, 0), (1e-30, 1), (0.0099, 1), (0.01, 2), (0.1, 3), (0.5, 4), (0.9999, 4), (1, 5), (2, 5)])
def test_shades(share: float, shade: int) -> None:
    assert shades(np.array([share, 1], np.float32)) == f"{shade}5"


def test_no_shades() -> None:
    assert shades(np.zeros(64, np.float32)) == shades(np.zeros(0, np.float32)) == ""
