"""Deletes that dvcodec commits: engines read the same rows as after their own DELETE, and write on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dvcodec.tables import audit, live_batches, open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.run import run
from dvcodec.tables.model import Deletion
from interop.engines import Engines
from tables.deleting.finders import Where

# A JVM is large: none beside those of the other tests with Spark.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]


def delete(root: Path, first: int, step: int, column: str = "id") -> Deletion:
    """Delete the rows whose id is `first`, `first + step`, ..."""
    return run(committer_of(open_table(root)), Where(column, lambda number: number % step == first))


def ids(root: Path, column: str = "id") -> list[int]:
    batches = live_batches(open_table(root), columns=[column])
    return sorted(number for batch in batches for number in batch.column(0).to_pylist())


DELTA = {
    "mapped": (
        "PARTITIONED BY (part)",
        (
            "'delta.columnMapping.mode' = 'name', 'delta.enableInCommitTimestamps' = 'true', "
            "'delta.checkpointInterval' = '1', 'delta.checkpointPolicy' = 'v2'"
        ),
        "ALTER TABLE delta.`{root}` RENAME COLUMN name TO called",
    ),
    "row tracking": (
        "CLUSTER BY (id)",
        (
            "'delta.enableRowTracking' = 'true', 'delta.checkpointInterval' = '1', "
            "'delta.checkpoint.writeStatsAsJson' = 'false', 'delta.checkpoint.writeStatsAsStruct' = 'true'"
        ),
        "",
    ),
}
"""Layout, properties, and a change before the deletes."""
VALUES = "SELECT id, 'p' || id % 3 AS part, 'row ' || id AS name, CAST(id AS DECIMAL(30, 4)) / 7 AS price"


@pytest.mark.parametrize("kind", DELTA)
def test_delta_in_spark(engines: Engines, kind: str) -> None:
    layout, properties, change = DELTA[kind]
    root, copy = (engines.folder / f"{name} {kind}".replace(" ", "-") for name in ("delta", "copy"))

    def sql(text: str, at: Path = root) -> list[list[str]]:
        found: list[list[str]] = engines.ask("delta-sql", text=text.format(root=at))
        return found

    def rows(at: Path) -> list[list[str]]:
        return sql("SELECT * FROM delta.`{root}` ORDER BY id", at)

    def changed(at: Path) -> list[list[str]]:
        """What the change data feed has of the commits after the copy was made."""
        feed = f"table_changes_by_path('{{root}}', {base + 1})"
        return sql(f"SELECT * EXCEPT (_commit_timestamp) FROM {feed} ORDER BY _commit_version, id, _change_type", at)

    on = ", ".join([f"'delta.{name}' = 'true'" for name in ("enableDeletionVectors", "enableChangeDataFeed")])
    on += f", {properties}"
    columns = "id BIGINT, part STRING, name STRING, price DECIMAL(38, 6)"
    sql(f"CREATE TABLE delta.`{{root}}` ({columns}) USING delta {layout} TBLPROPERTIES ({on})")
    for start in (0, 500):
        sql(f"INSERT INTO delta.`{{root}}` {VALUES} FROM range({start}, {start + 500}, 1, 2)")
    if change:
        sql(change)
    shutil.copytree(root, copy)
    base = open_table(root).snapshot().info.id
    skipping = "SELECT COUNT(*) FROM delta.`{root}` WHERE price > 1000000"

    for first, divisor in ((1, 5), (0, 3), (2, 5)):  # id % 3 is the partition: these files are removed
        delete(root, first, divisor)
        sql(f"DELETE FROM delta.`{{root}}` WHERE id % {divisor} = {first}", copy)
    before = rows(root)
    assert before == rows(copy)
    assert changed(root) == changed(copy)
    assert len(changed(root)) == 1000 - len(before)
    assert ids(root) == [int(row[0]) for row in before]
    assert audit(open_table(root)).findings == ()
    assert sql(skipping) == [["0"]]
    newest = max((root / "_delta_log").glob("*.json")).read_text().splitlines()
    for stats in (action["add"]["stats"] for action in map(json.loads, newest) if "add" in action):
        assert json.loads(stats).keys() == {"numRecords", "minValues", "maxValues", "nullCount", "tightBounds"}
    version = open_table(root).snapshot().info.id
    for text in (
        "DELETE FROM delta.`{root}` WHERE id < 20",
        f"INSERT INTO delta.`{{root}}` {VALUES} FROM range(2000, 2100)",
        "UPDATE delta.`{root}` SET price = 0 WHERE id BETWEEN 100 AND 130",
        (
            "MERGE INTO delta.`{root}` t USING (SELECT id FROM range(0, 3000, 11)) s ON t.id = s.id "
            "WHEN MATCHED THEN DELETE"
        ),
    ):
        sql(text)
        sql(text, copy)
    assert rows(root) == rows(copy)
    delete(root, 0, 7)
    sql("OPTIMIZE delta.`{root}`")
    sql("VACUUM delta.`{root}` RETAIN 200 HOURS")
    delete(root, 3, 7)
    sql("DELETE FROM delta.`{root}` WHERE id % 7 IN (0, 3)", copy)
    last = rows(root)
    assert last == rows(copy)
    assert ids(root) == [int(row[0]) for row in last]
    assert sql(f"SELECT * FROM delta.`{{root}}` VERSION AS OF {version} ORDER BY id") == before
    assert {one.check for one in audit(open_table(root)).findings} <= {"orphan-vector-file", "orphan-data-file"}
