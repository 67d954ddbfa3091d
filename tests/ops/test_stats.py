"""Numbers of a vector, against a count by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import ContainerMix, RowSet, VectorStats, delta, describe, iceberg, paimon, sniff
from samples.containers import SAMPLES, A, B, C

KEY = 1 << 32


def stats_of(data: Any, *, row_count: int | None = None, vector: int = 0) -> VectorStats:
    found = describe(data, row_count=row_count)
    assert len(found) == len(sniff(data).vectors)
    return found[vector]


def kind_by_hand(low: list[int], *, run_optimize: bool) -> str:
    """What Java makes of a container: runs where they are smaller than what the values would take without."""
    runs = sum(1 for i, value in enumerate(low) if i == 0 or low[i - 1] != value - 1)
    plain = 2 * len(low) if len(low) <= 4096 else 8192
    if run_optimize and 2 + 4 * runs < plain:
        return "runs"
    return "arrays" if len(low) <= 4096 else "bitsets"


def count_by_hand(positions: set[int], data: bytes, *, run_optimize: bool = True, gap_keys: bool = True) -> VectorStats:
    containers: dict[int, list[int]] = {}
    for position in sorted(positions):
        containers.setdefault(position >> 16, []).append(position & 0xFFFF)
    kinds = Counter(kind_by_hand(low, run_optimize=run_optimize) for low in containers.values())
    keys = {position >> 32 for position in positions}
    return VectorStats(
        cardinality=len(positions),
        min=min(positions, default=None),
        max=max(positions, default=None),
        size=len(data),
        containers=ContainerMix(kinds["arrays"], kinds["bitsets"], kinds["runs"]),
        bitmaps=len(keys),
        gaps=max(keys) + 1 - len(keys) if keys and gap_keys else 0,
    )


POSITIONS = st.integers(0, 300) | st.integers(0, 1 << 18) | st.integers(0, 5 * KEY)
SETS = st.tuples(
    st.lists(POSITIONS, max_size=30),
    st.lists(st.tuples(POSITIONS, st.integers(1, 9000), st.integers(1, 3)), max_size=2),
).map(
    lambda parts: {*parts[0], *(p for start, count, step in parts[1] for p in range(start, start + count * step, step))}
)


@given(SETS, st.booleans(), st.booleans())
def test_numbers_are_those_counted_by_hand(positions: set[int], run_optimize: bool, gap_keys: bool) -> None:
    blob = iceberg.encode(RowSet(positions), run_optimize=run_optimize, gap_keys=gap_keys)
    expected = count_by_hand(positions, blob, run_optimize=run_optimize, gap_keys=gap_keys)
    found = stats_of(blob)
    assert found == expected
    if positions:
        assert found.density == len(positions) / (max(positions) - min(positions) + 1)
        assert found.bytes_per_row == len(blob) / len(positions)


@each("name", SAMPLES)
def test_size_is_that_of_the_stored_vector(name: str) -> None:
    sample = SAMPLES[name]
    for i, (size, rows) in enumerate(sample.vectors.values()):
        found = stats_of(sample.data, vector=i)
        assert (found.size, found.cardinality, found.min, found.max) == (size, len(rows), rows.min, rows.max)


@each(
    ("data", "containers", "bitmaps", "gaps"),
    [
        (iceberg.encode(RowSet()), (0, 0, 0), 0, 0),
        (iceberg.encode(A), (1, 0, 0), 1, 0),
        (iceberg.encode(B), (0, 0, 1), 1, 0),
        (iceberg.encode(B, run_optimize=False), (1, 0, 0), 1, 0),
        (iceberg.encode(C), (2, 0, 0), 2, 1),
        (iceberg.encode(C, gap_keys=False), (2, 0, 0), 2, 0),
        (delta.encode(C, layout="native"), (2, 0, 0), 2, 1),
        (paimon.encode(RowSet(range(0, 65536, 2)) | B), (0, 1, 0), 1, 0),
        (iceberg.encode(RowSet([KEY - 1, KEY, 70000]) | RowSet(range(0, 20000, 2))), (3, 1, 0), 2, 0),
    ],
)
def test_containers_are_counted(data: bytes, containers: tuple[int, int, int], bitmaps: int, gaps: int) -> None:
    found = stats_of(data)
    assert (tuple(found.containers), found.bitmaps, found.gaps) == (containers, bitmaps, gaps)


@pytest.mark.parametrize(("row_count", "share"), [(None, None), (0, None), (3, 1.0), (6, 0.5), (300, 0.01)])
def test_deleted_share_needs_the_rows_of_the_data_file(row_count: int | None, share: float | None) -> None:
    found = stats_of(iceberg.encode(A), row_count=row_count)
    assert (found.row_count, found.deleted_share) == (row_count, share)


def test_numbers_go_into_json() -> None:
    found = stats_of(iceberg.encode(A), row_count=6)
    assert json.loads(json.dumps(found.to_dict())) == {
        "cardinality": 3,
        "min": 1,
        "max": 5,
        "size": 46,
        "containers": {"arrays": 1, "bitsets": 0, "runs": 0},
        "bitmaps": 1,
        "gaps": 0,
        "row_count": 6,
        "deleted_share": 0.5,
        "density": 0.6,
        "bytes_per_row": 46 / 3,
    }
