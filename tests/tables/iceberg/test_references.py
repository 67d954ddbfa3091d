"""Branches and tags, and tables of format version 2, in turn with pyiceberg."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import amounts
from cli_runner import run
from dvcodec import RowSet, Unsupported, UsageError
from dvcodec.iceberg import read_position_deletes
from dvcodec.tables import Table, audit, compact_deletes, history, live_batches, open_table
from samples import delta_log
from samples.id_tables import make_iceberg
from samples.rows import ids
from tables.iceberg.in_turn import InTurn

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.libraries]


@pytest.fixture(params=[2, 3])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A table with the rows 0 to 99; tag `first`, branch `audit` from there; 100 to 199 on main alone."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    found = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    found.create_namespace("db")
    rows = pa.table({"id": range(200)})
    table = found.create_table("db.t", rows.schema, properties={"format-version": "2"})
    table.append(rows.slice(0, 100))
    first = table.current_snapshot().snapshot_id
    with table.manage_snapshots() as refs:
        refs.create_tag(first, "first")
        refs.create_branch(first, "audit")
    table.append(rows.slice(100))
    if request.param == 3:
        from dvcodec.tables import enable

        enable(open_table(found.load_table("db.t")))
    return found


def theirs(catalog: Any, reference: str) -> list[int]:
    scan = catalog.load_table("db.t").scan().use_ref(reference)
    return sorted(scan.to_arrow()["id"].to_pylist())


def test_a_branch_is_published_after_an_audit(catalog: Any) -> None:
    """Two writers commit to the branch, each on top of the other; then the main branch is set to it."""
    branch, other = (open_table("db.t", catalog=catalog, reference="audit") for _ in range(2))
    assert ids(branch) == ids(other) == list(range(100))
    main = open_table("db.t", catalog=catalog)
    before = main.snapshot().info.id
    done = branch.delete(pc.field("id") < 10)
    other.delete(keys=pa.table({"id": [50, 150]}), on=["id"])
    assert other.snapshot().info.parent == done.snapshot
    main.refresh()
    assert main.snapshot().info.id == before
    left = [number for number in range(10, 100) if number != 50]
    assert ids(other) == theirs(catalog, "audit") == left
    assert ids(main) == theirs(catalog, "main") == list(range(200))
    assert audit(other).ok
    assert [change.deleted for change in history(other)] == [0, 10, 1]
    main.delete("id = 199")
    assert ids(other) == left
    table = catalog.load_table("db.t")
    if table.format_version == 2:  # pyiceberg does not write version 3
        with table.manage_snapshots() as refs:
            refs.set_current_snapshot(snapshot_id=table.refs()["audit"].snapshot_id)
        main.refresh()
        assert ids(main) == left


def test_a_tag_is_read_and_not_committed_to(catalog: Any) -> None:
    tag = open_table("db.t", catalog=catalog, reference="first")
    assert ids(tag) == list(range(100))
    with pytest.raises(UsageError, match="first is a tag, which stays as it is: commit to a branch"):
        tag.delete(pc.field("id") < 10)
    assert len(tag.snapshots()) == 1


def test_references_that_are_not_there(catalog: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no branch or tag other; there are main, first, audit"):
        open_table("db.t", catalog=catalog, reference="other")
    with pytest.raises(UsageError, match="reference is for Iceberg tables, not for delta"):
        open_table(delta_log.restored_table(tmp_path / "delta"), reference="main")
    branch = open_table("db.t", catalog=catalog, reference="audit")
    table = catalog.load_table("db.t")
    if table.format_version == 3:
        return  # pyiceberg does not write it
    with table.manage_snapshots() as refs:
        refs.remove_branch("audit")
    with pytest.raises(UsageError, match="no branch or tag audit"):
        branch.delete(pc.field("id") < 10)


def test_commands(catalog: Any) -> None:
    source = catalog.load_table("db.t").metadata_location
    shown = run("table", source, "--ref", "audit", "--json").json
    assert shown["totals"]["rows"] == 100
    assert run("audit", source, "--ref", "first").code == 0
    assert len(run("log", source, "--ref", "first", "--json").json) == 1
    result = run("delete", source, "--ref", "gone", "--where", "id = 1")
    assert (result.code, result.complaint.partition(": ")[2]) == (
        2,
        "no branch or tag gone; there are main, first, audit",
    )


# -------------- deletes that are committed to tables of format version 2, as position deletes, in turn with pyiceberg


def entries(table: Table) -> list[Any]:
    return [vector for vector in table.snapshot().vectors if vector.format == "position-deletes"]


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(amounts.of(2, 10)))
def test_in_turn_with_pyiceberg(tmp_path: Path, seed: int) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    InTurn(catalog, "db.t", seed).run()


def test_rows_are_not_deleted_twice(tmp_path: Path) -> None:
    made = make_iceberg(tmp_path / "t", 300, 100, version=2)
    table = open_table(made.folder)
    assert table.delete(pc.field("id") < 20).rows == 20
    assert table.delete(pc.field("id") < 30).rows == 10
    found = entries(table)
    assert sorted(one.cardinality for one in found) == [10, 20]
    assert all(one.data_file == table.snapshot().data_files[0].path for one in found)
    rows = [dict(read_position_deletes(one.location)) for one in sorted(found, key=lambda one: -one.cardinality)]
    path = table.snapshot().data_files[0].path
    assert rows == [{path: RowSet(range(20))}, {path: RowSet(range(20, 30))}]
    assert table.delete(pc.field("id") < 100).removed == 1
    assert entries(table) == [], "deletes of the one data file go with it"
    assert table.delete(pc.field("id") < 100).committed is False


def with_properties(folder: Path, **properties: str) -> Table:
    made = make_iceberg(folder, 300, 100, version=2)
    made.metadata.write_text(json.dumps(json.loads(made.metadata.read_text()) | {"properties": properties}))
    return open_table(made.folder)


def test_tables_that_are_refused(tmp_path: Path) -> None:
    for number, (properties, error, match) in enumerate(
        (
            ({"write.delete.mode": "copy-on-write"}, UsageError, "write.delete.mode is copy-on-write"),
            ({"write.delete.format.default": "orc"}, Unsupported, "write.delete.format.default: expected parquet"),
            ({"write.format.default": "avro"}, Unsupported, "write.format.default: expected parquet"),
            ({"write.delete.granularity": "row"}, UsageError, "expected file or partition"),
            ({"write.parquet.compression-codec": "lzo"}, Unsupported, "compression of Parquet"),
        )
    ):
        table = with_properties(tmp_path / str(number), **properties)
        with pytest.raises(error, match=match):
            table.delete(pc.field("id") < 20)
        assert not [file for file in table.stored_files() if file.location.endswith("deletes.parquet")]


@pytest.mark.parametrize(("granularity", "files"), [("file", 3), ("partition", 1)])
def test_many_small_files_become_few(tmp_path: Path, granularity: str, files: int) -> None:
    table = with_properties(tmp_path / "t", **{"write.delete.granularity": granularity})
    for number in range(5):
        table.delete(pc.field("id").isin([number, 100 + number, 200 + number]))
    before = table.snapshot()
    assert len(entries(table)) == 5 * files
    source = table.metadata.source  # type: ignore[attr-defined]
    shown = run("compact-deletes", tmp_path / "t", "--dry-run")
    assert shown.out == f"dry run: {5 * files} files of position deletes would be merged into {files}, of 15 rows\n"
    assert open_table(tmp_path / "t").metadata.source == source  # type: ignore[attr-defined]
    assert run("compact-deletes", tmp_path / "t").code == 0
    table.refresh()
    after = table.snapshot()
    assert len(entries(table)) == files
    assert after.info.operation == "replace"
    assert [file.path for file in after.data_files] == [file.path for file in before.data_files]
    assert sum(batch.num_rows for batch in live_batches(table)) == 285
    assert audit(table).ok
    said = run("compact-deletes", tmp_path / "t").out
    assert (
        said == f"{files} file{'s' * (files > 1)} of position deletes, as few as there can be: nothing was committed\n"
    )


def test_vectors_are_not_compacted(tmp_path: Path) -> None:
    table = open_table(make_iceberg(tmp_path / "t", 300, 100).folder)
    with pytest.raises(UsageError, match="upgrade-deletes turns position deletes into vectors"):
        compact_deletes(table)
