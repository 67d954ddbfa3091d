"""Tables opened by a folder, a name in a catalog, or an object of pyiceberg or deltalake."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cli_runner import run
from dvcodec import MissingExtra, RowSet, UsageError
from dvcodec.tables import TableKind, audit, enable, open_table
from dvcodec.tables.iceberg.catalogs import _store_options
from samples.iceberg_table import Commit, IcebergFiles, build_iceberg

deltalake = pytest.importorskip("deltalake")


@pytest.fixture
def crafted(tmp_path: Path) -> IcebergFiles:
    return build_iceberg(tmp_path / "t", Commit(data={"a": 20, "b": 20}, vectors={"a": RowSet([1, 2])}))


@pytest.fixture
def catalog(tmp_path: Path, crafted: IcebergFiles, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A catalog of one table; pyiceberg's configuration has it by the name ``prod``."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    found = sql.SqlCatalog("prod", uri=uri, warehouse=str(tmp_path))
    found.create_namespace("db")
    found.register_table("db.orders", str(crafted.metadata))
    settings = {"prod": {"type": "sql", "uri": uri}, "half": {"type": "rest"}}
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG.config", {"catalog": settings})
    return found


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A Delta table that deltalake made, in a folder whose name a URL spells otherwise."""
    folder = tmp_path / "my örders"
    settings = {"delta.enableDeletionVectors": "true"}
    deltalake.write_deltalake(folder, pa.table({"id": range(10)}), configuration=settings)
    deltalake.write_deltalake(folder, pa.table({"id": range(10, 20)}), mode="append")
    enable(open_table(folder))
    return folder


COMMANDS = {
    "audit": [],
    "table": [],
    "log": ["--json"],
    "report": ["-o", "{folder}/page.html"],
    "export-live": ["-o", "{folder}/live.parquet"],
    "convert-table": ["--to", "delta", "-o", "{folder}/converted"],
}
"""Commands that read a table of a catalog."""


def rows_of(catalog: Any) -> int:
    count: int = catalog.load_table("db.orders").scan().to_arrow().num_rows
    return count


@pytest.mark.parametrize("name", ["v1.metadata.json", "v1.gz.metadata.json", "v1.metadata.json.gz"])
def test_a_table_by_its_metadata_file(crafted: IcebergFiles, name: str) -> None:
    data = crafted.metadata.read_bytes()
    file = crafted.folder / "metadata" / name
    file.write_bytes(gzip.compress(data) if "gz" in name else data)
    table = open_table(file)
    assert (table.kind, table.location) == (TableKind.ICEBERG, str(crafted.folder))
    assert [vector.cardinality for vector in table.snapshot().vectors] == [2]


def test_an_empty_path() -> None:
    """An unset variable of a shell is not the root of the file system."""
    with pytest.raises(UsageError, match="a table's path or URL, found an empty one"):
        open_table("")


@pytest.mark.parametrize("name", ["db.orders", ("db", "orders")], ids=str)
@pytest.mark.parametrize("by_name", [True, False], ids=["named", "given"])
def test_a_table_of_a_catalog(catalog: Any, name: Any, by_name: bool) -> None:
    table = open_table(name, catalog="prod" if by_name else catalog)
    done = table.delete(positions={table.snapshot().data_files[0].path: RowSet([5])})
    assert (done.rows, rows_of(catalog)) == (1, 37)
    assert table.snapshot().info.id == done.snapshot
    assert audit(open_table(name, catalog=catalog)).ok


def test_a_table_of_pyiceberg(catalog: Any) -> None:
    loaded = catalog.load_table("db.orders")
    table = open_table(loaded)
    done = table.delete(positions={table.snapshot().data_files[0].path: RowSet([5])})
    assert rows_of(catalog) == 37
    assert table.snapshot().info.id == done.snapshot != loaded.metadata.current_snapshot_id
    assert open_table(loaded.refresh()).snapshot().info.id == done.snapshot


def test_a_catalog_that_cannot_be_used(catalog: Any, crafted: IcebergFiles) -> None:
    with pytest.raises(UsageError, match=r"db\.gone: no such table in the catalog"):
        open_table("db.gone", catalog="prod")
    with pytest.raises(UsageError, match="catalog other: URI missing"):
        open_table("db.orders", catalog="other")
    with pytest.raises(UsageError, match="catalog half: "):
        open_table("db.orders", catalog="half")
    with pytest.raises(UsageError, match="the table's name in it, not PosixPath"):
        open_table(crafted.folder, catalog=catalog)
    with pytest.raises(UsageError, match="kind delta: tables of pyiceberg"):
        open_table("db.orders", catalog=catalog, kind=TableKind.DELTA)
    with pytest.raises(UsageError, match="only_writer"):
        open_table("db.orders", catalog=catalog, only_writer=True)
    with pytest.raises(UsageError, match=r"expected a table's path or URL.*not tuple"):
        open_table(("db", "orders"))


def test_pyiceberg_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dvcodec\[catalogs\]'"):
        open_table("db.orders", catalog="prod")


@pytest.mark.parametrize(
    ("location", "properties", "expected"),
    [
        ("/lake/t", {"s3.region": "eu-west-1"}, {}),
        (
            "s3a://lake/t",
            {
                "s3.endpoint": "http://127.0.0.1:9",
                "s3.access-key-id": "of s3",
                "client.access-key-id": "of all",
                "client.secret-access-key": "secret",
                "s3.request-timeout": 20.0,
                "s3.session-token": None,
                "adls.account-name": "another store",
                "warehouse": "not of a store",
            },
            {
                "endpoint": "http://127.0.0.1:9",
                "aws_access_key_id": "of s3",
                "aws_secret_access_key": "secret",
                "timeout": "20.0",
                "allow_http": "true",
            },
        ),
        ("abfss://c@a.host/t", {"adls.account-key": "k", "s3.region": "r"}, {"azure_storage_account_key": "k"}),
        ("gs://lake/t", {"gcs.service.host": "https://host"}, {"endpoint": "https://host"}),
    ],
    ids=["local", "s3", "azure", "google"],
)
def test_the_properties_of_a_table_reach_its_store(
    catalog: Any, location: str, properties: dict[str, Any], expected: dict[str, str]
) -> None:
    loaded = catalog.load_table("db.orders")
    loaded.metadata_location, loaded.io.properties = f"{location}/metadata/v1.metadata.json", properties
    assert _store_options(loaded) == expected


def test_a_table_of_deltalake(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(orders.parent)
    options = {"aws_region": "eu-west-1", "timeout": "30s"}
    given = deltalake.DeltaTable(orders.name, version=0, storage_options=options)
    table = open_table(given)
    assert (table.location, table.kind) == (str(orders), TableKind.DELTA)
    assert table.folder.storage.options.values == {"aws_region": "eu-west-1", "timeout": "30000ms"}
    assert open_table(given, storage_options={"aws_region": "x"}).folder.storage.options.values == {"aws_region": "x"}
    done = table.delete(pc.field("id").isin([0, 12]))
    assert done.rows == 2
    found = pa.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(orders)).execute("SELECT id FROM t"))
    assert sorted(found["id"].to_pylist()) == [number for number in range(20) if number not in (0, 12)]


def test_the_only_writer_of_a_folder(crafted: IcebergFiles, orders: Path) -> None:
    crafted.metadata.rename(crafted.metadata.with_name("00001-aaaa.metadata.json"))
    (crafted.folder / "metadata" / "version-hint.text").unlink()
    rows = {crafted.paths["a"]: RowSet([5])}
    with pytest.raises(UsageError, match="only_writer=True to open_table"):
        open_table(crafted.folder).delete(positions=rows)
    table, old = (open_table(crafted.folder, only_writer=True) for _ in range(2))
    assert table.delete(positions=rows).rows == 1
    assert table.delete(positions={crafted.paths["b"]: RowSet([6])}).rows == 1
    assert len(list((crafted.folder / "metadata").glob("0000[123]-*.metadata.json"))) == 3
    assert audit(open_table(crafted.folder, only_writer=True)).ok
    with pytest.raises(UsageError, match="may be newer"):
        old.referenced()  # as of a metadata file that is not the newest any more
    with pytest.raises(UsageError, match="for Iceberg tables, not for delta"):
        open_table(orders, only_writer=True)


def test_commands(catalog: Any, crafted: IcebergFiles, tmp_path: Path) -> None:
    positions = tmp_path / "gone.parquet"
    pq.write_table(pa.table({"file_path": [crafted.paths["a"]], "pos": [7]}), positions)
    done = run("delete", "db.orders", "--catalog", "prod", "--positions", positions, "--json")
    assert (done.code, done.json["rows"], rows_of(catalog)) == (0, 1, 37)
    assert run("audit", "db.orders", "--catalog", "prod").code == 0
    assert run("enable", "db.orders", "--catalog", "prod", "--json").json["changes"] == []
    for command, more in COMMANDS.items():
        given = [part.format(folder=tmp_path) for part in more]
        found = run(command, "db.orders", "--catalog", "prod", *given)
        assert found.code == 0, found
        assert "no such table" in run(command, "db.gone", "--catalog", "prod", *given).complaint
    assert pq.read_metadata(tmp_path / "live.parquet").num_rows == 37
    crafted.metadata.rename(crafted.metadata.with_name("00001-aaaa.metadata.json"))
    for path in (crafted.folder / "metadata").iterdir():
        if path.name.endswith(("hint.text", ".json")) and path.name != "00001-aaaa.metadata.json":
            path.unlink()
    assert "--only-writer" in run("delete", crafted.folder, "--positions", positions).complaint
    assert run("delete", crafted.folder, "--positions", positions, "--only-writer").code == 0
