"""Writes a new snapshot: its manifests, its manifest list and its summary.

Specification: Iceberg table spec, "Manifests", "Manifest Lists", "Sequence Number Inheritance", "First Row ID
Inheritance", appendix D ("Binary single-value serialization") and appendix F ("Optional Snapshot Summary Fields").
Headers are those of Iceberg Java, and the counts of a summary those of its ``SnapshotSummary``: the size of a vector is
that of its blob.

Manifests that a commit carries over are read with all their fields, where `entries` reads what scans need; an unknown
field is refused, as the new manifest would lose it. What entries inherit is written out.
"""

from __future__ import annotations

import json
import math
import secrets
import struct
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from dvcodec import iceberg
from dvcodec._version import __version__
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.iceberg import PositionDeleteFile
from dvcodec.io import Storage, open_sink
from dvcodec.tables.deleting.run import Written
from dvcodec.tables.iceberg.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    ENTRY_COLUMNS,
    EXISTING,
    FILE_COLUMNS,
    LIST_COLUMNS,
    OBSOLETE,
    PARTITION,
    POSITION_DELETES,
    PUFFIN,
    UNPARTITIONED,
    ManifestEntry,
    entry_schema,
    list_schema,
)
from dvcodec.tables.iceberg.metadata import METADATA, Change, number_of, properties_of
from dvcodec.tables.iceberg.plan import VECTORS_VERSION
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.iceberg.table import table_of
from dvcodec.tables.metadata.avro_fields import AvroColumn, FoundField, fields_of, not_null, open_avro, select
from dvcodec.tables.metadata.json_fields import JsonFields, is_nan
from dvcodec.tables.model import DataFile, DeletionVector

STATUSES = ("existing", "added", "deleted")
"""Names of the counts in a manifest list, by the status of entries."""
_NESTED = frozenset({"key", "value", "contains_null", "contains_nan", "lower_bound", "upper_bound"})
"""Fields of the records in arrays: maps by field id, and summaries of partitions."""


class Carried(NamedTuple):
    """The live entries of a manifest.

    Attributes:
        partition: Avro type of the partition struct, as the manifest has it, with its logical types.
        entries: by the field names of version 3, with what they inherit.
    """

    partition: Mapping[str, Any]
    entries: Sequence[dict[str, Any]]


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
        inherited = {"snapshot_id": manifest["added_snapshot_id"]}
        if entry["status"] == ADDED or not manifest["sequence_number"]:
            inherited |= dict.fromkeys(("sequence_number", "file_sequence_number"), manifest["sequence_number"])
        entry |= {name: value for name, value in inherited.items() if entry[name] is None}
        data = entry["data_file"]
        data["content"] = data["content"] or DATA
        if data["content"] != DATA or next_row is None:
            data["first_row_id"] = None  # ids of a manifest from before version 3 are newly assigned
        elif data["first_row_id"] is None:
            data["first_row_id"] = next_row
            next_row += data["record_count"]
    return Carried({**columns[PARTITION].type["spelled"], "name": "r102"}, live)


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


_ARRAYS = [column for column in FILE_COLUMNS if column.types == ("array",)]
_CODEC = "write.manifest.compression-codec"
_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
"""Avro's codecs by the words of the property."""


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


_TOTALS = ("records", "files-size", "data-files", "delete-files", "position-deletes", "equality-deletes")


def summarize(
    operation: str,
    added: Iterable[Mapping[str, Any]],
    removed: Iterable[Mapping[str, Any]],
    previous: Mapping[str, Any],
    *,
    manifests: Mapping[str, int],
) -> dict[str, str]:
    """Return the summary of a snapshot.

    Args:
        operation: ``delete``, ``replace``.
        added: entries of new files, with ``spec_id``.
        removed: entries of files that are gone.
        previous: summary of the snapshot before; totals that it lacks, or that are not text, are left out.
        manifests: how many were ``created``, ``kept`` and ``replaced``.
    """
    counts: Counter[str] = Counter()
    partitions = set()
    for word, entries in (("added", added), ("removed", removed)):
        for entry in entries:
            counts.update(_counts(word, entry["data_file"]))
            partitions.add((entry["spec_id"], repr(sorted(entry["data_file"]["partition"].items()))))
    summary = {name: str(count) for name, count in counts.items() if count}
    summary["changed-partition-count"] = str(len(partitions))
    summary |= {f"manifests-{what}": str(count) for what, count in manifests.items()}
    for what in _TOTALS:
        text = previous.get(f"total-{what}")
        before = number_of(text, -1) if isinstance(text, str) else -1
        after = before + counts[f"added-{what}"] - counts[f"removed-{what}"] - counts[f"deleted-{what}"]
        if min(before, after) >= 0:
            summary[f"total-{what}"] = str(after)
    return {"operation": operation, **summary, "engine-name": "dvcodec", "engine-version": __version__}


def _counts(word: str, file: Mapping[str, Any]) -> dict[str, int]:
    rows, size = file["record_count"], file["file_size_in_bytes"]
    if file["content"] == DATA:
        verb = "added" if word == "added" else "deleted"
        return {f"{verb}-data-files": 1, f"{verb}-records": rows, f"{word}-files-size": size}
    kind = "position" if file["content"] == POSITION_DELETES else "equality"
    vector = file["file_format"].lower() == PUFFIN
    if vector and file["content_size_in_bytes"] is not None:
        size = file["content_size_in_bytes"]
    return {
        f"{word}-dvs" if vector else f"{word}-{kind}-delete-files": 1,
        f"{word}-delete-files": 1,
        f"{word}-{kind}-deletes": rows,
        f"{word}-files-size": size,
    }


_Entry = dict[str, Any]
_Group = tuple[int, str]
"""Partition spec, and the Avro type of partitions as JSON: entries of one manifest share both."""


@dataclass(frozen=True, slots=True)
class IcebergWritten(Written):
    """The deletes of a commit; in version 2, files of position deletes instead of vectors."""

    position_deletes: tuple[PositionDeleteFile, ...] = ()


_Place: TypeAlias = tuple[str, int | None, str | None]


def _place(path: str, offset: int | None, data_file: str | None) -> _Place:
    """Return what identifies deletes: a whole file, or a vector in it. Where offsets are wrong, some may share one."""
    return path, offset, None if offset is None else data_file


class Replacement(NamedTuple):
    """What a commit changes in the lists of files.

    Attributes:
        written: new vectors and files of position deletes.
        removed: paths of data files to remove.
        gone: vectors, position deletes and files of equality deletes to remove.
        operation: of the snapshot.
        summary: further members of its summary.
    """

    written: Written
    removed: frozenset[str]
    gone: Sequence[DeletionVector | DataFile]
    operation: str
    summary: Mapping[str, str] = MappingProxyType({})


class SnapshotWriter:
    """Writes one snapshot on top of a base.

    Args:
        base: the snapshot to commit on top of.
        members: its metadata.
        files: location of each file that is written, appended before it is.
    """

    def __init__(self, base: IcebergSnapshot, members: JsonFields, files: list[str]) -> None:
        self._base, self._members, self._files = base, members, files
        self._folder = base.table.folder
        self._properties = properties_of(members)
        self._codec = _CODECS.get(self._properties.get(_CODEC, "gzip").lower(), "deflate")
        self._version = base.metadata.format_version
        self._id = _fresh_id(base.metadata.snapshots)
        self._sequence_number = members.integer("last-sequence-number") + 1
        self._commit = uuid.uuid4()
        self._manifests_written = 0
        self._read: dict[str, Carried] = {}
        self._partitions: dict[str, Mapping[str, Any]] = {}
        self._added: list[_Entry] = []
        self._removed: list[_Entry] = []

    def write(self, replacement: Replacement) -> Change:
        """Write manifests and manifest list; return the change that makes them current.

        Raises:
            NotCanonical: the metadata is corrupt.
            Unsupported: manifests have unknown fields.
            OSError: a file cannot be read or written.
        """
        manifests, replaced = [], 0
        by_path = {manifest["manifest_path"]: manifest for manifest in self._base_manifests}
        groups: dict[_Group, list[_Entry]] = defaultdict(list)
        written = replacement.written
        new: list[tuple[str, Mapping[str, Any]]] = [
            (path, iceberg.manifest_entry(location)) for path, location in written.locations.items()
        ]
        if isinstance(written, IcebergWritten):
            new += [(one.data_files[0], one.entry) for one in written.position_deletes]
        for path, entry in new:
            group, partition = self._partition_of(path, by_path)
            groups[group].append(self._new_entry(entry, partition, group[0]))
        touched = (*(self._base.files[path] for path in replacement.removed), *replacement.gone)
        rewritten = {ManifestEntry.of(one).manifest for one in touched} | self._small_manifests()
        gone = {
            _place(one.path, one.offset, one.data_file) if isinstance(one, DeletionVector) else (one.path, None, None)
            for one in replacement.gone
        }
        for manifest in self._base_manifests:
            if manifest["manifest_path"] in rewritten:
                carried, spec_id = self._carried(manifest), manifest["partition_spec_id"]
                entries = self._filtered(carried, manifest, replacement.removed, gone)
                if manifest["content"] == DATA:
                    manifests.append(self._write_manifest(DATA, entries, carried.partition, spec_id))
                else:
                    groups[spec_id, json.dumps(carried.partition)] += entries
                replaced += 1
            else:
                if any(value is None for name, value in manifest.items() if name.endswith("_count")):
                    self._carried(manifest)  # fills in the counts, which lists of version 1 may lack
                if manifest["added_files_count"] or manifest["existing_files_count"]:
                    manifests.append(manifest)
        for (spec_id, kind), entries in groups.items():
            manifests.append(self._write_manifest(DELETES, entries, json.loads(kind), spec_id))
        manifests.sort(key=lambda manifest: manifest["content"])  # data before deletes, as Java lists them
        return self._snapshot(manifests, replaced, replacement)

    @cached_property
    def _base_manifests(self) -> list[_Entry]:
        record = self._base.metadata.snapshots[self._base.info.id]
        return read_all_manifests(table_of(self._base).manifest_list(record), self._folder.storage)

    def _carried(self, manifest: _Entry) -> Carried:
        path = manifest["manifest_path"]
        if path not in self._read:
            found = self._read[path] = read_carried(manifest, self._folder.locate(path), self._folder.storage)
            files = (entry["data_file"] for entry in found.entries)
            self._partitions.update((file["file_path"], file["partition"]) for file in files)
        return self._read[path]

    def _small_manifests(self) -> frozenset[str]:
        """Return the small manifests of deletes to rewrite as one, if a spec has as many as the properties set."""
        if self._properties.get("commit.manifest-merge.enabled", "true").lower() != "true":
            return frozenset()
        most = number_of(self._properties.get("commit.manifest.min-count-to-merge"), 100)
        size = number_of(self._properties.get("commit.manifest.target-size-bytes"), 8 << 20)
        by_spec: dict[int, list[str]] = defaultdict(list)
        for manifest in self._base_manifests:
            if manifest["content"] == DELETES and manifest["manifest_length"] < size // 2:
                by_spec[manifest["partition_spec_id"]].append(manifest["manifest_path"])
        return frozenset(path for paths in by_spec.values() if len(paths) >= most for path in paths)

    def _partition_of(self, path: str, by_path: Mapping[str, _Entry]) -> tuple[_Group, Mapping[str, Any]]:
        """Return the group that a data file's vector belongs to, and its partition as stored."""
        entry = ManifestEntry.of(self._base.files[path])
        spec_id = entry.partition.spec_id
        if not self._base.metadata.specs[spec_id]:
            return (spec_id, json.dumps(UNPARTITIONED)), {}
        carried = self._carried(by_path[entry.manifest])
        return (spec_id, json.dumps(carried.partition)), self._partitions[path]

    def _new_entry(self, file: Mapping[str, Any], partition: Mapping[str, Any], spec_id: int) -> _Entry:
        entry = {
            "status": ADDED,
            "snapshot_id": self._id,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {**dict.fromkeys(column.name for column in FILE_COLUMNS), **file, "partition": partition},
        }
        self._added.append(entry | {"spec_id": spec_id})
        return entry

    def _filtered(
        self, carried: Carried, manifest: _Entry, removed: Collection[str], gone: Collection[_Place]
    ) -> list[_Entry]:
        """Return the entries of a manifest: removed ones as deleted, the others as existing."""
        entries = []
        for entry in carried.entries:
            file = entry["data_file"]
            if manifest["content"] == DATA:
                goes = file["file_path"] in removed
            else:
                goes = _place(file["file_path"], file["content_offset"], file["referenced_data_file"]) in gone
            if goes:
                self._removed.append(entry | {"spec_id": manifest["partition_spec_id"]})
                entries.append(entry | {"status": DELETED, "snapshot_id": self._id})
            else:
                entries.append(entry | {"status": EXISTING})
        return entries

    def _write_manifest(
        self, content: int, entries: Sequence[_Entry], partition: Mapping[str, Any], spec_id: int
    ) -> _Entry:
        """Write a manifest; return its record in the list. Data manifests have no first row id yet."""
        spec = next(one for one in self._members.objects("partition-specs") if one.integer("spec-id") == spec_id)
        current = self._members.integer("current-schema-id")
        schema = next(one for one in self._members.objects("schemas") if one.integer("schema-id") == current)
        header = {
            "schema": json.dumps(schema.values, separators=(",", ":")),
            "partition-spec": json.dumps(spec.array("fields"), separators=(",", ":")),
            "partition-spec-id": str(spec_id),
            "format-version": str(self._version),
            "content": "deletes" if content == DELETES else "data",
        }
        of_entries = entry_schema(partition, self._version)
        name = f"{self._commit}-m{self._manifests_written}.avro"
        path, length = self._put(name, of_entries, map(_tagged, entries), header)
        self._manifests_written += 1
        live = (entry["sequence_number"] for entry in entries if entry["status"] != DELETED)
        return {
            "manifest_path": path,
            "manifest_length": length,
            "partition_spec_id": spec_id,
            "content": content,
            "sequence_number": self._sequence_number,
            "min_sequence_number": min(
                (number for number in live if number is not None), default=self._sequence_number
            ),
            "added_snapshot_id": self._id,
            **counts_of(entries),
            "partitions": _summaries(entries, partition, spec),
            "key_metadata": None,
            "first_row_id": None,
        }

    def _snapshot(self, manifests: list[_Entry], replaced: int, replacement: Replacement) -> Change:
        """Write the manifest list and return the change with the snapshot."""
        parent = self._base.info.id
        header = {
            "snapshot-id": str(self._id),
            "parent-snapshot-id": str(parent),
            "sequence-number": str(self._sequence_number),
            "format-version": str(self._version),
        }
        row_ids: dict[str, int] = {}
        if self._version >= VECTORS_VERSION:
            first_row = self._members.integer("next-row-id")
            row_ids = {"first-row-id": first_row, "added-rows": assign_row_ids(manifests, first_row) - first_row}
            header["first-row-id"] = str(first_row)
        name = f"snap-{self._id}-1-{self._commit}.avro"
        path, _ = self._put(name, list_schema(self._version), manifests, header)
        (before,) = (one for one in self._members.objects("snapshots") if one.integer("snapshot-id") == parent)
        latest = max(self._members.integer("last-updated-ms"), before.integer("timestamp-ms"))
        created = self._manifests_written
        counts = {"created": created, "kept": len(manifests) - created, "replaced": replaced}
        timestamp_ms = max(int(time.time() * 1000), latest)
        snapshot = {
            "sequence-number": self._sequence_number,
            "snapshot-id": self._id,
            "parent-snapshot-id": parent,
            "timestamp-ms": timestamp_ms,
            "summary": summarize(
                replacement.operation,
                self._added,
                self._removed,
                before.object_if_any("summary").values,
                manifests=counts,
            )
            | dict(replacement.summary),
            "manifest-list": path,
            "schema-id": self._members.integer("current-schema-id"),
            **row_ids,
        }
        return Change(timestamp_ms, snapshot)

    def _put(
        self, name: str, schema: Any, records: Iterable[Mapping[str, Any]], header: Mapping[str, str]
    ) -> tuple[str, int]:
        """Write an Avro file of metadata; return its path as recorded, and its bytes."""
        data = avro.encode(schema, records, codec=self._codec, metadata=header, validate=False)
        root = self._properties.get("write.metadata.path", f"{self._base.metadata.location}/{METADATA}")
        path = f"{root.rstrip('/')}/{name}"
        location = self._folder.locate(path)
        self._files.append(location)
        with open_sink(location, storage_options=self._folder.storage) as sink:
            sink.write(data)
        return path, len(data)


def _fresh_id(taken: Iterable[int]) -> int:
    """Return a random snapshot id that is not taken."""
    known = set(taken)
    while (number := secrets.randbits(63)) in known or not number:
        pass
    return number
