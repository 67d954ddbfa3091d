"""Manifest lists and manifests, the data files of a snapshot; and its deletion vectors, by the index manifest.

Specification: Paimon's "Manifest"; Java classes ``ManifestList``, ``ManifestFile``, ``ManifestEntry`` and
``DataFileMeta``. All are files of records (see `dvcodec.paimon`) in ``manifest/``. A snapshot's base list and
delta list name manifests, whose entries add and delete data files: a file that is added and not deleted is live.
Entries belong to one file if they agree in partition, bucket, level, name, extra files, embedded index and external
path.

The index manifest gives the length of a 32-bit vector without its frame's 8 bytes, that of a 64-bit one with them, and
does not record which of the two a vector is: its magic does (see `dvcodec.paimon`). Vectors are adjacent, so
the next offset or the file's size gives the end of each, and thus the convention, without opening the file. If the
records leave gaps, the magic is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.vector import UNCOUNTED, Magic
from dvcodec.io import Storage
from dvcodec.io.frames import check_version, read_frames
from dvcodec.io.source import read_up_to
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import hide_values
from dvcodec.paimon import (
    DELETION_VECTORS,
    FORMATS,
    DeletionVectorMeta,
    IndexManifestEntry,
    Records,
    read_index_manifest,
    read_records,
)
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.cache import Cache
from dvcodec.tables.metadata.json_fields import bare_name
from dvcodec.tables.model import DeletionVector, Record
from dvcodec.tables.snapshots.findings import Finding

VERSION = 2
_KEPT_ENTRIES = 50_000
"""Maximum number of cached entries, about 1 KB each: snapshots may list the same manifests by turns."""
_KEPT_VECTORS = 50_000
"""Maximum number of cached vectors, about 1 KB each: snapshots may have the same index manifest by turns."""
ADD, DELETE = 0, 1


def _optional(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


_TEXTS = {"type": "array", "items": "string"}
LIST = {
    "type": "record",
    "fields": [{"name": "_VERSION", "type": "int"}, {"name": "_FILE_NAME", "type": "string"}],
}
"""The used fields of a manifest list."""
_FILE_FIELDS: tuple[dict[str, Any], ...] = (
    {"name": "_FILE_NAME", "type": "string"},
    {"name": "_FILE_SIZE", "type": "long"},
    {"name": "_ROW_COUNT", "type": "long"},
    {"name": "_SCHEMA_ID", "type": "long"},
    {"name": "_LEVEL", "type": "int"},
    {"name": "_EXTRA_FILES", "type": _TEXTS},
    {"name": "_DELETE_ROW_COUNT", **_optional("long")},
    {"name": "_EMBEDDED_FILE_INDEX", **_optional("bytes")},
    {"name": "_EXTERNAL_PATH", **_optional("string")},
    {"name": "_FIRST_ROW_ID", **_optional("long")},
    {"name": "_WRITE_COLS", **_optional(_TEXTS)},
)
ENTRIES = {
    "type": "record",
    "fields": [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_FILE", "type": ["null", {"type": "record", "fields": list(_FILE_FIELDS)}]},
    ],
}
"""The used fields of a manifest. Producers write more; older ones lack those with a default, and write ``_FILE`` as
nullable."""
_KNOWN = frozenset(
    [
        *(field["name"] for field in _FILE_FIELDS),
        *("_MIN_KEY", "_MAX_KEY", "_KEY_STATS", "_VALUE_STATS", "_VALUE_STATS_COLS", "_MIN_SEQUENCE_NUMBER"),
        *("_MAX_SEQUENCE_NUMBER", "_CREATION_TIME", "_FILE_SOURCE", "_WRITE_COLS_SEQUENCES"),
    ]
)
"""Known fields of a data file. An unknown one may change what its rows are."""


@dataclass(frozen=True, slots=True)
class DataFileMeta(Record):
    """A data file in a manifest (Java class of the same name), without statistics.

    Attributes:
        partition: serialized.
        bucket: number; negative for rows without a bucket.
        file_name: bare name.
        file_size: bytes.
        row_count: records in the file.
        schema_id: the schema that it was written with.
        level: of the merge tree; 0 for files that were not compacted.
        extra_files: bare names of files beside it.
        delete_row_count: records that delete a key; None if not recorded.
        external_path: location of the file, if not in the table's folder.
        first_row_id: row id of its first record; None without row ids.
        write_cols: names of the columns in the file; None for all of its schema.
        unknown: names of unknown fields that have a value.
    """

    partition: bytes
    bucket: int
    file_name: str
    file_size: int
    row_count: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    delete_row_count: int | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file that a manifest adds or deletes.

    Attributes:
        manifest: the manifest's file, for errors.
        deleted: whether the entry deletes it.
        identity: equal for entries of the same file.
        file: the file.
    """

    manifest: str
    deleted: bool
    identity: tuple[object, ...]
    file: DataFileMeta


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Return the entries of the live files, in the order in which they were added.

    Raises:
        NotCanonical: a file was added twice.
    """
    entries = list(entries)
    deleted = {entry.identity for entry in entries if entry.deleted}
    found: dict[tuple[object, ...], ManifestEntry] = {}
    for entry in entries:
        if entry.deleted or entry.identity in deleted:
            continue
        if entry.identity in found:
            name = entry.file.file_name
            raise NotCanonical("_FILE", source=entry.manifest, expected=f"{name!r:.80} added once", actual="twice")
        found[entry.identity] = entry
    return list(found.values())


def read_manifest_list(folder: Folder, name: str) -> list[str]:
    """Return the bare names of the manifests that a list names.

    Raises:
        DecodeError: the list is corrupt, or names a manifest twice.
        OSError: it cannot be read.
    """
    stored = read_stored(folder, name, LIST)
    found: dict[str, None] = {}
    for record in stored.records:
        manifest = bare_name(record["_FILE_NAME"], "_FILE_NAME", stored.source)
        if manifest in found:
            expected = "each manifest once"
            raise NotCanonical("_FILE_NAME", source=stored.source, expected=expected, actual=f"{manifest!r:.80} twice")
        found[manifest] = None
    return list(found)


class Manifests:
    """Reads the manifests of a table, and keeps those that were read last: an audit, or a history, reads them again."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: Cache[str, list[ManifestEntry]] = Cache(_KEPT_ENTRIES, len)
        self._lists: Cache[str, list[str]] = Cache(_KEPT_ENTRIES, lambda names: len(names) + 1)
        self._indexes: Cache[str, tuple[IndexManifestEntry, ...]] = Cache(_KEPT_VECTORS, _count_vectors)

    def listed(self, name: str) -> list[str]:
        """Return the bare names of the manifests that a list names; see `read_manifest_list`."""
        return self._lists.get(name, lambda: read_manifest_list(self._folder, name))

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, list[ManifestEntry]]]:
        """Yield manifests by name, in order; several are read concurrently if they are remote.

        Raises:
            DecodeError, OSError: see `read_manifest`.
        """

        def read(name: str) -> tuple[str, list[ManifestEntry]]:
            return name, self._kept.get(name, lambda: read_manifest(self._folder, name))

        return run_bounded(read, names, self._folder.storage.readers(self._folder.location))

    def index(self, name: str) -> tuple[IndexManifestEntry, ...]:
        """Return the entries of an index manifest, in order.

        Raises:
            DecodeError, OSError: see `dvcodec.paimon.read_index_manifest`.
        """
        source, storage = self._folder.join(f"manifest/{name}"), self._folder.storage
        return self._indexes.get(
            name, lambda: tuple(read_index_manifest(source, limits=storage.limits, storage_options=storage))
        )

    def live_index(self, name: str) -> tuple[IndexManifestEntry, ...]:
        """Return the entries of a snapshot's index manifest, which deletes none.

        Raises:
            DecodeError, OSError: see `index`.
        """
        entries = self.index(name)
        for entry in entries:
            if entry.kind != "ADD":
                source, actual = self._folder.join(f"manifest/{name}"), f"{entry.kind} {entry.file_name!r}"
                raise NotCanonical("_KIND", source=source, expected="ADD", actual=actual)
        return entries


def _count_vectors(entries: Iterable[IndexManifestEntry]) -> int:
    return sum(1 + len(entry.vectors or ()) for entry in entries)


def read_manifest(folder: Folder, name: str) -> list[ManifestEntry]:
    """Return a manifest's entries, in file order.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    stored = read_stored(folder, name, ENTRIES)
    return [read_entry(record, stored.source) for record in stored.records]


def read_stored(folder: Folder, name: str, known: Mapping[str, Any]) -> Records:
    """Read a manifest list or a manifest with all its fields.

    Args:
        folder: the table's.
        name: bare name of the file.
        known: `LIST`; or `ENTRIES`, whose records `read_entry` reads.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    location = folder.join(f"manifest/{name}")
    with folder.storage.open(location) as source:
        found = read_records(source, known, "that of a manifest", limits=folder.storage.limits)
    return replace(found, source=location, records=_checked(found.records, location, folder))


def _checked(records: Iterator[dict[str, Any]], location: str, folder: Folder) -> Iterator[dict[str, Any]]:
    with hide_values(location, folder.storage.home):
        for record in records:
            if record["_VERSION"] != VERSION:
                found = record["_VERSION"]
                raise Unsupported("_VERSION", source=location, offset=0, expected=VERSION, actual=found)
            yield record


def read_entry(record: Mapping[str, Any], source: str) -> ManifestEntry:
    """Read a record of a manifest.

    Args:
        record: of `read_stored`.
        source: the manifest, for errors.

    Raises:
        NotCanonical: it is corrupt.
    """
    kind, file = record["_KIND"], record["_FILE"]
    if kind not in (ADD, DELETE):
        raise NotCanonical("_KIND", source=source, expected="0 (ADD) or 1 (DELETE)", actual=kind)
    if file is None:
        raise NotCanonical("_FILE", source=source, expected="a record", actual="null")
    bare_name(file["_FILE_NAME"], "_FILE_NAME", source)
    for extra in file["_EXTRA_FILES"]:
        bare_name(extra, "_EXTRA_FILES", source)
    for name in ("_FILE_SIZE", "_ROW_COUNT", "_SCHEMA_ID", "_LEVEL"):
        if file[name] < 0:
            raise NotCanonical(name, source=source, expected="0 or more", actual=file[name])
    meta = DataFileMeta(
        record["_PARTITION"],
        record["_BUCKET"],
        file["_FILE_NAME"],
        file["_FILE_SIZE"],
        file["_ROW_COUNT"],
        file["_SCHEMA_ID"],
        file["_LEVEL"],
        tuple(file["_EXTRA_FILES"]),
        file.get("_DELETE_ROW_COUNT"),
        file.get("_EXTERNAL_PATH"),
        file.get("_FIRST_ROW_ID"),
        None if (names := file.get("_WRITE_COLS")) is None else tuple(names),
        tuple(name for name, value in file.items() if name not in _KNOWN and value is not None),
    )
    identity = (
        meta.partition,
        meta.bucket,
        meta.level,
        meta.file_name,
        meta.extra_files,
        file.get("_EMBEDDED_FILE_INDEX"),
        meta.external_path,
    )
    return ManifestEntry(source, kind == DELETE, identity, meta)


_HEADS_BYTES = 1 << 14
"""Bytes that are read at once for the heads of vectors."""
BITS32, BITS64 = FORMATS[Magic.PAIMON32], FORMATS[Magic.PORTABLE64]


@dataclass(frozen=True, slots=True)
class IndexedVector(Record):
    """What the index manifest records of a vector.

    Attributes:
        meta: the vector.
        row_count: vectors of its index file.
    """

    meta: DeletionVectorMeta
    row_count: int


def vectors_of_entry(
    entry: IndexManifestEntry, folder: Folder, path: str, data_file: Callable[[str], str], *, bitmap64: bool
) -> Iterator[DeletionVector]:
    """Yield the vectors of an index file, in the manifest's order.

    Args:
        entry: an entry of the index manifest; other kinds of index have none.
        folder: the table's.
        path: path of the index file, as `Layout.index_file` has it.
        data_file: returns `DataFile.path` for the bare name of a data file.
        bitmap64: table option ``deletion-vectors.bitmap64``, for vectors whose kind neither the metadata nor the file
            shows.
    """
    if entry.index_type != DELETION_VECTORS:
        return
    metas = entry.vectors or ()
    location = folder.locate(path)
    ends = _ends(metas, entry.file_size)
    rooms = [ends[meta.offset] - meta.offset for meta in metas]
    known = [room in (meta.length, meta.length + UNCOUNTED) for meta, room in zip(metas, rooms, strict=True)]
    unknown = [meta.offset for meta, is_known in zip(metas, known, strict=True) if not is_known]
    read = _kinds_by_magic(location, unknown, folder.storage) if unknown else {}
    for meta, room, is_known in zip(metas, rooms, known, strict=True):
        if is_known:
            kind = BITS64 if room == meta.length else BITS32
        else:
            kind = read.get(meta.offset, BITS64 if bitmap64 else BITS32)
        yield DeletionVector(
            kind,
            data_file(meta.data_file),
            path,
            location,
            meta.offset,
            meta.length + (UNCOUNTED if kind == BITS32 else 0),
            meta.cardinality,
            entry.file_size,
            entry.partition,
            bucket=entry.bucket,
            record=IndexedVector(meta, entry.row_count),
        )


def _ends(metas: Sequence[DeletionVectorMeta], file_size: int) -> dict[int, int]:
    """Return where the vector at each offset ends, if they are back to back up to the file's end."""
    offsets = sorted({meta.offset for meta in metas})
    return dict(zip(offsets, [*offsets[1:], file_size], strict=True)) if offsets else {}


def _kinds_by_magic(location: str, offsets: Sequence[int], storage: Storage) -> dict[int, str]:
    """Return the kinds of the vectors at these offsets, by offset, as far as the file shows them."""
    found = {}
    left = sorted(set(offsets), reverse=True)
    with suppress(OSError, DecodeError), storage.open(location) as source:
        while left:
            start = left[-1]
            heads = read_up_to(source, start, _HEADS_BYTES).view
            while left and (at := left[-1] - start) + 8 <= _HEADS_BYTES:
                magic = Magic.find(bytes(heads[at + 4 : at + 8]))
                if magic in FORMATS:
                    found[left[-1]] = FORMATS[magic]
                left.pop()
    return found


def check_index_file(location: str, vectors: Sequence[DeletionVector], storage: Storage) -> Iterator[Finding]:
    """Compare an index file with what the metadata records of it and of all its vectors.

    Checks: for each vector ``record`` (a frame of its size begins at its offset), and ``count`` (the file has
    ``_ROW_COUNT`` vectors). The contents of the frames are not checked.

    Raises:
        DecodeError: the file is corrupt.
        OSError: it cannot be read.
    """
    with storage.open(location) as source:
        check_version(source)
        frames = {cursor.base: cursor.remaining for cursor in read_frames(source, limits=storage.limits)}
    for vector in vectors:
        size = None if vector.offset is None else frames.get(vector.offset)
        if size is None:
            actual = "none begins there"
            yield Finding.of_vector("record", vector, "vector", f"{vector.size} bytes", actual)
        elif size != vector.size:
            yield Finding.of_vector("record", vector, "size of the vector", vector.size, size)
    for count in dict.fromkeys(IndexedVector.of(vector).row_count for vector in vectors):
        if count != len(frames):
            expected = f"{count} vectors (metadata)"
            yield Finding.failed("count", "_ROW_COUNT", expected, len(frames), path=location)
