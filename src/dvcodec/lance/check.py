"""Checks the row ids of a dataset.

Lance does not check that they are unique, and its indices return wrong rows if they are not. Ids of deleted rows may be
reused: an update deletes the row and writes a new one with the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.errors import UsageError
from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import Values
from dvcodec.core.report import Check, Report, check_that
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_integer, check_type
from dvcodec.core.vector_arguments import check_rows
from dvcodec.lance.row_ids import RowIdSequence
from dvcodec.lance.segments import RangeSegment, RangeWithHoles, Segment

__all__ = ["FragmentIds", "check_row_ids", "live_row_ids"]

Ranges: TypeAlias = NDArray[np.int64]
"""Half-open ranges, ascending: int64[n, 2]."""
_MOST_LISTED = 1 << 20
"""Repeated ids are listed for fragments of at most this many ids."""
_MOST_NAMED = 100
"""Fragments for which those with the same ids are named: each time, all may have to be looked through."""


class FragmentIds(NamedTuple):
    """The row ids of one fragment, for `check_row_ids`."""

    fragment: int
    row_ids: RowIdSequence
    deleted: RowSet = RowSet()
    """Deleted physical row offsets; their ids are not checked."""
    physical_rows: int | None = None
    """Rows of the fragment, None if unknown."""


def live_row_ids(row_ids: RowIdSequence, deleted: RowSet = RowSet()) -> RowSet:  # noqa: B008  (immutable)
    """Return the ids of the rows that are not deleted, as a set; ranges are not expanded.

    Args:
        row_ids: row ids of all rows of the fragment, in row order.
        deleted: the deleted rows, 0-based physical offsets in the fragment.

    Raises:
        UsageError: arguments of a wrong type, a deleted row is beyond the end, or a range is beyond 2**63 - 1 or has
            more than 2**40 ids.
        LimitExceeded: rows or ids do not fit in memory.
    """
    check_type(row_ids, RowIdSequence, "row_ids", "a RowIdSequence")
    check_rows(deleted, "deleted")
    if deleted and (deleted.max or 0) >= row_ids.count:
        raise UsageError(f"row offset {deleted.max} of a sequence of {row_ids.count}")
    ranges = deleted.ranges()
    parts: list[RowSet] = []
    start = 0
    for segment in row_ids.segments:
        if segment.count:
            parts.append(_live(segment, _shifted(ranges, start, start + segment.count)))
        start += segment.count
    return RowSet().union(*parts)


def _shifted(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return the parts of ascending ranges that are in ``[start, stop)``, relative to `start`."""
    first, last = np.searchsorted(ranges[:, 1], start, "right"), np.searchsorted(ranges[:, 0], stop, "left")
    return np.clip(ranges[first:last], start, stop) - start


def _live(segment: Segment, deleted: Ranges) -> RowSet:
    """Return the ids of a segment but for deleted offsets: ascending ranges, which are expanded for stored ids only."""
    if isinstance(segment, RangeSegment):
        whole = RowSet.from_ranges([(segment.start, segment.end)])
        return whole - RowSet.from_ranges(deleted + segment.start) if len(deleted) else whole
    if isinstance(segment, RangeWithHoles):
        holes = RowSet(segment.holes.to_numpy())
        whole = RowSet.from_ranges([(segment.start, segment.end)]) - holes
        if len(deleted):  # a range of offsets becomes one of ids, with the holes in it
            ends = segment.at(np.stack([deleted[:, 0], deleted[:, 1] - 1], axis=1).view(np.uint64)).view(np.int64)
            whole -= RowSet.from_ranges(ends + np.array([0, 1]))
        return whole
    with enough_memory(f"{segment.count} row ids", None):
        values = segment.values()
        if len(deleted):
            steps = np.zeros(len(values) + 1, np.int8)
            steps[deleted[:, 0]], steps[deleted[:, 1]] = 1, -1  # ranges do not touch
            values = values[np.cumsum(steps[:-1], dtype=np.int8) == 0]
        return RowSet(values)


def check_row_ids(
    fragments: Iterable[FragmentIds], *, next_row_id: int | None = None, source: str = "<dataset>"
) -> Report:
    """Check that live rows have distinct ids, within a fragment and across fragments.

    Checks, for each fragment: ``row-count`` (one id per physical row), ``duplicates`` (no id twice in the
    fragment), ``overlap`` (no id of an earlier fragment), ``next-row-id`` (all ids below it).

    Args:
        fragments: of one dataset version, in any order.
        next_row_id: from the manifest; None skips the check.
        source: name of the dataset in the report.

    Raises:
        UsageError, LimitExceeded: see `live_row_ids`.
    """
    check_type(fragments, Iterable, "fragments", "an iterable of FragmentIds")
    if next_row_id is not None:
        check_integer(next_row_id, "next_row_id")
    checks: list[Check] = []
    seen = _Seen()
    for part in fragments:
        check_type(part, FragmentIds, "an item of fragments", "a FragmentIds")
        subject = f"fragment {part.fragment}"
        checks.append(_row_count(part, subject))
        live = live_row_ids(part.row_ids, part.deleted)
        rows = part.row_ids.count - part.deleted.cardinality
        repeats = rows - live.cardinality
        checks.append(
            Check.failed("duplicates", subject, None, "row ids", f"{rows} distinct ids", _repeated(part, live))
            if repeats
            else Check.passed("duplicates", subject)
        )
        common = seen.common(live)
        checks.append(_overlap(common, seen, subject) if common else Check.passed("overlap", subject))
        checks.append(_below(live, next_row_id, subject))
        seen.add(part.fragment, live)
    return Report(source, "lance", tuple(checks))


def _row_count(part: FragmentIds, subject: str) -> Check:
    if not part.physical_rows:
        return Check.not_applicable("row-count", subject)
    stated, count = part.physical_rows, part.row_ids.count
    return check_that(count == stated, "row-count", subject, None, "row ids", stated, count)


def _repeated(part: FragmentIds, live: RowSet) -> str:
    if part.row_ids.count > _MOST_LISTED:
        return f"{live.cardinality} distinct ids"
    ids = np.sort(part.row_ids.mask(part.deleted).to_numpy())
    repeated: Values = np.unique(ids[1:][ids[1:] == ids[:-1]])
    return f"{_some(len(repeated), repeated[:3].tolist())} more than once"


class _Seen:
    """The ids of the fragments so far; also joined, in sets of twice as many fragments each: few to look through."""

    def __init__(self) -> None:
        self._fragments: dict[int, RowSet] = {}
        self._joined: list[tuple[int, RowSet]] = []
        self._names = 0

    def add(self, fragment: int, ids: RowSet) -> None:
        self._fragments[fragment] = ids
        count = 1
        while self._joined and self._joined[-1][0] <= count:
            fewer, others = self._joined.pop()
            count, ids = count + fewer, ids | others
        self._joined.append((count, ids))

    def common(self, ids: RowSet) -> RowSet:
        """Return the ids that a fragment so far has too."""
        return RowSet().union(*(ids & others for _, others in self._joined))

    def having(self, ids: RowSet) -> str:
        """Name the fragments that have some of these ids."""
        self._names += 1
        if self._names > _MOST_NAMED:
            return "other fragments"
        found = islice((fragment for fragment, own in self._fragments.items() if not own.isdisjoint(ids)), 6)
        names = list(map(str, found))
        return f"fragment {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"


def _overlap(common: RowSet, seen: _Seen, subject: str) -> Check:
    text = f"{_some(common.cardinality, list(islice(common, 3)))} also in {seen.having(common)}"
    return Check.failed("overlap", subject, None, "row ids", "ids of no other fragment", text)


def _below(live: RowSet, next_row_id: int | None, subject: str) -> Check:
    if next_row_id is None:
        return Check.not_applicable("next-row-id", subject)
    valid = live.max is None or live.max < next_row_id
    return check_that(valid, "next-row-id", subject, None, "highest row id", f"below {next_row_id}", live.max)


def _some(count: int, first: list[int]) -> str:
    shown = ", ".join(map(str, first))
    return f"{count} ids ({shown}{', ...' if count > len(first) else ''})"
