"""Small Paimon tables, made to order: as Java lays them out, or damaged on purpose.

`build_paimon` writes whole tables of several states; each state lists all its data files, what changes from one to the
next goes into manifests as additions and deletions. `rewrite_json`, `rewrite_avro` and `convert_manifests` change
metadata afterwards.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from dvcodec import RowSet, paimon
from dvcodec.core import avro
from dvcodec.core.avro import without_annotations
from dvcodec.core.cursor import Cursor
from dvcodec.core.vector import StoredFrame
from dvcodec.paimon import IndexFile, IndexManifestEntry, MetadataFormat, arrow_schema, encode_records
from dvcodec.tables.paimon.metadata import DataType, parse_type

Value = bool | int | float | str | bytes | Decimal | None
TIME_MS = 1_700_000_000_000


def _optional(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


def _stats(name: str) -> dict[str, Any]:
    counts = {"type": "array", "items": ["null", "long"]}
    fields = [{"name": n, "type": "bytes"} for n in ("_MIN_VALUES", "_MAX_VALUES")]
    return {
        "type": "record",
        "name": f"record_{name}",
        "fields": [*fields, {"name": "_NULL_COUNTS", **_optional(counts)}],
    }


_TEXTS = {"type": "array", "items": "string"}
FILE_FIELDS: list[dict[str, Any]] = [
    {"name": "_FILE_NAME", "type": "string"},
    {"name": "_FILE_SIZE", "type": "long"},
    {"name": "_ROW_COUNT", "type": "long"},
    {"name": "_MIN_KEY", "type": "bytes"},
    {"name": "_MAX_KEY", "type": "bytes"},
    {"name": "_KEY_STATS", "type": _stats("KEY_STATS")},
    {"name": "_VALUE_STATS", "type": _stats("VALUE_STATS")},
    {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
    {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
    {"name": "_SCHEMA_ID", "type": "long"},
    {"name": "_LEVEL", "type": "int"},
    {"name": "_EXTRA_FILES", "type": _TEXTS},
    {"name": "_CREATION_TIME", **_optional({"type": "long", "logicalType": "timestamp-millis"})},
    {"name": "_DELETE_ROW_COUNT", **_optional("long")},
    {"name": "_EMBEDDED_FILE_INDEX", **_optional("bytes")},
    {"name": "_FILE_SOURCE", **_optional("int")},
    {"name": "_VALUE_STATS_COLS", **_optional(_TEXTS)},
    {"name": "_EXTERNAL_PATH", **_optional("string")},
    {"name": "_FIRST_ROW_ID", **_optional("long")},
    {"name": "_WRITE_COLS", **_optional(_TEXTS)},
]
MANIFEST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "record",
    "fields": [
        *({"name": name, "type": "int"} for name in ("_VERSION", "_KIND")),
        {"name": "_PARTITION", "type": "bytes"},
        *({"name": name, "type": "int"} for name in ("_BUCKET", "_TOTAL_BUCKETS")),
        {"name": "_FILE", "type": {"type": "record", "name": "record_FILE", "fields": FILE_FIELDS}},
    ],
}


def manifest_schema(*added: dict[str, Any], without: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of a manifest whose ``_FILE`` has fields more, or fewer."""
    *others, file = MANIFEST_SCHEMA["fields"]
    kept = [one for one in FILE_FIELDS if one["name"] not in without]
    return MANIFEST_SCHEMA | {"fields": [*others, file | {"type": file["type"] | {"fields": [*kept, *added]}}]}


LIST_SCHEMA = {
    "type": "record",
    "name": "record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_FILE_NAME", "type": "string"},
        *({"name": name, "type": "long"} for name in ("_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")),
        {"name": "_PARTITION_STATS", "type": _stats("PARTITION_STATS")},
        {"name": "_SCHEMA_ID", "type": "long"},
    ],
}
_NO_STATS = {"_MIN_VALUES": bytes(12), "_MAX_VALUES": bytes(12), "_NULL_COUNTS": []}


@dataclass(frozen=True)
class PaimonFile:
    """A data file of a state.

    Attributes:
        name: bare name; the extension says what is written, ``.parquet`` or ``.orc``; others are written as given.
        rows: what is in it, with the names of the schema it is written with (`schema_id`).
        deleted: positions in its deletion vector; None = it has none.
        partition: values of the partition columns, as `encode_row` takes them.
        folder: the partition's folder below the table's, as Java calls it.
        bucket: number; its folder is called after it.
        level: of the merge tree.
        schema_id: the schema's number.
        bits: of its deletion vector.
        more: fields of the manifest's ``_FILE`` to set.
    """

    name: str
    rows: pa.Table | bytes
    deleted: Iterable[int] | None = None
    partition: tuple[Value, ...] = ()
    folder: str = ""
    bucket: int = 0
    level: int = 0
    schema_id: int = 0
    bits: int = 32
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """Path below the table's folder."""
        bucket = f"bucket-{'postpone' if self.bucket == -2 else self.bucket}/{self.name}"
        return f"{self.folder}/{bucket}" if self.folder else bucket

    @property
    def row_count(self) -> int:
        return 0 if isinstance(self.rows, bytes) else self.rows.num_rows


Columns = Sequence[tuple[int, str, Any]]
"""Id, name and type of each column, the type as the schema's JSON has it."""


def build_paimon(
    folder: Path,
    columns: Columns | Sequence[Columns],
    states: Sequence[Sequence[PaimonFile]],
    *,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    kinds: Sequence[str] = (),
) -> Path:
    """Write a table.

    Args:
        folder: the table's; it must not be there.
        columns: of the schema, or of each version of it; a state's is the highest that its data files have.
        states: the data files of each snapshot, all of them.
        partition_keys, primary_keys: names of columns.
        options: of the table; deletion vectors are on unless they say otherwise.
        kinds: commit kinds of the snapshots, ``APPEND`` where there are fewer.

    Returns:
        The folder.
    """
    versions = cast("Sequence[Columns]", [columns] if columns and isinstance(columns[0][0], int) else columns)
    for name in ("snapshot", "schema", "manifest", "index"):
        (folder / name).mkdir(parents=True)
    for i, version in enumerate(versions):
        schema = {
            "version": 3,
            "id": i,
            "fields": [{"id": number, "name": name, "type": kind} for number, name, kind in version],
            "highestFieldId": max((number for number, _, _ in version), default=-1),
            "partitionKeys": list(partition_keys),
            "primaryKeys": list(primary_keys),
            "options": {"bucket": "-1", "deletion-vectors.enabled": "true"} | dict(options or {}),
            "timeMillis": TIME_MS,
        }
        (folder / f"schema/schema-{i}").write_text(json.dumps(schema))
    types = {name: kind for _, name, kind in versions[0]}
    spec = [parse_type(types[name], source="", what=name) for name in partition_keys]
    before: dict[tuple[object, ...], PaimonFile] = {}
    manifests: list[str] = []
    for number, files in enumerate(states, 1):
        now = {(file.path, file.level, *map(str, file.more.items())): file for file in files}
        gone = [_entry(folder, before[key], spec, kind=1) for key in before if key not in now]
        new = [_entry(folder, now[key], spec, kind=0) for key in now if key not in before]
        base, delta = f"manifest-list-{number}-0", f"manifest-list-{number}-1"
        _write_list(folder, base, manifests)
        changed = []
        if gone or new:
            changed = [f"manifest-{number}-0"]
            _write_avro(folder / "manifest" / changed[0], MANIFEST_SCHEMA, [*gone, *new])
        _write_list(folder, delta, changed)
        snapshot = {
            "version": 3,
            "id": number,
            "schemaId": max((file.schema_id for file in files), default=0),
            "baseManifestList": base,
            "deltaManifestList": delta,
            "changelogManifestList": None,
            "indexManifest": _write_vectors(folder, number, files, spec),
            "commitUser": "crafted",
            "commitIdentifier": number,
            "commitKind": kinds[number - 1] if number <= len(kinds) else "APPEND",
            "timeMillis": TIME_MS + number,
            "totalRecordCount": sum(file.row_count for file in files),
            "deltaRecordCount": 0,
        }
        (folder / f"snapshot/snapshot-{number}").write_text(json.dumps(snapshot))
        manifests, before = manifests + changed, now
    (folder / "snapshot/LATEST").write_text(str(len(states)))
    (folder / "snapshot/EARLIEST").write_text("1")
    return folder


def encode_row(values: Sequence[Value], types: Sequence[DataType]) -> bytes:
    """Serialize a row as Java does: number of fields, then the row; what does not fit 8 bytes is padded to them."""
    bits = bytearray((len(types) + 63 + 8) // 64 * 8)
    words: list[bytes] = []
    rest = b""
    start = len(bits) + 8 * len(types)

    def aside(raw: bytes, low: int) -> bytes:
        nonlocal rest
        word = struct.pack("<II", low, start + len(rest))
        rest += raw + bytes(-len(raw) % 8)
        return word

    for i, (value, kind) in enumerate(zip(values, types, strict=True)):
        if value is None:
            bits[i + 8 >> 3] |= 1 << (i + 8 & 7)
            words.append(bytes(8))
        elif isinstance(value, (str, bytes)):
            raw = value.encode() if isinstance(value, str) else value
            words.append(raw.ljust(7, b"\0") + bytes([0x80 | len(raw)]) if len(raw) <= 7 else aside(raw, len(raw)))
        elif isinstance(value, Decimal):
            unscaled = int(value.scaleb(kind.scale or 0, Context(prec=40)))
            if (kind.precision or 0) <= 18:
                words.append(struct.pack("<q", unscaled))
            else:
                raw = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
                words.append(aside(raw.ljust(16, b"\0"), len(raw)))
        elif kind.root.startswith("TIMESTAMP"):
            millis, nanos = divmod(int(value), 1_000_000)
            raw = struct.pack("<q", millis)
            words.append(raw if (kind.precision or 0) <= 3 else aside(raw, nanos))
        else:
            form = {"BOOLEAN": "?", "TINYINT": "b", "SMALLINT": "h", "BIGINT": "q", "FLOAT": "f", "DOUBLE": "d"}
            words.append(struct.pack("<" + form.get(kind.root, "i"), value).ljust(8, b"\0"))
    return len(types).to_bytes(4, "big") + bytes(bits) + b"".join(words) + rest


def rewrite_json(path: Path, **changes: object) -> None:
    """Change fields of a JSON file; None takes a field away."""
    fields = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


def rewrite_avro(path: Path, change: Callable[[dict[str, Any]], object], schema: dict[str, Any] | None = None) -> None:
    """Change the records of an Avro file in place, and its schema if one is given."""
    file = avro.decode(Cursor(path.read_bytes()))
    records = list(file.records())
    for record in records:
        change(record)
    _write_avro(path, schema or file.schema, records)


def convert_manifests(folder: Path, file_format: str) -> None:
    """Write all files of records of a table again, in another format."""
    for path in (folder / "manifest").iterdir():
        file = avro.decode(Cursor(path.read_bytes()))
        schema = arrow_schema(without_annotations(file.schema))
        path.write_bytes(encode_records(MetadataFormat(file_format), schema, file.records()))


def _write_avro(path: Path, schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> None:
    path.write_bytes(avro.encode(schema, records))


def _write_list(folder: Path, name: str, manifests: Iterable[str]) -> None:
    sizes = {manifest: (folder / "manifest" / manifest).stat().st_size for manifest in manifests}
    numbers = {"_NUM_ADDED_FILES": 1, "_NUM_DELETED_FILES": 1, "_PARTITION_STATS": _NO_STATS, "_SCHEMA_ID": 0}
    records = [{"_VERSION": 2, "_FILE_NAME": name, "_FILE_SIZE": size, **numbers} for name, size in sizes.items()]
    _write_avro(folder / "manifest" / name, LIST_SCHEMA, records)


def _entry(folder: Path, file: PaimonFile, spec: Sequence[DataType], *, kind: int) -> dict[str, Any]:
    path = Path(file.more["_EXTERNAL_PATH"]) if "_EXTERNAL_PATH" in file.more else folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(file.rows, bytes):
        path.write_bytes(file.rows)
    elif file.name.endswith(".orc"):
        orc.write_table(file.rows, str(path))
    else:
        pq.write_table(file.rows, path, row_group_size=100)
    about: dict[str, Any] = {entry["name"]: None for entry in FILE_FIELDS} | {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": path.stat().st_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": bytes(12),
        "_MAX_KEY": bytes(12),
        "_KEY_STATS": _NO_STATS,
        "_VALUE_STATS": _NO_STATS,
        "_MIN_SEQUENCE_NUMBER": 0,
        "_MAX_SEQUENCE_NUMBER": 0,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": [],
        "_DELETE_ROW_COUNT": 0,
    }
    for extra in file.more.get("_EXTRA_FILES", ()):
        if "/" not in extra:
            (path.parent / extra).write_bytes(b"extra")
    return {
        "_VERSION": 2,
        "_KIND": kind,
        "_PARTITION": encode_row(file.partition, spec),
        "_BUCKET": file.bucket,
        "_TOTAL_BUCKETS": -1,
        "_FILE": about | dict(file.more),
    }


def _write_vectors(folder: Path, number: int, files: Sequence[PaimonFile], spec: Sequence[DataType]) -> str | None:
    """Write an index file for each bucket that has vectors, and the index manifest."""
    groups: dict[tuple[bytes, int], list[PaimonFile]] = {}
    for file in files:
        if file.deleted is not None:
            groups.setdefault((encode_row(file.partition, spec), file.bucket), []).append(file)
    if not groups:
        return None
    name = f"index-manifest-{number}-0"
    entries = list(_index_entries(folder, number, groups))
    paimon.write_index_manifest(folder / "manifest" / name, entries)
    return name


def _index_entries(
    folder: Path, number: int, groups: Mapping[tuple[bytes, int], Sequence[PaimonFile]]
) -> Iterator[IndexManifestEntry]:
    for i, ((partition, bucket), files) in enumerate(groups.items()):
        path = folder / f"index/index-{number}-{i}"
        frames = []
        for file in files:
            rows = RowSet(file.deleted or ())
            frames.append(StoredFrame(file.name, len(rows), paimon.encode(rows, layout=f"bitmap{file.bits}")))
        written = paimon.write_stored_vectors(path, frames)
        yield IndexManifestEntry.from_index_file(IndexFile.of(written), partition=partition, bucket=bucket)
