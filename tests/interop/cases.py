"""Row sets that between them hold every container kind, every tie, gap keys and every border."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]

CONTAINER = 1 << 16
SHUFFLES = [np.random.default_rng(seed).permutation(CONTAINER) for seed in range(16)]
BORDERS = (0, (1 << 31) - CONTAINER, 1 << 31, (1 << 32) - CONTAINER, 1 << 32, (1 << 33) - CONTAINER)


def unique(values: Positions) -> Positions:
    """Sort and drop duplicates (by sorting: np.unique hashes, which takes longer here)."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def runs(random: np.random.Generator, count: int, cardinality: int) -> Positions:
    """`cardinality` values of one container in exactly `count` runs."""
    lengths = np.ones(count, np.int64)
    lengths += np.bincount(random.integers(0, count, cardinality - count), minlength=count)
    spare = CONTAINER - cardinality - (count - 1)
    gaps = np.bincount(random.integers(0, count + 1, spare), minlength=count + 1)[:count]
    starts = np.cumsum(gaps + np.append(0, lengths[:-1] + 1))
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(cardinality)


def distinct(random: np.random.Generator, count: int) -> Positions:
    """`count` different values of one container, from a few shuffles of all of them (shuffling each time is slow)."""
    shuffle = SHUFFLES[int(random.integers(0, len(SHUFFLES)))]
    return np.take(shuffle, np.arange(count) + int(random.integers(0, CONTAINER)), mode="wrap")


def container(random: np.random.Generator) -> Positions:
    """The values of one container, of a kind drawn by lot."""
    kind = int(random.integers(0, 9))
    if kind == 0:
        return distinct(random, int(random.integers(1, 8)))
    if kind == 1:
        return distinct(random, int(random.integers(1, 4097)))
    if kind == 2:  # the largest array, the smallest bitset
        return distinct(random, int(random.choice([4095, 4096, 4097, 4098])))
    if kind == 3:  # an array as large as its runs: c = 2r + 1, and the two beside it
        count = int(random.integers(1, 1200))
        return runs(random, count, 2 * count + int(random.integers(0, 3)))
    if kind == 4:  # a bitset as large as its runs: r = 2047
        count = int(random.integers(2040, 2056))
        return runs(random, count, int(random.integers(2 * count + 20, 30_000)))
    if kind == 5:
        return np.arange(CONTAINER)
    if kind == 6:
        start = int(random.integers(0, CONTAINER))
        return np.arange(start, int(random.integers(start, CONTAINER)) + 1)
    if kind == 7:
        return distinct(random, int(random.integers(4097, 20_000)))
    count = int(random.integers(1, 40))
    return runs(random, count, int(random.integers(count, 30_000)))


def row_set(random: np.random.Generator) -> Positions:
    """A sorted row set: a few containers, side by side, apart, at borders, or behind gap keys."""
    parts = [np.zeros(0, np.int64)]
    for _ in range(int(random.choice([0, 1, 1, 1, 2, 2, 3, 6]))):
        base = int(random.choice(BORDERS)) if random.random() < 0.3 else CONTAINER * int(random.integers(0, 6))
        if random.random() < 0.1:
            base += int(random.integers(1, 40)) << 32
        parts.append(base + container(random))
    return unique(np.concatenate(parts))


def row_sets(count: int, seed: int) -> list[Positions]:
    """`count` row sets, the same for the same seed; the first few are the smallest and the emptiest."""
    random = np.random.default_rng(seed)
    fixed = [
        np.zeros(0, np.int64),
        np.array([0]),
        np.array([5, (3 << 32) | 7]),
        np.arange(3),
        np.arange(4096) * 2,
        np.array([2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33 - 1]),
        np.array([1 << 45]),
    ]
    return fixed + [row_set(random) for _ in range(count - len(fixed))]


def high_row_sets(count: int, seed: int) -> list[Positions]:
    """Row sets whose keys reach up to the highest of a deletion vector."""
    random = np.random.default_rng(seed)
    highest = 0x7FFFFFFE80000000
    sets = [np.array([highest]), np.array([0, highest - 1, highest])]
    for _ in range(count - len(sets)):
        keys = random.integers(0, 2**31 - 2, int(random.integers(1, 5)))
        sets.append(unique(np.concatenate([(key << 32) + row_set(random) % 2**32 for key in keys])))
    return sets
