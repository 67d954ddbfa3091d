"""The Avro schemas of manifests and manifest lists.

Specification: Iceberg table spec, "Manifests" and "Snapshots" (manifest lists), of versions 1 to 3. The schemas are the
columns "v3" there, with the names of records that Iceberg Java writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dvcodec.tables.metadata.avro_fields import INTEGERS, AvroColumn

PARTITION = "partition"
"""The field of a file whose type depends on the partition spec."""
_FROM_3 = frozenset({142, 144, 145, 520})
"""Field ids of what version 3 added: first row ids, and the byte ranges of vectors."""
OBSOLETE = frozenset({105, 106, 107, 111})
"""Field ids of ``block_size_in_bytes``, ``file_ordinal``, ``sort_columns`` and ``distinct_counts``: fields of files
that older versions had and that writers of version 3 leave out."""


def _required(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    """Return the type of a map from field ids, an array of records."""
    fields = [_required(key, "key", "int"), _required(value, "value", kind)]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


def _list(element: int, kind: str) -> dict[str, Any]:
    return {"type": "array", "items": kind, "element-id": element}


_FILE: list[dict[str, Any]] = [
    _required(134, "content", "int"),
    _required(100, "file_path", "string"),
    _required(101, "file_format", "string"),
    _required(102, PARTITION, {"type": "record", "name": "r102", "fields": []}),
    _required(103, "record_count", "long"),
    _required(104, "file_size_in_bytes", "long"),
    _optional(108, "column_sizes", _map(117, 118, "long")),
    _optional(109, "value_counts", _map(119, 120, "long")),
    _optional(110, "null_value_counts", _map(121, 122, "long")),
    _optional(137, "nan_value_counts", _map(138, 139, "long")),
    _optional(125, "lower_bounds", _map(126, 127, "bytes")),
    _optional(128, "upper_bounds", _map(129, 130, "bytes")),
    _optional(131, "key_metadata", "bytes"),
    _optional(132, "split_offsets", _list(133, "long")),
    _optional(135, "equality_ids", _list(136, "int")),
    _optional(140, "sort_order_id", "int"),
    _optional(142, "first_row_id", "long"),
    _optional(143, "referenced_data_file", "string"),
    _optional(144, "content_offset", "long"),
    _optional(145, "content_size_in_bytes", "long"),
]
_ENTRY: list[dict[str, Any]] = [
    _required(0, "status", "int"),
    _optional(1, "snapshot_id", "long"),
    _optional(3, "sequence_number", "long"),
    _optional(4, "file_sequence_number", "long"),
    _required(2, "data_file", {"type": "record", "name": "r2", "fields": []}),
]
_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
_LIST: dict[str, Any] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        _required(517, "content", "int"),
        _required(515, "sequence_number", "long"),
        _required(516, "min_sequence_number", "long"),
        _required(503, "added_snapshot_id", "long"),
        _required(504, "added_files_count", "int"),
        _required(505, "existing_files_count", "int"),
        _required(506, "deleted_files_count", "int"),
        _required(512, "added_rows_count", "long"),
        _required(513, "existing_rows_count", "long"),
        _required(514, "deleted_rows_count", "long"),
        _optional(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
        _optional(519, "key_metadata", "bytes"),
        _optional(520, "first_row_id", "long"),
    ],
}


def entry_schema(partition: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the schema of manifest entries.

    Args:
        partition: the record type of the partition spec's fields.
        version: format version of the table.
    """
    known = _of_version(_FILE, version)
    file = [field | {"type": partition} if field["name"] == PARTITION else field for field in known]
    record = {"type": "record", "name": "r2", "fields": file}
    fields = [field | {"type": record} if field["name"] == "data_file" else field for field in _ENTRY]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def list_schema(version: int) -> dict[str, Any]:
    """Return the schema of manifest lists of a format version."""
    return _LIST | {"fields": _of_version(_LIST["fields"], version)}


def _of_version(fields: list[dict[str, Any]], version: int) -> list[dict[str, Any]]:
    return [field for field in fields if version >= 3 or field["field-id"] not in _FROM_3]


def _columns(fields: list[dict[str, Any]], *required: str) -> tuple[AvroColumn, ...]:
    """Return these fields as columns to look for in files of any version."""
    return tuple(
        AvroColumn(field["name"], field["field-id"], _types(field["type"]), field["name"] in required)
        for field in fields
    )


def _types(kind: Any) -> tuple[str, ...]:
    kind = kind[1] if isinstance(kind, list) else kind
    name = kind["type"] if isinstance(kind, dict) else kind
    return INTEGERS if name in INTEGERS else (name,)


ENTRY_COLUMNS = _columns(_ENTRY, "status", "data_file")
"""Fields of an entry, to be found by their ids in manifests of any version."""
FILE_COLUMNS = _columns(_FILE, "file_path", "file_format", PARTITION, "record_count", "file_size_in_bytes")
"""Fields of a file."""
LIST_COLUMNS = _columns(_LIST["fields"], "manifest_path", "manifest_length", "partition_spec_id")
"""Fields of a manifest list."""


def chosen(columns: Iterable[AvroColumn], *names: str) -> tuple[AvroColumn, ...]:
    """Return the columns of these names, in this order."""
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in names)


DATA, DELETES = 0, 1
"""Content of a manifest."""
POSITION_DELETES, EQUALITY_DELETES = 1, 2
"""Content of a delete file; other files have `DATA`."""
EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry."""
PUFFIN = "puffin"
BOUNDS = ("lower_bounds", "upper_bounds")
FILE_PATH_ID = 2147483546
"""Field id of the column of position deletes that names the data file."""
