"""Paimon tables, by the Spark connector, whose schema, layout or history changes, beside their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from common import COLUMNS, WIDE, Place, rows, wide


@dataclass(frozen=True)
class Session:
    """A table's name in statements, and what runs them."""

    place: Place
    catalog: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.name}"

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.place.spark.sql(statement)

    def alter(self, *changes: str) -> None:
        self.run(*(f"ALTER TABLE {self} {change}" for change in changes))

    def call(self, procedure: str, *arguments: str) -> None:
        listed = ", ".join((f"table => '{self.name}'", *arguments))
        self.run(f"CALL {self.catalog}.sys.{procedure}({listed})")


@dataclass(frozen=True)
class Change:
    """How a table is laid out, and what it goes through.

    Attributes:
        ends_with_schema: the last thing done changes the schema, which no snapshot records.
    """

    run: Callable[[Session], None]
    columns: str = COLUMNS
    partitions: str = ""
    options: dict[str, str] = field(default_factory=dict)
    ends_with_schema: bool = False


def _changed(table: Session) -> None:
    """Columns of old files are known by their ids; files are rewritten, one is all deleted; one snapshot is undone."""
    table.run(
        f"INSERT INTO {table} {wide(0, 60, 1)}",
        f"INSERT INTO {table} {wide(60, 80, 1)}",
        f"DELETE FROM {table} WHERE id % 7 = 1 OR id >= 60",
    )
    table.alter(
        "ADD COLUMN extra INT",
        "RENAME COLUMN ratio TO share",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN share TYPE DOUBLE",
        "ALTER COLUMN amount TYPE DECIMAL(12,2)",
        "DROP COLUMN flag",
        "ADD COLUMN flag STRING FIRST",
    )
    table.run(
        f"INSERT INTO {table} SELECT 'new', id, part, ratio, amount, at, clock, raw, day, "
        f"struct(id AS x, ratio AS y), tags, props, id * 10 FROM ({wide(80, 99, 1)})",
        f"DELETE FROM {table} WHERE id % 5 = 2",
        f"DELETE FROM {table} WHERE id = 88",
    )
    table.call("rollback", "version => '5'")
    table.call("create_tag", "tag => 'kept'", "snapshot => 2")
    table.run(f"UPDATE {table} SET flag = 'set' WHERE id % 10 = 4")
    table.alter("SET TBLPROPERTIES ('compaction.min.file-num' = '2')")
    table.call("compact")
    table.run(f"DELETE FROM {table} WHERE id % 9 = 4")
    table.alter("DROP COLUMN clock")


def _merged(table: Session) -> None:
    """Partitions, buckets that grow with the keys, a hash index; the oldest snapshots are forgotten."""
    few = "SELECT id, IF(id % 2 = 0, 'a', 'b c') AS part, name, price, day FROM "
    table.run(
        f"INSERT INTO {table} {few} ({rows(0, 200, 1)})",
        f"INSERT INTO {table} {few} ({rows(100, 150, 1)})",
        f"DELETE FROM {table} WHERE id < 30",
        f"UPDATE {table} SET price = -1 WHERE id % 10 = 7",
    )
    table.call("compact")
    table.call("expire_snapshots", "retain_max => 5", "retain_min => 5", "older_than => TIMESTAMP'2100-01-01 00:00:00'")


CHANGES = {
    "changed": Change(_changed, WIDE, ends_with_schema=True),
    "merged": Change(
        _merged,
        partitions="PARTITIONED BY (part)",
        options={"primary-key": "id,part", "dynamic-bucket.target-row-num": "60"},
    ),
}
