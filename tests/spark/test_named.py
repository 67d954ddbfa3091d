"""Tables as a session names them: what `jobs.delete` opens, and where it commits."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dvcodec import UsageError
from dvcodec.spark import jobs, named
from dvcodec.tables import TableKind, open_table
from tables.deleting.random_tables import FORMATS
from tables.deleting.random_where import random_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


class Session:
    """A session whose connectors are not here: what it says of tables, and its settings."""

    def __init__(
        self,
        location: str,
        provider: str,
        current: str = "spark_catalog",
        properties: dict[str, str] | None = None,
        **settings: str,
    ) -> None:
        self.properties = [{"key": key, "value": value} for key, value in (properties or {}).items()]
        self.said = {"Location": location, "Provider": provider, "Type": "MANAGED"}
        self.conf = settings
        self.catalog = SimpleNamespace(currentCatalog=lambda: current, currentDatabase=lambda: "db")
        self.asked: list[str] = []

    def createDataFrame(self) -> None: ...

    def sql(self, text: str) -> Any:
        self.asked.append(text)
        heads = {"# col_name": "data_type", "Location": "string", "# Detailed Table Information": ""}
        rows = [{"col_name": name, "data_type": value} for name, value in [*heads.items(), *self.said.items()]]
        if text == "SET":
            rows = [{"key": key} for key in self.conf]
        elif text.startswith("SHOW TBLPROPERTIES"):
            rows = self.properties
        return SimpleNamespace(collect=lambda: rows)


def resolved(session: Session, table: Any) -> Any:
    given: Any = session
    return named.resolve(given, table)


def lake(**settings: str) -> dict[str, Any]:
    prefix = "spark.sql.catalog.lake"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {
        f"{prefix}.{key}": value for key, value in settings.items()
    }


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session("file:/wh/a b%20", "delta")
    for path in ("/wh/orders", "./orders", "s3://lake/orders", "a b", Path("orders"), r"C:\t"):
        assert resolved(session, path) == path
    assert not session.asked, "paths are not asked for"
    assert resolved(session, "orders") == resolved(session, "lake.`my.db`.orders") == "/wh/a b%20"
    assert resolved(session, "delta.`/wh/a b`") == "/wh/a b"
    assert resolved(Session("s3a://lake/t", "paimon"), "db.orders") == "s3a://lake/t"
    paimon = Session("", "paimon", properties={"bucket": "-1", "path": "file:/wh/db.db/orders"})
    assert resolved(paimon, "db.orders") == "/wh/db.db/orders", "Paimon says it in a property"
    spark_delta = SimpleNamespace(detail=lambda: SimpleNamespace(first=lambda: {"location": "file:/wh/t"}), toDF=None)
    assert resolved(session, spark_delta) == "/wh/t"
    (tmp_path / "orders").mkdir()
    with pytest.raises(UsageError, match=r"a table of the session, and a folder here: \./orders is the folder"):
        resolved(session, "orders")


def test_a_name_is_read_again_after_a_commit() -> None:
    session: Any = Session("/x", "delta")
    others: tuple[Any, ...] = ("delta.`/wh/orders`", "./orders", "s3://lake/orders", Path("x"), None)
    for table in ("orders", "lake.`my.db`.orders", *others):
        named.refresh(session, table)
    assert session.asked == ["REFRESH TABLE orders", "REFRESH TABLE lake.`my.db`.orders"]


def test_what_is_committed_to_in_another_way() -> None:
    """Each refusal says what to write."""
    line = r"pass what pyiceberg loads: jobs.delete\(spark, load_catalog\('lake', ..\).load_table\('db.t'\), ..\)"
    for settings in ({"type": "nessie"}, {"catalog-impl": "org.apache.iceberg.aws.dynamodb.DynamoDbCatalog"}):
        with pytest.raises(UsageError, match=line):
            resolved(Session("/wh/t", "iceberg", **lake(**settings)), "lake.db.t")
    for kind in ("hive", "glue", "rest"):  # there is none here, or pyiceberg lacks a package for it
        unreachable = lake(type=kind, uri="http://127.0.0.1:1", **{"glue.endpoint": "http://127.0.0.1:1"})
        with pytest.raises(UsageError, match=line):
            resolved(Session("/wh/t", "iceberg", **unreachable), "lake.db.t")
    with pytest.raises(UsageError, match="Paimon table of a hive metastore: commit through its engine"):
        resolved(Session("/wh/t", "paimon", **lake(metastore="hive")), "lake.db.t")


def test_iceberg_catalogs(tmp_path: Path) -> None:
    catalog = pytest.importorskip("pyiceberg.catalog")
    uri, warehouse = f"{tmp_path}/catalog.db", str(tmp_path / "wh")
    made = catalog.load_catalog("lake", type="sql", uri=f"sqlite:///{uri}", warehouse=warehouse)
    made.create_namespace("db")
    table = made.create_table("db.orders", ROWS.schema, properties={"format-version": "2"})
    table.append(ROWS)
    settings = lake(
        type="jdbc", uri=f"jdbc:sqlite:{uri}", warehouse=warehouse, **{"jdbc.user": "me", "cache-enabled": "true"}
    )
    for name, current in (("lake.db.orders", "spark_catalog"), ("db.orders", "lake"), ("orders", "lake")):
        found = open_table(resolved(Session(table.location(), "iceberg", current, **settings), name))
        assert found.kind is TableKind.ICEBERG
        assert found.location == table.location()
    for kind in ({"type": "hadoop"}, {"catalog-impl": "org.apache.iceberg.hadoop.HadoopCatalog"}):
        assert resolved(Session("/wh/db/orders", "iceberg", **lake(**kind)), "lake.db.orders") == "/wh/db/orders"
    for kind, why in (
        ({"type": "jdbc", "uri": "jdbc:oracle:thin:@x"}, "no counterpart of the catalog jdbc"),
        ({"catalog-impl": "my.Catalog", "type": "mine"}, "no counterpart of the catalog my.Catalog"),
        ({"type": "jdbc", "uri": f"jdbc:sqlite:{uri}"} | {"warehouse": warehouse}, "NoSuchTable.*db.nothing"),
    ):
        with pytest.raises(UsageError, match=f"{why}.*load_catalog.*load_table.*'db.nothing'"):
            resolved(Session("/wh/t", "iceberg", **lake(**kind)), "lake.db.nothing")


@pytest.mark.everywhere
def test_a_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FORMATS["delta"][0](tmp_path / "t", [random_rows(random.Random(1), 0, 20)])
    folder = tmp_path / "plain"
    spark.range(5).write.parquet(str(folder))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW dvcodec_view AS SELECT * FROM parquet.`{folder}`")
    spark.sql(f"CREATE TABLE dvcodec_plain USING parquet LOCATION '{folder}'")

    def refused(match: str, table: Any, session: Any = spark, **asked: Any) -> None:
        with pytest.raises(UsageError, match=match):
            jobs.delete(session, table, **({"where": "id = 1"} | asked))

    try:
        refused("a table of parquet, which has no deletion vectors: .* pass the folder .*plain", "dvcodec_plain")
        refused("Spark does not say where|a view: name its table", "dvcodec_view")
    finally:
        spark.sql("DROP TABLE dvcodec_plain")
    refused("nothing: neither a table of the session nor a folder", "nothing")
    refused("no_db.nothing: neither", "no_db.nothing")
    refused("delete: the first argument is the session, not 't'", "id = 1", "t")
    refused("keys: a DataFrame, Arrow data .*, not a list: spark.createDataFrame", "t", where=None, keys=[1], on="key")
    assert jobs.delete(spark, f"delta.`{tmp_path}/t`", "key < 3").rows == 3
    assert jobs.delete(spark, "t", "key < 5").rows == 2, "a folder here"
