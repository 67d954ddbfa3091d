"""Charts, and what the pictures of a table count."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import RowSet
from dvcodec.core.text import bytes_text
from dvcodec.report import Bar, bars, pictures, share_bar, share_bars, size_bars, stack, vector_sizes
from dvcodec.tables.snapshots.scanning import totals
from samples.audits import audit_of, file_of, large, small


def drawn_in(svg: str) -> list[dict[str, str]]:
    return [rect.attrib for rect in ET.fromstring(svg).iter("rect") if rect.attrib["class"] == "bar"]


def test_where_bars_and_texts_stand() -> None:
    """A count is above its bar, which leaves room for it; the labels are below, at left edges."""
    svg = bars([Bar("0", "few", 1), Bar("2", "many", 2)], unit="file", what="Files", last="4")
    chart = ET.fromstring(svg)
    assert [title.text for title in chart.iter("title")] == ["few: 1 file", "many: 2 files"]
    assert chart.attrib["aria-label"] == "Files. few: 1; many: 2"
    places = [[float(rect[name]) for name in ("x", "y", "width", "height")] for rect in drawn_in(svg)]
    assert places == [[2, 84, 186, 66], [192, 18, 186, 132]]
    texts = [(text.text, *(text.attrib[name] for name in ("x", "y", "text-anchor"))) for text in chart.iter("text")]
    assert texts == [
        ("1", "95", "79", "middle"),
        ("0", "2", "165", "start"),
        ("2", "285", "13", "middle"),
        ("2", "190", "165", "middle"),
        ("4", "378", "165", "end"),
    ]


def test_low_bars_and_none() -> None:
    """Any file can be seen."""
    low, _ = drawn_in(bars([Bar("", "few", 1), Bar("", "many", 10_000)], unit="file", what="Files"))
    assert low["height"] == "2"
    none = bars([Bar("", "none", 0)], unit="file", what="Files")
    assert 'aria-label="Files. no files"' in none
    assert [bar["height"] for bar in drawn_in(none)] == ["0"]


@each(
    ("count", "shown"),
    [(9_999, "9,999"), (10_000, "10k"), (999_999, "999k"), (1_000_000, "1M")],
)
def test_counts_fit_above_their_bars(count: int, shown: str) -> None:
    chart = bars([Bar("", "all", count)], unit="file", what="Files")
    assert f">{shown}</text>" in chart


def test_a_stack_fills_its_width() -> None:
    chart = stack((("array", 1), ("bitset", 0), ("run", 3)), what="Containers")
    svg, legend = re.fullmatch(r"(<svg.*</svg>)(<table.*</table>)", chart).groups()  # type: ignore[union-attr]
    first, last = ET.fromstring(svg).iter("rect")
    assert (first.attrib["x"], last.attrib["x"]) == ("0", "95")
    assert float(last.attrib["width"]) == pytest.approx(285, abs=2)
    assert "75 %" in legend
    assert "bitset" in legend
    assert 'class="track"' in stack((("array", 0),), what="Containers")


@each(("share", "width"), [(None, None), (0.0, None), (1e-9, 0.5), (0.25, 25), (1.0, 100), (7.0, 100)])
def test_share_bar(share: float | None, width: float | None) -> None:
    place = [tuple(float(rect[name]) for name in ("x", "y", "width")) for rect in drawn_in(share_bar(share, "title"))]
    assert place == ([] if width is None else [(0, 0, width)])


def test_files_by_deleted_share() -> None:
    drawn = share_bars(small().scan)
    assert [bar.count for bar in drawn] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert [drawn[0].title, drawn[9].title] == ["0 to 10 %", "90 to 100 %"]
    assert [bar.label for bar in drawn] == ["0 %", "", "20 %", "", "40 %", "", "60 %", "", "80 %", ""]
    scan = large(60).scan
    assert sum(bar.count for bar in share_bars(scan)) == totals(scan).with_deletes


def test_files_without_a_share_are_in_no_bar() -> None:
    scan = audit_of(file_of("a", RowSet([1]), None), file_of("b", RowSet([7]), 7)).scan
    assert [bar.count for bar in share_bars(scan)] == [0, 1, *[0] * 8]
    assert "no files without deleted rows and 1 file with an unknown share not shown" in pictures(scan, totals(scan))


@given(st.lists(st.integers(1, 1 << 40), max_size=30))
def test_every_size_is_in_the_bar_that_says_so(sizes: list[int]) -> None:
    found = size_bars(sizes)
    assert sum(bar.count for bar in found) == len(sizes)
    assert len(found) >= 6
    assert len({bar.title for bar in found}) == len(found)


def test_size_bars() -> None:
    assert [(bar.label, bar.title, bar.count) for bar in size_bars([63, 64, 255, 256])][2:4] == [
        ("64 B", "64 B to 256 B", 2),
        ("256 B", "256 B to 1 KiB", 1),
    ]
    assert size_bars([64, 256])[0].title == "4 B to 16 B", "the bars that are filled up stand on both sides"


def test_labels_of_many_size_bars() -> None:
    """Every bar has one, or every second of more than eight."""
    assert [bar.label for bar in size_bars([1, 4**7])] == [bytes_text(4**power) for power in range(8)]
    nine = ["1 B", "", "16 B", "", "256 B", "", "4 KiB", "", "64 KiB"]
    assert [bar.label for bar in size_bars([1, 4**8])] == nine


def test_a_vector_counts_once_with_its_bytes() -> None:
    """Also if it is of several files, or its size is not recorded."""
    one = file_of("a", RowSet([1, 2, 3]))
    other = replace(one, data_file=replace(one.data_file, path="b"))
    unsized = replace(one, vectors=(replace(one.vectors[0], size=None),))
    for files in ((one, other), (unsized,)):
        assert vector_sizes(audit_of(*files).scan) == [one.stored_bytes]


def test_pictures_of_an_empty_table() -> None:
    scan = audit_of().scan
    assert pictures(scan, totals(scan)).count("<figure") == 3
