"""SQL text: what is refused, how names are found, and what follows from a predicate."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from cases import each
from dvcodec import UsageError
from dvcodec.core.errors import MissingExtra
from dvcodec.tables.deleting import sql
from dvcodec.tables.deleting.sql import SqlCondition
from dvcodec.tables.rows.bounds import ColumnBounds

pytest.importorskip("duckdb", "2.0")

pytestmark = pytest.mark.libraries

D = Decimal
KINDS: dict[str, pa.Array] = {
    "i": pa.array([1, 2, None, 2**53 + 1], pa.int64()),
    "whole": pa.array([D("12345678901234567890123456789012345678"), D(1), None, D(-1)], pa.decimal128(38, 0)),
    "d": pa.array([D("0.1"), D("12345678901234567890.0000000001"), None, D(1)], pa.decimal128(38, 10)),
    "f": pa.array([0.1, float("nan"), None, -0.0], pa.float32()),
    "half": pa.array(np.array([0.5, 1.5, 2.5, float("nan")], np.float16)),
    "ns": pa.array([1, 1001, None, -1], pa.timestamp("ns")),
    "nsz": pa.array([1, 1001, None, -1], pa.timestamp("ns", "UTC")),
    "us": pa.array([1, 2, None, 2**62], pa.timestamp("us")),
    "ny": pa.array([1, 2, None, -1], pa.timestamp("us", "America/New_York")),
    "s": pa.array(["a", "7", None, "B"]),
    "large": pa.array(["a", "7", None, "B"], pa.large_string()),
    "coded": pa.array(["a", "7", None, "B"]).dictionary_encode(),
    "raw": pa.array([b"\x00\xff", b"a", None, b""]),
    "fixed": pa.array([b"ab", b"cd", None, b"\xff\xff"], pa.binary(2)),
    "day": pa.array([0, 1, None, -200_000], pa.date32()),
    "clock": pa.array([0, 1, None, 86_399_999_999], pa.time64("us")),
    "flag": pa.array([True, False, None, True]),
    "part": pa.array([{"x": 1, "Deep": {"y": "a"}}, {"x": None, "Deep": {"y": "b"}}, None, {"x": 2, "Deep": None}]),
    "many": pa.array([[1, 2], [], None, [None]]),
    "odd name; --": pa.array([1, 2, 3, 4]),
    'quo"ted': pa.array([1, 2, 3, 4]),
    "position": pa.array([10, 11, 12, 13]),
    "rows_of_the_batch": pa.array([{"i": 4}, {"i": 3}, None, {"i": 1}]),
    "nothing": pa.nulls(4),
    "sec": pa.array([0, 1, None, 2], pa.timestamp("s")),
    "day64": pa.array([0, 86_400_000, None, -86_400_000], pa.int64()).view(pa.date64()),
    "span": pa.array([1000, 2000, None, 0], pa.duration("ns")),
    "big": pa.array([D("1.01"), D(2), None, D(3)], pa.decimal256(38, 2)),
}
ROWS = pa.table(KINDS)


class Columns:
    """As much of a snapshot as a condition asks for."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.table = SimpleNamespace(location="orders")

    def schema(self, columns: Any = None) -> pa.Schema:
        from dvcodec.tables.rows.columns import select

        return select(self.rows.schema, columns, "the table")


def bound(text: str, rows: pa.Table = ROWS) -> SqlCondition:
    return SqlCondition(text, Columns(rows))  # type: ignore[arg-type]


def matched(text: str, rows: pa.Table = ROWS) -> list[int]:
    condition = bound(text, rows)
    numbers = pa.array(np.arange(rows.num_rows))
    columns = [rows.column(name).combine_chunks() for name in condition.columns]
    batch = pa.RecordBatch.from_arrays([numbers, *columns], [condition.position, *condition.columns])
    return sorted(condition.positions(batch, {}).tolist())


@each(
    ("text", "rows"),
    [
        ('I = 1 or "i" = 2', [0, 1]),
        ("i = 9007199254740993.0", [3]),
        ("whole = 12345678901234567890123456789012345678", [0]),
        ("d = 12345678901234567890.0000000001", [1]),
        ("f > 1e30", [1]),
        ("f = 'nan'", [1]),
        ("half > 1", [1, 2, 3]),
        ("ns = '1970-01-01 00:00:00.000000001'", [0]),
        ("ny = TIMESTAMPTZ '1970-01-01 02:00:00.000001+02'", [0]),
        ("part.x = 1 OR PART.deep.Y = 'b'", [0, 1]),
        ('"odd name; --" = 2', [1]),
        ('"quo""ted" = 3', [2]),
        ("position > 12", [3]),
        ("rows_of_the_batch.i < 4 AND i > 1", [1, 3]),
        ("i = 1 -- a comment", [0]),
        ("s = 'A' COLLATE NOCASE", [0]),
        ("i = '1' OR i IN ('2', 7)", [0, 1]),
        ("day < TIMESTAMP '1970-01-01 12:00' AND day > TIMESTAMPTZ '1969-12-31 23:00-02'", []),
        ("us = '1970-01-01T00:00:00.000001Z'", [0]),
        ("ny = '1970-01-01 01:00:00.000001+01'", [0]),
        ("sec < TIMESTAMP '1970-01-01 00:00:00.5'", [0]),
        ("span = INTERVAL '1 microsecond'", [0]),
        ("many = [1, 2] OR part = {'x': 1, 'Deep': {'y': 'a'}}", [0]),
        # DuckDB 2.0.1 has overloads of these, for times with a zone, that depend on the session's time zone.
        ("i + 1 = 2 AND i - 1 = 0 AND -i = -1", [0]),
        ("year(us) = 1970 AND year(ny) = 1970 AND year(day) = 1970", [0, 1]),
        ("hour(ny) = 0 AND date_trunc('day', ny) = '1970-01-01' AND strftime(ny, '%Y') = '1970'", [0, 1]),
        ("ny - INTERVAL 1 DAY < '1970-01-01' AND ny - ny = INTERVAL 0 DAY", [0, 1, 3]),
        ("ny = make_timestamptz(1970, 1, 1, 0, 0, 0.000001)", [0]),
        ("age(us, TIMESTAMP '1970-01-01') = INTERVAL '1 microsecond'", [0]),
    ],
)
def test_rows(text: str, rows: list[int]) -> None:
    assert matched(text) == rows


@each(
    ("text", "message"),
    [
        ("", "SELECT clause without selection list"),
        ("i = 1) OR (true", "syntax error"),
        ("i = 1; DROP TABLE x", "several statements|2 statements"),
        ("i = 1, true", "one expression"),
        ("*", r"\* cannot"),
        ("(SELECT true)", "a subquery cannot"),
        ("list_filter(many, lambda x: x > 1) = [1]", "a lambda"),
        ("count(*) = 1", "count_star is a function of several rows"),
        ("getenv('HOME') = ''", "no function getenv"),
        ("now() > us", r"now\(\) may return something else"),
        ("current_date = day", "current_date is something else"),
        ("i = 'x'", r"could not convert string 'x'.*columns i"),
        ("CAST(s AS INT) = 7", "could not convert string 'a'.*columns s"),
        ("i / 0 > 1", "division by zero.*columns i"),
        ("age(us) > INTERVAL 1 DAY", r"age\(\) may return something else"),
        ("raw LIKE 'a%'", r"LIKE is for text: CAST\(column AS VARCHAR\)"),
        ("i = '1.5'", r"'1\.5' is not a value of type BIGINT: write the number without quotes"),
        ("1.5 BETWEEN i AND '2.005'", "'2.005' is not a value of type BIGINT"),
        ("i IS DISTINCT FROM '0x1'", "'0x1' is not a value"),
        ("d = '0.10000000001'", r"is not a value of type DECIMAL\(38,10\)"),
        ("s = 7", "text is compared with another type: write the value as text, '7' for 7, or cast one"),
        ("day = lower('1970-01-01')", "text is compared with DATE"),
        ("day < '1970-01-01 12:00+01'", r"write TIMESTAMPTZ '1970-01-01 12:00\+01'"),
        (
            "us = '1970-01-01 00:00:00+01'",
            r"not a value of type TIMESTAMP: write TIMESTAMPTZ '1970-01-01 00:00:00\+01'",
        ),
        ("us = '1970-01-01 00:00:00.0000019'", "write at most 6 digits of a second's fraction"),
        ("ns = '1970-01-01 00:00:00.0000000019'", "write at most 9 digits of a second's fraction"),
        ("sec = '1970-01-01 00:00:00.5'", "write TIMESTAMP '1970-01-01 00:00:00.5'"),
        ("clock = '00:00:00.0000019'", "write '10:00:00' with up to 6 decimals"),
        ("many = '[1.5]'", r"text is compared with BIGINT\[\]: write the value itself, \[1, 2\]"),
    ],
)
def test_conditions_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"(?i){message}") as caught:
        matched(text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("where ")


def test_names_that_differ_in_case() -> None:
    rows = pa.table({"a": [1], "A": [2], "b": [3]})
    assert matched("a = 1", rows) == [0]
    assert matched("A = 2 AND B = 3", rows) == [0]
    with pytest.raises(UsageError, match="differ in case alone"):
        bound("a = 1 AND A = 2", rows)
    both = pa.table({"Ab": [1], "aB": [2]})
    with pytest.raises(UsageError, match="one of Ab, aB"):
        bound("ab = 1", both)
    with pytest.raises(UsageError, match="orders has no column 'x': it has Ab, aB"):
        bound("x.i = 1", both)


def test_types_that_duckdb_does_not_have() -> None:
    rows = pa.table({"wide": pa.array([1], pa.decimal256(50, 0)), "n": [1]})
    with pytest.raises(
        UsageError, match=r"column wide of type decimal256.* cannot be used.*: use a pyarrow expression"
    ):
        bound("wide = 1", rows)
    assert matched("n = 1", rows) == [0]


def test_durations_that_duckdb_would_cut_down() -> None:
    array = pa.array([1000, 1500], pa.duration("ns"))
    rows = pa.table({"x": pa.ListArray.from_arrays([0, 1, 2], array)})
    assert matched("x[1] = INTERVAL '1 microsecond'", rows.slice(0, 1)) == [0]
    with pytest.raises(UsageError, match=r"would lose data.*columns x"):
        matched("x[1] = INTERVAL '1 microsecond'", rows)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("extension", ["geoarrow.wkb", "paimon.variant"])
def test_extension_types_that_duckdb_is_not_told_of(extension: str, inside: bool) -> None:
    """It would compare the bytes of their storage, or decode them in this process."""
    field = pa.field("g", pa.binary(), metadata={"ARROW:extension:name": extension})
    array = pa.array([b"a", None, b""])
    if inside:
        array, field = pa.StructArray.from_arrays([array], fields=[field]), pa.field("g", pa.struct([field]))
    rows = pa.table([array, pa.array([1, 2, 3])], schema=pa.schema([field, pa.field("i", pa.int64())]))
    assert matched("g IS NOT NULL AND i > 1", rows) == ([1, 2] if inside else [2])
    assert matched("G IS NULL", rows) == ([] if inside else [1])
    for text in ("g = 'a'", "g <> 'a'", "g.g IS NULL", "coalesce(g, 'a') IS NULL"):
        with pytest.raises(UsageError, match=rf"column g has values of type {extension}, which cannot be compared"):
            bound(text, rows)


def test_a_fatal_error_ends_the_database_alone() -> None:
    """DuckDB 2.0 does not expect that a cast to text fails, and answers nothing more."""
    rows = pa.table({"t": pa.array([2**62], pa.timestamp("s"))})
    for _ in range(2):
        with suppress(UsageError):
            matched("CAST(t AS VARCHAR) LIKE '1%'", rows)
        assert matched("i = 1") == [0]


@each(
    ("text", "weaker"),
    [
        ("i = 7", "(i == 7)"),
        ("i < 1.5", None),
        ("i = '7'", "(i == 7)"),
        ("i = 1e0", None),  # compared as floats
        ("s = 7", None),
        ("f = 0.1", "(f == 0.1)"),
        ("us < DATE '2026-01-01' - INTERVAL 1 DAY", "(us < 2025-12-31 00:00:00.000000)"),
        ("nsz > '1970-01-01 00:00:00.000000001'", "(nsz > 1970-01-01 00:00:00.000000001Z)"),
        ("day < TIMESTAMP '2026-01-01 00:00:01'", None),
        ("i IS NULL OR s IS NOT NULL", "(is_null(i, {nan_is_null=false}) or is_valid(s))"),
        ("i = 1 AND s LIKE 'x'", "(i == 1)"),
        ("NOT (i = 1)", None),
        ("i IN (1, 2, NULL)", "(i == 1)) or (i == 2))"),
        ("i BETWEEN 1 AND 2", "(i >= 1) and (i <= 2)"),
        ("i BETWEEN 9007199254740993 AND 1e16", None),  # both are compared as floats
        ("f < 'nan'", None),
        ("i BETWEEN 1 AND f", None),
        ("s = 'A' COLLATE NOCASE", None),
        ("s BETWEEN 'A' COLLATE NOCASE AND 'A'", None),
        ("i NOT IN (1, 2)", None),
    ],
)
def test_weaker(text: str, weaker: str | None) -> None:
    try:
        found = bound(text)._weaker
    except UsageError:
        assert weaker is None
        return
    assert (found is None) == (weaker is None)
    assert found is None or (weaker or "").removeprefix("(") in str(found), found


def test_older_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    with pytest.raises(MissingExtra, match=r"DuckDB 2.0 or later.*dvcodec\[sql\]"):
        sql.Engine({})
    monkeypatch.setattr(sql, "_FIRST_PYTHON", (4, 0))  # as 3.10 has no DuckDB that the extra could install
    with pytest.raises(MissingExtra, match=r"needs Python 3.11 or later; pyarrow expressions.* do not need it$"):
        sql.Engine({})


@each(
    ("kind", "value"),
    [
        (pa.timestamp("us"), "TIMESTAMP '1970-01-02'"),
        (pa.timestamp("us", "UTC"), "TIMESTAMPTZ '1970-01-02 00:00:00Z'"),
        (pa.date32(), "DATE '1970-01-02'"),
        (pa.decimal128(9, 2), "1.50::DECIMAL(9, 2)"),
    ],
)
def test_nothing_follows_from_lists_and_other_columns_still_rule_out(kind: pa.DataType, value: str) -> None:
    rows = pa.table({"n": pa.array([1, 2]), "many": pa.array([None, None], pa.list_(kind))})
    assert bound(f"many < [{value}]", rows)._weaker is None
    known = {"n": ColumnBounds(pa.scalar(1), pa.scalar(2))}
    bounds = [bound(f"n = {n} AND many < [{value}]", rows).bounds for n in (2, 7)]
    assert [one is not None and one.may_be_true(known) for one in bounds] == [True, False]


EXTREMES = pa.table(
    {
        "i": pa.array([2**53, 2**53 + 1, -(2**63), 2**63 - 1, 0, None], pa.int64()),
        "u": pa.array([2**53, 2**53 + 1, 2**64 - 1, 2**63, 0, None], pa.uint64()),
        "d": pa.array([D("0.1"), D("0.10"), D(2**53 + 1), D("-0.3"), D(0), None], pa.decimal128(30, 5)),
        "f": pa.array([0.1, 0.3, 0.7, float("inf"), -0.0, None], pa.float32()),
        "g": pa.array([0.1, 0.30000001192092896, 2.0**53, float("nan"), -0.0, None], pa.float64()),
        "s": pa.array(["a", "A", "10", "9", "\U0001f600", None]),
        "day": pa.array([0, 1, -1, 20_000, 2**20, None], pa.date32()),
        "us": pa.array([0, 1, -1, 86_400_000_000, 2**62, None], pa.timestamp("us")),
        "ns": pa.array([0, 1, -1, 86_400_000_000_000, 2**62, None], pa.timestamp("ns")),
        "tz": pa.array([0, 1, -1, 86_400_000_000, 2**62, None], pa.timestamp("us", "UTC")),
        "flag": pa.array([True, False, None, True, False, True]),
        "raw": pa.array([b"", b"a", b"\xff", b"10", b"\x00", None]),
    }
)
VALUES = (
    *("0", "1", "-1", "9007199254740992", "9007199254740993", "9007199254740993.0", "9007199254740993e0"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "0.1", "0.3", "0.7", "0.1e0", "0.3::FLOAT"),
    *("0.10000", "'0.1'", "'9'", "'10'", "'a'", "'A'", "lower('A')", "1::VARCHAR", "'inf'", "'nan'::DOUBLE", "-0.0"),
    *("DATE '1970-01-01'", "DATE '1970-01-02'", "TIMESTAMP '1970-01-01 00:00:00.000001'", "'1970-01-01'", "'infinity'"),
    *(
        "TIMESTAMPTZ '1970-01-01 01:00:00+01'",
        "TIMESTAMP_NS '1970-01-01 00:00:00.000000001'",
        "TIMESTAMP_S '1970-01-02'",
    ),
    *("true", "false", "NULL", "'\\xFF'::BLOB", "'a'::BLOB", "5 / 2", "INTERVAL 1 DAY", "TIME '00:00'"),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    name=st.sampled_from(EXTREMES.schema.names),
    form=st.sampled_from(
        (
            "{c} = {a}",
            "{c} <> {a}",
            "{c} < {a}",
            "{a} < {c}",
            "{c} >= {a}",
            "{c} IN ({a}, {b})",
            "{c} BETWEEN {a} AND {b}",
        )
    ),
    a=st.sampled_from(VALUES),
    b=st.sampled_from(VALUES),
)
def test_what_follows_for_extreme_values(name: str, form: str, a: str, b: str) -> None:
    text = form.format(c=name, a=a, b=b)
    try:
        condition = bound(text, EXTREMES)
        rows = matched(text, EXTREMES)
    except UsageError:
        return
    if condition._weaker is not None:
        numbered = EXTREMES.append_column("row", pa.array(range(EXTREMES.num_rows)))
        weaker = set(numbered.filter(condition._weaker).column("row").to_pylist())
        # NaN is greater in SQL and nothing in pyarrow: columns that may have it have no bounds
        nan = {3} if name == "g" else set()
        assert set(rows) - nan <= weaker, condition._weaker


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_query() -> None:
    """In a process of its own: a signal that comes late would end the tests.

    The database has one thread, as that of conditions. With several, DuckDB 2.0.0 may wait for another thread's work,
    and look at no signal meanwhile.
    """
    code = """
import os, signal, threading
from dvcodec.tables.deleting.run import interrupting
from dvcodec.tables.deleting.sql import Engine
signal.signal(signal.SIGINT, signal.default_int_handler)
engine = Engine({"threads": "1"})
engine.query("SELECT 1").fetchnumpy()  # DuckDB is loaded
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with interrupting():
        engine.query("SELECT sum(sin(a.range + b.range)) FROM range(1000000) a, range(1000000) b").fetchnumpy()
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
