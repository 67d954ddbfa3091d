"""pyarrow expressions: read as they are made, and what statistics may answer of them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import amounts
from cases import each
from dvcodec import UsageError
from dvcodec.tables.deleting.expression import Call, Column, Literal, nodes, parse
from dvcodec.tables.deleting.predicate import weaker, where_finder
from tables.deleting.plain import PlainTable
from tables.deleting.test_skipping import POOLS, random_files
from tables.deleting.test_skipping import SCHEMA as SKIPPING

pc = cast("Any", pyarrow.compute)
NAN = float("nan")
STRUCT = pa.struct([("n", pa.int64()), ("x", pa.float64())])
SCHEMA = pa.schema([*SKIPPING, ("small", pa.int32()), ("st", STRUCT)])
SMALL = [-200, -1, 0, 1, 2, 130, None]


def random_rows(chance: random.Random) -> Iterator[pa.Table]:
    for rows in random_files(chance, None):
        small = sorted((chance.choice(SMALL) for _ in range(len(rows))), key=str)
        structs = [chance.choice([None, {"n": chance.randrange(3), "x": NAN}]) for _ in range(len(rows))]
        yield pa.table([*rows.columns, small, pa.array(structs, STRUCT)], SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PlainTable:
    return PlainTable(tmp_path_factory.mktemp("t"), *random_rows(random.Random(5)), row_group_size=2)


def value_of(chance: random.Random, name: str) -> Any:
    return chance.choice(SMALL[:-1] if name == "small" else POOLS[name][1])


def literal(chance: random.Random, name: str) -> Any:
    """A value near those of a column, of its type or another that pyarrow compares it with."""
    value = value_of(chance, name)
    others: dict[str, list[Callable[[], Any]]] = {
        "n": [lambda: float(value), lambda: value + 0.5, lambda: Decimal(value), lambda: pa.scalar(value)],
        "small": [lambda: pa.scalar(value, pa.int64()), lambda: value + 0.5, lambda: 2**40],
        "x": [lambda: chance.randrange(3), lambda: pa.scalar(0.1, pa.float32()), lambda: pa.scalar(None, pa.float64())],
        "f": [lambda: 0.1, lambda: 1, lambda: 16777217],
        "price": [lambda: 0.1, lambda: 1, lambda: Decimal("0.105")],
        "word": [lambda: bytes(value, "utf-8"), lambda: pa.scalar(value, pa.large_string())],
        "raw": [lambda: "a", lambda: pa.scalar(value, pa.binary(len(value)) if value else pa.binary())],
        "local": [lambda: dt.date(1970, 1, 1), lambda: pa.scalar(1, pa.timestamp("ns"))],
        "time": [lambda: dt.date(1970, 1, 1), lambda: pa.scalar(0, pa.timestamp("s", "America/New_York"))],
        "day": [lambda: dt.datetime(1970, 1, 1, 5), lambda: dt.datetime(1970, 1, 1)],  # noqa: DTZ001
    }
    return chance.choice(others[name])() if name in others and chance.random() < 0.4 else value


def random_expression(chance: random.Random, depth: int = 3) -> Any:
    """Functions and options that statistics may answer, or seem to."""
    if depth and chance.random() < 0.5:
        left, right = (random_expression(chance, depth - 1) for _ in range(2))
        combined: list[Callable[[], Any]] = [
            lambda: left & right,
            lambda: left | right,
            lambda: ~left,
            lambda: pc.and_(left, right),
            lambda: pc.or_(left, right),
            lambda: pc.if_else(left, right, chance.choice((True, False))),
            lambda: pc.coalesce(left, right),
            left.is_null,
            left.is_valid,
            lambda: pc.true_unless_null(left),
        ]
        return chance.choice(combined)()
    name = chance.choice([*POOLS, "small"])
    column: Any = pc.field(name)
    compare = chance.choice((pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal))
    value, words = literal(chance, name), ("n", "small", "x", "f", "price")
    leaves: list[Callable[[], Any]] = [
        lambda: compare(column, value),
        lambda: compare(pc.scalar(value), column),
        lambda: compare(pc.field("st", "n"), chance.randrange(3)),
        column.is_null,
        column.is_valid,
        lambda: pc.field(chance.choice(("x", "f"))).is_null(nan_is_null=True),
        lambda: pc.field("st", "x").is_null(nan_is_null=chance.choice((True, False))),
        lambda: pc.is_in(
            column,
            value_set=pa.array([value_of(chance, name), None], SCHEMA.field(name).type),
            skip_nulls=chance.choice((True, False)),
        ),
        lambda: pc.index_in(column, value_set=pa.array([value_of(chance, name)], SCHEMA.field(name).type)) == 0,
        lambda: compare(column.cast(chance.choice(("int8", "uint8", "float32")), safe=False), chance.randrange(3)),
        lambda: compare(pc.field(chance.choice(words)).cast("int64", safe=False), chance.randrange(3)),
        lambda: compare(pc.field("local").cast(pa.timestamp("s"), safe=False), dt.datetime(2024, 2, 29, 12)),  # noqa: DTZ001
        lambda: pc.match_substring(pc.field("word"), "a", ignore_case=chance.choice((True, False))),
        lambda: compare(
            pc.max_element_wise(pc.field("n"), pc.field("small"), skip_nulls=chance.choice((True, False))), 1
        ),
        lambda: compare(pc.add(pc.field("small"), 1), 1),
        lambda: pc.scalar(chance.choice((True, False))),
    ]
    return chance.choice(leaves)()


@settings(max_examples=amounts.examples(250), deadline=None)
@given(seed=st.integers(0, 2**40))
def test_skipping_changes_no_rows(seed: int, table: PlainTable) -> None:
    expression = random_expression(random.Random(seed))
    numbered = [
        table.contents[file.path].append_column("row", pa.array(range(file.physical_rows or 0)))
        for file in table.now.data_files
    ]
    try:
        wanted = [rows.filter(expression)["row"].to_pylist() for rows in numbered]
    except (pa.ArrowException, TypeError):
        return
    finder = where_finder(expression)
    finder.prepare(table.now)
    for file, rows in zip(table.now.data_files, wanted, strict=True):
        found = list(finder.find(table.now, file).rows) if finder.may_match(table.now, file) else []
        assert found == rows, expression


X, N = pc.field("x"), pc.field("n")


@each(
    ("expression", "known"),
    [
        (N == 1, "(n == 1)"),
        (pc.scalar(1) < N, "(n > 1)"),
        (pc.field("small") == 2**40, None),
        (N == 1.0, None),  # compared as floats
        (pc.field("price") < 1, "(price < 1.00)"),
        (pc.field("price") < 0.1, None),
        (X != NAN, None),
        (X.is_null(nan_is_null=True), None),
        (pc.field("local") >= dt.date(1970, 1, 1), "(local >= 1970-01-01 00:00:00.000000)"),
        (pc.field("day") < dt.datetime(1970, 1, 1, 5), None),  # noqa: DTZ001
        (pc.field("st", "n") == 1, None),
        (pc.field("flag") & (X == 1), "(x == 1)"),
        ((N == 1) | (pc.add(N, 1) == 2), None),
        (~((N == 1) | ~(X > 2)), "invert("),
        (N.isin([1, 2]), "(n == 1)) or (n == 2))"),
        (N.isin([1, None]), "is_null(n"),
        (pc.is_in(N, value_set=pa.array([1, None]), skip_nulls=True), "(n == 1)"),
        (N.isin(list(range(1001))), None),
        (N.cast("int8", safe=False) == 1, None),
    ],
)
def test_what_statistics_answer(expression: Any, known: str | None) -> None:
    found = weaker(parse(expression), SCHEMA)
    assert (found is None) == (known is None), found
    assert known is None or known in str(found), found


def test_names_are_not_functions() -> None:
    """Nor ends of text; the same name twice, and names with zero bytes, are read as they are."""
    name = 'x) or is_null("\n\0'
    tree = parse((pc.field(name) == "a") & (pc.field("s", "x", name) == 1) & pc.field(name).is_null(nan_is_null=True))
    columns = [node.path for node in nodes(tree) if isinstance(node, Column)]
    assert columns == [(name,), ("s", "x", name), (name,)]
    calls = [node for node in nodes(tree) if isinstance(node, Call)]
    assert [call.function for call in calls] == ["and_kleene", "and_kleene", "equal", "equal", "is_null"]
    assert calls[-1].options["nan_is_null"].as_py() is True
    assert [node.value.as_py() for node in nodes(tree) if isinstance(node, Literal)] == ["a", 1]


def test_expressions_of_a_later_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dvcodec.tables.deleting.expression._metadata", lambda _: [("invoke", "equal")])
    with pytest.raises(UsageError, match=r"where .*it cannot be taken apart as pyarrow .* pickles it: use SQL text"):
        parse(N == 1)
