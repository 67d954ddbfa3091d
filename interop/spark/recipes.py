"""The statements that tables of the Spark connectors go through, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common import rows
from pyspark.sql import SparkSession

SMALL = 9_000
SCATTERED, CLUSTERED = 20_000, 70_000
"""Rows of the two files of `large`; the second reaches beyond the first 65,536 positions."""


@dataclass(frozen=True)
class Recipe:
    """How one table is laid out, and which statements it goes through, given its name."""

    statements: Callable[[str], list[str]]
    partitioned: bool = False
    small_row_groups: bool = True

    def run(self, spark: SparkSession, table: str) -> None:
        for statement in self.statements(table):
            spark.sql(statement)


def _plain(table: str) -> list[str]:
    """Files of many row groups; every round changes vectors of the round before."""
    return [
        f"INSERT INTO {table} {rows(0, SMALL, 3)}",
        f"DELETE FROM {table} WHERE id % 7 = 3",
        f"DELETE FROM {table} WHERE id BETWEEN 2000 AND 2999",
        f"INSERT INTO {table} {rows(SMALL, SMALL + 1000, 1)}",
        f"UPDATE {table} SET name = concat(name, ' updated'), price = 0 WHERE id % 50 = 1",
        merge(table, 1000, 2200),
        f"DELETE FROM {table} WHERE name LIKE '% updated' AND id < 100",
    ]


def _parts(table: str) -> list[str]:
    """Partitions with names that paths spell in other ways; the last statement needs no vector."""
    return [
        f"INSERT INTO {table} {rows(0, SMALL, 2)}",
        f"DELETE FROM {table} WHERE id % 11 = 5",
        f"DELETE FROM {table} WHERE part = 'two words' AND id > 4000",
        merge(table, 1500, 2000),
        f"UPDATE {table} SET price = -1 WHERE part IN ('100%', 'x/y=z?&') AND id % 4 = 0",
        f"DELETE FROM {table} WHERE part = 'plain'",
    ]


def scattered_or_clustered(scattered: str, start: int, stop: int) -> str:
    """Return a condition on rows of the first file of `large`, and for positions of the second."""
    return f"IF(id < {SCATTERED}, {scattered}, id BETWEEN {SCATTERED + start} AND {SCATTERED + stop})"


def _large(table: str) -> list[str]:
    """One file with scattered deletes (bitset containers), one with clustered ones (runs, one past 65,536)."""
    both = f"{rows(0, SCATTERED, 1)} UNION ALL {rows(SCATTERED, SCATTERED + CLUSTERED, 1)}"
    return [
        f"INSERT INTO {table} {both}",
        f"DELETE FROM {table} WHERE {scattered_or_clustered('id % 3 = 0', 1000, 67_000)}",
        f"DELETE FROM {table} WHERE {scattered_or_clustered('id % 97 = 1', 66_000, 68_000)}",
    ]


def keyed(table: str) -> list[str]:
    """For tables with a primary key, where writing a key again deletes its row."""
    again = rows(0, 6000, 1)
    return [
        f"INSERT INTO {table} {rows(0, SMALL, 1)}",
        f"INSERT INTO {table} SELECT id, part, concat(name, ' again'), price, day FROM ({again}) WHERE id % 5 = 0",
        f"DELETE FROM {table} WHERE id % 7 = 1 AND id < 3000",
        f"INSERT INTO {table} {rows(SMALL - 200, SMALL + 300, 1)}",
    ]


def merge(table: str, start: int, stop: int) -> str:
    """Delete, update and insert rows by every fifth id: a third of those that match go."""
    return (
        f"MERGE INTO {table} t USING (SELECT id * 5 AS id, part, name, price, day FROM ({rows(start, stop, 1)})) s "
        "ON t.id = s.id WHEN MATCHED AND s.id % 3 = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET name = concat(t.name, ' merged') "
        "WHEN NOT MATCHED THEN INSERT (id, part, name, price, day) VALUES (s.id, s.part, s.name, s.price, s.day)"
    )


RECIPES = {
    "plain": Recipe(_plain),
    "parts": Recipe(_parts, partitioned=True),
    "large": Recipe(_large, small_row_groups=False),
}
