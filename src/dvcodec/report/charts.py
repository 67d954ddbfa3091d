"""Charts as inline SVG: bars of one hue, each with its number as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dvcodec.core.text import counted, share_text
from dvcodec.report.markup import Html, join, tag

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
