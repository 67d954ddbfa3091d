"""`jobs.delete` beside the connectors' own DELETE on a copy: the same rows; and the connectors write on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dvcodec.tables import audit, open_table
from interop.engines import Engines
from interop.test_deletes import DELTA, VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.interop,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("default"),  # those of pyspark are not ours
]

CONDITIONS = (
    ("spark", "id BETWEEN 100 AND 130 OR price IS NULL"),
    ("auto", "part IN ('p1', 'plain', 'x/y=z?&') AND NOT id < 40"),
    ("spark", "length({name}) = 6 AND id % 3 = 1"),
    ("workers", "part = 'p2' AND sqrt(price) > 4 OR {name} LIKE '%7_'"),
)
"""Who is to read the data files, and the condition."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session without any connector; that of other tests, if this process has one."""
    from pyspark.sql import SparkSession

    from spark.sessions import set_up

    set_up()
    known = SparkSession.getActiveSession()
    session = SparkSession.builder.master("local[2,4]").getOrCreate()
    yield session
    if known is None:
        session.stop()


def test_delta(engines: Engines, spark: SparkSession) -> None:
    from dvcodec.spark import jobs

    layout, properties, change = DELTA["mapped"]
    root, copy = (engines.folder / name for name in ("spark-delta", "spark-delta-copy"))

    def sql(text: str, at: Path = root) -> list[list[str]]:
        found: list[list[str]] = engines.ask("delta-sql", text=text.replace("{root}", str(at)))
        return found

    columns = "id BIGINT, part STRING, name STRING, price DECIMAL(38, 6)"
    on = f"'delta.enableDeletionVectors' = 'true', {properties}"
    sql(f"CREATE TABLE delta.`{{root}}` ({columns}) USING delta {layout} TBLPROPERTIES ({on})")
    sql(f"INSERT INTO delta.`{{root}}` {VALUES} FROM range(0, 600, 1, 2)")
    sql(change)
    shutil.copytree(root, copy)
    for by, text in CONDITIONS:
        condition = text.format(name="called")
        done = jobs.delete(spark, str(root), condition, read_by=by)  # type: ignore[arg-type]
        assert done.committed
        sql(f"DELETE FROM delta.`{{root}}` WHERE {condition}", copy)
        assert sql("SELECT * FROM delta.`{root}` ORDER BY id") == sql("SELECT * FROM delta.`{root}` ORDER BY id", copy)
    keys = spark.createDataFrame([(number,) for number in range(0, 900, 7)], "id long")
    jobs.delete(spark, str(root), keys=keys, on=["id"])
    sql("DELETE FROM delta.`{root}` WHERE id % 7 = 0", copy)
    for at in (root, copy):  # one task: Delta leaves the vector of a file of which every row is deleted as an orphan
        sql(f"INSERT INTO delta.`{{root}}` {VALUES} FROM range(1000, 1010, 1, 1)", at)
        sql("DELETE FROM delta.`{root}` WHERE id % 5 = 2", at)
    assert sql("SELECT * FROM delta.`{root}` ORDER BY id") == sql("SELECT * FROM delta.`{root}` ORDER BY id", copy)
    assert audit(open_table(root)).findings == ()


def test_iceberg(engines: Engines, spark: SparkSession) -> None:
    from dvcodec.spark import jobs

    for name in ("spark_mine", "spark_twin"):
        root = engines.ask("iceberg-create", name=name, files=2, stop=400, partition="part")
        engines.ask("iceberg-delete", name=name, where="id % 11 = 3")
        if name == "spark_mine":
            mine = root

    def rows(name: str) -> list[list[str]]:
        statement = "SELECT id, part, name, CAST(price AS STRING), CAST(day AS STRING) FROM {table} ORDER BY id"
        found: list[list[str]] = engines.ask("iceberg-sql", name=name, statement=statement)
        return found

    for by, text in CONDITIONS:
        condition = text.format(name="name")
        done = jobs.delete(spark, mine, condition, read_by=by)  # type: ignore[arg-type]
        engines.ask("iceberg-delete", name="spark_twin", where=condition)
        assert rows("spark_mine") == rows("spark_twin"), (condition, done)
    keys = spark.createDataFrame([(number, f"row {number}") for number in range(0, 900, 7)], "id int, name string")
    jobs.delete(spark, mine, keys=keys, on=["id", "name"])
    engines.ask("iceberg-delete", name="spark_twin", where="id % 7 = 0")
    for name in ("spark_mine", "spark_twin"):
        engines.ask("iceberg-insert", name=name, start=400, stop=450)
        engines.ask("iceberg-delete", name=name, where="id % 5 = 2")
    assert rows("spark_mine") == rows("spark_twin")
    found = audit(open_table(mine))
    assert found.ok, found.findings
