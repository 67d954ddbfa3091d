"""Delta tables with deletion vectors; what is live is told from their logs, action by action."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from common import COLUMNS, ODD, ROW_GROUP_BYTES, ROW_GROUP_CHECK, DataFile, Place, Snapshot, Truth, Vector, local
from recipes import RECIPES

CATALOG = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
SMALL_ROW_GROUPS = {
    "parquet.block.size": str(ROW_GROUP_BYTES),
    "parquet.page.size.row.check.min": str(ROW_GROUP_CHECK),
}


def make(place: Place) -> Iterator[Truth]:
    for name, recipe in RECIPES.items():
        root = str(place.folder / f"delta {ODD}" / name)
        table = f"delta_{name}"
        place.spark.sql(
            f"CREATE TABLE {table} ({COLUMNS}) USING delta {'PARTITIONED BY (part)' if recipe.partitioned else ''} "
            f"LOCATION '{root}' TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        for key, value in SMALL_ROW_GROUPS.items():
            if recipe.small_row_groups:
                place.spark.conf.set(key, value)
            else:
                place.spark.conf.unset(key)
        recipe.run(place.spark, table)
        yield Truth("delta", name, root, [_snapshot(place, name, root)])


def _snapshot(place: Place, name: str, root: str) -> Snapshot:
    """Describe the table's current version."""
    logs = sorted((Path(root) / "_delta_log").glob("*.json"))
    version = int(logs[-1].stem)
    files, vectors = [], []
    for add in _live(logs):
        path = f"{root}/{unquote(add['path'])}"
        files.append(DataFile(path, json.loads(add["stats"])["numRecords"]))
        if descriptor := add.get("deletionVector"):
            container = _engine_path(place, descriptor, root)
            vectors.append(
                Vector(
                    path,
                    container,
                    descriptor.get("offset", 0),
                    descriptor["sizeInBytes"],
                    descriptor["cardinality"],
                    {"deletionVector": descriptor, "path": add["path"]},
                )
            )
    live = place.spark.sql(f"SELECT * FROM delta_{name} VERSION AS OF {version}")
    return Snapshot(version, place.keep(live, "delta", name, version), files, vectors)


def _live(logs: list[Path]) -> list[dict[str, Any]]:
    """Replay the log: a logical file is known by its path and its vector."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for log in logs:
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if remove := action.get("remove"):
                found.pop(_key(remove), None)
        for action in actions:
            if add := action.get("add"):
                found[_key(add)] = add
    return list(found.values())


def _key(action: dict[str, Any]) -> tuple[str, str]:
    return action["path"], json.dumps(action.get("deletionVector"), sort_keys=True)


def _engine_path(place: Place, descriptor: dict[str, Any], root: str) -> str:
    """Return where Delta's own class says that the vector is."""
    jvm = place.jvm
    read = jvm.org.apache.spark.sql.delta.actions.DeletionVectorDescriptor.apply(
        descriptor["storageType"],
        descriptor["pathOrInlineDv"],
        jvm.scala.Option.apply(descriptor.get("offset")),
        descriptor["sizeInBytes"],
        descriptor["cardinality"],
        jvm.scala.Option.empty(),
    )
    return local(read.absolutePath(jvm.org.apache.hadoop.fs.Path(root)).toString())
