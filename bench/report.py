"""Figures as lines of text, as a Markdown table, and as a picture."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness import Cost, Figure, Summary

_PACKAGES = ("dvcodec", "numpy", "pyroaring", "pyarrow", "pyiceberg", "deltalake", "pylance", "isal")
_LEFT, _WIDTH, _LINE = 420, 420, 22
_LEAST, _MOST = 0.1, 1000.0


def machine() -> dict[str, str]:
    """Name the processor, Python and the packages."""
    cpu = next(
        (line.split(":")[1].strip() for line in _read("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    found = {"processor": cpu, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _read(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def line(figure: Figure) -> str:
    """Return one line for a terminal."""
    speed = f"{amount(figure.ours, figure.cost):>13} {rate(figure)}"
    return f"{figure.row:34} {figure.data:22} {speed:38} {_said(figure)}"


def amount(cost: float, kind: Cost) -> str:
    """Return the cost of a run, in seconds, milliseconds or megabytes."""
    if kind == "bytes":
        return f"{cost / 1e6:.1f} MB"
    return f"{cost:.2f} s" if cost >= 1 else f"{1000 * cost:.2f} ms"


def rate(figure: Figure) -> str:
    """Return units per second, or bytes per unit."""
    if figure.cost == "bytes":
        return f"{figure.ours / figure.count:.2f} bytes each"
    return f"{_short(figure.count / figure.ours)} {figure.unit}/s"


def _short(number: float) -> str:
    """Format a number with about three digits and a unit prefix."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def _said(figure: Figure) -> str:
    mark = {True: "", False: " MISSED", None: ""}[figure.is_met]
    asked = "" if figure.asked is None else f" (asked {figure.asked:.2g})"
    if figure.peer is None:
        return "" if figure.ratio is None else f"{figure.ratio:.2f} of what is asked{mark}"
    return f"{figure.ratio:.2f} x {figure.peer}{asked}{mark}"


def table(found: Sequence[Summary]) -> str:
    """Return a Markdown table, followed by the reasons for missed targets."""
    lines = [
        "| | data | dvcodec | speed | peer | peer's | ratio | runs | asked |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    before = ""
    for one in found:
        figure = one.figure
        named = figure.row if figure.row != before else ""
        before = figure.row
        cells = [
            named,
            figure.data,
            amount(figure.ours, figure.cost),
            rate(figure),
            figure.peer or "",
            "" if figure.theirs is None else amount(figure.theirs, figure.cost),
            _ratio(one),
            str(one.runs),
            "" if figure.asked is None else f"{figure.asked:.2g}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    missed: dict[str, list[str]] = {}
    for figure in (one.figure for one in found):
        if figure.is_met is False:
            missed.setdefault(figure.why_missed, []).append(f"{figure.row} ({figure.data})")
    if missed:
        lines += ["", "Missed:", ""]
    for why, names in missed.items():
        lines.append(f"- {'; '.join(dict.fromkeys(names))}: {why or 'no reason is known'}")
    return "\n".join(lines) + "\n"


def _ratio(one: Summary) -> str:
    """The median ratio, bold if the target is missed, and the lowest and highest of all runs."""
    ratio = one.figure.ratio
    if ratio is None:
        return ""
    shown = f"**{ratio:.2f}**" if one.figure.is_met is False else f"{ratio:.2f}"
    return shown if one.runs == 1 else f"{shown} ({one.lowest:.2f} to {one.highest:.2f})"


def chart(figures: Sequence[Figure]) -> str:
    """Draw the ratios as bars on a logarithmic scale, each with a mark at its target, as SVG."""
    shown = [figure for figure in figures if figure.peer is not None and figure.ratio is not None]
    height, width = _LINE * len(shown) + 60, _LEFT + _WIDTH + 90
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="12">',
        f'<rect width="100%" height="{height}" fill="#fff"/>',
        '<text x="12" y="20" font-weight="600">Times the speed of the peer (logarithmic)</text>',
    ]
    for tick in (0.1, 1, 10, 100, 1000):
        x = _x(tick)
        stroke = "#334155" if tick == 1 else "#e2e8f0"
        parts += [
            f'<path d="M{x:.1f} 34V{height - 20}" stroke="{stroke}"/>',
            f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle" fill="#475569">{tick:g}</text>',
        ]
    for i, figure in enumerate(shown):
        y = 40 + i * _LINE
        assert figure.ratio is not None
        start, end = sorted((_x(1), _x(figure.ratio)))
        color = "#b45309" if figure.is_met is False else "#0f766e"
        name = f"{figure.row}, {figure.data}: {figure.peer}"
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{start:.1f}" y="{y + 2}" width="{max(end - start, 1):.1f}" height="13" rx="2" fill="{color}"/>',
            f'<text x="{_LEFT + _WIDTH + 8}" y="{y + 12}">{figure.ratio:.3g}</text>',
        ]
        if figure.asked is not None:
            parts.append(f'<path d="M{_x(figure.asked):.1f} {y}v17" stroke="#0f172a" stroke-width="2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, _LEAST), _MOST) / _LEAST) / math.log(_MOST / _LEAST)
    return _LEFT + share * _WIDTH
