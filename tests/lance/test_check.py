"""Are row ids distinct: within a fragment, across fragments, and only where rows live."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec import LimitExceeded, RowSet, UsageError, lance
from dvcodec.core.report import Status
from dvcodec.lance import ArraySegment, EncodedArray, FragmentIds, RangeSegment, RowIdSequence, row_ids
from samples.lance import TOP, as_array, expand, sequences


def ids(*values: int) -> RowIdSequence:
    return RowIdSequence((ArraySegment(EncodedArray.from_values(as_array(list(values)))),))


def states(*fragments: FragmentIds, next_row_id: int | None = None) -> dict[tuple[str, str], Status]:
    report = lance.check_row_ids(fragments, next_row_id=next_row_id)
    assert report.ok is all(check.status is not Status.FAIL for check in report.checks)
    return {(check.name, check.subject): check.status for check in report.checks}


def failures(*fragments: FragmentIds, next_row_id: int | None = None) -> dict[str, str]:
    report = lance.check_row_ids(fragments, next_row_id=next_row_id, source="it")
    assert (report.source, report.kind) == ("it", "lance")
    return {
        f"{check.name} {check.subject}": f"{check.expected}: {check.actual}"
        for check in report.checks
        if check.status is Status.FAIL
    }


def test_overlap_across_fragments() -> None:
    found = failures(FragmentIds(1, ids(1, 2)), FragmentIds(2, ids(9)), FragmentIds(3, ids(2, 9)))
    assert found == {"overlap fragment 3": "ids of no other fragment: 2 ids (2, 9) also in fragment 1, 2"}
    many = [FragmentIds(i, ids(i)) for i in range(7)]
    found = failures(*many, FragmentIds(9, ids(*range(7))))
    text = "7 ids (0, 1, 2, ...) also in fragment 0, 1, 2, 3, 4, ..."
    assert found == {"overlap fragment 9": f"ids of no other fragment: {text}"}


def test_an_update_keeps_the_id_and_deletes_the_old_row() -> None:
    old, new = (
        FragmentIds(0, RowIdSequence((RangeSegment(0, 10),)), RowSet([3, 4]), 10),
        FragmentIds(1, ids(4, 3), RowSet(), 2),
    )
    assert failures(old, new, next_row_id=10) == {}
    assert failures(new, old, next_row_id=10) == {}
    assert failures(old._replace(deleted=RowSet([3])), new) == {
        "overlap fragment 1": "ids of no other fragment: 1 ids (4) also in fragment 0"
    }
    assert failures(FragmentIds(0, ids(5, 5), RowSet([0]))) == {}
    assert failures(FragmentIds(0, ids(5, 6), RowSet([0, 1])), FragmentIds(1, ids(5, 6))) == {}


def test_ranges_that_are_apart_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    live = create_autospec(lance.live_row_ids, side_effect=lance.live_row_ids)
    monkeypatch.setattr(row_ids, "live_row_ids", live)
    apart = [FragmentIds(i, RowIdSequence((RangeSegment(i << 32, (i + 1) << 32),))) for i in range(3_000)]
    assert failures(*apart, FragmentIds(9_000, RowIdSequence()), next_row_id=3_000 << 32) == {}
    assert not live.called
    touching = RowIdSequence((RangeSegment(2**30, 2**30 + 9), RangeSegment(2**30 + 8, 2**30 + 20)))
    assert failures(FragmentIds(9, touching)) == {
        "duplicates fragment 9": "21 distinct ids: 1 ids (1073741832) more than once"
    }
    assert failures(FragmentIds(3, ids(2, 3)), FragmentIds(4, RowIdSequence((RangeSegment(3, 4),)))) == {
        "overlap fragment 4": "ids of no other fragment: 1 ids (3) also in fragment 3"
    }
    assert live.call_count == 3
    assert failures(apart[1], next_row_id=2**33 - 1) == {"next-row-id fragment 1": f"below {2**33 - 1}: {2**33 - 1}"}
    last = apart[1]._replace(deleted=RowSet([2**32 - 1]))
    assert failures(last, next_row_id=2**33 - 1) == {}
    with pytest.raises(UsageError, match="row offset 9 of a sequence of 9"):
        lance.check_row_ids([FragmentIds(0, RowIdSequence((RangeSegment(0, 9),)), RowSet([9]))])


def test_hazard_ranges_that_overlap_are_bounded() -> None:
    same = RowIdSequence((RangeSegment(0, 2**32),))
    found = failures(*(FragmentIds(i, same) for i in range(4)))
    assert [text.rpartition(": ")[2] for text in found.values()] == [
        f"4294967296 ids (0, 1, 2, ...) also in fragment {', '.join(map(str, range(i)))}" for i in range(1, 4)
    ]
    with pytest.raises(LimitExceeded, match=r"^it: ranges of row ids that overlap: expected at most 262464 blocks"):
        failures(*(FragmentIds(i, same) for i in range(5)))


@pytest.mark.parametrize("next_row_id", [None, TOP])
@pytest.mark.parametrize("stop", [2**63, TOP])
def test_ranges_end_below_2_to_the_63(stop: int, next_row_id: int | None) -> None:
    one = RowIdSequence((RangeSegment(5, 6), RangeSegment(stop - 3, stop)))
    found = failures(FragmentIds(0, one), FragmentIds(1, one), next_row_id=next_row_id)
    assert found == {f"next-row-id fragment {i}": f"below {2**63 - 1}: {stop - 1}" for i in range(2)}
    fits = RowIdSequence((RangeSegment(2**63 - 3, 2**63 - 1),))
    assert failures(FragmentIds(0, fits), FragmentIds(1, fits)).keys() == {"overlap fragment 1"}


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.sets(st.integers(0, 11)))), st.integers(0, 55))
def test_ranges_against_a_model(spans: list[tuple[int, int, set[int]]], next_row_id: int) -> None:
    """Live ids of fragments of one range each, some of whose rows are deleted."""
    parts = [
        FragmentIds(i, RowIdSequence((RangeSegment(start, start + count),)), RowSet(row for row in gone if row < count))
        for i, (start, count, gone) in enumerate(spans)
    ]
    expected, seen = [], set[int]()
    for i, (start, count, gone) in enumerate(spans):
        live = set(range(start, start + count)) - {start + row for row in gone}
        expected += [f"overlap fragment {i}"] if live & seen else []
        expected += [f"next-row-id fragment {i}"] if max(live, default=-1) >= next_row_id else []
        seen |= live
    assert list(failures(*parts, next_row_id=next_row_id)) == expected


@given(sequences, st.data())
def test_live_ids_are_those_of_rows_not_deleted(specs: list, data: st.DataObject) -> None:  # type: ignore[type-arg]
    specs = [
        spec for spec in specs if max([spec.end, *spec.values()], default=0) < 2**63 or spec.kind in ("sorted", "array")
    ]
    model = expand(specs)
    gone = data.draw(st.sets(st.integers(0, len(model) - 1))) if model else set()
    sequence = RowIdSequence(tuple(spec.ours() for spec in specs))
    rest = [value for i, value in enumerate(model) if i not in gone]
    if any(value >= 2**63 - 1 for value in rest):
        return
    assert lance.live_row_ids(sequence, RowSet(gone)) == RowSet(rest)
    found = states(FragmentIds(0, sequence, RowSet(gone), len(model) or None))
    repeated = len(set(rest)) < len(rest)
    assert found["duplicates", "fragment 0"] is (Status.FAIL if repeated else Status.PASS)
