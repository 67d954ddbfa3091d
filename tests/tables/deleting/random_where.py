"""Random predicates over all kinds of columns, as SQL text and as pyarrow expressions; DuckDB is the oracle."""

from __future__ import annotations

import datetime as dt
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute

pc = cast("Any", pyarrow.compute)
UTC = dt.timezone.utc
START = dt.datetime(2024, 2, 28, 21, 30, 0, 1)  # noqa: DTZ001  (of a column without a zone)
NESTED = pa.struct([("deep", pa.int64()), ("word", pa.string()), ("inner", pa.struct([("y", pa.float64())]))])
SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("part", pa.string()),
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("price", pa.decimal128(20, 2)),
        ("wide", pa.decimal128(38, 10)),
        ("word", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("time", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("nested", NESTED),
    ]
)
PARTS = ("a b", "100%/ż", None)
WORDS = (
    *("", "a", "A", "ab", "it's", "ż", "z\u0307", "\U0001f600", "\ue000", "%", "_x", "a\\b", "two\nlines", "tab\t"),
    *("-- no comment", "/* nor this", '"quoted"', "null", "{a}", "; DROP TABLE rows", " ", "0"),
)
FLOATS = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Predicate:
    """A predicate.

    Attributes:
        sql: text.
        expression: of pyarrow; None if there is none.
        meaning: what the expression means, as SQL: NaN has no order in pyarrow.
    """

    sql: str
    expression: Any
    meaning: str


def random_rows(chance: random.Random, first: int, count: int) -> pa.Table:
    """Rows with keys from `first`, values in a range of their own, and nulls in every column but the key."""
    base = chance.randrange(-100, 100)

    def one(key: int) -> dict[str, Any]:
        def value(name: str) -> Any:
            return None if chance.random() < 0.1 else value_of(chance, name, base + chance.randrange(40))

        row = {name: value(name) for name in SCHEMA.names[2:-1]}
        deep = {"deep": value("n"), "word": value("word"), "inner": None if key % 7 == 0 else {"y": value("x")}}
        return row | {"key": key, "part": PARTS[chance.randrange(3)], "nested": None if key % 9 == 0 else deep}

    return pa.Table.from_pylist([one(key) for key in range(first, first + count)], SCHEMA)


def value_of(chance: random.Random, name: str, i: int) -> Any:
    """A value for a column, in the order of `i`."""
    if name in ("x", "f") and chance.random() < 0.15:
        return chance.choice(FLOATS)
    return {
        "n": i,
        "small": -i,
        "x": i / 4,
        "f": i / 8,
        "price": Decimal(i) / 4 + 10**15,
        "wide": Decimal(i) * 10**20 + Decimal(i).scaleb(-10),
        "word": f"{i:04}{WORDS[i % len(WORDS)]}" if i % 2 else WORDS[i % len(WORDS)] * 3,
        "raw": bytes([i % 256, 0, 255])[: 1 + i % 3],
        "day": dt.date(2024, 1, 31) + dt.timedelta(i),
        "time": START.replace(tzinfo=UTC) + dt.timedelta(hours=5 * i, microseconds=i % 3),
        "local": START + dt.timedelta(hours=5 * i, microseconds=i % 1001),
        "flag": i % 2 == 0,
        "part": PARTS[i % 2],
        "key": i * 10,
    }[name]


def random_predicate(chance: random.Random, depth: int = 3, *, sql: bool = False) -> Predicate:
    """A predicate of comparisons, lists, ranges, text functions and more, in AND, OR, NOT and CASE.

    Args:
        chance: that it is made by.
        depth: at most.
        sql: whether there may be what has no expression.
    """
    if not depth or chance.random() < 0.4:
        leaves = [comparison, comparison, comparison, listed, between, null_check, like, computed]
        found = chance.choice([*leaves, distinct, function] if sql else leaves)(chance)
        return found if sql or found.expression is not None else comparison(chance)
    kind = chance.choice(("AND", "AND", "OR", "NOT", "CASE"))
    parts = [random_predicate(chance, depth - 1, sql=sql) for _ in range({"NOT": 1, "CASE": 3}.get(kind, 2))]
    form = {"NOT": "NOT ({})", "CASE": "CASE WHEN {} THEN {} ELSE {} END"}.get(kind, f"({{}}) {kind} ({{}})")
    expressions = [part.expression for part in parts]
    expression = None
    if all(one is not None for one in expressions):
        combine: dict[str, Callable[..., Any]] = {
            "NOT": lambda one: ~one,
            "AND": operator.and_,
            "OR": operator.or_,
            "CASE": lambda one, two, three: pc.if_else(pc.coalesce(one, pc.scalar(False)), two, three),
        }
        expression = combine[kind](*expressions)
    return Predicate(
        form.format(*(part.sql for part in parts)), expression, form.format(*(part.meaning for part in parts))
    )


def operand(chance: random.Random) -> tuple[str, str, Any]:
    """A column: its name for `literal`, in SQL, and in pyarrow."""
    name = chance.choice([*SCHEMA.names[1:-1], "nested.deep", "nested.word", "nested.inner.y"])
    if "." in name:
        like = {"deep": "n", "word": "word", "y": "x"}[name.rpartition(".")[2]]
        return like, name, pc.field(*name.split("."))
    spelled = name if chance.random() < 0.7 else chance.choice((name.upper(), f'"{name}"'))
    return name, spelled, pc.field(name)


def literal(chance: random.Random, name: str) -> tuple[str, Any]:
    """A value for a column in SQL and in pyarrow, which floats may be without being NaN."""
    value = value_of(chance, name, chance.randrange(-110, 150))
    while value != value:  # noqa: PLR0124  (NaN)
        value = value_of(chance, name, chance.randrange(-110, 150))
    scalar = pa.scalar(value, SCHEMA.field(name).type)
    quoted = "'" + str(value).replace("'", "''") + "'"
    if name == "raw":
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB", scalar
    if name in ("word", "part"):
        return quoted, scalar
    if name in ("x", "f") and value in FLOATS:
        return f"{quoted}::{'FLOAT' if name == 'f' else 'DOUBLE'}", scalar
    if name in ("day", "time", "local"):
        typed = {"day": "DATE", "time": "TIMESTAMPTZ", "local": "TIMESTAMP"}[name]
        zoned = quoted.replace("+00:00", "+02:30") if name == "time" and chance.random() < 0.3 else quoted
        if zoned != quoted:
            moved = (value + dt.timedelta(hours=2, minutes=30)).replace(tzinfo=None)
            return f"TIMESTAMPTZ '{moved}+02:30'", scalar
        return (quoted if chance.random() < 0.3 else f"{typed} {quoted}"), scalar
    return (f"{value}.0" if name in ("n", "small") and chance.random() < 0.2 else str(value)), scalar


def ordered(name: str, sql: str, sign: str, value: str) -> str:
    """A comparison as pyarrow makes it: NaN is greater than nothing."""
    nan = f" AND NOT isnan({sql})" if name in ("x", "f") and sign in (">", ">=") else ""
    return f"({sql} {sign} {value}{nan})"


def comparison(chance: random.Random) -> Predicate:
    name, sql, column = operand(chance)
    text, scalar = literal(chance, name)
    sign = chance.choice(list(SIGNS))
    written = f"{text} {MIRRORED.get(sign, sign)} {sql}" if chance.random() < 0.3 else f"{sql} {sign} {text}"
    return Predicate(written, SIGNS[sign](column, scalar), ordered(name, sql, sign, text))


def listed(chance: random.Random) -> Predicate:
    """``IN``; pyarrow's ``isin`` is never null."""
    name, sql, column = operand(chance)
    values = [literal(chance, name) for _ in range(chance.randrange(1, 6))]
    text = f"{sql} IN ({', '.join(value for value, _ in values)})"
    if chance.random() < 0.3 and name in ("n", "word", "day", "key"):
        every = pa.array([one.as_py() for _, one in values], SCHEMA.field(name).type)
        return Predicate(text, column.isin(every), f"coalesce({text}, false)")
    if chance.random() < 0.2:
        return Predicate(f"{text[:-1]}, NULL)", None, "")
    return Predicate(text, reduce(operator.or_, (column == one for _, one in values)), text)


def between(chance: random.Random) -> Predicate:
    name, sql, column = operand(chance)
    (low, first), (high, last) = literal(chance, name), literal(chance, name)
    word = chance.choice(("BETWEEN", "NOT BETWEEN"))
    expression = (column >= first) & (column <= last)
    meaning = f"({ordered(name, sql, '>=', low)} AND {sql} <= {high})"
    if word == "BETWEEN":
        return Predicate(f"{sql} BETWEEN {low} AND {high}", expression, meaning)
    return Predicate(f"{sql} NOT BETWEEN {low} AND {high}", ~expression, f"NOT {meaning}")


def null_check(chance: random.Random) -> Predicate:
    _, sql, column = operand(chance)
    if chance.random() < 0.2:
        sql, column = chance.choice((("nested", pc.field("nested")), ("nested.inner", pc.field("nested", "inner"))))
    if chance.random() < 0.5:
        return Predicate(f"{sql} IS NULL", column.is_null(), f"{sql} IS NULL")
    return Predicate(f"{sql} IS NOT NULL", column.is_valid(), f"{sql} IS NOT NULL")


def like(chance: random.Random) -> Predicate:
    sql = chance.choice(("word", "part", "nested.word"))
    word = str(literal(chance, "word" if sql != "part" else "part")[1])
    start, stop = sorted((chance.randrange(len(word) + 1), chance.randrange(len(word) + 1)))
    plain = "".join(f"\\{sign}" if sign in "%_\\" else sign for sign in word[start:stop])
    pattern = chance.choice(("{}%", "%{}", "%{}%", "_{}%", "{}")).format(plain)
    quoted = pattern.replace("'", "''")
    no = chance.choice(("", "NOT "))
    written = f"{sql} {no}LIKE '{quoted}' ESCAPE '\\'"
    expression = pc.match_like(pc.field(*sql.split(".")), pattern=pattern)
    return Predicate(written, ~expression if no else expression, written)


def distinct(chance: random.Random) -> Predicate:
    """What is never null."""
    name, sql, _ = operand(chance)
    if name == "flag" and chance.random() < 0.5:
        return Predicate(f"flag IS {chance.choice(('TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE'))}", None, "")
    no = chance.choice(("", "NOT "))
    return Predicate(f"{sql} IS {no}DISTINCT FROM {literal(chance, name)[0]}", None, "")


def computed(chance: random.Random) -> Predicate:
    """Arithmetic, which no column statistics answer."""
    i, j, sign = chance.randrange(1, 9), chance.randrange(-100, 100), chance.choice(list(SIGNS))
    text = f"n * {i} + small {sign} {j}"
    return Predicate(text, SIGNS[sign](pc.field("n") * i + pc.field("small"), j), text)


def function(chance: random.Random) -> Predicate:
    """Functions of SQL, of columns of all kinds."""
    i = chance.randrange(-60, 60)
    text = chance.choice(
        (
            f"length(word) > {abs(i) % 9}",
            f"upper(word) LIKE '{chance.choice('AZ0')}%'",
            f"contains(word, '{chance.choice(WORDS).replace(chr(39), chr(39) * 2)}')",
            f"date_trunc('month', local) = TIMESTAMP '2024-0{1 + i % 9}-01'",
            f"extract(hour FROM time) < {i % 24}",
            f"day - DATE '2024-02-01' > {i}",
            f"round(price, 1) - {10**15} = {i / 10}",
            f"coalesce(n, small, 0) = {i}",
            f"CAST(n AS VARCHAR) LIKE '%{abs(i) % 10}'",
            f"CASE part WHEN 'a b' THEN n > {i} WHEN '100%/ż' THEN flag END",
            f"if(flag, n, small) BETWEEN {i} AND {i + 20}",
            f"n % {abs(i) + 2} = 1",
            f"x > n + {i}",
            "word = part OR nested.word < word",
        )
    )
    return Predicate(text, None, "")
