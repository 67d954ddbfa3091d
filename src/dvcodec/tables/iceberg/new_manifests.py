"""New manifests and manifest lists of versions 2 and 3, as bytes.

Specification: Iceberg table spec, "Manifests", "Manifest Lists", and appendix D, "Binary single-value serialization".
The header has what Iceberg Java writes there.

Manifests and manifest lists with all their fields, for a commit that carries them over.

`manifests` reads what scans need; here every field is kept, and an unknown one is refused: a rewritten manifest would
lose it. What entries inherit (sequence numbers, snapshot ids, first row ids) is filled in, as they have to be
written out in another manifest. Specification: Iceberg table spec, "Sequence Number Inheritance", "First Row ID
Inheritance".
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage, read_within
from dvcodec.tables.iceberg.manifest_schemas import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    LIST_COLUMNS,
    OBSOLETE,
    PARTITION,
    entry_schema,
    list_schema,
)
from dvcodec.tables.metadata.avro_fields import AvroColumn, FoundField, fields_of, not_null, open_avro, select
from dvcodec.tables.metadata.json_fields import JsonFields, is_nan

STATUSES = ("existing", "added", "deleted")
"""Names of the counts in a manifest list, by the status of entries."""
_NESTED = frozenset({"key", "value", "contains_null", "contains_nan", "lower_bound", "upper_bound"})
"""Fields of the records in arrays: maps by field id, and summaries of partitions."""


@dataclass(frozen=True)
class Carried:
    """The live entries of a manifest.

    Attributes:
        partition: Avro type of the partition struct, as the manifest has it.
        entries: by the field names of version 3, with what they inherit.
    """

    partition: Mapping[str, Any]
    entries: tuple[dict[str, Any], ...]

    @cached_property
    def partitions(self) -> Mapping[str, Mapping[str, Any]]:
        """Partitions of the files by path, as stored."""
        return {entry["data_file"]["file_path"]: entry["data_file"]["partition"] for entry in self.entries}


def read_all_manifests(location: str, storage: Storage) -> list[dict[str, Any]]:
    """Read a manifest list; each manifest has all fields of version 3, and None for counts that the list lacks.

    Raises:
        NotCanonical: the file is corrupt.
        Unsupported: an unknown field, or a key.
        OSError: it cannot be read.
    """
    with open_avro(location, storage) as (file, cursor):
        names = _fields(file.schema, LIST_COLUMNS, "manifest list", cursor)
        found = [_by_name(record, names, LIST_COLUMNS) for record in file.records()]
    for manifest in found:
        for name in (column.name for column in LIST_COLUMNS if column.required):
            if manifest[name] is None:
                raise NotCanonical(f"{name} of a manifest", source=location, expected="a value", actual="null")
        for name in ("content", "sequence_number", "min_sequence_number"):
            manifest[name] = manifest[name] or 0
        if manifest["key_metadata"] is not None:
            raise Unsupported("manifest", source=location, expected="no encryption", actual="key_metadata")
    return found


def read_carried(manifest: dict[str, Any], location: str, storage: Storage) -> Carried:
    """Read the live entries of a manifest, and fill in the counts that its list lacks.

    Args:
        manifest: of `read_all_manifests`.
        location: where it can be opened.
        storage: opens it.

    Raises:
        NotCanonical: the file is corrupt.
        Unsupported: an unknown field.
        OSError: it cannot be read.
    """
    with open_avro(location, storage) as (file, cursor):
        names = _fields(file.schema, ENTRY_COLUMNS, "manifest entry", cursor)
        columns = _fields(names["data_file"].type, FILE_COLUMNS, "data_file", cursor)
        entries = []
        for record in file.records():
            entry = _by_name(record, names, ENTRY_COLUMNS)
            entries.append(entry | {"data_file": _by_name(entry["data_file"], columns, FILE_COLUMNS)})
    for name, count in counts_of(entries).items():
        if manifest[name] is None:
            manifest[name] = count
    live = [entry for entry in entries if entry["status"] != DELETED]
    next_row: int | None = manifest["first_row_id"]
    for entry in live:
        _inherit(entry, manifest)
        data = entry["data_file"]
        data["content"] = data["content"] or DATA
        if data["content"] != DATA or next_row is None:
            data["first_row_id"] = None  # ids of a manifest from before version 3 are newly assigned
        elif data["first_row_id"] is None:
            data["first_row_id"] = next_row
            next_row += data["record_count"]
    return Carried(_partition_type(location, storage), tuple(live))


def counts_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count files and rows by status, by the names that a manifest list has for them."""
    counts = {f"{status}_{what}_count": 0 for what in ("files", "rows") for status in STATUSES}
    for entry in entries:
        status = STATUSES[entry["status"]]
        counts[f"{status}_files_count"] += 1
        counts[f"{status}_rows_count"] += entry["data_file"]["record_count"]
    return counts


def _by_name(
    record: Mapping[str, Any], names: Mapping[str, FoundField], columns: Iterable[AvroColumn]
) -> dict[str, Any]:
    return {column.name: record[names[column.name].name] if column.name in names else None for column in columns}


def _inherit(entry: dict[str, Any], manifest: Mapping[str, Any]) -> None:
    if entry["snapshot_id"] is None:
        entry["snapshot_id"] = manifest["added_snapshot_id"]
    if entry["status"] == ADDED or not manifest["sequence_number"]:
        for name in ("sequence_number", "file_sequence_number"):
            if entry[name] is None:
                entry[name] = manifest["sequence_number"]


def _fields(schema: Any, columns: tuple[AvroColumn, ...], what: str, cursor: Cursor) -> dict[str, FoundField]:
    """Find the fields of a file, as `select` does.

    Raises:
        Unsupported: the file has another one.
    """
    found = select(schema, columns, what, cursor)
    names = {field.name for field in found.values()}
    for field in fields_of(schema, what, cursor):
        known = field["name"] in names or field.get("field-id") in OBSOLETE
        items = not_null(field["type"])
        items = items.get("items") if isinstance(items, dict) else None
        nested = {inner["name"] for inner in items.get("fields", ())} if isinstance(items, dict) else _NESTED
        if not known or not nested <= _NESTED:
            actual = f"{field['name']} ({field.get('field-id', 'without an id')})"
            raise cursor.error(Unsupported, f"field of {what}", at=0, expected="known fields", actual=actual)
    return found


def _partition_type(location: str, storage: Storage) -> Mapping[str, Any]:
    """Return the type of the partition struct with its logical types, as the manifest spells it."""
    with storage.open(location) as source:
        schema = avro.decode(read_within(source, "max_metadata_bytes", storage.limits), limits=storage.limits).schema
    for number, name in ((2, "data_file"), (102, PARTITION)):
        types = {field.get("field-id", field["name"]): field["type"] for field in schema["fields"]}
        schema = not_null(types.get(number, types.get(name)))
    return {**schema, "name": "r102"}


UNPARTITIONED: Mapping[str, Any] = {"type": "record", "name": "r102", "fields": []}
"""Avro type of the partition of files without partition fields."""
_ARRAYS = [column for column in FILE_COLUMNS if column.types == ("array",)]
_CODEC = "write.manifest.compression-codec"
_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}


def codec_of(properties: Mapping[str, str]) -> str:
    """Return the Avro codec that the table's properties set for manifests; ``deflate`` by default."""
    return _CODECS.get(properties.get(_CODEC, "gzip").lower(), "deflate")


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest to be written.

    Attributes:
        content: `DATA` or `DELETES`.
        entries: by the field names of version 3.
        partition: Avro type of their partition struct.
        spec: their partition spec, as the table's metadata has it.
    """

    content: int
    entries: Sequence[Mapping[str, Any]]
    partition: Mapping[str, Any]
    spec: JsonFields

    def encode(self, schema: JsonFields, codec: str, version: int) -> bytes:
        """Return the file.

        Args:
            schema: of the table, as its metadata has it.
            codec: compression.
            version: format version of the table.

        Raises:
            UsageError: an entry that does not fit.
        """
        header = {
            "schema": json.dumps(schema.values, separators=(",", ":")),
            "partition-spec": json.dumps(self.spec.array("fields"), separators=(",", ":")),
            "partition-spec-id": str(self.spec.integer("spec-id")),
            "format-version": str(version),
            "content": "deletes" if self.content == DELETES else "data",
        }
        tagged = map(_tagged, self.entries)
        return avro.encode(entry_schema(self.partition, version), tagged, codec=codec, metadata=header, validate=False)

    def record(self, path: str, length: int, snapshot_id: int, sequence_number: int) -> dict[str, Any]:
        """Return the record of the manifest in a manifest list; data manifests have no first row id yet.

        Args:
            path: of the manifest, as recorded.
            length: bytes of the manifest.
            snapshot_id: of the commit.
            sequence_number: of the commit, which new entries inherit.
        """
        live = (entry["sequence_number"] for entry in self.entries if entry["status"] != DELETED)
        return {
            "manifest_path": path,
            "manifest_length": length,
            "partition_spec_id": self.spec.integer("spec-id"),
            "content": self.content,
            "sequence_number": sequence_number,
            "min_sequence_number": min((number for number in live if number is not None), default=sequence_number),
            "added_snapshot_id": snapshot_id,
            **counts_of(self.entries),
            "partitions": _summaries(self.entries, self.partition, self.spec),
            "key_metadata": None,
            "first_row_id": None,
        }


def _tagged(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Tag nullable arrays with their type: fastavro would otherwise check all their items to find it."""
    file = entry["data_file"]
    arrays = {column.name: ("array", file[column.name]) for column in _ARRAYS if file[column.name] is not None}
    return {**entry, "data_file": file | arrays}


def assign_row_ids(manifests: Iterable[dict[str, Any]], first: int) -> int:
    """Give data manifests without a first row id theirs, as Iceberg Java does; return the next row id.

    Args:
        manifests: all of a snapshot, in order.
        first: the table's next row id.
    """
    for manifest in manifests:
        if manifest["content"] == DATA and manifest["first_row_id"] is None:
            manifest["first_row_id"] = first
            first += int(manifest["existing_rows_count"] + manifest["added_rows_count"])
    return first


def manifest_list_bytes(
    manifests: Sequence[Mapping[str, Any]],
    *,
    snapshot_id: int,
    parent: int | None,
    sequence_number: int,
    first_row_id: int | None,
    codec: str,
) -> bytes:
    """Build a manifest list of version 3; without `first_row_id`, of version 2.

    Raises:
        UsageError: a manifest that lacks a field of version 3.
    """
    version = 2 if first_row_id is None else 3
    header = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence_number),
        **({} if first_row_id is None else {"first-row-id": str(first_row_id)}),
        "format-version": str(version),
    }
    return avro.encode(list_schema(version), manifests, codec=codec, metadata=header, validate=False)


# ---------------------------------------------------------------------- summaries of partitions


def _summaries(
    entries: Sequence[Mapping[str, Any]], partition: Mapping[str, Any], spec: JsonFields
) -> list[dict[str, Any]] | None:
    """Summarize the partition values of entries, in the order of the spec's fields.

    None where values have no agreed order (UUIDs): readers then look into the manifest.
    """
    types = _types(partition)
    found = []
    for field in spec.objects("fields"):
        name, kind = types.get(field.integer("field-id"), (None, "null"))
        values = [None if name is None else entry["data_file"]["partition"].get(name) for entry in entries]
        summary = _summary(values, kind)
        if summary is None:
            return None
        found.append(summary)
    return found


def _types(partition: Mapping[str, Any]) -> dict[Any, tuple[str, Any]]:
    """Return the fields of a partition struct: field id -> name, type; a fixed type may be named again."""
    found, fixed = {}, {}
    for field in partition["fields"]:
        kind = not_null(field["type"])
        if isinstance(kind, dict) and kind["type"] == "fixed":
            fixed[kind["name"]] = fixed[f"{kind.get('namespace')}.{kind['name']}"] = kind
        found[field.get("field-id")] = (field["name"], fixed.get(kind, kind) if isinstance(kind, str) else kind)
    return found


def _summary(values: Sequence[Any], kind: Any) -> dict[str, Any] | None:
    primitive = kind["type"] if isinstance(kind, dict) else kind
    logical = kind.get("logicalType") if isinstance(kind, dict) else None
    known = [value for value in values if value is not None and not is_nan(value)]
    summary: dict[str, Any] = {
        "contains_null": None in values,
        "contains_nan": any(map(is_nan, values)),
        "lower_bound": None,
        "upper_bound": None,
    }
    if known:
        if logical == "uuid" and len(set(known)) > 1:
            return None
        encode, order = _encoding(primitive, logical)
        low, high = min(known, key=order), max(known, key=order)
        summary |= {"lower_bound": encode(low), "upper_bound": encode(high)}
    return summary


def _encoding(primitive: str, logical: str | None) -> tuple[Callable[[Any], bytes], Callable[[Any], Any]]:
    """Return the serializer of bounds of a type, and the key that orders its values.

    A decimal is stored as bytes; of other types Avro ignores that they are one.
    """
    if logical == "decimal" and primitive in ("bytes", "fixed"):
        return lambda value: _shortest(_unscaled(value)), _unscaled
    if primitive in ("float", "double"):
        pack = struct.Struct("<f" if primitive == "float" else "<d").pack
        return pack, lambda value: (value, math.copysign(1, value))
    if primitive == "boolean":
        return lambda value: bytes([value]), int
    if primitive in ("int", "long"):
        return struct.Struct("<i" if primitive == "int" else "<q").pack, int
    return _utf8, _utf8


def _utf8(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _unscaled(value: Any) -> int:
    return int.from_bytes(value, "big", signed=True)


def _shortest(number: int) -> bytes:
    """Return two's complement, big-endian, in as few bytes as possible."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
