"""Manifest lists, the live files of a manifest by column, the values that are made of them, and the Avro schemas.

Specification: Iceberg table spec, "Snapshots" (manifest lists) and "Manifests", of versions 1 to 3. Sequence numbers
and snapshot ids that were unknown before the commit are null and inherited from the manifest ("Sequence Number
Inheritance"). Column statistics are not kept. Entries are read many at once if they are as engines write them, else one
by one, which finds what is wrong. The schemas are the columns "v3" there, with the names of records that Iceberg Java
writes.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from sys import intern
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from dvcodec.core.avro import AvroFile
from dvcodec.core.avro_columns import AvroColumns, AvroPairs, AvroValues, Path, read_columns
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, Unsupported, UsageError
from dvcodec.core.ragged import Index
from dvcodec.io import Storage
from dvcodec.io.target import place_keys
from dvcodec.tables.columns import recorded
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.schema import Partition, PartitionReader
from dvcodec.tables.metadata.avro_fields import (
    INTEGERS,
    AvroColumn,
    FoundField,
    fail,
    open_avro,
    partition_names,
    select,
)
from dvcodec.tables.metadata.json_fields import is_path
from dvcodec.tables.model import DataFile, DeletionVector, OnDemand, Record

PARTITION = "partition"
"""The field of a file whose type depends on the partition spec."""
_FROM_3 = frozenset({142, 144, 145, 520})
"""Field ids of what version 3 added: first row ids, and the byte ranges of vectors."""
OBSOLETE = frozenset({105, 106, 107, 111})
"""Field ids of ``block_size_in_bytes``, ``file_ordinal``, ``sort_columns`` and ``distinct_counts``: fields of files
that older versions had and that writers of version 3 leave out."""


def _required(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    """Return the type of a map from field ids, an array of records."""
    record = _record(f"k{key}_v{value}", _required(key, "key", "int"), _required(value, "value", kind))
    return {"type": "array", "items": record, "logicalType": "map"}


def _list(element: int, kind: str) -> dict[str, Any]:
    return {"type": "array", "items": kind, "element-id": element}


UNPARTITIONED: Mapping[str, Any] = _record("r102")
"""Avro type of the partition of files without partition fields."""
_FILE: list[dict[str, Any]] = [
    _required(134, "content", "int"),
    _required(100, "file_path", "string"),
    _required(101, "file_format", "string"),
    _required(102, PARTITION, UNPARTITIONED),
    _required(103, "record_count", "long"),
    _required(104, "file_size_in_bytes", "long"),
    _optional(108, "column_sizes", _map(117, 118, "long")),
    _optional(109, "value_counts", _map(119, 120, "long")),
    _optional(110, "null_value_counts", _map(121, 122, "long")),
    _optional(137, "nan_value_counts", _map(138, 139, "long")),
    _optional(125, "lower_bounds", _map(126, 127, "bytes")),
    _optional(128, "upper_bounds", _map(129, 130, "bytes")),
    _optional(131, "key_metadata", "bytes"),
    _optional(132, "split_offsets", _list(133, "long")),
    _optional(135, "equality_ids", _list(136, "int")),
    _optional(140, "sort_order_id", "int"),
    _optional(142, "first_row_id", "long"),
    _optional(143, "referenced_data_file", "string"),
    _optional(144, "content_offset", "long"),
    _optional(145, "content_size_in_bytes", "long"),
]
_ENTRY: list[dict[str, Any]] = [
    _required(0, "status", "int"),
    _optional(1, "snapshot_id", "long"),
    _optional(3, "sequence_number", "long"),
    _optional(4, "file_sequence_number", "long"),
    _required(2, "data_file", _record("r2")),
]
_SUMMARY = _record(
    "r508",
    _required(509, "contains_null", "boolean"),
    _optional(518, "contains_nan", "boolean"),
    _optional(510, "lower_bound", "bytes"),
    _optional(511, "upper_bound", "bytes"),
)
_LIST = _record(
    "manifest_file",
    _required(500, "manifest_path", "string"),
    _required(501, "manifest_length", "long"),
    _required(502, "partition_spec_id", "int"),
    _required(517, "content", "int"),
    _required(515, "sequence_number", "long"),
    _required(516, "min_sequence_number", "long"),
    _required(503, "added_snapshot_id", "long"),
    _required(504, "added_files_count", "int"),
    _required(505, "existing_files_count", "int"),
    _required(506, "deleted_files_count", "int"),
    _required(512, "added_rows_count", "long"),
    _required(513, "existing_rows_count", "long"),
    _required(514, "deleted_rows_count", "long"),
    _optional(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
    _optional(519, "key_metadata", "bytes"),
    _optional(520, "first_row_id", "long"),
)


def entry_schema(partition: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the schema of manifest entries.

    Args:
        partition: the record type of the partition spec's fields.
        version: format version of the table.
    """
    known = _of_version(_FILE, version)
    record = _record("r2", *(one | {"type": partition} if one["name"] == PARTITION else one for one in known))
    fields = (one | {"type": record} if one["name"] == "data_file" else one for one in _ENTRY)
    return _record("manifest_entry", *fields)


def list_schema(version: int) -> dict[str, Any]:
    """Return the schema of manifest lists of a format version."""
    return _LIST | {"fields": _of_version(_LIST["fields"], version)}


def _of_version(fields: list[dict[str, Any]], version: int) -> list[dict[str, Any]]:
    return [field for field in fields if version >= 3 or field["field-id"] not in _FROM_3]


def _columns(fields: list[dict[str, Any]], *required: str) -> tuple[AvroColumn, ...]:
    """Return these fields as columns to look for in files of any version."""
    return tuple(
        AvroColumn(field["name"], field["field-id"], _types(field["type"]), field["name"] in required)
        for field in fields
    )


def _types(kind: Any) -> tuple[str, ...]:
    kind = kind[1] if isinstance(kind, list) else kind
    name = kind["type"] if isinstance(kind, dict) else kind
    return INTEGERS if name in INTEGERS else (name,)


ENTRY_COLUMNS = _columns(_ENTRY, "status", "data_file")
"""Fields of an entry, to be found by their ids in manifests of any version."""
FILE_COLUMNS = _columns(_FILE, "file_path", "file_format", PARTITION, "record_count", "file_size_in_bytes")
"""Fields of a file."""
LIST_COLUMNS = _columns(_LIST["fields"], "manifest_path", "manifest_length", "partition_spec_id")
"""Fields of a manifest list."""


def chosen(columns: Iterable[AvroColumn], *names: str) -> tuple[AvroColumn, ...]:
    """Return the columns of these names, in this order."""
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in names)


DATA, DELETES = 0, 1
"""Content of a manifest."""
POSITION_DELETES, EQUALITY_DELETES = 1, 2
"""Content of a delete file; other files have `DATA`."""
EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry."""
PUFFIN = "puffin"
BOUNDS = ("lower_bounds", "upper_bounds")
FILE_PATH_ID = 2147483546
"""Field id of the column of position deletes that names the data file."""


_REQUIRED = ("file_format", PARTITION, "record_count", "file_size_in_bytes")
_READ_OF_FILE = (
    *chosen(FILE_COLUMNS, "content", "file_path", *_REQUIRED),
    *chosen(FILE_COLUMNS, *BOUNDS, "equality_ids", "key_metadata"),
    *chosen(FILE_COLUMNS, "referenced_data_file", "content_offset", "content_size_in_bytes"),
)
_IN_COLUMNS = (
    *("status", "snapshot_id", "sequence_number", "content", "file_path", *_REQUIRED),
    *("key_metadata", "referenced_data_file", "content_offset", "content_size_in_bytes"),
)
"""What the files of most manifests are made of."""


_LIST_COLUMNS = (
    *chosen(LIST_COLUMNS, "manifest_path", "partition_spec_id", "content"),
    *chosen(LIST_COLUMNS, "sequence_number", "added_snapshot_id", "key_metadata"),
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest, as a manifest list records it.

    Attributes:
        path: as recorded.
        location: where it can be opened.
        spec_id: partition spec of its files.
        content: `DATA` or `DELETES`.
        sequence_number: inherited by its added entries; 0 in version 1.
        snapshot_id: inherited by its entries; None if the list does not record it.
        encrypted: whether a key is needed.
    """

    path: str
    location: str
    spec_id: int
    content: int
    sequence_number: int
    snapshot_id: int | None
    encrypted: bool


def read_list(location: str, locate: Callable[[str], str], storage: Storage) -> list[Manifest]:
    """Read a manifest list.

    Args:
        location: where it can be opened.
        locate: returns where a recorded path can be opened.
        storage: opens it.

    Raises:
        DecodeError: the file is corrupt, or names a manifest twice.
        OSError: it cannot be read.
    """
    manifests: dict[str, Manifest] = {}
    with open_avro(location, storage) as (file, cursor):
        fields = select(file.schema, _LIST_COLUMNS, "manifest list", cursor)
        for i, record in enumerate(file.records()):
            manifest = _manifest(record, fields, f"manifest {i}", locate, cursor)
            if manifest.path in manifests:
                fail(cursor, f"manifest_path of manifest {i}", "each manifest once", f"{manifest.path} twice")
            manifests[manifest.path] = manifest
        found = list(manifests.values())
        keys = place_keys([manifest.location for manifest in found])
        if len(set(keys)) < len(keys):
            twice = next(path for path, count in Counter(keys).items() if count > 1)
            fail(cursor, "manifest_path", "each manifest once", f"{twice} in several spellings")
    return found


def _manifest(
    record: Mapping[Any, Any],
    fields: Mapping[str, FoundField],
    where: str,
    locate: Callable[[str], str],
    cursor: Cursor,
) -> Manifest:
    found = {name: record[field.name] for name, field in fields.items()}
    path = found["manifest_path"]
    if path is None or not is_path(path):
        fail(cursor, f"manifest_path of {where}", "a path", repr(path)[:80])
    if found["partition_spec_id"] is None:
        fail(cursor, f"partition_spec_id of {where}", "a number", "nothing")
    content = found.get("content") or DATA
    if content not in (DATA, DELETES):
        raise cursor.error(Unsupported, f"content of {where}", at=0, expected="0 (data), 1 (deletes)", actual=content)
    return Manifest(
        path,
        locate(path),
        found["partition_spec_id"],
        content,
        found.get("sequence_number") or 0,
        found.get("added_snapshot_id"),
        found.get("key_metadata") is not None,
    )


@dataclass(frozen=True, slots=True)
class ManifestEntry(Record):
    """What an entry of a manifest records of a data file or of deletes.

    Attributes:
        manifest: path of the manifest, as the list spells it.
        status: 0 for a file of an earlier snapshot, 1 for one that `snapshot_id` added.
        snapshot_id: the snapshot that added the file; None if not recorded.
        partition: partition of the file.
        file_format: ``parquet``, ``avro``, ``orc``, ``puffin``, or another word, in lower case.
        key_metadata: key metadata of an encrypted file.
    """

    manifest: str
    status: int
    snapshot_id: int | None
    partition: Partition
    file_format: str
    key_metadata: bytes | None = None

    @property
    def is_plain_parquet(self) -> bool:
        """Whether it is a Parquet file without encryption."""
        return self.file_format == "parquet" and self.key_metadata is None


class EqualityDeletes(NamedTuple):
    """A file of equality deletes, which apply to older data files.

    Attributes:
        file: what its entry records of it.
        equality_ids: field ids of the columns that are compared.
    """

    file: DataFile
    equality_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """What the live entries of a manifest record of files of any kind, by column.

    Attributes:
        manifest: that has them.
        locate: returns where a path can be opened.
        paths: of the files.
        status: see `ManifestEntry`.
        snapshot_ids: null if inherited.
        sequence_numbers: int64, data sequence numbers.
        rows: int64, as recorded.
        sizes: int64, bytes of the files; negative if unknown, as in Paimon's Iceberg metadata.
        formats: in lower case.
        partitions: some of which may be equal.
        partition_of: int64, index in `partitions`.
        keys: key metadata of encrypted files, by number.
    """

    manifest: Manifest
    locate: Callable[[str], str]
    paths: Sequence[str]
    status: Index
    snapshot_ids: AvroValues
    sequence_numbers: Index
    rows: Index
    sizes: Index
    formats: Sequence[str]
    partitions: Sequence[Partition]
    partition_of: Index
    keys: Mapping[int, bytes] = field(default_factory=dict)

    def take(self, numbers: Index) -> Entries:
        """Return some of them."""
        places = numbers.tolist()
        return replace(
            self,
            paths=[self.paths[number] for number in places],
            status=self.status[numbers],
            snapshot_ids=self.snapshot_ids.take(numbers),
            sequence_numbers=self.sequence_numbers[numbers],
            rows=self.rows[numbers],
            sizes=self.sizes[numbers],
            formats=[self.formats[number] for number in places],
            partition_of=self.partition_of[numbers],
            keys={place: self.keys[number] for place, number in enumerate(places) if number in self.keys},
        )

    def partition(self, number: int) -> Partition:
        """Return the partition of a file."""
        return self.partitions[int(self.partition_of[number])]

    def size(self, number: int) -> int | None:
        """Return the bytes of a file, None if unknown."""
        size = int(self.sizes[number])
        return size if size >= 0 else None

    def record(self, number: int) -> ManifestEntry:
        """Return what the format alone records of a file."""
        own = self.snapshot_ids[number]
        return ManifestEntry(
            self.manifest.path,
            int(self.status[number]),
            self.manifest.snapshot_id if own is None else own,
            self.partition(number),
            self.formats[number],
            self.keys.get(number),
        )


class DataFiles(OnDemand[DataFile]):
    """The data files of a manifest.

    Attributes:
        entries: what is recorded of them.
        rows: see `FileColumns`.
        sizes: see `FileColumns`.
    """

    equality: tuple[EqualityDeletes, ...] = ()

    def __init__(self, entries: Entries) -> None:
        super().__init__(len(entries.paths), partial(_data_file, entries), entries.paths)
        self.entries = entries
        self.rows = recorded(entries.rows)
        self.sizes = recorded(entries.sizes, entries.sizes >= 0)

    def take(self, numbers: Index) -> DataFiles:
        """Return some of them."""
        return DataFiles(self.entries.take(numbers))

    def compared(self) -> list[tuple[Hashable, ...]]:
        """Return what data files are compared by, the path first."""
        entries = self.entries
        labels = [partition.label for partition in entries.partitions]
        columns = entries.rows.tolist(), entries.sizes.tolist(), [labels[one] for one in entries.partition_of.tolist()]
        return list(zip(entries.paths, *columns, strict=True))


def _data_file(entries: Entries, number: int) -> DataFile:
    path, partition = entries.paths[number], entries.partition(number)
    return DataFile(
        path,
        entries.locate(path),
        int(entries.rows[number]),
        entries.size(number),
        partition.label,
        partition.typed,
        partition,
        int(entries.sequence_numbers[number]),
        file_format=entries.formats[number],
        record=entries.record(number),
    )


class Deletes(OnDemand[DeletionVector]):
    """The vectors and the position deletes of a manifest; `paths` has the only data file of each, None if any.

    Attributes:
        entries: what is recorded of them.
        bitmaps: which are vectors.
        offsets: see `VectorColumns`.
        sizes: see `VectorColumns`.
        cardinalities: see `VectorColumns`.
        file_sizes: see `VectorColumns`.
        equality: equality deletes of the manifest.

    Args:
        entries: what is recorded of them.
        data_files: the only data file of each; None if there may be several.
        offsets: of vectors, as recorded.
        sizes: of vectors, as recorded.
        equality: equality deletes of the manifest.
    """

    def __init__(
        self,
        entries: Entries,
        data_files: Sequence[str | None],
        offsets: AvroValues,
        sizes: AvroValues,
        equality: tuple[EqualityDeletes, ...] = (),
    ) -> None:
        super().__init__(len(data_files), partial(_vector, entries, data_files, offsets, sizes), data_files)
        self.entries, self._recorded, self.equality = entries, (offsets, sizes), equality
        self.bitmaps = np.array([one == PUFFIN for one in entries.formats], np.bool_)
        self.file_sizes = recorded(entries.sizes, entries.sizes >= 0)
        self.sizes = np.where(self.bitmaps, recorded(sizes.values, ~sizes.is_null), self.file_sizes)
        self.offsets = recorded(offsets.values, self.bitmaps & ~offsets.is_null)
        self.cardinalities = recorded(entries.rows)

    def take(self, numbers: Index, equality: tuple[EqualityDeletes, ...] = ()) -> Deletes:
        """Return some of them, and these equality deletes."""
        named = [self.paths[number] for number in numbers.tolist()]
        offsets, sizes = (one.take(numbers) for one in self._recorded)
        return Deletes(self.entries.take(numbers), named, offsets, sizes, equality)

    def compared(self) -> list[tuple[Hashable, ...]]:
        """Return what they are compared by, the data file first."""
        entries = self.entries
        numbers = (*(one.values for one in self._recorded), *(one.is_null for one in self._recorded))
        others = (entries.rows, entries.sizes, entries.sequence_numbers)
        columns = (one.tolist() for one in (*numbers, *others))
        return list(zip(self.paths, entries.formats, entries.paths, *columns, strict=True))


def _vector(
    entries: Entries, data_files: Sequence[str | None], offsets: AvroValues, sizes: AvroValues, number: int
) -> DeletionVector:
    path, is_bitmap = entries.paths[number], entries.formats[number] == PUFFIN
    return DeletionVector(
        "iceberg" if is_bitmap else "position-deletes",
        data_files[number],
        path,
        entries.locate(path),
        offsets[number] if is_bitmap else None,
        sizes[number] if is_bitmap else entries.size(number),
        int(entries.rows[number]),
        entries.size(number),
        entries.partition(number),
        int(entries.sequence_numbers[number]),
        record=entries.record(number),
    )


ManifestFiles: TypeAlias = DataFiles | Deletes
"""What a manifest lists."""


def read_manifest(
    manifest: Manifest,
    fields: tuple[PartitionField, ...],
    locate: Callable[[str], str],
    storage: Storage,
    are_inside: Callable[[Sequence[str]], bool] = lambda _: False,
) -> ManifestFiles:
    """Read the live files of a manifest: entries of status deleted were removed by the commit.

    Args:
        manifest: from the list.
        fields: fields of its partition spec.
        locate: returns where a recorded path can be opened.
        storage: opens it.
        are_inside: whether paths are all in the table's folder, so that `locate` refuses none of them.

    Raises:
        DecodeError: the file is corrupt.
        Unsupported: it is encrypted.
        OSError: it cannot be read.
    """
    if manifest.encrypted:
        raise Unsupported("manifest", source=manifest.location, expected="no encryption", actual="key_metadata")
    with open_avro(manifest.location, storage) as (file, cursor):
        reader = _EntryReader(manifest, fields, file.schema, locate, cursor)
        found = reader.in_columns(file, are_inside)
        return reader.one_by_one(file) if found is None else found


_LISTED = (
    *("path", "status", "snapshot_id", "sequence_number", "rows", "size", "file_format", "partition", "key"),
    *("equality_ids", "data_file", "offset", "length"),
)
"""What an entry records of a live file; see `Entries`, and `Deletes`."""


class _EntryReader:
    """Reads the entries of one manifest."""

    def __init__(
        self,
        manifest: Manifest,
        fields: tuple[PartitionField, ...],
        schema: Any,
        locate: Callable[[str], str],
        cursor: Cursor,
    ) -> None:
        self._manifest = manifest
        self._cursor = cursor
        self._locate = lru_cache(1)(locate)  # one file may hold the vectors of thousands of entries
        entry = select(schema, ENTRY_COLUMNS, "manifest entry", cursor)
        columns = select(entry["data_file"].type, _READ_OF_FILE, "data_file", cursor)
        self._places: dict[str, Path] = {name: (field.name,) for name, field in entry.items()}
        self._places |= {name: (entry["data_file"].name, field.name) for name, field in columns.items()}
        self._partition_type = columns[PARTITION].type
        self._entry, self._columns = entry, columns
        self._partitions = PartitionReader(manifest.spec_id, fields, partition_names(self._partition_type, cursor))

    def one_by_one(self, file: AvroFile) -> ManifestFiles:
        """Return the files of all entries, each checked by itself."""
        read = (self._read(record, number) for number, record in enumerate(file.records()))
        found = [one for one in read if one is not None]
        columns = zip(*found, strict=True) if found else [()] * len(_LISTED)
        of = dict(zip(_LISTED, columns, strict=True))
        entries = Entries(
            self._manifest,
            self._locate,
            of["path"],
            np.array(of["status"], np.int64),
            _values(of["snapshot_id"]),
            np.array(of["sequence_number"], np.int64),
            np.array(of["rows"], np.int64),
            np.array(of["size"], np.int64),
            of["file_format"],
            of["partition"],
            np.arange(len(found)),
            {number: key for number, key in enumerate(of["key"]) if key is not None},
        )
        if self._manifest.content == DATA:
            return DataFiles(entries)
        ids = of["equality_ids"]
        vectors = np.array([number for number, one in enumerate(ids) if one is None], np.int64)
        equality = tuple(
            EqualityDeletes(_data_file(entries, number), one) for number, one in enumerate(ids) if one is not None
        )
        deletes = Deletes(entries, of["data_file"], _values(of["offset"]), _values(of["length"]))
        return deletes.take(vectors, equality)

    def _read(self, record: Mapping[Any, Any], number: int) -> tuple[Any, ...] | None:
        """Return the file of an entry as `_LISTED` has it, None if its status is deleted."""
        entry = {name: record[field.name] for name, field in self._entry.items()}
        status, stored = entry["status"], entry["data_file"]
        if status == DELETED:
            return None
        if status not in (EXISTING, ADDED) or stored is None:
            self._fail("status", f"entry {number}", "0 (existing), 1 (added), 2 (deleted)", status)
        found = {name: stored[field.name] for name, field in self._columns.items()}
        path = found["file_path"]
        if path is None or not is_path(path):
            self._fail("file_path", f"entry {number}", "a path", repr(path)[:80])
        for name in _REQUIRED:
            if found[name] is None:
                self._fail(name, path, "a value", "nothing")
        content, of_data = found.get("content") or DATA, self._manifest.content == DATA
        if content not in ((DATA,) if of_data else (POSITION_DELETES, EQUALITY_DELETES)):
            self._fail("content", path, f"a manifest of {'data' if of_data else 'delete'} files", content)
        sequence_number = entry.get("sequence_number")
        if sequence_number is None:
            sequence_number = self._manifest.sequence_number
            if status != ADDED and sequence_number:
                self._fail("sequence_number", path, "a number, for an entry that is not new", "nothing")
        partition = self._partitions.read(found[PARTITION])
        if of_data and found["record_count"] < 0:
            self._fail("record_count", path, "0 or more", found["record_count"])
        self._locate(path)  # its errors are those of the manifest
        file_format = intern(found["file_format"].lower())
        is_bitmap = file_format == PUFFIN
        return (
            path,
            status,
            entry.get("snapshot_id"),
            sequence_number,
            found["record_count"],
            found["file_size_in_bytes"],
            file_format,
            partition,
            found.get("key_metadata"),
            tuple(found.get("equality_ids") or ()) if content == EQUALITY_DELETES else None,
            found.get("referenced_data_file") if is_bitmap else _only_data_file(found),
            found.get("content_offset"),
            found.get("content_size_in_bytes"),
        )

    def in_columns(self, file: AvroFile, are_inside: Callable[[Sequence[str]], bool]) -> ManifestFiles | None:
        """Return the files of all entries if these are as engines write them; None if each is to be read by itself.

        `_read` finds nothing wrong with such entries. Equality deletes, and keys, are left to it.
        """
        places = self._places
        maps = [places[name] for name in BOUNDS if name in places] if self._manifest.content == DELETES else []
        wanted = [places[name] for name in _IN_COLUMNS if name in places]
        found = read_columns(file, places["file_path"], wanted, maps)
        if found is None:
            return None
        columns = {name: found.columns[place] for name, place in places.items() if place in found.columns}
        status = columns["status"]
        live = np.flatnonzero(status.values != DELETED)
        rows = np.full(found.count, -1)
        rows[live] = np.arange(len(live))
        columns = {name: column.take(live) for name, column in columns.items()}
        numbers = None if status.null_count else self._usual_numbers(columns)
        if numbers is None:
            return None
        try:
            paths, formats = found.texts(columns["file_path"]), found.texts(columns["file_format"])
            if not are_inside(paths):
                for path in dict.fromkeys(paths):
                    if not is_path(path):
                        return None
                    self._locate(path)
            structs = found.bytes_of(columns[PARTITION])
            codes = {one: code for code, one in enumerate(dict.fromkeys(structs))}
            reader = file.reader(self._partition_type)
            partitions = [self._partitions.read(reader(io.BytesIO(one))) for one in codes]
        except (DecodeError, UsageError):  # as a field of an entry that is read by itself
            return None
        lower = {one: intern(one.lower()) for one in dict.fromkeys(formats)}
        none = _values([None] * len(paths))
        entries = Entries(
            self._manifest,
            self._locate,
            paths,
            columns["status"].values,
            columns.get("snapshot_id", none),
            numbers,
            columns["record_count"].values,
            columns["file_size_in_bytes"].values,
            [lower[one] for one in formats],
            partitions,
            np.array([codes[one] for one in structs], np.int64),
        )
        if self._manifest.content == DATA:
            return DataFiles(entries)
        bounds = [found.pairs[place].of_key(FILE_PATH_ID).of_rows(rows) for place in maps]
        data_files = _data_files(found, columns.get("referenced_data_file"), bounds, entries.formats)
        offsets, lengths = (columns.get(name, none) for name in ("content_offset", "content_size_in_bytes"))
        return Deletes(entries, data_files, offsets, lengths)

    def _usual_numbers(self, columns: Mapping[str, AvroValues]) -> Index | None:
        """Return the sequence numbers of files if all their numbers are valid, else None.

        Args:
            columns: of the live files.
        """
        status, rows = columns["status"].values, columns["record_count"]
        of_data = self._manifest.content == DATA
        content, keys = columns.get("content"), columns.get("key_metadata")
        stated = np.zeros(len(status), np.int64) if content is None else np.where(content.is_null, DATA, content.values)
        lacks = any(columns[name].null_count for name in ("file_path", *_REQUIRED))
        if lacks or not np.isin(status, (EXISTING, ADDED)).all():
            return None
        if (stated != (DATA if of_data else POSITION_DELETES)).any() or (of_data and (rows.values < 0).any()):
            return None
        if keys is not None and keys.null_count < len(status):
            return None
        own = columns.get("sequence_number")
        inherited = self._manifest.sequence_number
        if own is None:
            own = _values([None] * len(status))
        if inherited and (own.is_null & (status != ADDED)).any():
            return None
        return np.where(own.is_null, inherited, own.values)

    def _fail(self, name: str, where: str, expected: object, actual: object) -> NoReturn:
        fail(self._cursor, f"{name} of {where}", expected, actual)


def _values(numbers: Sequence[int | None]) -> AvroValues:
    """Return a field of all records."""
    valid = np.array([one is not None for one in numbers], np.bool_)
    return AvroValues(np.array([one or 0 for one in numbers], np.int64), valid=valid)


def _data_files(
    found: AvroColumns, named: AvroValues | None, bounds: Sequence[AvroPairs], formats: Sequence[str]
) -> list[str | None]:
    """Return the only data file of each file of deletes; None for position deletes that may be for several.

    Args:
        found: the entries.
        named: the data files that entries of the live files name.
        bounds: of the column that names data files, lower and upper ones.
        formats: of the live files; bounds of vectors are not looked at.
    """
    texts: list[str | None] = [None] * len(formats)
    if named is not None:
        there = ~named.is_null
        texts = [text if one else None for text, one in zip(found.texts(named), there.tolist(), strict=True)]
    if len(bounds) == len(BOUNDS):
        lower, upper = (dict(zip(one.rows.tolist()[::-1], found.bytes_of(one)[::-1], strict=True)) for one in bounds)
        for number in lower.keys() & upper.keys():
            if texts[number] is None and formats[number] != PUFFIN and lower[number] == upper[number]:
                with suppress(UnicodeDecodeError):
                    texts[number] = lower[number].decode()
    return texts


def _only_data_file(found: Mapping[str, Any]) -> str | None:
    """Return the only data file of a position delete file, None if it may be for several."""
    named: str | None = found.get("referenced_data_file")
    lower, upper = (_bound(found.get(name)) for name in BOUNDS)
    if named is None and lower is not None and lower == upper:
        with suppress(UnicodeDecodeError):
            return lower.decode()
    return named


def _bound(bounds: Any) -> bytes | None:
    for pair in bounds or ():
        if isinstance(pair, dict) and pair.get("key") == FILE_PATH_ID and isinstance(pair.get("value"), bytes):
            return bytes(pair["value"])
    return None
