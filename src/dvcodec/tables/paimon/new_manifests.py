"""The manifest lists of a new snapshot, and the manifests that delete whole data files.

Java classes ``ManifestFile``, ``ManifestList`` and ``FileStoreCommitImpl``. The base list of a snapshot has all
manifests of the one before, its delta list those of its own changes. Records are written with the Avro schema that they
were read with, so all their fields stay. A manifest that deletes data files is written for each that added some of
them: its record in the list copies the bounds of that one's record, which also cover a part of its entries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dvcodec.core import avro
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.io import open_sink
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DataFile
from dvcodec.tables.paimon.files import Layout
from dvcodec.tables.paimon.manifests import (
    DELETE,
    ENTRIES,
    LIST,
    DataFileMeta,
    ManifestEntry,
    live_entries,
    read_entry,
    read_stored,
)
from dvcodec.tables.paimon.metadata import SnapshotRecord

__all__ = ["Lists", "write_lists", "write_metadata"]

NewFile = Callable[[str], str]
"""Returns a fresh name for a kind of metadata file, after it noted the file's location."""


@dataclass(frozen=True, slots=True)
class Lists:
    """The manifest lists of a new snapshot.

    Attributes:
        base, delta: their bare names.
        base_size, delta_size: bytes.
        deleted_rows: physical rows of the data files that are deleted.
        codec: of all metadata of the snapshot before.
    """

    base: str
    base_size: int
    delta: str
    delta_size: int
    deleted_rows: int
    codec: str


@dataclass(frozen=True, slots=True)
class _Deleted:
    """A data file that is to be deleted: its record, and what a manifest has to be read with."""

    entry: ManifestEntry
    record: dict[str, Any]
    manifest: str
    schema: Any


def write_lists(
    folder: Folder, state: SnapshotRecord, removed: Sequence[DataFile], layout: Layout, new_file: NewFile
) -> Lists:
    """Write both manifest lists, and manifests that delete data files.

    Args:
        folder: the table's.
        state: the snapshot to commit on top of.
        removed: data files of it.
        layout: where its files are.
        new_file: names each file before it is written.

    Raises:
        DecodeError: the metadata of the snapshot is corrupt, or cannot be written again without loss.
        OSError: a file cannot be read or written.
    """
    before = [read_stored(folder, name, LIST) for name in (state.base_manifest_list, state.delta_manifest_list)]
    records = [record for one in before for record in one.records]
    source, codec = before[1].source, before[1].codec
    schema = _wider(before[0].schema, before[1].schema, source)
    delta: list[dict[str, Any]] = []
    listed = {record["_FILE_NAME"]: record for record in records}
    groups: dict[str, list[_Deleted]] = {}
    for one in _find(folder, list(listed), removed, layout):
        groups.setdefault(one.manifest, []).append(one)
    for manifest, members in groups.items():
        name = new_file("manifest")
        size = write_metadata(folder, name, members[0].schema, [one.record for one in members], codec, source)
        delta.append(_listed(listed[manifest], name, size, members, layout))
    names = new_file("manifest-list"), new_file("manifest-list")
    sizes = [
        write_metadata(folder, name, schema, some, codec, source)
        for name, some in zip(names, (records, delta), strict=True)
    ]
    rows = sum(one.record["_FILE"]["_ROW_COUNT"] for members in groups.values() for one in members)
    return Lists(names[0], sizes[0], names[1], sizes[1], rows, codec)


def write_metadata(
    folder: Folder, name: str, schema: Any, records: Sequence[dict[str, Any]], codec: str, source: str
) -> int:
    """Write an Avro file into the folder of manifests; return its size in bytes.

    Raises:
        Unsupported: the new records do not fit the schema, which is that of the file `source`.
        OSError: the file cannot be written.
    """
    try:
        data = avro.encode(schema, records, codec=codec)
    except UsageError as err:
        actual = f"one that they do not fit: {err}"
        raise Unsupported("Avro schema", source=source, expected="one for new records", actual=actual) from None
    with open_sink(folder.join(f"manifest/{name}"), storage_options=folder.storage) as out:
        out.write(data)
    return len(data)


def _find(folder: Folder, manifests: Sequence[str], removed: Sequence[DataFile], layout: Layout) -> Iterator[_Deleted]:
    """Yield entries that delete data files, with all fields of those that added them."""
    paths = {file.path for file in removed}
    names = {DataFileMeta.of(file).file_name for file in removed}
    found: list[_Deleted] = []
    for name in manifests if removed else ():
        stored = read_stored(folder, name, ENTRIES)
        for record in stored.records:
            if record["_FILE"]["_FILE_NAME"] in names:
                entry = read_entry(record, stored.source)
                found.append(_Deleted(entry, record | {"_KIND": DELETE}, name, stored.schema))
    live = {id(entry) for entry in live_entries(one.entry for one in found)}
    wanted = [one for one in found if id(one.entry) in live and layout.data_file(one.entry).path in paths]
    if len(wanted) != len(paths):
        actual = f"{len(wanted)} entries"
        raise NotCanonical("manifests", source=folder.location, expected=f"{len(paths)} data files", actual=actual)
    yield from wanted


def _listed(
    record: dict[str, Any], name: str, size: int, members: Sequence[_Deleted], layout: Layout
) -> dict[str, Any]:
    """Return the record of a new manifest, from that of the one whose entries it deletes.

    Readers skip a manifest by the nulls among its partition values, so these are counted again.
    """
    partitions = [layout.spec.decode(one.entry.file.partition, source=one.entry.manifest).values for one in members]
    nulls = [sum(value is None for value in column) for column in zip(*partitions, strict=True)]
    stats = record.get("_PARTITION_STATS")
    if isinstance(stats, dict) and stats.get("_NULL_COUNTS") is not None:
        record = record | {"_PARTITION_STATS": stats | {"_NULL_COUNTS": nulls}}
    return record | {
        "_FILE_NAME": name,
        "_FILE_SIZE": size,
        "_NUM_ADDED_FILES": 0,
        "_NUM_DELETED_FILES": len(members),
    }


def _wider(one: Any, other: Any, source: str) -> Any:
    """Return that of two schemas which has all fields of the other. One writer writes both lists of a snapshot."""
    for schema, rest in ((other, one), (one, other)):
        if _names(rest) <= _names(schema):
            return schema
    differ = sorted(_names(one) ^ _names(other))
    expected = "fields of both lists in one of them"
    raise Unsupported("Avro schema", source=source, expected=expected, actual=json.dumps(differ))


def _names(schema: Any, path: str = "") -> set[str]:
    """Return the names of all fields in a schema, those inside of others too."""
    if isinstance(schema, list):
        return {name for option in schema for name in _names(option, path)}
    if not isinstance(schema, dict):
        return set()
    inner = {name for key in ("items", "values", "type") for name in _names(schema.get(key), path)}
    for field in schema.get("fields") or ():
        name = f"{path}.{field['name']}"
        inner |= {name} | _names(field["type"], name)
    return inner
