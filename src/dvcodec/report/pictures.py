"""The charts of a table: deleted shares of its files, sizes and encodings of its vectors."""

from __future__ import annotations

from collections import Counter

from dvcodec.core.text import bytes_text, counted
from dvcodec.report.charts import Bar, bars, stack
from dvcodec.report.markup import Html, section, tag
from dvcodec.tables.snapshots.scanning import Scan, Totals

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
