"""The page in a browser: no errors, nothing asked of the network, and a script that does what it says.

Skipped where there is no Chromium.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, Page, browser
from dvcodec.core.text import bytes_text, plain, share_text
from dvcodec.report import write
from dvcodec.tables.auditing import Audit
from samples.audits import HOSTILE, audit_of, hostile, large, small, some_findings

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
MANY = large(120)
SAMPLES = {
    "small": small(),
    "many": MANY,
    "findings": replace(MANY, findings=some_findings(MANY)),
    "hostile": hostile(),
    "empty": audit_of(),
}
NAMES = "[...document.querySelectorAll('.files .open')].map((button) => button.dataset.file | 0)"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture
def show(page: Page, tmp_path: Path) -> Any:
    def showing(audit: Audit, **view: Any) -> Page:
        file = tmp_path / "report.html"
        write(file, audit)
        page.open(file, **view)
        return page

    return showing


def cells(page: Page, row: int) -> list[str]:
    found: list[str] = page.js(
        f"[...document.querySelectorAll('.files tbody tr')[{row}].cells].map((cell) => cell.innerText)"
    )
    return found


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_goes_wrong_and_nothing_is_asked_for(show: Any, name: str, dark: bool, width: int) -> None:
    page = show(SAMPLES[name], dark=dark, width=width, phone=width < 500)
    assert page.log == []
    assert [url.rpartition("/")[2] for url in page.requests] == ["report.html"]
    assert page.js("document.documentElement.scrollWidth") == width
    ground = page.js("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(16, 20, 24)" if dark else "rgb(246, 247, 249)")


def test_hostile_names_are_only_shown(show: Any) -> None:
    page = show(hostile())
    assert page.js("document.title") == "script>: deletion vectors"
    assert page.js("document.querySelectorAll('img, body svg[onload], script').length") == 2
    shown = page.js("[...document.querySelectorAll('.files .open')].map((b) => b.title)")
    assert sorted(shown) == sorted(plain(f"{text}/{text}") for text in HOSTILE)
    page.js("document.querySelectorAll('.files .open').forEach((b) => b.click())")
    assert page.js("document.title") == "script>: deletion vectors"
    assert page.log == []


def test_what_slips_in_does_not_run(show: Any) -> None:
    page = show(small())
    page.js("document.body.append(Object.assign(document.createElement('script'), {text: 'document.title = 1'}))")
    assert page.js("document.title") == "orders: deletion vectors"
    assert any("Content Security Policy" in line for line in page.log)


def test_the_list_shows_what_the_scan_found(show: Any) -> None:
    audit = small()
    page = show(audit)
    name, share, _, deleted, rows, stored, containers = cells(page, 1)
    file = audit.scan.files[0]
    assert (name, share.strip()) == ("00000-a.parquet", share_text(file.deleted_share))
    assert (deleted, rows) == ("50,000", "100,000")
    assert (stored, containers) == (bytes_text(file.stored_bytes), "2 runs")
    parts = page.js(
        "[...document.querySelector('.files tbody .strip').querySelectorAll('rect')]"
        ".map((rect) => rect.className.baseVal + rect.getAttribute('width'))"
    )
    assert parts == ["d564"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share", lambda file: file.deleted_share),
        ("deleted", lambda file: file.deleted),
        ("rows", lambda file: file.data_file.physical_rows),
        ("stored", lambda file: file.stored_bytes),
        ("path", lambda file: file.data_file.path),
        ("partition", lambda file: file.data_file.partition),
        ("containers", lambda file: sum(file.containers)),
    ],
)
def test_sorting(show: Any, key: str, value: Any) -> None:
    page = show(MANY)
    files = MANY.scan.files
    seen = set()
    for _ in range(2):
        page.js(f"document.querySelector('[data-key={key}] button').click()")
        way = page.js(f"document.querySelector('[data-key={key}]').getAttribute('aria-sort')")
        seen.add(way)
        order = sorted(range(len(files)), key=lambda i: value(files[i]), reverse=way == "descending")
        shown = page.js(NAMES)
        assert [value(files[i]) for i in shown] == [value(files[i]) for i in order[:50]]
        assert page.js("document.querySelectorAll('[aria-sort]').length") == 1
    assert seen == {"ascending", "descending"}


def test_finding_and_showing(show: Any) -> None:
    page = show(MANY)
    page.js("query.value = 'DAY=2026-09-07 0000'; query.dispatchEvent(new Event('input'))")
    assert page.js("[...document.querySelectorAll('.open')].map((b) => b.innerText.slice(0, 5))") == ["00006"]
    assert page.js("place.textContent") == "1–1 of 1 data file"  # noqa: RUF001
    page.js("query.value = 'nowhere'; query.dispatchEvent(new Event('input'))")
    assert page.js("place.textContent") == "No matching data files."
    page.js("query.value = ''; query.dispatchEvent(new Event('input'))")
    choice = "document.getElementById('show')"
    page.js(f"{choice}.value = '2'; {choice}.dispatchEvent(new Event('change'))")
    full = sum(file.fully_deleted for file in MANY.scan.files)
    assert full == 6
    assert page.js(f"{choice}.selectedOptions[0].text") == "all rows deleted (6)"
    assert len(page.js(NAMES)) == full


def test_pages(show: Any) -> None:
    page = show(MANY)
    assert page.js("[previous.disabled, next.disabled]") == [True, False]
    seen = page.js(NAMES)
    for shown in ("51–100 of 120 data files", "101–120 of 120 data files"):  # noqa: RUF001
        page.js("next.click()")
        assert page.js("place.textContent") == shown
        seen += page.js(NAMES)
    assert sorted(seen) == list(range(120))
    assert page.js("[previous.disabled, next.disabled]") == [False, True]


def test_a_file_opens_and_keeps_the_focus(show: Any) -> None:
    page = show(small())
    page.js("document.querySelectorAll('.open')[1].focus(); document.activeElement.click()")
    assert page.js("document.activeElement.getAttribute('aria-expanded')") == "true"
    details = page.js("document.querySelector('.detail').innerText")
    for text in ("s3://lake/warehouse/orders/data/00000-a.parquet", "at byte 4, 81 bytes, 50,000 rows recorded"):
        assert text in details
    page.js("document.activeElement.click()")
    assert page.js("document.querySelector('.detail')") is None


def test_the_theme_can_be_changed(show: Any) -> None:
    page = show(small())
    grounds = []
    for _ in range(3):
        grounds.append(page.js("getComputedStyle(document.body).backgroundColor"))
        page.js("theme.click()")
    assert grounds[0] == grounds[2] != grounds[1]


def test_without_scripts_the_rest_is_there(page: Page, tmp_path: Path) -> None:
    write(tmp_path / "report.html", SAMPLES["findings"])
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(tmp_path / "report.html")
        text = page.js("document.body.innerText")
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)
    for part in ("Not valid.", "Deleted share of data files", "Worth rewriting", "scripts are off"):
        assert part in text


def test_every_control_has_a_name(show: Any) -> None:
    page = show(SAMPLES["findings"])
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    controls = [
        node
        for node in tree
        if not node["ignored"] and node["role"]["value"] in ("button", "searchbox", "combobox", "image", "table")
    ]
    assert len(controls) > 50
    assert [node["role"]["value"] for node in controls if not node["name"]["value"].strip()] == []
