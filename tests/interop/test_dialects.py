"""Dialects of roaring, held against the systems that have them: ClickHouse, and Java's maps of 64 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import amounts
from dvcodec import RowSet
from dvcodec.dialects import decode, encode
from interop.cases import Positions, high_row_sets, row_sets, unique
from interop.driver import INTEROP, Java, Program, need
from interop.expect import assert_read

pytestmark = pytest.mark.interop
CLICKHOUSE = INTEROP / "clickhouse"


def test_javas_legacy_mode(java: Java) -> None:
    cases = [*row_sets(amounts.of(200, 2_000), seed=11), *high_row_sets(100, seed=12)]
    for i, (case, theirs) in enumerate(zip(cases, java.encode("roaring64-legacy", cases), strict=True)):
        assert encode(RowSet(case), "java-legacy") == theirs, f"case {i}"
        assert decode(theirs, "java-legacy") == RowSet(case), f"case {i}"
    ours = [encode(RowSet(case), "java-legacy") for case in cases]
    assert_read(java.decode("roaring64-legacy", ours), cases, for_each=True)


def wide_row_sets() -> list[Positions]:
    """Keys that fill nodes of every kind on every level of a tree: 4, 16, 48 and 256 children, and one more."""
    random = np.random.default_rng(13)
    sets = []
    for children in (2, 4, 5, 16, 17, 48, 49, 255, 256):
        for level in range(16, 64, 8):
            keys = random.permutation(256)[:children].astype(np.uint64) & (0xFF if level < 56 else 0x7F)
            low = random.integers(0, 1 << 16, (3, 1), np.uint64) | random.integers(0, 4, (3, 1), np.uint64) << 16
            sets.append(unique((keys << np.uint64(level) | low).reshape(-1).astype(np.int64)))
    return sets


def test_javas_trees(java: Java) -> None:
    """Both ways, and trees from which keys were removed: their nodes shrink later, and places are free."""
    cases = [*row_sets(amounts.of(60, 2_000), seed=21), *high_row_sets(amounts.of(40, 100), seed=22), *wide_row_sets()]
    for i, (case, theirs) in enumerate(zip(cases, java.encode("roaring64-art", cases), strict=True)):
        assert encode(RowSet(case), "java-art") == theirs, f"case {i}"
        assert decode(theirs, "java-art") == RowSet(case), f"case {i}"
    ours = [encode(RowSet(case), "java-art") for case in cases]
    assert_read(java.decode("roaring64-art", ours), cases)
    some = [case for case in cases if len(case) < 20_000]
    for i, (case, theirs) in enumerate(zip(some, java.encode("roaring64-art-worn", some), strict=True)):
        assert decode(theirs, "java-art") == RowSet(case), f"case {i}"


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Program:
    python = CLICKHOUSE / ".venv" / "bin" / "python"
    if not python.exists() and not amounts.long:
        pytest.skip("interop/clickhouse is not built: make interop-clickhouse")
    need(python.exists(), "interop/clickhouse")
    scratch: Path = tmp_path_factory.mktemp("clickhouse")
    return Program([str(python), str(CLICKHOUSE / "drive.py")], scratch)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_group_bitmaps_of_clickhouse(clickhouse: Program, bits: Literal[8, 16, 32, 64]) -> None:
    """Both ways; states of up to 32 values list them in the order of a hash table, so only their rows are equal."""
    limit = 1 << min(bits, 62)
    cases = [unique(case % limit) for case in row_sets(amounts.of(100, 500), seed=bits) if len(case)][:100]
    cases = [case[:5000] for case in cases]
    dialect = f"clickhouse{bits}"
    for i, (case, theirs) in enumerate(zip(cases, clickhouse.encode(str(bits), cases), strict=True)):
        assert decode(theirs, dialect) == RowSet(case), f"case {i}"  # type: ignore[arg-type]
        if len(case) > 32:
            assert encode(RowSet(case), dialect) == theirs, f"case {i}"  # type: ignore[arg-type]
    cases.append(np.array([], np.int64))
    ours = [encode(RowSet(case), dialect) for case in cases]  # type: ignore[arg-type]
    assert_read(clickhouse.decode(str(bits), ours), cases)
