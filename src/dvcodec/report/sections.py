"""The parts of the page without scripts: head, summary, findings, files worth rewriting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from dvcodec.core.text import NOTHING, bytes_text, counted, number, share_text
from dvcodec.report.charts import share_bar
from dvcodec.report.markup import Html, join, section, tag
from dvcodec.tables.auditing import Audit
from dvcodec.tables.model import NO_SNAPSHOT, TableKind
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.scanning import RewriteCandidate, Scan, Totals

FINDINGS_SHOWN = 200
"""Maximum number of findings listed per severity; `dvcodec audit --json` has all."""
CANDIDATES_SHOWN = 20

KINDS = {
    TableKind.ICEBERG: "Iceberg table",
    TableKind.DELTA: "Delta Lake table",
    TableKind.PAIMON: "Paimon table",
    TableKind.LANCE: "Lance dataset",
    TableKind.SCORCH: "scorch index",
}
_SEVERITIES = {
    Severity.ERROR: ("error", "rows are wrong, or cannot be read, in some engine"),
    Severity.WARNING: ("warning", "rows are right, but something differs from the metadata"),
    Severity.INFO: ("note", "nothing is wrong; for example, space could be freed"),
}


def name_of(location: str) -> str:
    """Return the table's own name: the last part of its location.

    >>> name_of("s3://lake/orders/"), name_of("/")
    ('orders', '/')
    """
    return location.rstrip("/").rpartition("/")[2] or location


def head(scan: Scan, made: datetime | None) -> Html:
    """Return the head of the page: table, snapshot and times."""
    info = scan.info
    facts = {
        "Snapshot": str(info.id) if info.id != NO_SNAPSHOT else "none yet",
        "Operation": info.operation,
        "Committed": None if info.timestamp_ms is None else _committed(info.timestamp_ms),
        "Report of": None if made is None else _moment(made),
    }
    listed = (tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items() if value is not None)
    return tag(
        "div",
        tag("p", f"Deletion vectors of {_article(KINDS[scan.kind])}", class_="over"),
        tag("h1", name_of(scan.table)),
        tag("p", scan.table, class_="path"),
        tag("dl", *listed, class_="facts"),
    )


def _article(what: str) -> str:
    return f"{'an' if what[0] in 'AEIOU' else 'a'} {what}"


def _committed(timestamp_ms: int) -> str:
    try:
        return _moment(datetime.fromtimestamp(timestamp_ms / 1000, timezone.utc))
    except (OverflowError, OSError, ValueError):  # metadata may have any number
        return f"{timestamp_ms} ms"


def _moment(time: datetime) -> str:
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def summary(audit: Audit, sums: Totals) -> Html:
    """Return the verdict on the table, and its numbers on cards."""
    share = sums.deleted_share
    least, most = ("", "") if sums.exact else ("at least ", "at most ")
    caption = NOTHING if share is None else f"{least}{share_text(share)} of all rows"
    per_row = "" if sums.bytes_per_row is None else f"{sums.bytes_per_row:.3g} bytes per deleted row"
    live = f"not recorded for {counted(sums.uncounted, 'file')}" if sums.rows is None else "recorded wrongly"
    if sums.max_live is not None:
        live = f"{most}{large(sums.max_live)} live"
    deleted = "unknown"
    if sums.exact or sums.min_deleted:
        deleted = f"{least}{large(sums.min_deleted)}"
    not_counted = counted(sums.other_deletes, "data file") + " with other deletes, not counted"
    cards = (
        _card(
            "Data files",
            number(sums.data_files),
            f"{number(sums.with_deletes)} with deleted rows, {number(sums.fully_deleted)} fully deleted"
            + (f", {number(sums.in_doubt)} in doubt" if sums.in_doubt else "")
            + (f", {number(sums.hidden)} not visible yet" if sums.hidden else ""),
        ),
        _card("Rows", NOTHING if sums.rows is None else large(sums.rows), live, title=number(sums.rows)),
        _card(
            "Deleted rows",
            deleted,
            f"{caption}; {not_counted}" if sums.other_deletes else caption,
            title=f"{least}{number(sums.min_deleted)}",
            picture=share_bar(share, caption),
        ),
        _card("Vectors", number(sums.vectors), f"in {counted(audit.counts.containers, 'file')}"),
        _card("Stored size", bytes_text(sums.stored_bytes), per_row, title=counted(sums.stored_bytes, "byte")),
    )
    notes = (tag("p", f"Not checked: {note.message}", class_="soft note") for note in audit.notes)
    return tag(
        "section", _verdict(audit), *notes, tag("div", *cards, class_="cards"), id="summary", aria_label="Summary"
    )


def large(count: int) -> str:
    """Return a count that fits a card: all digits up to a billion, then three.

    >>> large(999_999_999), large(1_234_567_890), large(5 * 10**12)
    ('999,999,999', '1.23 billion', '5 trillion')
    """
    for unit, word in ((10**12, "trillion"), (10**9, "billion")):
        if count >= unit:
            return f"{float(f'{count / unit:.3g}'):,.4g} {word}"
    return number(count)


def _card(heading: str, figure: str, more: str, *, title: str | None = None, picture: Html | None = None) -> Html:
    return tag(
        "div",
        tag("h3", heading),
        tag("p", figure, class_="figure", title=title),
        tag("p", more, class_="more"),
        picture,
        class_="panel",
    )


def _verdict(audit: Audit) -> Html:
    unreadable = audit.counts.unreadable
    checked = f"{counted(audit.counts.vectors - unreadable, 'vector')} read and checked."
    if unreadable:
        checked = f"{checked[:-1]}, {number(unreadable)} could not be read: their rows are unknown."
    counts = _by_severity(audit.findings)
    if not counts:
        return tag("p", tag("b", "Valid."), tag("span", "No findings."), tag("span", checked), class_="verdict fine")
    worst = next(iter(counts))
    listed = ", ".join(counted(len(found), _SEVERITIES[severity][0]) for severity, found in counts.items())
    word = "Not valid." if worst is Severity.ERROR else "Valid."
    style = "fine" if worst is Severity.INFO else worst.value
    link = tag("span", tag("a", listed, href="#findings"), ".")
    return tag("p", tag("b", word), link, tag("span", checked), class_=f"verdict {style}")


def _by_severity(found: Iterable[Finding]) -> dict[Severity, list[Finding]]:
    """Group findings by severity, worst first; severities without findings are left out."""
    groups: dict[Severity, list[Finding]] = {severity: [] for severity in Severity}
    for finding in found:
        groups[finding.severity].append(finding)
    return {severity: group for severity, group in groups.items() if group}


def findings(audit: Audit) -> Html:
    """List the findings by severity, worst first; empty without findings."""
    groups = _by_severity(audit.findings)
    if not groups:
        return Html()
    return section("findings", "Findings", *(_group(severity, group) for severity, group in groups.items()))


def _group(severity: Severity, group: Sequence[Finding]) -> Html:
    word, meaning = _SEVERITIES[severity]
    checks = ", ".join(f"{check} ({number(count)})" for check, count in Counter(f.check for f in group).most_common())
    left = len(group) - FINDINGS_SHOWN
    more = None
    if left > 0:
        more = tag("li", f"{counted(left, 'more finding')}: dvcodec audit --json lists them all.", class_="soft")
    return tag(
        "details",
        tag(
            "summary",
            tag("h3", counted(len(group), word).capitalize()),
            tag("span", f": {meaning}", class_="soft"),
            tag("div", checks, class_="soft note"),
        ),
        tag("ul", *map(_finding, group[:FINDINGS_SHOWN]), more, class_="findings"),
        class_=f"panel group {severity.value}",
        open=severity is not Severity.INFO,
    )


def _finding(finding: Finding) -> Html:
    pairs: dict[str, str | None] = {}
    vectors = [vector.where for vector in finding.vectors]
    if any(vector not in finding.message for vector in vectors):
        pairs["Vectors"] = join(*(tag("div", vector, class_="path") for vector in vectors))
    if finding.path is not None and (finding.offset is not None or finding.path not in finding.message):
        place = "" if finding.offset is None else f", byte {number(finding.offset)}"
        pairs["File"] = join(tag("span", finding.path, class_="path"), place)
    pairs |= {"Expected": finding.expected, "Found": finding.actual}
    listed = [join(tag("dt", name), tag("dd", value)) for name, value in pairs.items() if value is not None]
    return tag(
        "li",
        tag("p", finding.check, class_="check"),
        tag("p", finding.message, class_="message"),
        tag("dl", *listed, class_="pairs") if listed else None,
    )


_REASONS = {
    "fully-deleted": "no live rows: drop it instead of rewriting",
    "deleted-ratio": "many rows are deleted",
    "bytes-per-row": "its vectors are large for their rows",
    "small-vector": "its vectors are small",
    "small-file": "it is small",
}


def rewrite(candidates: Sequence[RewriteCandidate], folder: str) -> Html:
    """List the data files worth rewriting, all below `folder`, highest gain first; empty without candidates."""
    if not candidates:
        return Html()
    caption = f"{counted(len(candidates), 'data file')}, highest gain first"
    gains = [candidate.gain for candidate in candidates]
    if None not in gains:
        caption += f"; rewriting frees about {bytes_text(sum(gain or 0 for gain in gains))}"
    caption += "."
    if len(candidates) > CANDIDATES_SHOWN:
        caption += f" The first {CANDIDATES_SHOWN}; below, show the data files \u201cworth rewriting\u201d for all."
    columns = ("Data file", "Deleted share", "Deleted", "Live rows", "Gain", "Why")
    return section(
        "rewrite",
        "Worth rewriting",
        tag("p", caption, class_="note lead"),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", *(tag("th", name, scope="col", class_=_kind(name)) for name in columns))),
                tag("tbody", *(_candidate(one, folder) for one in candidates[:CANDIDATES_SHOWN])),
                class_="list",
                aria_labelledby="rewrite-title",
            ),
            class_="panel scroll",
        ),
    )


def _kind(column: str) -> str | None:
    return None if column in ("Data file", "Why") else "number"


def _candidate(candidate: RewriteCandidate, folder: str) -> Html:
    file = candidate.file
    path, share = file.data_file.path, share_text(file.deleted_share)
    cells = {
        "Deleted share": tag("div", share_bar(file.deleted_share, share), tag("span", share), class_="amount"),
        "Deleted": number(file.deleted),
        "Live rows": number(candidate.live_rows),
        "Gain": bytes_text(candidate.gain),
        "Why": "; ".join(map(_REASONS.__getitem__, candidate.reasons[:1] if file.fully_deleted else candidate.reasons)),
    }
    values = (tag("td", text, class_=_kind(name), data_label=name) for name, text in cells.items())
    return tag("tr", tag("th", path.removeprefix(folder), scope="row", class_="path", title=path), *values)
