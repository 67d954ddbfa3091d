"""Rows by predicates: those of each expression, what is refused, and what partition values alone answer."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import pytest

from cases import each
from dvcodec import RowSet, UsageError
from dvcodec.core.errors import NotCanonical
from dvcodec.tables import DataFile, Snapshot, open_table
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.deleting.run import Found, plan_deletes
from dvcodec.tables.rows.bounds import ColumnBounds
from samples import delta_log
from tables.deleting.finders import Where
from tables.deleting.plain import PlainTable

pytestmark = pytest.mark.libraries

pc = cast("Any", pyarrow.compute)
A, NONE = pc.field("a"), pa.scalar(None, pa.int64())
STRUCTS = pa.array([{"x": 1}, {"x": 2}, None, {"x": None}])


def found(table: PlainTable, where: Any) -> tuple[list[set[int]], int, int]:
    """Rows by data file, and how many files and row groups were skipped."""
    finder = where_finder(where)
    finder.prepare(table.now)
    rows, skipped, groups = [], 0, 0
    for file in table.now.data_files:
        if finder.may_match(table.now, file):
            here = finder.find(table.now, file)
            rows.append(set(here.rows))
            groups += here.groups_skipped
        else:
            skipped += 1
            rows.append(set())
    return rows, skipped, groups


SOME = pa.table({"a": [1, 2, None, 4], "b": ["x", "y", None, "x"], "c": [1.5, math.nan, None, 0.0], "d": [0] * 4})


@each(
    ("where", "rows"),
    [
        (A > 1, {1, 3}),
        (~(A > 1), {0}),
        (NONE == A, set()),
        (~A.isin([1]), {1, 2, 3}),  # never null, as pyarrow has it
        (pc.field("c").is_nan(), {1}),
        (pc.scalar(True), {0, 1, 2, 3}),
        (pc.field("s", "x") == 2, {1}),
        (pc.field("position") == 13, {3}),
        ((A + 1).cast("int8") == 5, {3}),
    ],
)
def test_expressions(where: Any, rows: set[int], tmp_path: Path) -> None:
    table = PlainTable(tmp_path, SOME.append_column("s", STRUCTS).append_column("position", pa.array([10, 11, 12, 13])))
    assert found(table, where)[0] == [rows]


@each(
    ("where", "message"),
    [
        (pc.field("nope") == 1, "plain has no column 'nope': it has a, b, c, d"),
        (pc.field("a", "x") == 1, r"No match for FieldRef.*\(columns a\)"),
        (pc.field(0) == 1, "columns must be given by name, not by number"),
        (A, "bool"),
        (5, "expected a pyarrow expression or SQL text, not int"),
        (None, "not NoneType"),
        (A / pc.field("d") == 1, r"0.parquet: where .*divide by zero.*columns a, d"),
        (pc.field("b").cast("int64") == 1, r"0.parquet: where .*'x'.*columns b"),
    ],
)
def test_refused_expressions(where: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        found(PlainTable(tmp_path, SOME), where)
    assert "\n" not in str(caught.value)


BIG, ZONED, NAIVE = pc.field("big"), pc.field("zoned"), pc.field("naive")
NOON = dt.datetime(2024, 2, 29, 12)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (BIG == 2.0**60, r"0.parquet: where .*compare whole numbers with whole numbers: 2\*\*60, not 2.0\*\*60"),
        (ZONED == NOON, r"give the time a zone like the column's: datetime\(..., tzinfo=timezone.utc\), or none"),
        (NOON.replace(tzinfo=dt.timezone.utc) == NAIVE, "give the time a zone"),
    ],
)
def test_what_pyarrow_does_not_compare(where: Any, message: str, tmp_path: Path) -> None:
    """Although statistics are known: these are not asked."""
    kinds = {"big": pa.int64(), "zoned": pa.timestamp("us", "UTC"), "naive": pa.timestamp("us")}
    rows = pa.table({name: pa.array([2**60, 2**60 + 1], kind) for name, kind in kinds.items()})
    with pytest.raises(UsageError, match=message):
        found(PlainTable(tmp_path, rows), where)


def constant_a(values: pa.ChunkedArray) -> ColumnBounds:
    """As of a partition by `a`; nothing is known of other columns."""
    return ColumnBounds.of_partition(values[0]) if pa.types.is_int64(values.type) else ColumnBounds()


@pytest.mark.parametrize("kind", ["sql", "expression"])
def test_partition_values_alone_answer(kind: str, tmp_path: Path) -> None:
    if kind == "sql":
        pytest.importorskip("duckdb", "2.0")
    files = [pa.table({"a": pa.array([value] * 3, pa.int64()), "b": ["x", "y", None]}) for value in (1, 2, None)]
    table = PlainTable(tmp_path, *files, bounds=constant_a)
    cases: list[tuple[Any, str, list[set[int]]]] = [
        (A == 1, "a = 1", [{0, 1, 2}, set(), set()]),
        (A * 3 == 6, "a * 3 = 6", [set(), {0, 1, 2}, set()]),
        (A.is_null(), "a IS NULL", [set(), set(), {0, 1, 2}]),
        (~(A == 1), "a <> 1", [set(), {0, 1, 2}, set()]),
        (pc.scalar(True), "true", [{0, 1, 2}] * 3),
    ]
    for expression, sql, rows in cases:
        where = sql if kind == "sql" else expression
        assert found(table, where)[0] == rows
    assert table.opened == []
    where = "a = 1 AND b = 'x'" if kind == "sql" else (A == 1) & (pc.field("b") == "x")
    assert found(table, where) == ([{0}, set(), set()], 2, 0)
    assert len(table.opened) == 1


def test_partition_values_do_not_answer_for_files_whose_rows_are_not_counted(tmp_path: Path) -> None:
    """All of them match, and nobody knows how many that are until the file is opened."""
    table = PlainTable(tmp_path, pa.table({"a": pa.array([1] * 3, pa.int64())}), bounds=constant_a)
    finder = where_finder(A == 1)
    finder.prepare(table.now)
    file = replace(table.now.data_files[0], physical_rows=None)
    assert table.opened == []
    assert list(finder.find(table.now, file).rows) == [0, 1, 2]
    assert table.opened == [file.path]


def test_rows_behind_the_end_of_a_file_are_refused(tmp_path: Path) -> None:
    """What a finder says is checked; positions are, before it is asked."""

    class Far(Where):
        def find(self, snapshot: Snapshot, data_file: DataFile) -> Found:  # noqa: ARG002
            return Found(RowSet([5, delta_log.ROWS]))

    table = open_table(delta_log.restored_table(tmp_path / "t"))
    with pytest.raises(
        UsageError, match=r"[ab]\.parquet: row position 128, expected below 128, the rows of the data file"
    ):
        plan_deletes(table.snapshot(), Far("id", bool))


def test_files_that_are_not_as_recorded(tmp_path: Path) -> None:
    table = PlainTable(tmp_path, SOME)
    state: Any = table.states[0]
    table.states = [replace(state, data_files=(replace(state.data_files[0], physical_rows=5),))]
    with pytest.raises(NotCanonical, match="rows of the data file"):
        found(table, A > 1)


@pytest.mark.parametrize(("most", "queries"), [(16, 13), (1, 100), (1 << 14, 1)])
def test_small_row_groups_are_evaluated_together(
    most: int, queries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dvcodec.tables.deleting.matching._JOINED_ROWS", most)
    monkeypatch.setattr("dvcodec.tables.deleting.matching._POSITIONS", 50)
    table = PlainTable(tmp_path, pa.table({"a": range(200)}), row_group_size=2)
    finder = where_finder(A > -1)
    finder.prepare(table.now)
    evaluate = finder.condition.positions
    seen: list[int] = []

    def positions(batch: pa.RecordBatch, known: Any) -> Any:
        seen.append(batch.num_rows)
        return evaluate(batch, known)

    monkeypatch.setattr(type(finder.condition), "positions", staticmethod(positions))
    (file,) = table.now.data_files
    assert finder.find(table.now, file).rows == RowSet(range(200))
    assert (sum(seen), len(seen)) == (200, queries)
