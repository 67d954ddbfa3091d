"""Delta tables whose schema, log or history changes, beside their rows."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from changes import Change, Statements
from common import COLUMNS, WIDE, rows, wide
from recipes import merge


@dataclass(frozen=True)
class Session(Statements):
    """A table at a path.

    Attributes:
        forgotten: commits by version, kept before the log was cleaned up.
    """

    name: str
    root: str
    forgotten: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def age(self) -> None:
        """Make the log so old that the next checkpoint cleans it up."""
        for file in (Path(self.root) / "_delta_log").iterdir():
            number = file.name[:20]
            if number.isdigit():
                os.utime(file, (1.6e9 + int(number), 1.6e9 + int(number)))
                if file.name == f"{number}.json":
                    self.forgotten[int(number)] = file.read_text()

    def renew(self) -> None:
        """Make what is left of the log new again: Delta does not travel to old versions."""
        for file in (Path(self.root) / "_delta_log").iterdir():
            os.utime(file)


def _named(table: Session) -> None:
    """Columns of old files are known by physical names; one is wider; a partition is null."""
    table.run(f"INSERT INTO {table} {wide(0, 60, 1)}", f"DELETE FROM {table} WHERE id % 7 = 1")
    table.alter(
        "DROP COLUMN flag",
        "ADD COLUMNS (extra INT, point.z STRING, flag STRING FIRST)",
        "RENAME COLUMN ratio TO share",
        "RENAME COLUMN part TO `the part`",
        "ALTER COLUMN amount TYPE DECIMAL(12,2)",
    )
    table.run(
        f"INSERT INTO {table} SELECT 'new', id, part, ratio, amount, at, clock, raw, day, "
        f"struct(point.x, point.y, 'zed'), tags, props, id * 10 FROM ({wide(60, 90, 1)})",
        f"DELETE FROM {table} WHERE id % 5 = 2",
        f"UPDATE {table} SET flag = 'set', extra = 1 WHERE id % 10 = 3",
    )


def _checkpointed(table: Session) -> None:
    """Columns by field id; change data; checkpoints with sidecars; the log before the first is gone."""
    table.run(f"INSERT INTO {table} {rows(0, 200, 2)}", f"DELETE FROM {table} WHERE id % 7 = 1")
    table.alter("RENAME COLUMN name TO `a, b`")
    table.run(f"DELETE FROM {table} WHERE id % 7 = 2")
    table.age()
    conf = table.place.spark.conf
    conf.set("spark.databricks.delta.checkpointV2.topLevelFileFormat", "parquet")
    table.alter("DROP COLUMN day", "ADD COLUMN day STRING AFTER id")
    table.run(
        f"UPDATE {table} SET `a, b` = 'set', day = 'today' WHERE id % 10 = 3",
        f"DELETE FROM {table} WHERE id % 7 = 4",
    )
    conf.unset("spark.databricks.delta.checkpointV2.topLevelFileFormat")
    table.renew()


def _compacted(table: Session) -> None:
    """Rewritten, restored and purged; a file whose rows are all deleted; checkpoints whose statistics are no JSON."""
    table.place.spark.conf.set("spark.databricks.delta.writeChecksumFile.enabled", "true")
    table.run(
        f"INSERT INTO {table} {rows(0, 300, 3)}",
        f"DELETE FROM {table} WHERE id % 7 = 1",
        f"DELETE FROM {table} WHERE id < 100 AND length(name) > 0",
        f"OPTIMIZE {table}",
        merge(str(table), 10, 80),
        f"RESTORE TABLE {table} TO VERSION AS OF 2",
        f"DELETE FROM {table} WHERE id % 11 = 1",
        f"REORG TABLE {table} APPLY (PURGE)",
        f"DELETE FROM {table} WHERE id % 13 = 1",
    )
    table.place.spark.conf.unset("spark.databricks.delta.writeChecksumFile.enabled")


def _vacuumed(table: Session) -> None:
    """Files that older versions need are gone."""
    table.run(
        f"INSERT INTO {table} {rows(0, 200, 2)}",
        f"DELETE FROM {table} WHERE id % 7 = 1",
        f"OPTIMIZE {table}",
        f"UPDATE {table} SET price = 0 WHERE id % 7 = 3",
        f"VACUUM {table} RETAIN 0 HOURS",
    )


def _cloned(table: Session) -> None:
    """Data files and vectors of another table, by absolute paths, then vectors of its own for those files."""
    table.run(
        f"CREATE TABLE delta_parent ({COLUMNS}) USING delta PARTITIONED BY (part) "
        f"LOCATION '{table.root} parent' TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        f"INSERT INTO delta_parent {rows(0, 100, 1)}",
        "DELETE FROM delta_parent WHERE id % 5 = 1",
        f"CREATE TABLE {table} SHALLOW CLONE delta_parent LOCATION '{table.root}'",
        f"DELETE FROM {table} WHERE id % 4 = 2 AND id < 50",
        f"INSERT INTO {table} {rows(100, 120, 1)}",
        f"DELETE FROM {table} WHERE id > 110",
    )


CHANGES: dict[str, Change[Session]] = {
    "named": Change(
        _named,
        WIDE,
        "PARTITIONED BY (part)",
        {
            "delta.columnMapping.mode": "name",
            "delta.enableTypeWidening": "true",
            "delta.enableRowTracking": "true",
            "delta.dataSkippingNumIndexedCols": "0",
        },
    ),
    "checkpointed": Change(
        _checkpointed,
        properties={
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "3",
            "delta.columnMapping.mode": "id",
            "delta.enableChangeDataFeed": "true",
        },
    ),
    "compacted": Change(
        _compacted,
        properties={
            "delta.checkpointInterval": "3",
            "delta.checkpoint.writeStatsAsJson": "false",
            "delta.checkpoint.writeStatsAsStruct": "true",
        },
    ),
    "vacuumed": Change(_vacuumed),
    "cloned": Change(_cloned, columns=""),
}
