"""Manifests in columns list the files that they list entry by entry, and are refused with the same words."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each
from dvcodec.core import avro_columns
from dvcodec.core.errors import DecodeError, NotCanonical, UsageError
from dvcodec.io import Storage
from dvcodec.tables.columns import FileColumns, VectorColumns
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg import entries as reading
from dvcodec.tables.iceberg.entries import (
    DATA,
    DELETES,
    FILE_PATH_ID,
    DataFiles,
    Deletes,
    EqualityDeletes,
    Manifest,
    ManifestEntry,
    ManifestFiles,
    read_manifest,
)
from dvcodec.tables.iceberg.metadata import PartitionField, TableMetadata
from dvcodec.tables.iceberg.plan import ScanPlan
from dvcodec.tables.iceberg.rows import bounds_of, may_be_between, read_statistics
from dvcodec.tables.iceberg.snapshot import _FileColumns, _VectorColumns
from dvcodec.tables.iceberg.table import IcebergTable
from dvcodec.tables.metadata.json_fields import is_path
from dvcodec.tables.model import DataFile, DeletionVector
from dvcodec.tables.rows.bounds import Range
from dvcodec.tables.rows.columns import Column
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
        "file_size_in_bytes": rng.getrandbits(number % 20),
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


def entry_of(content: int, number: int) -> Entry:
    return data_entry(number) if content == DATA else delete_entry(number)


def written(folder: Path, content: int, entries: list[Entry], number: int = 9) -> Manifest:
    path = folder / "m.avro"
    write_avro(path, entry_schema(3, SPEC, {}), entries, "null")
    return Manifest("s3://t/m.avro", str(path), 0, content, number, 77, encrypted=False)


def everything_of(one: DataFile | DeletionVector | EqualityDeletes) -> list[Any]:
    """All values of a file, those that are not compared among them."""
    if isinstance(one, EqualityDeletes):
        return [*everything_of(one.file), one.equality_ids]
    return [getattr(one, name) for name in one.__slots__]


def locate(path: str) -> str:
    if path.endswith("refused"):
        raise NotCanonical("path", source="s3://t", expected="another", actual=path)
    return moved(path)


def outcome(manifest: Manifest) -> list[list[Any]] | str:
    """The files of a manifest, or how it is refused."""
    try:
        found = read_manifest(manifest, FIELDS, locate, Storage())
        return [everything_of(one) for one in (*found, *found.equality)]
    except DecodeError as error:
        return f"{type(error).__name__} {error}"


def in_columns(manifest: Manifest) -> ManifestFiles:
    """The files of a manifest whose entries are not read one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(reading._EntryReader, "one_by_one")
        return read_manifest(manifest, FIELDS, moved, Storage())


def same_by_entry(manifest: Manifest) -> bool:
    """Whether entries that are read one by one come to the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "read_columns", lambda *_: None)
        alone = outcome(manifest)
    return outcome(manifest) == alone


@each(("content", "kind"), [(DATA, DataFiles), (DELETES, Deletes)])
def test_entries_in_columns(tmp_path: Path, content: int, kind: type) -> None:
    entries = [entry_of(content, number) for number in range(300)]
    entries[7]["status"] = entries[8]["status"] = 2
    manifest = written(tmp_path, content, entries)
    found = in_columns(manifest)
    assert isinstance(found, kind)
    assert len(found) == 298
    assert list(found.paths) == [one.path if isinstance(one, DataFile) else one.data_file for one in found]
    assert same_by_entry(manifest)


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
    for place in (0, 150, 199):
        entries = [entry_of(content, one) for one in range(200)]
        entries[place] |= {name: value for name, value in change.items() if name in entries[place]}
        entries[place]["data_file"] |= change
        manifest = written(tmp_path, content, entries, number)
        assert same_by_entry(manifest)


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_manifests(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    content = data.draw(st.sampled_from([DATA, DELETES]))
    folder = tmp_path_factory.mktemp("m")
    manifest = written(folder, content, [entry_of(content, number) for number in range(12)])
    path = folder / "m.avro"
    stored = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(len(stored) // 3, len(stored) - 17))
        stored[place] = data.draw(st.integers(0, 255))
    path.write_bytes(stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(avro_columns, "_FEW", 1)
        assert same_by_entry(manifest)


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
    assert len(in_columns(manifest)) == 200
    assert same_by_entry(manifest)


def test_files_between_bounds(tmp_path: Path) -> None:
    """Files are ruled out as their bounds do one by one; bounds that are odd, missing or there twice rule out none."""
    chance = random.Random(5)

    def bounds(low: int, high: int) -> Entry:
        found: Entry = {}
        for name, value in (("lower_bounds", low), ("upper_bounds", high)):
            size = chance.choice([4, 8])
            stored = value.to_bytes(size, "little", signed=True) + b"x" * (chance.random() < 0.05)
            pairs = [{"key": 3, "value": stored}] * chance.choice([0, *[1] * 9, 2])
            found[name] = None if chance.random() < 0.05 else [{"key": 1, "value": b"\xff" * 8}, *pairs]
        return found

    entries = []
    for number in range(400):
        low = chance.randrange(-500, 500)
        entries.append(data_entry(number, **bounds(low, low + chance.randrange(50))))
        entries[-1]["status"] = 2 if number % 11 == 0 else entries[-1]["status"]
    manifest = written(tmp_path, DATA, entries)
    files = read_manifest(manifest, FIELDS, moved, Storage())
    assert isinstance(files, DataFiles)
    recorded = read_statistics(manifest.location, [3], Storage())
    for size, kind in ((4, "int"), (8, "long")):
        column = Column(name="c", id=3, type=pa.int32() if size == 4 else pa.int64(), kind=kind)
        known = [bounds_of(column, recorded[file.path][3]) for file in files]
        wanted: list[tuple[int | None, int | None]] = [(None, -100), (100, None), (-20, 20), (7, 7), (None, None)]
        for least_wanted, most_wanted in [*wanted, (5000, 6000)]:
            may = may_be_between(files, {3: (size, Range(least_wanted, most_wanted))}, Storage())
            for one, file, is_kept in zip(known, files, may.tolist(), strict=True):
                least, most = (bound if bound is None else bound.as_py() for bound in (one.lower, one.upper))
                out = (least is not None and most_wanted is not None and least > most_wanted) or (
                    most is not None and least_wanted is not None and most < least_wanted
                )
                stored = entries_of(entries, file.path)
                if size == 8 or all(len(pair["value"]) == 4 for pair in stored if pair["key"] == 3):
                    assert is_kept != out
                assert is_kept or out
    none = may_be_between(files, {3: (8, Range(5000, 6000))}, Storage())
    assert 0 < none.sum() < len(files) / 3


def entries_of(entries: list[Entry], path: str) -> list[Entry]:
    """The bounds of a data file."""
    (one,) = (entry["data_file"] for entry in entries if entry["data_file"]["file_path"] == path)
    return [*(one["lower_bounds"] or ()), *(one["upper_bounds"] or ())]


# ---------------------------------------------------------------------- snapshots


def manifests_of(folder: Path) -> list[Manifest]:
    """Manifests of which some are read in columns, and some entry by entry."""
    data = [data_entry(number) for number in range(200)]
    apart = [data_entry(number) for number in range(200, 230)]
    paths = [one["data_file"]["file_path"] for one in [*data, *apart]]
    others = [path.replace("s3://t", "") for path in paths]

    def deletes(first: int, named: list[str]) -> list[Entry]:
        entries = [delete_entry(first + number) for number in range(len(named))]
        for number, (path, one) in enumerate(zip(named, entries, strict=True)):
            if one["data_file"].get("referenced_data_file"):
                one["data_file"]["referenced_data_file"] = path
            if number % 3:
                one["data_file"]["partition"] = {"day": path[14:15]}
            one |= {"sequence_number": 3 + number % 9, "file_sequence_number": 2}
        return entries

    few = deletes(500, paths[190:])
    few[0]["data_file"] |= {"content": 2, "equality_ids": [1]}
    few[1]["data_file"] |= {"key_metadata": b"k"}
    of_manifests = [(DATA, data), (DATA, apart), (DELETES, deletes(1, paths[:190])), (DELETES, few)]
    of_manifests.append((DELETES, deletes(700, others[10:150])))
    found = []
    for number, (content, entries) in enumerate(of_manifests):
        (folder / str(number)).mkdir(exist_ok=True)
        found.append(written(folder / str(number), content, entries))
    return found


def plan_of(found: list[Manifest]) -> ScanPlan:
    return ScanPlan.of([read_manifest(one, FIELDS, moved, Storage()) for one in found], "list.avro")


def test_deletes_of_another_partition(tmp_path: Path) -> None:
    plan = plan_of(manifests_of(tmp_path))
    pairs = [(vector, plan.data[vector.data_file or ""]) for vector in plan.vectors if vector.data_file in plan.data]
    mismatched = list(plan.mismatched_partitions())
    assert mismatched == [
        (vector, data)
        for vector, data in pairs
        if vector.partition_key != data.partition_key and (vector.format == "iceberg" or plan.holds(vector, data))
    ]
    assert {vector.format for vector, _ in mismatched} == {"iceberg", "position-deletes"}
    assert plan.with_vector
    assert plan.respelled


def test_columns_of_snapshots(tmp_path: Path) -> None:
    plan = plan_of(manifests_of(tmp_path))
    files = _FileColumns(plan, lambda paths: list(map(moved, paths)))
    plain = FileColumns(tuple(plan.data_files))
    for name in ("paths", "locations", "partitions"):
        assert list(getattr(files, name)) == list(getattr(plain, name)), name
    for name in ("rows", "sizes", "single"):
        assert getattr(files, name).tolist() == getattr(plain, name).tolist(), name
    vectors = _VectorColumns(plan, lambda paths: list(map(moved, paths)))
    objects = VectorColumns(tuple(plan.vectors), plan.numbers)
    for name in ("files", "bitmaps", "offsets", "sizes", "cardinalities", "file_sizes", "counts"):
        assert getattr(vectors, name).tolist() == getattr(objects, name).tolist(), name
    assert vectors.have_wide == objects.have_wide is True
    for one in (vectors.places, objects.places):
        assert [one.paths[number] for number in one.path_of.tolist()] == [vector.path for vector in plan.vectors]
        assert [one.locations[n] for n in one.location_of.tolist()] == [vector.location for vector in plan.vectors]
    assert list(vectors.places.locations) == list(objects.places.locations)
    older = {
        id(vector)
        for vector in plan.vectors
        if vector.data_file in plan.data and number_of(vector) < number_of(plan.data[vector.data_file or ""])
    }
    assert vectors.frames.tolist() == [
        vector.format == "iceberg" and ManifestEntry.of(vector).key_metadata is None and id(vector) not in older
        for vector in plan.vectors
    ]
    assert 0 < vectors.frames.sum() < vectors.bitmaps.sum()


def number_of(one: DataFile | DeletionVector) -> int:
    assert one.sequence_number is not None
    return one.sequence_number


def test_a_data_file_twice_in_columns(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in "ab")
    for one in (first, second):
        one.mkdir()
    entries = [data_entry(number) for number in range(200)]
    found = [written(first, DATA, entries), written(second, DATA, [data_entry(number) for number in range(199, 400)])]
    path = entries[199]["data_file"]["file_path"]
    with pytest.raises(NotCanonical, match=rf"manifests: expected each data file once, found {path} twice"):
        plan_of(found)


RECORDED = "s3://lake/db/t"


def table_at(folder: str) -> IcebergTable:
    """A table that was moved there."""
    metadata = cast("TableMetadata", SimpleNamespace(location=RECORDED))
    return IcebergTable(Folder(folder, recorded=RECORDED), metadata)


NAMES = st.text("ab/.:\\\0\n%\u00e9 =", max_size=9)


@given(st.sampled_from(["s3://lake/t", "/wh/t", "hdfs:///", "file:/wh/t"]), st.lists(NAMES, max_size=4))
def test_where_many_paths_are(folder: str, names: list[str]) -> None:
    """All of them at once are where each is, and refused as the first that is."""
    table = table_at(folder)
    paths = [f"{RECORDED}/{name}" for name in names] + [f"{RECORDED}/data/a-1.parquet"]

    def each_of(locate: Any) -> Any:
        try:
            return list(locate(paths))
        except (DecodeError, UsageError) as error:
            return str(error)

    assert each_of(table.locate_each) == each_of(lambda some: map(table._locate, some))
    if table._are_inside(paths):
        assert all(map(is_path, paths))
        assert isinstance(each_of(table.locate_each), list)


def test_plain_paths_are_inside() -> None:
    table = table_at("/copy/t")
    paths = [f"{RECORDED}/data/day=2026-01-0{number}/x y+%3A-{number}.parquet" for number in range(5)]
    assert table._are_inside(paths)
    assert table.locate_each(paths) == [path.replace(RECORDED, "/copy/t") for path in paths]
    assert not table._are_inside([*paths, f"{RECORDED}/{'x' * 8193}"])
    assert not table._are_inside([*paths, "s3://elsewhere/x"])
