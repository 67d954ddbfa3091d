"""Manifest lists and manifests: of all producers, and ones made to harm."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dvcodec import DecodeError, NotCanonical, Unsupported
from dvcodec.tables import Folder
from dvcodec.tables.paimon.manifests import live_entries, read_manifest, read_manifest_list
from samples.paimon_table import FILE_FIELDS, MANIFEST_SCHEMA, PaimonFile, build_paimon, rewrite_avro

ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int32())})
A, B = PaimonFile("a.parquet", ROWS), PaimonFile("b.parquet", ROWS, level=1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(build_paimon(tmp_path / "t", [(0, "a", "INT")], [[A], [A, B], [B]])))


def names(folder: Folder, *lists: str) -> list[str]:
    entries = (entry for name in lists for m in read_manifest_list(folder, name) for entry in read_manifest(folder, m))
    return [entry.file.file_name for entry in live_entries(entries)]


def test_file_of_another_level_or_with_another_index_is_another(tmp_path: Path) -> None:
    indexed = PaimonFile("b.parquet", ROWS, level=1, more={"_EXTRA_FILES": ["b.parquet.index"]})
    upgraded = PaimonFile("a.parquet", ROWS, level=5)
    folder = Folder(str(build_paimon(tmp_path / "t", [(0, "a", "INT")], [[A, B], [upgraded, indexed]])))
    assert names(folder, "manifest-list-2-0", "manifest-list-2-1") == ["a.parquet", "b.parquet"]
    # Compaction of manifests may put a deletion before the addition.
    (added, removed) = (read_manifest(folder, f"manifest-{n}-0") for n in (1, 2))
    assert [entry.identity[2:5] for entry in live_entries([*removed, *added])] == [
        (5, "a.parquet", ()),
        (1, "b.parquet", ("b.parquet.index",)),
    ]


def _unchanged(record: dict[str, Any]) -> None:
    pass


def _file(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda record: change(record["_FILE"])


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda r: r.update(_VERSION=3), Unsupported, "_VERSION: expected 2, found 3"),
        (lambda r: r.update(_KIND=2), NotCanonical, "_KIND: expected 0"),
        (_file(lambda f: f.update(_FILE_NAME="../x")), NotCanonical, "_FILE_NAME: expected a bare file name"),
        (_file(lambda f: f.update(_EXTRA_FILES=["a", "b/c"])), NotCanonical, "_EXTRA_FILES: expected a bare file name"),
        (_file(lambda f: f.update(_FILE_SIZE=-1)), NotCanonical, "_FILE_SIZE: expected 0 or more"),
        (_file(lambda f: f.update(_ROW_COUNT=-1)), NotCanonical, "_ROW_COUNT: expected 0 or more"),
        (_file(lambda f: f.update(_SCHEMA_ID=-1)), NotCanonical, "_SCHEMA_ID: expected 0 or more"),
        (_file(lambda f: f.update(_LEVEL=-1)), NotCanonical, "_LEVEL: expected 0 or more"),
    ],
)
def test_entry_that_is_not_valid_is_refused_by_field(
    folder: Folder, change: Callable[[dict[str, Any]], object], kind: type[DecodeError], message: str
) -> None:
    rewrite_avro(Path(folder.location) / "manifest/manifest-1-0", change)
    with pytest.raises(kind, match=f"manifest/manifest-1-0.*: {message}"):
        read_manifest(folder, "manifest-1-0")


def test_list_that_is_not_valid_is_refused_by_field(folder: Folder) -> None:
    path = Path(folder.location) / "manifest/manifest-list-1-1"
    rewrite_avro(path, lambda record: record.update(_FILE_NAME="../x"))
    with pytest.raises(NotCanonical, match="manifest-list-1-1: _FILE_NAME: expected a bare file name"):
        read_manifest_list(folder, "manifest-list-1-1")
    rewrite_avro(path, lambda record: record.update(_FILE_NAME="x", _VERSION=1))
    with pytest.raises(Unsupported, match="_VERSION: expected 2, found 1"):
        read_manifest_list(folder, "manifest-list-1-1")


def test_fields_that_are_not_known_are_named(folder: Folder) -> None:
    schema: dict[str, Any] = copy.deepcopy(MANIFEST_SCHEMA)
    schema["fields"][-1]["type"]["fields"] = [
        *FILE_FIELDS,
        {"name": "_NEW", "type": {"type": "array", "items": "long"}},
    ]
    rewrite_avro(Path(folder.location) / "manifest/manifest-1-0", _file(lambda f: f.update(_NEW=[5])), schema)
    (entry,) = read_manifest(folder, "manifest-1-0")
    assert entry.file.unknown == ("_NEW",)


@pytest.mark.parametrize("name", ["_FILE_NAME", "_ROW_COUNT", "_EXTRA_FILES"])
def test_schema_without_a_needed_field_is_refused(folder: Folder, name: str) -> None:
    schema: dict[str, Any] = copy.deepcopy(MANIFEST_SCHEMA)
    schema["fields"][-1]["type"]["fields"] = [f for f in FILE_FIELDS if f["name"] != name]
    rewrite_avro(Path(folder.location) / "manifest/manifest-1-0", _unchanged, schema)
    with pytest.raises(Unsupported, match=f"manifest-1-0 at byte 0: Avro schema: .*field _FILE: no field {name}"):
        read_manifest(folder, "manifest-1-0")
