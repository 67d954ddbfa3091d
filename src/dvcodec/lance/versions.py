"""Lance version sequences: the dataset version in which each row of a fragment was created or last updated.

Specification: Lance's ``rowids.proto``, message ``RowDatasetVersionSequence``; Rust module ``rowids/version.rs``::

    1 run | 1 run | ...          run = 1 span (a U64Segment), 2 version

Runs cover consecutive rows, as many as their span has values. The values have no meaning: compaction keeps those of the
old fragments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dvcodec.core.arguments import as_positions
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import Values
from dvcodec.core.rowset import DEFAULT_MAX_ROWS
from dvcodec.core.usage import check_integer, check_type
from dvcodec.lance import wire
from dvcodec.lance.arrays import expanding
from dvcodec.lance.segments import RangeSegment, Segment, decode_segment

__all__ = ["RowDatasetVersionSequence", "VersionRun", "decode_versions", "encode_versions"]

_TOP = 2**64 - 1
_SPAN, _VERSION = 1, 2


@dataclass(frozen=True, slots=True)
class VersionRun:
    """Consecutive rows with the same version.

    Attributes:
        span: has as many values as the run has rows.
        version: dataset version.
    """

    span: Segment
    version: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.span.count


@dataclass(frozen=True, slots=True)
class RowDatasetVersionSequence:
    """Dataset versions of the physical rows of a fragment, as runs.

    Attributes:
        runs: in row order.
        stored: the decoded bytes, if `runs` would encode to others.

    >>> RowDatasetVersionSequence.from_versions([1, 1, 1, 4]).runs
    (VersionRun(span=RangeSegment(start=0, end=3), version=1), VersionRun(span=RangeSegment(start=3, end=4), version=4))
    """

    runs: tuple[VersionRun, ...] = ()
    stored: bytes | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_versions(cls, versions: ArrayLike | Iterable[int]) -> RowDatasetVersionSequence:
        """Encode one version per row as runs, as Lance's writer does.

        Raises:
            UsageError: not integers from 0 to 2**64 - 1.
        """
        values = as_positions(versions)
        starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else np.zeros(0, np.int64)
        stops = np.append(starts[1:], len(values))
        runs = zip(starts.tolist(), stops.tolist(), values[starts].tolist(), strict=False)
        return cls(tuple(VersionRun(RangeSegment(start, stop), version) for start, stop, version in runs))

    @property
    def count(self) -> int:
        """Number of rows."""
        return sum(run.count for run in self.runs)

    def __len__(self) -> int:
        return self.count

    def to_numpy(self, *, max_rows: int | None = DEFAULT_MAX_ROWS) -> Values:
        """Return the version of each row, in row order: uint64[n].

        Args:
            max_rows: upper bound on expanded rows, because one run can encode 2**64 of them; None for no bound.

        Raises:
            LimitExceeded: more than `max_rows` rows, or more than fit in memory.
        """
        with expanding("versions", self.count, max_rows):
            lengths = np.array([run.count for run in self.runs], np.int64)
            return np.repeat(np.array([run.version for run in self.runs], np.uint64), lengths)

    def get(self, offset: int) -> int | None:
        """Return the version of the row at a physical row offset, None beyond the end.

        Raises:
            UsageError: not an integer.
        """
        check_integer(offset, "offset")
        if offset < 0:
            return None
        for run in self.runs:
            if offset < run.count:
                return run.version
            offset -= run.count
        return None


def encode_versions(sequence: RowDatasetVersionSequence) -> bytes:
    """Encode a version sequence; a decoded one encodes to the same bytes.

    Raises:
        UsageError: not a `RowDatasetVersionSequence`.
    """
    wanted = "a RowDatasetVersionSequence (its method from_versions makes one)"
    check_type(sequence, RowDatasetVersionSequence, "sequence", wanted)
    return sequence.stored if sequence.stored is not None else _encode(sequence.runs)


def _encode(runs: Iterable[VersionRun]) -> bytes:
    return b"".join(
        wire.message(1, wire.message(_SPAN, run.span.encode()), wire.scalar(_VERSION, run.version)) for run in runs
    )


def decode_versions(buf: BytesLike, *, source: str | None = None, base: int = 0) -> RowDatasetVersionSequence:
    """Decode a version sequence.

    Args:
        buf: the message.
        source: name of the file, for errors.
        base: offset of the message in that file, for errors.

    Raises:
        Truncated: the bytes end inside a field.
        NotCanonical: an unknown field, a run without a span, or an invalid span.
        Unsupported: a span of the proposed kind ``RangeWithRuns``.
    """
    cursor = Cursor(buf, source=source, base=base)
    runs: list[VersionRun] = []
    total = 0
    for entry in wire.fields(cursor):
        if entry.number != 1:
            what = "field of RowDatasetVersionSequence"
            raise cursor.error(NotCanonical, what, at=entry.at, expected=1, actual=entry.number)
        window = entry.window(cursor, "run")
        spans: list[Cursor] = []
        version = 0
        for inner in wire.fields(window):
            if inner.number == _SPAN:
                spans.append(inner.window(window, "span"))
            elif inner.number == _VERSION:
                version = inner.integer(window, "version")
        if not spans:
            raise window.error(NotCanonical, "run", at=0, expected="a span")
        run = VersionRun(decode_segment(spans), version)
        total += run.count
        if total > _TOP:
            raise cursor.error(NotCanonical, "rows", at=entry.at, expected=f"at most {_TOP}", actual=total)
        runs.append(run)
    stored = bytes(cursor.view)
    return RowDatasetVersionSequence(tuple(runs), None if _encode(runs) == stored else stored)
