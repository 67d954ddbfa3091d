"""Delta tables with deletion vectors; what is live is told from their logs, action by action."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import delta_changes
from common import COLUMNS, ROW_GROUP_BYTES, ROW_GROUP_CHECK, DataFile, Place, Snapshot, Truth, Vector, local
from recipes import RECIPES

CATALOG = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
SMALL_ROW_GROUPS = {
    "parquet.block.size": str(ROW_GROUP_BYTES),
    "parquet.page.size.row.check.min": str(ROW_GROUP_CHECK),
}


def make(place: Place) -> Iterator[Truth]:
    for name, recipe in RECIPES.items():
        if place.wants(name):
            for key, value in SMALL_ROW_GROUPS.items():
                if recipe.small_row_groups:
                    place.spark.conf.set(key, value)
                else:
                    place.spark.conf.unset(key)
            table = _create(place, name, COLUMNS, "PARTITIONED BY (part)" if recipe.partitioned else "", {})
            recipe.run(place.spark, table)
            yield _truth(place, name)
    for key, value in SMALL_ROW_GROUPS.items():
        place.spark.conf.set(key, value)
    for name, change in delta_changes.CHANGES.items():
        if place.wants(name):
            if change.columns:
                _create(place, name, change.columns, change.partitions, change.properties)
            session = delta_changes.Session(place, f"delta_{name}", _root(place, name))
            change.run(session)
            yield _truth(place, name, session.forgotten)


def _root(place: Place, name: str) -> str:
    return f"{place.folder_of('delta')}/{name}"


def _create(place: Place, name: str, columns: str, partitions: str, properties: dict[str, str]) -> str:
    properties = {"delta.enableDeletionVectors": "true", **properties}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    place.spark.sql(
        f"CREATE TABLE delta_{name} ({columns}) USING delta {partitions} "
        f"LOCATION '{_root(place, name)}' TBLPROPERTIES ({listed})"
    )
    return f"delta_{name}"


def _truth(place: Place, name: str, forgotten: dict[int, str] | None = None) -> Truth:
    """Describe every version that the log still tells of; `forgotten` has commits that it no longer has."""
    root = _root(place, name)
    here = {int(log.stem): log.read_text() for log in (Path(root) / "_delta_log").glob("*.json") if log.stem.isdigit()}
    history = {row.version: row.operation for row in place.spark.sql(f"DESCRIBE HISTORY delta_{name}").collect()}
    live: dict[tuple[str, str], dict[str, Any]] = {}
    snapshots = []
    for version, commit in sorted({**(forgotten or {}), **here}.items()):
        _replay(live, [json.loads(line) for line in commit.splitlines()])
        if version in here:
            snapshots.append(_snapshot(place, name, version, list(live.values()), history.get(version)))
    return Truth("delta", name, root, snapshots, max(here))


def _replay(live: dict[tuple[str, str], dict[str, Any]], actions: list[dict[str, Any]]) -> None:
    """Apply a commit: a logical file is known by its path and its vector."""
    for action in actions:
        if remove := action.get("remove"):
            live.pop(_key(remove), None)
    for action in actions:
        if add := action.get("add"):
            live[_key(add)] = add


def _key(action: dict[str, Any]) -> tuple[str, str]:
    return action["path"], json.dumps(action.get("deletionVector"), sort_keys=True)


def _snapshot(place: Place, name: str, version: int, adds: list[dict[str, Any]], operation: str | None) -> Snapshot:
    root = _root(place, name)
    files, vectors = [], []
    for add in adds:
        path = unquote(add["path"])
        path = local(path) if path.startswith("file:") else f"{root}/{path}"
        files.append(DataFile(path, json.loads(add["stats"])["numRecords"]))
        if descriptor := add.get("deletionVector"):
            vectors.append(
                Vector(
                    path,
                    _engine_path(place, descriptor, root),
                    descriptor.get("offset", 0),
                    descriptor["sizeInBytes"],
                    descriptor["cardinality"],
                    {"deletionVector": descriptor, "path": add["path"]},
                )
            )
    live = None
    needed = [file.path for file in files] + [vector.container for vector in vectors]
    if all(map(os.path.exists, needed)):
        position = "_metadata.file_name AS _file, _metadata.row_index AS _pos"
        found = place.spark.sql(f"SELECT *, {position} FROM delta_{name} VERSION AS OF {version}")
        live = place.keep(found, "delta", name, version)
    return Snapshot(
        version,
        live,
        files,
        vectors,
        operation=operation,
    )


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
