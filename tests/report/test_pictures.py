"""What the charts count."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from dvcodec import RowSet
from dvcodec.core.text import bytes_text
from dvcodec.report.pictures import pictures, share_bars, size_bars, vector_sizes
from dvcodec.tables.snapshots.scanning import totals
from samples.audits import audit_of, file_of, large, small


def test_files_by_deleted_share() -> None:
    counts = [bar.count for bar in share_bars(small().scan)]
    assert counts == [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]


def test_every_second_tenth_has_a_label() -> None:
    labels = [bar.label for bar in share_bars(small().scan)]
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
