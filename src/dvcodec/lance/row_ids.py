"""Lance's sequences of one value for each row of a fragment, including deleted ones, by physical row offset.

Row ids are stable ids of rows; versions are the dataset versions in which rows were created or last updated.

Specification: Lance's ``rowids.proto``; Rust modules ``rowids/serde.rs`` and ``rowids/version.rs``. As strict as the
reader of pylance 14; non-canonical bytes are kept, so that decoding and encoding round-trip::

    RowIdSequence               1 U64Segment | 1 U64Segment | ...                    (see `segments`)
    RowDatasetVersionSequence   1 run | 1 run | ...          run = 1 span (a U64Segment), 2 version

Runs of versions cover consecutive rows, as many as their span has values. The values have no meaning: compaction keeps
those of the old fragments.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import NotCanonical, UsageError
from dvcodec.core.limits import enough_memory
from dvcodec.core.ragged import Values
from dvcodec.core.rowset import DEFAULT_MAX_ROWS, RowSet, as_positions
from dvcodec.core.usage import as_count, check_integer, check_type
from dvcodec.lance import segments, wire
from dvcodec.lance.arrays import expanding
from dvcodec.lance.segments import ArraySegment, RangeSegment, Segment, decode_segment

_TOP = 2**64 - 1
_SLOTS_PER_ID = 4


@dataclass(frozen=True, slots=True)
class RowIdSequence:
    """Row ids of one fragment: the i-th is that of physical row i.

    Attributes:
        segments: in row order.
        stored: the decoded bytes, if `segments` would encode to others.

    >>> RowIdSequence.from_values([3, 4, 5, 9]).segments
    (RangeWithBitmap(start=3, end=10),)
    """

    segments: tuple[Segment, ...] = ()
    stored: bytes | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_values(cls, values: ArrayLike | Iterable[int]) -> RowIdSequence:
        """Build the segment that Lance's writer chooses for these ids; no segment for no ids.

        Args:
            values: distinct integers from 0 to 2**64 - 1, in row order. A ``range`` is not expanded.

        Raises:
            UsageError: an id is repeated, negative or too large.
        """
        if isinstance(values, range) and values.step == 1 and values.start >= 0 and values.stop <= _TOP:
            return cls((RangeSegment(values.start, values.stop),) if values else ())
        if isinstance(values, range) and (values.stop - values.start) // values.step > DEFAULT_MAX_ROWS:
            raise UsageError(f"{values} is too long: only a range with step 1 below 2**64 - 1 is not expanded")
        ids = as_positions(values)
        if not len(ids):
            return cls()
        chosen = segments.from_values(ids)
        if isinstance(chosen, ArraySegment) and (repeated := _repeated(ids)) is not None:
            raise UsageError(f"row id {repeated} is repeated: the ids of a fragment must be distinct")
        return cls((chosen,))

    @property
    def count(self) -> int:
        """Number of row ids (``len`` is limited to 2**63 - 1)."""
        return sum(segment.count for segment in self.segments)

    def __len__(self) -> int:
        return self.count

    def to_numpy(self, *, max_rows: int | None = DEFAULT_MAX_ROWS) -> Values:
        """Return all row ids in row order: uint64[n].

        Args:
            max_rows: upper bound on expanded ids, because 20 bytes can encode 2**64 of them; None for no bound.

        Raises:
            LimitExceeded: the sequence has more than `max_rows` ids, or more than fit in memory.
        """
        count = self.count
        with expanding("row ids", count, max_rows):
            if len(self.segments) == 1:
                return self.segments[0].values()
            ids = np.empty(count, np.uint64)
            at = 0
            for segment in self.segments:
                values = segment.values()
                ids[at : at + len(values)] = values
                at += len(values)
            return ids

    def position(self, row_id: int) -> int | None:
        """Return the physical row offset of `row_id` (the first if it is repeated), None if it is missing.

        Raises:
            UsageError: not an integer.
        """
        check_integer(row_id, "row_id")
        start = 0
        for segment in self.segments:
            found = segment.position(row_id)
            if found is not None:
                return start + found
            start += segment.count
        return None

    def get(self, offset: int) -> int | None:
        """Return the row id at a physical row offset, None beyond the end.

        Raises:
            UsageError: not an integer.
        """
        check_integer(offset, "offset")
        if offset < 0:
            return None
        for segment in self.segments:
            count = segment.count
            if offset < count:
                return segment.get(offset)
            offset -= count
        return None

    def slice(self, offset: int, length: int) -> RowIdSequence:
        """Return the ids of `length` rows from `offset`, as compaction cuts them.

        Cut segments are re-encoded, adjacent ranges are joined, and empty segments are dropped.

        Raises:
            UsageError: rows beyond the end, or not integers.
        """
        check_integer(offset, "offset")
        check_integer(length, "length")
        count = self.count
        if offset < 0 or length < 0 or offset + length > count:
            raise UsageError(f"rows {offset} to {offset + length} of a sequence of {count}")
        pieces: list[Segment] = []
        for segment in self.segments:
            here = segment.count
            taken = min(here - offset, length)
            if taken > 0:
                pieces.append(segment.slice(offset, taken))
                length -= taken
            offset = max(offset - here, 0)
        return RowIdSequence(tuple(_joined(pieces)))

    def mask(self, offsets: RowSet | Iterable[int] | NDArray[Any]) -> RowIdSequence:
        """Drop the rows at physical row offsets, such as those of a deletion file.

        Segments with dropped rows are re-encoded (an `ArraySegment` stays one); empty segments are dropped.

        Raises:
            UsageError: an offset is negative or beyond the end.
            LimitExceeded: more than 2**30 rows are dropped, or more than fit in memory.
        """
        rows = offsets if isinstance(offsets, RowSet) else RowSet(offsets)
        if (rows.max or 0) >= max(self.count, 1) or (rows and not self.count):
            raise UsageError(f"row offset {rows.max} of a sequence of {self.count}")
        with enough_memory("the rows to drop", None):
            return RowIdSequence(tuple(_masked(self.segments, rows)))


def _repeated(ids: Values) -> int | None:
    """Return the lowest repeated id, None if all are distinct.

    Ids are hashed by their low bits; without a collision there is no duplicate. Only ids that share a slot, usually
    few, are sorted.
    """
    slots = 1 << (_SLOTS_PER_ID * len(ids)).bit_length()
    slot = (ids & np.uint64(slots - 1)).view(np.int64)
    index = np.arange(len(ids), dtype=np.uint32 if len(ids) <= 1 << 32 else np.int64)
    last = np.empty(slots, index.dtype)
    last[slot] = index
    lost = slot[last[slot] != index]
    if not len(lost):
        return None
    shared = np.zeros(slots, np.bool_)
    shared[lost] = True
    ordered = np.sort(ids[shared[slot]])
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    return int(repeated[0]) if len(repeated) else None


def _masked(parts: Iterable[Segment], rows: RowSet) -> Iterator[Segment]:
    """Drop rows from consecutive segments; segments without remaining rows are omitted."""
    start = 0
    dropped = rows.to_numpy(np.uint64)
    for segment in parts:
        count = segment.count
        lo, hi = np.searchsorted(dropped, np.array([start, start + count], np.uint64))
        if hi - lo < count:
            yield segment.mask(dropped[lo:hi] - np.uint64(start)) if hi > lo else segment
        start += count


def rechunk(sequences: Iterable[RowIdSequence], sizes: Iterable[int]) -> list[RowIdSequence]:
    """Redistribute the ids of several fragments to fragments of `sizes` rows, as compaction does.

    Args:
        sequences: the ids of each fragment, in order.
        sizes: rows of each new fragment.

    Raises:
        UsageError: arguments of a wrong type, or the sizes do not add up to the number of ids.
    """
    check_type(sequences, Iterable, "sequences", "an iterable of RowIdSequence")
    check_type(sizes, Iterable, "sizes", "an iterable of numbers of rows")
    sequences, sizes = list(sequences), [as_count(size, "a size") for size in sizes]
    for sequence in sequences:
        _check(sequence)
    whole = RowIdSequence(tuple(itertools.chain.from_iterable(sequence.segments for sequence in sequences)))
    cuts = [0, *itertools.accumulate(sizes)]
    if cuts[-1] != whole.count:
        raise UsageError(f"the sizes add up to {cuts[-1]} rows, expected {whole.count}, the number of row ids")
    return [RowIdSequence(tuple(_joined(pieces))) for pieces in _cut(whole.segments, cuts)]


def _cut(segments: Sequence[Segment], cuts: Sequence[int]) -> Iterator[list[Segment]]:
    """Yield the parts of segments between offsets, each segment cut once."""
    parts = _parts(segments, cuts)
    for at, stop in itertools.pairwise(cuts):
        pieces: list[Segment] = []
        while at < stop:
            count, piece = next(parts)
            pieces.append(piece)
            at += count  # noqa: PLW2901
        yield pieces


def _parts(segments: Sequence[Segment], cuts: Sequence[int]) -> Iterator[tuple[int, Segment]]:
    """Yield the parts of segments, which are cut at all offsets within them, each with the number of its ids."""
    start = 0
    for segment in segments:
        end = start + segment.count
        inner = cuts[bisect_right(cuts, start) : bisect_left(cuts, end)]
        bounds = [start, *sorted(set(inner)), end]
        if start < end:
            counts = [stop - at for at, stop in itertools.pairwise(bounds)]
            yield from zip(counts, segment.cut([bound - start for bound in bounds]), strict=True)
        start = end


def _joined(pieces: Iterable[Segment]) -> Iterator[Segment]:
    """Join adjacent ranges."""
    last: Segment | None = None
    for piece in pieces:
        if isinstance(last, RangeSegment) and isinstance(piece, RangeSegment) and last.end == piece.start:
            last = RangeSegment(last.start, piece.end)
        else:
            if last is not None:
                yield last
            last = piece
    if last is not None:
        yield last


def _encodes_to(parts: Iterable[Segment], stored: bytes) -> bool:
    """Whether segments encode to these bytes, without joining the pieces."""
    pos = 0
    for segment in parts:
        for piece in wire.nested(1, segment.pieces()):
            if not stored.startswith(piece, pos):
                return False
            pos += len(piece)
    return pos == len(stored)


def _check(sequence: object) -> None:
    wanted = "a RowIdSequence (RowIdSequence.from_values(ids) makes one)"
    check_type(sequence, RowIdSequence, "sequence", wanted)


def encode_row_ids(sequence: RowIdSequence) -> bytes:
    """Encode a row-id sequence; a decoded one encodes to the same bytes.

    Not checked: segments built by the caller, such as a `RangeSegment` that ends before its start.

    Raises:
        UsageError: not a `RowIdSequence`.
    """
    _check(sequence)
    if sequence.stored is not None:
        return sequence.stored
    return b"".join(piece for segment in sequence.segments for piece in wire.nested(1, segment.pieces()))


def decode_row_ids(buf: BytesLike, *, source: str | None = None, base: int = 0) -> RowIdSequence:
    """Decode a row-id sequence.

    Args:
        buf: the message (empty for a sequence without ids).
        source: name of the file, for errors.
        base: offset of the message in that file, for errors.

    Raises:
        Truncated: the bytes end inside a field.
        NotCanonical: an unknown field, or an invalid segment.
        Unsupported: a segment of the proposed kind ``RangeWithRuns``.
    """
    cursor = Cursor(buf, source=source, base=base)
    found: list[Segment] = []
    total = 0
    for entry in wire.fields(cursor):
        if entry.number != 1:
            raise cursor.error(NotCanonical, "field of RowIdSequence", at=entry.at, expected=1, actual=entry.number)
        segment = decode_segment([entry.window(cursor, "segment")])
        total += segment.count
        if total > _TOP:
            raise cursor.error(NotCanonical, "row ids", at=entry.at, expected=f"at most {_TOP}", actual=total)
        found.append(segment)
    stored = bytes(cursor.view)
    return RowIdSequence(tuple(found), None if _encodes_to(found, stored) else stored)


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
