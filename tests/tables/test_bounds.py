"""Bounds of columns and of row groups: what can be false is, and no matching row is ever left out."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import amounts
from cases import each
from dvcodec.io import open_source
from dvcodec.io.parquet import ColumnChunk, parquet_file
from dvcodec.tables.deleting.predicate import where_finder
from dvcodec.tables.delta.rows import DeltaEvolution
from dvcodec.tables.model import WHOLE, Part
from dvcodec.tables.rows import data_file as row_groups
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds, ending_text, safe_text
from dvcodec.tables.rows.columns import Column, file_columns
from dvcodec.tables.rows.data_file import skipped_groups
from tables.deleting.plain import PlainTable
from tables.deleting.test_skipping import POOLS, random_condition
from tables.deleting.test_skipping import SCHEMA as SKIPPING

N = pc.field("n")
INT = pa.schema([("n", pa.int64())])


def ints(lower: int | None, upper: int | None, **others: bool) -> ColumnBounds:
    ends = [None if end is None else pa.scalar(end, pa.int64()) for end in (lower, upper)]
    return ColumnBounds(ends[0], ends[1], **others)


@each(
    ("where", "known", "may"),
    [
        (N == 5, ints(10, 20), False),
        (N > 20, ints(None, 20), False),
        (N < 10, ints(10, None), False),
        (N.is_null(), ints(10, 20, nulls=False), False),
        (N.is_valid(), ints(None, None, values=False), False),
        (N == 5, ints(None, None, values=False), False),
        ((N == 5) | N.is_null(), ints(10, 20), True),
        (~(N == 5), ints(5, 5), False),
        (N.isin([1, 2]), ints(10, 20), False),
        (~N.isin([5]), ints(5, 5), True),  # true of null
        (N + 1 == 3, ints(10, 20), True),
        (N == 5, ColumnBounds(), True),
        (N == 5, ints(10, 20, nulls=False, values=False), False),  # no rows at all
    ],
)
def test_one_column(where: Any, known: ColumnBounds, may: bool) -> None:
    filtered = FilterBounds(where, INT)
    assert (filtered.may_be_true({"n": known}), filtered.may_be_true({})) == (may, True)


def test_partition_values() -> None:
    for value in (5, "x", b"x", True):
        scalar = pa.scalar(value)
        assert ColumnBounds.of_partition(scalar) == ColumnBounds(scalar, scalar, nulls=False, constant=True)
    null = pa.scalar(None, pa.int64())
    assert ColumnBounds.of_partition(null) == ColumnBounds(values=False, constant=True)
    assert ColumnBounds.of_partition(null).value(pa.int64()) == null
    assert ColumnBounds.of_partition(pa.scalar(float("nan"))) == ColumnBounds(nulls=False)
    zero = pa.scalar(0.0)
    assert ColumnBounds.of_partition(zero) == ColumnBounds(zero, zero, nulls=False)


def test_zero_and_its_negative() -> None:
    schema = pa.schema([("x", pa.float64())])
    where = pc.divide(pc.scalar(1.0), pc.field("x")) < 0
    for zero in (0.0, -0.0):
        known = {"x": ColumnBounds(pa.scalar(zero), pa.scalar(zero))}
        assert FilterBounds(where, schema).may_be_true(known)
        assert not FilterBounds(pc.field("x") > 0, schema).may_be_true(known)


@given(st.text(st.characters(codec="utf-8"), max_size=4), st.text(st.characters(codec="utf-8"), max_size=4))
def test_ending_text(start: str, rest: str) -> None:
    ending = ending_text(start)
    assert ending is None or (start + rest).encode() < ending.encode()
    assert (ending is None) == (not start.strip("\U0010ffff"))


@given(st.text(st.characters(codec="utf-8"), max_size=4), st.text(st.characters(codec="utf-8"), max_size=4))
def test_safe_text(one: str, other: str) -> None:
    if safe_text(one):
        assert (one.encode() < other.encode()) == (one.encode("utf-16-be") < other.encode("utf-16-be"))


def test_filters_that_pyarrow_does_not_evaluate() -> None:
    """Half floats are not compared: nothing is known, and nothing raised."""
    half = pa.schema([("n", pa.float16())])
    assert FilterBounds(pc.field("n") == pa.scalar(1.0).cast(pa.float16()), half).may_be_true(
        {"n": ColumnBounds(nulls=False)}
    )


# ------------------------ row groups that are passed over by the statistics in a footer: none that has a matching row


GROUP, GROUPS, STATEMENTS = 3, 15, amounts.of(15, 40)
WRITERS: dict[str, dict[str, Any]] = {
    "pyarrow": {},
    "integers": {"store_decimal_as_integer": True, "use_dictionary": False, "version": "2.4"},
    "old": {"version": "1.0", "data_page_version": "1.0", "store_schema": False},
}


def random_groups(chance: random.Random) -> pa.Table:
    """Row groups in which each column has few values, or null alone."""

    def values(name: str) -> list[Any]:
        pool = POOLS[name][1]
        some = chance.sample(pool, min(len(pool), chance.randrange(1, 3)))
        if chance.random() < 0.3:
            some = [None] if chance.random() < 0.5 else [None, *some]
        return [chance.choice(some) for _ in range(GROUP)]

    columns = {name: [value for _ in range(GROUPS) for value in values(name)] for name in POOLS}
    return pa.table(columns, SKIPPING)


@pytest.mark.parametrize("writer", WRITERS)
def test_no_row_group_with_a_match_is_skipped(writer: str, tmp_path: Path) -> None:
    """Nothing is known of the data file as a whole; DuckDB and pyarrow say which rows match."""
    duckdb = pytest.importorskip("duckdb", "2.0")
    chance = random.Random(writer)
    rows = random_groups(chance)
    table = PlainTable(tmp_path, rows, bounds=lambda _: ColumnBounds())
    (file,) = table.now.data_files
    pq.write_table(rows, file.location, row_group_size=GROUP, **WRITERS[writer])
    database = duckdb.connect(config={"threads": "1"})
    database.execute("SET TimeZone = 'UTC'")
    numbered = rows.append_column("row", pa.array(range(len(rows))))
    database.register("every", numbered)
    by_sql = by_expression = 0
    for _ in range(STATEMENTS):
        sql, expression = random_condition(chance)
        wanted = [row[0] for row in database.execute(f"SELECT row FROM every WHERE {sql} ORDER BY row").fetchall()]
        for where, matching in ((sql, wanted), (expression, numbered.filter(expression)["row"].to_pylist())):
            finder = where_finder(where)
            finder.prepare(table.now)
            found = finder.find(table.now, file)
            assert list(found.rows) == matching, where
            by_sql += found.groups_skipped * (where is sql)
            by_expression += found.groups_skipped * (where is expression)
    assert min(by_sql, by_expression) > STATEMENTS * GROUPS // 10


def known(path: Path, rows: pa.Table, *columns: Column, size: int = 1, **options: Any) -> list[dict[str, ColumnBounds]]:
    """What the footer says of each row group."""
    pq.write_table(rows, path, row_group_size=size, **options)
    found: list[tuple[int, int, Any]] = []

    def noted(start: int, count: int, bounds: Any) -> bool:
        found.append((start, count, bounds))
        return True

    with open_source(path) as source, parquet_file(source) as file:
        evolution = DeltaEvolution("f", columns, file_columns(file.schema_arrow, "f"))
        assert not skipped_groups(file, evolution, noted)
    assert [(start, count) for start, count, _ in found] == [(i, size) for i in range(0, len(rows), size)]
    return [bounds for _, _, bounds in found]


def test_types_of_the_table(tmp_path: Path) -> None:
    """Values are promoted as the rows are."""
    day = dt.date(2020, 1, 2)
    rows = pa.table({"a": pa.array([7], pa.int32()), "day": pa.array([day]), "s": ["x"]})
    (found,) = known(
        tmp_path / "f",
        rows,
        Column("a", type=pa.decimal128(20, 2)),
        Column("day", type=pa.timestamp("us")),
        Column("s", type=pa.string()),
        Column("missing", type=pa.int64()),
    )
    assert {name: bounds.lower.as_py() for name, bounds in found.items() if bounds.lower} == {
        "a": 7,
        "day": dt.datetime(2020, 1, 2),  # noqa: DTZ001
        "s": "x",
    }
    assert found.keys() == {"a", "day", "s"}
    assert all(bounds.lower == bounds.upper and not bounds.nulls for bounds in found.values())


def test_what_is_unknown(tmp_path: Path) -> None:
    """Floats, text cut off within a character, decimals in fixed bytes, nested columns, and what has no statistics."""
    a = Column("a", type=pa.float64())
    (found,) = known(tmp_path / "f", pa.table({"a": [1.5]}), a)
    assert found["a"] == ColumnBounds(nulls=False)
    (found,) = known(tmp_path / "f", pa.table({"a": [1.5]}), a, write_statistics=False)
    assert found["a"] == ColumnBounds()
    (found,) = known(tmp_path / "f", pa.table({"a": pa.array([None], pa.int64())}), Column("a", type=pa.int64()))
    assert found["a"] == ColumnBounds(values=False)
    nested = pa.struct([pa.field("x", pa.int64())])
    column = Column("a", type=nested, children=(Column("x", type=pa.int64()),))
    assert known(tmp_path / "f", pa.table({"a": pa.array([{"x": 1}], nested)}), column) == [{}]
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "b"])
    assert known(tmp_path / "f", rows, Column("b", type=pa.int64())) == [{}]  # a name that is there twice
    fixed = pa.table({"a": pa.array([1], pa.decimal128(10, 2))})
    (found,) = known(tmp_path / "f", fixed, Column("a", type=pa.decimal128(10, 2)))
    assert (found["a"].lower, found["a"].upper) == (None, None)


def chunk(low: bytes | None, high: bytes | None, nulls: int | None = 0) -> ColumnChunk:
    return ColumnChunk(None, None, low, high, nulls)


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little", signed=True)


@pytest.mark.parametrize(
    ("kind", "wanted", "stored", "ends"),
    [
        (pa.int32(), pa.int64(), chunk(number(1), number(9)), (1, 9)),
        (pa.int32(), pa.int32(), chunk(number(-5), number(9), -1), (-5, 9)),
        (pa.int32(), pa.int32(), chunk(b"", number(9), 2), (None, 9)),
        (pa.int32(), pa.int32(), chunk(number(1), b"123456789", None), (1, None)),
        (pa.int8(), pa.int64(), chunk(number(1), number(1000)), (1, None)),
        (pa.int64(), pa.int64(), chunk(number(1), number(9, 8)), (None, 9)),
        (pa.string(), pa.string(), chunk(b"a\xc3", b"b"), (None, "b")),
        (pa.binary(), pa.binary(), chunk(b"a\xc3", b"b"), (b"a\xc3", b"b")),
    ],
    ids=["promoted", "negative", "no bytes", "too many bytes", "beyond the type", "too few bytes", "cut off", "bytes"],
)
def test_bounds_that_are_not_values_are_unknown(
    kind: Any,
    wanted: Any,
    stored: ColumnChunk,
    ends: tuple[Any, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And counts of nulls that a row group cannot have."""
    monkeypatch.setattr(row_groups, "column_chunks", lambda *_: {("a",): [stored]})
    (found,) = known(tmp_path / "f", pa.table({"a": pa.array([None], kind)}), Column("a", type=wanted))
    bounds = found["a"]
    assert tuple(end and end.as_py() for end in (bounds.lower, bounds.upper)) == ends
    assert bounds.values
    assert bounds.nulls is (stored.nulls != 0)


@pytest.mark.parametrize(("part", "skipped"), [(Part(1, 2), {0, 1, 2}), (WHOLE, set())])
def test_row_groups_of_a_part(part: Part, skipped: set[int], tmp_path: Path) -> None:
    """Those of other parts are passed over, and no filter is asked about them."""
    pq.write_table(pa.table({"a": range(12)}), tmp_path / "f", row_group_size=2)
    with open_source(tmp_path / "f") as source, parquet_file(source) as file:
        evolution = DeltaEvolution("f", [Column("a", type=pa.int64())], file_columns(file.schema_arrow, "f"))
        assert skipped_groups(file, evolution, None, part) == skipped
        asked: list[int] = []

        def wanted(start: int, *_: object) -> bool:
            asked.append(start)
            return start != 4

        assert skipped_groups(file, evolution, wanted, part) == skipped | {2}
        assert asked == [2 * number for number in range(6) if number not in skipped]
