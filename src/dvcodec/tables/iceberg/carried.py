"""Manifests and manifest lists with all their fields, for a commit that carries them over.

`manifests` reads what scans need; here every field is kept, and an unknown one is refused: a rewritten manifest would
lose it. What entries inherit (sequence numbers, snapshot ids, first row ids) is filled in, as they have to be
written out in another manifest. Specification: Iceberg table spec, "Sequence Number Inheritance", "First Row ID
Inheritance".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.io import Storage, read_within
from dvcodec.tables.avro_fields import AvroColumn, Found, fields_of, not_null, open_avro, select
from dvcodec.tables.iceberg.avro_v3 import ENTRY_COLUMNS, FILE_COLUMNS, LIST_COLUMNS, OBSOLETE, PARTITION
from dvcodec.tables.iceberg.manifest_list import DATA
from dvcodec.tables.iceberg.manifests import ADDED, DELETED

__all__ = ["STATUSES", "Carried", "counts_of", "read_all_manifests", "read_carried"]

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


def _by_name(record: Mapping[str, Any], names: Mapping[str, Found], columns: Iterable[AvroColumn]) -> dict[str, Any]:
    return {column.name: record[names[column.name].name] if column.name in names else None for column in columns}


def _inherit(entry: dict[str, Any], manifest: Mapping[str, Any]) -> None:
    if entry["snapshot_id"] is None:
        entry["snapshot_id"] = manifest["added_snapshot_id"]
    if entry["status"] == ADDED or not manifest["sequence_number"]:
        for name in ("sequence_number", "file_sequence_number"):
            if entry[name] is None:
                entry[name] = manifest["sequence_number"]


def _fields(schema: Any, columns: tuple[AvroColumn, ...], what: str, cursor: Cursor) -> dict[str, Found]:
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
