"""Commit deletes to an append table: index files, manifests, and the snapshot file that names them all.

Java class ``FileStoreCommitImpl``: ``snapshot/snapshot-N+1`` is created only if it does not exist, then the hint
``snapshot/LATEST`` is written.

Paimon's own Python library is not used: pypaimon requires releases of pyarrow and pandas that exclude the current ones,
writes 32-bit vectors into tables of ``deletion-vectors.bitmap64`` and cannot read such a table. A commit is a few files
that this package reads anyway. All that it does not change is carried over from the snapshot before, members that are
not known here included.

Two writers of this package, or one and a store that renames without replacing (HDFS), cannot both create a snapshot. In
object stores, and between processes on a local disk, Paimon's Java writers first look whether the file exists and then
replace it; they are protected by the lock of their catalog, which this package does not take.

Which tables deletes may be committed to: Java classes ``CoreOptions`` and ``SchemaValidation``. Options say what
Paimon's own writers do at a commit, where the rows of a table come from, and where its files are; those under which
this library's commit would be another one than Paimon's are refused by name.

`enable` makes a new schema, with the option ``deletion-vectors.enabled``.
Java class ``SchemaManager``, whose ``ALTER TABLE`` wants ``deletion-vectors.modifiable`` too. That is for tables with a
primary key, whose readers find rows twice until they are compacted; the data files of an append table stay as they are.

The base list of a snapshot has all manifests of the one before, its delta list those of its own changes
(``ManifestFile``, ``ManifestList``). Records are written in the format and with the schema that they were read with, so
all their fields stay. A manifest that deletes data files is written for each that added some of them: its record in the
list copies the bounds of that one's record, which also cover a part of its entries.

A snapshot has at most one vector for a data file (``AppendDeleteFileMaintainer``,
``BucketedAppendDeleteFileMaintainer``), so an index file with a replaced vector is left out of the index manifest, and
what else is in it is copied to a new file. In tables with buckets, readers and writers expect one index file for a
bucket.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias, cast

from dvcodec import paimon
from dvcodec.core.errors import CommitConflict, NotCanonical, Unsupported, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.core.json_text import encode_json, parse_json
from dvcodec.core.vector import DvLocation, StoredFrame
from dvcodec.io import open_sink
from dvcodec.io.frames import MAX_FILE_BYTES, read_frame
from dvcodec.io.target import local_path, split
from dvcodec.tables.deleting.run import Committer, Written, check_next, check_read_back
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.json_fields import JsonFields
from dvcodec.tables.model import DataFile, DeletionVector, Enabled, FileDelete
from dvcodec.tables.paimon.manifests import (
    DELETE,
    ENTRIES,
    LIST,
    DataFileMeta,
    Entries,
    IndexedVector,
    ManifestEntry,
    read_entry,
    read_stored,
)
from dvcodec.tables.paimon.metadata import SnapshotRecord, TableSchema, numbered, read_snapshot
from dvcodec.tables.paimon.partition import Layout
from dvcodec.tables.paimon.table import ENABLED, PaimonSnapshot, PaimonTable
from dvcodec.tables.writing import put_once, removed_on_error

NewFile = Callable[[str], str]
"""Returns a fresh name for a kind of metadata file, after it noted the file's location."""


@dataclass(frozen=True, slots=True)
class _Deleted:
    """A data file that is to be deleted: its record, and what a manifest has to be read with."""

    entry: ManifestEntry
    record: dict[str, Any]
    manifest: str
    stored: paimon.Records


def write_lists(
    folder: Folder, state: SnapshotRecord, removed: Sequence[DataFile], layout: Layout, new_file: NewFile
) -> tuple[dict[str, str | int], paimon.MetadataFormat]:
    """Write both manifest lists, and manifests that delete data files.

    Args:
        folder: the table's.
        state: the snapshot to commit on top of.
        removed: data files of it.
        layout: where its files are.
        new_file: names each file before it is written.

    Returns:
        The members of the new snapshot that follow from them, and the format of all metadata of the one before.

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
    rows = sum(one.record["_FILE"]["_ROW_COUNT"] for members in groups.values() for one in members)
    found: dict[str, str | int] = {"totalRecordCount": (state.total_records or 0) - rows, "deltaRecordCount": -rows}
    for member, some in (("baseManifestList", records), ("deltaManifestList", delta)):
        name = new_file("manifest-list")
        found |= {member: name, f"{member}Size": _write(folder, name, like, some)}
    return found, like.format


def _write(folder: Folder, name: str, like: paimon.Records, records: Sequence[dict[str, Any]]) -> int:
    """Write a file into the folder of manifests, in the format and schema of another; return its size in bytes.

    Raises:
        Unsupported: the new records do not fit the schema.
        OSError: the file cannot be written.
    """
    try:
        data = paimon.encode_records(like.format, like.schema, records)
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
    live = [found[number] for number in Entries.of(one.entry for one in found).live().tolist()]
    wanted = [one for one in live if layout.data_file(one.entry).path in paths]
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


def _wider(one: paimon.Records, other: paimon.Records) -> paimon.Records:
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
        schema = base.shown
        self._source = schema.source
        self._layout = Layout(self._folder, schema)
        self._one_file = has_buckets(schema)
        self._size = MAX_FILE_BYTES if self._one_file else index_target_size(schema)
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
        self,
        old: Sequence[paimon.IndexManifestEntry],
        deletes: Sequence[FileDelete],
        written: Written,
        paths: list[str],
    ) -> tuple[list[paimon.IndexManifestEntry], list[str]]:
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
                paimon.IndexManifestEntry.from_index_file(
                    paimon.IndexFile.of(file), partition=bucket[0], bucket=bucket[1]
                )
                for file in files
            ]
        return entries, unused

    def _moves(self, entry: paimon.IndexManifestEntry, names: AbstractSet[str]) -> bool:
        """Whether an index file of a bucket is left out, of which vectors of these data files are replaced."""
        touched = self._one_file or any(meta.data_file in names for meta in entry.vectors or ())
        return entry.index_type == paimon.DELETION_VECTORS and touched

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
        return paimon.roll_index_files(
            folder, frames, paths, target_size=self._size, storage_options=self._folder.storage
        )


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


_UNITS = {"b": 0, "bytes": 0, "k": 10, "kb": 10, "kibibytes": 10, "m": 20, "mb": 20, "mebibytes": 20, "g": 30, "gb": 30}
"""Units of sizes, as powers of two."""
_TARGET_SIZE = "deletion-vector.index-file.target-size"


def has_buckets(schema: TableSchema) -> bool:
    """Whether rows are distributed to buckets, each of which has one index file at most.

    Raises:
        Unsupported: the number of buckets is not known here.
    """
    text = schema.options.get("bucket", "-1").strip()
    if text != "-1" and not re.fullmatch(r"[1-9][0-9]{0,9}", text):
        expected = "-1, or a number of buckets"
        raise Unsupported("table option bucket", source=schema.source, expected=expected, actual=text)
    return text != "-1"


def index_target_size(schema: TableSchema) -> int:
    """Return the size in bytes from which an index file is full.

    Raises:
        Unsupported: the option is not a size.
    """
    text = schema.options.get(_TARGET_SIZE)
    if text is None:
        return paimon.TARGET_SIZE
    match = re.fullmatch(r"([0-9]{1,18})\s*([a-z]*)", text.strip().lower())
    if match is None or (match[2] or "b") not in _UNITS:
        what, expected = f"table option {_TARGET_SIZE}", "a size like 2 mb"
        raise Unsupported(what, source=schema.source, expected=expected, actual=repr(text))
    return int(match[1]) << _UNITS[match[2] or "b"]


_USUAL = {
    "type": "table",
    "branch": "main",
    "changelog-producer": "none",
    "metadata.iceberg.storage": "disabled",
    "data-evolution.enabled": "false",
    "chain-table.enabled": "false",
    "query-auth.enabled": "false",
    "commit.callbacks": "",
    "scan.fallback-branch": "",
    "scan.fallback-snapshot-branch": "",
    "scan.fallback-delta-branch": "",
    "scan.primary-branch": "",
}
"""Options that change what a delete is, or what else a commit writes, and their usual values."""
_LAYOUT = (
    "data-file.path-directory",
    "index-file-in-data-file-dir",
    "partition.default-name",
    "partition.legacy-name",
)
"""Options that say where files are."""


def check_writable(base: PaimonSnapshot) -> None:
    """Refuse a table whose deletes are more, or other, than deletion vectors.

    Raises:
        UsageError: deletion vectors are not enabled.
        Unsupported: a kind of table, an option or a metadata field under which a delete is not known to be right.
        DecodeError: the metadata is corrupt.
        OSError: it cannot be read.
    """
    schema, folder = base.shown, base.table.folder
    if re.search(r"/branch/branch-[^/]*$", folder.location):
        raise Unsupported("branch", source=folder.location, expected="the table's own folder", actual="a branch of it")
    if schema.primary_keys:
        actual = f"the primary key {', '.join(schema.primary_keys)}"
        raise Unsupported("kind of table", source=schema.source, expected="an append table", actual=actual)
    for option, usual in _USUAL.items():
        actual = schema.options.get(option, usual).strip().lower()
        if actual not in (usual, ""):
            what, expected = f"table option {option}", usual or "not set"
            raise Unsupported(what, source=schema.source, expected=expected, actual=actual)
    if not schema.is_true(ENABLED):
        raise UsageError(
            f"{schema.source}: deletion vectors are not enabled ({ENABLED}: {schema.options.get(ENABLED, 'not set')}): "
            "enable them first, with dvcodec enable or dvcodec.tables.enable"
        )
    has_buckets(schema)
    index_target_size(schema)
    for path, visible in base.visible.items():
        if isinstance(visible, str):
            raise Unsupported("rows of a data file", source=path, expected="rows of the file alone", actual=visible)
    if base.state is not None:
        check_next("id", base.state.id, folder.join(base.state.name))
        _check_state(base, base.state, schema)


def _check_state(base: PaimonSnapshot, state: SnapshotRecord, schema: TableSchema) -> None:
    """Check that the newest schema has the files of a snapshot where its own has them, and which indexes it has."""
    before, now = layout_of(base.schemas(state.schema_id)), layout_of(schema)
    if before != now:
        expected = f"as before: {before}"
        raise Unsupported("options of file paths", source=schema.source, expected=expected, actual=now)
    if state.index_manifest is not None:
        manifest = base.table.folder.join(f"manifest/{state.index_manifest}")
        for entry in paimon.read_index_manifest(manifest, storage_options=base.table.folder.storage):
            if entry.index_type != paimon.DELETION_VECTORS:
                expected, actual = paimon.DELETION_VECTORS, repr(entry.index_type)
                raise Unsupported("_INDEX_TYPE", source=manifest, expected=expected, actual=actual)


def layout_of(schema: TableSchema) -> dict[str, str]:
    """Return the options of a schema that say where files are."""
    return {option: schema.options[option] for option in _LAYOUT if option in schema.options}


BATCH = 2**63 - 1
"""``commitIdentifier`` of a commit that is not one of a stream."""
_OF_ONE_COMMIT = frozenset(
    ["changelogManifestList", "changelogManifestListSize", "changelogRecordCount", "properties", "operation"]
)
"""Members that describe the commit that made a snapshot; others hold until they are changed."""
_WRITER = "writerVersion"
"""Member with the release of Paimon that wrote a snapshot."""


class PaimonCommitter(Committer[PaimonSnapshot]):
    """Commits deletes to an append table; see `Committer`."""

    def __init__(self, table: PaimonTable) -> None:
        self._folder = table.folder
        self._folder.storage.reopen(self._folder.location)  # the first time may drop nothing, that of `current` does

    def current(self) -> PaimonSnapshot:
        """Return the newest snapshot in the newest schema; see `Committer.current`."""
        self._folder.storage.reopen(self._folder.location)
        return PaimonTable(self._folder).snapshot()

    def check(self, base: PaimonSnapshot) -> None:
        """Refuse tables with a primary key or without deletion vectors, and features; see `check_writable`."""
        check_writable(base)

    def last_batch(self, base: PaimonSnapshot, query: str) -> int | None:
        """Return the highest ``commitIdentifier`` of the stream's ``commitUser``; see `Committer.last_batch`."""
        for number in sorted(numbered(self._folder.names("snapshot"), "snapshot"), reverse=True):
            name = f"snapshot/snapshot-{number}"
            source = self._folder.join(name)
            found = JsonFields.of(parse_json(self._folder.read(name), source, "metadata"), source)
            if number <= base.info.id and found.text_or_none("commitUser") == query:
                return found.integer("commitIdentifier")
        return None

    def write(self, base: PaimonSnapshot, deletes: Sequence[FileDelete], written: list[str]) -> Written:
        """Write new index files; see `Committer.write`."""
        return NewIndex(base).write(deletes, written)

    def commit(self, base: PaimonSnapshot, deletes: Sequence[FileDelete], written: Written, files: list[str]) -> int:
        """Write manifests and create the next snapshot; see `Committer.commit`."""
        state = base.state
        if state is None:
            raise UsageError(f"{self._folder.location}: there is no snapshot to delete from")
        try:
            with removed_on_error(files, self._folder.storage):
                snapshot, unused = self._prepare(base, state, deletes, written, files)
                data = encode_json(snapshot, self._folder.join(state.name), "metadata", lines=True)
        except FileNotFoundError:
            self._check_current(base, state)  # the snapshot may have been replaced, and then expired
            raise
        self._check_current(base, state)
        location = self._folder.join(f"snapshot/snapshot-{state.id + 1}")
        put_once(self._folder.storage, location, data)
        self._hint(state.id + 1)
        for path in unused:
            with suppress(OSError):
                self._folder.storage.remove(path)
        return state.id + 1

    def _prepare(
        self,
        base: PaimonSnapshot,
        state: SnapshotRecord,
        deletes: Sequence[FileDelete],
        written: Written,
        files: list[str],
    ) -> tuple[dict[str, Any], list[str]]:
        """Write all files of the new snapshot but its own.

        Returns:
            The new snapshot, and files of `written` that it does not need.
        """
        folder, token = self._folder, uuid.uuid4()
        schema = base.shown

        def new_file(kind: str) -> str:
            name = f"{kind}-{token}-{len(files)}"
            files.append(folder.join(f"manifest/{name}"))
            return name

        removed = [one.data_file for one in deletes if one.whole]
        lists, like = write_lists(folder, state, removed, Layout(folder, schema), new_file)
        old = []
        if state.index_manifest is not None:
            source = folder.join(f"manifest/{state.index_manifest}")
            old = paimon.read_index_manifest(source, limits=folder.storage.limits, storage_options=folder.storage)
        entries, unused = NewIndex(base, self.dropped).entries(old, deletes, written, files)
        index_manifest = new_file("index-manifest") if entries else None
        if index_manifest is not None:
            target = folder.join(f"manifest/{index_manifest}")
            paimon.write_index_manifest(
                target, entries, codec=like.codec, file_format=like.name, storage_options=folder.storage
            )
        return self._snapshot(state, schema.id, lists | {"indexManifest": index_manifest}), unused

    def _snapshot(self, state: SnapshotRecord, schema_id: int, written: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new snapshot: the members of the one before, with what changes.

        Statistics of another schema are left out, as Paimon's writers do.
        """
        source = self._folder.join(state.name)
        before: dict[str, Any] = dict(parse_json(self._folder.read(state.name), source, "metadata"))
        changed: dict[str, Any] = {
            **written,
            "uuid": str(uuid.uuid4()),
            "id": state.id + 1,
            "schemaId": schema_id,
            "commitUser": str(uuid.uuid4()) if self.batch is None else self.batch.query,
            "commitIdentifier": BATCH if self.batch is None else self.batch.number,
            "commitKind": "OVERWRITE",
            "timeMillis": max(time.time_ns() // 1_000_000, state.time_ms),
        }
        optional = {"uuid", "baseManifestListSize", "deltaManifestListSize"} - before.keys()
        after = before | {name: value for name, value in changed.items() if name not in optional}
        if schema_id != state.schema_id:
            after.pop("statistics", None)
        gone = _OF_ONE_COMMIT | {_WRITER}
        return {name: value for name, value in after.items() if value is not None and name not in gone}

    def _check_current(self, base: PaimonSnapshot, state: SnapshotRecord) -> None:
        """Check that nothing was committed, rolled back or altered since the base was read.

        Raises:
            CommitConflict: it was.
        """
        self._folder.storage.reopen(self._folder.location)
        for name, number in (("snapshot", state.id), ("schema", base.schema_id)):
            found = max(numbered(self._folder.names(name), name), default=None)
            if found != number:
                raise self._conflict(f"{name} {number} is not the newest one any more, that is {found}")
        try:
            same = read_snapshot(self._folder, state.name) == state
        except FileNotFoundError:
            same = False
        if not same:
            raise self._conflict(f"snapshot {state.id} is not the one that was read")

    def _hint(self, number: int) -> None:
        """Write the hint to the newest snapshot; readers check whether there is a newer one."""
        with (
            suppress(OSError),
            open_sink(self._folder.join("snapshot/LATEST"), storage_options=self._folder.storage) as out,
        ):
            out.write(str(number).encode())

    def _conflict(self, what: str) -> CommitConflict:
        return CommitConflict(f"{self._folder.location}: {what}")


def enable(table: PaimonTable, dry_run: bool = False) -> Enabled:
    """Enable deletion vectors in the newest schema; see `dvcodec.tables.enable`.

    Raises:
        Unsupported: a table that deletes could not be committed to afterwards either, see `check_writable`; or no id is
            left for another schema.
    """
    folder = table.folder
    folder.storage.reopen(folder.location)
    base = PaimonTable(folder).snapshot()
    schema = base.shown

    def enabled(number: int) -> TableSchema:
        found = base.schemas(number)
        return replace(found, options={**found.options, ENABLED: "true"}) if number == schema.id else found

    check_writable(replace(base, schemas=enabled))
    if schema.is_true(ENABLED):
        return Enabled(())
    check_next("id", schema.id, schema.source)
    changes = (f"{ENABLED}: {schema.options.get(ENABLED, 'not set')} -> true",)
    if dry_run:
        return Enabled(changes)
    found = parse_json(folder.read(f"schema/schema-{schema.id}"), schema.source, "metadata")
    members = JsonFields.of(found, schema.source).values
    new = {
        **members,
        "id": schema.id + 1,
        "options": {**(members.get("options") or {}), ENABLED: "true"},
        "timeMillis": int(time.time() * 1000),
    }
    data = encode_json(new, schema.source, "metadata", lines=True)
    location = folder.join(f"schema/schema-{schema.id + 1}")
    with uninterrupted():
        put_once(folder.storage, location, data)
    return Enabled(changes, location)
