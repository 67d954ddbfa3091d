"""Coalesce byte ranges: ranges that are close together are read with one request of a few megabytes at most."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from dvcodec.core.ragged import Index
from dvcodec.io.source import Source

WINDOW_BYTES = 1 << 24
WINDOW_VECTORS = 1 << 15
REMOTE_WINDOW_BYTES = 1 << 25
_GAP = 1 << 17
"""Largest gap between two vectors that one window spans."""


def coalesce(offsets: Index, lengths: Index, window: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Group vectors in file order into windows, each read at once.

    Args:
        offsets: int64[n], first byte of each vector, ascending (not checked).
        lengths: int64[n], bytes of each.
        window: maximum bytes of a window, unless a single vector is larger; None = `WINDOW_BYTES`.

    Yields:
        For each window: its first vector, the one after its last, its first byte, and its end.
    """
    ends = np.maximum.accumulate(offsets + lengths) if len(offsets) else offsets
    breaks = np.flatnonzero(offsets[1:] > ends[:-1] + _GAP) + 1
    first = 0
    while first < len(offsets):
        start = int(offsets[first])
        last = max(
            int(np.searchsorted(ends, start + (WINDOW_BYTES if window is None else window), side="right")), first + 1
        )
        gap = int(np.searchsorted(breaks, first, side="right"))
        last = min(last, first + WINDOW_VECTORS, int(breaks[gap]) if gap < len(breaks) else len(offsets))
        yield first, last, start, int((offsets + lengths)[first:last].max())
        first = last


def by_windows(source: Source, offsets: Sequence[int], sizes: Sequence[int]) -> Source:
    """Return a source that reads these byte ranges of a remote file in windows.

    This saves requests where many small ranges are read one after another. Other ranges are read directly; a local
    file is returned unchanged.

    Args:
        source: the file.
        offsets: first byte of each range, in any order; ranges outside the file are ignored.
        sizes: bytes of each.
    """
    if len(offsets) < 2 or not getattr(source, "remote", False):
        return source
    starts, lengths = np.array(offsets, np.int64), np.array(sizes, np.int64)
    there = (starts >= 0) & (lengths > 0) & (lengths <= source.size - starts)
    order = np.argsort(starts[there], kind="stable")
    windows = coalesce(starts[there][order], lengths[there][order], REMOTE_WINDOW_BYTES)
    return _WindowSource(source, [(start, stop) for _, _, start, stop in windows])


class _WindowSource:
    """A source that reads whole windows and keeps the last one."""

    remote = True

    def __init__(self, source: Source, windows: list[tuple[int, int]]) -> None:
        self.name = source.name
        self._source, self._windows = source, windows
        self._starts = [start for start, _ in windows]
        self._start, self._data = 0, memoryview(b"")

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._source.size

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`; see `Source.read`."""
        if not self._start <= offset <= offset + size <= self._start + len(self._data):
            found = bisect_right(self._starts, offset) - 1
            if found < 0 or offset + size > self._windows[found][1]:
                return self._source.read(offset, size)
            start, stop = self._windows[found]
            self._start, self._data = start, self._source.read(start, stop - start)
        return self._data[offset - self._start :][:size]


BLOCK_BYTES = 1 << 16
MAX_BLOCKS = 256
"""Maximum number of cached blocks (16 MiB); the least recently used are evicted."""


class BlockSource:
    """A source that reads another in cached blocks; large reads bypass the cache.

    It saves requests where many small structures point at each other (fields, dictionaries, lists).
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self.size = source.size
        self._source = source
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()

    def read(self, offset: int, size: int) -> memoryview:
        """Return `size` bytes from `offset`.

        Raises:
            Truncated: the range reaches beyond the end of the source.
            OSError: it cannot be read.
        """
        first, last = offset // BLOCK_BYTES, (offset + size - 1) // BLOCK_BYTES
        if offset < 0 or size <= 0 or offset + size > self.size or last > first + 1:
            return self._source.read(offset, size)
        start = first * BLOCK_BYTES
        if first == last:
            return self._block(first)[offset - start : offset - start + size]
        return memoryview((bytes(self._block(first)) + bytes(self._block(last)))[offset - start :][:size])

    def _block(self, number: int) -> memoryview:
        if number in self._blocks:
            self._blocks.move_to_end(number)
        else:
            start = number * BLOCK_BYTES
            self._blocks[number] = self._source.read(start, min(BLOCK_BYTES, self.size - start))
            if len(self._blocks) > MAX_BLOCKS:
                self._blocks.popitem(last=False)
        return self._blocks[number]
