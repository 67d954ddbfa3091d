"""Block cache for remote files."""

from __future__ import annotations

from collections import OrderedDict

from dvcodec.io.source import Source

__all__ = ["BlockSource"]

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
