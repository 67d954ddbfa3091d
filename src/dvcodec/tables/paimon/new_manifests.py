"""The manifest lists of a new snapshot, and the manifests that delete whole data files.

Java classes ``ManifestFile``, ``ManifestList`` and ``FileStoreCommitImpl``. The base list of a snapshot has all
manifests of the one before, its delta list those of its own changes. Records are written in the format and with the
schema that they were read with, so all their fields stay. A manifest that deletes data files is written for each that
added some of them: its record in the list copies the bounds of that one's record, which also cover a part of its
entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.io import open_sink
from dvcodec.paimon.records import MetadataFormat, Records, encode_records
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

__all__ = ["Lists", "write_lists"]

NewFile = Callable[[str], str]
"""Returns a fresh name for a kind of metadata file, after it noted the file's location."""


@dataclass(frozen=True, slots=True)
class Lists:
    """The manifest lists of a new snapshot.

    Attributes:
        base, delta: their bare names.
        base_size, delta_size: bytes.
        deleted_rows: physical rows of the data files that are deleted.
        format: of all metadata of the snapshot before.
    """

    base: str
    base_size: int
    delta: str
    delta_size: int
    deleted_rows: int
    format: MetadataFormat


@dataclass(frozen=True, slots=True)
class _Deleted:
    """A data file that is to be deleted: its record, and what a manifest has to be read with."""

    entry: ManifestEntry
    record: dict[str, Any]
    manifest: str
    stored: Records


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
    like = _wider(*before)
    delta: list[dict[str, Any]] = []
    listed = {record["_FILE_NAME"]: record for record in records}
    groups: dict[str, list[_Deleted]] = {}
    for one in _find(folder, list(listed), removed, layout):
        groups.setdefault(one.manifest, []).append(one)
    for manifest, members in groups.items():
        name = new_file("manifest")
        size = _write(folder, name, members[0].stored, [one.record for one in members])
        delta.append(_listed(listed[manifest], name, size, members, layout))
    names = new_file("manifest-list"), new_file("manifest-list")
    sizes = [_write(folder, name, like, some) for name, some in zip(names, (records, delta), strict=True)]
    rows = sum(one.record["_FILE"]["_ROW_COUNT"] for members in groups.values() for one in members)
    return Lists(names[0], sizes[0], names[1], sizes[1], rows, like.format)


def _write(folder: Folder, name: str, like: Records, records: Sequence[dict[str, Any]]) -> int:
    """Write a file into the folder of manifests, in the format and schema of another; return its size in bytes.

    Raises:
        Unsupported: the new records do not fit the schema.
        OSError: the file cannot be written.
    """
    try:
        data = encode_records(like.format, like.schema, records)
    except UsageError as err:
        actual = f"one that they do not fit: {err}"
        raise Unsupported("schema", source=like.source, expected="one for new records", actual=actual) from None
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
            entry = read_entry(record, stored.source)
            if entry.file.file_name in names:
                found.append(_Deleted(entry, record | {"_KIND": DELETE}, name, stored))
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


def _wider(one: Records, other: Records) -> Records:
    """Return the list whose schema has all fields of the other's. One writer writes both lists of a snapshot.

    Raises:
        Unsupported: there is none, or they have different formats, of which Paimon reads one.
    """
    if one.format.name != other.format.name:
        expected = f"{other.format.name}, as the other list"
        raise Unsupported("format of a manifest list", source=one.source, expected=expected, actual=one.format.name)
    for wider, rest in ((other, one), (one, other)):
        if rest.field_names() <= wider.field_names():
            return replace(wider, format=other.format)
    differ = sorted(one.field_names() ^ other.field_names())
    expected, actual = "fields of both lists in one of them", ", ".join(differ)
    raise Unsupported("schema", source=other.source, expected=expected, actual=f"{actual:.200}")
