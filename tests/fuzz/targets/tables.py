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
from dvcodec.tables.delta.replay import rebuild
from dvcodec.tables.delta.schema import read_schema as read_delta_schema
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg import metadata as iceberg_metadata
from dvcodec.tables.iceberg.deletes import read_deletes
from dvcodec.tables.iceberg.entries import Manifest, read_list, read_manifest
from dvcodec.tables.iceberg.manifest_schemas import DATA, DELETES
from dvcodec.tables.iceberg.rows import read_name_mapping
from dvcodec.tables.iceberg.schema import SchemaColumns
from dvcodec.tables.paimon import manifests as paimon_manifests
from dvcodec.tables.paimon.metadata import parse_type, read_column, read_schema, read_snapshot
from dvcodec.tables.paimon.partition import PartitionSpec, decode_row
from dvcodec.tables.rows.data_file import open_data_file
from dvcodec.tables.scorch.metadata import read_root
from fuzz import mend, structures
from fuzz.seeds import files
from fuzz.target import MANY, Target, check_rows, held
from samples.bolt import scorch_root
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


def _run_manifest_list(data: bytes) -> None:
    with held({"/t/list.avro": data}):
        manifests = read_list("/t/list.avro", FOLDER.locate, Storage())
    assert len({manifest.path for manifest in manifests}) == len(manifests)


def _manifest_lists() -> Iterator[bytes]:
    return iter(files("**/metadata/snap-*.avro", most=8000, count=8))


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


def _run_paimon_snapshot(data: bytes) -> None:
    with held({"/t/snapshot/snapshot-1": data}):
        found = read_snapshot(Folder("/t"), "snapshot/snapshot-1")
    assert "/" not in found.base_manifest_list
    assert found.info.id == found.id


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
        "INT NOT NULL", "DECIMAL(20, 2)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "VARCHAR(10)",
        {"type": "ARRAY", "element": "BIGINT"}, {"type": "VECTOR", "element": "FLOAT", "length": 3},
        {"type": "MAP NOT NULL", "key": "STRING", "value": {"type": "MULTISET", "element": "INT"}},
        {"type": "ROW", "fields": [{"id": 9, "name": "x", "type": "DATE"}]},
    )  # fmt: skip
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


_KINDS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME(0)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "DECIMAL(10, 2)", "DECIMAL(30, 4)", "VARCHAR(10)", "STRING", "BYTES",
)  # fmt: skip


def _run_binary_row(data: bytes) -> None:
    kinds = [_KINDS[byte % len(_KINDS)] for byte in data[1 : 1 + data[0] % 5]] if data else []
    types = [parse_type(kind, source="s", what="c") for kind in kinds]
    values = decode_row(data[1 + len(kinds) :], types, source="s", what="row")
    assert len(values) == len(types)


def _binary_rows() -> Iterator[bytes]:
    one = (1).to_bytes(4, "big") + bytes(8)
    for number, kind in enumerate(_KINDS):
        content = (
            b"abc".ljust(7, b"\0") + b"\x83" if kind in ("VARCHAR(10)", "STRING", "BYTES") else bytes([5]) + bytes(7)
        )
        if kind in ("TIMESTAMP(6)", "DECIMAL(30, 4)"):
            content = (9 if kind[0] == "D" else 7).to_bytes(4, "little") + (16).to_bytes(4, "little") + bytes(16)
        yield bytes([1, number]) + one + content
    yield (
        bytes([2, 3, 13]) + (2).to_bytes(4, "big") + bytes(8) + bytes([7]) + bytes(7) + b"ab".ljust(7, b"\0") + b"\x82"
    )


def _run_root(data: bytes) -> None:
    with held({"/t/root.bolt": data}):
        root = read_root("/t/root.bolt", Storage())
    epochs = [epoch.id for epoch in root.epochs]
    assert epochs == sorted(set(epochs))
    for epoch in root.epochs:
        assert all("/" not in entry.file_name for entry in epoch.segments)


def _bolts() -> Iterator[bytes]:
    """Small pages, which bbolt makes where memory has them."""
    for page_size in (1024, 4096):
        yield scorch_root(bytes.fromhex("3a3000000100000000000000100000000500"), page_size=page_size)


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
    Target("iceberg-manifest-list", "a manifest list (Avro)", _run_manifest_list, _manifest_lists, mend.avro,
           mend.avro_records, max_len=8192),
    Target("iceberg-manifest", "a manifest (Avro)", _run_manifest, _manifests, mend.avro, mend.avro_records,
           max_len=10_000),
    Target("position-deletes", "a file of position deletes: Parquet, Avro, ORC", _run_position_deletes,
           _position_deletes, mutate=structures.position_deletes, max_len=4096, keeps_size=True),
    Target("avro-rows", "an Avro data file", _run_avro_rows, _avro_rows, mend.avro, mend.avro_records, max_len=4096),
    Target("delta-log", "a commit, and the state it makes", _run_delta_log, _delta_logs, max_len=8192),
    Target("paimon-snapshot", "a snapshot", _run_paimon_snapshot,
           lambda: files("paimon/**/snapshot/snapshot-*", "tables/paimon/**/snapshot/snapshot-*", count=10)),
    Target("paimon-schema", "a schema and its types", _run_paimon_schema, _paimon_schemas, max_len=2048),
    Target("paimon-manifest", "a manifest or a list of them (Avro)", _run_paimon_manifest, _paimon_manifests, mend.avro,
           mend.avro_records, max_len=8192),
    Target("paimon-row", "a serialized row", _run_binary_row, _binary_rows, max_len=128),
    Target("scorch-root", "root.bolt of a scorch index", _run_root, _bolts, mend.bolt, max_len=8192, keeps_size=True),
)  # fmt: skip
