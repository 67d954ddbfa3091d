"""Iceberg tables, changed merge-on-read: deletes are deletion vectors in Puffin files, or (v2) position deletes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import iceberg_changes
from common import COLUMNS, ROW_GROUP_BYTES, ROW_GROUP_CHECK, DataFile, Place, Snapshot, Truth, Vector, local
from recipes import RECIPES

CATALOG = "ice"
EXTENSION = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
}
SMALL_ROW_GROUPS = {
    "write.parquet.row-group-size-bytes": str(ROW_GROUP_BYTES),
    "write.parquet.row-group-check-min-record-count": str(ROW_GROUP_CHECK),
}


def config(warehouse: str) -> dict[str, str]:
    return {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
        # What a schema change did is seen at once.
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    }


def make(place: Place) -> Iterator[Truth]:
    for name, recipe in RECIPES.items():
        if place.wants(name):
            properties = PROPERTIES | (SMALL_ROW_GROUPS if recipe.small_row_groups else {})
            table = _create(place, name, COLUMNS, "PARTITIONED BY (part)" if recipe.partitioned else "", properties)
            recipe.run(place.spark, table)
            yield _truth(place, name, table)
    for name, change in iceberg_changes.CHANGES.items():
        if place.wants(name):
            properties = PROPERTIES | SMALL_ROW_GROUPS | change.properties
            table = _create(place, name, change.columns, change.partitions, properties)
            change.run(iceberg_changes.Session(place, CATALOG, f"db.{name}"))
            yield _truth(place, name, table, head=change.ends_with_schema)


def _create(place: Place, name: str, columns: str, partitions: str, properties: dict[str, str]) -> str:
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    place.spark.sql(f"CREATE TABLE {CATALOG}.db.{name} ({columns}) USING iceberg {partitions} TBLPROPERTIES ({listed})")
    return f"{CATALOG}.db.{name}"


def _truth(place: Place, name: str, table: str, *, head: bool = False) -> Truth:
    spark = place.spark
    root = local(spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first()["data_type"])
    (current,) = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").first()
    listed = spark.sql(f"SELECT *, unix_millis(committed_at) AS ms FROM {table}.snapshots").collect()
    snapshots = [_snapshot(place, name, table, row) for row in listed]
    latest = place.keep(spark.sql(f"SELECT * FROM {table}"), "iceberg", name, "head") if head else None
    return Truth("iceberg", name, root, snapshots, current, latest)


def _snapshot(place: Place, name: str, table: str, row: Any) -> Snapshot:
    version = row.snapshot_id
    at = f"VERSION AS OF {version}"
    entries = place.spark.sql(f"SELECT data_file.* FROM {table}.entries {at} WHERE status < 2").collect()
    live = place.spark.sql(f"SELECT *, substring_index(_file, '/', -1) AS _file, _pos FROM {table} {at}")
    return Snapshot(
        version,
        place.keep(live, "iceberg", name, version),
        [DataFile(local(file.file_path), file.record_count) for file in entries if file.content == 0],
        [_vector(file) for file in entries if file.content != 0],
        operation=row.operation,
        timestamp_ms=row.ms,
        parent=row.parent_id,
    )


def _vector(file: Any) -> Vector:
    data_file = file.referenced_data_file
    is_vector = file.file_format == "PUFFIN"
    return Vector(
        data_file and local(data_file),
        local(file.file_path),
        file.content_offset,
        file.content_size_in_bytes if is_vector else file.file_size_in_bytes,
        file.record_count,
        {"referenced_data_file": data_file, "file_format": file.file_format},
    )
