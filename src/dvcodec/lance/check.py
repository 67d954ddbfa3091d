"""Checks the row ids of a dataset.

Lance does not check that they are unique, and its indices return wrong rows if they are not. Ids of deleted rows may be
reused: an update deletes the row and writes a new one with the same id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from dvcodec.core.bitmap import merge_touching
from dvcodec.core.errors import LimitExceeded, UsageError
from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import Flags, Index, Values, offsets_of
from dvcodec.core.report import Check, Report, check_that
from dvcodec.core.rowset import RowSet, check_rows
from dvcodec.core.usage import check_integer, check_type
from dvcodec.lance.row_ids import RowIdSequence
from dvcodec.lance.segments import RangeSegment, RangeWithBitmap, RangeWithHoles, Segment

Ranges: TypeAlias = NDArray[np.int64]
"""Half-open ranges, ascending: int64[n, 2]."""
_MOST_ROWS = 1 << 32
"""Rows of a fragment: in a row address, 32 bits are for the offset."""
_TOP = 2**63 - 1
"""Ids in ranges are below it."""
_MOST_BLOCKS, _BLOCKS = 1 << 18, 64
"""Blocks of 65,536 ids in ranges that overlap, and further ones for each fragment, which may have a million rows."""
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
        UsageError: arguments of a wrong type, a deleted row is beyond the end, or a range reaches beyond 2**63 - 1.
        LimitExceeded: more than 2**32 rows, which no fragment has, or rows or ids do not fit in memory.
    """
    _check_arguments(row_ids, deleted)
    if row_ids.count > _MOST_ROWS:
        raise LimitExceeded("row ids of a fragment", expected=f"at most {_MOST_ROWS}", actual=row_ids.count)
    segments = [segment for segment in row_ids.segments if segment.count]
    starts = offsets_of(np.array([segment.count for segment in segments], np.int64))
    removed = deleted.ranges()
    listed: list[tuple[RangeSegment, int]] = []
    parts: list[RowSet] = []
    for segment, start, stop in zip(segments, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if isinstance(segment, RangeSegment):
            listed.append((segment, start))
        else:
            parts.append(_live(segment, _shifted(removed, start, stop)))
    if listed:
        parts.append(_live_ranges(listed, removed))
    return parts[0] if len(parts) == 1 else RowSet().union(*parts)


def _check_arguments(row_ids: RowIdSequence, deleted: RowSet) -> None:
    check_type(row_ids, RowIdSequence, "row_ids", "a RowIdSequence")
    check_rows(deleted, "deleted")
    if deleted and (deleted.max or 0) >= row_ids.count:
        raise UsageError(f"row offset {deleted.max} of a sequence of {row_ids.count}")


def _shifted(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return the parts of ascending ranges that are in ``[start, stop)``, relative to `start`."""
    first, last = np.searchsorted(ranges[:, 1], start, "right"), np.searchsorted(ranges[:, 0], stop, "left")
    return np.clip(ranges[first:last], start, stop) - start


def _live_ranges(segments: list[tuple[RangeSegment, int]], deleted: Ranges) -> RowSet:
    """Return the ids of ranges but for deleted offsets, all at once: there may be thousands of ranges, of a row each.

    Args:
        segments: each with the offset of its first row, ascending.
        deleted: ascending ranges of offsets.
    """
    bounds = _bounds([segment for segment, _ in segments])
    if not len(deleted):
        return RowSet.from_ranges(bounds)
    first = np.array([start for _, start in segments], np.int64)
    last = first + bounds[:, 1] - bounds[:, 0]
    edges = np.unique(np.concatenate([first, last, deleted.ravel()]))
    pieces = np.stack([edges[:-1], edges[1:]], axis=1)[_within(edges[:-1], first, last)]
    pieces = pieces[~_within(pieces[:, 0], *deleted.T)]
    owner = np.searchsorted(first, pieces[:, 0], "right") - 1
    return RowSet.from_ranges(pieces + (bounds[:, 0] - first)[owner, None])


def _within(values: Index, first: Index, last: Index) -> Flags:
    """Return whether each value is in one of the ascending ranges ``[first, last)``."""
    place = np.searchsorted(first, values, "right") - 1
    return (place >= 0) & (values < np.append(last, 0)[place])


def _bounds(segments: Sequence[RangeSegment | RangeWithHoles]) -> Ranges:
    """Return start and end of ranges.

    Raises:
        UsageError: one reaches beyond 2**63 - 1.
    """
    bounds = np.array([(segment.start, segment.end) for segment in segments], np.uint64).reshape(-1, 2)
    if (bounds > _TOP).any():
        raise UsageError(f"a range of row ids reaches to {bounds.max()}, beyond 2**63 - 1")
    return bounds.view(np.int64)


def _live(segment: Segment, deleted: Ranges) -> RowSet:
    """Return the ids of a segment but for deleted offsets: ascending ranges, which are expanded for stored ids only."""
    if isinstance(segment, RangeWithHoles):
        ((start, end),) = _bounds([segment]).tolist()
        holes = segment.holes.to_numpy().view(np.int64)
        removed = np.stack([holes, holes + 1], axis=1)
        if len(deleted):  # a range of offsets becomes one of ids, with the holes in it
            ends = segment.at(np.stack([deleted[:, 0], deleted[:, 1] - 1], axis=1).view(np.uint64)).view(np.int64)
            removed = np.concatenate([removed, ends + np.array([0, 1])])
        removed = merge_touching(removed[np.argsort(removed[:, 0], kind="stable")])
        edges = np.concatenate([[start], removed.ravel(), [end]])
        return RowSet.from_ranges(edges.reshape(-1, 2))
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

    Checks, for each fragment: ``row-count`` (one id per physical row, and at most 2**32), ``duplicates`` (no id twice
    in the fragment), ``overlap`` (no id of an earlier fragment), ``next-row-id`` (all ids below it, and those in ranges
    below 2**63 - 1).
    Ranges that are apart from all other ids are not expanded, however long they are.

    Args:
        fragments: of one dataset version, in any order.
        next_row_id: from the manifest; None skips the check.
        source: name of the dataset in the report.

    Raises:
        UsageError: see `live_row_ids`.
        LimitExceeded: see `live_row_ids`; or ranges that overlap have more than 2**34 ids, and 2**22 for each fragment.
    """
    check_type(fragments, Iterable, "fragments", "an iterable of FragmentIds")
    if next_row_id is not None:
        check_integer(next_row_id, "next_row_id")
    parts = list(fragments)
    for part in parts:
        check_type(part, FragmentIds, "an item of fragments", "a FragmentIds")
        _check_arguments(part.row_ids, part.deleted)
    spans = [[_span(segment) for segment in part.row_ids.segments if segment.count] for part in parts]
    most, blocks = _MOST_BLOCKS + _BLOCKS * len(parts), 0
    checks: list[Check] = []
    seen = _Seen()
    for part, own, apart in zip(parts, spans, _are_apart(parts, spans), strict=True):
        subject = f"fragment {part.fragment}"
        checks.append(_row_count(part, subject))
        highest = max((high for _, high in own), default=None)
        ranges = _ranges(part.row_ids)
        beyond = max((high for _, high in ranges), default=0) >= _TOP
        if part.row_ids.count > _MOST_ROWS or beyond:
            checks += [Check.not_applicable(name, subject) for name in ("duplicates", "overlap")]
            checks.append(_below(highest, min(next_row_id or _TOP, _TOP) if beyond else next_row_id, subject))
        elif apart and (highest is None or next_row_id is None or highest < next_row_id):
            checks += [Check.passed(name, subject) for name in ("duplicates", "overlap")]
            checks.append(_below(highest, next_row_id, subject))
        else:
            blocks += sum((high >> 16) - (low >> 16) + 1 for low, high in ranges)
            if blocks > most:
                expected = f"at most {most} blocks of 65,536 ids for {len(parts)} fragments"
                raise LimitExceeded("ranges of row ids that overlap", source=source, expected=expected, actual=blocks)
            live = live_row_ids(part.row_ids, part.deleted)
            rows = part.row_ids.count - part.deleted.cardinality
            distinct = rows == live.cardinality
            checks.append(
                Check.passed("duplicates", subject)
                if distinct
                else Check.failed("duplicates", subject, None, "row ids", f"{rows} distinct ids", _repeated(part, live))
            )
            common = seen.common(live)
            checks.append(_overlap(common, seen, subject) if common else Check.passed("overlap", subject))
            checks.append(_below(live.max, next_row_id, subject))
            seen.add(part.fragment, live)
    return Report(source, "lance", tuple(checks))


def _span(segment: Segment) -> tuple[int, int]:
    """Return bounds of the ids of a segment, both inclusive; those of ranges with holes are not always ids."""
    if isinstance(segment, RangeSegment | RangeWithHoles | RangeWithBitmap):
        return segment.start, segment.end - 1
    values = segment.values()
    return int(values.min()), int(values.max())


def _ranges(row_ids: RowIdSequence) -> list[tuple[int, int]]:
    """Return the bounds of the segments that list no ids."""
    return [_span(one) for one in row_ids.segments if one.count and isinstance(one, RangeSegment | RangeWithHoles)]


def _are_apart(parts: Sequence[FragmentIds], spans: Sequence[Sequence[tuple[int, int]]]) -> list[bool]:
    """Whether each fragment has ranges only, and none reaches into another segment: all of its ids are distinct."""
    bounds = np.array([span for own in spans for span in own], np.uint64).reshape(-1, 2)
    owners = np.repeat(np.arange(len(spans)), [len(own) for own in spans])
    order = np.argsort(bounds[:, 0], kind="stable")
    low, reach = bounds[order, 0], np.maximum.accumulate(bounds[order, 1])
    group = np.cumsum(np.append(True, low[1:] > reach[:-1])) if len(order) else order
    shared = np.bincount(owners[order], np.bincount(group)[group] > 1, len(spans))
    return [len(_ranges(part.row_ids)) == len(own) and not count
            for part, own, count in zip(parts, spans, shared.tolist(), strict=True)]  # fmt: skip


def _row_count(part: FragmentIds, subject: str) -> Check:
    stated, count = part.physical_rows, part.row_ids.count
    if count > _MOST_ROWS:
        return Check.failed("row-count", subject, None, "row ids", f"at most {_MOST_ROWS}", count)
    if not stated:
        return Check.not_applicable("row-count", subject)
    return check_that(count == stated, "row-count", subject, None, "row ids", stated, count)


def _repeated(part: FragmentIds, live: RowSet) -> str:
    if part.row_ids.count > _MOST_LISTED:
        return f"{live.cardinality} distinct ids"
    ids = np.sort(part.row_ids.mask(part.deleted).to_numpy())
    repeated: Values = np.unique(ids[1:][ids[1:] == ids[:-1]])
    return f"{_some(len(repeated), repeated[:3].tolist())} more than once"


class _Seen:
    """The ids of the fragments so far; also joined, to look through once for each fragment."""

    def __init__(self) -> None:
        self._fragments: dict[int, RowSet] = {}
        self._joined: dict[int, BitMap] = {}
        self._names = 0

    def add(self, fragment: int, ids: RowSet) -> None:
        self._fragments[fragment] = ids
        for key, bitmap in ids.bitmaps.items():
            self._joined.setdefault(key, BitMap()).update(bitmap)

    def common(self, ids: RowSet) -> RowSet:
        """Return the ids that a fragment so far has too."""
        shared = ((key, bitmap) for key, bitmap in ids.bitmaps.items() if key in self._joined)
        return RowSet.from_bitmaps({key: bitmap & self._joined[key] for key, bitmap in shared})

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


def _below(highest: int | None, next_row_id: int | None, subject: str) -> Check:
    if next_row_id is None:
        return Check.not_applicable("next-row-id", subject)
    valid = highest is None or highest < next_row_id
    return check_that(valid, "next-row-id", subject, None, "highest row id", f"below {next_row_id}", highest)


def _some(count: int, first: list[int]) -> str:
    shown = ", ".join(map(str, first))
    return f"{count} ids ({shown}{', ...' if count > len(first) else ''})"
