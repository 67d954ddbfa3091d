"""Paimon tables with deletion vectors by the Spark connector; what is live is told by Paimon's own scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import paimon_changes
from common import COLUMNS, ROW_GROUP_BYTES, ROW_GROUP_CHECK, DataFile, Place, Snapshot, Truth, Vector, local
from recipes import RECIPES, Recipe, keyed

CATALOG = "pai"
SMALL_ROW_GROUPS = {"parquet.block.size": str(ROW_GROUP_BYTES), "parquet.page.size.row.check.min": str(ROW_GROUP_CHECK)}
STORED_RECORDS = "_VALUE_KIND IN (0, 2)"
"""Files of tables with a primary key hold records, of which some say that a key is gone (1, 3)."""


def config(warehouse: str) -> dict[str, str]:
    return {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        f"spark.sql.catalog.{CATALOG}": "org.apache.paimon.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.warehouse": warehouse,
    }


def make(place: Place) -> Iterator[Truth]:
    place.spark.sql(f"CREATE DATABASE {CATALOG}.db")
    for name, recipe in {**RECIPES, "keyed": Recipe(keyed)}.items():
        if place.wants(name):
            options = {"bucket": "2", "primary-key": "id"} if name == "keyed" else {}
            if recipe.small_row_groups:
                options |= SMALL_ROW_GROUPS
            table = _create(place, name, COLUMNS, "PARTITIONED BY (part)" if recipe.partitioned else "", options)
            recipe.run(place.spark, table)
            yield _truth(place, name, has_key=name == "keyed")
    for name, change in paimon_changes.CHANGES.items():
        if place.wants(name):
            _create(place, name, change.columns, change.partitions, SMALL_ROW_GROUPS | change.properties)
            change.run(paimon_changes.Session(place, CATALOG, f"db.{name}"))
            yield _truth(place, name, has_key="primary-key" in change.properties, head=change.ends_with_schema)


def _create(place: Place, name: str, columns: str, partitions: str, options: dict[str, str]) -> str:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "parquet", **options}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    place.spark.sql(f"CREATE TABLE {CATALOG}.db.{name} ({columns}) {partitions} TBLPROPERTIES ({listed})")
    return f"{CATALOG}.db.{name}"


def _truth(place: Place, name: str, *, has_key: bool, head: bool = False) -> Truth:
    root = str(place.folder / "paimon" / "db.db" / name)
    table = f"{CATALOG}.db.{name}"

    def snapshot(version: int) -> Snapshot:
        files, vectors = scan(place.jvm, root, version, cardinalities=False)
        position = "substring_index(__paimon_file_path, '/', -1) AS _file, __paimon_row_index AS _pos"
        live = place.spark.sql(f"SELECT *, {position} FROM {table} VERSION AS OF {version}")
        kept = place.keep(live, "paimon", name, version)
        return Snapshot(version, kept, files, vectors, STORED_RECORDS if has_key else None)

    snapshots = describe(place.jvm, root, snapshot)
    latest = place.keep(place.spark.sql(f"SELECT * FROM {table}"), "paimon", name, "head") if head else None
    return Truth("paimon", name, root, snapshots, snapshots[-1].version, latest)


def describe(jvm: Any, root: str, snapshot: Callable[[int], Snapshot]) -> list[Snapshot]:
    """Return all snapshots that there are, by Paimon's own word, the oldest first."""
    manager = _open(jvm, root).snapshotManager()
    found = []
    for version in range(manager.earliestSnapshotId(), manager.latestSnapshotId() + 1):
        described, recorded = snapshot(version), manager.snapshot(version)
        described.operation = recorded.commitKind().toString()
        described.timestamp_ms = recorded.timeMillis()
        found.append(described)
    return found


def scan(jvm: Any, root: str, version: int | None, *, cardinalities: bool) -> tuple[list[DataFile], list[Vector]]:
    """Return the data files of a snapshot (None = the latest), and their vectors.

    Before 1.0 no cardinalities are recorded.
    """
    table = _open(jvm, root)
    version = table.snapshotManager().latestSnapshotId() if version is None else version
    then = table.copy(_options(jvm, {"scan.snapshot-id": str(version)}))
    splits = then.newScan().plan().splits()
    planned = {meta.fileName() for split in splits for meta in split.dataFiles()}
    files, vectors = [], []
    for split in table.newSnapshotReader().withSnapshot(version).read().dataSplits():
        deletions = split.deletionFiles().orElse(None) or [None] * split.dataFiles().size()
        for meta, deletion in zip(split.dataFiles(), deletions, strict=True):
            path = f"{local(split.bucketPath())}/{meta.fileName()}"
            files.append(DataFile(path, meta.rowCount(), meta.fileName() in planned))
            if deletion is not None:
                container, offset, length = local(deletion.path()), deletion.offset(), deletion.length()
                cardinality = deletion.cardinality() if cardinalities else None
                vectors.append(Vector(path, container, offset, length, cardinality, {"name": meta.fileName()}))
    return files, vectors


def _open(jvm: Any, root: str) -> Any:
    paimon = jvm.org.apache.paimon
    return paimon.table.FileStoreTableFactory.create(paimon.fs.local.LocalFileIO(), paimon.fs.Path(root))


def _options(jvm: Any, options: dict[str, str]) -> Any:
    found = jvm.java.util.HashMap()
    for key, value in options.items():
        found.put(key, value)
    return found
