"""The bytes of a segment in front of its footer, read by windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Truncated
from dvcodec.io.source import Source

__all__ = ["SegmentData"]

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SegmentData:
    """Where every decoder of a segment reads from; all addresses are bytes from the start of the file.

    Attributes:
        source: the file.
        end: bytes in front of the footer.
    """

    source: Source
    end: int

    def window(self, start: int, stop: int, what: str) -> Cursor:
        """Return a cursor over ``[start, stop)``; its `base` is `start`.

        Raises:
            Truncated: the window leaves the bytes in front of the footer.
        """
        if not 0 <= start <= stop <= self.end:
            raise self.outside(what, start, stop - start)
        return Cursor(self.source.read(start, stop - start), source=self.source.name, base=start)

    def at(self, start: int, room: int, what: str) -> Cursor:
        """Return a cursor over at most `room` bytes from `start`; there must be one at least."""
        if not 0 <= start < self.end:
            raise self.outside(what, start, 1)
        return self.window(start, min(start + room, self.end), what)

    def around(self, starts: Index, rooms: NDArray[Any] | int, what: str) -> Cursor:
        """Return one window that holds `rooms` bytes from each of the addresses `starts`, cut at the footer.

        Raises:
            Truncated: an address is not in front of the footer.
        """
        if not len(starts):
            return self.window(0, 0, what)
        low, high = int(starts.min()), int(starts.max())
        if low < 0 or high >= self.end:
            raise self.outside(what, low if low < 0 else high, 1)
        return self.window(low, min(int((starts + rooms).max()), self.end), what)

    def outside(self, what: str, at: int, size: int) -> Truncated:
        """Return the error that an address leaves the bytes in front of the footer."""
        return Truncated(
            what,
            source=self.source.name,
            offset=at,
            expected=f"{size} bytes in front of the footer",
            actual=f"{max(self.end - at, 0)} left" if at >= 0 else "an address above 2**63",
        )

    def error(self, what: str, at: int, *, expected: object = None, actual: object = None) -> NotCanonical:
        """Return a `NotCanonical` at an address."""
        return NotCanonical(what, source=self.source.name, offset=at, expected=expected, actual=actual)
