"""Iceberg tables of several snapshots: metadata in JSON, manifests by fastavro, Parquet files by pyarrow.

`build_iceberg` writes one; a test damages it afterwards, or through `tweak` and `tweak_entry` while it is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet, iceberg

FIELDS: list[dict[str, Any]] = [
    {"id": 1, "name": "id", "required": True, "type": "long"},
    {"id": 2, "name": "name", "required": False, "type": "string"},
]
"""Columns of a table whose data files are given by their number of rows."""
STEP = 1_000_000
"""What `id` grows by from one data file to the next: the row at position p of the n-th file has id n * STEP + p."""
TIME = 1_700_000_000_000


@dataclass(frozen=True)
class Commit:
    """One snapshot: what it adds to the table and takes away.

    Attributes:
        data: new data files by name (a path below ``data``): a number of rows, or a table to write as it is.
        vectors: deleted rows by name; replaces the vector that the data file had. Needs format version 3.
        deletes: files of position deletes, each of rows by name: one name makes it file-scoped, by `scope`.
        remove: names of data files that go, with their vectors.
        equality: whether an equality delete file comes too.
        scope: how a position delete file says that it is for one data file: ``referenced`` or ``bounds``; None: it
            does not, and is for a partition.
        operation: of the snapshot's summary.
    """

    data: Mapping[str, int | pa.Table] = field(default_factory=dict)
    vectors: Mapping[str, RowSet] = field(default_factory=dict)
    deletes: Sequence[Mapping[str, RowSet]] = ()
    remove: Collection[str] = ()
    equality: bool = False
    scope: str | None = "referenced"
    operation: str = "append"


VECTOR = Commit(data={"a": 20}, vectors={"a": RowSet([1, 2])})
"""A data file and its vector."""


@dataclass(frozen=True)
class IcebergFiles:
    """A table that was written.

    Attributes:
        folder: the table's.
        metadata: its metadata file.
        snapshots: their ids, oldest first.
        paths: of data files by name, as recorded.
    """

    folder: Path
    metadata: Path
    snapshots: list[int]
    paths: dict[str, str]


def build_iceberg(
    folder: Path,
    *commits: Commit,
    version: int = 3,
    location: str | None = None,
    fields: Sequence[Mapping[str, Any]] = FIELDS,
    spec: Sequence[Mapping[str, Any]] = (),
    partition_types: Mapping[str, Any] | None = None,
    partition: Callable[[str], Mapping[str, Any]] | None = None,
    properties: Mapping[str, str] | None = None,
    per_puffin: int = 100,
    parquet: bool = True,
    codec: str = "deflate",
    tweak: Callable[[dict[str, Any]], dict[str, Any]] = lambda metadata: metadata,
    tweak_entry: Callable[[dict[str, Any]], dict[str, Any]] = lambda entry: entry,
) -> IcebergFiles:
    """Write a table, one snapshot for each commit. Snapshot ids are 101, 102 ...; sequence numbers 1, 2 ...

    Entries of a commit's own files have no sequence number in manifests, as engines write them: they inherit it.

    Args:
        folder: where to; made if it is not there.
        commits: oldest first.
        version: of the format, 1 to 3.
        location: what the metadata calls the folder; the folder itself by default. Other than that, the table is one
            that was moved.
        fields: columns of schema 0, as in the metadata.
        spec: fields of partition spec 0, as in the metadata.
        partition_types: Avro types of the partition fields by name; all of them ``string`` by default.
        partition: values of a data file by its name, as Avro stores them.
        properties: of the table.
        per_puffin: vectors in one Puffin file.
        parquet: False writes no data files, for tables of which only the metadata is looked at.
        codec: of manifests.
        tweak: changes the metadata before it is written.
        tweak_entry: changes each manifest entry before it is written.
    """
    where = location or str(folder)
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    values = partition or (lambda _: {})
    types = partition_types or {}
    crafter = _TableWriter(
        folder, where.rstrip("/"), version, spec, types, values, per_puffin, parquet, codec, tweak_entry
    )
    snapshots = [crafter.commit(commit, number) for number, commit in enumerate(commits, 1)]
    metadata: dict[str, Any] = {
        "format-version": version,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": where,
        "last-sequence-number": len(snapshots),
        "last-updated-ms": TIME + len(snapshots),
        "last-column-id": max(item["id"] for item in fields),
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": list(fields)}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": list(spec)}],
        "last-partition-id": 999 + len(spec),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": dict(properties or {}),
        "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1,
        "refs": {"main": {"snapshot-id": snapshots[-1]["snapshot-id"], "type": "branch"}} if snapshots else {},
        "snapshots": snapshots,
        "snapshot-log": [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in snapshots],
        "metadata-log": [],
    }
    if version == 1:
        metadata |= {"schema": metadata["schemas"][0], "partition-spec": list(spec)}
    if version == 3:
        metadata["next-row-id"] = crafter.next_row
    path = folder / "metadata" / "v1.metadata.json"
    path.write_text(json.dumps(tweak(metadata)))
    (folder / "metadata" / "version-hint.text").write_text("1")
    return IcebergFiles(folder, path, [one["snapshot-id"] for one in snapshots], crafter.paths)


def altered(change: dict[str, Any], *, content: int) -> Any:
    """A tweak of the entries of data files (content 0) or of delete files (1)."""

    def tweak(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["data_file"].get("content", 0) == content:
            top = {name: value for name, value in change.items() if name in entry}
            entry |= top
            entry["data_file"] |= {name: value for name, value in change.items() if name not in top}
        return entry

    return tweak


def field_ids(schema: pa.Schema, ids: Iterable[int]) -> pa.Schema:
    """Give the columns of a schema their field ids."""
    return pa.schema(
        [one.with_metadata({"PARQUET:field_id": str(number)}) for one, number in zip(schema, ids, strict=True)]
    )


def default_rows(number: int, rows: int) -> pa.Table:
    """Return the rows of the n-th data file of a table of `FIELDS`."""
    ids = pa.array(range(number * STEP, number * STEP + rows), pa.int64())
    names = pa.array([f"row {position}" for position in range(rows)])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    return pa.table([ids, names], schema=field_ids(schema, (1, 2)))


def nullable(kind: Any, number: int, name: str) -> dict[str, Any]:
    """Return an Avro field that may be null."""
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def pairs(key: int, value: int, kind: str) -> dict[str, Any]:
    """Return the Avro type of a map from field ids."""
    fields = [{"name": "key", "type": "int", "field-id": key}, {"name": "value", "type": kind, "field-id": value}]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "items": record, "logicalType": "map"}


def entry_schema(version: int, spec: Sequence[Mapping[str, Any]], types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Avro schema of manifest entries."""
    partition = [nullable(types.get(item["name"], "string"), item["field-id"], item["name"]) for item in spec]
    fields = [
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {
            "name": "partition",
            "type": {"type": "record", "name": "r102", "fields": partition},
            "field-id": 102,
        },
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        nullable(pairs(126, 127, "bytes"), 125, "lower_bounds"),
        nullable(pairs(129, 130, "bytes"), 128, "upper_bounds"),
        nullable("bytes", 131, "key_metadata"),
        nullable({"type": "array", "items": "int", "element-id": 136}, 135, "equality_ids"),
    ]
    entry: list[dict[str, Any]] = [{"name": "status", "type": "int", "field-id": 0}]
    entry.append(nullable("long", 1, "snapshot_id"))
    if version > 1:
        fields.insert(0, {"name": "content", "type": "int", "field-id": 134})
        fields.append(nullable("string", 143, "referenced_data_file"))
        entry += [nullable("long", 3, "sequence_number"), nullable("long", 4, "file_sequence_number")]
    if version > 2:
        fields += [nullable("long", 144, "content_offset"), nullable("long", 145, "content_size_in_bytes")]
    entry.append({"name": "data_file", "type": {"type": "record", "name": "r2", "fields": fields}, "field-id": 2})
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def list_schema(version: int) -> dict[str, Any]:
    """Return the Avro schema of manifest lists."""
    fields: list[dict[str, Any]] = [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
        nullable("long", 503, "added_snapshot_id"),
        nullable("bytes", 519, "key_metadata"),
    ]
    if version > 1:
        fields += [
            {"name": "content", "type": "int", "field-id": 517},
            {"name": "sequence_number", "type": "long", "field-id": 515},
            {"name": "min_sequence_number", "type": "long", "field-id": 516},
        ]
    counts = ("added_files", 504), ("existing_files", 505), ("deleted_files", 506)
    fields += [{"name": f"{name}_count", "type": "int", "field-id": number} for name, number in counts]
    counts = ("added_rows", 512), ("existing_rows", 513), ("deleted_rows", 514)
    fields += [{"name": f"{name}_count", "type": "long", "field-id": number} for name, number in counts]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def write_avro(path: Path, schema: Mapping[str, Any], records: Iterable[Mapping[str, Any]], codec: str) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, dict(schema), records, codec)


@dataclass
class _TableWriter:
    """The state of a table between commits: live entries by what they are for."""

    folder: Path
    location: str
    version: int
    spec: Sequence[Mapping[str, Any]]
    types: Mapping[str, Any]
    partition: Callable[[str], Mapping[str, Any]]
    per_puffin: int
    parquet: bool
    codec: str
    tweak_entry: Callable[[dict[str, Any]], dict[str, Any]]
    next_row: int = 0
    paths: dict[str, str] = field(default_factory=dict)
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    vectors: dict[str, dict[str, Any]] = field(default_factory=dict)
    others: list[dict[str, Any]] = field(default_factory=list)

    def commit(self, commit: Commit, number: int) -> dict[str, Any]:
        gone: list[dict[str, Any]] = []
        for name in commit.remove:
            gone += [entries.pop(name) for entries in (self.data, self.vectors) if name in entries]
        for name, content in commit.data.items():
            self.data[name] = self._added(self._data_file(name, content))
        for file in self._puffins(commit.vectors, number):
            name = file.pop("name")
            gone += [self.vectors.pop(name)] if name in self.vectors else []
            self.vectors[name] = self._added(file)
        for i, rows in enumerate(commit.deletes):
            self.others.append(self._added(self._position_deletes(rows, f"deletes-{number}-{i}.parquet", commit.scope)))
        if commit.equality:
            name = next(iter(self.data), "")
            file = self._file(f"equality-{number}.parquet", self.partition(name), 1, 2)
            self.others.append(self._added(file | {"equality_ids": [1]}))
        record = self._snapshot(number, commit.operation, gone)
        for entry in (*self.data.values(), *self.vectors.values(), *self.others):
            if entry["sequence_number"] is None:
                entry |= {"status": 0, "snapshot_id": 100 + number}
                entry |= {"sequence_number": number, "file_sequence_number": number}
        return record

    def _added(self, file: dict[str, Any]) -> dict[str, Any]:
        return {
            "status": 1,
            "snapshot_id": None,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": file,
        }

    def _file(self, name: str, partition: Mapping[str, Any], rows: int, content: int) -> dict[str, Any]:
        path = self.folder / "data" / name
        return {
            "content": content,
            "file_path": f"{self.location}/data/{name}",
            "file_format": "PARQUET",
            "partition": dict(partition),
            "record_count": rows,
            "file_size_in_bytes": path.stat().st_size if path.exists() else 1,
        }

    def _data_file(self, name: str, content: int | pa.Table) -> dict[str, Any]:
        if self.parquet:
            table = default_rows(len(self.paths), content) if isinstance(content, int) else content
            (self.folder / "data" / name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, self.folder / "data" / name, row_group_size=100)
        rows = content if isinstance(content, int) else content.num_rows
        file = self._file(name, self.partition(name), rows, 0)
        self.paths[name] = file["file_path"]
        self.next_row += rows
        return file

    def _puffins(self, vectors: Mapping[str, RowSet], number: int) -> Iterable[dict[str, Any]]:
        names = iter(vectors)
        for i in range(-(-len(vectors) // self.per_puffin)):
            chunk = list(islice(names, self.per_puffin))
            file = self.folder / "data" / f"vectors-{number}-{i}.puffin"
            by_path = {self.paths.get(name, f"{self.location}/data/{name}"): name for name in chunk}
            places = iceberg.write_deletion_vectors(file, {path: vectors[name] for path, name in by_path.items()})
            for place in places:
                assert place.data_file is not None
                entry = iceberg.manifest_entry(place) | {"file_path": f"{self.location}/data/{file.name}"}
                name = by_path[place.data_file]
                yield entry | {"partition": dict(self.partition(name)), "name": name}

    def _position_deletes(self, rows: Mapping[str, RowSet], file: str, scope: str | None) -> dict[str, Any]:
        found = [(self.paths[name], position) for name in rows for position in rows[name]]
        schema = pa.schema([pa.field("file_path", pa.string()), pa.field("pos", pa.int64())])
        columns = [pa.array([path for path, _ in found]), pa.array([position for _, position in found], pa.int64())]
        table = pa.table(columns, schema=field_ids(schema, (2147483546, 2147483545)))
        pq.write_table(table, self.folder / "data" / file)
        name = next(iter(rows))
        entry = self._file(file, self.partition(name), len(found), 1)
        if scope == "referenced":
            entry["referenced_data_file"] = self.paths[name]
        if scope == "bounds":
            bounds = [{"key": 2147483546, "value": self.paths[name].encode()}, {"key": 2147483545, "value": bytes(8)}]
            entry |= {"lower_bounds": bounds, "upper_bounds": bounds}
        return entry

    def _snapshot(self, number: int, operation: str, gone: Sequence[dict[str, Any]]) -> dict[str, Any]:
        removed = [
            entry | {"status": 2, "snapshot_id": 100 + number} for entry in gone if entry["sequence_number"] is not None
        ]
        manifests = []
        for content, entries in enumerate((list(self.data.values()), [*self.vectors.values(), *self.others])):
            records = entries + [one for one in removed if bool(one["data_file"]["content"]) == bool(content)]
            if records:
                manifests.append(self._manifest(f"manifest-{number}-{content}.avro", content, records, number))
        name = f"snap-{100 + number}.avro"
        write_avro(self.folder / "metadata" / name, list_schema(self.version), manifests, self.codec)
        record: dict[str, Any] = {
            "snapshot-id": 100 + number,
            "timestamp-ms": TIME + number,
            "summary": {"operation": operation},
            "manifest-list": f"{self.location}/metadata/{name}",
            "schema-id": 0,
        }
        if number > 1:
            record["parent-snapshot-id"] = 99 + number
        if self.version > 1:
            record["sequence-number"] = number
        if self.version > 2:
            record |= {"first-row-id": 0, "added-rows": self.next_row}
        return record

    def _manifest(self, name: str, content: int, records: Sequence[dict[str, Any]], number: int) -> dict[str, Any]:
        path = self.folder / "metadata" / name
        tweaked = [self.tweak_entry(dict(record) | {"data_file": dict(record["data_file"])}) for record in records]
        schema = entry_schema(self.version, self.spec, self.types)
        with path.open("wb") as file:
            metadata = {"schema": "{}", "partition-spec": json.dumps(list(self.spec)), "partition-spec-id": "0"}
            metadata |= {"format-version": str(self.version), "content": "deletes" if content else "data"}
            fastavro.writer(file, schema, tweaked, self.codec, metadata=metadata)
        counts = {status: [one for one in records if one["status"] == status] for status in (1, 0, 2)}
        entry: dict[str, Any] = {
            "manifest_path": f"{self.location}/metadata/{name}",
            "manifest_length": path.stat().st_size,
            "partition_spec_id": 0,
            "content": content,
            "sequence_number": number,
            "min_sequence_number": 1,
            "added_snapshot_id": 100 + number,
            "key_metadata": None,
        }
        for status, word in ((1, "added"), (0, "existing"), (2, "deleted")):
            entry[f"{word}_files_count"] = len(counts[status])
            entry[f"{word}_rows_count"] = sum(one["data_file"]["record_count"] for one in counts[status])
        return entry


def moved(path: str) -> str:
    """Tell where a path of a table at s3://t is now."""
    return path.replace("s3://t", "/here")
