"""Equality deletes are read; they and position deletes become vectors: the same live rows, and no other deletes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cases import each
from cli_runner import run
from dvcodec import NotCanonical, RowSet, Unsupported
from dvcodec.core.errors import CommitConflict, UsageError
from dvcodec.tables import audit, deleted_rows, live_batches, open_table, upgrade_deletes
from dvcodec.tables.deleting import delete
from dvcodec.tables.iceberg import open as open_iceberg
from dvcodec.tables.iceberg.commit import IcebergCommitter
from samples.delta_log import restored_table
from samples.iceberg_equality import by_id, craft_equality
from samples.iceberg_table import FIELDS, STEP, Commit, IcebergFiles, altered, build_iceberg, field_ids
from samples.rows import ids

KEYS = {4: by_id(0, STEP + 7, 2 * STEP, 3 * STEP + 1), 5: by_id(STEP + 8, 3 * STEP + 2, 4 * STEP)}
GONE = {0: [0, 1, 2], 1: [3, 4, 5, 7, 8], 2: [0], 3: [2], 4: []}
"""Deleted rows by the number of the data file: deletes do not apply to data files of their own commit or later ones."""
ROWS = {file * STEP + row: row in GONE[file] for file, count in enumerate((20, 20, 5, 10, 10)) for row in range(count)}
"""Whether each row is deleted, by its id."""
LIVE = [number for number, is_gone in ROWS.items() if not is_gone]


@pytest.fixture
def crafted(tmp_path: Path) -> IcebergFiles:
    return craft_equality(tmp_path / "t", KEYS)


def pyiceberg_ids(crafted: IcebergFiles) -> list[int]:
    """What pyiceberg reads, of tables that have vectors alone."""
    table = pytest.importorskip("pyiceberg.table").StaticTable
    found = table.from_metadata(open_iceberg(crafted.folder).metadata.source).scan().to_arrow()
    return sorted(found["id"].to_pylist())


def test_all_kinds_of_deletes_become_vectors(crafted: IcebergFiles) -> None:
    before = ids(crafted.folder)
    table = open_table(crafted.folder)
    done = upgrade_deletes(table)
    assert table.snapshot().info.id == done.snapshot
    assert ids(crafted.folder) == before == LIVE == pyiceberg_ids(crafted)
    assert (done.position_deletes, done.equality_deletes, done.removed) == (3, 2, 0)
    snapshot = open_iceberg(crafted.folder).snapshot()
    assert {vector.format for vector in snapshot.vectors} == {"iceberg"}
    assert not any(snapshot.other_deletes(file) for file in snapshot.data_files)
    assert audit(open_table(crafted.folder)).ok
    summary = json.loads(Path(snapshot.metadata.source).read_bytes())["snapshots"][-1]["summary"]
    assert summary["operation"] == "replace"
    assert summary["removed-equality-delete-files"] == "2"
    again = upgrade_deletes(open_table(crafted.folder))
    assert (again.snapshot, again.vectors) == (done.snapshot, 0)


def test_keys_of_a_column_that_was_dropped_since(tmp_path: Path) -> None:
    """It is in an older schema, and in the data files."""

    def drop(metadata: dict[str, Any]) -> dict[str, Any]:
        (schema,) = metadata["schemas"]
        newer = schema | {"schema-id": 1, "fields": schema["fields"][1:]}
        return metadata | {"schemas": [schema, newer], "current-schema-id": 1}

    crafted = craft_equality(tmp_path / "t", {4: by_id(0, 2 * STEP)}, tweak=drop)
    found = [deleted_rows(open_table(crafted.folder), crafted.paths[name]) for name in "ac"]
    assert found == [RowSet([0, 1, 2]), RowSet([0])]


def test_null_is_a_key_like_another(tmp_path: Path) -> None:
    schema = field_ids(pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())]), (1, 2))
    fields = [item | {"required": False} for item in FIELDS]
    data = pa.table([[0, 1, None, 3, 9], ["x", None, None, "x", "y"]], schema=schema)
    deletes = pa.table([[None, 3, 0], [None, "x", None]], schema=schema)

    def tweak(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["data_file"].get("content") == 2:
            pq.write_table(deletes, tmp_path / "data" / "equality-2.parquet")
            entry["data_file"] |= {"record_count": 3, "equality_ids": [1, 2]}
        return entry

    crafted = build_iceberg(tmp_path, Commit(data={"a": data}), Commit(equality=True), fields=fields, tweak_entry=tweak)
    assert deleted_rows(open_table(crafted.folder), crafted.paths["a"]) == RowSet([2, 3])


def test_a_conflict_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, left = IcebergCommitter.replace, [None] * 2

    def losing(self: Any, *arguments: Any) -> int:
        if left:
            left.pop()
            raise CommitConflict("lost")
        return replace(self, *arguments)

    crafted = craft_equality(tmp_path / "t", {4: by_id(0)}, properties={"commit.retry.min-wait-ms": "0"})
    monkeypatch.setattr(IcebergCommitter, "replace", losing)
    upgrade_deletes(open_table(crafted.folder))
    assert 0 not in ids(crafted.folder)


def test_deletes_that_name_a_file_by_an_old_path_are_refused(tmp_path: Path) -> None:
    """Its rows would live again."""
    commits = Commit(data={"part/b": 20}), Commit(deletes=[{"part/b": RowSet([3])}])
    tweak = altered({"referenced_data_file": "/elsewhere/data/part/b"}, content=1)
    crafted = build_iceberg(tmp_path / "t", *commits, tweak_entry=tweak)
    with pytest.raises(NotCanonical, match="path of the data file, which has another one now"):
        upgrade_deletes(open_table(crafted.folder))


def test_the_command(tmp_path: Path) -> None:
    crafted = craft_equality(tmp_path / "t", {4: by_id(0, *(2 * STEP + row for row in range(5)))})
    files = set(crafted.folder.rglob("*"))
    what = "3 files of position deletes and 1 of equality deletes replaced by 2 vectors; 1 data file without a live row"
    assert run("upgrade-deletes", crafted.folder, "--dry-run").out == f"dry run: {what} removed\n"
    planned = run("upgrade-deletes", crafted.folder, "--dry-run", "--json").json
    assert set(crafted.folder.rglob("*")) == files
    assert (planned["committed"], planned["vectors"], planned["removed"]) == (False, 2, 1)
    done = run("upgrade-deletes", crafted.folder)
    snapshot = open_table(crafted.folder).snapshot().info.id
    assert (done.code, done.out, done.err) == (0, f"snapshot {snapshot}: {what} removed\n", "")
    again = run("upgrade-deletes", crafted.folder)
    assert again.out == "no position deletes or equality deletes: nothing was committed\n"


def test_version_2_has_to_be_enabled_first(tmp_path: Path) -> None:
    crafted = build_iceberg(tmp_path / "t", Commit(data={"a": 20}), Commit(deletes=[{"a": RowSet([3])}]), version=2)
    assert "dvcodec enable" in run("upgrade-deletes", crafted.folder).complaint
    assert run("enable", crafted.folder).code == 0
    assert run("upgrade-deletes", crafted.folder, "--json").json["position_deletes"] == 1
    assert pyiceberg_ids(crafted) == [number for number in range(20) if number != 3]


@each(("rows", "position"), [(18, 20), (19, 100), (19, 2**58)])
def test_positions_beyond_the_rows_of_a_data_file_are_refused(tmp_path: Path, rows: int, position: int) -> None:
    """With as many positions as rows, the file would seem to have no live row."""
    deletes = Commit(deletes=[{"a": RowSet([*range(rows), position])}])
    crafted = build_iceberg(tmp_path / "t", Commit(data={"a": 20}), deletes)
    files = set(crafted.folder.rglob("*"))
    message = rf"highest position, for .*: expected below 20 \(rows of the data file\), found {position}"
    for dry_run in (True, False):
        with pytest.raises(NotCanonical, match=message):
            upgrade_deletes(open_table(crafted.folder), dry_run=dry_run)
    assert set(crafted.folder.rglob("*")) == files


def test_other_formats_have_none(tmp_path: Path) -> None:
    folder = restored_table(tmp_path / "t")
    with pytest.raises(UsageError, match="are Iceberg's, and this is a delta table"):
        upgrade_deletes(open_table(folder))


# ------------------------------ rows that equality deletes delete are neither live nor deleted again, and can be read


def ids_in(crafted: IcebergFiles, **options: bool) -> list[int]:
    batches = live_batches(open_table(crafted.folder), **options)  # type: ignore[arg-type]
    return [number for batch in batches for number in batch["id"].to_pylist()]


def test_every_row_is_live_or_deleted(crafted: IcebergFiles) -> None:
    assert ids_in(crafted) == LIVE
    assert ids_in(crafted, deleted=True) == [number for number, is_gone in ROWS.items() if is_gone]
    table = open_table(crafted.folder)
    assert [deleted_rows(table, path) for path in crafted.paths.values()] == [RowSet(rows) for rows in GONE.values()]


@each(("transform", "gone_of_c"), [("identity", []), ("void", [0])])
def test_partitions(tmp_path: Path, transform: str, gone_of_c: list[int]) -> None:
    """Deletes apply to data files of their partition, those of an unpartitioned spec to all; newer ones are not met."""
    crafted = craft_equality(
        tmp_path,
        {4: by_id(0, 2 * STEP)},
        spec=[{"name": "part", "transform": transform, "source-id": 2, "field-id": 1000}],
        partition=lambda name: {"part": name[0] if transform == "identity" else None},
    )
    table = open_table(crafted.folder)
    found = [deleted_rows(table, crafted.paths[name]) for name in ("a", "c", "d4")]
    assert found == [RowSet([0, 1, 2]), RowSet(gone_of_c), RowSet()]
    snapshot = table.snapshot()
    named = [snapshot.other_deletes(snapshot.files[crafted.paths[name]]) is not None for name in ("a", "c", "d4")]
    assert named == [True, bool(gone_of_c), False]


def test_other_columns_are_read_without_the_keys(crafted: IcebergFiles) -> None:
    table = open_table(crafted.folder)
    rows = pa.Table.from_batches(live_batches(table, columns=["name"]))
    assert rows.column_names == ["name"]
    assert rows["name"] == pa.Table.from_batches(live_batches(table))["name"]


def test_a_delete_counts_rows_once(crafted: IcebergFiles) -> None:
    """Rows 7 and 8 of the second file are not live: the condition deletes 6 and 9."""
    table = open_table(crafted.folder)
    before = ids_in(crafted)
    done = delete(table, pc.field("id").isin([STEP + row for row in (6, 7, 8, 9)]))
    assert done.rows == 2
    assert ids_in(crafted) == [number for number in before if number not in (STEP + 6, STEP + 9)]


@each(
    ("given", "error", "why"),
    [
        ({"ids": (9,)}, Unsupported, "expected columns, found field 9"),
        ({"ids": ()}, NotCanonical, "equality_ids: expected at least one column, found none"),
        ({"ids": (3,)}, Unsupported, "exact keys, found x of type float"),
        ({"key_metadata": b"k"}, Unsupported, r"equality-4\.parquet: file: expected no encryption, found key_metadata"),
    ],
)
def test_keys_that_cannot_be_compared(tmp_path: Path, given: dict[str, Any], error: type[Exception], why: str) -> None:
    fields = [*FIELDS, {"id": 3, "name": "x", "required": False, "type": "float"}]
    crafted = craft_equality(tmp_path / "t", {4: by_id(0)}, fields=fields, **given)
    for act in (ids_in, lambda one: upgrade_deletes(open_table(one.folder))):
        with pytest.raises(error, match=why):
            act(crafted)


@each("column", [(1, 1), (2, 1), (1, 2, 1)])
def test_columns_are_a_set(tmp_path: Path, column: tuple[int, ...]) -> None:
    """Writers order them as they like, and Java reads them into a set."""
    keys = by_id(0, STEP + 7)
    if 2 in column:
        names = pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"})
        keys = keys.append_column(names, pa.array(["row 0", "another"]))
    crafted = craft_equality(tmp_path / "t", {4: keys}, ids=column)
    assert (0 in ids_in(crafted), STEP + 7 in ids_in(crafted)) == (False, 2 in column)


def test_columns_of_one_name_in_two_schemas_are_two(tmp_path: Path) -> None:
    """A column was dropped, and another one has its name: the deletes are older than that."""
    crafted = craft_equality(tmp_path / "t", {4: by_id(0, STEP + 7)}, ids=(1, 3))
    metadata = crafted.folder / "metadata/v1.metadata.json"
    text = json.loads(metadata.read_text())
    (schema,) = text["schemas"]
    later = {"id": 3, "name": "id", "required": False, "type": "string"}
    text["schemas"].append(schema | {"schema-id": 1, "fields": [later, *schema["fields"][1:]]})
    metadata.write_text(json.dumps(text | {"current-schema-id": 1}))
    path = crafted.paths["a"]
    assert deleted_rows(open_table(crafted.folder), path) == RowSet([0, 1, 2])  # of the others, two are positions
