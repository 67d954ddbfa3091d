"""What notebooks show of values: one short line, or HTML without markup from outside."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import dvcodec
from cli_runner import flipped
from dvcodec import RowSet, arrow, delta, describe, verify
from dvcodec.core import errors
from dvcodec.core.text import card
from dvcodec.tables import audit, open_table, scan
from samples import delta_log
from samples.delta_log import NEW

ODD = '<script>alert("x")</script>\x1b[31m'


def text_of(html: str) -> str:
    """Return the text of HTML, and check that its elements are closed."""
    found: list[str] = []
    open_ones: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
            if tag != "br":
                open_ones.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_ones.pop() == tag

        def handle_data(self, data: str) -> None:
            found.append(data)

    Parser().feed(html)
    assert open_ones == []
    return "|".join(found)


def test_a_card_escapes_all_text() -> None:
    html = card(ODD, [ODD], [ODD], [[ODD]], 1)
    assert "<script" not in html
    assert "\x1b" not in html
    assert text_of(html).count('<script>alert("x")</script>\\x1b[31m') == 4


def test_a_card_shows_the_first_rows() -> None:
    html = card("t", columns=["n"], rows=([str(n)] for n in range(10**6)), count=10**6)
    assert text_of(html).split("|") == ["t", "n", *map(str, range(20)), "and 999,980 more"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return delta_log.restored_table(tmp_path / "orders")


VALUES: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "table": (
        open_table,
        "<delta table ORDERS>",
        "delta table ORDERS|snapshot|committed|operation|2|2023-11-14",
    ),
    "snapshot": (
        lambda folder: open_table(folder).snapshot(),
        "<snapshot 2 of <delta table ORDERS>: 2 data files, 1 vector>",
        "delta table ORDERS|snapshot 2 · RESTORE · 2023-11-14 22:13:22 · 2 data files · 1 vector",
    ),
    "audit": (
        lambda folder: audit(open_table(folder)),
        "<audit of delta table ORDERS, snapshot 2: no findings>",
        "delta table ORDERS|snapshot 2 · 2 data files · no findings",
    ),
    "scan": (
        lambda folder: scan(open_table(folder)),
        "<scan of delta table 'ORDERS', snapshot 2>",
        "delta table ORDERS|snapshot 2 · 2 data files|data file|rows|deleted|share|where|b.parquet|128|0|0 %|·",
    ),
    "deletion": (
        lambda folder: open_table(folder).delete(positions={"b.parquet": RowSet([3])}, dry_run=True),
        "Deletion(snapshot=2, committed=False, rows=1, files=1, ",
        "1 row deleted|not committed · 1 data file · 0 removed whole · 0 B|data file|deleted now|deleted|rows|b.",
    ),
    "report": (
        lambda folder: verify(flipped(folder / NEW, 20, to=folder / NEW)),
        f"<report of ORDERS/{NEW}: 4 checks passed, failed: crc>",
        f"ORDERS/{NEW}|delta · 4 checks passed, failed: crc|check|of|byte|failed|expected|found|crc|vector|40|CRC-32",
    ),
    "statistics": (
        lambda folder: describe(folder / NEW)[0],
        "VectorStats(cardinality=68, ",
        "68 deleted rows|in 2..127 · 43 B, 0.632 B a row · containers: 1 runs",
    ),
}


@pytest.mark.parametrize("case", VALUES.values(), ids=VALUES)
def test_values_in_notebooks(case: tuple[Callable[[Path], Any], str, str], folder: Path) -> None:
    make, short, html = case
    value = make(folder)
    assert repr(value).replace(str(folder), "ORDERS").startswith(short)
    assert text_of(value._repr_html_()).replace(str(folder), "ORDERS").startswith(html)


def test_an_audit_with_findings(folder: Path) -> None:
    flipped(folder / NEW, 20, to=folder / NEW)
    found = audit(open_table(folder))
    assert repr(found).endswith("snapshot 2: 1 error>")
    assert "severity|check|finding|error|crc|" in text_of(found._repr_html_())


def test_errors_are_named_as_users_import_them() -> None:
    names = [name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)]
    assert len(names) == 13
    for name in names:
        one = getattr(dvcodec, name)
        assert (one, one.__module__) == (getattr(errors, name), "dvcodec")
    with pytest.raises(dvcodec.DecodeError) as caught:
        delta.decode(b"x")
    assert type(pickle.loads(pickle.dumps(caught.value))) is type(caught.value)


def test_what_the_tab_key_shows(folder: Path) -> None:
    assert dir(arrow) == sorted(arrow.__all__)
    shown = {name for name in dir(open_table(folder)) if not name.startswith("_")}
    assert {"delete", "kind", "location", "snapshot", "snapshots"} <= shown
    assert not shown & {"compared", "log", "opener", "older_ids", "walk_from"}
    assert not re.search(r"\b(Any|NDArray|np)\b", " ".join(dir(arrow)))
