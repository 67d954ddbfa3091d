"""Metadata of whole tables: what Iceberg, Delta, Paimon and scorch keep beside the vectors."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress

from dvcodec import DecodeError
from dvcodec.core import avro
from dvcodec.io import Storage
from dvcodec.tables.delta.log import Log
from dvcodec.tables.delta.protocol import check_protocol
from dvcodec.tables.delta.protocol import read_schema as read_delta_schema
from dvcodec.tables.delta.replay import rebuild
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg import metadata as iceberg_metadata
from dvcodec.tables.iceberg.deletes import read_deletes
from dvcodec.tables.iceberg.entries import DATA, DELETES, Manifest, read_manifest
from dvcodec.tables.iceberg.rows import read_name_mapping
from dvcodec.tables.iceberg.schema import SchemaColumns
from dvcodec.tables.paimon import manifests as paimon_manifests
from dvcodec.tables.paimon.metadata import read_column, read_schema
from dvcodec.tables.paimon.partition import PartitionSpec
from dvcodec.tables.rows.data_file import open_data_file
from fuzz import mend, structures
from fuzz.seeds import files
from fuzz.target import MANY, Target, check_rows, held
from samples.position_deletes import position_deletes

FOLDER = Folder("/t", recorded="s3://lake/t")


def _run_iceberg_metadata(data: bytes) -> None:
    with held({"/t/m.json": data}):
        found = iceberg_metadata.read_metadata("/t/m.json", Storage())
    assert found.current is None or found.current in found.snapshots
    assert found.current_schema_id in found.schemas
    failed: DecodeError | None = None
    for schema in found.schemas.values():
        try:
            SchemaColumns(schema).read()
        except DecodeError as error:
            failed = error
    if found.name_mapping is not None:
        read_name_mapping(found.name_mapping, "m")
    if failed is not None:
        raise failed


def _iceberg_metadata() -> Iterator[bytes]:
    yield from files("**/metadata/*.metadata.json", "iceberg/**/*.json", most=9000, count=16)
    first = files("**/metadata/*.metadata.json", most=9000, count=1)
    yield from map(gzip.compress, first)


def _run_manifest(data: bytes) -> None:
    failed: DecodeError | None = None
    for content in (DATA, DELETES):
        manifest = Manifest("m.avro", "/t/m.avro", 0, content, 3, 7, encrypted=False)
        try:
            with held({"/t/m.avro": data}):
                for entry in read_manifest(manifest, (), FOLDER.locate, Storage()):
                    assert entry.path
        except DecodeError as error:
            failed = error
    if failed is not None:
        raise failed


def _manifests() -> Iterator[bytes]:
    return iter(files("**/metadata/*-m[0-9].avro", most=9500, count=12))


LOG = "/t/_delta_log/00000000000000000000.json"


def _run_delta_log(data: bytes) -> None:
    log = Log.from_names("/t/_delta_log", [LOG.rpartition("/")[2]])
    with held({LOG: data}):
        state = rebuild(Folder("/t"), log, 0)
    check_protocol(state.protocol)
    schema = read_delta_schema(state.protocol, state.metadata)
    for name in schema._fields:
        with suppress(DecodeError):
            schema.column(name)
    for file in state.files.values():
        assert file.size >= 0
        assert file.vector is None or file.vector.descriptor.cardinality >= 0


def _delta_logs() -> Iterator[bytes]:
    commits = files("**/_delta_log/*0.json", "**/_delta_log/*1.json", most=6000, count=12)
    yield from commits
    first = [data for data in commits if b'"protocol"' in data and b'"metaData"' in data]
    for data in first[:2]:
        yield from (data.rstrip() + b"\n" + more for more in commits[:6] if b'"protocol"' not in more)


def _run_paimon_schema(data: bytes) -> None:
    with held({"/t/schema/schema-0": data}):
        schema = read_schema(Folder("/t"), 0)
    for item in schema.fields:
        with suppress(DecodeError):
            read_column(item, "s")
    PartitionSpec(schema)


def _paimon_schemas() -> Iterator[bytes]:
    yield from files("**/schema/schema-0", count=8)
    kinds: tuple[object, ...] = (
        "INT NOT NULL",
        "DECIMAL(20, 2)",
        "TIMESTAMP(6) WITH LOCAL TIME ZONE",
        "VARCHAR(10)",
        {"type": "ARRAY", "element": "BIGINT"},
        {"type": "VECTOR", "element": "FLOAT", "length": 3},
        {"type": "MAP NOT NULL", "key": "STRING", "value": {"type": "MULTISET", "element": "INT"}},
        {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "DATE"}]},
    )
    fields = [{"id": i, "name": f"c{i}", "type": kind} for i, kind in enumerate(kinds)]
    yield json.dumps({"version": 3, "id": 0, "fields": fields, "partitionKeys": ["c0"], "options": {"a": "b"}}).encode()


def _run_paimon_manifest(data: bytes) -> None:
    with held({"/t/manifest/m": data}):
        try:
            entries = paimon_manifests.read_manifest(Folder("/t"), "m")
        except DecodeError:
            paimon_manifests.read_manifest_list(Folder("/t"), "m")
            return
    entries.live()


def _paimon_manifests() -> Iterator[bytes]:
    return iter(files("paimon/**/manifest/manifest-*", "tables/paimon/**/manifest/manifest-*", most=8000, count=10))


_FORMATS = ("parquet", "avro", "orc")


def _run_position_deletes(data: bytes) -> None:
    if not data:
        return
    count, kind = data[0], _FORMATS[data[1] % 3] if len(data) > 1 else "avro"
    with held({"/t/d": data[2:]}):
        found = read_deletes("/t/d", kind, count, Storage())
    assert found.count == count
    assert sum(rows.cardinality for rows in found.rows.values()) <= count <= MANY
    for rows in found.rows.values():
        check_rows(rows)


def _position_deletes() -> Iterator[bytes]:
    for options in ({}, {"use_dictionary": False, "compression": "NONE"}, {"compression": "zstd"}):
        yield b"\5\0" + position_deletes("parquet", **options)
    for options in ({}, {"compression": "zlib", "dictionary_key_size_threshold": 1.0}):
        yield b"\5\2" + position_deletes("orc", **options)
    yield b"\5\1" + position_deletes("avro")


def _run_avro_rows(data: bytes) -> None:
    with held({"/t/d": data}), open_data_file("/t/d", Storage(), "avro") as file:
        rows = 0
        for start, batch in file.read(file.schema.names, 1000, ()):
            assert start == rows <= MANY
            assert batch.schema.types == file.schema.types
            batch.validate(full=True)
            rows += batch.num_rows
        assert rows == file.rows


def _avro_rows() -> Iterator[bytes]:
    def logical(kind: str, meant: str, **more: object) -> dict[str, object]:
        return {"type": kind, "logicalType": meant, **more}

    price = logical("bytes", "decimal", precision=9, scale=2)
    entry = {
        "type": "record",
        "name": "entry",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": ["null", price]}],
    }
    kinds = {
        "id": "long",
        "name": ["null", "string"],
        "day": logical("int", "date"),
        "at": ["null", logical("long", "timestamp-micros", **{"adjust-to-utc": True})],
        "cents": logical("fixed", "decimal", name="cents", size=5, precision=9, scale=2),
        "tags": {"type": "array", "items": ["null", price], "element-id": 9},
        "counts": ["null", {"type": "map", "values": "float", "key-id": 10, "value-id": 11}],
        "ranks": {"type": "array", "logicalType": "map", "items": entry},
    }
    values = [1, "a", 5, None, bytes(5), [b"\1", None], {"x": 0.5}, [{"key": 1, "value": b"\xff"}]]
    for some in (list(kinds), ["id", "name"], ["tags"], ["counts", "day"], ["ranks", "cents"]):
        fields = [{"name": name, "type": kinds[name], "field-id": i} for i, name in enumerate(some, 1)]
        row = dict(zip(kinds, values, strict=True))
        rows = [{name: row[name] for name in some}] * 3
        yield avro.encode({"type": "record", "name": "t", "fields": fields}, rows, codec="null", validate=False)


TARGETS = (
    Target("iceberg-metadata", "a metadata file", _run_iceberg_metadata, _iceberg_metadata, max_len=9000),
    Target(
        "iceberg-manifest", "a manifest (Avro)", _run_manifest, _manifests, mend.avro, mend.avro_records, max_len=10_000
    ),
    Target(
        "position-deletes",
        "a file of position deletes: Parquet, Avro, ORC",
        _run_position_deletes,
        _position_deletes,
        mutate=structures.position_deletes,
        max_len=4096,
        keeps_size=True,
    ),
    Target("avro-rows", "an Avro data file", _run_avro_rows, _avro_rows, mend.avro, mend.avro_records, max_len=4096),
    Target("delta-log", "a commit, and the state it makes", _run_delta_log, _delta_logs, max_len=8192),
    Target("paimon-schema", "a schema and its types", _run_paimon_schema, _paimon_schemas, max_len=2048),
    Target(
        "paimon-manifest",
        "a manifest or a list of them (Avro)",
        _run_paimon_manifest,
        _paimon_manifests,
        mend.avro,
        mend.avro_records,
        max_len=8192,
    ),
)
