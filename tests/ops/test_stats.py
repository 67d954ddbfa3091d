"""Numbers of a vector, against a count by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dvcodec import ContainerMix, RowSet, VectorStats, describe, iceberg, sniff
from samples.containers import A

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
