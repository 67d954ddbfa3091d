"""Iceberg tables whose schema, layout or history changes, beside their rows."""

from __future__ import annotations

from typing import Any

from changes import Change, OfCatalog
from common import COLUMNS, WIDE, rows, wide
from recipes import merge


class Session(OfCatalog):
    """A table of Iceberg's catalog."""

    procedures = "system"

    def snapshots(self) -> list[int]:
        return [row[0] for row in self.place.spark.sql(f"SELECT snapshot_id FROM {self}.snapshots").collect()]

    def update_schema(self) -> Any:
        """Return Iceberg's own builder, for what its SQL cannot say."""
        spark = self.place.spark._jsparkSession  # noqa: SLF001
        return self.place.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark, str(self)).updateSchema()


def _evolved(table: Session) -> None:
    """Columns of old files are known by their ids: names, order and types change."""
    table.run(f"INSERT INTO {table} {wide(0, 60, 2)}", f"DELETE FROM {table} WHERE id % 7 = 1")
    table.alter(
        "ADD COLUMNS (extra INT, point.z STRING)",
        "RENAME COLUMN ratio TO share",
        "RENAME COLUMN point.y TO yy",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN share TYPE DOUBLE",
        "ALTER COLUMN amount TYPE DECIMAL(12,2)",
        "ALTER COLUMN props.value TYPE BIGINT",
        "ALTER COLUMN tags AFTER id",
        "DROP COLUMN flag",
    )
    table.run(
        f"INSERT INTO {table} SELECT id, tags, part, ratio, amount, at, clock, raw, day, "
        f"struct(point.x, point.y, 'zed'), props, id * 10 FROM ({wide(60, 90, 1)})",
        f"DELETE FROM {table} WHERE id % 5 = 2",
    )
    # A column of an old name is another column; defaults hold for files that have none.
    table.alter("ADD COLUMN flag STRING FIRST")
    jvm = table.place.jvm
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Literal
    update = table.update_schema().addColumn("filled", types.IntegerType.get(), literal.of(7))
    update.addRequiredColumn("must", types.StringType.get(), "of v3", literal.of("was ☃")).commit()
    table.run(f"UPDATE {table} SET flag = 'set', filled = NULL WHERE id % 10 = 3")
    table.alter("DROP COLUMN clock", "RENAME COLUMN day TO date")


def _hidden(table: Session) -> None:
    """Partitions by transforms, of four specs."""
    with_at = "SELECT *, timestamp_millis(id * 86399999) AS at FROM "
    table.run(
        f"INSERT INTO {table} {with_at} ({rows(0, 60, 1)})",
        f"DELETE FROM {table} WHERE id % 7 = 1",
    )
    table.alter(
        "REPLACE PARTITION FIELD bucket(3, id) WITH bucket(2, id)",
        "DROP PARTITION FIELD truncate(5, name)",
        "DROP PARTITION FIELD months(day)",
        "ADD PARTITION FIELD days(at) AS day_of_at",
    )
    table.run(f"INSERT INTO {table} {with_at} ({rows(60, 72, 1)})", f"DELETE FROM {table} WHERE id % 5 = 1")
    table.alter("DROP PARTITION FIELD day_of_at", "DROP PARTITION FIELD bucket(2, id)", "ADD PARTITION FIELD part")
    table.run(f"INSERT INTO {table} {with_at} ({rows(100, 150, 1)})")
    table.alter("DROP PARTITION FIELD part")
    table.run(
        f"INSERT INTO {table} {with_at} ({rows(150, 170, 1)})",
        f"UPDATE {table} SET price = 0 WHERE id % 9 = 4",
        f"DELETE FROM {table} WHERE part = '100%'",
    )


def _compacted(table: Session) -> None:
    """Rewritten, rolled back, on a branch; a file whose rows are all deleted."""
    table.run(
        f"INSERT INTO {table} {rows(0, 300, 3)}",
        f"DELETE FROM {table} WHERE id % 7 = 1",
        f"DELETE FROM {table} WHERE id < 100 AND length(name) > 0",
    )
    table.call("rewrite_data_files", "where => 'id < 250'", "options => map('rewrite-all', 'true')")
    table.run(merge(str(table), 10, 80), f"DELETE FROM {table} WHERE id % 11 = 1")
    table.call("rewrite_manifests")
    table.call("rollback_to_snapshot", f"snapshot_id => {table.snapshots()[2]}")
    table.alter("CREATE TAG whole", f"CREATE BRANCH side AS OF VERSION {table.snapshots()[1]}")
    table.run(f"DELETE FROM {table} WHERE id % 13 = 1", f"DELETE FROM {table}.branch_side WHERE id % 3 = 0")
    table.call("rewrite_data_files", "options => map('rewrite-all', 'true')")


def _expired(table: Session) -> None:
    """Only the last two snapshots are left, and what they need."""
    table.run(
        f"INSERT INTO {table} {rows(0, 200, 2)}",
        f"DELETE FROM {table} WHERE id % 7 = 1",
        f"DELETE FROM {table} WHERE id % 7 = 2",
        f"INSERT OVERWRITE {table} {rows(50, 250, 2)}",
        f"DELETE FROM {table} WHERE id % 7 = 3",
        f"DELETE FROM {table} WHERE id % 7 = 4",
    )
    table.call("expire_snapshots", "older_than => TIMESTAMP'2100-01-01 00:00:00'", "retain_last => 2")


def _upgraded(table: Session) -> None:
    """Position deletes of v2, of whole partitions and of single files, then vectors beside and instead of them."""
    table.run(f"INSERT INTO {table} {rows(0, 300, 3)}", f"DELETE FROM {table} WHERE id % 7 = 1")
    table.alter("SET TBLPROPERTIES ('write.delete.granularity' = 'file')")
    table.run(f"DELETE FROM {table} WHERE id % 8 = 1")
    table.alter("SET TBLPROPERTIES ('format-version' = '3')")
    table.run(
        f"DELETE FROM {table} WHERE id % 31 = 1 AND id < 100",
        f"INSERT INTO {table} {rows(300, 400, 1)}",
        f"UPDATE {table} SET name = 'new' WHERE id > 280 AND id % 4 = 0",
    )
    table.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")


TIDY = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
"""Leaves little metadata, for tables that the repository holds."""

CHANGES: dict[str, Change[Session]] = {
    "evolved": Change(_evolved, WIDE, properties=TIDY, ends_with_schema=True),
    "hidden": Change(
        _hidden, f"{COLUMNS}, at TIMESTAMP", "PARTITIONED BY (bucket(3, id), truncate(5, name), months(day))"
    ),
    "compacted": Change(_compacted),
    "expired": Change(_expired),
    "upgraded": Change(_upgraded, properties={**TIDY, "format-version": "2", "write.delete.granularity": "partition"}),
}
