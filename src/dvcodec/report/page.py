"""Render the page from templates in the package."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import datetime
from importlib.resources import files
from string import Template

from dvcodec._version import __version__
from dvcodec.core.text import folder_of
from dvcodec.core.usage import check_type
from dvcodec.io import SinkTarget, StorageOptions, open_sink
from dvcodec.ops.stats import WORTH_REWRITING
from dvcodec.report.files import columns
from dvcodec.report.markup import embedded, join, tag
from dvcodec.report.pictures import pictures
from dvcodec.report.sections import KINDS, findings, head, name_of, rewrite, summary
from dvcodec.tables.auditing import Audit
from dvcodec.tables.snapshots.scanning import rewrite_candidates, totals
from dvcodec.tables.writing import check_outside


def render(audit: Audit, *, made: datetime | None = None, min_ratio: float = WORTH_REWRITING) -> str:
    """Return the page of an audited snapshot as HTML; equal arguments give equal text.

    Args:
        audit: to be shown.
        made: time of the report, shown on the page.
        min_ratio: 0 to 1; data files are worth rewriting from this share of deleted rows on.

    Raises:
        UsageError: an argument of a wrong type, or `min_ratio` is out of range.
    """
    check_type(audit, Audit, "audit", "an Audit")
    check_type(made, (datetime, type(None)), "made", "a datetime")
    scan = audit.scan
    sums = totals(scan)
    candidates = rewrite_candidates(scan, min_ratio=min_ratio)
    folder = folder_of([file.data_file.path for file in scan.files])
    style, script = _template("style.css"), _template("script.js")
    return Template(_template("page.html")).substitute(
        style_hash=_hash(style),
        script_hash=_hash(script),
        style=style,
        script=script,
        version=__version__,
        title=join(f"{name_of(scan.table)}: deletion vectors"),
        head=head(scan, made),
        summary=summary(audit, sums),
        findings=findings(audit),
        charts=pictures(scan, sums),
        rewrite=rewrite(candidates, folder),
        lead=tag("p", "All in ", tag("span", folder, class_="path"), class_="note lead") if folder else "",
        data=embedded(columns(scan, folder, (candidate.file.data_file.path for candidate in candidates))),
        foot=join(f"dvcodec {__version__}, {KINDS[scan.kind]} {scan.table}"),
    )


def write(
    sink: SinkTarget,
    audit: Audit,
    *,
    made: datetime | None = None,
    min_ratio: float = WORTH_REWRITING,
    storage_options: StorageOptions = None,
) -> None:
    """Write the page, whole or not at all; see `render`.

    Args:
        sink: path or URL outside of the table, or open binary file. An existing file is replaced.
        audit: to be shown.
        made: time of the report.
        min_ratio: 0 to 1; data files are worth rewriting from this share of deleted rows on.
        storage_options: for URLs: how to reach the store, as deltalake and polars spell it.

    Raises:
        UsageError: `min_ratio` is out of range, or the sink is in the table.
        OSError: it cannot be written.
    """
    check_type(audit, Audit, "audit", "an Audit")
    check_outside(sink, audit.table)
    page = render(audit, made=made, min_ratio=min_ratio).encode()
    with open_sink(sink, storage_options=storage_options) as file:
        file.write(page)


def _template(name: str) -> str:
    return files("dvcodec.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of a text, by which the page's content security policy allows it and no other script."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
