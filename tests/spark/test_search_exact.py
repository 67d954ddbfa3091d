"""Conditions that pyarrow evaluates choose the rows that Spark chooses; all others are left to Spark."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dvcodec.spark.search.exact import Dialect, exact_filter
from tables.deleting.random_where import SCHEMA, random_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = random_rows(random.Random(16), 0, 400)
BERLIN = Dialect("Europe/Berlin")
SAME = (
    "n = 5",
    "N <> 5",
    "NOT (n = 5 OR word LIKE 'a%')",
    "n IN (1, 2, 3) AND x >= 1",
    "NOT n IN (1, 2)",
    "n NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, -1)",
    "NOT (n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, -1))",
    "word IN ('', 'A', 'ab', 'ż', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7', 'x8', 'x9', 'y1', 'y2', 'y3', 'y4')",
    "x > 1.5",
    "x >= -0.0 AND NOT x < 2",
    "1 < x",
    "x <> 1",
    "NOT x <= 0.25",
    "x BETWEEN 0 AND 3",
    "x NOT BETWEEN 0 AND 3",
    "x IN (0, 0.25)",
    "price = 1000000000000000.25",
    "price > 1000000000000001",
    "price BETWEEN 999999999999999 AND 1000000000000002.5",
    "wide < 0",
    "word < 'b' OR word IS NULL",
    "word LIKE '%ab%'",
    "word LIKE '%a'",
    "word NOT LIKE 'A%'",
    "word = 'A' OR flag",
    "NOT flag",
    "flag = false",
    "flag <=> true",
    "NOT (n <=> 3)",
    "day >= DATE '2024-02-01' AND day < '2024-02-20'",
    "time < TIMESTAMP '2024-03-02 10:00:00'",
    "time >= '2024-02-29 00:30:00.000001'",
    "time > TIMESTAMP_LTZ '2024-02-29 05:00:00+05:00'",
    "local >= TIMESTAMP_NTZ '2024-02-29 00:30:00' AND local <= '2024-03-04 07:30:00.5'",
    "nested.deep > 3",
    "`nested`.`inner`.`y` >= 1",
    "nested.inner.y IS NULL",
    "nested.word = 'A' OR nested IS NULL",
    "small <> n",
    "n = small",
    "part IS NOT NULL AND part < 'b'",
)
ONLY_SPARK = (
    "word = '${my.v}'",
    "time IN ('2024-01-01', '2024-01-02')",
    "day IN (DATE '2024-01-01', '2024-01-02')",
    "time = '2024-01-01 00:00:00+19:00'",
    "time = '2024-01-01 00:00:00+05:60'",
    "n % 2 = 0",
    "n + 1 = 3",
    "n = 1.5",
    "n = '5'",
    "n = 9223372036854775808",
    "small = 3000000000",
    "n = n + 0",
    "n = 1 -- all",
    "n = 1L",
    "x = 1e0",
    "f = 0.125",
    "f = 1",
    "x = small",
    "price = 0.125",
    "price = 1000000000000000000",
    "word = 'a' 'b'",
    "word = 'it\\'s'",
    'word = "a"',
    "word LIKE 'a_'",
    "word LIKE '%'",
    "word LIKE 'a%b'",
    "upper(word) = 'A'",
    "raw = X'00'",
    "day = '2024-2-1'",
    "day < DATE '1800-01-01'",
    "day < time",
    "time < DATE '2024-03-01'",
    "time < TIMESTAMP '2024-03-31 02:30:00'",
    "time < TIMESTAMP '2023-10-29 02:30:00'",
    "time < local",
    "local < TIMESTAMP '2024-03-02 10:00:00'",
    "time < TIMESTAMP '2024-03-02 10:00'",
    "n IN (1, NULL)",
    "n IN (SELECT 1)",
    "n = NULL",
    "n",
    "TRUE",
    "1 = 1",
    "n = 1 = TRUE",
    "(n) = 1",
    "no_such = 1",
    "nested.no_such = 1",
    "n = 1 OR",
    "n = 1)",
    "",
)


def test_chooses_the_rows_that_spark_chooses(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", BERLIN.time_zone)
    try:
        assert Dialect.of(spark) == BERLIN
        asked = [f"coalesce({text}, false) AS p{i}" for i, text in enumerate(SAME)]
        found = spark.createDataFrame(ROWS).selectExpr("key", *asked).toArrow().sort_by("key")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    for i, text in enumerate(SAME):
        wanted = found.filter(pc.field(f"p{i}")).column("key").to_pylist()
        filter_ = exact_filter(text, SCHEMA, BERLIN)
        assert filter_ is not None, text
        assert ROWS.filter(filter_).column("key").to_pylist() == wanted, text
        assert 0 < len(wanted) < ROWS.num_rows or text.startswith("word IN"), text


@pytest.mark.parametrize("text", ONLY_SPARK)
def test_leaves_the_rest_to_spark(text: str) -> None:
    assert exact_filter(text, SCHEMA, BERLIN) is None


def test_settings_of_the_session_count() -> None:
    assert exact_filter("N = 5", SCHEMA, replace(BERLIN, case_sensitive=True)) is None
    assert exact_filter("n = 5", SCHEMA, replace(BERLIN, plain=False)) is None
    assert exact_filter("time < '2024-03-02 10:00:00'", SCHEMA, replace(BERLIN, time_zone="GMT+25")) is None
    assert exact_filter("n = 5", pa.schema([("n", pa.int64()), ("N", pa.int64())]), BERLIN) is None
    prices = pa.table({"d": pa.array([Decimal("0.10"), Decimal("0.11")], pa.decimal128(4, 2))})
    found = exact_filter("d = 0.1", prices.schema, BERLIN)
    assert prices.filter(found).num_rows == 1
