"""Snapshots, schemas, manifests, partitions and where files are: real ones, and ones made to harm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Unsupported, paimon
from dvcodec.tables import Folder
from dvcodec.tables.paimon.manifests import Entries, ManifestEntry, read_manifest, read_manifest_list
from dvcodec.tables.paimon.metadata import SchemaField, TableSchema, numbered, parse_type, read_schema, read_snapshot
from dvcodec.tables.paimon.partition import Layout, PartitionSpec, decode_row, external_path
from samples.paimon_table import PaimonFile, build_paimon, encode_row, manifest_schema, rewrite_avro

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


@each(
    ("changes", "message"),
    [
        ({"id": "-"}, "id: expected an integer"),
        ({"schemaId": -1}, "schemaId: expected 0 to"),
        ({"baseManifestList": "../x"}, "baseManifestList: expected a bare file name"),
        ({"deltaManifestList": ""}, "deltaManifestList: expected a bare file name"),
        ({"changelogManifestList": "/etc/x"}, "changelogManifestList: expected a bare file name"),
        ({"indexManifest": "a/../b"}, "indexManifest: expected a bare file name"),
        ({"statistics": ".."}, "statistics: expected a bare file name"),
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
        ({"fields": [{"name": "a"}]}, r"fields\[0\].id: expected an integer"),
        ({"fields": [{"id": 1, "name": 2}]}, r"fields\[0\].name: expected a string"),
        ({"fields": [{"id": 1, "name": "b"}, {"id": 1, "name": "c"}]}, "fields: expected one column of each id"),
        ({"fields": [{"id": 1, "name": "b"}, {"id": 2, "name": "b"}]}, "fields: expected one column of each name"),
        ({"fields": [{"id": 1, "name": "\ud800"}]}, r"fields\[0\].name: expected a name of Unicode characters"),
        ({"partitionKeys": ["a", "a"]}, "partitionKeys: expected names of columns"),
        ({"primaryKeys": "a"}, "primaryKeys: expected an array"),
        ({"options": {"x": 1}}, "options.x: expected a string"),
    ],
)
def test_schema_that_is_not_valid_is_refused_by_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = put(tmp_path, "schema/schema-0", SCHEMA | changes)
    with pytest.raises(NotCanonical, match=f"schema/schema-0: {message}"):
        read_schema(folder, 0)


@pytest.mark.parametrize("name", ["snapshot/snapshot-2", "schema/schema-0"])
def test_newer_versions_are_not_read(tmp_path: Path, name: str) -> None:
    folder = put(tmp_path, name, SNAPSHOT | SCHEMA | {"version": 4})
    with pytest.raises(Unsupported, match=f"{name}: version: expected at most 3, found 4"):
        read_snapshot(folder, name) if "snapshot" in name else read_schema(folder, 0)


def test_files_are_ordered_by_number() -> None:
    numbers = ("0", "10", "9", "", "01", "1.tmp", "9" * 20)
    names = ["x-schema-1", *(f"schema-{number}" for number in numbers)]
    assert numbered(names, "schema") == [0, 9, 10]


# ---------------------------------------------- manifest lists and manifests: of all producers, and ones made to harm


ROWS = pa.table({"a": pa.array([1, 2, 3], pa.int32())})
A, B = PaimonFile("a.parquet", ROWS), PaimonFile("b.parquet", ROWS, level=1)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(str(build_paimon(tmp_path / "t", [(0, "a", "INT")], [[A], [A, B], [B]])))


def names(folder: Folder, *lists: str) -> list[str]:
    entries = (entry for name in lists for m in read_manifest_list(folder, name) for entry in read_manifest(folder, m))
    return [entry.file.file_name for entry in live_entries(entries)]


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    found = Entries.of(entries)
    return list(found.take(found.live()))


def test_file_of_another_level_or_with_another_index_is_another(tmp_path: Path) -> None:
    indexed = PaimonFile("b.parquet", ROWS, level=1, more={"_EXTRA_FILES": ["b.index"], "_EMBEDDED_FILE_INDEX": b"i"})
    upgraded = PaimonFile("a.parquet", ROWS, level=5)
    folder = Folder(str(build_paimon(tmp_path / "t", [(0, "a", "INT")], [[A, B], [upgraded, indexed]])))
    assert names(folder, "manifest-list-2-0", "manifest-list-2-1") == ["a.parquet", "b.parquet"]
    # Compaction of manifests may put a deletion before the addition.
    (added, removed) = (read_manifest(folder, f"manifest-{n}-0") for n in (1, 2))
    assert [entry.identity[2:6] for entry in live_entries([*removed, *added])] == [
        (5, "a.parquet", (), None),
        (1, "b.parquet", ("b.index",), b"i"),
    ]


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


@pytest.mark.parametrize("name", ["_FILE_NAME", "_ROW_COUNT", "_EXTRA_FILES"])
def test_schema_without_a_needed_field_is_refused(folder: Folder, name: str) -> None:
    schema = manifest_schema(without=[name])
    rewrite_avro(Path(folder.location) / "manifest/manifest-1-0", lambda record: record, schema)
    with pytest.raises(Unsupported, match=f"manifest-1-0 at byte 0: Avro schema: .*field _FILE: no field {name}"):
        read_manifest(folder, "manifest-1-0")


# ---------------------------------------------------------------------- where data files and index files are


ONE_ROW = pa.table({"a": pa.array([1], pa.int32()), "p": ["x y"]})
FILE = PaimonFile(
    "f.parquet", ONE_ROW, partition=("x y",), folder="p=x y", bucket=4, more={"_EXTRA_FILES": ["f.index"]}
)
INDEX = paimon.IndexManifestEntry(paimon.DELETION_VECTORS, "index-1", 1, 0)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Folder, TableSchema, ManifestEntry]:
    folder = Folder(
        str(build_paimon(tmp_path / "t", [(0, "a", "INT"), (1, "p", "STRING")], [[FILE]], partition_keys=["p"]))
    )
    return folder, read_schema(folder, 0), read_manifest(folder, "manifest-1-0")[0]


@each("path", ["", "f.parquet", "../f", "/a/../../etc/x", "s3://a/../b", "/a\0"])
def test_external_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(NotCanonical, match="m: _EXTERNAL_PATH: expected an absolute path"):
        external_path(path, "m")


def test_index_files_are_stored_together_or_beside_the_data(made: tuple[Folder, TableSchema, ManifestEntry]) -> None:
    folder, schema, entry = made
    beside = replace(schema, options={"index-file-in-data-file-dir": "true"})
    index = replace(INDEX, partition=entry.file.partition, bucket=4)
    assert Layout(folder, schema).index_file(index, "m") == "index/index-1"
    assert Layout(folder, beside).index_file(index, "m") == "p=x y/bucket-4/index-1"
    whole = replace(index, external_path="oss://b/index-1")
    assert Layout(folder, schema).index_file(whole, "m") == "oss://b/index-1"
    glob = replace(index, vectors=None, global_index=paimon.GlobalIndexMeta(0, 1, 0))
    assert Layout(folder, beside).index_file(glob, "m") == "index/index-1"


# ---------------------------------------------------------------------- folders of partitions, as Java calls them


GOLDEN = Path(__file__).with_name("partitions.tsv")
"""Made with Paimon's library 1.4.2: type, serialized partition, and its folder with and without ``legacy-name``; ``-``
where that depends on the writer's machine."""


def spec(*columns: tuple[str, str], **options: str) -> PartitionSpec:
    fields = tuple(SchemaField(i, name, kind) for i, (name, kind) in enumerate(columns))
    given = {name.replace("_", "-").replace("--", "."): value for name, value in options.items()}
    return PartitionSpec(TableSchema("schema-0", 0, fields, tuple(n for n, _ in columns), (), given))


def test_folders_are_called_as_java_calls_them() -> None:
    lines = [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").split("\n") if line]
    legacy = {kind: spec(("c", kind)) for kind, *_ in lines}
    plain = {kind: spec(("c", kind), partition__legacy_name="false") for kind, *_ in lines}
    for kind, data, *folders in lines:
        for specs, folder in zip((legacy, plain), folders, strict=True):
            if folder == "-":  # it depends on the writer
                continue
            assert specs[kind].decode(bytes.fromhex(data), source="m").folder + "/" == folder
    assert len(lines) > 80


@pytest.mark.parametrize(
    ("kind", "legacy", "value"),
    [("BYTES", "true", b"x"), ("TIMESTAMP_LTZ(3)", "false", 0)],
)
def test_folder_that_depends_on_the_writer_is_not_guessed(kind: str, legacy: str, value: Any) -> None:
    found = spec(("c", kind), partition__legacy_name=legacy)
    with pytest.raises(Unsupported, match="folder of partition column c"):
        found.decode(encode_row([value], [parse_type(kind, source="", what="")]), source="m")


def test_several_columns_buckets_and_options() -> None:
    columns = (("day", "DATE"), ("a/b", "STRING"))
    kinds = [parse_type(kind, source="", what="") for _, kind in columns]
    found = spec(*columns, partition__default_name="none", data_file__path_directory="data/")
    partition = found.decode(encode_row([19000, None], kinds), source="m")
    assert (partition.folder, partition.text) == ("data/day=19000/a%2Fb=none", "day=2022-01-08/a/b=null")
    assert found.bucket_folder(partition, 3) == "data/day=19000/a%2Fb=none/bucket-3"
    assert found.bucket_folder(partition, -2) == "data/day=19000/a%2Fb=none/bucket-postpone"


@pytest.mark.parametrize("folder", ["/etc", "a/../../b", "..", "s3://elsewhere/x"])
def test_folder_for_data_files_outside_of_the_table_is_refused(folder: str) -> None:
    with pytest.raises(Unsupported, match=r"data-file\.path-directory"):
        spec(data_file__path_directory=folder)


def test_time_beyond_the_calendar_is_refused() -> None:
    kinds = [parse_type("TIMESTAMP(3)", source="", what="")]
    with pytest.raises(Unsupported, match="a year from 1 to 9999"):
        spec(("c", "TIMESTAMP(3)")).decode(encode_row([10**15 * 1_000_000], kinds), source="m")


# ------------------------------------ serialized rows: the law that what is encoded is decoded, and rows made to harm


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "SMALLINT": st.integers(-(2**15), 2**15 - 1),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "DATE": st.integers(-(2**31), 2**31 - 1),
    "TIME(3)": st.integers(0, 86_399_999),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(18, 4)": st.decimals("-99999999999999", "99999999999999", places=4),
    "DECIMAL(19, 4)": st.decimals("-999999999999999", "999999999999999", places=4),
    "DECIMAL(38, 10)": st.decimals("-1e27", "1e27", places=10),
    "TIMESTAMP(3)": st.integers(-(2**52), 2**52).map(lambda millis: millis * 1_000_000),
    "TIMESTAMP(9)": st.integers(-(2**62), 2**62),
    "TIMESTAMP_LTZ(6)": st.integers(-(2**52), 2**52).map(lambda micros: micros * 1000),
    "STRING": st.text(max_size=20),
    "BYTES": st.binary(max_size=20),
}


def types(*names: str) -> list[Any]:
    return [parse_type(name, source="s", what=name) for name in names]


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[str], list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=70))
    return names, [draw(st.none() | VALUES[name]) for name in names]


@given(rows())
def test_decoding_gives_back_what_was_encoded(row: tuple[list[str], list[Any]]) -> None:
    names, values = row
    kinds = types(*names)
    assert decode_row(encode_row(values, kinds), kinds, source="s", what="_PARTITION") == tuple(values)


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"\0\0\0\x02" + bytes(24), "INT", "expected 1 fields, found 2"),
        (b"\0\0\0\x01" + bytes(8) + b"abcdefg\x88", "STRING", "at most 7 bytes in place"),
        (b"\0\0\0\x01" + bytes(8) + b"\xff\xfe\0\0\0\0\0\x82", "STRING", "expected UTF-8"),
        (b"\0\0\0\x01" + bytes(8) + b"\x11\0\0\0\x10\0\0\0" + bytes(99), "DECIMAL(38, 0)", "at most 16 bytes"),
    ],
)
def test_values_that_cannot_be_are_refused(data: bytes, name: str, message: str) -> None:
    with pytest.raises(NotCanonical, match=message):
        decode_row(data, types(name), source="s", what="w")


def test_type_that_no_partition_has_is_named() -> None:
    with pytest.raises(Unsupported, match="w: expected a type that partitions have, found BLOB"):
        decode_row(b"\0\0\0\x01" + bytes(16), types("BLOB"), source="s", what="w")
