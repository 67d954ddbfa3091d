"""What the parts of a segment have claimed of its bytes: writers give each part bytes of its own."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort

__all__ = ["Claims"]


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
