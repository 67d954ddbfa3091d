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


def heights(svg: str) -> list[float]:
    return [float(rect.attrib["height"]) for rect in ET.fromstring(svg).iter("rect") if rect.attrib["class"] == "bar"]


def test_bars_stand_to_each_other_as_their_counts() -> None:
    chart = bars([Bar("0", "none", 0), Bar("", "few", 10), Bar("2", "many", 40)], unit="file", what="Files")
    none, few, many = heights(chart)
    assert none == 0
    assert many == pytest.approx(4 * few, rel=0.01)
    assert [title.text for title in ET.fromstring(chart).iter("title")] == [
        "none: no files",
        "few: 10 files",
        "many: 40 files",
    ]
    assert 'aria-label="Files. few: 10; many: 40"' in chart


def test_where_bars_and_texts_stand() -> None:
    """A count is above its bar, which leaves room for it; the labels are below, at left edges."""
    chart = ET.fromstring(bars([Bar("0", "few", 1), Bar("2", "many", 2)], unit="file", what="Files", last="4"))
    drawn = [rect.attrib for rect in chart.iter("rect") if rect.attrib["class"] == "bar"]
    places = [[float(rect[name]) for name in ("x", "y", "width", "height")] for rect in drawn]
    assert places == [[2, 84, 186, 66], [192, 18, 186, 132]]
    texts = [(text.text, *(text.attrib[name] for name in ("x", "y", "text-anchor"))) for text in chart.iter("text")]
    assert texts == [
        ("1", "95", "79", "middle"),
        ("0", "2", "165", "start"),
        ("2", "285", "13", "middle"),
        ("2", "190", "165", "middle"),
        ("4", "378", "165", "end"),
    ]


def test_a_low_bar_can_be_seen() -> None:
    assert heights(bars([Bar("", "few", 1), Bar("", "many", 10_000)], unit="file", what="Files"))[0] == 2


def test_no_bars_at_all() -> None:
    assert 'aria-label="Files. no files"' in bars([Bar("", "none", 0)], unit="file", what="Files")


@each(
    ("count", "shown"),
    [(9_999, "9,999"), (10_000, "10k"), (123_456, "123k"), (999_999, "999k"), (1_000_000, "1M"), (12_345_678, "12M")],
)
def test_counts_fit_above_their_bars(count: int, shown: str) -> None:
    chart = bars([Bar("", "all", count)], unit="file", what="Files")
    assert f">{shown}</text>" in chart
    assert f"all: {count:,} files" in chart


def test_a_stack_fills_its_width() -> None:
    chart = stack((("array", 1), ("bitset", 0), ("run", 3)), what="Containers")
    svg, legend = re.fullmatch(r"(<svg.*</svg>)(<table.*</table>)", chart).groups()  # type: ignore[union-attr]
    first, last = ET.fromstring(svg).iter("rect")
    assert (first.attrib["x"], last.attrib["x"]) == ("0", "95")
    assert float(last.attrib["width"]) == pytest.approx(285, abs=2)
    assert "75 %" in legend
    assert "bitset" in legend


def test_a_stack_of_nothing() -> None:
    assert 'class="track"' in stack((("array", 0),), what="Containers")


@each(("share", "width"), [(None, None), (0.0, None), (1e-9, 0.5), (0.25, 25), (1.0, 100), (7.0, 100)])
def test_share_bar(share: float | None, width: float | None) -> None:
    found = [rect for rect in ET.fromstring(share_bar(share, "title")).iter("rect") if rect.attrib["class"] == "bar"]
    place = [tuple(float(rect.attrib[name]) for name in ("x", "y", "width")) for rect in found]
    assert place == ([] if width is None else [(0, 0, width)])


def test_files_by_deleted_share() -> None:
    counts = [bar.count for bar in share_bars(small().scan)]
    assert counts == [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_every_second_tenth_has_a_label() -> None:
    drawn = share_bars(small().scan)
    assert [drawn[0].title, drawn[9].title] == ["0 to 10 %", "90 to 100 %"]
    labels = [bar.label for bar in drawn]
    assert labels == ["0 %", "", "20 %", "", "40 %", "", "60 %", "", "80 %", ""]


def test_every_file_with_deleted_rows_is_in_a_bar() -> None:
    scan = large(60).scan
    assert sum(bar.count for bar in share_bars(scan)) == totals(scan).with_deletes


def test_files_without_a_share_are_in_no_bar() -> None:
    scan = audit_of(file_of("a", RowSet([1]), None), file_of("b", RowSet([7]), 7)).scan
    assert [bar.count for bar in share_bars(scan)] == [0, 1, *[0] * 8]


@given(st.lists(st.integers(1, 1 << 40), max_size=30))
def test_every_size_is_in_the_bar_that_says_so(sizes: list[int]) -> None:
    found = size_bars(sizes)
    assert sum(bar.count for bar in found) == len(sizes)
    assert len(found) >= 6
    assert len({bar.title for bar in found}) == len(found)


def test_size_bars() -> None:
    assert [(bar.label, bar.title, bar.count) for bar in size_bars([63, 64, 255, 256])][2:5] == [
        ("64 B", "64 B to 256 B", 2),
        ("256 B", "256 B to 1 KiB", 1),
        ("1 KiB", "1 KiB to 4 KiB", 0),
    ]


def test_labels_of_many_size_bars() -> None:
    """Every bar has one, or every second of more than eight."""
    assert [bar.label for bar in size_bars([1, 4**7])] == [bytes_text(4**power) for power in range(8)]
    nine = ["1 B", "", "16 B", "", "256 B", "", "4 KiB", "", "64 KiB"]
    assert [bar.label for bar in size_bars([1, 4**8])] == nine


def test_a_vector_of_several_files_counts_once() -> None:
    one = file_of("a", RowSet([1, 2, 3]))
    scan = audit_of(one, replace(one, data_file=replace(one.data_file, path="b"))).scan
    assert vector_sizes(scan) == [one.stored_bytes]


def test_a_vector_without_a_recorded_size_counts_with_its_bytes() -> None:
    one = file_of("a", RowSet([1, 2, 3]))
    scan = audit_of(replace(one, vectors=(replace(one.vectors[0], size=None),))).scan
    assert vector_sizes(scan) == [one.stored_bytes]


def test_pictures_of_an_empty_table() -> None:
    scan = audit_of().scan
    assert pictures(scan, totals(scan)).count("<figure") == 3
