"""Rows of tables as values of JSON."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def listed(live: DataFrame) -> list[list[Any]]:
    """Return id, part, name, price and day of all rows, in order of their ids."""
    return [
        list(row)
        for row in live.selectExpr("id", "part", "name", "price", "CAST(day AS STRING)").orderBy("id").collect()
    ]


def ids(frame: DataFrame) -> list[int]:
    """Return the ids of a frame, ascending."""
    return sorted(row[0] for row in frame.select("id").collect())
