"""Random predicates, each as a pyarrow expression, as SQL text, and as text for SQLite, which is the oracle.

SQLite has neither decimals nor times: it stores prices in cents, and times in microseconds since 1970.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

CALL = cast("Any", pc)
"""Functions that stubs do not know to take expressions."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("x", pa.float64()),
        ("price", pa.decimal128(20, 2)),
        ("word", pa.string()),
        ("day", pa.date32()),
        ("time", pa.timestamp("us", "UTC")),
        ("flag", pa.bool_()),
        ("part", pa.struct([("deep", pa.int64())])),
    ]
)
WORDS = ("", "a", "A", "ab", "b", "it's", "ż", "zz", "\U0001f600", "position")


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Statement:
    """A predicate in three spellings; `expression` is None if pyarrow has none that means the same."""

    sql: str
    sqlite: str
    expression: Any


def random_rows(chance: random.Random, count: int, spread: int = 40) -> pa.Table:
    """Rows of `SCHEMA` with nulls, in a range of their own."""
    base = chance.randrange(-100, 100)

    def one() -> dict[str, Any]:
        def value(make: Callable[[int], Any]) -> Any:
            return None if chance.random() < 0.15 else make(base + chance.randrange(spread))

        return {
            "n": value(lambda i: i),
            "small": value(lambda i: -i),
            "x": value(lambda i: i / 4),
            "price": value(lambda i: Decimal(i) / 4 + 10**15),
            "word": value(lambda i: WORDS[i % len(WORDS)] + str(i)),
            "day": value(lambda i: dt.date(2026, 1, 1) + dt.timedelta(i)),
            "time": value(lambda i: EPOCH + dt.timedelta(days=20_000 + i, microseconds=i % 3)),
            "flag": value(lambda i: i % 2 == 0),
            "part": value(lambda i: {"deep": None if i % 7 == 0 else i}),
        }

    return pa.Table.from_pylist([one() for _ in range(count)], SCHEMA)


def to_sqlite(rows: pa.Table) -> sqlite3.Connection:
    """Load rows, with their number as ``row``."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE rows (row, n, small, x REAL, price, word, day, time, flag, deep)")
    for number, row in enumerate(rows.to_pylist()):
        values = [stored(row[name]) for name in SCHEMA.names[:-1]]
        deep = None if row["part"] is None else row["part"]["deep"]
        database.execute(f"INSERT INTO rows VALUES ({', '.join('?' * 10)})", [number, *values, deep])
    return database


def stored(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value * 100)
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return value.isoformat() if isinstance(value, dt.date) else value


def matching(database: sqlite3.Connection, statement: Statement) -> set[int]:
    return {row for (row,) in database.execute(f"SELECT row FROM rows WHERE {statement.sqlite}")}


def random_statement(chance: random.Random, depth: int = 3) -> Statement:
    """A predicate of comparisons, lists, ranges, null checks, text functions, AND, OR and NOT."""
    if depth and chance.random() < 0.6:
        kind = chance.choice(("AND", "OR", "NOT"))
        one = random_statement(chance, depth - 1)
        if kind == "NOT":
            inverse = None if one.expression is None else ~one.expression
            return Statement(f"NOT ({one.sql})", f"NOT ({one.sqlite})", inverse)
        two = random_statement(chance, depth - 1)
        both: Any = None
        if one.expression is not None and two.expression is not None:
            both = one.expression & two.expression if kind == "AND" else one.expression | two.expression
        return Statement(f"({one.sql}) {kind} ({two.sql})", f"({one.sqlite}) {kind} ({two.sqlite})", both)
    return chance.choice((comparison, comparison, listed, between, null_check, computed, text))(chance)


def operand(chance: random.Random) -> tuple[str, str, Any, Callable[[], tuple[str, str, Any]]]:
    """A column: in SQL, in SQLite, in pyarrow; and what makes values to compare it with."""
    name = chance.choice(SCHEMA.names)
    if name == "part":
        return "part.deep", "deep", pc.field("part", "deep"), lambda: literal(chance, "n")
    spelled = name if chance.random() < 0.7 else chance.choice((name.upper(), f'"{name}"'))
    return spelled, name, pc.field(name), lambda: literal(chance, name)


def literal(chance: random.Random, name: str) -> tuple[str, str, Any]:
    """A value for a column, in SQL, in SQLite and in pyarrow."""
    i = chance.randrange(-110, 150)
    value: Any = {
        "n": i,
        "small": -i,
        "x": i / 4,
        "price": Decimal(i) / 4 + 10**15,
        "word": WORDS[i % len(WORDS)] + str(i),
        "day": dt.date(2026, 1, 1) + dt.timedelta(i),
        "time": EPOCH + dt.timedelta(days=20_000 + i, microseconds=i % 3),
        "flag": i % 2 == 0,
    }[name]
    quoted = "'" + str(value).replace("'", "''") + "'"
    plain = stored(value)
    lite = quoted if isinstance(value, str) else f"'{plain}'" if isinstance(plain, str) else str(plain)
    sql = {"word": quoted, "day": f"DATE {quoted}", "time": f"TIMESTAMPTZ {quoted}"}.get(name, str(value))
    if name in ("day", "time", "n") and chance.random() < 0.3:
        sql = quoted
    elif name in ("n", "small") and chance.random() < 0.3:
        sql += chance.choice((".0", "e0"))
    return sql, lite, pa.scalar(value, SCHEMA.field(name).type)


def comparison(chance: random.Random) -> Statement:
    sql, lite, column, values = operand(chance)
    value = values()
    sign = chance.choice(list(COMPARISONS))
    compare = COMPARISONS[sign]
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    if chance.random() < 0.3:
        return Statement(
            f"{value[0]} {mirrored.get(sign, sign)} {sql}", f"{lite} {sign} {value[1]}", compare(column, value[2])
        )
    return Statement(f"{sql} {sign} {value[0]}", f"{lite} {sign} {value[1]}", compare(column, value[2]))


def listed(chance: random.Random) -> Statement:
    """``IN``; pyarrow's is never null, so that a disjunction takes its place."""
    sql, lite, column, make = operand(chance)
    values = [make() for _ in range(chance.randrange(1, 5))]
    expression = column == values[0][2]
    for value in values[1:]:
        expression = expression | (column == value[2])
    sides = (f"{sql} IN ({', '.join(v[0] for v in values)})", f"{lite} IN ({', '.join(v[1] for v in values)})")
    return Statement(*sides, expression)


def between(chance: random.Random) -> Statement:
    sql, lite, column, make = operand(chance)
    low, high = make(), make()
    expression = (column >= low[2]) & (column <= high[2])
    return Statement(f"{sql} BETWEEN {low[0]} AND {high[0]}", f"{lite} BETWEEN {low[1]} AND {high[1]}", expression)


def null_check(chance: random.Random) -> Statement:
    sql, lite, column, _ = operand(chance)
    if chance.random() < 0.5:
        return Statement(f"{sql} IS NULL", f"{lite} IS NULL", column.is_null())
    return Statement(f"{sql} IS NOT NULL", f"{lite} IS NOT NULL", column.is_valid())


def computed(chance: random.Random) -> Statement:
    """Arithmetic, which no column statistics answer."""
    i, j = chance.randrange(1, 9), chance.randrange(-100, 100)
    sign = chance.choice("<>")
    column = pc.field("n") * i + pc.field("small")
    expression = column < j if sign == "<" else column > j
    return Statement(f"n * {i} + small {sign} {j}", f"n * {i} + small {sign} {j}", expression)


def text(chance: random.Random) -> Statement:
    start = chance.choice(WORDS).replace("'", "''")
    plain = start.replace("''", "'")
    if chance.random() < 0.5:
        size = math.ceil(chance.random() * 4)
        return Statement(f"length(word) > {size}", f"length(word) > {size}", CALL.utf8_length(pc.field("word")) > size)
    return Statement(
        f"word LIKE '{start}%'", f"word GLOB '{start}*'", CALL.starts_with(pc.field("word"), pattern=plain)
    )
