"""Random statements against Lance datasets: what is left is what SQLite leaves of the same rows."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pyarrow as pa
import pytest

from dvcodec.tables import audit, open_table
from interop.driver import need
from tables.deleting.statements import matching, random_rows, random_statement, to_sqlite

pytestmark = pytest.mark.interop

STATEMENTS, FRESH, FRAGMENT = 25, 150, 40


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    need(importlib.util.find_spec("lance.fragment") is not None, "pylance")
    need(importlib.util.find_spec("duckdb") is not None, "duckdb")


@pytest.mark.parametrize("stable", [False, True])
def test_random_statements(stable: bool, tmp_path: Path) -> None:
    import lance as pylance

    path, chance = str(tmp_path / "t"), random.Random(19 + stable)
    rows = random_rows(chance, 0)
    left: set[int] = set()
    committed = 0
    for number in range(STATEMENTS):
        if len(left) < FRESH // 2:
            fresh = random_rows(chance, FRESH)
            first = rows.num_rows
            rows = pa.concat_tables([rows, fresh])
            left |= set(range(first, rows.num_rows))
            keyed = fresh.append_column("key", pa.array(range(first, rows.num_rows)))
            mode = "append" if first else "create"
            pylance.write_dataset(keyed, path, mode=mode, max_rows_per_file=FRAGMENT, enable_stable_row_ids=stable)
        statement = random_statement(chance)
        gone = left & matching(to_sqlite(rows), statement)
        by_sql = statement.expression is None or chance.random() < 0.5
        done = open_table(path).delete(statement.sql if by_sql else statement.expression)
        left -= gone
        assert (done.rows, done.committed) == (len(gone), bool(gone)), statement.sql
        committed += done.committed
        found = pylance.dataset(path)
        assert set(found.to_table(columns=["key"])["key"].to_pylist()) == left, statement.sql
        assert found.count_rows() == len(left)
        if number % 10 == 9:
            found.optimize.compact_files(target_rows_per_fragment=100)
    assert committed > STATEMENTS // 3
    assert audit(open_table(path)).findings == ()


SAID_ALIKE = (
    "n BETWEEN -20 AND 30 OR word IS NULL",
    "NOT (x > 3.5 OR flag)",
    "word LIKE '%1%' AND small <> 4",
    "part.deep IN (1, 2, 3, 40, 41, 42)",
    "day < DATE '2026-01-20' OR day IS NULL AND n > 0",
    "n * 3 + small > 25",
)
"""Conditions that mean the same in pylance's SQL."""


def test_the_same_rows_as_by_pylance_on_a_copy(tmp_path: Path) -> None:
    import lance as pylance

    chance, mine, twin = random.Random(7), str(tmp_path / "mine"), str(tmp_path / "twin")
    rows = pa.concat_tables([random_rows(chance, 4 * FRAGMENT) for _ in range(3)])
    rows = rows.append_column("key", pa.array(range(len(rows))))
    for path in (mine, twin):
        pylance.write_dataset(rows, path, max_rows_per_file=FRAGMENT)
    left = len(rows)
    for where in SAID_ALIKE:
        done = open_table(mine).delete(where)
        copy = pylance.dataset(twin)
        copy.delete(where)
        assert 0 < done.rows == left - copy.count_rows() < left, where
        left -= done.rows
        assert pylance.dataset(mine).to_table().sort_by("key").equals(copy.to_table().sort_by("key")), where
    for path in (mine, twin):
        pylance.write_dataset(rows.slice(0, 50), path, mode="append")
        pylance.dataset(path).delete("key % 4 = 1")
    assert pylance.dataset(mine).to_table().sort_by("key").equals(pylance.dataset(twin).to_table().sort_by("key"))
