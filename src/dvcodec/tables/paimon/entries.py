"""Entries of manifests, the data files that they add and delete, by column.

Specification: Paimon's "Manifest"; Java classes ``ManifestEntry`` and ``DataFileMeta``. Entries belong to one file if
they agree in partition, bucket, level, name, extra files, embedded index and external path. Entries are read many at
once if the manifest is Avro and each of its files is alone, in the table's folder, and has all columns of its schema;
else one by one, which finds what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple, overload

import numpy as np

from dvcodec.core.avro import AvroFile
from dvcodec.core.avro_columns import AvroValues, Path, read_columns
from dvcodec.core.errors import NotCanonical
from dvcodec.core.ragged import Flags, Index
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


@dataclass(frozen=True, slots=True, eq=False)
class Entries(Sequence[ManifestEntry]):
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
        if len(parts) == 1:
            return parts[0]
        none = np.zeros(0, np.int64)
        firsts = np.cumsum([0, *map(len, parts)]).tolist()
        partitions = np.cumsum([0, *(len(part.partitions) for part in parts)]).tolist()
        manifests = np.cumsum([0, *(len(part.manifests) for part in parts)]).tolist()

        def numbers(name: str) -> Index:
            return np.concatenate([none, *(getattr(part, name) for part in parts)])

        def recorded(name: str) -> AvroValues:
            columns: list[AvroValues] = [getattr(part, name) for part in parts]
            values = np.concatenate([none, *(column.values for column in columns)])
            return AvroValues(values, valid=~np.concatenate([none == 0, *(column.is_null for column in columns)]))

        return cls(
            [one for part in parts for one in part.manifests],
            _shifted([part.manifest_of for part in parts], manifests),
            np.concatenate([none == 0, *(part.deleted for part in parts)]),
            [one for part in parts for one in part.partitions],
            _shifted([part.partition_of for part in parts], partitions),
            numbers("buckets"),
            [name for part in parts for name in part.names],
            numbers("sizes"),
            numbers("rows"),
            numbers("schema_ids"),
            numbers("levels"),
            recorded("delete_rows"),
            recorded("first_row_ids"),
            {
                first + number: one
                for first, part in zip(firsts, parts, strict=False)
                for number, one in part.others.items()
            },
        )

    def take(self, numbers: Index) -> Entries:
        """Return some of them."""
        places = numbers.tolist()
        return Entries(
            self.manifests,
            self.manifest_of[numbers],
            self.deleted[numbers],
            self.partitions,
            self.partition_of[numbers],
            self.buckets[numbers],
            [self.names[number] for number in places],
            self.sizes[numbers],
            self.rows[numbers],
            self.schema_ids[numbers],
            self.levels[numbers],
            self.delete_rows.take(numbers),
            self.first_row_ids.take(numbers),
            {place: self.others[number] for place, number in enumerate(places) if number in self.others},
        )

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, number: int) -> ManifestEntry: ...

    @overload
    def __getitem__(self, number: slice) -> list[ManifestEntry]: ...

    def __getitem__(self, number: int | slice) -> ManifestEntry | list[ManifestEntry]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        number = range(len(self))[number]
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


def _shifted(parts: Sequence[Index], by: Sequence[int]) -> Index:
    return np.concatenate([np.zeros(0, np.int64), *(part + first for part, first in zip(parts, by, strict=False))])


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
