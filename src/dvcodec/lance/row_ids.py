"""Row ids and versions of Lance datasets, sets of row addresses, and whether row ids are unique.

A sequence has one value for each row of a fragment, including deleted ones, by physical row offset. Row ids are stable
ids of rows; versions are the dataset versions in which rows were created or last updated.

Specification: Lance's ``rowids.proto``; Rust modules ``rowids/serde.rs`` and ``rowids/version.rs``. As strict as the
reader of pylance 14; non-canonical bytes are kept, so that decoding and encoding round-trip::

    RowIdSequence               1 U64Segment | 1 U64Segment | ...                    (see `segments`)
    RowDatasetVersionSequence   1 run | 1 run | ...          run = 1 span (a U64Segment), 2 version

Runs of versions cover consecutive rows, as many as their span has values. The values have no meaning: compaction keeps
those of the old fragments.

Scalar indices store sets of row addresses. An address is fragment << 32 | physical row offset; in datasets with stable
row ids the same structure has ids, and the "fragment" is their high half. Specification: Rust class ``RowAddrTreeMap``
of ``lance-core`` (``RowIdTreeMap`` until 2025)::

    u32 LE entries | u32 LE fragment | u32 LE size | 32-bit portable roaring, `size` bytes | ...      fragments ascend

Size 0 is the whole fragment. (The 64-bit format of Iceberg and Delta has a u64 count and no sizes.)

Lance does not check that row ids are unique, and its indices return wrong rows if they are not. Ids of deleted rows may
be reused: an update deletes the row and writes a new one with the same id.
"""

from __future__ import annotations

import itertools
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pyroaring import BitMap

from dvcodec.core import roaring
from dvcodec.core.cursor import BytesLike, Cursor
from dvcodec.core.errors import LimitExceeded, NotCanonical, Truncated, UsageError
from dvcodec.core.limits import DEFAULT_LIMITS, Limits, check_limits, enough_memory
from dvcodec.core.ragged import Flags, Index, Values, offsets_of
from dvcodec.core.report import Check, Report, check_that
from dvcodec.core.roaring import merge_touching
from dvcodec.core.rowset import DEFAULT_MAX_ROWS, RowSet, as_positions, check_rows
from dvcodec.core.usage import as_count, check_integer, check_type
from dvcodec.lance import segments, wire
from dvcodec.lance.segments import (
    ArraySegment,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
    Segment,
    decode_segment,
    expanding,
)

_TOP = 2**64 - 1
_SLOTS_PER_ID = 4
Part = TypeVar("Part", Segment, "VersionRun")


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
        with expanding("row ids", self.count, max_rows):
            if len(self.segments) == 1:
                return self.segments[0].values()
            return np.concatenate([np.zeros(0, np.uint64), *(segment.values() for segment in self.segments)])

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
        found = _part_of(self.segments, offset)
        return found[0].get(found[1]) if found else None

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
        return RowIdSequence(tuple(_joined(_cut(self.segments, [offset, offset + length])[0])))

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


def _cut(segments: Iterable[Segment], cuts: Sequence[int]) -> list[list[Segment]]:
    """Return the parts of segments between offsets; each segment is decoded once."""
    parts: list[list[Segment]] = [[] for _ in cuts[1:]]
    start = 0
    for segment in segments:
        end = start + segment.count
        low, high = max(start, cuts[0]), min(end, cuts[-1])
        if low < high:
            bounds = [low, *dict.fromkeys(cuts[bisect_right(cuts, low) : bisect_left(cuts, high)]), high]
            for at, piece in zip(bounds, segment.cut([bound - start for bound in bounds]), strict=False):
                parts[bisect_right(cuts, at) - 1].append(piece)
        start = end
    return parts


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


def _part_of(parts: Iterable[Part], offset: int) -> tuple[Part, int] | None:
    """Return the part that a row offset is in, and the offset within it; None beyond the end.

    Raises:
        UsageError: not an integer.
    """
    check_integer(offset, "offset")
    for part in parts if offset >= 0 else ():
        if offset < part.count:
            return part, offset
        offset -= part.count
    return None


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
        found = _part_of(self.runs, offset)
        return found[0].version if found else None


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


TOMBSTONE_FRAGMENT = 0xFFFFFFFF
"""Fragment of deleted rows."""
TOMBSTONE_ADDRESS = 2**64 - 1
"""Address of a deleted row."""
_MIN_ENTRY = 8
_U32 = 2**32


@dataclass(frozen=True, slots=True)
class RowAddrMap:
    """A set of row addresses.

    Attributes:
        fragments: fragment (0 .. 2**32 - 1), ascending -> physical row offsets in it; None is the whole fragment.

    Raises:
        UsageError: a fragment or an offset beyond 32 bits, a fragment without rows, or a wrong type.
    """

    fragments: Mapping[int, RowSet | None]

    def __post_init__(self) -> None:
        check_type(self.fragments, Mapping, "fragments", "a mapping of fragments to RowSet")
        for fragment, rows in self.fragments.items():
            check_integer(fragment, "a fragment")
            check_type(rows, (RowSet, type(None)), f"the rows of fragment {fragment}", "a RowSet or None")
            if not 0 <= fragment < _U32:
                raise UsageError(f"fragment {fragment} is not between 0 and {_U32 - 1}")
            if rows is not None and not rows:
                raise UsageError(f"fragment {fragment} has no rows: omit it")
            if rows is not None and (rows.max or 0) >= _U32:
                raise UsageError(f"row offset {rows.max} of fragment {fragment} is beyond 32 bits")
        ordered = {int(fragment): self.fragments[fragment] for fragment in sorted(self.fragments)}
        object.__setattr__(self, "fragments", MappingProxyType(ordered))

    def __hash__(self) -> int:
        return hash(tuple(self.fragments.items()))

    def __reduce__(self) -> tuple[object, ...]:  # a MappingProxyType cannot be pickled
        return (type(self), (dict(self.fragments),))

    def __contains__(self, address: int) -> bool:
        rows = self.fragments.get(address >> 32, RowSet())
        return rows is None or (address & (_U32 - 1)) in rows

    @property
    def cardinality(self) -> int | None:
        """Number of addresses; None if the map contains a whole fragment."""
        counts = [None if rows is None else rows.cardinality for rows in self.fragments.values()]
        return None if None in counts else sum(count for count in counts if count is not None)

    def to_row_set(self) -> RowSet:
        """Return the addresses (or stable row ids) as a set of 64-bit values.

        Raises:
            UsageError: the map contains a whole fragment.
        """
        whole = next((fragment for fragment, rows in self.fragments.items() if rows is None), None)
        if whole is not None:
            raise UsageError(f"the map contains fragment {whole} as a whole, with an unknown number of rows")
        return RowSet.from_bitmaps({fragment: rows.bitmaps[0] for fragment, rows in self.fragments.items() if rows})

    @classmethod
    def from_row_set(cls, addresses: RowSet) -> RowAddrMap:
        """Return the map of addresses (or stable row ids).

        Raises:
            UsageError: not a `RowSet`.
        """
        check_rows(addresses, "addresses")
        return cls({key: RowSet.from_bitmaps({0: bitmap}) for key, bitmap in addresses.bitmaps.items()})


def decode_row_addr_map(
    buf: BytesLike, *, limits: Limits = DEFAULT_LIMITS, source: str | None = None, base: int = 0
) -> RowAddrMap:
    """Decode a map.

    Args:
        buf: exactly the map.
        limits: `max_cardinality` applies.
        source: name of the file, for errors.
        base: offset of the map in that file, for errors.

    Raises:
        DecodeError: the map is corrupt.
        UsageError: `buf` is not a contiguous buffer, or another argument has a wrong type.
    """
    check_limits(limits)
    cursor = Cursor(buf, source=source, base=base)
    count = cursor.u32le("fragment count")
    if count > cursor.remaining // _MIN_ENTRY:
        most = f"at most {cursor.remaining // _MIN_ENTRY} in {cursor.remaining} bytes"
        raise cursor.error(Truncated, "fragment count", at=0, expected=most, actual=count)
    found: dict[int, RowSet | None] = {}
    last, total = -1, 0
    for _ in range(count):
        entry = cursor.pos
        fragment, size = cursor.u32le("fragment"), cursor.u32le("bitmap size")
        if fragment <= last:
            raise cursor.error(NotCanonical, "fragment", at=entry, expected=f"above {last}", actual=fragment)
        last = fragment
        if not size:
            found[fragment] = None
            continue
        with cursor.restrict_to(size, f"bitmap of fragment {fragment}"):
            view = roaring.walk(cursor)
        total += view.cardinality
        limits.check("max_cardinality", total, cursor, entry)
        if not view.cardinality:
            what = f"bitmap of fragment {fragment}"
            raise cursor.error(NotCanonical, what, at=entry, expected="rows", actual="none")
        found[fragment] = RowSet.from_bitmaps({0: view.load()})
    cursor.expect_end("the map")
    return RowAddrMap(found)


def encode_row_addr_map(rows: RowAddrMap) -> bytes:
    """Encode a map with Lance's bytes: ascending fragments, no run containers.

    Raises:
        UsageError: not a `RowAddrMap`.
    """
    check_type(rows, RowAddrMap, "rows", "a RowAddrMap (RowAddrMap.from_row_set(addresses) makes one)")
    out = [struct.pack("<I", len(rows.fragments))]
    for fragment, offsets in rows.fragments.items():
        data = b"" if offsets is None else roaring.serialize(offsets.bitmaps[0], run_optimize=False)
        out += [struct.pack("<II", fragment, len(data)), data]
    return b"".join(out)


def row_addresses(fragment: int, offsets: ArrayLike) -> NDArray[np.uint64]:
    """Return the addresses of physical row offsets (below 2**32) in a fragment: uint64[n].

    Args:
        fragment: its id.
        offsets: 0-based physical row offsets in it, in the order of the result.

    Raises:
        UsageError: a fragment or an offset beyond 32 bits.
    """
    values = as_positions(offsets)
    fragment = as_count(fragment, "fragment")
    if not 0 <= fragment < _U32 or (len(values) and int(values.max()) >= _U32):
        raise UsageError("fragments and row offsets must fit 32 bits")
    addresses: NDArray[np.uint64] = values | np.uint64(fragment << 32)
    return addresses


def split_row_addresses(addresses: ArrayLike) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return fragments and physical row offsets: uint32[n] each. Tombstones are treated like other addresses.

    Raises:
        UsageError: not integers from 0 to 2**64 - 1.
    """
    values: NDArray[Any] = as_positions(addresses)
    return (values >> np.uint64(32)).astype(np.uint32), values.astype(np.uint32)


Ranges: TypeAlias = NDArray[np.int64]
"""Half-open ranges, ascending: int64[n, 2]."""
_MOST_ROWS = 1 << 32
"""Rows of a fragment: in a row address, 32 bits are for the offset."""
_MOST = 2**63 - 1
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
    if (bounds > _MOST).any():
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
        beyond = max((high for _, high in ranges), default=0) >= _MOST
        if part.row_ids.count > _MOST_ROWS or beyond:
            checks += [Check.not_applicable(name, subject) for name in ("duplicates", "overlap")]
            checks.append(_below(highest, min(next_row_id or _MOST, _MOST) if beyond else next_row_id, subject))
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
                else Check.failed(
                    "duplicates", subject, None, "row ids", f"{rows} distinct ids", _where_repeated(part, live)
                )
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


def _where_repeated(part: FragmentIds, live: RowSet) -> str:
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
