"""Charts as inline SVG: bars of one hue, each with its number as text; those of a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from dvcodec.core.text import bytes_text, counted, plain, share_text
from dvcodec.tables.snapshots.scanning import Scan, Totals

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
    untouched = counted(sum(file.deleted == 0 for file in scan.files), "file")
    unknown = sum(file.deleted is None or (file.deleted > 0 and file.deleted_share is None) for file in scan.files)
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
    shares = (file.deleted_share for file in scan.files if file.deleted)
    counts = Counter(min(int(share * _SHARE_BARS), _SHARE_BARS - 1) for share in shares if share is not None)
    step = 100 // _SHARE_BARS
    return [
        Bar(f"{i * step} %" if i % 2 == 0 else "", f"{i * step} to {(i + 1) * step} %", counts[i])
        for i in range(_SHARE_BARS)
    ]


def vector_sizes(scan: Scan) -> list[int]:
    """Return the bytes of each vector with a file of its own or a recorded size; each counts once."""
    sizes: dict[int, int] = {}
    for file in scan.files:
        for vector in file.vectors:
            size = vector.size
            if size is None and len(file.vectors) == 1:
                size = file.stored_bytes
            if size:
                sizes[id(vector)] = size  # position deletes of a partition are one vector of many files
    return list(sizes.values())


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
