"""Rows by predicates: the same as SQLite finds, and no data file is skipped that has some."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from dvcodec.tables.deleting.predicate import where_finder
from tables.deleting.plain import PlainTable
from tables.deleting.statements import Statement, matching, random_rows, random_statement, to_sqlite

STATEMENTS = 200


def found(table: PlainTable, where: Any) -> tuple[list[set[int]], int]:
    """Rows by data file, and how many files were skipped."""
    finder = where_finder(where)
    finder.prepare(table.now)
    rows, skipped = [], 0
    for file in table.now.data_files:
        if finder.may_match(table.now, file):
            rows.append(set(finder.find(table.now, file)))
        else:
            skipped += 1
            rows.append(set())
    return rows, skipped


@pytest.fixture(scope="module")
def statements() -> list[Statement]:
    chance = random.Random(19)
    return [random_statement(chance) for _ in range(STATEMENTS)]


@pytest.mark.parametrize("kind", ["sql", "expression"])
def test_200_statements(kind: str, statements: list[Statement], tmp_path: Path) -> None:
    if kind == "sql":
        pytest.importorskip("duckdb", "2.0")
    chance = random.Random(7)
    files = [random_rows(chance, count) for count in (60, 1, 90)] + [random_rows(chance, 0)]
    table = PlainTable(tmp_path, *files, row_group_size=50)
    oracles = [to_sqlite(rows) for rows in files]
    skipped = 0
    for statement in statements:
        wanted = [matching(oracle, statement) for oracle in oracles]
        rows, left_out = found(table, getattr(statement, kind))
        assert rows == wanted, statement
        skipped += left_out
    assert skipped > STATEMENTS  # of four files each
