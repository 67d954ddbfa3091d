"""Manifests: generations of their fields, what is inherited, what is left out."""

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
    read_manifest,
)
from samples.iceberg_table import entry_schema, moved, write_avro

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
