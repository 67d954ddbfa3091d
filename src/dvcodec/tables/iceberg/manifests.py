"""Manifests, the data files and delete files of a snapshot; manifest lists; and the Avro schemas of both.

Specification: Iceberg table spec, "Manifests" and "Snapshots" (manifest lists), of versions 1 to 3. The schemas are the
columns "v3" there, with the names of records that Iceberg Java writes. Sequence numbers and snapshot ids that were
unknown before the commit are null and inherited from the manifest ("Sequence Number Inheritance"). Column statistics
are not kept.

Bounds of columns, by which files are skipped: "Manifests" (``lower_bounds``, ``upper_bounds``, counts of values), and
appendix D, "Binary single-value serialization". Upper bounds that were cut off are greater than what they stand for.
Bounds of a file that is older than a promotion have the old type. Entries do not keep their statistics, which would be
most of a snapshot: the manifest is read again for the requested columns.
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from sys import intern
from typing import Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np

from dvcodec.core.avro import AvroFile
from dvcodec.core.avro_columns import AvroColumns, AvroPairs, AvroValues, Path, read_columns
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import DecodeError, Unsupported, UsageError
from dvcodec.core.extras import pa
from dvcodec.core.ragged import Flags, Index
from dvcodec.io import Storage
from dvcodec.io.target import place_keys
from dvcodec.tables.columns import recorded
from dvcodec.tables.iceberg.metadata import PartitionField
from dvcodec.tables.iceberg.schema import Partition, PartitionReader, scaled
from dvcodec.tables.metadata.avro_fields import (
    INTEGERS,
    AvroColumn,
    FoundField,
    fail,
    fields_of,
    open_avro,
    partition_names,
    select,
)
from dvcodec.tables.metadata.json_fields import is_nan, is_path
from dvcodec.tables.model import DataFile, DeletionVector, OnDemand, Record
from dvcodec.tables.rows.bounds import ColumnBounds, Range, safe_text
from dvcodec.tables.rows.columns import Column

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


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    """Return the type of a map from field ids, an array of records."""
    fields = [_required(key, "key", "int"), _required(value, "value", kind)]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


def _list(element: int, kind: str) -> dict[str, Any]:
    return {"type": "array", "items": kind, "element-id": element}


_FILE: list[dict[str, Any]] = [
    _required(134, "content", "int"),
    _required(100, "file_path", "string"),
    _required(101, "file_format", "string"),
    _required(102, PARTITION, {"type": "record", "name": "r102", "fields": []}),
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
    _required(2, "data_file", {"type": "record", "name": "r2", "fields": []}),
]
_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
_LIST: dict[str, Any] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
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
    ],
}


def entry_schema(partition: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the schema of manifest entries.

    Args:
        partition: the record type of the partition spec's fields.
        version: format version of the table.
    """
    known = _of_version(_FILE, version)
    file = [field | {"type": partition} if field["name"] == PARTITION else field for field in known]
    record = {"type": "record", "name": "r2", "fields": file}
    fields = [field | {"type": record} if field["name"] == "data_file" else field for field in _ENTRY]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


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
_COLUMNS = (
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
        names = {name: field.name for name, field in select(file.schema, _COLUMNS, "manifest list", cursor).items()}
        for i, record in enumerate(file.records()):
            manifest = _manifest(record, names, f"manifest {i}", locate, cursor)
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
    record: Mapping[Any, Any], names: Mapping[str, str], where: str, locate: Callable[[str], str], cursor: Cursor
) -> Manifest:
    found = {name: record[spelled] for name, spelled in names.items()}
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


POSITION_DELETES, EQUALITY_DELETES = 1, 2
"""Content of a delete file; other files have `DATA`."""
EXISTING, ADDED, DELETED = 0, 1, 2
"""Status of an entry."""
PUFFIN = "puffin"
FILE_PATH_ID = 2147483546
"""Field id of the column of position deletes that names the data file."""

_REQUIRED = ("file_format", PARTITION, "record_count", "file_size_in_bytes")
_BOUNDS = ("lower_bounds", "upper_bounds")
_READ_OF_FILE = (
    *chosen(FILE_COLUMNS, "content", "file_path", *_REQUIRED),
    *chosen(FILE_COLUMNS, *_BOUNDS, "equality_ids", "key_metadata"),
    *chosen(FILE_COLUMNS, "referenced_data_file", "content_offset", "content_size_in_bytes"),
)


_IN_COLUMNS = (
    *("status", "snapshot_id", "sequence_number", "content", "file_path", *_REQUIRED),
    *("key_metadata", "referenced_data_file", "content_offset", "content_size_in_bytes"),
)
"""What the files of most manifests are made of."""


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


@dataclass(frozen=True, slots=True)
class EqualityDeletes:
    """A file of equality deletes, which apply to older data files.

    Attributes:
        path: as recorded.
        location: where it can be opened.
        rows: row count, as recorded.
        sequence_number: data sequence number.
        equality_ids: field ids of the columns that are compared.
        record: what else its entry records.
    """

    path: str
    location: str
    rows: int
    sequence_number: int
    equality_ids: tuple[int, ...]
    record: ManifestEntry


ListedFile: TypeAlias = DataFile | DeletionVector | EqualityDeletes
"""A file that a manifest lists."""


F = TypeVar("F", bound="DataFile | DeletionVector")


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """The live entries of a manifest, by column.

    Attributes:
        paths: of the files.
        status: see `ManifestEntry`.
        snapshot_ids: null if inherited; None if all are.
        sequence_numbers: data sequence numbers.
        rows: as recorded.
        sizes: bytes of the files; negative if unknown.
        formats: in lower case.
        partitions: each once.
        partition_of: index in `partitions`.
    """

    paths: Sequence[str]
    status: Index
    snapshot_ids: AvroValues | None
    sequence_numbers: Index
    rows: Index
    sizes: Index
    formats: Sequence[str]
    partitions: Sequence[Partition]
    partition_of: Index

    def __getitem__(self, number: int) -> _Listed:
        return _Listed(
            self.paths[number],
            int(self.status[number]),
            None if self.snapshot_ids is None else self.snapshot_ids[number],
            int(self.sequence_numbers[number]),
            self.partitions[self.partition_of[number]],
            self.formats[number],
            int(self.rows[number]),
        )


class FilesInColumns(OnDemand[F]):
    """The live files of a manifest, none of which is encrypted, whose entries are as engines write them.

    Attributes:
        manifest: that lists them.
        own_paths: of the files themselves.
        sequence_numbers: int64, data sequence numbers.
        partitions: each once.
        partition_of: int64, index in `partitions`.
        sizes: see `FileColumns` and `VectorColumns`.
    """

    def __init__(
        self,
        make: Callable[[int], F],
        manifest: Manifest,
        entries: _Entries,
        paths: Sequence[str | None],
        sizes: Index | None = None,
    ) -> None:
        super().__init__(len(paths), make, paths)
        self.manifest = manifest
        self.own_paths = entries.paths
        self.sequence_numbers = entries.sequence_numbers
        self.partitions, self.partition_of = entries.partitions, entries.partition_of
        self.sizes = recorded(entries.sizes, entries.sizes >= 0) if sizes is None else sizes


class DataFilesInColumns(FilesInColumns[DataFile]):
    """Data files; see `FilesInColumns`.

    Attributes:
        rows: see `FileColumns`.
    """

    def __init__(self, files: _Files, entries: _Entries) -> None:
        make = lambda number: files.data_file(entries[number], int(entries.sizes[number]))  # noqa: E731
        super().__init__(make, files.manifest, entries, entries.paths)
        self.rows = recorded(entries.rows)


class DeletesInColumns(FilesInColumns[DeletionVector]):
    """Vectors, and files of position deletes; see `FilesInColumns`.

    Attributes:
        bitmaps: which are vectors.
        offsets: see `VectorColumns`.
        cardinalities: see `VectorColumns`.
        file_sizes: see `VectorColumns`.

    Args:
        files: makes them.
        entries: what is recorded.
        data_files: the only data file of each; None if there may be several.
        offsets: of vectors.
        sizes: of vectors.
    """

    def __init__(
        self,
        files: _Files,
        entries: _Entries,
        data_files: Sequence[str | None],
        offsets: AvroValues,
        sizes: AvroValues,
    ) -> None:
        bitmaps = np.array([one == PUFFIN for one in entries.formats], np.bool_)

        def make(number: int) -> DeletionVector:
            one, size, path = entries[number], int(entries.sizes[number]), data_files[number]
            if not bitmaps[number]:
                return files.position_deletes(one, size, path)
            return files.vector(one, size, path, offsets[number], sizes[number])

        file_sizes = recorded(entries.sizes, entries.sizes >= 0)
        own = np.where(bitmaps, recorded(sizes.values, ~sizes.is_null), file_sizes)
        super().__init__(make, files.manifest, entries, data_files, own)
        self.bitmaps = bitmaps
        self.offsets = recorded(offsets.values, bitmaps & ~offsets.is_null)
        self.cardinalities = recorded(entries.rows)
        self.file_sizes = file_sizes


def read_manifest(
    manifest: Manifest,
    fields: tuple[PartitionField, ...],
    locate: Callable[[str], str],
    storage: Storage,
    are_inside: Callable[[Sequence[str]], bool] = lambda _: False,
) -> Sequence[ListedFile]:
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
        columns = reader.in_columns(file, are_inside)
        if columns is not None:
            return columns
        found = (reader.read(record, i) for i, record in enumerate(file.records()))
        return tuple(one for one in found if one is not None)


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
        self._files = _Files(manifest, locate)
        entry = select(schema, ENTRY_COLUMNS, "manifest entry", cursor)
        columns = select(entry["data_file"].type, _READ_OF_FILE, "data_file", cursor)
        names = [{field["name"] for field in fields_of(of, "", cursor)} for of in (schema, entry["data_file"].type)]
        self._places: dict[str, Path] = {name: (field.name,) for name, field in entry.items()}
        self._places |= {name: (entry["data_file"].name, field.name) for name, field in columns.items()}
        self._partition_type = columns[PARTITION].type
        self._entry = _renamed(entry, ENTRY_COLUMNS, names[0])
        self._columns = _renamed(columns, _READ_OF_FILE, names[1])
        self._partitions = PartitionReader(manifest.spec_id, fields, partition_names(self._partition_type, cursor))

    def read(self, record: Mapping[Any, Any], number: int) -> ListedFile | None:
        """Return the file of an entry, None if its status is deleted."""
        entry = record if self._entry is None else {name: record[spelled] for name, spelled in self._entry.items()}
        status, stored = entry["status"], entry["data_file"]
        if status == DELETED:
            return None
        if status not in (EXISTING, ADDED) or stored is None:
            self._fail("status", f"entry {number}", "0 (existing), 1 (added), 2 (deleted)", status)
        found = stored if self._columns is None else {name: stored[own] for name, own in self._columns.items()}
        path = found["file_path"]
        if path is None or not is_path(path):
            self._fail("file_path", f"entry {number}", "a path", repr(path)[:80])
        for name in _REQUIRED:
            if found[name] is None:
                self._fail(name, path, "a value", "nothing")
        content = found.get("content") or DATA
        if content not in ((DATA,) if self._manifest.content == DATA else (POSITION_DELETES, EQUALITY_DELETES)):
            kind = "data files" if self._manifest.content == DATA else "delete files"
            self._fail("content", path, f"a manifest of {kind}", content)
        sequence_number = self._sequence_number(entry, path)
        partition = self._partitions.read(found[PARTITION])
        file_format = intern(found["file_format"].lower())
        snapshot_id, key = entry.get("snapshot_id"), found.get("key_metadata")
        one = _Listed(path, status, snapshot_id, sequence_number, partition, file_format, found["record_count"], key)
        size = found["file_size_in_bytes"]
        if content == EQUALITY_DELETES:
            return self._files.equality_deletes(one, tuple(found.get("equality_ids") or ()))
        if content == POSITION_DELETES and file_format == PUFFIN:
            place = found.get("content_offset"), found.get("content_size_in_bytes")
            return self._files.vector(one, size, found.get("referenced_data_file"), *place)
        if content == POSITION_DELETES:
            return self._files.position_deletes(one, size, _only_data_file(found))
        if one.rows < 0:
            self._fail("record_count", path, "0 or more", one.rows)
        return self._files.data_file(one, size)

    def in_columns(
        self, file: AvroFile, are_inside: Callable[[Sequence[str]], bool]
    ) -> DataFilesInColumns | DeletesInColumns | None:
        """Return the files of all entries if these are as engines write them; None if each is to be read by itself.

        `read` finds nothing wrong with such entries. Equality deletes, and keys, are left to it.
        """
        places = self._places
        maps = [places[name] for name in _BOUNDS if name in places] if self._manifest.content == DELETES else []
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
                    self._files.locate(path)
            structs = found.bytes_of(columns[PARTITION])
            reader, codes = (
                file.reader(self._partition_type),
                {one: code for code, one in enumerate(dict.fromkeys(structs))},
            )
            partitions = [self._partitions.read(reader(io.BytesIO(one))) for one in codes]
        except (DecodeError, UsageError):  # as a field of an entry that is read by itself
            return None
        lower = {one: intern(one.lower()) for one in dict.fromkeys(formats)}
        entries = _Entries(
            paths,
            columns["status"].values,
            columns.get("snapshot_id"),
            numbers,
            columns["record_count"].values,
            columns["file_size_in_bytes"].values,
            [lower[one] for one in formats],
            partitions,
            np.array([codes[one] for one in structs], np.int64),
        )
        if self._manifest.content == DATA:
            return DataFilesInColumns(self._files, entries)
        bounds = [found.pairs[place].of_key(FILE_PATH_ID).of_rows(rows) for place in maps]
        data_files = _data_files(found, columns.get("referenced_data_file"), bounds, entries.formats)
        none = _nothing(len(paths))
        place = (columns.get(name, none) for name in ("content_offset", "content_size_in_bytes"))
        return DeletesInColumns(self._files, entries, data_files, *place)

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
            own = _nothing(len(status))
        if inherited and (own.is_null & (status != ADDED)).any():
            return None
        return np.where(own.is_null, inherited, own.values)

    def _sequence_number(self, entry: Mapping[str, Any], path: str) -> int:
        number: int | None = entry.get("sequence_number")
        if number is None:
            if entry["status"] != ADDED and self._manifest.sequence_number:
                self._fail("sequence_number", path, "a number, for an entry that is not new", "nothing")
            return self._manifest.sequence_number
        return number

    def _fail(self, name: str, where: str, expected: object, actual: object) -> NoReturn:
        fail(self._cursor, f"{name} of {where}", expected, actual)


class _Listed(NamedTuple):
    """What an entry says of any file; see `ManifestEntry`."""

    path: str
    status: int
    snapshot_id: int | None
    sequence_number: int
    partition: Partition
    file_format: str
    rows: int
    key: bytes | None = None


class _Files:
    """Makes the values of the files of a manifest. Safe to use from several threads."""

    def __init__(self, manifest: Manifest, locate: Callable[[str], str]) -> None:
        self.manifest = manifest
        self._locate = locate
        self._last: tuple[str | None, str] = None, ""
        self._recorded: tuple[tuple[Any, ...], ManifestEntry] | None = None

    def locate(self, path: str) -> str:
        """Return where a path can be opened; one file may hold the vectors of thousands of entries."""
        last = self._last
        if path != last[0]:
            last = self._last = path, self._locate(path)
        return last[1]

    def data_file(self, one: _Listed, size: int) -> DataFile:
        """Return a data file."""
        return DataFile(
            one.path,
            self.locate(one.path),
            one.rows,
            _known(size),
            one.partition.label,
            one.partition.typed,
            one.partition,
            one.sequence_number,
            file_format=one.file_format,
            record=self._record(one),
        )

    def vector(
        self, one: _Listed, size: int, data_file: str | None, offset: int | None, length: int | None
    ) -> DeletionVector:
        """Return a vector."""
        return self._deletes("iceberg", one, data_file, offset, length, _known(size))

    def position_deletes(self, one: _Listed, size: int, data_file: str | None) -> DeletionVector:
        """Return a file of position deletes."""
        return self._deletes("position-deletes", one, data_file, None, _known(size), _known(size))

    def _deletes(
        self, kind: str, one: _Listed, data_file: str | None, offset: int | None, length: int | None, size: int | None
    ) -> DeletionVector:
        return DeletionVector(
            kind,
            data_file,
            one.path,
            self.locate(one.path),
            offset,
            length,
            one.rows,
            size,
            one.partition,
            one.sequence_number,
            record=self._record(one),
        )

    def equality_deletes(self, one: _Listed, ids: tuple[int, ...]) -> EqualityDeletes:
        """Return a file of equality deletes."""
        return EqualityDeletes(one.path, self.locate(one.path), one.rows, one.sequence_number, ids, self._record(one))

    def _record(self, one: _Listed) -> ManifestEntry:
        """Return what else an entry records: one object for equal entries in a row, as most in a manifest are."""
        snapshot_id = self.manifest.snapshot_id if one.snapshot_id is None else one.snapshot_id
        values, last = (one.status, snapshot_id, one.partition, one.file_format, one.key), self._recorded
        if last is None or last[0] != values:
            last = self._recorded = values, ManifestEntry(self.manifest.path, *values)
        return last[1]


def _nothing(count: int) -> AvroValues:
    """Return a field that is null everywhere."""
    return AvroValues(np.zeros(count, np.int64), valid=np.zeros(count, np.bool_))


def _known(size: int) -> int | None:
    return size if size >= 0 else None  # Paimon's Iceberg metadata lacks it


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
    if len(bounds) == len(_BOUNDS):
        lower, upper = (dict(zip(one.rows.tolist()[::-1], found.bytes_of(one)[::-1], strict=True)) for one in bounds)
        for number in lower.keys() & upper.keys():
            if texts[number] is None and formats[number] != PUFFIN and lower[number] == upper[number]:
                with suppress(UnicodeDecodeError):
                    texts[number] = lower[number].decode()
    return texts


def _renamed(
    found: Mapping[str, FoundField], columns: Sequence[AvroColumn], names: AbstractSet[str]
) -> dict[str, str] | None:
    """Return the specification's names of fields -> those in the file; None if a record has the former already.

    That is so unless the file names a field differently, or gives its name to another one.
    """
    spelled = {name: field.name for name, field in found.items()}
    others = names & {column.name for column in columns} - found.keys()
    return None if not others and all(name == own for name, own in spelled.items()) else spelled


def _only_data_file(found: Mapping[str, Any]) -> str | None:
    """Return the only data file of a position delete file, None if it may be for several."""
    named: str | None = found.get("referenced_data_file")
    if named is not None:
        return named
    lower, upper = (_bound(found.get(name)) for name in _BOUNDS)
    if lower is None or lower != upper:
        return None
    try:
        return lower.decode()
    except UnicodeDecodeError:
        return None


def _bound(bounds: Any) -> bytes | None:
    for pair in bounds or ():
        if isinstance(pair, dict) and pair.get("key") == FILE_PATH_ID and isinstance(pair.get("value"), bytes):
            return bytes(pair["value"])
    return None


_STATISTICS = {"null_value_counts": int, "nan_value_counts": int, "lower_bounds": bytes, "upper_bounds": bytes}
"""Maps by field id, in the order of `ColumnStatistics`, and the type of their values."""
_BOUNDS_ENTRY = chosen(ENTRY_COLUMNS, "status", "data_file")
_BOUNDS_FILE = chosen(FILE_COLUMNS, "file_path", "record_count", *_STATISTICS)
_WHOLE = {4: "<i", 8: "<q"}
_FLOATS = {4: "<f", 8: "<d"}
_DAY_UNITS = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_MAX_DAYS = 100_000
"""Since 1970: in nanoseconds they fit 64 bits."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a manifest records of a column in a data file; None = not recorded.

    Attributes:
        rows: of the data file.
        nulls: values that are null.
        nans: values that are NaN.
        lower: serialized.
        upper: serialized.
    """

    rows: int
    nulls: int | None = None
    nans: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


def read_statistics(
    location: str, ids: Collection[int], storage: Storage
) -> Mapping[str, Mapping[int, ColumnStatistics]]:
    """Read the statistics of columns in the live data files of a manifest: path -> field id -> statistics.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    found: dict[str, Mapping[int, ColumnStatistics]] = {}
    with open_avro(location, storage) as (file, cursor):
        entry = select(file.schema, _BOUNDS_ENTRY, "manifest entry", cursor)
        columns = select(entry["data_file"].type, _BOUNDS_FILE, "data_file", cursor)
        names = {name: one.name for name, one in columns.items()}
        for record in file.records():
            stored = record[entry["data_file"].name]
            if record[entry["status"].name] == DELETED or stored is None:
                continue
            members = {name: stored[spelled] for name, spelled in names.items()}
            maps = [_pairs(members.get(name), ids, kind) for name, kind in _STATISTICS.items()]
            rows = members["record_count"]
            found[members["file_path"]] = {
                number: ColumnStatistics(rows, *(values.get(number) for values in maps)) for number in ids
            }
    return found


def may_be_between(files: DataFilesInColumns, ranges: Mapping[int, tuple[int, Range]], storage: Storage) -> Flags:
    """Return which data files of a manifest may have values of integer columns in ranges: bool[n].

    All of them may, if the manifest is not read in columns now.

    Args:
        files: its data files.
        ranges: by field id: bytes of a value in the current schema, and the range.
        storage: opens the manifest.

    Raises:
        DecodeError: the manifest is corrupt.
        OSError: it cannot be read.
    """
    may = np.ones(len(files), np.bool_)
    with open_avro(files.manifest.location, storage) as (file, cursor):
        entry = select(file.schema, _BOUNDS_ENTRY, "manifest entry", cursor)
        columns = select(entry["data_file"].type, _BOUNDS_FILE, "data_file", cursor)
        places: dict[str, Path] = {name: (entry["data_file"].name, field.name) for name, field in columns.items()}
        if not places.keys() >= set(_BOUNDS):
            return may
        status: Path = (entry["status"].name,)
        found = read_columns(file, places["file_path"], [status], [places[name] for name in _BOUNDS])
    if found is None:
        return may
    live = found.columns[status].values != DELETED
    if np.count_nonzero(live) != len(files):
        return may
    rows = np.where(live, np.cumsum(live) - 1, -1)
    for number, (size, wanted) in ranges.items():
        lower, upper = (found.pairs[places[name]].of_key(number).of_rows(rows) for name in _BOUNDS)
        if wanted.high is not None:
            at, values = _integers(found, lower, size)
            may[at[values > wanted.high]] = False
        if wanted.low is not None:
            at, values = _integers(found, upper, size)
            may[at[values < wanted.low]] = False
    return may


def _integers(found: AvroColumns, items: AvroPairs, most: int) -> tuple[Index, Index]:
    """Return the rows of items that are integers of at most so many bytes, each the only one of its row, and these."""
    assert items.sizes is not None  # noqa: S101
    content, single = np.frombuffer(found.content, np.uint8), np.bincount(items.rows)[items.rows] == 1
    rows, numbers = [], []
    for size in [size for size in _WHOLE if size <= most]:
        these = np.flatnonzero(single & (items.sizes == size))
        rows.append(items.rows[these])
        data = content[items.values[these, None] + np.arange(size)]
        numbers.append(data.view(f"<i{size}").reshape(-1).astype(np.int64))
    return np.concatenate(rows), np.concatenate(numbers)


def _pairs(items: Any, ids: Collection[int], kind: type[Any]) -> dict[int, Any]:
    """Return the values of a map by field id, which Avro stores as pairs; None for an id that occurs twice."""
    found: dict[int, Any] = {}
    for item in items or ():
        number, value = (item.get("key"), item.get("value")) if isinstance(item, dict) else (None, None)
        if isinstance(number, int) and number in ids and isinstance(value, kind):
            found[number] = None if number in found else value
    return found


def bounds_of(column: Column, recorded: ColumnStatistics) -> ColumnBounds:
    """Return the bounds of a column by its statistics; an unreadable value counts as unknown."""
    if column.children:
        return ColumnBounds()
    nulls, values = recorded.nulls != 0, recorded.nulls is None or recorded.nulls < recorded.rows
    if column.kind in ("float", "double") and recorded.nans != 0:  # bounds are those of the other values
        return ColumnBounds(nulls=nulls, values=values)
    return ColumnBounds(_scalar(column, recorded.lower), _scalar(column, recorded.upper), nulls, values)


def _scalar(column: Column, data: bytes | None) -> pa.Scalar[Any] | None:
    value = None if data is None else _value(column, data)
    if value is None or is_nan(value):
        return None
    try:
        return pa.scalar(value, column.type)
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return None


def _value(column: Column, data: bytes) -> Any:
    """Return a serialized value in a form that Arrow accepts; None if it is invalid, or its order is not known.

    That of UUIDs is not: Java compares them as two signed numbers.
    """
    kind = column.kind
    if kind in ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"):
        if len(data) not in _WHOLE:
            return None
        number = struct.unpack(_WHOLE[len(data)], data)[0]
        if kind.startswith("timestamp") and len(data) == 4:  # it was a date
            return number * _DAY_UNITS[column.type.unit] if abs(number) <= _MAX_DAYS else None
        return number
    if kind in ("float", "double"):
        return struct.unpack(_FLOATS[len(data)], data)[0] if len(data) in _FLOATS else None
    if kind == "boolean":
        return data != b"\0" if len(data) == 1 else None
    if kind == "decimal":
        return scaled(int.from_bytes(data, "big", signed=True), column.type.scale) if 0 < len(data) <= 16 else None
    if kind == "string":
        return _text(data)
    return data if kind == "binary" or (kind == "fixed" and len(data) == column.type.byte_width) else None


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if safe_text(text) else None
