"""Manifest lists, manifests and index manifests: read, kept, and the entries of manifests by column.

Specification: Paimon's "Manifest"; Java classes ``ManifestList``, ``ManifestFile``, ``ManifestEntry`` and
``DataFileMeta``. All are files of records (see `dvcodec.paimon`) in ``manifest/``. A snapshot's base list and
delta list name manifests, whose entries add and delete data files: a file that is added and not deleted is live.
Entries belong to one file if they agree in partition, bucket, level, name, extra files, embedded index and external
path. They are read many at once if the manifest is Avro and each of its files is alone, in the table's folder, and has
all columns of its schema; else one by one, which finds what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

import numpy as np

from dvcodec.core.avro import AvroFile
from dvcodec.core.avro_columns import AvroValues, Path, read_columns
from dvcodec.core.errors import NotCanonical, Unsupported
from dvcodec.core.ragged import Flags, Index
from dvcodec.io.storage import run_bounded
from dvcodec.io.target import hide_values
from dvcodec.paimon import IndexManifestEntry, Records, read_index_manifest, read_records
from dvcodec.tables.folder import Folder
from dvcodec.tables.metadata.cache import Cache
from dvcodec.tables.metadata.json_fields import bare_name
from dvcodec.tables.model import Record

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


class OtherFields(NamedTuple):
    """Fields of a data file that few have; see `DataFileMeta`, and the embedded index."""

    extra_files: tuple[str, ...] = ()
    embedded_index: object = None
    external_path: str | None = None
    write_cols: tuple[str, ...] | None = None
    unknown: tuple[str, ...] = ()


_NO_OTHERS = OtherFields()
_COLUMNS = ("manifest_of", "deleted", "partition_of", "buckets", "sizes", "rows", "schema_ids", "levels")
"""The arrays of `Entries`."""


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Entries of manifests, by column.

    Attributes:
        manifests: files of manifests.
        manifest_of: int64, index in `manifests`.
        deleted: which delete their files.
        partitions: serialized.
        partition_of: int64, index in `partitions`.
        buckets: int64.
        names: bare names of the files.
        sizes: int64; see `DataFileMeta`.
        rows: int64.
        schema_ids: int64.
        levels: int64.
        delete_rows: null if not recorded.
        first_row_ids: null without row ids.
        others: by number.
    """

    manifests: Sequence[str]
    manifest_of: Index
    deleted: Flags
    partitions: Sequence[bytes]
    partition_of: Index
    buckets: Index
    names: Sequence[str]
    sizes: Index
    rows: Index
    schema_ids: Index
    levels: Index
    delete_rows: AvroValues
    first_row_ids: AvroValues
    others: Mapping[int, OtherFields] = field(default_factory=dict)

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
            [entry.manifest for entry in entries],
            np.arange(len(files)),
            np.array([entry.deleted for entry in entries], np.bool_),
            [file.partition for file in files],
            np.arange(len(files)),
            _numbers(file.bucket for file in files),
            [file.file_name for file in files],
            _numbers(file.file_size for file in files),
            _numbers(file.row_count for file in files),
            _numbers(file.schema_id for file in files),
            _numbers(file.level for file in files),
            _values([file.delete_row_count for file in files]),
            _values([file.first_row_id for file in files]),
            {number: one for number, one in enumerate(others) if one != _NO_OTHERS},
        )

    @classmethod
    def joined(cls, parts: Sequence[Entries]) -> Entries:
        """Return the entries of several manifests, one after another."""
        if len(parts) < 2:
            return parts[0] if parts else cls.of(())

        def listed(name: str) -> list[Any]:
            return list(chain.from_iterable(getattr(part, name) for part in parts))

        def firsts(name: str) -> Index:
            """Return where in `listed` the items begin that the numbers of each entry refer to."""
            counts = [len(getattr(part, name)) for part in parts]
            return np.repeat(np.cumsum([0, *counts[:-1]]), list(map(len, parts)))

        def recorded(name: str) -> AvroValues:
            columns: list[AvroValues] = [getattr(part, name) for part in parts]
            values = np.concatenate([column.values for column in columns])
            return AvroValues(values, valid=~np.concatenate([column.is_null for column in columns]))

        columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
        columns["manifest_of"] += firsts("manifests")
        columns["partition_of"] += firsts("partitions")
        starts = accumulate(map(len, parts), initial=0)
        return cls(
            manifests=listed("manifests"),
            partitions=listed("partitions"),
            names=listed("names"),
            delete_rows=recorded("delete_rows"),
            first_row_ids=recorded("first_row_ids"),
            others={
                start + number: one
                for start, part in zip(starts, parts, strict=False)
                for number, one in part.others.items()
            },
            **columns,
        )

    def take(self, numbers: Index) -> Entries:
        """Return some of them."""
        places = numbers.tolist()
        return replace(
            self,
            names=[self.names[number] for number in places],
            delete_rows=self.delete_rows.take(numbers),
            first_row_ids=self.first_row_ids.take(numbers),
            others={place: self.others[number] for place, number in enumerate(places) if number in self.others},
            **{name: getattr(self, name)[numbers] for name in _COLUMNS},
        )

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[ManifestEntry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, number: int) -> ManifestEntry:
        extra_files, index, external_path, write_cols, unknown = self.others.get(number, _NO_OTHERS)
        meta = DataFileMeta(
            self.partitions[int(self.partition_of[number])],
            int(self.buckets[number]),
            self.names[number],
            int(self.sizes[number]),
            int(self.rows[number]),
            int(self.schema_ids[number]),
            int(self.levels[number]),
            extra_files,
            self.delete_rows[number],
            external_path,
            self.first_row_ids[number],
            write_cols,
            unknown,
        )
        return ManifestEntry(
            self.manifests[int(self.manifest_of[number])], bool(self.deleted[number]), identity_of(meta, index), meta
        )

    def identities(self) -> list[tuple[object, ...]]:
        """Return `ManifestEntry.identity` of each."""
        partitions = [self.partitions[code] for code in self.partition_of.tolist()]
        columns = (partitions, self.buckets.tolist(), self.levels.tolist(), self.names)
        found: list[tuple[object, ...]] = list(zip(*columns, repeat(()), repeat(None), repeat(None)))
        for number in self.others:
            found[number] = self[number].identity
        return found

    def live(self) -> Index:
        """Return the numbers of the entries of the live files, in the order in which they were added.

        Raises:
            NotCanonical: a file was added twice.
        """
        if not self.deleted.any() and len(set(self.names)) == len(self.names):
            return np.arange(len(self))
        identities = self.identities()
        deleted = {identities[number] for number in np.flatnonzero(self.deleted).tolist()}
        found: dict[tuple[object, ...], int] = {}
        for number, identity in enumerate(identities):
            if identity in deleted:
                continue
            if identity in found:
                expected = f"{self.names[number]!r:.80} added once"
                raise NotCanonical("_FILE", source=self[number].manifest, expected=expected, actual="twice")
            found[identity] = number
        return np.fromiter(found.values(), np.int64, len(found))

    def groups(self) -> tuple[Index, Index]:
        """Return a number for the partition and bucket of each, and the first entry of each such number."""
        codes: dict[bytes, int] = {}
        of_partition = np.array([codes.setdefault(one, len(codes)) for one in self.partitions], np.int64)
        buckets, of_bucket = np.unique(self.buckets, return_inverse=True)
        both = of_partition[self.partition_of] * max(len(buckets), 1) + of_bucket
        _, firsts, numbers = np.unique(both, return_index=True, return_inverse=True)
        return numbers, firsts


def _numbers(values: Iterable[int]) -> Index:
    return np.array(list(values), np.int64)


def _values(numbers: Sequence[int | None]) -> AvroValues:
    valid = np.array([one is not None for one in numbers], np.bool_)
    return AvroValues(np.array([one or 0 for one in numbers], np.int64), valid=valid)


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
    partitions = found.bytes_of(columns["_PARTITION"])
    codes = {one: code for code, one in enumerate(dict.fromkeys(partitions))}
    none = _values([None] * found.count)
    return Entries(
        [manifest],
        np.zeros(found.count, np.int64),
        columns["_KIND"].values == DELETE,
        list(codes),
        np.array([codes[one] for one in partitions], np.int64),
        columns["_BUCKET"].values,
        file_names,
        columns["_FILE_SIZE"].values,
        columns["_ROW_COUNT"].values,
        columns["_SCHEMA_ID"].values,
        columns["_LEVEL"].values,
        columns.get("_DELETE_ROW_COUNT", none),
        columns.get("_FIRST_ROW_ID", none),
    )


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
