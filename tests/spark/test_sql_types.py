"""Conditions that DuckDB and Spark spell alike find the same rows, whatever the type of the column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tables.deleting.type_cases import CASES, FORMS, condition

pytest.importorskip("duckdb", "2.0")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_types_in_spark(spark: SparkSession) -> None:
    """In one query, as columns of one table: a query of its own for each takes minutes."""
    from tables.deleting.test_sql import matched
    from tables.deleting.test_types import rows_of

    cases = [case for case in CASES if case.spark]
    values = [
        ", ".join("NULL" if place == 3 else f"CAST('{case.texts[place]}' AS {case.spark})" for case in cases)
        + f", {place}"
        for place in range(4)
    ]
    names = [f"x{number}" for number in range(len(cases))]
    asked = [
        f"coalesce({condition(case, natural=False, x=name)}, false)" for case, name in zip(cases, names, strict=True)
    ]
    rows = f"VALUES {', '.join(f'({row})' for row in values)} AS t({', '.join(names)}, place)"
    before = spark.conf.get("spark.sql.session.timeZone") or ""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        found = spark.sql(
            f"SELECT form * 4 + place, {', '.join(asked)} FROM {rows}, range({FORMS}) AS forms(form)"
        ).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for number, case in enumerate(cases):
        of_spark = sorted(row[0] for row in found if row[number + 1])
        assert matched(condition(case, natural=False), rows_of(case)) == of_spark, case.name
