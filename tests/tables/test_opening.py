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
    given: tuple[tuple[Any, dict[str, Any], str], ...] = (
        ("db.gone", {"catalog": "prod"}, r"db\.gone: no such table in the catalog"),
        ("db.orders", {"catalog": "other"}, "catalog other: URI missing"),
        ("db.orders", {"catalog": "half"}, "catalog half: "),
        (crafted.folder, {"catalog": catalog}, "the table's name in it, not PosixPath"),
        ("db.orders", {"catalog": catalog, "kind": TableKind.DELTA}, "kind delta: tables of pyiceberg"),
        ("db.orders", {"catalog": catalog, "only_writer": True}, "only_writer"),
        (("db", "orders"), {}, r"expected a table's path or URL.*not tuple"),
        ("", {}, "a table's path or URL, found an empty one"),  # of an unset variable of a shell
    )
    for target, options, message in given:
        with pytest.raises(UsageError, match=message):
            open_table(target, **options)


def test_pyiceberg_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dvcodec\[catalogs\]'"):
        open_table("db.orders", catalog="prod")


def test_the_properties_of_a_table_reach_its_store(catalog: Any) -> None:
    loaded = catalog.load_table("db.orders")
    of_s3: dict[str, Any] = {
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.access-key-id": "of s3",
        "client.access-key-id": "of all",
    }
    of_s3 |= {"s3.request-timeout": 20.0, "s3.session-token": None, "adls.account-name": "another store"}
    known = {"endpoint": "http://127.0.0.1:9", "aws_access_key_id": "of s3", "timeout": "20.0", "allow_http": "true"}
    for location, properties, expected in (
        ("/lake/t", {"s3.region": "eu-west-1"}, {}),
        ("s3a://lake/t", of_s3, known),
        ("abfss://c@a.host/t", {"adls.account-key": "k", "s3.region": "r"}, {"azure_storage_account_key": "k"}),
        ("gs://lake/t", {"gcs.service.host": "https://host"}, {"endpoint": "https://host"}),
    ):
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


def test_commands(catalog: Any, crafted: IcebergFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    positions = tmp_path / "gone.parquet"
    pq.write_table(pa.table({"file_path": [crafted.paths["a"]], "pos": [7]}), positions)
    done = run("delete", "db.orders", "--catalog", "prod", "--positions", positions, "--json")
    assert (done.code, done.json["rows"], rows_of(catalog)) == (0, 1, 37)
    for command in (
        "audit",
        "table",
        "log",
        "report -o page.html",
        "export-live -o l",
        "convert-table --to delta -o c",
    ):
        name, *more = command.split()
        assert run(name, "db.orders", "--catalog", "prod", *more).code == 0, command
        assert "no such table" in run(name, "db.gone", "--catalog", "prod", *more).complaint
    crafted.metadata.rename(crafted.metadata.with_name("00001-aaaa.metadata.json"))
    for path in (crafted.folder / "metadata").iterdir():
        if path.name.endswith(("hint.text", ".json")) and path.name != "00001-aaaa.metadata.json":
            path.unlink()
    assert "--only-writer" in run("delete", crafted.folder, "--positions", positions).complaint
    assert run("delete", crafted.folder, "--positions", positions, "--only-writer").code == 0
