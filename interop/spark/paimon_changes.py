"""Paimon tables, by the Spark connector, whose schema, layout or history changes, beside their rows."""

from __future__ import annotations

from changes import Change, OfCatalog
from common import WIDE, rows, wide


class Session(OfCatalog):
    """A table of Paimon's catalog."""

    procedures = "sys"


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


CHANGES: dict[str, Change[Session]] = {
    "changed": Change(_changed, WIDE, ends_with_schema=True),
    "merged": Change(
        _merged,
        partitions="PARTITIONED BY (part)",
        properties={"primary-key": "id,part", "dynamic-bucket.target-row-num": "60"},
    ),
}
