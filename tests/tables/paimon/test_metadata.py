"""Snapshots and schemas: real ones, and ones that are corrupt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import NotCanonical, Unsupported
from dvcodec.tables import Folder, SnapshotInfo
from dvcodec.tables.paimon.metadata import numbered, read_schema, read_snapshot

SNAPSHOT: dict[str, Any] = {
    "version": 3,
    "id": 2,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "commitKind": "APPEND",
    "timeMillis": 5,
}
SCHEMA: dict[str, Any] = {
    "version": 3,
    "id": 0,
    "fields": [{"id": 0, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "STRING"}],
    "partitionKeys": ["b"],
    "primaryKeys": [],
    "options": {"deletion-vectors.enabled": "TRUE"},
}


def put(folder: Path, name: str, fields: dict[str, Any]) -> Folder:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({key: value for key, value in fields.items() if value != "-"}))
    return Folder(str(folder))


def test_snapshot_of_java_0_9(vectors: Path) -> None:
    folder = Folder(str(vectors / "paimon/java-0.9.0-tables/db.db/dv"))
    found = read_snapshot(folder, "snapshot/snapshot-6")
    assert found.info == SnapshotInfo(6, 1795237880126, "COMPACT", 5)
    assert found.base_manifest_list == "manifest-list-ec7aac88-b7b6-41e2-b4bd-08e96441d63f-10"
    assert found.index_manifest == "index-manifest-630d1af1-7bce-4092-8f82-d5ac10c22676-1"
    assert (found.changelog_manifest_list, found.statistics) == (None, None)


def test_schema_of_java_0_9(vectors: Path) -> None:
    found = read_schema(Folder(str(vectors / "paimon/java-0.9.0-tables/db.db/dv")), 0)
    assert [(field.id, field.name, field.type) for field in found.fields] == [
        (0, "id", "INT NOT NULL"),
        (1, "v", "STRING"),
    ]
    assert (found.partition_keys, found.primary_keys, found.named["v"].id) == ((), ("id",), 1)
    assert found.is_true("deletion-vectors.enabled")
    assert not found.is_true("gone")
    assert found.is_true("gone", default=True)


@each(
    ("changes", "message"),
    [
        ({"id": "2"}, "id: expected an integer"),
        ({"id": "-"}, "id: expected an integer"),
        ({"schemaId": -1}, "schemaId: expected 0 to"),
        ({"baseManifestList": "-"}, "baseManifestList: expected a string"),
        ({"baseManifestList": "../x"}, "baseManifestList: expected a bare file name"),
        ({"deltaManifestList": ""}, "deltaManifestList: expected a bare file name"),
        ({"changelogManifestList": "/etc/x"}, "changelogManifestList: expected a bare file name"),
        ({"indexManifest": "a/../b"}, "indexManifest: expected a bare file name"),
        ({"statistics": ".."}, "statistics: expected a bare file name"),
        ({"commitKind": 1}, "commitKind: expected a string"),
        ({"timeMillis": None}, "timeMillis: expected an integer"),
    ],
)
def test_snapshot_that_is_not_valid_is_refused_by_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = put(tmp_path, "snapshot/snapshot-2", SNAPSHOT | changes)
    with pytest.raises(NotCanonical, match=f"snapshot/snapshot-2: {message}"):
        read_snapshot(folder, "snapshot/snapshot-2")


@each(
    ("changes", "message"),
    [
        ({"id": 1}, "id: expected 0"),
        ({"fields": {}}, "fields: expected an array"),
        ({"fields": [1]}, r"fields\[0\]: expected an object"),
        ({"fields": [{"name": "a"}]}, r"fields\[0\].id: expected an integer"),
        ({"fields": [{"id": 1, "name": 2}]}, r"fields\[0\].name: expected a string"),
        ({"fields": [{"id": 1, "name": "b"}, {"id": 1, "name": "c"}]}, "fields: expected one column of each id"),
        ({"fields": [{"id": 1, "name": "b"}, {"id": 2, "name": "b"}]}, "fields: expected one column of each name"),
        ({"fields": [{"id": 1, "name": "\ud800"}]}, r"fields\[0\].name: expected a name of Unicode characters"),
        ({"partitionKeys": ["x"]}, "partitionKeys: expected names of columns"),
        ({"partitionKeys": ["a", "a"]}, "partitionKeys: expected names of columns"),
        ({"primaryKeys": "a"}, "primaryKeys: expected an array"),
        ({"options": {"x": 1}}, "options.x: expected a string"),
    ],
)
def test_schema_that_is_not_valid_is_refused_by_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = put(tmp_path, "schema/schema-0", SCHEMA | changes)
    with pytest.raises(NotCanonical, match=f"schema/schema-0: {message}"):
        read_schema(folder, 0)


def test_newer_versions_are_not_read(tmp_path: Path) -> None:
    put(tmp_path, "snapshot/snapshot-2", SNAPSHOT | {"version": 4})
    folder = put(tmp_path, "schema/schema-0", SCHEMA | {"version": 4})
    with pytest.raises(Unsupported, match="version: expected at most 3"):
        read_snapshot(folder, "snapshot/snapshot-2")
    with pytest.raises(Unsupported, match="version: expected at most 3"):
        read_schema(folder, 0)


def test_files_are_ordered_by_number() -> None:
    names = [
        "schema-0",
        "schema-10",
        "schema-9",
        "schema-",
        "schema-01",
        "schema-1.tmp",
        "x-schema-1",
        "schema-" + "9" * 20,
    ]
    assert numbered(names, "schema") == [0, 9, 10]
