"""Commits through a REST catalog of Iceberg's own classes (interop/java), by pyiceberg's RestCatalog."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import pytest

import amounts
from dvcodec import RowSet
from dvcodec.core.errors import CommitUnknown, UsageError
from dvcodec.tables import audit, open_table
from dvcodec.tables.iceberg.catalogs import from_catalog
from dvcodec.tables.iceberg.commit import committer
from interop.driver import JAVA, _java, need
from samples.iceberg_table import Commit, IcebergFiles, build_iceberg
from samples.id_tables import make_iceberg
from tables.deleting.races import FILE_ROWS, ROWS, WRITERS, race
from tables.iceberg.deleting import delete
from tables.iceberg.in_turn import InTurn

pytestmark = pytest.mark.interop


class Server:
    """The catalog's process.

    Attributes:
        uri: of the catalog.
    """

    def __init__(self, warehouse: Path) -> None:
        command = [*_java(JAVA, "Main"), "rest-catalog", str(warehouse)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.uri = f"http://127.0.0.1:{int(cast('IO[str]', self._process.stdout).readline())}"

    def fault(self, name: str) -> None:
        """Let the next commit meet a fault: ``lost-answer``, ``lost-request``."""
        urllib.request.urlopen(urllib.request.Request(f"{self.uri}/faults/{name}", method="POST")).close()

    def close(self) -> None:
        self._process.communicate(timeout=600)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    need((JAVA / "target" / "classpath.txt").is_file(), "the program of interop/java")
    found = Server(tmp_path_factory.mktemp("warehouse"))
    yield found
    found.close()


@pytest.fixture
def catalog(server: Server) -> Any:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    return rest.RestCatalog("rest", uri=server.uri)


@pytest.fixture
def crafted(tmp_path: Path, catalog: Any) -> IcebergFiles:
    """A table of the catalog, ``db.<name of the folder>``."""
    first = Commit(data={"a": 20, "b": 20, "c": 5}, vectors={"a": RowSet([1, 2])})
    made = build_iceberg(tmp_path / "t", first, Commit(deletes=[{"b": RowSet([3])}]))
    catalog.create_namespace_if_not_exists("db")
    catalog.register_table(f"db.{tmp_path.name}", str(made.metadata))
    return made


def name_of(crafted: IcebergFiles) -> str:
    return f"db.{crafted.folder.parent.name}"


def live(catalog: Any, crafted: IcebergFiles) -> int:
    found = catalog.load_table(name_of(crafted)).scan().to_arrow().num_rows
    assert isinstance(found, int)
    return found


def test_commits_one_after_the_other(catalog: Any, crafted: IcebergFiles) -> None:
    a, b, c = (crafted.paths[name] for name in "abc")
    writer = committer(from_catalog(catalog, name_of(crafted)))
    assert live(catalog, crafted) == 45 - 3
    delete(writer, {a: RowSet([5]), b: RowSet([7])})
    assert live(catalog, crafted) == 45 - 5
    delete(writer, {a: RowSet([6]), c: RowSet.from_ranges([(0, 5)])})
    assert live(catalog, crafted) == 45 - 6 - 5
    table = from_catalog(catalog, name_of(crafted))
    assert audit(table).ok
    metadata = catalog.load_table(name_of(crafted)).metadata
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [one.snapshot_id for one in metadata.snapshots]
    assert {file.path for file in table.snapshot().data_files} == {a, b}
    names = {found.location for found in table.stored_files()} - table.referenced()
    assert {Path(name).name for name in names} <= {"version-hint.text", "c"}


def test_a_table_as_a_spark_session_names_it(server: Server, catalog: Any, crafted: IcebergFiles) -> None:
    """`jobs.delete` commits to it through the service, by pyiceberg's catalog of the session's settings."""
    pytest.importorskip("pyspark")
    from dvcodec.spark import named
    from spark.test_named import Session, lake

    session: Any = Session(str(crafted.folder), "iceberg", "lake", **lake(type="rest", uri=server.uri))
    for name, deleted in ((f"lake.{name_of(crafted)}", 5), (name_of(crafted), 6)):
        table = open_table(named.resolve(session, name))
        assert table.delete(positions={crafted.paths["b"]: RowSet([deleted])}).committed
    assert live(catalog, crafted) == 45 - 3 - 2
    gone: Any = Session("/wh/t", "iceberg", **lake(type="rest", uri=server.uri))
    with pytest.raises(UsageError, match=r"NoSuchTable.*load_catalog\('lake', ..\).load_table\('db.nothing'\)"):
        named.resolve(gone, "lake.db.nothing")


def test_a_lost_answer_is_no_second_commit(server: Server, catalog: Any, crafted: IcebergFiles) -> None:
    writer = committer(from_catalog(catalog, name_of(crafted)))
    server.fault("lost-answer")
    number = delete(writer, {crafted.paths["a"]: RowSet([5])})
    assert writer.current().info.id == number
    assert live(catalog, crafted) == 45 - 4


def test_a_lost_request_is_unknown(server: Server, catalog: Any, crafted: IcebergFiles) -> None:
    """The request may still arrive: that it is not in yet says nothing."""
    writer = committer(from_catalog(catalog, name_of(crafted)))
    server.fault("lost-request")
    with pytest.raises(CommitUnknown, match="did not say whether the commit is in"):
        delete(writer, {crafted.paths["a"]: RowSet([5])})
    assert live(catalog, crafted) == 45 - 3


@pytest.mark.parametrize("writers", WRITERS)
def test_races(server: Server, catalog: Any, tmp_path: Path, writers: int) -> None:
    made = make_iceberg(tmp_path / "t", ROWS, FILE_ROWS)
    catalog.create_namespace_if_not_exists("db")
    catalog.register_table(f"db.{tmp_path.name}", str(made.metadata))
    race({"catalog": {"type": "rest", "uri": server.uri}, "name": f"db.{tmp_path.name}"}, writers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(amounts.of(1, 5)))
def test_in_turn_with_pyiceberg(catalog: Any, tmp_path: Path, seed: int) -> None:
    catalog.create_namespace_if_not_exists("db")
    InTurn(catalog, f"db.{tmp_path.name}", seed).run()


@pytest.mark.filterwarnings("ignore")
def test_what_pyiceberg_still_does_in_version_3(catalog: Any, crafted: IcebergFiles) -> None:
    """Changes that the server writes into the metadata; no new rows (`dvcodec.tables.adapters`)."""
    from pyiceberg.types import StringType

    table = catalog.load_table(name_of(crafted))
    assert table.format_version == 3
    with table.update_schema() as schema:
        schema.add_column("more", StringType())
    number = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(number, "here").commit()
    table.manage_snapshots().rollback_to_snapshot(table.current_snapshot().parent_snapshot_id).commit()
    with pytest.raises(ValueError, match="Cannot write manifest for table version: 3"):
        table.append(table.scan().to_arrow())
    found = catalog.load_table(name_of(crafted))
    assert found.current_snapshot().snapshot_id != number
    assert from_catalog(catalog, name_of(crafted)).snapshot().schema().names[-1] == "more"
