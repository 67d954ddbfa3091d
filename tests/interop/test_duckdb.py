"""Deletes that dvcodec commits, read by DuckDB's own readers of Iceberg, Delta and Lance (interop/duckdb)."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import amounts
from dvcodec.tables import Table, audit, compact_deletes, enable, live_batches, open_table
from interop.driver import INTEROP, Program, need

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]

HERE = INTEROP / "duckdb"
MADE = Path(__file__).parents[1] / "vectors" / "tables"
DELETES = amounts.of(4, 40)
FILE_ROWS = 400
ROWS = 5 * FILE_ROWS
VALUES = pa.table(
    {
        "id": range(ROWS),
        "part": [f"p {i % 3}" for i in range(ROWS)],
        "n": [None if i % 10 == 7 else i % 10 for i in range(ROWS)],
    },
    schema=pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())]),
)


class DuckDB(Program):
    """The program of interop/duckdb."""

    def __init__(self, scratch: Path) -> None:
        super().__init__([str(HERE / ".venv" / "bin" / "python"), str(HERE / "read.py")], scratch)

    def rows(self, table: Table, query: str) -> list[list[Any]]:
        location = table.metadata.source if table.kind.value == "iceberg" else table.location  # type: ignore[attr-defined]
        answers = self.run(table.kind.value, location, query).splitlines()
        return [json.loads(line) for line in answers]


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> DuckDB:
    """The program; `make interop-duckdb` makes its environment."""
    need((HERE / ".venv" / ".installed").is_file(), "interop/duckdb/.venv")
    return DuckDB(tmp_path_factory.mktemp("duckdb"))


Opener = Callable[[], Table]


def of_iceberg(folder: Path, version: int, granularity: str = "file") -> Opener:
    """Partitioned; a column is added between two appends."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import StringType

    catalog = sql.SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=folder.as_uri())
    catalog.create_namespace("db")
    properties = {"format-version": "2", "write.delete.granularity": granularity}
    made = catalog.create_table("db.t", VALUES.schema, properties=properties)
    made.append(VALUES.slice(0, FILE_ROWS))
    with made.update_spec() as spec:
        spec.add_field("part", IdentityTransform(), "part")
    with made.update_schema() as schema:
        schema.add_column("later", StringType())
    made.append(VALUES.slice(FILE_ROWS))
    if version == 3:
        assert enable(open_table("db.t", catalog=catalog)).changes
    return lambda: open_table("db.t", catalog=catalog)


def of_delta(folder: Path) -> Opener:
    deltalake = pytest.importorskip("deltalake")
    for start in range(0, ROWS, FILE_ROWS):
        part = VALUES.slice(start, FILE_ROWS)
        deltalake.write_deltalake(folder / "t", part, partition_by=["part"], mode="append")
    assert enable(open_table(folder / "t")).changes
    return lambda: open_table(folder / "t")


def of_lance(folder: Path) -> Opener:
    lance = pytest.importorskip("lance")
    lance.write_dataset(VALUES, str(folder / "t.lance"), max_rows_per_file=FILE_ROWS)
    return lambda: open_table(folder / "t.lance")


TABLES: dict[str, Callable[[Path], Opener]] = {
    "iceberg 2, files": lambda folder: of_iceberg(folder, 2),
    "iceberg 2, partitions": lambda folder: of_iceberg(folder, 2, "partition"),
    "iceberg 3": lambda folder: of_iceberg(folder, 3),
    "delta": of_delta,
    "lance": of_lance,
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_after_deletes(duckdb: DuckDB, tmp_path: Path, name: str) -> None:
    """By condition and by keys, of all rows of a data file, and after the files of deletes were merged."""
    opened, chance = TABLES[name](tmp_path), random.Random(1)
    rows = {row["id"]: list(row.values()) for row in VALUES.to_pylist()}

    def check() -> None:
        assert duckdb.rows(opened(), "SELECT id, part, n FROM {table} ORDER BY id") == list(rows.values())

    check()
    for number in range(DELETES):
        if number % 2:
            gone = set(chance.sample(range(ROWS), 30))
            opened().delete(keys=pa.table({"id": pa.array(gone, pa.int64())}), on=["id"])
        else:
            n, first = chance.randrange(10), chance.randrange(ROWS)
            opened().delete((pc.field("n") == n) & (pc.field("id") >= first))
            gone = {key for key, (_, _, value) in rows.items() if value == n and key >= first}
        rows = {key: row for key, row in rows.items() if key not in gone}
        check()
    opened().delete(pc.field("id") < FILE_ROWS)
    rows = {key: row for key, row in rows.items() if key >= FILE_ROWS}
    check()
    if name.startswith("iceberg 2"):
        assert compact_deletes(opened()).committed
        check()
    ((count, total),) = duckdb.rows(opened(), "SELECT count(*), sum(id)::BIGINT FROM {table} WHERE n = 3")
    some = [key for key, (_, _, n) in rows.items() if n == 3]
    assert (count, total) == (len(some), sum(some))
    assert audit(opened()).ok


@pytest.mark.parametrize("name", ["named", "checkpointed", "compacted"])
def test_delta_tables_of_spark(duckdb: DuckDB, tmp_path: Path, name: str) -> None:
    """With vectors of Spark, column mapping and checkpoints: what dvcodec deletes in addition is gone too."""
    folder = Path(shutil.copytree(MADE / "delta" / "spark-4.4.0" / name / "table", tmp_path / "t"))
    counted = "SELECT count(*) FROM {table}"

    def live() -> int:
        return sum(batch.num_rows for batch in live_batches(open_table(folder)))

    assert duckdb.rows(open_table(folder), counted) == [[live()]]
    column = open_table(folder).snapshot().schema().names[0]
    done = open_table(folder).delete(f"hash({column}) % 3 = 1")
    assert done.rows > 0
    assert duckdb.rows(open_table(folder), counted) == [[live()]]
