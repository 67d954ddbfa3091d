"""Manifests in columns list the files that they list entry by entry, and are refused with the same words."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from dvcodec.core import avro_columns
from dvcodec.core.errors import DecodeError, NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.iceberg import manifests
from dvcodec.tables.iceberg.manifests import (
    DATA,
    DELETES,
    FILE_PATH_ID,
    FilesInColumns,
    ListedFile,
    Manifest,
    read_manifest,
)
from dvcodec.tables.iceberg.metadata import PartitionField
from samples.iceberg_table import entry_schema, moved, write_avro

pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")

SPEC = [{"name": "day", "field-id": 1000, "source-id": 1, "transform": "identity"}]
FIELDS = (PartitionField(1000, 1, "day", "identity", "day"),)
Entry = dict[str, Any]


def data_entry(number: int, **more: Any) -> Entry:
    rng = random.Random(number)
    file = {
        "content": 0,
        "file_path": f"s3://t/data/day={number % 7}/{rng.getrandbits(120):030x}.parquet",
        "file_format": ("PARQUET", "parquet", "ORC")[number % 3],
        "partition": {"day": None if number % 7 == 3 else f"{number % 7}"},
        "record_count": rng.getrandbits(number % 40),
        "file_size_in_bytes": rng.getrandbits(20),
        "lower_bounds": [{"key": key, "value": rng.randbytes(8)} for key in range(number % 5)],
    }
    status = number % 5 if number % 5 < 2 else 1
    own = {"snapshot_id": 5, "sequence_number": 3, "file_sequence_number": 3} if number % 3 or not status else {}
    return {"status": status, "snapshot_id": None, "data_file": file | more} | own


def path_bounds(path: str, other: str | None = None) -> Entry:
    """Bounds of position deletes for these data files."""
    lower = [{"key": FILE_PATH_ID - 1, "value": bytes(8)}, {"key": FILE_PATH_ID, "value": path.encode()}]
    upper = [{"key": FILE_PATH_ID, "value": (other or path).encode()}, {"key": FILE_PATH_ID, "value": b"again"}]
    return {"lower_bounds": lower, "upper_bounds": upper}


def delete_entry(number: int, **more: Any) -> Entry:
    data = f"s3://t/data/{number:040}.parquet"
    puffin = {
        "file_format": "PUFFIN",
        "file_path": f"s3://t/data/{number // 9:040}.puffin",
        "referenced_data_file": data,
        "content_offset": 4 + number,
        "content_size_in_bytes": 40,
    }
    kinds: list[Entry] = [
        puffin,
        {"referenced_data_file": data},
        path_bounds(data),
        path_bounds(data, data + "x"),
        {},
        {"lower_bounds": [{"key": FILE_PATH_ID, "value": b"\xff"}], "upper_bounds": path_bounds("")["upper_bounds"]},
        puffin | path_bounds(data) | {"referenced_data_file": None, "content_offset": None},
    ]
    return data_entry(number, content=1, **kinds[number % len(kinds)] | more)


def written(folder: Path, content: int, entries: list[Entry], number: int = 9) -> Manifest:
    path = folder / "m.avro"
    write_avro(path, entry_schema(3, SPEC, {}), entries, "null")
    return Manifest("s3://t/m.avro", str(path), 0, content, number, 77, encrypted=False)


def everything_of(one: ListedFile) -> list[Any]:
    """All values of a file, those that are not compared among them."""
    return [getattr(one, name) for name in one.__slots__]


def locate(path: str) -> str:
    if path.endswith("refused"):
        raise NotCanonical("path", source="s3://t", expected="another", actual=path)
    return moved(path)


def outcome(manifest: Manifest) -> list[list[Any]] | str:
    """The files of a manifest, or how it is refused."""
    try:
        return [everything_of(one) for one in read_manifest(manifest, FIELDS, locate, Storage())]
    except DecodeError as error:
        return f"{type(error).__name__} {error}"


def by_entry(manifest: Manifest) -> list[list[Any]] | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "read_columns", lambda *_: None)
        return outcome(manifest)


def test_data_files_in_columns(tmp_path: Path) -> None:
    entries = [data_entry(number) for number in range(300)]
    entries[7]["status"] = entries[8]["status"] = 2
    manifest = written(tmp_path, DATA, entries)
    found = read_manifest(manifest, FIELDS, moved, Storage())
    assert isinstance(found, FilesInColumns)
    assert (len(found), found.manifest, bool(found.vectors.any())) == (298, manifest, False)
    assert found.paths == [one.path for one in found]
    assert outcome(manifest) == by_entry(manifest)


def test_deletes_in_columns(tmp_path: Path) -> None:
    entries = [delete_entry(number) for number in range(300)]
    entries[3]["status"] = 2
    manifest = written(tmp_path, DELETES, entries)
    found = read_manifest(manifest, FIELDS, moved, Storage())
    assert isinstance(found, FilesInColumns)
    assert outcome(manifest) == by_entry(manifest)
    named = [getattr(one, "data_file", "") for one in found]
    assert list(found.paths) == named
    assert 0 < named.count(None) < 200
    assert found.vectors.tolist() == [getattr(one, "format", "") == "iceberg" for one in found]


@each(
    ("content", "number", "change"),
    [
        (DATA, 9, {"status": 3}),
        (DATA, 9, {"status": 0, "sequence_number": None}),
        (DATA, 0, {"status": 0, "sequence_number": None}),
        (DATA, 9, {"file_path": ""}),
        (DATA, 9, {"file_path": "s3://t/\0"}),
        (DATA, 9, {"file_path": "s3://t/refused"}),
        (DATA, 9, {"record_count": -1}),
        (DATA, 9, {"file_size_in_bytes": -1}),
        (DATA, 9, {"content": 1}),
        (DATA, 9, {"content": 2}),
        (DATA, 9, {"key_metadata": b""}),
        (DELETES, 9, {"content": 0}),
        (DELETES, 9, {"content": 2, "equality_ids": [1, 2]}),
        (DELETES, 9, {"record_count": -1, "file_size_in_bytes": -1}),
        (DELETES, 9, {"referenced_data_file": ""}),
        (DELETES, 9, {"file_format": "pUFFIN", "content_size_in_bytes": None}),
    ],
    ids=str,
)
def test_unusual_entries(tmp_path: Path, content: int, number: int, change: Entry) -> None:
    """Some are refused, some are read, and that the same way."""
    make = data_entry if content == DATA else delete_entry
    for place in (0, 150, 199):
        entries = [make(one) for one in range(200)]
        entries[place] |= {name: value for name, value in change.items() if name in entries[place]}
        entries[place]["data_file"] |= change
        manifest = written(tmp_path, content, entries, number)
        assert outcome(manifest) == by_entry(manifest)


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_manifests(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = data.draw(st.sampled_from([DATA, DELETES]))
    folder = tmp_path_factory.mktemp("m")
    make = data_entry if content == DATA else delete_entry
    manifest = written(folder, content, [make(number) for number in range(12)])
    path = folder / "m.avro"
    stored = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(len(stored) // 3, len(stored) - 17))
        stored[place] = data.draw(st.integers(0, 255))
    path.write_bytes(stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_columns, "_FEW", 1)
        assert outcome(manifest) == by_entry(manifest)


def test_other_names_of_fields(tmp_path: Path) -> None:
    """Fields are found by their ids."""
    schema = entry_schema(3, SPEC, {})
    schema["fields"][0]["name"] = "standing"
    file = schema["fields"][-1]["type"]["fields"]
    for one in file:
        if one["name"] in ("file_path", "record_count"):
            one["name"] += "_"
    entries = [data_entry(number) for number in range(200)]
    for one in entries:
        one["standing"] = one.pop("status")
        one["data_file"] |= {f"{name}_": one["data_file"].pop(name) for name in ("file_path", "record_count")}
    write_avro(tmp_path / "m.avro", schema, entries, "deflate")
    manifest = Manifest("m", str(tmp_path / "m.avro"), 0, DATA, 9, 77, encrypted=False)
    assert isinstance(read_manifest(manifest, FIELDS, moved, Storage()), FilesInColumns)
    assert outcome(manifest) == by_entry(manifest)
