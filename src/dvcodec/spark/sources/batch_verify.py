"""Vectors of many windows, checked together: a folder may hold a hundred thousand files of one vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.batch import survey
from dvcodec.core.ragged import offsets_of
from dvcodec.ops.read import ALLOWED
from dvcodec.ops.sniff import ContainerKind
from dvcodec.spark.sources.read_windows import Outcome, Window

__all__ = ["Surveyed", "pools", "surveyed"]

Index = NDArray[np.int64]

BATCH_BYTES = 1 << 24
BATCH_ROWS = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Surveyed:
    """Vectors of several windows, checked; one entry a row.

    Attributes:
        of_window: which window each is of.
        offsets: see `Window`.
        lengths: see `Window`.
        data: bytes of all frames.
        starts: where each frame is in `data`.
        sizes: bytes of each frame in `data`; 0 where it is not sound.
        cardinality: rows.
        min: lowest position, -1 for none.
        max: highest position, -1 for none.
        mix: int64[n, 3], containers of each kind.
        crc_ok: 1, 0, or -1 for unknown.
        errors: what is wrong, by index.
    """

    of_window: Index
    offsets: Index
    lengths: Index
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
    def sound(self) -> NDArray[np.bool_]:
        """Whether each has no error."""
        sound = np.ones(len(self.offsets), np.bool_)
        sound[list(self.errors)] = False
        return sound


def pools(windows: Iterable[Window]) -> Iterator[list[Window]]:
    """Put windows together until there is enough to do at once."""
    pool: list[Window] = []
    weight = rows = 0
    for window in windows:
        if pool and (weight + len(window.data) > BATCH_BYTES or rows + len(window.offsets) > BATCH_ROWS):
            yield pool
            pool, weight, rows = [], 0, 0
        pool.append(window)
        weight += len(window.data)
        rows += len(window.offsets)
    if pool:
        yield pool


def surveyed(pool: list[Window], *, content: bool, verify: bool) -> Surveyed:
    """Check the vectors of windows.

    Args:
        pool: windows that were read.
        content: whether they have their bytes: without, only where vectors are can be told.
        verify: whether CRCs are checked.
    """
    counts = np.array([len(window.offsets) for window in pool], np.int64)
    of_window = np.repeat(np.arange(len(pool)), counts)
    offsets = np.concatenate([window.offsets for window in pool])
    lengths = np.concatenate([window.lengths for window in pool])
    n = len(offsets)
    none = np.zeros(n, np.int64)
    if not content:
        errors = _known_errors(pool, offsets_of(counts))
        empty = np.zeros(0, np.uint8)
        unknown = none - 1
        return Surveyed(
            of_window,
            offsets,
            lengths,
            empty,
            none,
            none,
            none,
            unknown,
            unknown,
            np.zeros((n, 3), np.int64),
            unknown,
            errors,
        )
    filled = [window.data for window in pool if len(window.data)]
    data = filled[0] if len(filled) == 1 else np.concatenate(filled) if filled else np.zeros(0, np.uint8)
    places = offsets_of(np.array([len(window.data) for window in pool], np.int64))[:-1]
    starts = np.concatenate([window.starts for window in pool]) + places[of_window]
    sizes = np.concatenate([window.sizes for window in pool])
    result = Surveyed(
        of_window,
        offsets,
        lengths,
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
    kinds: dict[ContainerKind, list[int]] = {}
    for i, window in enumerate(pool):
        if window.kind is not None:
            kinds.setdefault(window.kind, []).append(i)
    promised = np.concatenate([window.promised for window in pool])
    for kind, members in kinds.items():
        chosen = ~known if len(kinds) == 1 else ~known & np.isin(of_window, members)
        index = np.flatnonzero(chosen)
        if len(index):
            _put_survey(pool, result, places, index, promised, kind, verify=verify)
    result.sizes[~result.sound] = 0
    return result


def _known_errors(pool: list[Window], first: Index) -> dict[int, str]:
    return {
        int(first[w]) + i: outcome.error
        for w, window in enumerate(pool)
        for i, outcome in window.outcomes.items()
        if outcome.error is not None
    }


def _put_outcomes(pool: list[Window], first: Index, result: Surveyed) -> NDArray[np.bool_]:
    known = np.zeros(len(result.offsets), np.bool_)
    for w, window in enumerate(pool):
        for i, outcome in window.outcomes.items():
            at = int(first[w]) + i
            known[at] = True
            _put_outcome(result, at, outcome)
    return known


def _put_outcome(result: Surveyed, at: int, outcome: Outcome) -> None:
    result.cardinality[at], result.min[at], result.max[at] = outcome.cardinality, outcome.min, outcome.max
    result.mix[at] = outcome.mix
    result.crc_ok[at] = -1 if outcome.crc_ok is None else outcome.crc_ok
    if outcome.error is not None:
        result.errors[at] = outcome.error


def _put_survey(
    pool: list[Window],
    result: Surveyed,
    places: Index,
    index: Index,
    promised: Index,
    kind: ContainerKind,
    *,
    verify: bool,
) -> None:
    found = survey(
        result.data,
        result.starts[index],
        result.sizes[index],
        allowed=ALLOWED[kind],
        cardinalities=promised[index],
        verify_checksum=verify,
    )
    for name in ("cardinality", "min", "max", "mix"):
        getattr(result, name)[index] = getattr(found, name)
    if verify:
        result.crc_ok[index] = found.crc_ok
    for i, error in found.errors.items():
        at = int(index[i])
        of = int(result.of_window[at])
        error.source = pool[of].name
        if error.offset is not None:  # counted from the beginning of all windows; people look it up in the file
            error.offset += pool[of].base - int(places[of])
        result.errors[at] = str(error)
