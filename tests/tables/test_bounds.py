"""Bounds of columns: what can be false of a file is, and a file with a matching row is never left out."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec.tables.rows.bounds import ColumnBounds, FilterBounds, ending_text, may_be_true, safe_text
from tables.deleting.plain import exact_bounds
from tables.deleting.random_where import SCHEMA, random_predicate, random_rows

N = pc.field("n")
INT = pa.schema([("n", pa.int64())])


def ints(lower: int | None, upper: int | None, **others: bool) -> ColumnBounds:
    ends = [None if end is None else pa.scalar(end, pa.int64()) for end in (lower, upper)]
    return ColumnBounds(ends[0], ends[1], **others)


@each(
    ("where", "known", "may"),
    [
        (N == 5, ints(10, 20), False),
        (N == 15, ints(10, 20), True),
        (N > 20, ints(None, 20), False),
        (N < 10, ints(10, None), False),
        (N < 10, ints(None, 20), True),
        (N.is_null(), ints(10, 20), True),
        (N.is_null(), ints(10, 20, nulls=False), False),
        (N.is_null(), ints(None, None, nulls=False), False),
        (N.is_valid(), ints(None, None, values=False), False),
        (N == 5, ints(None, None, values=False), False),
        ((N == 5) | N.is_null(), ints(10, 20), True),
        ((N == 5) | N.is_null(), ints(10, 20, nulls=False), False),
        (~(N == 5), ints(5, 5), False),
        (N.isin([1, 2]), ints(10, 20), False),
        (N.isin([1, 12]), ints(10, 20), True),
        (~N.isin([5]), ints(5, 5), True),  # true of null
        (N + 1 == 3, ints(10, 20), True),
        (N == 5, ColumnBounds(), True),
        (N == 5, ints(10, 20, nulls=False, values=False), False),  # no rows at all
    ],
)
def test_one_column(where: Any, known: ColumnBounds, may: bool) -> None:
    assert may_be_true(where, INT, {"n": known}) is may
    assert may_be_true(where, INT, {})
    filtered = FilterBounds(where, INT)
    assert (filtered.may_be_true({"n": known}), filtered.may_be_true({})) == (may, True)


def loosened(chance: random.Random, rows: pa.Table) -> dict[str, ColumnBounds]:
    """True bounds, some of which are forgotten."""
    found = {}
    for name in rows.schema.names:
        known = exact_bounds(rows.column(name))
        if chance.random() < 0.8:
            lower, upper = (end if chance.random() < 0.8 else None for end in (known.lower, known.upper))
            found[name] = ColumnBounds(
                lower, upper, known.nulls or chance.random() < 0.3, known.values or chance.random() < 0.3
            )
    return found


@settings(max_examples=examples(150), deadline=None)
@given(seed=st.integers(0, 2**40), count=st.integers(0, 6))
def test_no_matching_row_is_left_out(seed: int, count: int) -> None:
    chance = random.Random(seed)
    rows = random_rows(chance, 0, count)
    known = loosened(chance, rows)
    for _ in range(5):
        where = random_predicate(chance).expression
        if rows.filter(where).num_rows:
            assert may_be_true(where, SCHEMA, known), where


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
        assert may_be_true(where, schema, known)
        assert not may_be_true(pc.field("x") > 0, schema, known)


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
