"""Draws the pictures of the README: `make docs`; the one of the report only if Chromium is installed."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from dvcodec import RowSet, iceberg, report
from dvcodec.cli import main, render

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from browser import CHROMIUM, browser  # noqa: E402
from samples.audits import large, some_findings  # noqa: E402


def picture(name: str, *arguments: str) -> None:
    """Run one command and keep what it shows as SVG, with the reader's own fonts."""
    shown = Console(record=True, width=136, force_terminal=True, highlight=False)
    render.console = lambda: shown
    sys.argv = ["dvcodec", *arguments]
    with suppress(SystemExit):
        main()
    keep(name, shown, f"dvcodec {' '.join(arguments)}")


def phone(vectors: dict[str, RowSet], row_count: int) -> None:
    """Keep where the rows of vectors are as SVG, narrow enough for a telephone."""
    shown = Console(record=True, width=40, force_terminal=True, highlight=False)
    render.console = lambda: shown
    table = render.Table("data file", "where")
    for name, rows in vectors.items():
        table.add(name, render.density_strip(rows, row_count, width=24))
    table.show()
    keep("phone", shown, "deletes.puffin")


def keep(name: str, shown: Console, title: str) -> None:
    """Write what a console has shown."""
    svg = shown.export_svg(title=title, unique_id="dvcodec")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "Menlo, Consolas")
    (HERE / f"{name}.svg").write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def report_page(folder: Path) -> None:
    """Keep what a browser shows of a report as PNG."""
    audit = large(600)
    page = folder / "report.html"
    report.write(page, replace(audit, findings=some_findings(audit)[:2]), min_ratio=0.9)
    with browser() as shown:
        shown.open(page, width=1280, height=1520)
        shown.js("document.querySelectorAll('details').forEach((group) => group.removeAttribute('open'))")
        shown.js("document.getElementById('rewrite').remove()")
        shown.js("document.querySelector('[data-key=partition] button').click()")
        (HERE / "report.png").write_bytes(shown.screenshot())


def draw() -> None:
    """Write every picture."""
    random = np.random.default_rng(7)
    rows = 1_000_000
    bell = np.clip(random.normal(0.3, 0.05, 120_000), 0, 0.999) * rows
    vectors = {
        "s3://lake/orders/00000.parquet": RowSet(random.choice(rows, 30_000, replace=False)),
        "s3://lake/orders/00001.parquet": RowSet(bell.astype(np.int64)),
        "s3://lake/orders/00002.parquet": RowSet.from_ranges([(880_000, rows)]),
        "s3://lake/orders/00003.parquet": RowSet([12, 499_999, 731_077]),
        "s3://lake/orders/00004.parquet": RowSet.from_ranges([(i * 125_000, i * 125_000 + 50_000) for i in range(8)]),
    }
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        iceberg.write_deletion_vectors("deletes.puffin", vectors, order="given")
        picture("inspect", "inspect", "deletes.puffin", "--rows", str(rows))
        phone({Path(name).name: deleted for name, deleted in vectors.items()}, rows)
        if CHROMIUM is not None:
            report_page(Path(folder))


if __name__ == "__main__":
    draw()
