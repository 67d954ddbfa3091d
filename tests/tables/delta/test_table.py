"""Delta tables through the model: snapshots, vectors, containers, references and rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import RowSet, delta
from dvcodec.core.errors import (
    BadMagic,
    CardinalityMismatch,
    NotCanonical,
    Unsupported,
    UsageError,
)
from dvcodec.tables import DeletionVector, Snapshot, TableKind, open_table
from dvcodec.tables.delta import AddFile, DeltaTable
from dvcodec.tables.delta import open as open_delta
from dvcodec.tables.snapshots.live import live_batches
from samples.delta_table import FIELDS, ROWS, DeltaBuilder, build_delta, rows_from

FORMS = ("classic", "parts", "json", "parquet", "json alone", "parquet alone")
MAPPED: list[dict[str, Any]] = [
    {**field, "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}}
    for number, field in enumerate([*FIELDS, {"name": "part", "type": "integer", "nullable": True}], 1)
]


def opened(table: DeltaBuilder) -> DeltaTable:
    return open_delta(str(table.root))


def deleted(table: DeltaTable, snapshot: Snapshot) -> dict[str, RowSet]:
    """The deleted rows by data file; every data file of the snapshot is there."""
    rows = {file.path: RowSet() for file in snapshot.data_files}
    for vector in snapshot.vectors:
        for found in snapshot.read(vector):
            rows[found.data_file] |= found.rows
    return rows


def all_rows(table: DeltaTable, snapshot: Snapshot, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return [
        row
        for file in snapshot.data_files
        for rows in snapshot.rows(file, columns=columns)
        for row in rows.batch.to_pylist()
    ]


def test_tables_of_spark(vectors: Path) -> None:
    table = open_delta(str(vectors / "delta" / "table-with-dv-small"))
    assert [(info.id, info.operation) for info in table.snapshots()] == [(0, "WRITE"), (1, "DELETE")]
    assert [row["value"] for batch in live_batches(table) for row in batch.to_pylist()] == [1, 2, 3, 4, 5, 6, 7, 8]
    table = open_delta(str(vectors / "delta" / "table_with_deletion_logs"))
    assert [info.id for info in table.snapshots()] == list(range(21))
    assert sum(batch.num_rows for batch in live_batches(table)) == 98


@pytest.mark.parametrize(("folder", "partitioned"), [("table", False), ("a b%20#ż", True)])
def test_every_version(tmp_path: Path, folder: str, partitioned: bool) -> None:
    crafted = build_delta(tmp_path / folder, partitioned=partitioned)
    table = opened(crafted)
    assert [info.id for info in table.snapshots()] == [0, 1, 2, 3, 4]
    for version, truth in enumerate(crafted.truth):
        snapshot = table.snapshot(version)
        assert deleted(table, snapshot) == truth
        assert snapshot.info == table.snapshots()[version]
    assert table.snapshot() == table.snapshot(4)


@each("form", FORMS)
@each("parsed_stats", [False, True])
def test_checkpoints_say_what_commits_said(tmp_path: Path, form: str, parsed_stats: bool) -> None:
    crafted = build_delta(tmp_path / "t", partitioned=True)
    before = opened(crafted).snapshot()
    crafted.checkpoint(form, parsed_stats=parsed_stats)
    for version in range(4):
        crafted.commit_file(version).unlink()
    table = opened(crafted)
    assert [info.id for info in table.snapshots()] == [4]
    after = table.snapshot()
    assert after.info == before.info
    assert set(after.data_files) == set(before.data_files)
    assert set(after.vectors) == set(before.vectors)
    path = crafted.write_file("later.parquet", rows_from(400), {"part": "x"})
    crafted.commit({"add": path})
    assert deleted(opened(crafted), opened(crafted).snapshot()) == crafted.truth[5]
    with pytest.raises(UsageError, match="no version 3"):
        table.snapshot(3)


@each("form", FORMS)
@each("damage", ["empty", "cut", "gone"])
def test_a_damaged_checkpoint_is_skipped_if_the_commits_are_there(tmp_path: Path, form: str, damage: str) -> None:
    """Also if only a part or a sidecar is damaged. Delta Spark reads all of these tables but those of sidecars."""
    crafted = build_delta(tmp_path / "t")
    before, infos = opened(crafted).snapshot(), opened(crafted).snapshots()
    *_, file = crafted.checkpoint(form)
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else file.read_bytes()[:100])
    table = opened(crafted)
    after = table.snapshot()
    assert (after.data_files, after.vectors, after.info) == (before.data_files, before.vectors, before.info)
    assert table.snapshots() == infos
    is_sidecar = file.parent != crafted.log
    is_noticed = damage != "gone" or is_sidecar  # otherwise there is no checkpoint, or not all of its parts
    name = "delta-empty-checkpoint" if damage == "empty" and not is_sidecar else "delta-checkpoint"
    assert [finding.check for finding in after.check_metadata()] == [name] * is_noticed
    assert {vector.location for vector in before.vectors} < table.referenced()
    if not is_noticed:
        return
    if form == "classic":  # another one of the version does as well
        crafted.checkpoint("json alone")
        crafted.commit_file(0).unlink()
        found = opened(crafted)
        assert set(found.snapshot().vectors) == set(before.vectors)
        assert {vector.location for vector in before.vectors} < found.referenced()
        return
    crafted.commit_file(1).unlink()
    for read in (opened(crafted).snapshot, opened(crafted).referenced):
        with pytest.raises((NotCanonical, FileNotFoundError)):
            read()


def of_cardinality(vector: DeletionVector, cardinality: int) -> DeletionVector:
    added = AddFile.of(vector)
    assert added.vector is not None
    wrong = replace(added.vector, descriptor=replace(added.vector.descriptor, cardinality=cardinality))
    return replace(vector, cardinality=cardinality, record=replace(added, vector=wrong))


def test_inline_vectors(tmp_path: Path) -> None:
    crafted = build_delta(tmp_path / "t")
    rows = RowSet([3, 4, 7, 11, 18, 29])
    inline = json.loads(delta.encode_inline(rows).to_json())
    empty = json.loads(delta.EMPTY.to_json())
    crafted.commit(*crafted.replaced("part-0.parquet", inline), *crafted.replaced("part-3.parquet", empty))
    table = opened(crafted)
    snapshot = table.snapshot()
    by_file = {vector.data_file: vector for vector in snapshot.vectors}
    vector, none = by_file["part-0.parquet"], by_file["part-3.parquet"]
    assert (vector.path, vector.location, vector.offset, vector.size) == ("", "", None, 44)
    for one, deleted_rows, size in ((vector, rows, 44), (none, RowSet(), 0)):
        (found,) = snapshot.read(one)
        assert found.stats is not None
        assert (found.rows, found.stats.size, found.stats.row_count) == (deleted_rows, size, ROWS)
        assert sum(found.stats.containers) == bool(deleted_rows)
    with pytest.raises(CardinalityMismatch):
        snapshot.read(of_cardinality(vector, 5))


def test_absolute_paths(tmp_path: Path) -> None:
    """A shallow clone: its data files, and at first its vectors, are those of another table."""
    source = build_delta(tmp_path / "so urce")
    clone = DeltaBuilder(tmp_path / "clone")
    clone.create()
    adds = []
    for add in source.live.values():
        copied = {**add, "path": f"file:{source.root}/{add['path']}".replace(" ", "%20")}
        if "deletionVector" in add:
            named = delta.Descriptor.from_json(add["deletionVector"]).path(str(source.root))
            url = f"file://{named}".replace(" ", "%20")
            copied["deletionVector"] = {**add["deletionVector"], "storageType": "p", "pathOrInlineDv": url}
        adds.append({"add": copied})
    clone.commit(*adds, operation="CLONE")
    table = opened(clone)
    snapshot = table.snapshot()
    expected = {f"file:{source.root}/{path}": rows for path, rows in source.truth[4].items()}
    assert deleted(table, snapshot) == expected
    assert len(all_rows(table, snapshot)) == 3 * ROWS
    assert {str(source.root / "part-0.parquet"), snapshot.vectors[0].location} <= table.referenced()


@pytest.mark.parametrize("again", ["part-0.parquet", "part-3.parquet"])
def test_a_data_file_with_a_vector_and_without(tmp_path: Path, again: str) -> None:
    crafted = build_delta(tmp_path / "t")
    descriptor = crafted.write_vectors({again: RowSet([5])})[again] if again == "part-3.parquet" else None
    crafted.commit(crafted.replaced(again, descriptor)[1])
    with pytest.raises(NotCanonical, match=f"expected one live action, found two for '{again}'"):
        opened(crafted).snapshot()


def test_containers(tmp_path: Path) -> None:
    table = opened(build_delta(tmp_path / "t"))
    snapshot = table.snapshot(2)
    first, second = snapshot.vectors
    assert first.location == second.location
    assert first.size is not None
    assert second.size is not None
    assert list(snapshot.check_container(first.location, [first, second])) == []
    wrong = [replace(first, offset=2), replace(second, size=second.size - 1)]
    found = snapshot.check_container(first.location, wrong)
    assert [(finding.check, finding.expected, finding.actual) for finding in found] == [
        ("frame", f"one of {first.size} bytes (log)", "none"),
        ("frame", f"one of {second.size - 1} bytes (log)", f"one of {second.size} bytes"),
    ]
    file = Path(first.location)
    file.write_bytes(b"\2" + file.read_bytes()[1:])
    with pytest.raises(BadMagic, match="version byte"):
        list(snapshot.check_container(first.location, [first]))


def test_referenced_is_everything_but_orphans(tmp_path: Path) -> None:
    crafted = build_delta(tmp_path / "t", partitioned=True)
    changed = crafted.write_file("_change_data/cdc-1.parquet", rows_from(0))
    crafted.commit({"cdc": {**changed, "dataChange": False}})
    for form in FORMS:
        crafted.checkpoint(form)
    (crafted.log / f"{5:020}.crc").write_text("{}")
    (crafted.log / "_last_checkpoint").write_text("{}")
    (crafted.log / f"{0:020}.{4:020}.compacted.json").write_text("")
    table = opened(crafted)
    stored = {file.location for file in table.stored_files()}
    assert table.referenced() == stored
    orphans = {str(crafted.log / "_sidecars" / "x.parquet"), str(crafted.root / "x.parquet")}
    for orphan in orphans:
        Path(orphan).write_text("")
    assert {file.location for file in opened(crafted).stored_files()} - table.referenced() == orphans


def test_what_versions_that_are_gone_needed_is_not_referenced(tmp_path: Path) -> None:
    crafted = build_delta(tmp_path / "t")
    crafted.tombstones = crafted.tombstones[-1:]  # of the others the retention is over
    crafted.checkpoint("json")
    for version in range(5):
        crafted.commit_file(version).unlink()
    table = opened(crafted)
    found = {Path(location).name for location in table.referenced()}
    assert {"part-0.parquet", "part-1.parquet", "part-2.parquet", "part-3.parquet"} <= found
    vectors = {Path(vector.location).name for vector in table.snapshot().vectors}
    assert {name for name in found if name.endswith(".bin")} == vectors


def test_rows(tmp_path: Path) -> None:
    crafted = build_delta(tmp_path / "t", partitioned=True)
    table = opened(crafted)
    snapshot = table.snapshot()
    fields = [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("part", pa.string())]
    assert snapshot.schema() == pa.schema(fields)
    rows = all_rows(table, snapshot)
    assert sorted(row["id"] for row in rows) == [*range(200), *range(300, 400)]
    assert {row["id"]: row["part"] for row in rows}[350] == "zażółć"
    parts = list(snapshot.rows(snapshot.data_files[0], columns=["part", "id"], batch_rows=30))
    assert [found.start for found in parts] == [0, 30, 40, 70, 80]
    assert parts[0].batch.schema.names == ["part", "id"]
    with pytest.raises(UsageError, match="no column 'nope': it has id, name, part"):
        snapshot.rows(snapshot.data_files[0], columns=["nope"])


def test_a_partition_column_without_a_value(tmp_path: Path) -> None:
    crafted = DeltaBuilder(tmp_path / "t", fields=MAPPED[:1], partition_columns=("id",))
    crafted.create()
    crafted.commit({"add": crafted.write_file("a", pa.table({"x": [1]}), {"other": "7"})})
    with pytest.raises(NotCanonical, match=r"partitionValues of a: expected all partition columns, found no 'id'"):
        opened(crafted).snapshot()


def test_what_is_not_known(tmp_path: Path) -> None:
    crafted = build_delta(tmp_path / "t")
    crafted.fields = [*FIELDS, {"name": "v", "type": "variant", "nullable": True, "metadata": {}}]
    crafted.commit({"metaData": crafted.metadata})
    table = opened(crafted)
    snapshot = table.snapshot()
    with pytest.raises(Unsupported, match="'variant'"):
        snapshot.schema()
    assert len(all_rows(table, snapshot, ["id"])) == 3 * ROWS
    crafted.commit({"metaData": {**crafted.metadata, "format": {"provider": "orc"}}})
    table = opened(crafted)
    snapshot = table.snapshot()
    with pytest.raises(Unsupported, match=r"format\.provider: expected parquet, found orc"):
        snapshot.rows(snapshot.data_files[0], columns=["id"])
    crafted.features = ("catalogManaged",)
    crafted.commit({"protocol": crafted.protocol})
    table = opened(crafted)
    assert len(table.snapshots()) == 8
    for ask in (table.snapshot, table.referenced):
        with pytest.raises(Unsupported, match="catalogManaged"):
            ask()
    assert table.snapshot(6).info.id == 6


def test_opening(tmp_path: Path) -> None:
    crafted = build_delta(tmp_path / "t")
    table = open_table(f"{crafted.root}/")
    assert (table.kind, table.location) == (TableKind.DELTA, str(crafted.root))
    with pytest.raises(UsageError, match="not a Delta table"):
        open_delta(str(tmp_path / "nowhere"))
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "empty" / "_delta_log" / "x").touch()
    with pytest.raises(NotCanonical, match="expected commits or a checkpoint"):
        open_delta(str(tmp_path / "empty")).snapshots()
