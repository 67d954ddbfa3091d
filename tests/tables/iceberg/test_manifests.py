"""Manifest lists, manifests, and the spellings of the data files that they name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage
from dvcodec.tables import DataFile, DeletionVector
from dvcodec.tables.iceberg.manifests import (
    DATA,
    DELETES,
    ListedFile,
    Manifest,
    ManifestEntry,
    read_list,
    read_manifest,
)
from dvcodec.tables.iceberg.plan import Spellings
from samples.iceberg_table import entry_schema, list_schema, moved, write_avro

FILE = {
    "content": 0,
    "file_path": "s3://t/a.parquet",
    "file_format": "Parquet",
    "partition": {},
    "record_count": 5,
    "file_size_in_bytes": 100,
}


def read(
    folder: Path, *entries: dict[str, Any], version: int = 3, content: int = DATA, number: int = 9
) -> tuple[ListedFile, ...]:
    path = folder / "m.avro"
    write_avro(path, entry_schema(version, (), {}), entries, "deflate")
    manifest = Manifest("s3://t/m.avro", str(path), 0, content, number, 77, encrypted=False)
    return read_manifest(manifest, (), moved, Storage())


def entry(status: int = 1, file: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"status": status, "snapshot_id": None, "data_file": FILE | (file or {})} | more


def test_new_entries_inherit_and_old_ones_do_not(tmp_path: Path) -> None:
    old = {"sequence_number": 3, "file_sequence_number": 3, "snapshot_id": 5}
    found = read(tmp_path, entry(), entry(0, {"file_path": "s3://t/b"}, **old), entry(2, {"file_path": "s3://t/c"}))
    assert [(one.path, one.location, one.sequence_number) for one in found] == [
        ("s3://t/a.parquet", "/here/a.parquet", 9),
        ("s3://t/b", "/here/b", 3),
    ]
    records = [ManifestEntry.of(one) for one in found if isinstance(one, DataFile)]
    assert [(one.status, one.snapshot_id) for one in records] == [(1, 77), (0, 5)]
    assert {one.file_format for one in records} == {"parquet"}
    assert {one.manifest for one in records} == {"s3://t/m.avro"}


BOUNDS = [{"key": 2147483545, "value": bytes(8)}, {"key": 2147483546, "value": b"s3://t/a.parquet"}]


@each(
    ("more", "data_file"),
    [
        ({}, None),
        ({"referenced_data_file": "x"}, "x"),
        ({"lower_bounds": BOUNDS, "upper_bounds": BOUNDS}, "s3://t/a.parquet"),
        ({"lower_bounds": BOUNDS, "upper_bounds": BOUNDS[:1]}, None),
        ({"lower_bounds": BOUNDS, "upper_bounds": [{"key": 2147483546, "value": b"s3://t/b"}]}, None),
        ({"lower_bounds": BOUNDS}, None),
        ({name: [{"key": 2147483546, "value": b"\xff"}] for name in ("lower_bounds", "upper_bounds")}, None),
    ],
)
def test_what_position_deletes_are_for(tmp_path: Path, more: dict[str, Any], data_file: str | None) -> None:
    (one,) = read(tmp_path, entry(1, {"content": 1, **more}), content=DELETES)
    assert isinstance(one, DeletionVector)
    assert (one.format, one.data_file, one.size) == ("position-deletes", data_file, 100)


def test_what_is_in_the_wrong_manifest(tmp_path: Path) -> None:
    for content, own in ((DELETES, 0), (DATA, 2), (DELETES, 3)):
        with pytest.raises(NotCanonical, match=rf"m.avro .*content of s3://t/a.parquet: .* found {own}"):
            read(tmp_path, entry(1, {"content": own}), content=content)


@pytest.mark.parametrize("name", ["file_format", "partition", "record_count", "file_size_in_bytes"])
def test_required_values_that_are_null(tmp_path: Path, name: str) -> None:
    """A schema may allow it."""
    schema = entry_schema(3, (), {})
    (field,) = (one for one in schema["fields"][-1]["type"]["fields"] if one["name"] == name)
    field["type"] = ["null", field["type"]]
    write_avro(tmp_path / "m.avro", schema, [entry(1, {name: None})], "null")
    manifest = Manifest("m", str(tmp_path / "m.avro"), 0, DATA, 1, 1, encrypted=False)
    with pytest.raises(NotCanonical, match=rf"m.avro .*{name} of s3://t/a.parquet: expected a value, found nothing"):
        read_manifest(manifest, (), moved, Storage())


def test_encrypted_manifests(tmp_path: Path) -> None:
    manifest = Manifest("m", str(tmp_path / "m"), 0, DATA, 1, 1, encrypted=True)
    with pytest.raises(Unsupported, match="manifest: expected no encryption"):
        read_manifest(manifest, (), moved, Storage())
    with pytest.raises(FileNotFoundError):
        read_manifest(replace(manifest, encrypted=False), (), moved, Storage())


LISTED = {
    "manifest_path": "s3://t/m.avro",
    "manifest_length": 7,
    "partition_spec_id": 2,
    "content": 1,
    "sequence_number": 4,
    "min_sequence_number": 1,
    "added_snapshot_id": 6,
    **{f"{word}_{what}_count": 0 for word in ("added", "existing", "deleted") for what in ("files", "rows")},
}


def listed(folder: Path, version: int, *records: dict[str, Any]) -> list[Manifest]:
    write_avro(folder / "l.avro", list_schema(version), records, "null")
    return read_list(str(folder / "l.avro"), moved, Storage())


def test_manifest_lists(tmp_path: Path) -> None:
    wanted = Manifest("s3://t/m.avro", "/here/m.avro", 2, DELETES, 4, 6, encrypted=False)
    assert listed(tmp_path, 2, LISTED) == [wanted]
    assert listed(tmp_path, 1, LISTED) == [replace(wanted, content=DATA, sequence_number=0)]
    assert listed(tmp_path, 2, LISTED | {"key_metadata": b""}) == [replace(wanted, encrypted=True)]
    assert listed(tmp_path, 2) == []


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"content": 2}, Unsupported, r"content of manifest 0: expected 0 \(data\), 1 \(deletes\), found 2"),
        ({"manifest_path": ""}, NotCanonical, "manifest_path of manifest 0: expected a path"),
        ({"manifest_path": "\0"}, NotCanonical, "manifest_path of manifest 0: expected a path"),
    ],
)
def test_wrong_lists(tmp_path: Path, change: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=rf"l.avro at byte 0: {match}"):
        listed(tmp_path, 2, LISTED | change)


def test_a_spec_id_that_is_null(tmp_path: Path) -> None:
    schema = list_schema(2)
    schema["fields"][2]["type"] = ["null", "int"]
    write_avro(tmp_path / "l.avro", schema, [LISTED | {"partition_spec_id": None}], "null")
    with pytest.raises(NotCanonical, match="partition_spec_id of manifest 0: expected a number, found nothing"):
        read_list(str(tmp_path / "l.avro"), moved, Storage())


@each(
    ("known", "path", "meant"),
    [
        (["/t/a", "/t/b"], "hdfs://host:8020/t/a", "/t/a"),
        (["/t/a"], "hdfs:/t/a", "/t/a"),
        (["/t/a"], "file:///t/a", "/t/a"),
        (["hdfs://host/t/a"], "/t/a", "hdfs://host/t/a"),
        (["s3://lake/t/a"], "s3a://lake/t/a", "s3://lake/t/a"),
        (["file:/t/a"], "file:///t/a", "file:/t/a"),
        (["hdfs://one/t/a"], "hdfs://two/t/a", None),
        (["s3://lake/t/a"], "s3://pond/t/a", None),
        (["s3://lake/t/a"], "hdfs://host/t/a", None),
        (["hdfs://one/t/a", "hdfs://two/t/a"], "/t/a", None),
        (["/t/a", "hdfs://one/t/a"], "file:/t/a", None),
        (["/t/a"], "hdfs://host/t/b", None),
        (["/t/a"], "hdfs://host", None),
        (["t:0/a"], "/a", None),
        ([], "/t/a", None),
    ],
)
def test_find(known: list[str], path: str, meant: str | None) -> None:
    assert Spellings(known).find(path) == meant
