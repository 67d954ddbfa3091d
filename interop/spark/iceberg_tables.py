"""Iceberg tables of format version 3, changed merge-on-read: every delete is a deletion vector in a Puffin file."""

from __future__ import annotations

from collections.abc import Iterator

from common import COLUMNS, ROW_GROUP_BYTES, ROW_GROUP_CHECK, DataFile, Place, Snapshot, Truth, Vector, local
from recipes import RECIPES, Recipe

CATALOG = "ice"
EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def config(warehouse: str) -> dict[str, str]:
    return {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
    }


def make(place: Place) -> Iterator[Truth]:
    for name, recipe in RECIPES.items():
        table = f"{CATALOG}.db.{name}"
        place.spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING iceberg {_layout(recipe)}")
        recipe.run(place.spark, table)
        root = local(place.spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first()["data_type"])
        yield Truth("iceberg", name, root, [_snapshot(place, name, table)])


def _layout(recipe: Recipe) -> str:
    properties = {
        "format-version": "3",
        "write.delete.mode": "merge-on-read",
        "write.update.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
        "write.distribution-mode": "none",
        "write.spark.fanout.enabled": "true",
    }
    if recipe.small_row_groups:
        properties["write.parquet.row-group-size-bytes"] = str(ROW_GROUP_BYTES)
        properties["write.parquet.row-group-check-min-record-count"] = str(ROW_GROUP_CHECK)
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    return f"{'PARTITIONED BY (part)' if recipe.partitioned else ''} TBLPROPERTIES ({listed})"


def _snapshot(place: Place, name: str, table: str) -> Snapshot:
    """Describe the table's current snapshot."""
    spark = place.spark
    version = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at DESC").first()[0]
    at = f"VERSION AS OF {version}"
    files = spark.sql(f"SELECT file_path, record_count FROM {table}.data_files {at}").collect()
    deletes = spark.sql(f"SELECT * FROM {table}.delete_files {at}").collect()
    return Snapshot(
        version,
        place.keep(spark.sql(f"SELECT * FROM {table} {at}"), "iceberg", name, version),
        [DataFile(local(file.file_path), file.record_count) for file in files],
        [
            Vector(
                local(row.referenced_data_file),
                local(row.file_path),
                row.content_offset,
                row.content_size_in_bytes,
                row.record_count,
                {"referenced_data_file": row.referenced_data_file, "file_format": row.file_format},
            )
            for row in deletes
        ],
    )
