"""A table's deletion vectors as one self-contained HTML page: `dvcodec report TABLE -o report.html`.

The page loads nothing: style, script and data are in it, and its content security policy allows no others. Paths and
messages of the table, which may hold anything, are escaped, and shown on one line. Without scripts only the list of
all data files is missing.

Charts are inline SVG: bars of one hue, each with its number as text.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec._version import __version__
from dvcodec.core.text import NOTHING, bytes_text, counted, folder_of, number, plain, share_text
from dvcodec.core.usage import check_type
from dvcodec.io import SinkTarget, StorageOptions, open_sink
from dvcodec.ops.convert import WORTH_REWRITING
from dvcodec.tables.auditing import Audit
from dvcodec.tables.columns import UNKNOWN, values_of
from dvcodec.tables.model import NO_SNAPSHOT, TableKind
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.scanning import RewriteCandidate, Scan, ScanColumns, Totals, rewrite_candidates, totals
from dvcodec.tables.writing import check_outside

__all__ = ["render", "write"]


_VOID = frozenset({"br", "col", "hr", "meta", "rect", "line", "path"})
"""Elements without content: of HTML, and of SVG (closed by a slash, which HTML allows there)."""


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def tag(name: str, *children: str | None, **attributes: object) -> Html:
    """Make an element; children and attributes are escaped, and shown on one line without control characters.

    Args:
        name: name of the element.
        children: text, or `Html`; None is omitted.
        attributes: a trailing underscore is dropped and others become hyphens; True gives an attribute without a
            value; None and False are omitted.

    >>> tag("p", "a < b", tag("b", "!"), class_="note", data_row=7, hidden=False)
    '<p class="note" data-row="7">a &lt; b<b>!</b></p>'
    """
    shown = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{shown}/>")
    return Html(f"<{name}{shown}>{join(*children)}</{name}>")


def section(name: str, title: str, *children: str | None) -> Html:
    """Make a section of the page, with its title as a heading; `name` is its id."""
    heading = f"{name}-title"
    return tag("section", tag("h2", title, id=heading), *children, id=name, aria_labelledby=heading)


def join(*parts: str | None) -> Html:
    """Put parts side by side; those that are not `Html` are escaped."""
    return Html("".join(part if isinstance(part, Html) else _text(part) for part in parts if part is not None))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{_text(str(value))}"'


def _text(text: str) -> str:
    return escape(plain(text))


def embedded(value: Any) -> Html:
    """Return a value as JSON for a script element: ASCII, without characters of markup."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


_WIDTH = 380
_HEIGHT = 170
_FLOOR = 20
"""Height of the line of labels below the bars."""
_HEAD = 18
"""Height above the highest bar, for its count."""
_GAP = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram.

    Attributes:
        label: text below its left edge, where its values begin; may be empty.
        title: which values it counts, in words.
        count: how many.
    """

    label: str
    title: str
    count: int


def bars(items: Sequence[Bar], *, unit: str, what: str, last: str = "") -> Html:
    """Draw a histogram.

    Args:
        items: the bars from left to right, at least one.
        unit: what is counted, in the singular.
        what: a description for screen readers.
        last: label below the right edge of the last bar.
    """
    top = max(bar.count for bar in items)
    step = _WIDTH / len(items)
    floor = _HEIGHT - _FLOOR
    drawn: list[str] = []
    for i, bar in enumerate(items):
        left = i * step
        height = (floor - _HEAD) * bar.count / top if top else 0
        if bar.count:
            height = max(height, 2)
        words = f"{bar.title}: {counted(bar.count, unit)}"
        column = [
            tag("title", words),
            # The whole column reacts to the pointer, not only its bar.
            _rect("area", left, 0, step, floor),
            _rect("bar", left + _GAP / 2, floor - height, step - _GAP, height, rx=2),
        ]
        if bar.count:
            middle, above = _at(left + step / 2), _at(floor - height - 5)
            column.append(tag("text", _short(bar.count), class_="count", x=middle, y=above, text_anchor="middle"))
        drawn.append(tag("g", *column))
        if bar.label:
            anchor = "middle" if i else "start"
            drawn.append(tag("text", bar.label, x=_at(left if i else _GAP / 2), y=_HEIGHT - 5, text_anchor=anchor))
    if last:
        drawn.append(tag("text", last, x=_WIDTH - _GAP // 2, y=_HEIGHT - 5, text_anchor="end"))
    drawn.append(tag("line", class_="floor", x1=0, x2=_WIDTH, y1=floor, y2=floor))
    label = "; ".join(f"{bar.title}: {bar.count:,}" for bar in items if bar.count) or f"no {unit}s"
    return _svg(_HEIGHT, f"{what}. {label}", drawn)


def stack(parts: Sequence[tuple[str, int]], *, what: str) -> Html:
    """Draw the parts of a whole as one stacked bar, with a legend that has the numbers.

    Args:
        parts: name and size of each; the shades go from light to dark.
        what: a description for screen readers.
    """
    total = sum(size for _, size in parts)
    drawn: list[str] = []
    left = 0.0
    for shade, (name, size) in enumerate(parts, 1):
        width = _WIDTH * size / total if total else 0
        if size:
            words = f"{name}: {size:,}, {share_text(size / total)}"
            box = _rect(f"stack-{shade}", left, 0, max(width - 1.5, 0.5), 28)
            drawn.append(tag("g", tag("title", words), box))
        left += width
    if not total:
        drawn.append(_rect("track", 0, 0, _WIDTH, 28))
    label = "; ".join(f"{name}: {size:,}" for name, size in parts)
    rows = [
        tag(
            "tr",
            tag("th", tag("span", class_=f"swatch stack-{shade}"), name, scope="row"),
            tag("td", f"{size:,}", class_="number"),
            tag("td", share_text(size / total) if total else "", class_="number"),
        )
        for shade, (name, size) in enumerate(parts, 1)
    ]
    legend = tag("table", tag("tbody", *rows), class_="legend", aria_label=what)
    return join(_svg(28, f"{what}. {label}", drawn), legend)


def share_bar(share: float | None, title: str) -> Html:
    """Draw a share as a thin bar in a track; the track is empty if the share is unknown."""
    width = 0.0 if share is None else 100 * min(share, 1)
    bar = _rect("bar", 0, 0, max(width, 0.5), 6) if width else None
    return tag(
        "svg",
        tag("title", title),
        _rect("track", 0, 0, 100, 6),
        bar,
        class_="share",
        viewBox="0 0 100 6",
        preserveAspectRatio="none",
        role="img",
    )


def _svg(height: int, label: str, drawn: Sequence[str]) -> Html:
    return tag("svg", *drawn, class_="chart", viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=label)


def _rect(style: str, x: float, y: float, width: float, height: float, **more: object) -> Html:
    return tag("rect", class_=style, x=_at(x), y=_at(y), width=_at(width), height=_at(height), **more)


def _at(value: float) -> str:
    """Return a coordinate as text, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _short(count: int) -> str:
    """Return a count that fits above a bar: 9,999, then 10k."""
    if count < 10_000:
        return f"{count:,}"
    return f"{count // 1000:,}k" if count < 1_000_000 else f"{count // 1_000_000:,}M"


_SHARE_BARS = 10
_FEWEST_SIZE_BARS = 6
"""Minimum number of bars, so that vectors of a single size do not fill the chart."""


def pictures(scan: Scan, sums: Totals) -> Html:
    """Draw the charts."""
    found = ScanColumns.of(scan)
    deletes, no_share = found.min_deleted > 0, (found.files.rows == UNKNOWN) | (found.files.rows == 0)
    untouched = counted(int((found.exact & ~deletes).sum()), "file")
    unknown = int((~found.exact | (deletes & no_share)).sum())
    left = f"{untouched} without deleted rows"
    if unknown:
        left += f" and {counted(unknown, 'file')} with an unknown share"
    containers = sums.containers
    parts = (("array", containers.arrays), ("bitset", containers.bitsets), ("run", containers.runs))
    figures = (
        _figure(
            "Deleted share of data files",
            f"Files by the share of their rows that is deleted; {left} not shown.",
            bars(share_bars(scan), unit="file", what="Data files by deleted share", last="100 %"),
        ),
        _figure(
            "Size of vectors",
            "Vectors by stored size; sizes grow fourfold from bar to bar.",
            bars(size_bars(vector_sizes(scan)), unit="vector", what="Vectors by bytes"),
        ),
        _figure(
            "Containers",
            f"How {counted(sum(containers), 'roaring container')} store their rows.",
            stack(parts, what="Containers of the vectors"),
        ),
    )
    return section("charts", "Distribution", tag("div", *figures, class_="charts"))


def _figure(title: str, caption: str, chart: Html) -> Html:
    return tag("figure", tag("figcaption", tag("h3", title), tag("p", caption, class_="note")), chart, class_="panel")


def share_bars(scan: Scan) -> list[Bar]:
    """Count the data files with deleted rows by tenths of their deleted share."""
    found = ScanColumns.of(scan)
    known = found.exact & (found.min_deleted > 0) & (found.files.rows > 0)
    tenths = np.minimum((found.shares[known] * _SHARE_BARS).astype(np.int64), _SHARE_BARS - 1)
    counts = np.bincount(tenths, minlength=_SHARE_BARS).tolist()
    step = 100 // _SHARE_BARS
    return [
        Bar(f"{i * step} %" if i % 2 == 0 else "", f"{i * step} to {(i + 1) * step} %", counts[i])
        for i in range(_SHARE_BARS)
    ]


def vector_sizes(scan: Scan) -> list[int]:
    """Return the bytes of each vector with a file of its own or a recorded size; each counts once."""
    found, sizes = ScanColumns.of(scan), dict[int, int]()
    for file in found.others.values():
        for vector in file.vectors:
            size = vector.size
            if size is None and len(file.vectors) == 1:
                size = file.stored_bytes
            if size:
                sizes[id(vector)] = size  # position deletes of a partition are one vector of many files
    alone = found.stored_bytes[found.vector_of >= 0]
    return [*sizes.values(), *alone[alone > 0].tolist()]


def size_bars(sizes: list[int]) -> list[Bar]:
    """Count sizes by powers of four bytes."""
    counts = Counter((size.bit_length() - 1) // 2 for size in sizes)
    low, high = min(counts, default=2), max(counts, default=2)
    missing = max(_FEWEST_SIZE_BARS - (high - low + 1), 0)
    low = max(low - missing // 2, 0)
    high = max(high, low + _FEWEST_SIZE_BARS - 1)
    spread = 1 if high - low < 8 else 2
    return [
        Bar(
            bytes_text(4**power) if (power - low) % spread == 0 else "",
            f"{bytes_text(4**power)} to {bytes_text(4 ** (power + 1))}",
            counts[power],
        )
        for power in range(low, high + 1)
    ]


SHADE_EDGES = (np.finfo(np.float32).tiny, 0.01, 0.1, 0.5, 1.0)
"""Shares of a part at which the shades of a density strip begin: any row, 1 %, 10 %, half, all."""


def columns(scan: Scan, folder: str, rewrite: Iterable[str]) -> dict[str, Any]:
    """Return plain values for JSON: a list for each column, with one value for each data file, in the scan's order.

    Paths and errors are shown as text of one line, see `plain`. Deleted rows of which only a lower bound is
    known are None.

    Args:
        scan: what is deleted.
        folder: common to all paths, see `core.text.folder_of`.
        rewrite: paths of the data files worth rewriting.
    """
    found, files = ScanColumns.of(scan), scan.files
    paths, wanted = found.files.paths, set(rewrite)
    partitions = {one: None if one is None else plain(one) for one in set(found.files.partitions)}
    deleted = np.where(found.exact, found.min_deleted, UNKNOWN)
    strips, none = [""] * len(paths), list[list[str | int | None]]()
    vectors = [none] * len(paths)
    drawn = np.flatnonzero(found.vector_of >= 0)
    for i, strip in zip(drawn.tolist(), shades_of_each(found.density[found.density_of[drawn]]), strict=True):
        strips[i] = strip
    for i, file in found.others.items():
        strips[i] = shades(file.density)
    places: dict[str, int] = {}
    for i, of_file in found.vectors_by_file():
        vectors[i] = [[places.setdefault(path, len(places)), *numbers] for path, *numbers in of_file]
    return {
        "folder": plain(folder),
        "path": [plain(path[len(folder) :]) for path in paths],
        "partition": [partitions[one] for one in found.files.partitions],
        "rows": values_of(found.files.rows, lambda i: files[i].data_file.physical_rows),
        "size": values_of(found.files.sizes, lambda i: files[i].data_file.size),
        "deleted": values_of(deleted, lambda i: files[i].deleted),
        "stored": found.stored_bytes.tolist(),
        "containers": found.containers.T.tolist(),
        "strip": strips,
        "vectors": vectors,
        "places": [plain(place) for place in places],
        "errors": {i: [plain(error) for error in files[i].errors] for i in np.flatnonzero(found.in_doubt).tolist()},
        "rewrite": [i for i, path in enumerate(paths) if path in wanted],
    }


def shades(density: NDArray[np.float32]) -> str:
    """Return the shade of each part of a file, 0 (nothing deleted) to 5 (all): a digit each; empty if all are 0.

    >>> import numpy as np
    >>> shades(np.array([0, 0.001, 0.01, 0.3, 0.99, 1], np.float32)), shades(np.zeros(64, np.float32))
    ('012345', '')
    """
    return shades_of_each(density[None])[0]


def shades_of_each(density: NDArray[np.float32]) -> list[str]:
    """Return the `shades` of each of several files: float32[n, parts]."""
    steps = np.digitize(density, np.asarray(SHADE_EDGES, np.float32))
    texts = (steps + ord("0")).astype(np.uint8)
    drawn: list[bool] = np.asarray(steps.any(axis=1)).tolist()
    return [text.tobytes().decode("ascii") if has_any else "" for text, has_any in zip(texts, drawn, strict=True)]


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
    folder = folder_of(ScanColumns.of(scan).files.paths)
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
