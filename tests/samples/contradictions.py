"""Tables whose vectors are valid and whose metadata makes an engine refuse them or pass them over.

Each maker writes a table and names the findings of its audit. tests/interop/test_verdicts.py asks the engines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from dvcodec import RowSet
from samples import delta_log, paimon_table
from samples.iceberg_table import Commit, altered, build_iceberg

DELETED = RowSet([1, 5, 7])
"""Of the data file ``a`` of Iceberg and Paimon tables, which have 100 rows in each data file."""

# ---------------------------------------------------------------------- Delta: 256 rows, of which 188 live

VECTORS = "deletionVectors"
ON = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
Action = dict[str, Any]
Edit = Callable[[list[Action], Path], object]
"""Changes the actions of a commit of this log."""
NTZ = "timestampNtz"


def edit(kind: str, change: Callable[[Action], object]) -> Edit:
    """Change all actions of a kind."""

    def run(actions: list[Action], log: Path) -> None:
        for action in actions:
            if kind in action:
                change(action[kind])

    return run


def both(*edits: Edit) -> Edit:
    def run(actions: list[Action], log: Path) -> None:
        for one in edits:
            one(actions, log)

    return run


def protocol(reader: int, writer: int, readers: list[str] | None = None, writers: list[str] | None = None) -> Edit:
    found: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    lists = {"readerFeatures": readers, "writerFeatures": writers}
    found |= {name: features for name, features in lists.items() if features is not None}

    def change(action: Action) -> None:
        action.clear()
        action.update(found)

    return edit("protocol", change)


def properties(found: Mapping[str, str]) -> Edit:
    return edit("metaData", lambda metadata: metadata.update(configuration=dict(found)))


def mapped(actions: list[Action], log: Path) -> None:
    """Call the column ``col-1`` in data files, as column mapping does."""
    metadata = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    columns(column("id", "long", metadata))(actions, log)
    if any("metaData" in action for action in actions):
        for path in log.parent.glob("*.parquet"):
            pq.write_table(pq.read_table(path).rename_columns(["col-1"]), path)
    edit("add", lambda found: found.update(size=(log.parent / found["path"]).stat().st_size))(actions, log)


def column(name: str, kind: Any, metadata: Mapping[str, Any] | None = None) -> Action:
    return {"name": name, "type": kind, "nullable": True, "metadata": dict(metadata or {})}


def columns(*fields: Action) -> Edit:
    text = json.dumps({"type": "struct", "fields": list(fields)})
    return edit("metaData", lambda found: found.update(schemaString=text))


DELTA: dict[str, tuple[tuple[Edit, ...], list[str]]] = {
    "healthy": ((), []),
    "old protocol": ((protocol(1, 2),), ["delta-protocol"]),
    "legacy protocol": ((protocol(2, 5),), ["delta-protocol"]),
    "no feature": ((protocol(3, 7, [], []),), ["delta-feature"]),
    "no feature, off": ((protocol(3, 7, [], []), properties({})), ["delta-feature", "delta-property"]),
    "readers only": ((protocol(3, 7, [VECTORS], []),), ["delta-feature"]),
    "writers only": ((protocol(3, 7, [], [VECTORS]),), ["delta-feature"]),
    "writers only, old readers": ((protocol(1, 7, None, [VECTORS]),), ["delta-protocol"]),
    "append only": (
        (protocol(3, 7, [VECTORS], [VECTORS, "appendOnly"]), properties(ON | {"delta.appendOnly": "true"})),
        ["delta-append-only"],
    ),
    "append only, no feature": (
        (properties(ON | {"delta.appendOnly": "true"}),),
        ["delta-feature", "delta-append-only"],
    ),
    "off": ((properties({"delta.enableDeletionVectors": "false"}),), ["delta-property"]),
    "mapped": (
        (protocol(3, 7, [VECTORS, "columnMapping"], [VECTORS, "columnMapping"]), properties(ON | MAPPED), mapped),
        [],
    ),
    "mapped, no feature": ((properties(ON | MAPPED), mapped), ["delta-column-mapping"]),
    "mapped, writers only": (
        (protocol(3, 7, [VECTORS], [VECTORS, "columnMapping"]), properties(ON | MAPPED), mapped),
        ["delta-column-mapping"],
    ),
}
"""Changes to the first commit of `delta_table`, and the findings."""


def make_delta(name: str, folder: Path) -> list[str]:
    changes, findings = DELTA[name]
    _edited(folder, range(3), both(*changes))
    return findings


def _edited(folder: Path, versions: Collection[int], change: Edit) -> None:
    """Write the table, and change commits of its log."""
    delta_log.restored_table(folder)
    for version, path in enumerate(sorted((folder / "_delta_log").glob("*.json"))):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        if version in versions:
            change(actions, path.parent)
        path.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


# ---------------------------------------------------------------------- Delta's log: the same rows


def protocol_of(writer: int, readers: list[str], writers: list[str]) -> Edit:
    lists = {"readerFeatures": [VECTORS, *readers], "writerFeatures": [VECTORS, *writers]}
    return edit("protocol", lambda found: found.update({"minReaderVersion": 3, "minWriterVersion": writer} | lists))


def mapped_columns(*fields: Action) -> Edit:
    on = edit("metaData", lambda found: found["configuration"].update(MAPPED))
    return both(on, protocol_of(7, ["columnMapping"], ["columnMapping"]), columns(*fields))


def respelled(kind: str, path: str) -> Edit:
    return edit(kind, lambda found: found["path"] == "a.parquet" and found.update(path=path))


def hint(version: int) -> Edit:
    text = json.dumps({"version": version, "size": 3})
    return lambda _, log: (log / "_last_checkpoint").write_text(text)


def checkpoint(data: bytes) -> Edit:
    return lambda _, log: (log / f"{1:020}.checkpoint.parquet").write_bytes(data)


ID, NESTED = column("id", "long"), {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}
PHYSICAL = {"delta.columnMapping.physicalName": "id"}
LOGS: dict[str, tuple[Edit, list[str]]] = {
    "add without modificationTime": (edit("add", lambda found: found.pop("modificationTime")), ["delta-action"]),
    "add without dataChange": (edit("add", lambda found: found.pop("dataChange")), ["delta-action"]),
    "remove without dataChange": (edit("remove", lambda found: found.pop("dataChange")), ["delta-action"]),
    "metaData without id": (edit("metaData", lambda found: found.pop("id")), ["delta-action"]),
    "remove, encoded": (respelled("remove", "%61.parquet"), ["delta-path"]),
    "add of another vector, encoded": (respelled("add", "%61.parquet"), []),
    "both, encoded": (both(respelled("add", "%61.parquet"), respelled("remove", "%61.parquet")), []),
    "both, with a dot": (both(respelled("add", "./a.parquet"), respelled("remove", "./a.parquet")), []),
    "hint": (hint(1), ["delta-checkpoint"]),
    "empty checkpoint": (checkpoint(b""), ["delta-empty-checkpoint"]),
    "empty checkpoint, hint": (both(checkpoint(b""), hint(1)), ["delta-empty-checkpoint", "delta-checkpoint"]),
    "damaged checkpoint": (checkpoint(b"PAR1" * 9), ["delta-checkpoint"]),
    "writer version 8": (protocol_of(8, [], []), ["delta-protocol"]),
    "reader feature only": (protocol_of(7, ["v2Checkpoint"], []), ["delta-feature"]),
    "writer feature only": (protocol_of(7, [], ["appendOnly"]), []),
    "timestamp_ntz": (columns(ID, column("t", "timestamp_ntz")), ["delta-feature"]),
    "timestamp_ntz in an array": (columns(ID, column("t", NESTED)), ["delta-feature"]),
    "timestamp_ntz with its feature": (both(columns(ID, column("t", NESTED)), protocol_of(7, [NTZ], [NTZ])), []),
    "timestamp_ntz for writers": (both(columns(ID, column("t", NESTED)), protocol_of(7, [], [NTZ])), ["delta-feature"]),
    "two columns but for case": (columns(ID, column("ID", "long")), ["delta-schema"]),
    "mapped without names": (mapped_columns(ID), ["delta-schema"]),
    "mapped without ids": (mapped_columns(column("id", "long", PHYSICAL)), ["delta-schema"]),
    "mapped": (mapped_columns(column("id", "long", PHYSICAL | {"delta.columnMapping.id": 1})), []),
    "mapped, a struct without names": (
        mapped_columns(
            column("id", "long", PHYSICAL | {"delta.columnMapping.id": 1}),
            column(
                "s",
                {"type": "struct", "fields": [column("x", "long")]},
                {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "s"},
            ),
        ),
        ["delta-schema"],
    ),
}
"""Changes to the log of `delta_table`, and the findings."""


def make_log(name: str, folder: Path) -> list[str]:
    change, findings = LOGS[name]
    _edited(folder, (2,) if name == "add of another vector, encoded" else range(3), change)
    return findings


# ---------------------------------------------------------------------- Iceberg: 200 rows, of which 197 live

SPEC = [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}]
PARTITIONED: dict[str, Any] = {"spec": SPEC, "partition": lambda name: {"name": name}}
DATA, VECTOR = Commit({"a": 100, "b": 100}), Commit(vectors={"a": DELETED})
OTHER = altered({"partition": {"name": "b"}}, content=1)
ICEBERG: dict[str, list[str]] = {
    "healthy": [],
    "partitioned": [],
    "other tuple": ["partition-mismatch"],
    "other spec": ["partition-mismatch"],
    "older": ["sequence-number"],
    "version 2": ["iceberg-version"],
    "deletes of another tuple": ["partition-mismatch"],
    "deletes of another tuple, by bounds": ["partition-mismatch"],
    "deletes of another partition": [],
    "deletes of another scheme": ["path-scheme"],
}


def make_iceberg(name: str, folder: Path, properties: Mapping[str, str] | None = None) -> list[str]:
    if name == "healthy":
        build_iceberg(folder, DATA, VECTOR, properties=properties)
    elif name == "partitioned":
        build_iceberg(folder, DATA, VECTOR, **PARTITIONED)
    elif name == "other tuple":
        build_iceberg(folder, DATA, VECTOR, **PARTITIONED, tweak_entry=OTHER)
    elif name == "other spec":
        build_iceberg(folder, DATA, VECTOR, tweak=_second_spec)
        _respecify(folder / "metadata" / "snap-102.avro")
    elif name == "older":
        change = {"sequence_number": 1, "file_sequence_number": 1, "status": 0, "snapshot_id": 101}
        newer = Commit({"b": 100}), Commit(vectors={"b": DELETED})
        build_iceberg(folder, Commit({"a": 100}), *newer, tweak_entry=altered(change, content=1))
    elif name == "deletes of another scheme":
        deletes = Commit(deletes=[{"a": DELETED}], scope=None)
        build_iceberg(folder, DATA, deletes, version=2, location=f"file:{folder}", tweak_entry=_without_scheme)
    elif name == "version 2":
        build_iceberg(folder, DATA, VECTOR, tweak=_version_2, properties=properties)
    else:
        scope = {"deletes of another tuple": "referenced", "deletes of another tuple, by bounds": "bounds"}.get(name)
        deletes = Commit(deletes=[{"a": DELETED}], scope=scope)
        build_iceberg(folder, DATA, deletes, version=2, **PARTITIONED, tweak_entry=OTHER)
    return ICEBERG[name]


def _without_scheme(entry: dict[str, Any]) -> dict[str, Any]:
    """Spell data files as plain paths; rows of deletes still name them by URL."""
    file = entry["data_file"]
    return entry if file["content"] else {**entry, "data_file": {**file, "file_path": file["file_path"][5:]}}


def _second_spec(metadata: dict[str, Any]) -> dict[str, Any]:
    metadata["partition-specs"].append({"spec-id": 1, "fields": []})
    return metadata


def _version_2(metadata: dict[str, Any]) -> dict[str, Any]:
    """Leave what a table of version 2 has; manifests keep the columns of version 3."""
    metadata["format-version"] = 2
    del metadata["next-row-id"]
    for snapshot in metadata["snapshots"]:
        del snapshot["first-row-id"], snapshot["added-rows"]
    return metadata


def _respecify(path: Path) -> None:
    """Give the delete manifests of a manifest list another spec."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema, manifests = reader.writer_schema, list(reader)
    assert schema is not None
    for manifest in manifests:
        manifest["partition_spec_id"] = manifest["content"]  # type: ignore[index, call-overload]
    with path.open("wb") as file:
        fastavro.writer(file, schema, manifests)


# ---------------------------------------------------------------------- Paimon: 300 rows, of which 297 live

ENABLED = "deletion-vectors.enabled"
PAIMON: dict[str, list[str]] = {
    "healthy": [],
    "off": ["paimon-vectors-disabled"],
    "not set": ["paimon-vectors-disabled"],
    "off by now": ["paimon-vectors-disabled"],
    "on by now": [],
}


def make_paimon(name: str, folder: Path) -> list[str]:
    ids = [pa.table({"id": pa.array(range(i * 100, (i + 1) * 100), pa.int64())}) for i in range(3)]
    files = [
        paimon_table.PaimonFile(f"{one}.parquet", rows, DELETED if one == "a" else None)
        for one, rows in zip("abc", ids, strict=True)
    ]
    without = [replace(file, deleted=None) for file in files]
    options = {ENABLED: "false"} if name in ("off", "on by now") else {}
    paimon_table.build_paimon(folder, [(0, "id", "BIGINT")], [without, files], options=options)
    schema = json.loads((folder / "schema" / "schema-0").read_text())
    if name == "not set":
        del schema["options"][ENABLED]
        (folder / "schema" / "schema-0").write_text(json.dumps(schema))
    if name.endswith("by now"):
        schema["options"][ENABLED] = "false" if name == "off by now" else "true"
        (folder / "schema" / "schema-1").write_text(json.dumps(schema | {"id": 1}))
    return PAIMON[name]


# ---------------------------------------------------------------------- Lance: 100 rows, of which 97 live


def shrink_fragment(folder: Path) -> None:
    """Make the newest manifest say that its only fragment has 90 rows, not 100."""
    path = min((folder / "_versions").glob("*.manifest"))  # they count down
    before, after = b"\x20\x64", b"\x20\x5a"  # field 4 of a fragment, physical_rows
    data = path.read_bytes()
    assert data.count(before) >= 1
    path.write_bytes(data.replace(before, after))
