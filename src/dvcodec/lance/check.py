"""Checks the row ids of a dataset.

Lance does not check that they are unique, and its indices return wrong rows if they are not. Ids of deleted rows may be
reused: an update deletes the row and writes a new one with the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np

from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import Values
from dvcodec.core.report import Check, Report, check_that
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_integer, check_type
from dvcodec.core.vector_arguments import check_rows
from dvcodec.lance.row_ids import RowIdSequence
from dvcodec.lance.segments import RangeSegment, RangeWithHoles

__all__ = ["FragmentIds", "check_row_ids", "live_row_ids"]


_MOST_LISTED = 1 << 24
"""Repeated ids are listed for fragments of at most this many ids."""


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
        LimitExceeded: more than 2**30 rows are deleted, or rows or ids do not fit in memory.
    """
    check_type(row_ids, RowIdSequence, "row_ids", "a RowIdSequence")
    check_rows(deleted, "deleted")
    sequence = row_ids.mask(deleted) if deleted else row_ids
    parts = []
    for segment in filter(lambda segment: segment.count, sequence.segments):
        if isinstance(segment, (RangeSegment, RangeWithHoles)):
            whole = RowSet.from_ranges([(segment.start, segment.end)])
            parts.append(whole - RowSet(segment.holes.to_numpy()) if isinstance(segment, RangeWithHoles) else whole)
        else:
            with enough_memory(f"{segment.count} row ids", None):
                parts.append(RowSet(segment.values()))
    return RowSet().union(*parts)


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
    seen: dict[int, RowSet] = {}
    everything = RowSet()
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
        common = everything & live
        checks.append(_overlap(common, seen, subject) if common else Check.passed("overlap", subject))
        checks.append(_below(live, next_row_id, subject))
        seen[part.fragment] = live
        everything = everything | live
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


def _overlap(common: RowSet, seen: dict[int, RowSet], subject: str) -> Check:
    others = [fragment for fragment, ids in seen.items() if not ids.isdisjoint(common)]
    names = ", ".join(map(str, others[:5])) + (", ..." if len(others) > 5 else "")
    text = f"{_some(common.cardinality, list(islice(common, 3)))} also in fragment {names}"
    return Check.failed("overlap", subject, None, "row ids", "ids of no other fragment", text)


def _below(live: RowSet, next_row_id: int | None, subject: str) -> Check:
    if next_row_id is None:
        return Check.not_applicable("next-row-id", subject)
    valid = live.max is None or live.max < next_row_id
    return check_that(valid, "next-row-id", subject, None, "highest row id", f"below {next_row_id}", live.max)


def _some(count: int, first: list[int]) -> str:
    shown = ", ".join(map(str, first))
    return f"{count} ids ({shown}{', ...' if count > len(first) else ''})"
