"""Writes the manifests and the manifest list of a new snapshot.

The summary of a snapshot: what a commit changed, and the totals.

Specification: Iceberg table spec, appendix F, "Optional Snapshot Summary Fields"; the counts are those of Iceberg
Java's ``SnapshotSummary``: the size of a vector is that of its blob.
"""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dvcodec import iceberg
from dvcodec._version import __version__
from dvcodec.core.errors import NotCanonical
from dvcodec.core.vector import DvLocation
from dvcodec.iceberg import PositionDeleteFile
from dvcodec.io import open_sink
from dvcodec.tables.iceberg.entries import ManifestEntry
from dvcodec.tables.iceberg.manifest_schemas import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    FILE_COLUMNS,
    POSITION_DELETES,
    PUFFIN,
)
from dvcodec.tables.iceberg.metadata import METADATA, Change, number_of, properties_of
from dvcodec.tables.iceberg.new_manifests import (
    UNPARTITIONED,
    Carried,
    NewManifest,
    assign_row_ids,
    codec_of,
    manifest_list_bytes,
    read_all_manifests,
    read_carried,
)
from dvcodec.tables.iceberg.plan import VECTORS_VERSION
from dvcodec.tables.iceberg.snapshot import IcebergSnapshot
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import DeletionVector

_TOTALS = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}


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
    for total, (plus, minus) in _TOTALS.items():
        text = previous.get(total)
        before = number_of(text, -1) if isinstance(text, str) else -1
        after = before + counts[plus] - counts[minus] if before >= 0 else -1
        if after >= 0:
            summary[total] = str(after)
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


VectorPlace = tuple[str, int | None, str | None]
"""Path of a delete file; offset and data file of a vector in it. Where offsets are wrong, vectors may share one."""


def places(vectors: Iterable[DeletionVector]) -> frozenset[VectorPlace]:
    """Return where vectors are; position deletes are whole files."""
    return frozenset((one.path, one.offset, None if one.offset is None else one.data_file) for one in vectors)


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a commit changes in the lists of files.

    Attributes:
        vectors: new vectors by data file.
        position_deletes: new files of position deletes.
        removed: data files to remove.
        gone: delete files and vectors to remove, see `places`.
        manifests: paths of the manifests that `gone` is in.
        operation: of the snapshot.
        summary: further members of its summary.
    """

    vectors: Mapping[str, DvLocation]
    removed: frozenset[str]
    gone: frozenset[VectorPlace]
    manifests: frozenset[str]
    operation: str = "delete"
    summary: Mapping[str, str] = field(default_factory=dict)
    position_deletes: Sequence[PositionDeleteFile] = ()


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
        self._codec = codec_of(self._properties)
        self._id = _fresh_id(base.metadata.snapshots)
        self._sequence_number = members.integer("last-sequence-number") + 1
        self._commit = uuid.uuid4()
        self._manifests_written = 0
        self._read: dict[str, Carried] = {}
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
        for path, location in replacement.vectors.items():
            group, partition = self._partition_of(path, by_path)
            groups[group].append(self._new_entry(iceberg.manifest_entry(location), partition, group[0]))
        for one in replacement.position_deletes:
            group, partition = self._partition_of(one.data_files[0], by_path)
            groups[group].append(self._new_entry(one.entry, partition, group[0]))
        touched = {ManifestEntry.of(self._base.files[path]).manifest for path in replacement.removed}
        rewritten = touched | replacement.manifests | self._small_manifests()
        for manifest in self._base_manifests:
            if manifest["manifest_path"] in rewritten:
                carried, spec_id = self._carried(manifest), manifest["partition_spec_id"]
                entries = self._filtered(carried, manifest, replacement)
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
        if record.manifest_list is None:
            raise NotCanonical("snapshot", source=self._base.metadata.source, expected="a manifest-list")
        return read_all_manifests(self._folder.locate(record.manifest_list), self._folder.storage)

    def _carried(self, manifest: _Entry) -> Carried:
        path = manifest["manifest_path"]
        if path not in self._read:
            self._read[path] = read_carried(manifest, self._folder.locate(path), self._folder.storage)
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
        return (spec_id, json.dumps(carried.partition)), carried.partitions[path]

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

    def _filtered(self, carried: Carried, manifest: _Entry, replacement: Replacement) -> list[_Entry]:
        """Return the entries of a manifest: removed ones as deleted, the others as existing."""
        entries = []
        for entry in carried.entries:
            file = entry["data_file"]
            if manifest["content"] == DATA:
                goes = file["file_path"] in replacement.removed
            else:
                offset = file["content_offset"]
                of_file = None if offset is None else file["referenced_data_file"]
                goes = (file["file_path"], offset, of_file) in replacement.gone
            if goes:
                self._removed.append(entry | {"spec_id": manifest["partition_spec_id"]})
                entries.append(entry | {"status": DELETED, "snapshot_id": self._id})
            else:
                entries.append(entry | {"status": EXISTING})
        return entries

    def _write_manifest(
        self, content: int, entries: Sequence[_Entry], partition: Mapping[str, Any], spec_id: int
    ) -> _Entry:
        spec = next(one for one in self._members.objects("partition-specs") if one.integer("spec-id") == spec_id)
        current = self._members.integer("current-schema-id")
        schema = next(one for one in self._members.objects("schemas") if one.integer("schema-id") == current)
        manifest = NewManifest(content, entries, partition, spec)
        data = manifest.encode(schema, self._codec, self._base.metadata.format_version)
        path = self._put(f"{self._commit}-m{self._manifests_written}.avro", data)
        self._manifests_written += 1
        return manifest.record(path, len(data), self._id, self._sequence_number)

    def _snapshot(self, manifests: list[_Entry], replaced: int, replacement: Replacement) -> Change:
        """Write the manifest list and return the change with the snapshot."""
        parent = self._base.info.id
        row_ids: dict[str, int] = {}
        if self._base.metadata.format_version >= VECTORS_VERSION:
            first_row = self._members.integer("next-row-id")
            row_ids = {"first-row-id": first_row, "added-rows": assign_row_ids(manifests, first_row) - first_row}
        data = manifest_list_bytes(
            manifests,
            snapshot_id=self._id,
            parent=parent,
            sequence_number=self._sequence_number,
            first_row_id=row_ids.get("first-row-id"),
            codec=self._codec,
        )
        path = self._put(f"snap-{self._id}-1-{self._commit}.avro", data)
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

    def _put(self, name: str, data: bytes) -> str:
        """Write a file of metadata; return its path as recorded."""
        root = self._properties.get("write.metadata.path", f"{self._base.metadata.location}/{METADATA}")
        path = f"{root.rstrip('/')}/{name}"
        location = self._folder.locate(path)
        self._files.append(location)
        with open_sink(location, storage_options=self._folder.storage) as sink:
            sink.write(data)
        return path


def _fresh_id(taken: Iterable[int]) -> int:
    """Return a random snapshot id that is not taken."""
    known = set(taken)
    while (number := secrets.randbits(63)) in known or not number:
        pass
    return number
