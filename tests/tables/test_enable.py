"""Deletion vectors enabled by an explicit act: what is written, what is refused, what libraries do afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cases import each
from cli_runner import run
from dvcodec import CommitConflict, RowSet, Unsupported, UsageError
from dvcodec.io import Storage
from dvcodec.tables import TableKind, enable, live_batches, open_table
from dvcodec.tables.adapters import CONSEQUENCES, INSTEAD
from dvcodec.tables.auditing import audit
from dvcodec.tables.delta.commit import DeltaCommitter, with_vectors
from dvcodec.tables.delta.log import Protocol
from dvcodec.tables.delta.table import DeltaTable
from dvcodec.tables.iceberg.commit import committer as iceberg_committer
from dvcodec.tables.metadata.json_fields import JsonFields
from samples import iceberg_table as iceberg
from samples.paimon_table import PaimonFile, build_paimon
from tables.iceberg.deleting import delete as commit_delete

PROPERTY = "delta.enableDeletionVectors"
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
METADATA: dict[str, Any] = {
    "id": "6b9a8a4c",
    "name": "żółw",
    "description": None,
    "format": {"provider": "parquet", "options": {"a": "b"}},
    "schemaString": json.dumps(SCHEMA),
    "partitionColumns": [],
    "configuration": {"delta.dataSkippingNumIndexedCols": "3"},
    "createdTime": 1_700_000_000_123,
    "madeBy": {"unknown": ["member"]},
}


def make(
    folder: Path, protocol: dict[str, Any] | None = None, configuration: Mapping[str, str] = MappingProxyType({})
) -> Path:
    """Write a Delta table of one commit."""
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": range(100)}), folder / "a.parquet")
    metadata = {**METADATA, "configuration": METADATA["configuration"] | dict(configuration)}
    add = {"path": "a.parquet", "partitionValues": {}, "size": (folder / "a.parquet").stat().st_size}
    add |= {"modificationTime": 1, "dataChange": True, "stats": '{"numRecords":100}'}
    found = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
    commit(folder, 0, {"commitInfo": {"timestamp": 7}}, {"protocol": found}, {"metaData": metadata}, {"add": add})
    return folder


def commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    path = folder / "_delta_log" / f"{version:020}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def read(folder: Path, version: int) -> dict[str, Any]:
    """Return the actions of a commit by kind."""
    lines = (folder / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert len({kind for action in found for kind in action}) == len(found)
    return {kind: value for action in found for kind, value in action.items()}


# ---------------------------------------------------------------------- Delta


def test_a_delta_table_gets_the_features_and_the_property(tmp_path: Path) -> None:
    folder = make(tmp_path / "t")
    table = open_table(folder)
    planned = enable(table, dry_run=True)
    assert [path.name for path in (folder / "_delta_log").iterdir()] == [f"{0:020}.json"]
    done = enable(table)
    assert done.changes == planned.changes
    assert (planned.path, done.path) == (None, str(folder / "_delta_log" / f"{1:020}.json"))
    assert done.changes == (
        (
            "protocol: reader version 1, writer version 2 -> reader version 3, writer version 7, "
            "features it now lists: appendOnly, deletionVectors, invariants"
        ),
        "delta.enableDeletionVectors: not set -> true",
    )
    found = read(folder, 1)
    assert list(found) == ["commitInfo", "protocol", "metaData"]
    assert found["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["appendOnly", "invariants", "deletionVectors"],
    }
    assert found["metaData"] == METADATA | {"configuration": METADATA["configuration"] | {PROPERTY: "true"}}
    info = found["commitInfo"]
    assert (info["operation"], info["readVersion"], "inCommitTimestamp" in info) == ("SET TBLPROPERTIES", 0, False)
    assert info["operationParameters"] == {"properties": '{"delta.enableDeletionVectors":"true"}'}
    assert enable(open_table(folder)) == enable(table)
    assert enable(table).changes == ()
    assert len(list((folder / "_delta_log").iterdir())) == 2
    assert audit(open_table(folder)).findings == ()
    again = open_table(folder)
    assert isinstance(again, DeltaTable)
    DeltaCommitter(again).check(again.snapshot())


MAPPED = ["columnMapping", "deletionVectors"]
BASIC = ["appendOnly", "invariants"]
CHANGES = [*BASIC, "checkConstraints", "changeDataFeed", "generatedColumns"]


@each(
    ("old", "readers", "writers"),
    [
        ((1, 1), ["deletionVectors"], ["deletionVectors"]),
        ((1, 4), ["deletionVectors"], [*CHANGES, "deletionVectors"]),
        ((1, 6), ["deletionVectors"], [*CHANGES, "identityColumns", "deletionVectors"]),
        ((2, 5), MAPPED, [*CHANGES, *MAPPED]),
        ((1, 7, None, ["rowTracking", "domainMetadata"]), ["deletionVectors"], ["rowTracking", "domainMetadata"]),
        ((2, 7, None, ["columnMapping", "invariants"]), MAPPED, ["columnMapping", "invariants"]),
        ((3, 7, ["timestampNtz"], ["timestampNtz"]), ["timestampNtz", "deletionVectors"], ["timestampNtz"]),
        ((3, 7, [], ["deletionVectors"]), ["deletionVectors"], ["deletionVectors"]),
        ((3, 7, ["v2Checkpoint", "appendOnly"], ["v2Checkpoint", "appendOnly"]), None, None),
    ],
)
def test_features_that_an_old_protocol_implied_are_listed(
    old: tuple[Any, ...], readers: list[str] | None, writers: list[str] | None
) -> None:
    record = {"minReaderVersion": old[0], "minWriterVersion": old[1], "unknown": 1}
    record |= {name: value for name, value in zip(("readerFeatures", "writerFeatures"), old[2:], strict=False) if value}
    if old[0] == 3:
        record.setdefault("readerFeatures", [])
    found = with_vectors(Protocol.parse(JsonFields(record, "log", "protocol")))
    readers = readers or ["v2Checkpoint", "appendOnly", "deletionVectors"]
    writers = writers or ["v2Checkpoint", "appendOnly"]
    assert found["readerFeatures"] == readers
    assert found["writerFeatures"] == list(dict.fromkeys([*writers, "deletionVectors"]))
    assert (found["minReaderVersion"], found["minWriterVersion"], found["unknown"]) == (3, 7, 1)


def test_only_what_lacks_is_changed(tmp_path: Path) -> None:
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    folder = make(tmp_path / "property", {"minReaderVersion": 3, "minWriterVersion": 7, **features}, {PROPERTY: "no"})
    assert enable(open_table(folder)).changes == ("delta.enableDeletionVectors: no -> true",)
    assert list(read(folder, 1)) == ["commitInfo", "metaData"]
    folder = make(tmp_path / "protocol", configuration={PROPERTY: "true"})
    assert len(enable(open_table(folder)).changes) == 1
    assert list(read(folder, 1)) == ["commitInfo", "protocol"]
    listed = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
    folder = make(tmp_path / "feature", {"minReaderVersion": 3, "minWriterVersion": 7, **listed}, {PROPERTY: "true"})
    assert enable(open_table(folder)).changes == (
        "protocol: reader version 3, writer version 7, features it now lists: deletionVectors",
    )


@pytest.mark.parametrize(
    ("features", "configuration", "kind", "match"),
    [
        (["rowTracking", "novelty"], {}, Unsupported, "novelty"),
        (["catalogManaged"], {}, Unsupported, "catalogManaged"),
        ([], {"delta.enableIcebergCompatV2": "true"}, UsageError, "enableIcebergCompatV2"),
    ],
)
def test_features_that_are_not_known_are_refused(
    features: list[str], configuration: dict[str, str], kind: type[Exception], match: str, tmp_path: Path
) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    folder = make(tmp_path / "t", protocol, configuration)
    with pytest.raises(kind, match=match):
        enable(open_table(folder))
    assert len(list((folder / "_delta_log").iterdir())) == 1


def rival(monkeypatch: pytest.MonkeyPatch, turns: int, act: Callable[[int], object]) -> list[int]:
    """Let another writer commit before each of the first attempts."""
    put, seen = Storage.put_if_absent, [0]

    def first_the_rival(self: Storage, location: str, data: bytes) -> None:
        if seen[0] < turns:
            seen[0] += 1
            act(seen[0])
        put(self, location, data)

    monkeypatch.setattr(Storage, "put_if_absent", first_the_rival)
    return seen


def test_a_conflict_is_repeated_upon_the_newest_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "t")
    changed = METADATA | {"name": "renamed"}
    rival(monkeypatch, 2, lambda turn: commit(folder, turn, {"commitInfo": {}}, {"metaData": changed}))
    assert enable(open_table(folder)).path == str(folder / "_delta_log" / f"{3:020}.json")
    assert read(folder, 3)["metaData"]["name"] == "renamed"
    assert read(folder, 3)["commitInfo"]["readVersion"] == 2
    last = make(tmp_path / "last")
    rival(monkeypatch, 9, lambda turn: commit(last, turn, {"commitInfo": {}}))
    assert enable(open_table(last)).path == str(last / "_delta_log" / f"{10:020}.json")
    other = make(tmp_path / "u")
    seen = rival(monkeypatch, 100, lambda turn: commit(other, turn, {"commitInfo": {}}))
    with pytest.raises(CommitConflict, match="another writer"):
        enable(open_table(other))
    assert seen == [10]


@pytest.mark.interop
@pytest.mark.parametrize("checkpoint", [False, True])
def test_deltalake_reads_and_writes_on(checkpoint: bool, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    folder = str(tmp_path / "t")
    data = pa.table({"id": range(1000), "part": [f"p{i % 3}" for i in range(1000)]})
    settings = {"delta.logRetentionDuration": "interval 5 days"}
    deltalake.write_deltalake(folder, data, partition_by=["part"], configuration=settings, name="n")
    before = deltalake.DeltaTable(folder).metadata()
    if checkpoint:
        deltalake.DeltaTable(folder).create_checkpoint()
        (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    assert len(enable(open_table(folder)).changes) == 2

    def check(left: set[int]) -> None:
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder)).execute("select id from t")
        ours = [one for batch in live_batches(open_table(folder)) for one in batch["id"].to_pylist()]
        assert sorted(pa.table(query.read_all())["id"].to_pylist()) == sorted(ours) == sorted(left)
        assert audit(open_table(folder), orphans=False).findings == ()

    after = deltalake.DeltaTable(folder).metadata()
    for name in ("id", "name", "description", "partition_columns", "created_time"):
        assert getattr(after, name) == getattr(before, name)
    assert after.configuration == {**settings, PROPERTY: "true"}
    deltalake.write_deltalake(folder, pa.table({"id": range(1000, 1010), "part": ["p9"] * 10}), mode="append")
    deltalake.DeltaTable(folder).delete("id % 10 = 3")
    left = {one for one in range(1010) if one % 10 != 3}
    check(left)
    open_table(folder).delete(pc.field("id") < 10)
    deltalake.DeltaTable(folder).create_checkpoint()
    check(left - {*range(10)})
    deltalake.DeltaTable(folder).optimize.compact()
    deltalake.DeltaTable(folder).vacuum(0, dry_run=False, enforce_retention_duration=False)
    check(left - {*range(10)})


# ---------------------------------------------------------------------- Paimon


def paimon(folder: Path, options: dict[str, str] | None = None, **more: Any) -> Path:
    files = [PaimonFile("a.parquet", pa.table({"id": pa.array(range(10), pa.int32())}), schema_id=0)]
    off = {"deletion-vectors.enabled": "false"} | (options or {})
    return build_paimon(folder, [(0, "id", "INT")], [files], options=off, **more)


def test_a_paimon_append_table_gets_a_new_schema(tmp_path: Path) -> None:
    folder = paimon(tmp_path / "t")
    path = folder / "schema" / "schema-0"
    old = json.loads(path.read_text()) | {"comment": "żółw", "novel": {"a": 1}}
    del old["options"]["deletion-vectors.enabled"]
    path.write_text(json.dumps(old))
    table = open_table(folder)
    assert enable(table, dry_run=True).changes == ("deletion-vectors.enabled: not set -> true",)
    assert len(list((folder / "schema").iterdir())) == 1
    done = enable(table)
    assert done.path == str(folder / "schema" / "schema-1")
    new = json.loads((folder / "schema" / "schema-1").read_text())
    assert new.pop("timeMillis") > old.pop("timeMillis")
    assert new == old | {"id": 1, "options": old["options"] | {"deletion-vectors.enabled": "true"}}
    assert list(new) == list(old)
    assert enable(table).changes == enable(open_table(folder)).changes == ()
    assert open_table(folder).snapshot().schema_id == 1
    assert audit(open_table(folder)).findings == ()


def test_other_tables_of_paimon_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="primary key id"):
        enable(open_table(paimon(tmp_path / "keys", primary_keys=["id"])))
    for name, value in {"data-evolution.enabled": "TRUE", "type": "format-table", "bucket": "-2"}.items():
        with pytest.raises(Unsupported, match=name):
            enable(open_table(paimon(tmp_path / name, {name: value})))
    branch = paimon(tmp_path / "t" / "branch" / "branch-b")
    with pytest.raises(Unsupported, match="branch"):
        enable(open_table(branch))


# ---------------------------------------------------------------------- Iceberg


def test_an_iceberg_table_of_version_2_gets_version_3(tmp_path: Path) -> None:
    first = iceberg.Commit(data={"a": 20, "b": 30}, deletes=[{"a": RowSet([1, 2])}])
    crafted = iceberg.build_iceberg(
        tmp_path / "t", first, version=2, properties={"p": "q"}, tweak=lambda metadata: metadata | {"novel": [1]}
    )
    old = json.loads(crafted.metadata.read_text())
    table = open_table(crafted.folder)
    assert enable(table, dry_run=True).changes == ("format-version: 2 -> 3",)
    assert INSTEAD[TableKind.ICEBERG] in run("enable", crafted.folder, "--dry-run").out
    assert not (crafted.folder / "metadata" / "v2.metadata.json").exists()
    done = enable(table)
    assert done.path == str(crafted.folder / "metadata" / "v2.metadata.json")
    new = json.loads(Path(done.path).read_text())
    log = new.pop("metadata-log")
    assert [entry["metadata-file"] for entry in log] == [str(crafted.metadata)]
    assert new.pop("last-updated-ms") > old.pop("last-updated-ms")
    assert new == {name: value for name, value in old.items() if name != "metadata-log"} | {
        "format-version": 3,
        "next-row-id": 0,
    }
    assert enable(open_table(crafted.folder)).changes == enable(table).changes == ()
    assert audit(open_table(crafted.folder)).findings == ()
    commit_delete(iceberg_committer(open_table(crafted.folder)), {crafted.paths["a"]: RowSet([3])})
    newest = open_table(crafted.folder)
    assert {row for batch in live_batches(newest) for row in batch["id"].to_pylist()} == {
        *(position for position in range(20) if position not in (1, 2, 3)),
        *(iceberg.STEP + position for position in range(30)),
    }
    assert audit(newest).findings == ()


def test_other_tables_of_iceberg_are_refused(tmp_path: Path) -> None:
    first = iceberg.Commit(data={"a": 20})
    old = iceberg.build_iceberg(tmp_path / "old", first, version=1)
    with pytest.raises(Unsupported, match="format-version: expected from 2 on, found 1"):
        enable(open_table(old.folder))
    crafted = iceberg.build_iceberg(tmp_path / "t", first, version=2)
    crafted.metadata.rename(crafted.metadata.with_name("00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"))
    (crafted.folder / "metadata" / "version-hint.text").unlink()
    with pytest.raises(UsageError, match="belong to a catalog"):
        enable(open_table(crafted.folder))


# ---------------------------------------------------------------------- the others, and the command


def test_the_command(tmp_path: Path) -> None:
    folder = make(tmp_path / "t")
    dry = run("enable", folder, "--dry-run")
    assert dry.code == 0
    facts = CONSEQUENCES[TableKind.DELTA]
    assert all(one.library in dry.out for one in facts)
    assert enable(open_table(folder), dry_run=True).consequences == facts
    first, second, _, title, *afterwards, _, last = dry.out.splitlines()
    assert last == "dry run: nothing was written"
    assert title == "afterwards:"
    assert len(afterwards) == len(facts) + 1  # a heading
    changes = [first, second]
    as_json = run("enable", folder, "--dry-run", "--json").json
    assert as_json.pop("consequences") == [asdict(one) for one in facts]
    assert as_json == {"table": str(folder), "kind": "delta", "changes": changes, "path": None}
    done = run("enable", folder)
    assert done.out.splitlines() == [*changes, f"wrote {folder}/_delta_log/{1:020}.json"]
    again = run("enable", folder)
    assert again.out == f"{folder}: deletion vectors are enabled, nothing was written\n"
    refused = run("enable", make(tmp_path / "u", {"minReaderVersion": 1, "minWriterVersion": 9}))
    assert refused.code == 2
    assert "writer version 9" in refused.complaint


# ----------------------------- what libraries do with a table after `enable`: the facts that the dry run shows, tried


ROWS = pa.table({"id": range(100), "part": ["a b", "c"] * 50})
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "delete.md"


def test_the_guide_has_them() -> None:
    text = GUIDE.read_text().replace("\\*", "*")
    stated = {one.library for facts in CONSEQUENCES.values() for one in facts}
    for name in ("pyiceberg", "polars", "deltalake"):
        assert f"{name} {'.'.join(version(name).split('.')[:2])}" in stated
    for kind, facts in CONSEQUENCES.items():
        rows = [f"| {one.library} | {one.reads} | {one.writes} |" for one in facts]
        assert f"| {kind.value.title()} " + "\n| ".join(rows) in text


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
def test_pyiceberg_and_polars(tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    polars = pytest.importorskip("polars")
    from pyiceberg.types import StringType

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS.schema, properties={"format-version": "2"}).append(ROWS)
    enable(open_table("db.t", catalog=catalog))
    open_table("db.t", catalog=catalog).delete("id < 10")
    table = catalog.load_table("db.t")
    current = table.current_snapshot().snapshot_id
    assert table.scan().to_arrow().num_rows == table.scan().count() == 90
    assert polars.scan_iceberg(table.metadata_location).collect().height == 90

    def evolve() -> None:
        with table.update_schema() as schema:
            schema.add_column("x", StringType())

    acts: dict[str, Callable[[], Any]] = {
        "append": lambda: table.append(ROWS),
        "overwrite": lambda: table.overwrite(ROWS),
        "delete": lambda: table.delete("id = 50"),
        "upsert": lambda: table.upsert(ROWS, join_cols=["id"]),
        "by polars": lambda: polars.from_arrow(ROWS).write_iceberg(table, mode="append"),
        "evolve": evolve,
        "tag": lambda: table.manage_snapshots().create_tag(current, "t").commit(),
        "rollback": lambda: table.manage_snapshots().rollback_to_snapshot(table.history()[0].snapshot_id).commit(),
        "expire": lambda: (
            table.maintenance.expire_snapshots()
            .older_than(datetime.now() + timedelta(days=1))  # noqa: DTZ005
            .commit()
        ),
    }
    for name, act in acts.items():
        with pytest.raises((ValueError, NotImplementedError)) as error:
            act()
        assert re.search("table version: 3|V3 is not yet supported", str(error.value)), name


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
def test_deltalake_and_polars(tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    polars: Any = pytest.importorskip("polars")
    folder = tmp_path / "t"
    deltalake.write_deltalake(folder, ROWS)
    enable(open_table(folder))

    def table() -> Any:
        return deltalake.DeltaTable(folder)

    for read in ("to_pyarrow_table", "to_pandas", "to_pyarrow_dataset"):
        with pytest.raises(Exception, match="deletionVectors"):
            getattr(table(), read)()
    open_table(folder).delete("id < 10")
    assert polars.scan_delta(folder).collect().height == 90
    assert table().count() == 100
    polars.from_arrow(ROWS.slice(0, 10)).write_delta(folder, mode="append")
    table().update({"id": "1000"}, predicate="id = 51")
    merge = table().merge(ROWS.slice(60, 5), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_delete().execute()
    query = deltalake.QueryBuilder().register("t", table()).execute("SELECT count(*) AS n FROM t")
    assert query.read_all()["n"][0].as_py() == 95
