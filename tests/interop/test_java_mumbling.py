"""Mumbling bitmaps, held against Iceberg Java: it reads whole bitmaps, and writes descriptors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import amounts
from battery import flipped
from dvcodec import DecodeError, RowSet, mumbling
from dvcodec.mumbling import HEADER_BYTES, MAX_POSITIONS
from interop.driver import Java
from interop.expect import assert_read

pytestmark = pytest.mark.interop


def some_rows(random: np.random.Generator) -> NDArray[np.int64]:
    """Positions in containers of each kind: none, few, 31, 32 or many of them, in runs or scattered."""
    containers = int(random.choice([1, 2, 3, 255, 256, 257, 600])) if random.random() < 0.9 else 8192
    share = random.choice([0.0005, 0.01, 0.1, 0.13, 0.3, 0.95]) * random.random(containers)
    share[random.random(containers) < random.choice([0, 0.5, 0.99])] = 0
    mask = random.random((containers, 256)) < share[:, None]
    for container in random.integers(0, containers, 3):
        mask[container] = np.arange(256) < random.choice([31, 32, 33, 256])
    rows: NDArray[np.int64] = np.flatnonzero(mask)
    return rows


def test_java_reads_all_positions_of_our_bitmaps(java: Java) -> None:
    random = np.random.default_rng(18)
    cases = [some_rows(random) for _ in range(amounts.of(400, 10_000))]
    cases += [np.array([], np.int64), np.array([MAX_POSITIONS - 1]), np.arange(MAX_POSITIONS)]
    bitmaps = [mumbling.encode(RowSet(case)) for case in cases]
    assert_read(java.decode("mumbling", bitmaps), cases)
    for i, (bitmap, case) in enumerate(zip(bitmaps, cases, strict=True)):
        assert mumbling.decode(bitmap, cardinality=len(case)) == RowSet(case), f"case {i}"


def test_descriptors_equal_javas(java: Java) -> None:
    random = np.random.default_rng(19)
    cases = []
    for _ in range(amounts.of(2_000, 10_000)):
        held = np.minimum(random.geometric(random.choice([0.03, 0.2, 0.9]), random.integers(1, 700)) - 1, 32)
        cases.append(np.maximum(held, random.choice([0, 0, 5, 31])).astype(np.int64))
        cases[-1][-1] += cases[-1][-1] == 0  # the last container of ours holds a position
    for i, (case, theirs) in enumerate(zip(cases, java.encode("pfor", cases), strict=True)):
        rows = np.concatenate([container * 256 + np.arange(held) for container, held in enumerate(case)])
        assert mumbling.encode(RowSet(rows))[HEADER_BYTES:].startswith(theirs), f"case {i}"


def test_what_java_reads_of_a_damaged_bitmap_is_refused_or_the_same(java: Java) -> None:
    """Java checks little, so most damage gives it other rows; what both read has to be the same."""
    random = np.random.default_rng(20)
    bitmaps = []
    for _ in range(amounts.of(1_000, 20_000)):
        bitmap = mumbling.encode(RowSet(random.choice(2_000, random.integers(1, 200))))
        bitmaps.append(flipped(bitmap, int(random.integers(0, 8 * len(bitmap)))))
    accepted = 0
    for bitmap, read in zip(bitmaps, java.decode("mumbling", bitmaps), strict=True):
        try:
            rows = mumbling.decode(bitmap)
        except DecodeError:
            continue
        accepted += 1
        assert read.positions is not None
        assert rows == RowSet(read.positions)
        assert len(rows) == read.cardinality
    assert accepted  # a flipped bit may move a position
