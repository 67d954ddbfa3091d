"""Commits through pyiceberg's catalog in SQL, whose metadata files of version 3 come from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cases import each
from dvcodec import RowSet, tables
from dvcodec.core.errors import CommitConflict, CommitUnknown, UsageError
from dvcodec.tables import audit, enable
from dvcodec.tables.iceberg.catalogs import from_catalog, from_pyiceberg, load
from dvcodec.tables.iceberg.commit import committer
from samples.iceberg_table import Commit, IcebergFiles, build_iceberg
from tables.iceberg.deleting import delete

sqlalchemy = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")
sql = pytest.importorskip("pyiceberg.catalog.sql")
exceptions = pytest.importorskip("pyiceberg.exceptions")


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


def another_schema(metadata: dict[str, Any]) -> None:
    """There is no snapshot for it, but the rows were searched in other columns."""
    (schema,) = metadata["schemas"]
    metadata["schemas"].append(schema | {"schema-id": 1})
    metadata["current-schema-id"] = 1


@pytest.mark.parametrize(
    ("tweak", "conflict"),
    [
        (lambda metadata: metadata["properties"].update(owner="ann"), False),
        (another_schema, True),
        # a commit to another branch takes the sequence number or the row ids that the new snapshot would have
        (lambda metadata: metadata.update({"last-sequence-number": metadata["last-sequence-number"] + 1}), True),
        (lambda metadata: metadata.update({"next-row-id": metadata["next-row-id"] + 1}), True),
    ],
)
def test_what_others_change_meanwhile(tweak: Any, conflict: bool, catalog: Any, crafted: IcebergFiles) -> None:
    writer = committer(from_catalog(catalog, "db.t"))
    base: Any = writer.current()
    by_hand(catalog, crafted, tweak)
    files = set(crafted.folder.rglob("*"))
    if conflict:
        with pytest.raises(CommitConflict, match=r"^db\.t: "):
            delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
        assert set(crafted.folder.rglob("*")) - files <= {crafted.folder / "data"}
        base = None
    delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
    assert catalog.load_table("db.t").properties.get("owner") == (None if conflict else "ann")
    assert live(catalog) == 45 - 4


@pytest.mark.parametrize("error", [ConnectionError("lost"), exceptions.CommitFailedException("stale")])
def test_an_unanswered_commit_is_settled(
    error: Exception, catalog: Any, crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg tries again where no answer came, and then finds its own first commit."""
    monkeypatch.setattr("dvcodec.tables.iceberg.catalogs._WAITS", (0.0, 0.0))
    answers(monkeypatch, error, done=True)
    writer = committer(from_catalog(catalog, "db.t"))
    assert delete(writer, {crafted.paths["a"]: RowSet([6])}) == writer.current().info.id
    assert live(catalog) == 45 - 4
    answers(monkeypatch, exceptions.ServerError("IllegalArgumentException: no version 3"), done=False)
    with pytest.raises(CommitUnknown, match=r"db\.t: .* commit is in: ServerError: Illegal.*: no version 3"):
        delete(writer, {crafted.paths["a"]: RowSet([7])})


# ---------------------------------------------------------------------- refusals


def answers(monkeypatch: pytest.MonkeyPatch, error: Exception, *, done: bool) -> None:
    """Let the catalog answer commits by an error, after it has done them or not."""
    commit = sql.SqlCatalog.commit_table

    def answer(self: Any, *arguments: Any) -> Any:
        if done:
            commit(self, *arguments)
        raise error

    monkeypatch.setattr(sql.SqlCatalog, "commit_table", answer)


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (exceptions.CommitFailedException("stale"), CommitConflict, r"^db\.t: stale"),
        (exceptions.ForbiddenError("not you"), OSError, r"^db\.t: the catalog refused the commit: not you"),
        (ValueError("no such field"), OSError, r"^db\.t: the catalog refused the commit: no such field"),
    ],
)
def test_a_refusal_leaves_nothing(
    error: Exception,
    raised: type[Exception],
    message: str,
    catalog: Any,
    crafted: IcebergFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = set(crafted.folder.rglob("*"))
    answers(monkeypatch, error, done=False)
    writer = committer(from_catalog(catalog, "db.t"))
    with pytest.raises(raised, match=message):
        delete(writer, {crafted.paths["a"]: RowSet([6])})
    assert set(crafted.folder.rglob("*")) - files <= {crafted.folder / "data"}
    assert live(catalog) == 45 - 3


def test_a_refusal_that_cannot_be_looked_into_is_unknown(
    catalog: Any, crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit may be in, so that its files stay."""

    def refuse(self: Any, *arguments: Any) -> Any:
        commit(self, *arguments)
        monkeypatch.setattr(sql.SqlCatalog, "load_table", gone)
        raise exceptions.CommitFailedException("stale")

    def gone(*_: object) -> Any:
        raise ConnectionError("gone")

    commit = sql.SqlCatalog.commit_table
    monkeypatch.setattr(sql.SqlCatalog, "commit_table", refuse)
    with pytest.raises(CommitUnknown, match=r"db\.t: stale; then it could not be read: gone"):
        tables.delete(from_catalog(catalog, "db.t"), positions={crafted.paths["a"]: RowSet([6])})
    monkeypatch.undo()
    assert live(catalog) == 45 - 4


def test_tables_without_a_catalog_of_theirs_are_refused(crafted: IcebergFiles) -> None:
    static = pytest.importorskip("pyiceberg.table").StaticTable
    table = from_pyiceberg(static.from_metadata(str(crafted.metadata)))
    with pytest.raises(OSError, match="the request to the catalog failed"):
        committer(table).current()
    with pytest.raises(
        UsageError, match="pyiceberg does not commit to a NoopCatalog; it does to catalogs of REST, SQL"
    ):
        committer(table).check(table.snapshot())


@pytest.mark.parametrize("name", ['"dot.ted"."na.me"', "`dot.ted`.`na.me`", ("dot.ted", "na.me")])
def test_parts_of_a_name_with_dots(catalog: Any, name: Any) -> None:
    catalog.create_namespace(("dot.ted",))
    made = catalog.create_table(("dot.ted", "na.me"), pa.schema([("id", pa.int64())]))
    made.append(pa.table({"id": range(10)}))
    assert enable(tables.open_table(name, catalog=catalog)).changes
    assert tables.open_table(name, catalog=catalog).delete(keys=pa.table({"id": [3]}), on=["id"]).rows == 1
    assert catalog.load_table(("dot.ted", "na.me")).scan().to_arrow()["id"].to_pylist() == [0, 1, 2, *range(4, 10)]


@each("name", ['"a.b', 'a"b".c', '"".t', '"a".', "`a`b"])
def test_quotes_that_are_not_of_a_part(catalog: Any, name: str) -> None:
    with pytest.raises(UsageError, match="expected parts with dots between them"):
        from_catalog(catalog, name)


@pytest.mark.parametrize(
    ("settings", "raised", "message"),
    [
        ({"type": "sql", "uri": "sqlite:////nowhere/at/all.db"}, OSError, "prod: it cannot be loaded: .*unable"),
        ({"type": "rest", "uri": "http://127.0.0.1:1"}, OSError, "127.0.0.1"),
        ({"type": "flat"}, UsageError, "catalog prod: .*flat"),
        ({}, UsageError, "catalog prod: "),
    ],
)
def test_catalogs_that_cannot_be_loaded(
    settings: dict[str, str], raised: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG.config", {"catalog": {"prod": settings}})
    with pytest.raises(raised, match=message):
        load("prod")


def test_what_a_rest_catalog_is_sent(catalog: Any, crafted: IcebergFiles) -> None:
    """It writes the metadata itself: it gets the snapshot, and what must still hold."""
    sent: list[Any] = []

    class Rest(pytest.importorskip("pyiceberg.catalog.rest").RestCatalog):  # type: ignore[misc]
        def __init__(self) -> None:
            pass

        def load_table(self, identifier: Any) -> Any:
            found = catalog.load_table(identifier)
            found.catalog = self
            return found

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> None:
            assert table.name() == ("db", "t")
            asked = (*updates, *requirements)
            sent.extend(json.loads(one.model_dump_json(by_alias=True, exclude_none=True)) for one in asked)

    writer = committer(from_catalog(Rest(), "db.t"))
    base = writer.current()
    metadata = set(crafted.folder.glob("metadata/*.json"))
    number = delete(writer, {crafted.paths["a"]: RowSet([6])}, base=base)
    added, reference, same_table, same_branch, same_schema = sent
    assert added["action"] == "add-snapshot"
    assert (added["snapshot"]["snapshot-id"], added["snapshot"]["parent-snapshot-id"]) == (number, base.info.id)
    assert reference == {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
    assert same_table["type"] == "assert-table-uuid"
    assert same_branch == {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": base.info.id}
    assert same_schema == {"type": "assert-current-schema-id", "current-schema-id": 0}
    assert set(crafted.folder.glob("metadata/*.json")) == metadata


def by_hand(catalog: Any, crafted: IcebergFiles, tweak: Callable[[dict[str, Any]], object]) -> None:
    """Let another writer change the metadata: by hand, as pyiceberg cannot write this version."""
    loaded = catalog.load_table("db.t")
    metadata = json.loads(Path(loaded.metadata_location).read_bytes())
    tweak(metadata)
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
