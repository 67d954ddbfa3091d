"""The manifest lists of a new snapshot, and the manifests that delete whole data files.

Java classes ``ManifestFile``, ``ManifestList`` and ``FileStoreCommitImpl``. The base list of a snapshot has all
manifests of the one before, its delta list those of its own changes. Records are written in the format and with the
schema that they were read with, so all their fields stay. A manifest that deletes data files is written for each that
added some of them: its record in the list copies the bounds of that one's record, which also cover a part of its
entries.

The index files of a new snapshot: new vectors, and those of other data files that shared a file with old ones.

Java classes ``AppendDeleteFileMaintainer`` and ``BucketedAppendDeleteFileMaintainer``. A snapshot has at most one
vector for a data file, so an index file with a replaced vector is left out of the index manifest, and what else is in
it is copied to a new file. In tables with buckets, readers and writers expect one index file for a bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias, cast

from dvcodec import paimon
from dvcodec.core.errors import NotCanonical, Unsupported, UsageError
from dvcodec.core.vector import DvLocation, StoredFrame
from dvcodec.io import open_sink
from dvcodec.io.frames import MAX_FILE_BYTES, read_frame
from dvcodec.io.target import local_path, split
from dvcodec.paimon import DELETION_VECTORS, IndexFile, IndexManifestEntry
from dvcodec.paimon.records import MetadataFormat, Records, encode_records
from dvcodec.paimon.vectors import roll_index_files
from dvcodec.tables.deleting.committer import Written, check_read_back
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DataFile, DeletionVector, FileDelete
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
from dvcodec.tables.paimon.partition import Layout
from dvcodec.tables.paimon.snapshot import PaimonSnapshot
from dvcodec.tables.paimon.vectors import IndexedVector
from dvcodec.tables.paimon.writable import has_buckets, index_target_size

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


Bucket: TypeAlias = "tuple[bytes, int]"
"""Serialized partition, and number of a bucket of it."""


class NewIndex:
    """Writes the index files of one commit.

    Args:
        base: the snapshot to commit on top of.
        dropped: vectors to leave out, see `Committer`.
    """

    def __init__(self, base: PaimonSnapshot, dropped: Sequence[DeletionVector] = ()) -> None:
        self._base, self._folder, self._dropped = base, base.table.folder, dropped
        schema = base.schemas(base.schema_id or 0)
        self._source = self._folder.join(schema.name)
        self._layout = Layout(self._folder, schema)
        self._one_file = has_buckets(schema, self._source)
        self._size = MAX_FILE_BYTES if self._one_file else index_target_size(schema, self._source)
        self._kind = "bitmap64" if schema.is_true("deletion-vectors.bitmap64") else "bitmap32"

    def write(self, deletes: Sequence[FileDelete], paths: list[str]) -> Written:
        """Write the new vectors, those of each bucket into files of their own, and verify them.

        Args:
            deletes: none of them `FileDelete.whole`.
            paths: each file is appended before it is written.

        Raises:
            UsageError: a row set that the table's vectors cannot store.
            NotCanonical: what is read back differs.
            OSError: a file cannot be written.
        """
        found: dict[str, DvLocation] = {}
        for bucket, some in _by_bucket(deletes).items():
            rows = {_name(one.data_file): one.rows for one in some}
            known = {_name(one.data_file): one.data_file.path for one in some}
            frames = (
                StoredFrame(name, one.cardinality, paimon.encode(one, layout=self._kind)) for name, one in rows.items()
            )
            for file in self._roll(bucket, frames, paths):
                again = paimon.read_deletion_vectors(file[0].path, file, storage_options=self._folder.storage)
                check_read_back(file[0].path, {name: rows[name] for name in again}, again)
                found |= {known[str(at.data_file)]: replace(at, data_file=known[str(at.data_file)]) for at in file}
        return Written(found, sum({at.path: at.file_size or 0 for at in found.values()}.values()))

    def entries(
        self, old: Sequence[IndexManifestEntry], deletes: Sequence[FileDelete], written: Written, paths: list[str]
    ) -> tuple[list[IndexManifestEntry], list[str]]:
        """Copy vectors that have to move to other files, and return the entries of the new index manifest.

        Args:
            old: entries of the base's index manifest.
            deletes: all of the commit.
            written: of `write`.
            paths: each file is appended before it is written.

        Returns:
            The entries; and files of `write` that no entry has, as their vectors were copied on.

        Raises:
            DecodeError: a vector that has to move is corrupt.
            OSError: a file cannot be read or written.
        """
        buckets = _by_bucket(deletes)
        names = {bucket: {_name(one.data_file) for one in some} for bucket, some in buckets.items()}
        for vector in self._dropped:
            bucket = _bucket_of(vector)
            buckets.setdefault(bucket, [])
            names.setdefault(bucket, set()).add(IndexedVector.of(vector).meta.data_file)
        entries, unused = [], []
        left_out: dict[Bucket, set[str]] = {bucket: set() for bucket in buckets}
        for entry in old:
            bucket = (entry.partition, entry.bucket)
            if bucket in buckets and self._moves(entry, names[bucket]):
                left_out[bucket].add(entry.file_name)
            else:
                entries.append(entry)
        for bucket, some in buckets.items():
            others = list(self._others(bucket, left_out[bucket], names[bucket]))
            files = _files(some, written)
            frames = (
                self._frame(name, one.location, one.offset or 0, one.size or 0, one.cardinality) for name, one in others
            )
            if self._one_file and others and files:
                unused += [file[0].path for file in files]
                again = (
                    self._frame(str(at.data_file), at.path, at.offset, at.size, at.cardinality)
                    for at in chain.from_iterable(files)
                )
                files = self._roll(bucket, chain(frames, again), paths)
            else:
                files = self._roll(bucket, frames, paths) + files
            entries += [
                IndexManifestEntry.from_index_file(IndexFile.of(file), partition=bucket[0], bucket=bucket[1])
                for file in files
            ]
        return entries, unused

    def _moves(self, entry: IndexManifestEntry, names: AbstractSet[str]) -> bool:
        """Whether an index file of a bucket is left out, of which vectors of these data files are replaced."""
        touched = self._one_file or any(meta.data_file in names for meta in entry.vectors or ())
        return entry.index_type == DELETION_VECTORS and touched

    def _others(
        self, bucket: Bucket, index_files: AbstractSet[str], replaced: AbstractSet[str]
    ) -> Iterator[tuple[str, DeletionVector]]:
        """Yield the vectors in index files of a bucket that are not replaced, by the names of their data files."""
        for one in self._base.vectors:
            name = IndexedVector.of(one).meta.data_file
            is_there = _bucket_of(one) == bucket and split(one.path)[1] in index_files
            if is_there and name not in replaced:
                yield name, one

    def _frame(self, data_file: str, location: str, offset: int, size: int, cardinality: int | None) -> StoredFrame:
        """Read a vector that is copied, and verify it."""
        with self._folder.storage.open(location) as source:
            data = bytes(read_frame(source, offset, size, self._folder.storage.limits).view)
        rows = paimon.decode(data, cardinality=cardinality, source=location, base=offset)
        return StoredFrame(data_file, rows.cardinality, data)

    def _roll(self, bucket: Bucket, frames: Iterable[StoredFrame], paths: list[str]) -> list[list[DvLocation]]:
        folder = self._folder.locate(self._layout.index_folder(*bucket, self._source))
        local = local_path(folder)
        if local is not None:
            local.mkdir(parents=True, exist_ok=True)
        return roll_index_files(folder, frames, paths, target_size=self._size, storage_options=self._folder.storage)


def _bucket_of(vector: DeletionVector) -> Bucket:
    return cast("Bucket", (vector.partition_key, vector.bucket))


def _by_bucket(deletes: Iterable[FileDelete]) -> dict[Bucket, list[FileDelete]]:
    found: dict[Bucket, list[FileDelete]] = {}
    for one in deletes:
        meta = DataFileMeta.of(one.data_file)
        found.setdefault((meta.partition, meta.bucket), []).append(one)
    return found


def _files(deletes: Iterable[FileDelete], written: Written) -> list[list[DvLocation]]:
    """Return the new vectors of a bucket by file, in file order, with the bare names of their data files."""
    files: dict[str, list[DvLocation]] = {}
    for one in deletes:
        at = written.locations.get(one.data_file.path)
        if at is not None:
            files.setdefault(at.path, []).append(replace(at, data_file=_name(one.data_file)))
    return [sorted(file, key=lambda at: at.offset) for file in files.values()]


def _name(data_file: DataFile) -> str:
    return DataFileMeta.of(data_file).file_name
