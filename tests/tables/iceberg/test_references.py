"""Branches and tags of Iceberg tables: read, audited, deleted from; other branches stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cli_runner import run
from dvcodec import UsageError
from dvcodec.tables import audit, history, open_table
from samples import delta_log
from samples.rows import ids

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
    """Deletes are committed to the branch; then the main branch is set to it."""
    branch = open_table("db.t", catalog=catalog, reference="audit")
    assert ids(branch) == list(range(100))
    main = open_table("db.t", catalog=catalog)
    before = main.snapshot().info.id
    done = branch.delete(pc.field("id") < 10)
    assert done.rows == 10
    branch.delete(keys=pa.table({"id": [50, 150]}), on=["id"])
    assert branch.snapshot().info.parent == done.snapshot
    main.refresh()
    assert main.snapshot().info.id == before
    left = [number for number in range(10, 100) if number != 50]
    assert ids(branch) == theirs(catalog, "audit") == left
    assert ids(main) == theirs(catalog, "main") == list(range(200))
    assert audit(branch).ok
    assert [change.deleted for change in history(branch)] == [0, 10, 1]

    main.delete("id = 199")
    assert ids(branch) == left
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


def test_two_writers_on_a_branch(catalog: Any) -> None:
    """Each commit is on top of the other, and none is lost."""
    one, other = (open_table("db.t", catalog=catalog, reference="audit") for _ in range(2))
    one.snapshot(), other.snapshot()
    one.delete(pc.field("id") < 10)
    other.delete(pc.field("id") > 90)
    assert ids(other) == theirs(catalog, "audit") == list(range(10, 91))


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
