"""The benchmarks' data sets: row positions of one data file, as sorted int64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Positions:
    """Deleted positions of a data file with a given number of rows."""

    name: str
    about: str
    positions: NDArray[np.int64]
    rows: int


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort values and drop duplicates."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])])


def a() -> Positions:
    """1 M random positions of 100 M rows: array containers."""
    chance = np.random.default_rng(1)
    found = distinct(chance.integers(0, 100 * MILLION, 1_005_000))[:MILLION]
    return Positions("a", "1 M random of 100 M rows", found, 100 * MILLION)


def b() -> Positions:
    """8 M random positions of 20 M rows: bitmap containers."""
    found = np.sort(np.random.default_rng(1).permutation(20 * MILLION)[: 8 * MILLION])
    return Positions("b", "8 M random of 20 M rows", found, 20 * MILLION)


def c() -> Positions:
    """10 M positions in 2500 runs of 4000: run containers."""
    found = (np.arange(2500)[:, None] * 8000 + np.arange(4000)).ravel()
    return Positions("c", "10 M in 2500 runs of 4000", found, 20 * MILLION)


def e(count: int = 100 * MILLION) -> Positions:
    """100 M random positions of 500 M rows, or fewer at the same density: bitmap containers."""
    parts, found, rows, at_once = [], 0, 0, 10 * MILLION
    for chance in map(np.random.default_rng, itertools.count(1)):
        part = np.flatnonzero(chance.random(at_once, dtype=np.float32) < 0.2) + rows
        parts.append(part[: count - found])
        found, rows = found + len(parts[-1]), rows + at_once
        if found == count:
            break
    return Positions("e", f"{count // MILLION} M of {5 * count // MILLION} M rows", np.concatenate(parts), rows)


def d() -> Positions:
    """3 % of the customers of a file sorted by customer, 28 rows each on average, as privacy deletes are."""
    chance = np.random.default_rng(1)
    rows = 5 * MILLION
    sizes = chance.geometric(1 / 28, rows // 25)
    starts = np.cumsum(sizes) - sizes
    chosen = (chance.random(len(sizes)) < 0.03) & (starts + sizes <= rows)
    found = np.concatenate([np.arange(a, a + n) for a, n in zip(starts[chosen], sizes[chosen], strict=True)])
    return Positions("d", "3 % of the customers of 5 M rows", found, rows)


def few() -> Positions:
    """1,000 random rows of 5 M."""
    found = np.sort(np.random.default_rng(1).permutation(5 * MILLION)[:1000])
    return Positions("1,000 rows", "1,000 random of 5 M rows", found, 5 * MILLION)


def run() -> Positions:
    """One run of 150,000 rows of 5 M: a day or a batch that was loaded twice."""
    return Positions("one run", "150,000 rows in a run, of 5 M rows", np.arange(MILLION, 1_150_000), 5 * MILLION)


def everything() -> Positions:
    """All of 5 M rows."""
    return Positions("everything", "5 M of 5 M rows", np.arange(5 * MILLION), 5 * MILLION)


THREE: tuple[Callable[[], Positions], ...] = (a, b, c)
"""Large invented sets: one for each kind of container."""
REALISTIC: tuple[Callable[[], Positions], ...] = (d, few, run, everything)
"""Sets as deletes leave them."""
