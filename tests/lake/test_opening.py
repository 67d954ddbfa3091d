"""Tables in buckets, opened from objects of pyiceberg and deltalake: their storage options lead to the store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import amounts
from dvcodec.tables import audit, enable, open_table
from lake.buckets import Bucket, fresh
from lake.servers import Server
from tables.iceberg.in_turn import InTurn

ROWS = pa.table({"id": range(20)})
LEFT = [number for number in range(20) if number not in (3, 4)]


def test_a_table_of_deltalake(s3: Bucket) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(f"{s3.url}/t", ROWS, storage_options=s3.options)

    def load() -> Any:
        return deltalake.DeltaTable(f"{s3.url}/t", storage_options=s3.options)

    enable(open_table(load()))
    assert open_table(load()).delete(pc.field("id").isin([3, 4])).rows == 2
    found = deltalake.QueryBuilder().register("t", load()).execute("SELECT id FROM t")
    assert sorted(pa.table(found)["id"].to_pylist()) == LEFT
    assert audit(open_table(load())).ok


def sql_catalog(s3: Bucket, folder: Path) -> Any:
    """A catalog whose tables are in a bucket, with the namespace ``db``."""
    pytest.importorskip("sqlalchemy")
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    properties = {
        "s3.endpoint": s3.options["aws_endpoint_url"],
        "s3.access-key-id": s3.options["aws_access_key_id"],
        "s3.secret-access-key": s3.options["aws_secret_access_key"],
        "s3.region": s3.options["aws_region"],
    }
    catalog = sql.SqlCatalog("x", uri=f"sqlite:///{folder}/x.db", warehouse=f"{s3.url}/w", **properties)
    catalog.create_namespace("db")
    return catalog


def test_a_table_of_a_catalog(s3_of_pyarrow: Bucket, tmp_path: Path) -> None:
    """The catalog's properties are pyiceberg's, and nothing else names the store."""
    catalog = sql_catalog(s3_of_pyarrow, tmp_path)
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    enable(open_table("db.t", catalog=catalog))
    assert open_table("db.t", catalog=catalog).delete(pc.field("id").isin([3, 4])).rows == 2
    loaded = catalog.load_table("db.t")
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == LEFT
    assert audit(open_table(loaded)).ok


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("server", ["versitygw that closes", pytest.param("moto", marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", range(amounts.of(1, 3)))
def test_in_turn_with_pyiceberg(server_named: Callable[[str], Server], server: str, tmp_path: Path, seed: int) -> None:
    InTurn(sql_catalog(fresh(server_named(server)), tmp_path), "db.t", seed).run()
