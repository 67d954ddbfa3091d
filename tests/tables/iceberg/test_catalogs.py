"""Commits through pyiceberg's catalog in SQL, whose metadata files of version 3 come from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dvcodec import RowSet
from dvcodec.core.errors import CommitConflict, CommitUnknown, UsageError
from dvcodec.tables import audit, enable
from dvcodec.tables.iceberg.catalogs import from_catalog, from_pyiceberg
from dvcodec.tables.iceberg.commit import committer
from samples.iceberg_table import Commit, IcebergFiles, build_iceberg
from tables.iceberg.deleting import delete

sqlalchemy = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")
sql = pytest.importorskip("pyiceberg.catalog.sql")


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    found = sql.SqlCatalog("x", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    found.create_namespace("db")
    return found


@pytest.fixture
def crafted(tmp_path: Path, catalog: Any) -> IcebergFiles:
    first = Commit(data={"a": 20, "b": 20, "c": 5}, vectors={"a": RowSet([1, 2])})
    made = build_iceberg(
        tmp_path / "t",
        first,
        Commit(deletes=[{"b": RowSet([3])}]),
        properties={"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"},
        tweak=lambda metadata: metadata | {"vendor": [1]},
    )
    catalog.register_table("db.t", str(made.metadata))
    return made


def live(catalog: Any) -> int:
    found = catalog.load_table("db.t").scan().to_arrow().num_rows
    assert isinstance(found, int)
    return found


def test_commits_one_after_the_other(catalog: Any, crafted: IcebergFiles) -> None:
    table = from_catalog(catalog, "db.t")
    writer = committer(table)
    delete(writer, {crafted.paths["a"]: RowSet([5]), crafted.paths["b"]: RowSet([7])})
    assert live(catalog) == 45 - 5
    delete(writer, {crafted.paths["a"]: RowSet([6]), crafted.paths["c"]: RowSet.from_ranges([(0, 5)])})
    assert live(catalog) == 45 - 6 - 5
    loaded = catalog.load_table("db.t")
    assert audit(from_pyiceberg(loaded)).ok
    metadata = json.loads(Path(loaded.metadata_location).read_bytes())
    assert metadata["vendor"] == [1]  # which pyiceberg does not know
    assert len(list((crafted.folder / "metadata").glob("*.metadata.json"))) == 2


def test_a_stale_commit_is_a_conflict_and_leaves_nothing(catalog: Any, crafted: IcebergFiles) -> None:
    writer = committer(from_catalog(catalog, "db.t"))
    base = writer.current()
    delete(writer, {crafted.paths["a"]: RowSet([5])})
    files = set(crafted.folder.rglob("*"))
    with pytest.raises(CommitConflict, match="branch main has changed"):
        delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
    assert set(crafted.folder.rglob("*")) == files


def test_the_row_is_compared_and_swapped(catalog: Any, crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other writer comes after the metadata file, before the row."""
    writer = committer(from_catalog(catalog, "db.t"))
    base = writer.current()
    between(
        catalog,
        monkeypatch,
        lambda: delete(committer(from_catalog(catalog, "db.t")), {crafted.paths["b"]: RowSet([9])}),
    )
    with pytest.raises(CommitConflict, match="updated by another process"):
        delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
    assert live(catalog) == 45 - 4
    table = from_catalog(catalog, "db.t")
    kept = {Path(path).name for path in table.referenced()}
    metadata = {path.name for path in (crafted.folder / "metadata").iterdir()}
    assert metadata - kept <= {"version-hint.text"}


def test_properties_that_others_set_meanwhile_stay(catalog: Any, crafted: IcebergFiles) -> None:
    writer = committer(from_catalog(catalog, "db.t"))
    base = writer.current()
    set_property(catalog, crafted)
    delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
    assert catalog.load_table("db.t").properties["owner"] == "ann"
    assert live(catalog) == 45 - 4


def test_an_unanswered_commit_is_settled(catalog: Any, crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = sql.SqlCatalog.commit_table

    def lost(self: Any, *arguments: Any) -> Any:
        commit(self, *arguments)
        raise ConnectionError("lost")

    monkeypatch.setattr("dvcodec.tables.iceberg.catalogs._WAITS", (0.0, 0.0))
    monkeypatch.setattr(sql.SqlCatalog, "commit_table", lost)
    writer = committer(from_catalog(catalog, "db.t"))
    assert delete(writer, {crafted.paths["a"]: RowSet([6])}) == writer.current().info.id

    def gone(self: Any, *arguments: Any) -> Any:
        raise ConnectionError("lost")

    monkeypatch.setattr(sql.SqlCatalog, "commit_table", gone)
    with pytest.raises(CommitUnknown, match="did not answer"):
        delete(writer, {crafted.paths["a"]: RowSet([7])})


def test_tables_without_a_catalog_of_theirs_are_refused(crafted: IcebergFiles) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    writer = committer(from_pyiceberg(static.from_metadata(str(crafted.metadata))))
    with pytest.raises((UsageError, OSError)):
        writer.current()


def set_property(catalog: Any, crafted: IcebergFiles) -> None:
    """Let another writer set a property: by hand, as pyiceberg cannot write this version."""
    loaded = catalog.load_table("db.t")
    metadata = json.loads(Path(loaded.metadata_location).read_bytes())
    metadata["properties"]["owner"] = "ann"
    other = crafted.folder / "metadata" / "00007-other.metadata.json"
    other.write_text(json.dumps(metadata))
    with orm.Session(catalog.engine) as session:
        session.execute(sqlalchemy.update(sql.IcebergTables).values(metadata_location=str(other)))
        session.commit()


def between(catalog: Any, monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let another writer commit between the check of the requirements and the swap."""
    stage = type(catalog)._update_and_stage_table

    def late(self: Any, *arguments: Any) -> Any:
        staged = stage(self, *arguments)
        monkeypatch.undo()
        other()
        return staged

    monkeypatch.setattr(type(catalog), "_update_and_stage_table", late)


def test_an_upgrade(catalog: Any, tmp_path: Path) -> None:
    old = build_iceberg(tmp_path / "old", Commit(data={"a": 20}), Commit(deletes=[{"a": RowSet([3])}]), version=2)
    catalog.register_table("db.old", str(old.metadata))
    table = from_catalog(catalog, "db.old")
    assert enable(table).changes
    assert not enable(table).changes
    writer = committer(table)
    delete(writer, {old.paths["a"]: RowSet([5])})
    loaded = catalog.load_table("db.old")
    assert loaded.metadata.format_version == 3
    assert loaded.scan().to_arrow().num_rows == 18
    assert audit(from_catalog(catalog, "db.old")).ok


def test_a_table_that_pyiceberg_made(catalog: Any) -> None:
    """Its manifests, its partitions, and its commits of version 2."""
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("part", pa.string()), pa.field("day", pa.date32())])
    made = catalog.create_table("db.made", schema)
    with made.update_spec() as update:
        update.add_identity("part")
        update.add_identity("day")
    days = [date(2026, 1 + number % 3, 1) for number in range(30)]
    rows = pa.table([list(range(30)), ["x y", None] * 15, days], schema=schema)
    made.append(rows)
    made.delete("id = 7")
    table = from_catalog(catalog, "db.made")
    assert enable(table).changes
    writer = committer(table)
    base = writer.current()
    assert len(base.data_files) == 6
    first, second = base.data_files[0], base.data_files[1]
    delete(writer, {first.path: RowSet([0]), second.path: RowSet.from_ranges([(0, second.physical_rows or 0)])})
    delete(writer, {first.path: RowSet([1])})
    loaded = catalog.load_table("db.made")
    assert loaded.scan().to_arrow().num_rows == 29 - 2 - (second.physical_rows or 0)
    assert loaded.scan(row_filter="part = 'x y'").to_arrow().num_rows > 0
    assert audit(from_pyiceberg(loaded)).ok
