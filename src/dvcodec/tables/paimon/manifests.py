"""Manifest lists, manifests and index manifests: read, kept, and the entries of manifests by column.

Specification: Paimon's "Manifest"; Java classes ``ManifestList``, ``ManifestFile``, ``ManifestEntry`` and
``DataFileMeta``. All are files of records (see `dvcodec.paimon`) in ``manifest/``. A snapshot's base list and
delta list name manifests, whose entries add and delete data files: a file that is added and not deleted is live.
Entries belong to one file if they agree in partition, bucket, level, name, extra files, embedded index and external
path. They are read many at once if the manifest is Avro and each of its files is alone, in the table's folder, and has
all columns of its schema; else one by one, which finds what is wrong.

The index manifest gives the length of a 32-bit vector without its frame's 8 bytes, that of a 64-bit one with them, and
does not record which of the two a vector is: its magic does (see `dvcodec.paimon`). Vectors are adjacent, so the next
offset or the file's size gives the end of each, and thus the convention, without opening the file. If the records leave
gaps, the magic is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dvcodec.core.avro import AvroFile
from dvcodec.core.avro_columns import AvroValues, Path, read_columns
from dvcodec.core.errors import DecodeError, NotCanonical, Unsupported
from dvcodec.core.ragged import Flags, Index
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
from dvcodec.tables.columns import MOST_NUMBER, numbers_of
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata import Cache
from dvcodec.tables.metadata.json_fields import bare_name
from dvcodec.tables.model import DeletionVector, OnDemand, Record
from dvcodec.tables.snapshots.findings import Finding

VERSION = 2
ADD, DELETE = 0, 1


def _optional(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


_TEXTS = {"type": "array", "items": "string"}
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


Objects: TypeAlias = NDArray[np.object_]


class OtherFields(NamedTuple):
    """Fields of a data file that few have; see `DataFileMeta`, and the embedded index."""

    extra_files: tuple[str, ...] = ()
    embedded_index: object = None
    external_path: str | None = None
    write_cols: tuple[str, ...] | None = None
    unknown: tuple[str, ...] = ()


_NO_OTHERS = OtherFields()
_UNRECORDED = -(2**63)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Entries of manifests, by column: in each an array with a value for every entry.

    Attributes:
        manifests: files of manifests.
        deleted: which delete their files.
        partitions: serialized.
        buckets: int64.
        names: bare names of the files.
        sizes: int64; see `DataFileMeta`.
        rows: int64.
        schema_ids: int64.
        levels: int64.
        delete_rows: int64; see `or_none`.
        first_row_ids: int64; see `or_none`.
        others: `OtherFields`, None without any.
    """

    manifests: Objects
    deleted: Flags
    partitions: Objects
    buckets: Index
    names: Objects
    sizes: Index
    rows: Index
    schema_ids: Index
    levels: Index
    delete_rows: Index
    first_row_ids: Index
    others: Objects

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry]) -> Entries:
        """Return entries that were read one by one."""
        entries = list(entries)
        files = [entry.file for entry in entries]
        others = [
            OtherFields(file.extra_files, entry.identity[5], file.external_path, file.write_cols, file.unknown)
            for entry, file in zip(entries, files, strict=True)
        ]
        return cls(
            _objects([entry.manifest for entry in entries]),
            np.array([entry.deleted for entry in entries], np.bool_),
            _objects([file.partition for file in files]),
            _numbers(file.bucket for file in files),
            _objects([file.file_name for file in files]),
            _numbers(file.file_size for file in files),
            _numbers(file.row_count for file in files),
            _numbers(file.schema_id for file in files),
            _numbers(file.level for file in files),
            _numbers(file.delete_row_count for file in files),
            _numbers(file.first_row_id for file in files),
            _objects([None if one == _NO_OTHERS else one for one in others]),
        )

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Return the entries of several manifests, one after another."""
        if len(parts) < 2:
            return parts[0] if parts else cls.of(())
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))

    def take(self, numbers: Index) -> Entries:
        """Return some of them."""
        return Entries(*(getattr(self, one.name)[numbers] for one in fields(self)))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[ManifestEntry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> ManifestEntry:
        extra_files, index, external_path, write_cols, unknown = self.others[number] or _NO_OTHERS
        meta = DataFileMeta(
            self.partitions[number],
            int(self.buckets[number]),
            self.names[number],
            int(self.sizes[number]),
            int(self.rows[number]),
            int(self.schema_ids[number]),
            int(self.levels[number]),
            extra_files,
            or_none(self.delete_rows[number]),
            external_path,
            or_none(self.first_row_ids[number]),
            write_cols,
            unknown,
        )
        return ManifestEntry(self.manifests[number], bool(self.deleted[number]), identity_of(meta, index), meta)

    @property
    def unusual(self) -> list[int]:
        """The numbers of those that have `others`."""
        found: list[int] = np.flatnonzero(self.others).tolist()
        return found

    def identities(self) -> list[tuple[object, ...]]:
        """Return `ManifestEntry.identity` of each."""
        columns = (column.tolist() for column in (self.partitions, self.buckets, self.levels, self.names))
        found: list[tuple[object, ...]] = list(zip(*columns, repeat(()), repeat(None), repeat(None)))
        for number in self.unusual:
            found[number] = self[number].identity
        return found

    def live(self) -> Index:
        """Return the numbers of the entries of the live files, in the order in which they were added.

        Raises:
            NotCanonical: a file was added twice.
        """
        if not self.deleted.any() and len(set(self.names.tolist())) == len(self.names):
            return np.arange(len(self))
        identities = self.identities()
        deleted = {identities[number] for number in np.flatnonzero(self.deleted).tolist()}
        found: dict[tuple[object, ...], int] = {}
        for number, identity in enumerate(identities):
            if identity in deleted:
                continue
            if identity in found:
                expected = f"{self.names[number]!r:.80} added once"
                raise NotCanonical("_FILE", source=self.manifests[number], expected=expected, actual="twice")
            found[identity] = number
        return np.fromiter(found.values(), np.int64, len(found))

    def groups(self) -> tuple[Index, Index]:
        """Return a number for the partition and bucket of each, and the first entry of each such number."""
        codes: dict[bytes, int] = {}
        of_partition = np.array([codes.setdefault(one, len(codes)) for one in self.partitions.tolist()], np.int64)
        buckets, of_bucket = np.unique(self.buckets, return_inverse=True)
        both = of_partition * max(len(buckets), 1) + of_bucket
        _, firsts, numbers = np.unique(both, return_index=True, return_inverse=True)
        return numbers, firsts


def _objects(values: Sequence[object]) -> Objects:
    return np.fromiter(values, np.object_, len(values))


def _numbers(values: Iterable[int | None]) -> Index:
    return np.array([_UNRECORDED if one is None else one for one in values], np.int64)


def or_none(number: np.int64) -> int | None:
    """Return a number of a file that not all have."""
    return None if number == _UNRECORDED else int(number)


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
    identity = identity_of(meta, file.get("_EMBEDDED_FILE_INDEX"))
    return ManifestEntry(source, kind == DELETE, identity, meta)


def identity_of(file: DataFileMeta, index: object) -> tuple[object, ...]:
    """Return what entries of one file have in common, given its embedded index."""
    own = file.partition, file.bucket, file.level, file.file_name
    return (*own, file.extra_files, index, file.external_path)


_FILE = "_FILE"
_OF_ENTRY = ("_VERSION", "_KIND", "_PARTITION", "_BUCKET")
_NEEDED = ("_FILE_SIZE", "_ROW_COUNT", "_SCHEMA_ID", "_LEVEL")
_FEW_HAVE = ("_EMBEDDED_FILE_INDEX", "_EXTERNAL_PATH", "_WRITE_COLS")


def read_in_columns(file: AvroFile, manifest: str) -> Entries | None:
    """Return all entries of a manifest if they are as most are; None if each is to be read by itself.

    `read_entry` finds nothing wrong with such entries.
    """
    names = _field_types(_field_types(file.schema).get(_FILE)).keys()
    if not names or not names <= _KNOWN:
        return None
    known = [field["name"] for field in _FILE_FIELDS if field["name"] in names]
    paths: dict[str, Path] = {name: (name,) for name in _OF_ENTRY} | {name: (_FILE, name) for name in known}
    found = read_columns(file, (_FILE, "_FILE_NAME"), list(paths.values()))
    if found is None:
        return None
    columns = {name: found.columns[(_FILE, name) if name in names else (name,)] for name in paths}
    extra = columns["_EXTRA_FILES"].sizes
    usual = (
        (columns["_VERSION"].values == VERSION).all()
        and np.isin(columns["_KIND"].values, (ADD, DELETE)).all()
        and all(column.null_count == 0 for name, column in columns.items() if name in (*_OF_ENTRY, *_NEEDED))
        and all((columns[name].values >= 0).all() for name in _NEEDED)
        and all(columns[name].is_null.all() for name in _FEW_HAVE if name in columns)
        and extra is not None
        and (extra == 1).all()  # the end of an array, and nothing before it
    )
    if not usual:
        return None
    file_names = found.texts(columns["_FILE_NAME"])
    if not _are_bare(file_names):
        return None
    return Entries(
        np.full(found.count, manifest, np.object_),
        columns["_KIND"].values == DELETE,
        _objects(found.bytes_of(columns["_PARTITION"])),
        columns["_BUCKET"].values,
        _objects(file_names),
        columns["_FILE_SIZE"].values,
        columns["_ROW_COUNT"].values,
        columns["_SCHEMA_ID"].values,
        columns["_LEVEL"].values,
        _recorded(columns.get("_DELETE_ROW_COUNT"), found.count),
        _recorded(columns.get("_FIRST_ROW_ID"), found.count),
        np.full(found.count, None, np.object_),
    )


def _recorded(column: AvroValues | None, count: int) -> Index:
    """Return a column that few manifests have; see `or_none`."""
    if column is None:
        return np.full(count, _UNRECORDED)
    return np.where(column.is_null, _UNRECORDED, column.values)


def _field_types(kind: Any) -> dict[str, Any]:
    """Return the fields of a record type; none if it is another type, or if one of them has no name or no type."""
    fields = kind.get("fields") if isinstance(kind, dict) else None
    found: dict[str, Any] = {}
    for one in fields if isinstance(fields, list) else ():
        if not isinstance(one, dict) or not isinstance(one.get("name"), str) or "type" not in one:
            return {}
        found[one["name"]] = one["type"]
    return found


def _are_bare(names: Sequence[str]) -> bool:
    """Whether `bare_name` accepts all names."""
    text = "\n".join(names)
    odd = any(sign in text for sign in "/\\\0") or text.count("\n") >= len(names)
    return not odd and {"", ".", ".."}.isdisjoint(names)


_KEPT_ENTRIES = 500_000
"""Maximum number of cached entries, about 0.2 KB each: snapshots may list the same manifests by turns."""
_KEPT_VECTORS = 50_000
"""Maximum number of cached vectors, about 1 KB each: snapshots may have the same index manifest by turns."""
LIST = {
    "type": "record",
    "fields": [{"name": "_VERSION", "type": "int"}, {"name": "_FILE_NAME", "type": "string"}],
}
"""The used fields of a manifest list."""


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
        self._kept: Cache[str, Entries] = Cache(_KEPT_ENTRIES, len)
        self._lists: Cache[str, list[str]] = Cache(_KEPT_ENTRIES, lambda names: len(names) + 1)
        self._indexes: Cache[str, tuple[IndexManifestEntry, ...]] = Cache(_KEPT_VECTORS, _count_vectors)

    def listed(self, name: str) -> list[str]:
        """Return the bare names of the manifests that a list names; see `read_manifest_list`."""
        return self._lists.get(name, lambda: read_manifest_list(self._folder, name))

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Entries]]:
        """Yield manifests by name, in order; several are read concurrently if they are remote.

        Raises:
            DecodeError, OSError: see `read_manifest`.
        """

        def read(name: str) -> tuple[str, Entries]:
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


def read_manifest(folder: Folder, name: str) -> Entries:
    """Return a manifest's entries, in file order.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    stored = read_stored(folder, name, ENTRIES)
    found = None if stored.file is None else read_in_columns(stored.file, stored.source)
    return Entries.of(read_entry(record, stored.source) for record in stored.records) if found is None else found


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


# ---------------------------------------------------------------------- index files

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


class IndexVectors(OnDemand[DeletionVector]):
    """The vectors of an index file, in the manifest's order.

    Attributes:
        path: of the index file.
        location: where it can be opened.
        wide: which are 64-bit vectors.
        offsets: int64.
        sizes: int64, bytes of whole frames.
        cardinalities: see `VectorColumns`.
        file_sizes: int64.

    Args:
        entry: an entry of the index manifest; other kinds of index have none.
        folder: the table's.
        path: path of the index file, as `Layout.index_file` has it.
        data_file: returns `DataFile.path` for the bare name of a data file.
        bitmap64: table option ``deletion-vectors.bitmap64``, for vectors whose kind neither the metadata nor the file
            shows.
    """

    def __init__(
        self, entry: IndexManifestEntry, folder: Folder, path: str, data_file: Callable[[str], str], *, bitmap64: bool
    ) -> None:
        metas = (entry.vectors or ()) if entry.index_type == DELETION_VECTORS else ()
        location = folder.locate(path) if entry.index_type == DELETION_VECTORS else ""
        self.offsets = np.array([meta.offset for meta in metas], np.int64)
        lengths = np.array([meta.length for meta in metas], np.int64)
        wide = _are_wide(self.offsets, lengths, entry.file_size, location, folder.storage, bitmap64)
        sizes = np.where(wide, lengths, lengths + UNCOUNTED)
        self.path, self.location, self.wide, self.sizes = path, location, wide, sizes
        self.cardinalities = numbers_of(meta.cardinality for meta in metas)
        self.file_sizes = numbers_of([entry.file_size]).repeat(len(metas))
        names = [data_file(meta.data_file) for meta in metas]

        def make(number: int) -> DeletionVector:
            meta = metas[number]
            return DeletionVector(
                BITS64 if wide[number] else BITS32,
                names[number],
                path,
                location,
                meta.offset,
                int(sizes[number]),
                meta.cardinality,
                entry.file_size,
                entry.partition,
                bucket=entry.bucket,
                record=IndexedVector(meta, entry.row_count),
            )

        super().__init__(len(metas), make, names)


def _are_wide(offsets: Index, lengths: Index, file_size: int, location: str, storage: Storage, bitmap64: bool) -> Flags:
    """Return which vectors are 64-bit ones: by what is between them, by their magics, or by the table's option."""
    starts = np.unique(offsets)
    ends = np.append(starts[1:], min(file_size, MOST_NUMBER))[np.searchsorted(starts, offsets)]
    rooms = ends - offsets
    wide: Flags = rooms == lengths
    unknown = np.flatnonzero(~wide & (rooms != lengths + UNCOUNTED))
    if len(unknown):
        read = _kinds_by_magic(location, offsets[unknown].tolist(), storage)
        wide[unknown] = [read.get(one, BITS64 if bitmap64 else BITS32) == BITS64 for one in offsets[unknown].tolist()]
    return wide


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
