"""Paimon tables with deletion vectors by the Spark connector; what is live is told by Paimon's own scan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
        table = f"{CATALOG}.db.{name}"
        has_key = name == "keyed"
        place.spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {_layout(recipe, has_key)}")
        recipe.run(place.spark, table)
        root = str(place.folder / "paimon" / "db.db" / name)
        yield Truth("paimon", name, root, [_snapshot(place, name, root, STORED_RECORDS if has_key else None)])


def _layout(recipe: Recipe, has_key: bool) -> str:
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "parquet"}
    if has_key:
        options |= {"bucket": "2", "primary-key": "id"}
    if recipe.small_row_groups:
        options |= SMALL_ROW_GROUPS
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"{'PARTITIONED BY (part)' if recipe.partitioned else ''} TBLPROPERTIES ({listed})"


def _snapshot(place: Place, name: str, root: str, condition: str | None) -> Snapshot:
    version, files, vectors = scan(place.jvm, root, cardinalities=False)
    live = place.spark.sql(f"SELECT * FROM {CATALOG}.db.{name} VERSION AS OF {version}")
    return Snapshot(version, place.keep(live, "paimon", name, version), files, vectors, condition)


def scan(jvm: Any, root: str, *, cardinalities: bool) -> tuple[int, list[DataFile], list[Vector]]:
    """Return the latest snapshot, the data files that Paimon would read, and their vectors.

    Before 1.0 no cardinalities are recorded.
    """
    paimon = jvm.org.apache.paimon
    table = paimon.table.FileStoreTableFactory.create(paimon.fs.local.LocalFileIO(), paimon.fs.Path(root))
    version = table.snapshotManager().latestSnapshotId()
    files, vectors = [], []
    for split in table.newSnapshotReader().withSnapshot(version).read().dataSplits():
        deletions = split.deletionFiles().orElse(None) or [None] * split.dataFiles().size()
        for meta, deletion in zip(split.dataFiles(), deletions, strict=True):
            path = f"{local(split.bucketPath())}/{meta.fileName()}"
            files.append(DataFile(path, meta.rowCount()))
            if deletion is not None:
                container, offset, length = local(deletion.path()), deletion.offset(), deletion.length()
                cardinality = deletion.cardinality() if cardinalities else None
                vectors.append(Vector(path, container, offset, length, cardinality, {"name": meta.fileName()}))
    return version, files, vectors
