"""Verify the vectors of many windows together: a folder may hold a hundred thousand files of one vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.batch import survey
from dvcodec.core.ragged import Index, offsets_of
from dvcodec.ops.read import ALLOWED
from dvcodec.ops.sniff import ContainerKind
from dvcodec.spark.sources.read_windows import Window

__all__ = ["Verified", "pools", "verify_windows"]


BATCH_BYTES = 1 << 24
BATCH_ROWS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """Verified vectors of several windows; one entry per row.

    Attributes:
        of_window: window of each.
        data: bytes of all frames.
        starts: first byte of each frame in `data`.
        sizes: bytes of each frame in `data`; 0 if it is corrupt.
        cardinality: rows.
        min: lowest position, -1 for none.
        max: highest position, -1 for none.
        mix: int64[n, 3], containers of each kind.
        crc_ok: 1, 0, or -1 for unknown.
        errors: error texts, by index.
    """

    of_window: Index
    data: NDArray[np.uint8]
    starts: Index
    sizes: Index
    cardinality: Index
    min: Index
    max: Index
    mix: Index
    crc_ok: Index
    errors: dict[int, str]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether each has no error."""
        valid = np.ones(len(self.of_window), np.bool_)
        valid[list(self.errors)] = False
        return valid


def pools(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Group windows into batches of bounded size."""
    pool: list[Window] = []
    weight = rows = 0
    for window in windows:
        if pool and (weight + len(window.data) > BATCH_BYTES or rows + len(window.ranges) > BATCH_ROWS):
            yield pool
            pool, weight, rows = [], 0, 0
        pool.append(window)
        weight += len(window.data)
        rows += len(window.ranges)
    if pool:
        yield pool


def verify_windows(pool: list[Window], *, content: bool, verify: bool) -> Verified:
    """Verify the vectors of windows.

    Args:
        pool: windows that were read.
        content: whether they have bytes; without them only ranges are known.
        verify: whether to compare CRCs.
    """
    counts = np.array([len(window.ranges) for window in pool], np.int64)
    of_window = np.repeat(np.arange(len(pool)), counts)
    n = len(of_window)
    none = np.zeros(n, np.int64)
    filled = [window.data for window in pool if len(window.data)]
    data = filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.zeros(0, np.uint8)
    places = offsets_of(np.array([len(window.data) for window in pool], np.int64))[:-1]
    starts = np.concatenate([window.starts for window in pool]) + places[of_window]
    sizes = np.concatenate([window.sizes for window in pool])
    result = Verified(
        of_window,
        data,
        starts,
        sizes,
        none,
        none - 1,
        none - 1,
        np.zeros((n, 3), np.int64),
        np.full(n, -1, np.int64),
        {},
    )
    known = _put_outcomes(pool, offsets_of(counts), result)
    if not content:
        return result
    kinds: dict[ContainerKind, list[int]] = {}
    for i, window in enumerate(pool):
        kinds.setdefault(window.ranges.kind, []).append(i)
    stated = np.concatenate([window.ranges.stated for window in pool])
    for kind, members in kinds.items():
        index = np.flatnonzero(~known if len(kinds) == 1 else ~known & np.isin(of_window, members))
        if not len(index):  # of a kind without frames: read one by one
            continue
        found = survey(
            data,
            starts[index],
            sizes[index],
            allowed=ALLOWED[kind],
            cardinalities=stated[index],
            verify_checksum=verify,
        )
        for name in ("cardinality", "min", "max", "mix"):
            getattr(result, name)[index] = getattr(found, name)
        if verify:
            result.crc_ok[index] = found.crc_ok
        for i, error in found.errors.items():
            row = int(index[i])
            of = int(of_window[row])
            error.source = pool[of].name
            if error.offset is not None:  # an offset in the joined windows; report that in the file
                error.offset += pool[of].base - int(places[of])
            result.errors[row] = str(error)
    result.sizes[~result.valid] = 0
    return result


def _put_outcomes(pool: list[Window], first: Index, result: Verified) -> NDArray[np.bool_]:
    known = np.zeros(len(result.of_window), np.bool_)
    for w, window in enumerate(pool):
        for i, outcome in window.outcomes.items():
            row = int(first[w]) + i
            known[row] = True
            result.cardinality[row], result.min[row], result.max[row] = outcome.cardinality, outcome.min, outcome.max
            result.mix[row] = outcome.mix
            if outcome.error is not None:
                result.errors[row] = outcome.error
    return known
