"""Bounded windows over the bytes of a segment in front of its footer, and which parts have claimed which bytes.

Writers give each part bytes of its own, so parts that overlap are refused.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor, first_true
from dvcodec.core.errors import DecodeError, NotCanonical, Truncated
from dvcodec.core.limits import Limits
from dvcodec.core.ragged import Index, gather, offsets_of
from dvcodec.core.varints import bytes_of
from dvcodec.io.source import Source
from dvcodec.zap.footer import NOT


class Claims:
    """Bytes that parts of a segment claim, by kind of part. A part that is read again claims nothing more.

    Parts that share bytes would make a small file as slow to read as a large one: each is read by itself.
    Safe to use from several threads.
    """

    __slots__ = ("_lock", "_sizes", "_spans", "_totals")

    def __init__(self) -> None:
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._sizes: dict[tuple[str, int], int] = {}
        self._totals: dict[str, int] = {}
        self._lock = threading.Lock()

    def add_span(self, kind: str, start: int, stop: int) -> tuple[int, int] | None:
        """Claim the bytes ``[start, stop)``, unless another part of this kind has some of them: return that one."""
        span = (start, stop)
        with self._lock:
            spans = self._spans.setdefault(kind, [])
            i = bisect_left(spans, span)
            near = spans[max(i - 1, 0) : i + 1]
            if span in near:
                return None
            for other in near:
                if other[0] < stop and start < other[1]:
                    return other
            insort(spans, span)
            return None

    def add_size(self, kind: str, part: int, size: int, most: int) -> int | None:
        """Claim bytes for a part that has claimed some of them already.

        Args:
            kind: of the part.
            part: its address.
            size: all bytes of the part that were read so far.
            most: what all parts of this kind may claim together.

        Returns:
            None; or what they would have claimed, if that is more. The bytes are not claimed then.
        """
        with self._lock:  # two threads may read one part
            more = size - self._sizes.get((kind, part), 0)
            if more <= 0:
                return None
            total = self._totals.get(kind, 0) + more
            if total > most:
                return total
            self._totals[kind], self._sizes[kind, part] = total, size
            return None


E = TypeVar("E", bound=DecodeError)


class Pieces(Cursor):
    """A cursor over concatenated pieces of the file, whose errors carry file offsets."""

    __slots__ = ("offsets", "places")

    def __init__(self, joined: NDArray[np.uint8], starts: Index, sizes: Index, source: str) -> None:
        super().__init__(joined, source=source)
        self.places = starts
        self.offsets = offsets_of(sizes)

    def error(self, kind: type[E], what: str, *, at: int | None = None, expected: Any = None, actual: Any = None) -> E:
        """See `Cursor.error`; `at` is a position in the concatenated bytes."""
        here = self.pos if at is None else at
        piece = int(np.searchsorted(self.offsets[1:-1], here, side="right")) if len(self.places) else 0
        place = int(self.places[piece] - self.offsets[piece]) if len(self.places) else 0
        return kind(what, source=self.source, offset=place + here, expected=expected, actual=actual)


class _Keys:
    """Numbers of keys and bytes of keys that were read, by kind and address of what has them; and their totals."""

    __slots__ = ("found", "totals")

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, int], int] = {}
        self.totals = {"max_keys": 0, "max_blob_bytes": 0}


@dataclass(frozen=True, slots=True)
class SegmentData:
    """Bounded reads of a segment; addresses are bytes from the start of the file.

    Attributes:
        source: the file.
        end: bytes before the footer.
        salvage: whether to read chunks that zapx misplaced; see `Segment.open`.
    """

    source: Source
    end: int
    salvage: bool = False
    _keys: _Keys = field(default_factory=_Keys, init=False, repr=False, compare=False)
    _claims: Claims = field(default_factory=Claims, init=False, repr=False, compare=False)

    def claim_span(self, kind: str, start: int, stop: int) -> None:
        """Claim the bytes ``[start, stop)`` for a part of a kind, before it is read; again, if it is read again.

        Raises:
            NotCanonical: another part of that kind has some of them.
        """
        if (other := self._claims.add_span(kind, start, stop)) is not None:
            expected = f"none of bytes {other[0]} to {other[1]}, which another one has"
            raise self.error(f"{kind} overlap", start, expected=expected, actual=f"bytes {start} to {stop}")

    def claim_size(self, kind: str, part: int, size: int) -> None:
        """Claim bytes for a part whose places are not compared, such as the lists of a dictionary.

        Args:
            kind: of the part.
            part: its address.
            size: its bytes that were read so far, at least.

        Raises:
            NotCanonical: all parts of that kind together have more bytes than the segment.
        """
        if (total := self._claims.add_size(kind, part, size, self.end)) is not None:
            raise self.error(f"{kind} overlap", part, expected=f"at most {self.end} bytes", actual=total)

    def count_keys(self, address: int, count: int, limits: Limits, size: int = 0) -> None:
        """Count the keys of the dictionary at an address, and check those of all dictionaries together.

        Keys share states, so that the bytes of a dictionary bound neither their number nor their lengths. A dictionary
        that is read again is not counted again.

        Args:
            address: of the dictionary.
            count: its keys.
            limits: `Limits.max_keys` and `Limits.max_blob_bytes`; each byte of the segment allows one more.
            size: bytes of the keys that were read so far.

        Raises:
            LimitExceeded: more keys, or more bytes of keys.
        """
        self._count("max_keys", "dictionary", address, count, limits)
        self._count("max_blob_bytes", "dictionary", address, size, limits)

    def count_members(self, section: int, count: int, limits: Limits) -> None:
        """Count what a thesaurus lists as keys: bitmaps may list any number of documents in few bytes.

        Args:
            section: its address; several may share terms or names, which are read for each.
            count: its terms, names, and documents of its lists.
            limits: see `count_keys`.

        Raises:
            LimitExceeded: more than these allow.
        """
        self._count("max_keys", "thesaurus", section, count, limits)

    def _count(self, limit: str, kind: str, address: int, count: int, limits: Limits) -> None:
        found, totals = self._keys.found, self._keys.totals
        if (more := count - found.get((limit, kind, address), 0)) > 0:
            found[limit, kind, address] = count
            totals[limit] += more
        if totals[limit] > getattr(limits, limit) + self.end:
            raise limits.exceeded(
                limit, f"{totals[limit]} for {self.end} bytes of the segment", self.source.name, address
            )

    def window(self, start: int, stop: int, what: str) -> Cursor:
        """Return a cursor over ``[start, stop)``; its `base` is `start`.

        Raises:
            Truncated: the window is not before the footer.
        """
        if not 0 <= start <= stop <= self.end:
            raise self.outside(what, start, stop - start)
        return Cursor(self.source.read(start, stop - start), source=self.source.name, base=start)

    def at(self, start: int, room: int, what: str) -> Cursor:
        """Return a cursor over at most `room` bytes from `start`, and at least one.

        Raises:
            Truncated: `start` is not before the footer.
        """
        if not 0 <= start < self.end:
            raise self.outside(what, start, 1)
        return self.window(start, min(start + room, self.end), what)

    def section(self, start: int, room: int, what: str) -> Cursor:
        """Return a cursor after the two addresses of doc values that begin a section; it must have none.

        Raises:
            Truncated: `start` is not before the footer.
            NotCanonical: the section has doc values.
        """
        cursor = self.at(start, room, what)
        for _ in range(2):
            at, place = cursor.pos, cursor.uvarint(f"start of a {what}")
            if place != NOT:
                raise cursor.error(NotCanonical, f"start of a {what}", at=at, expected="no doc values", actual=place)
        return cursor

    def around(self, starts: Index, rooms: NDArray[Any] | int, what: str) -> Cursor:
        """Return one window with `rooms` bytes from each address in `starts`, clipped at the footer.

        Raises:
            Truncated: an address is not before the footer.
        """
        if not len(starts):
            return self.window(0, 0, what)
        low, high = int(starts.min()), int(starts.max())
        if low < 0 or high >= self.end:
            raise self.outside(what, low if low < 0 else high, 1)
        return self.window(low, min(int((starts + rooms).max()), self.end), what)

    def pieces(self, starts: Index, sizes: Index, what: str) -> Pieces:
        """Copy pieces of the file into one window.

        Raises:
            Truncated: one is not before the footer.
            NotCanonical: they overlap: together they are larger than the file.
        """
        if (i := first_true((starts < 0) | (sizes > self.end - starts))) is not None:
            raise self.outside(what, starts[i], sizes[i])
        if int(sizes.sum()) > self.end:
            raise self.error(f"{what} overlap", int(starts[0]), expected=f"at most {self.end}", actual=int(sizes.sum()))
        window = self.around(starts[sizes > 0], sizes[sizes > 0], what)
        joined = gather(bytes_of(window), starts - window.base, sizes) if sizes.any() else np.zeros(0, np.uint8)
        return Pieces(joined, starts, sizes, self.source.name)

    def outside(self, what: str, at: int, size: int) -> DecodeError:
        """Return the error for an address outside the bytes before the footer."""
        actual = f"{max(self.end - at, 0)} left" if at >= 0 else "an address above 2**63"
        return self.error(what, at, Truncated, expected=f"{size} bytes before the footer", actual=actual)

    def error(
        self, what: str, at: int, kind: type[DecodeError] = NotCanonical, *, expected: Any = None, actual: Any = None
    ) -> DecodeError:
        """Return an error at an address."""
        return kind(what, source=self.source.name, offset=at, expected=expected, actual=actual)
