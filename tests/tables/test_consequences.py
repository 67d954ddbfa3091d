"""What libraries do with a table after `enable`: the facts that the dry run shows, tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli_runner import run
from dvcodec.tables import TableKind, enable, open_table
from dvcodec.tables.consequences import CONSEQUENCES, INSTEAD
from samples import delta_log
from samples.id_tables import make_iceberg

ROWS = pa.table({"id": range(100), "part": ["a b", "c"] * 50})
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "delete.md"


def test_the_dry_run_and_the_guide_list_them(tmp_path: Path) -> None:
    tables = make_iceberg(tmp_path / "i", 20, 10, version=2).folder, tmp_path / "d"
    delta_log.empty_table(tables[1])
    for folder in tables:
        table = open_table(folder)
        facts = CONSEQUENCES[table.kind]
        done = enable(table, dry_run=True)
        shown = run("enable", folder, "--dry-run")
        if done.changes:
            assert done.consequences == facts
            assert all(one.library in shown.out for one in facts)
            assert run("enable", folder, "--dry-run", "--json").json["consequences"][0]["library"] == facts[0].library
    assert INSTEAD[TableKind.ICEBERG] in run("enable", tables[0], "--dry-run").out
    assert enable(open_table(tables[0])).consequences == CONSEQUENCES[TableKind.ICEBERG]
    assert enable(open_table(tables[0])).consequences == ()


def test_the_guide_has_them() -> None:
    text = GUIDE.read_text().replace("\\*", "*")
    for kind, facts in CONSEQUENCES.items():
        rows = [f"| {one.library} | {one.reads} | {one.writes} |" for one in facts]
        assert f"| {kind.value.title()} " + "\n| ".join(rows) in text


@pytest.mark.interop
@pytest.mark.parametrize("name", ["pyiceberg", "polars", "deltalake"])
def test_they_are_of_the_versions_that_are_tested(name: str) -> None:
    pytest.importorskip(name)
    stated = {one.library for facts in CONSEQUENCES.values() for one in facts}
    assert f"{name} {'.'.join(version(name).split('.')[:2])}" in stated


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
def test_pyiceberg_and_polars(tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    polars = pytest.importorskip("polars")
    from pyiceberg.types import StringType

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    catalog.create_table("db.t", ROWS.schema, properties={"format-version": "2"}).append(ROWS)
    enable(open_table("db.t", catalog=catalog))
    open_table("db.t", catalog=catalog).delete("id < 10")
    table = catalog.load_table("db.t")
    current = table.current_snapshot().snapshot_id
    assert table.scan().to_arrow().num_rows == table.scan().count() == 90
    assert polars.scan_iceberg(table.metadata_location).collect().height == 90

    def evolve() -> None:
        with table.update_schema() as schema:
            schema.add_column("x", StringType())

    acts: dict[str, Callable[[], Any]] = {
        "append": lambda: table.append(ROWS),
        "overwrite": lambda: table.overwrite(ROWS),
        "delete": lambda: table.delete("id = 50"),
        "upsert": lambda: table.upsert(ROWS, join_cols=["id"]),
        "by polars": lambda: polars.from_arrow(ROWS).write_iceberg(table, mode="append"),
        "evolve": evolve,
        "tag": lambda: table.manage_snapshots().create_tag(current, "t").commit(),
        "rollback": lambda: table.manage_snapshots().rollback_to_snapshot(table.history()[0].snapshot_id).commit(),
        "expire": lambda: (
            table.maintenance.expire_snapshots()
            .older_than(datetime.now() + timedelta(days=1))  # noqa: DTZ005
            .commit()
        ),
    }
    for name, act in acts.items():
        with pytest.raises((ValueError, NotImplementedError)) as error:
            act()
        assert re.search("table version: 3|V3 is not yet supported", str(error.value)), name


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
def test_deltalake_and_polars(tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    polars: Any = pytest.importorskip("polars")
    folder = tmp_path / "t"
    deltalake.write_deltalake(folder, ROWS)
    enable(open_table(folder))

    def table() -> Any:
        return deltalake.DeltaTable(folder)

    def rows() -> int:
        query = deltalake.QueryBuilder().register("t", table()).execute("SELECT count(*) AS n FROM t")
        return int(query.read_all()["n"][0].as_py())

    for read in ("to_pyarrow_table", "to_pandas", "to_pyarrow_dataset"):
        with pytest.raises(Exception, match="deletionVectors"):
            getattr(table(), read)()
    open_table(folder).delete("id < 10")
    assert rows() == polars.scan_delta(folder).collect().height == 90
    assert table().count() == 100
    polars.from_arrow(ROWS.slice(0, 10)).write_delta(folder, mode="append")
    assert rows() == 100
    table().delete("id = 50")
    assert rows() == 99
    table().update({"id": "1000"}, predicate="id = 51")
    assert rows() == 99
    merge = table().merge(ROWS.slice(60, 5), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_delete().execute()
    assert rows() == 94
