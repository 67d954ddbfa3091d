"""Delta tables: Parquet files, vector files and a log, and the deleted rows of each version.

`build_delta` makes a table with deletes; `DeltaBuilder` makes tables of other forms, commit by commit. The log is
written as Delta's protocol describes it, without `dvcodec.tables`.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet, delta

Action = dict[str, Any]
ROWS = 100
TIME = 1_700_000_000_000
"""Milliseconds; version n is committed n seconds later."""
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long", "nullable": False, "metadata": {}},
    {"name": "name", "type": "string", "nullable": True, "metadata": {}},
]
PART: dict[str, Any] = {"name": "part", "type": "string", "nullable": True, "metadata": {}}


def schema_string(fields: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def rows_from(first: int, count: int = ROWS) -> pa.Table:
    """Rows of `FIELDS`: ids from `first` on."""
    ids = range(first, first + count)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    return pa.table({"id": list(ids), "name": [f"row {i}" for i in ids]}, schema=schema)


@dataclass
class DeltaBuilder:
    """A table in a folder, commit by commit.

    Attributes:
        root: the table's folder.
        truth: version -> path of each live data file, in plain text -> its deleted rows.
        live: path as the log spells it -> the live ``add`` action, without its name.
        tombstones: the ``remove`` actions so far, without their name.
    """

    root: Path
    features: Sequence[str] = ("deletionVectors",)
    fields: Sequence[Mapping[str, Any]] = tuple(FIELDS)
    partition_columns: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=lambda: {"delta.enableDeletionVectors": "true"})
    truth: list[dict[str, RowSet]] = field(default_factory=list)
    live: dict[str, Action] = field(default_factory=dict)
    tombstones: list[Action] = field(default_factory=list)
    deleted: dict[str, RowSet] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.root / "_delta_log"

    def commit_file(self, version: int) -> Path:
        return self.log / f"{version:020}.json"

    @property
    def protocol(self) -> Action:
        features = list(self.features)
        return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}

    @property
    def metadata(self) -> Action:
        return {
            "id": "11111111-2222-3333-4444-555555555555",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(self.fields),
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": TIME,
        }

    def create(self) -> int:
        """Commit protocol and metadata."""
        return self.commit({"protocol": self.protocol}, {"metaData": self.metadata}, operation="CREATE TABLE")

    def write_file(self, path: str, rows: pa.Table, values: Mapping[str, str | None] | None = None) -> Action:
        """Write a data file at a path below the table (plain text); return its ``add`` action."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, target, row_group_size=40)
        return {
            "path": quote(path, safe="/="),
            "partitionValues": dict(values or {}),
            "size": target.stat().st_size,
            "modificationTime": TIME,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows, "nullCount": {"id": 0}}),
        }

    def write_vectors(self, vectors: Mapping[str, RowSet], prefix: str = "") -> dict[str, Action]:
        """Write one vector file; return the descriptors by path."""
        root = str(self.root)
        (self.root / prefix).mkdir(exist_ok=True)
        written = delta.write_deletion_vectors(delta.new_file(root, prefix), vectors)
        return {
            str(location.data_file): json.loads(delta.Descriptor.from_location(location, root).to_json())
            for location in written
        }

    def commit(self, *actions: Action, operation: str = "WRITE", rows: Mapping[str, RowSet] | None = None) -> int:
        """Commit actions; `rows` are the deleted rows by path as the log spells it, for the truth."""
        version = len(self.truth)
        info = {"commitInfo": {"timestamp": TIME + 1000 * version, "operation": operation}}
        self.log.mkdir(parents=True, exist_ok=True)
        self.commit_file(version).write_text("".join(f"{json.dumps(action)}\n" for action in (info, *actions)))
        for action in actions:
            if "remove" in action:
                self.live.pop(action["remove"]["path"], None)
                self.deleted.pop(action["remove"]["path"], None)
                self.tombstones.append(action["remove"])
        for action in actions:
            if "add" in action:
                self.live[action["add"]["path"]] = action["add"]
        self.deleted.update(rows or {})
        self.truth.append({unquote(path): self.deleted.get(path, RowSet()) for path in self.live})
        return version

    def delete(self, rows: Mapping[str, RowSet], prefix: str = "") -> int:
        """Commit deletes: all vectors in one new file; `rows` are what is deleted from then on, by path in the log."""
        actions: list[Action] = []
        for path, descriptor in self.write_vectors(rows, prefix).items():
            actions += self.replaced(path, descriptor)
        return self.commit(*actions, operation="DELETE", rows=rows)

    def replaced(self, path: str, descriptor: Action | None) -> list[Action]:
        """The actions that give a data file another vector."""
        added = copy.deepcopy(self.live[path])
        added.pop("deletionVector", None)
        if descriptor is not None:
            added["deletionVector"] = descriptor
        return [{"remove": self.tombstone(path)}, {"add": added}]

    def tombstone(self, path: str) -> Action:
        """The ``remove`` of a live data file."""
        added = self.live[path]
        kept: Action = {
            name: added[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in added
        }
        return {**kept, "deletionTimestamp": TIME, "dataChange": True, "extendedFileMetadata": True}

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self, form: str = "classic", *, parsed_stats: bool = False) -> list[Path]:
        """Write a checkpoint of the newest version; return its files, sidecars last.

        Args:
            form: ``classic``; ``parts`` (two of them); ``json`` or ``parquet`` (V2, two sidecars);
                ``json alone`` or ``parquet alone`` (V2 without sidecars).
            parsed_stats: ``stats_parsed`` instead of ``stats``.
        """
        version = len(self.truth) - 1
        stem = f"{version:020}.checkpoint"
        head: list[Action] = [{"protocol": self.protocol}, {"metaData": self.metadata}]
        files: list[Action] = [{"add": dict(added)} for added in self.live.values()]
        files += [{"remove": dict(removed)} for removed in self.tombstones]
        if parsed_stats:
            for action in files:
                if "add" in action:
                    action["add"]["stats_parsed"] = json.loads(action["add"].pop("stats"))
        if form == "classic":
            return [self._parquet(f"{stem}.parquet", head + files)]
        if form == "parts":
            return [
                self._parquet(f"{stem}.{1:010}.{2:010}.parquet", head + files[::2]),
                self._parquet(f"{stem}.{2:010}.{2:010}.parquet", files[1::2]),
            ]
        head.insert(0, {"checkpointMetadata": {"version": version}})
        sidecars = []
        if not form.endswith("alone"):
            (self.log / "_sidecars").mkdir(exist_ok=True)
            sidecars = [self._parquet(f"_sidecars/{uuid.uuid4()}.parquet", files[start::2]) for start in (0, 1)]
            head += [
                {"sidecar": {"path": file.name, "sizeInBytes": file.stat().st_size, "modificationTime": TIME}}
                for file in sidecars
            ]
            files = []
        name = f"{stem}.{uuid.uuid4()}.{form.partition(' ')[0]}"
        if name.endswith(".json"):
            (self.log / name).write_text("\n".join(json.dumps(action) for action in head + files))
            return [self.log / name, *sidecars]
        return [self._parquet(name, head + files), *sidecars]

    def _parquet(self, name: str, actions: Iterable[Action]) -> Path:
        actions = list(actions)
        names = [name for name in CHECKPOINT.names if any(name in action for action in actions)]
        schema = pa.schema([CHECKPOINT.field(name) for name in names])
        rows = [{name: _as_row(action.get(name)) for name in names} for action in actions]
        pq.write_table(pa.Table.from_pylist(rows, schema), self.log / name, row_group_size=3)
        return self.log / name


def _as_row(members: Action | None) -> Action | None:
    """Spell maps as pyarrow wants them."""
    if members is None:
        return None
    row = dict(members)
    for name in ("partitionValues", "configuration"):
        if name in row:
            row[name] = list(row[name].items())
    if "format" in row:
        row["format"] = {**row["format"], "options": []}
    return row


_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_STATS = pa.struct([("numRecords", pa.int64()), ("nullCount", pa.struct([("id", pa.int64())]))])
_FILE = [("path", pa.string()), ("partitionValues", _MAP), ("size", pa.int64()), ("dataChange", pa.bool_())]
CHECKPOINT = pa.schema(
    [
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                                ("readerFeatures", pa.list_(pa.string())), ("writerFeatures", pa.list_(pa.string()))])),
        ("metaData", pa.struct([("id", pa.string()),
                                ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                                ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string())),
                                ("configuration", _MAP), ("createdTime", pa.int64())])),
        ("add", pa.struct([*_FILE, ("modificationTime", pa.int64()), ("stats", pa.string()), ("stats_parsed", _STATS),
                           ("deletionVector", _VECTOR)])),
        ("remove", pa.struct([*_FILE, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_()),
                              ("deletionVector", _VECTOR)])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])),
        ("checkpointMetadata", pa.struct([("version", pa.int64())])),
    ]
)  # fmt: skip


def build_delta(folder: Path, *, partitioned: bool = False) -> DeltaBuilder:
    """Make a table of five versions, each file of `ROWS` rows in row groups of 40.

    Version 0 creates it, 1 adds three files, 2 deletes rows of two of them (one vector file), 3 more of the
    first (its vector is replaced), 4 removes the third and adds a fourth.

    Args:
        folder: where; it need not exist.
        partitioned: by the column ``part``, whose values are odd as names of folders.
    """
    fields = [*FIELDS, PART] if partitioned else FIELDS
    table = DeltaBuilder(folder, fields=fields, partition_columns=("part",) if partitioned else ())
    table.create()
    values: list[str | None] = ["two words", "50% #1", None, "zażółć"]
    adds = []
    for number in range(4):
        where = f"part={values[number]}/" if partitioned else ""
        add = table.write_file(
            f"{where}part-{number}.parquet",
            rows_from(number * ROWS),
            {"part": values[number]} if partitioned else None,
        )
        adds.append(add)
    first, second, third, fourth = ({"add": add} for add in adds)
    table.commit(first, second, third)
    one, two = adds[0]["path"], adds[1]["path"]
    table.delete({one: RowSet(range(0, ROWS, 7)), two: RowSet([0, 50, 99])})
    table.delete({one: RowSet(range(0, ROWS, 7)) | RowSet(range(30, 60))})
    table.commit({"remove": table.tombstone(adds[2]["path"])}, fourth, operation="MERGE")
    return table


def delta_of_files(folder: Path, files: Path, names: str = "ab", rows: int = 20) -> Path:
    """A Delta table of data files that are elsewhere, or in the same folder."""
    table = DeltaBuilder(folder, fields=[{**column, "nullable": True} for column in FIELDS])
    actions: list[Action] = []
    for name in names:
        path = files / "data" / name
        where = f"data/{name}" if files == folder else path.as_uri()
        added = {"path": where, "partitionValues": {}, "dataChange": True, "size": path.stat().st_size}
        actions.append({"add": added | {"modificationTime": 1, "stats": json.dumps({"numRecords": rows})}})
    table.commit({"protocol": table.protocol}, {"metaData": table.metadata}, *actions)
    return folder
