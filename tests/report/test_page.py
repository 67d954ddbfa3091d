"""The page as a whole, without a browser."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest

from cases import each
from dvcodec import UsageError
from dvcodec.report import render, write
from dvcodec.tables.auditing import Audit
from dvcodec.tables.snapshots.scanning import totals
from samples.audits import audit_of, hostile, large, small, some_findings

SAMPLES = {"small": small(), "large": large(300), "hostile": hostile(), "empty": audit_of()}


class Shape(HTMLParser):
    """Which elements there are, and what stands in scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.scripts: list[str] = []
        self._in = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] += data


@each("audit", SAMPLES.values(), SAMPLES)
def test_no_name_becomes_an_element(audit: Audit) -> None:
    shape = Shape(render(audit))
    full = replace(SAMPLES["large"], findings=some_findings(SAMPLES["large"]))
    assert set(shape.names) <= set(Shape(render(full)).names)
    assert len(shape.scripts) == 2
    assert shape.names.count("style") == 1
    assert not {name for name in shape.attributes if name.startswith("on")}
    assert "style" not in shape.attributes


@each("audit", SAMPLES.values(), SAMPLES)
def test_the_policy_allows_this_script_and_style_alone(audit: Audit) -> None:
    page = render(audit)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    for text in (style[1], Shape(page).scripts[1]):
        assert f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy[1]
    assert policy[1].startswith("default-src 'none'")
    assert "unsafe" not in policy[1]


@each("audit", SAMPLES.values(), SAMPLES)
def test_totals_of_the_page_are_those_of_the_scan(audit: Audit) -> None:
    page = render(audit)
    sums = totals(audit.scan)
    figures = re.findall(r'class="figure"[^>]*>([^<]*)<', page)
    deleted = f"{'' if sums.exact else 'at least '}{sums.min_deleted:,}"
    assert figures[:4] == [f"{sums.data_files:,}", f"{sums.rows:,}", deleted, f"{sums.vectors:,}"]
    data = json.loads(Shape(page).scripts[0])
    assert data["deleted"] == [file.deleted for file in audit.scan.files]
    assert sum(data["stored"]) == sums.stored_bytes
    assert tuple(map(sum, data["containers"])) == sums.containers


def test_the_page_asks_for_nothing() -> None:
    page = render(SAMPLES["large"])
    data = Shape(page).scripts[0]
    rest = page.replace(data, "")
    assert not re.search(r"(?:src|href|action)=\"(?!#|data:,)", rest)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", rest)


def test_names_of_the_template_in_names_of_files_stay_as_they_are() -> None:
    page = render(audit_of(table="/lake/$style $data ${script} $$"))
    assert "<h1>$style $data ${script} $$</h1>" in page


def test_time_and_threshold_are_the_callers() -> None:
    made = datetime(2026, 9, 30, tzinfo=timezone.utc)
    assert "2026-09-30 00:00:00 UTC" in render(small(), made=made)
    assert "Report of" not in render(small())
    assert "Worth rewriting" in render(small(), min_ratio=0.5)
    with pytest.raises(UsageError, match="min_ratio"):
        render(small(), min_ratio=2)


def test_write(tmp_path: Path) -> None:
    buffer = BytesIO()
    write(buffer, small())
    write(tmp_path / "report.html", small())
    assert buffer.getvalue() == (tmp_path / "report.html").read_bytes() == render(small()).encode()
    with pytest.raises(UsageError, match="min_ratio"):
        write(tmp_path / "report.html", small(), min_ratio=-1)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
