"""Valid inputs to begin with: small files of `tests/vectors`, and row sets built here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dvcodec import RowSet

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"


@cache
def files(*patterns: str, most: int = 4096, count: int = 40) -> tuple[bytes, ...]:
    """Contents of files of at most `most` bytes, each once; of many, some of every size."""
    found: dict[bytes, None] = {}
    for root in (VECTORS, VECTORS / "upstream"):
        for pattern in patterns:
            for path in sorted(root.glob(pattern)):
                if path.is_file() and 0 < path.stat().st_size <= most:
                    found[path.read_bytes()] = None
    ordered = sorted(found, key=lambda data: (len(data), data))
    step = max(len(ordered) / count, 1)
    return tuple(ordered[int(i * step)] for i in range(min(len(ordered), count)))


def row_sets() -> Iterator[RowSet]:
    """Row sets of every kind of container, on both sides of every border, and with several bitmaps."""
    yield RowSet()
    yield RowSet([0])
    yield RowSet([5, 2**31 - 1])
    yield RowSet([65535, 65536])
    yield RowSet.from_ranges([(10, 400)])
    yield RowSet.from_ranges([(0, 65536)])
    yield RowSet.from_ranges([(i << 16, (i << 16) + 9) for i in range(5)])
    yield RowSet([i << 16 for i in range(4)])
    yield RowSet([*range(0, 200, 2), *range(70_000, 70_300)])
    yield RowSet([1, 2**32 + 1, 3 * 2**32 + 2])
    yield RowSet.from_ranges([(2**32 - 3, 2**32 + 3)])


def small_row_sets() -> Iterator[RowSet]:
    """Those of one bitmap."""
    return (rows for rows in row_sets() if (rows.max or 0) < 2**32)
