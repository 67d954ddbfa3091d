"""Vectors that dvcodec enables, and deletes that it commits: engines do the same by themselves, and write on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dvcodec.tables import audit, enable, live_batches, open_table
from dvcodec.tables.adapters import committer_of
from dvcodec.tables.deleting.run import run
from dvcodec.tables.delta.table import DeltaSnapshot
from interop.engines import Engines
from tables.deleting.finders import Where

# A JVM is large: none beside those of the other tests with Spark.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]


def delete(root: Path, first: int, step: int) -> None:
    """Delete the rows whose id is `first`, `first + step`, ..."""
    assert run(committer_of(open_table(root)), Where("id", lambda number: number % step == first)).committed


def assert_ids(root: Path, expected: list[int]) -> None:
    """Check that we read these, and that nothing is wrong with the table."""
    batches = live_batches(open_table(root), columns=["id"])
    assert sorted(number for batch in batches for number in batch["id"].to_pylist()) == expected
    assert audit(open_table(root), orphans=False).findings == ()


ALL = """
'delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true',
'delta.enableInCommitTimestamps' = 'true', 'delta.checkpointInterval' = '2', 'delta.checkpointPolicy' = 'v2'
"""
CLUSTERED = """
'delta.enableChangeDataFeed' = 'true', 'delta.checkpointInterval' = '1',
'delta.checkpoint.writeStatsAsJson' = 'false', 'delta.checkpoint.writeStatsAsStruct' = 'true'
"""
DELTA = {
    "all": ("PARTITIONED BY (part)", ALL, "ALTER TABLE TABLE_ RENAME COLUMN name TO called"),
    "clustered": ("CLUSTER BY (id)", CLUSTERED, ""),
    "constraints": ("PARTITIONED BY (part)", "'delta.constraints.positive' = 'id >= 0'", ""),
    "plain": ("", "", ""),
}
"""Layout, properties, and a change before the deletes."""
VALUES = "SELECT id, 'p' || id % 3 AS part, 'row ' || id AS name, CAST(id AS DECIMAL(30, 4)) / 7 AS price"
IMPLIED = {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "identityColumns",
}
"""Features that the old protocol implied, and Spark leaves out where the table does not use them."""


def newest(root: Path) -> DeltaSnapshot:
    snapshot = open_table(root).snapshot()
    assert isinstance(snapshot, DeltaSnapshot)
    return snapshot


def assert_enabled_alike(base: DeltaSnapshot, ours: DeltaSnapshot, own: DeltaSnapshot) -> None:
    """Check that we have changed a table as Delta does."""
    assert (ours.protocol.reader_version, ours.protocol.writer_version) == (3, 7)
    for features in ("reader_features", "writer_features"):
        listed, theirs = (set(getattr(one.protocol, features)) for one in (ours, own))
        assert listed >= theirs
        assert listed - theirs <= IMPLIED
    assert ours.metadata.record == own.metadata.record
    assert ours.metadata.record == {**base.metadata.record, "configuration": ours.metadata.configuration}


@pytest.mark.parametrize("kind", ["all", *(pytest.param(one, marks=pytest.mark.long) for one in list(DELTA)[1:])])
def test_delta_in_spark(engines: Engines, kind: str) -> None:
    layout, properties, change = DELTA[kind]
    root, copy = (engines.folder / f"{name}-{kind}" for name in ("delta", "copy"))

    def sql(text: str, at: Path = root) -> list[list[str]]:
        found: list[list[str]] = engines.ask("delta-sql", text=text.replace("TABLE_", f"delta.`{at}`"))
        return found

    def in_both(*texts: str) -> list[list[str]]:
        """Run statements in both tables; return the rows of the last, which are the same."""
        for text in texts:
            found = sql(text)
            assert found == sql(text, copy)
        return found

    every = "SELECT * FROM TABLE_ ORDER BY id"
    columns = "id BIGINT, part STRING, name STRING, price DECIMAL(38, 6)"
    given = ", ".join(filter(None, ["'delta.enableDeletionVectors' = 'false'", properties]))
    sql(f"CREATE TABLE TABLE_ ({columns}) USING delta {layout} TBLPROPERTIES ({given})")
    sql(f"INSERT INTO TABLE_ {VALUES} FROM range(0, 1000, 1, 4)")
    if change:
        sql(change)
    shutil.copytree(root, copy)
    base = newest(root)

    assert enable(open_table(root)).path is not None
    sql("ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", copy)
    assert_enabled_alike(base, newest(root), newest(copy))

    for first, divisor in ((1, 5), (0, 3), (2, 5)):  # id % 3 is the partition: these files are removed
        delete(root, first, divisor)
        sql(f"DELETE FROM TABLE_ WHERE id % {divisor} = {first}", copy)
    before = in_both(every)
    assert_ids(root, [int(row[0]) for row in before])
    if "enableChangeDataFeed" in properties:
        feeds = (f"table_changes_by_path('{at}', {(base.info.id or 0) + 1})" for at in (root, copy))
        order = "ORDER BY _commit_version, id, _change_type"
        changed, theirs_changed = (sql(f"SELECT * EXCEPT (_commit_timestamp) FROM {feed} {order}") for feed in feeds)
        assert changed == theirs_changed
        assert len(changed) == 1000 - len(before)
    assert sql("SELECT COUNT(*) FROM TABLE_ WHERE price > 1000000") == [["0"]]
    log = max((root / "_delta_log").glob("*.json")).read_text().splitlines()
    for stats in (action["add"]["stats"] for action in map(json.loads, log) if "add" in action):
        assert json.loads(stats).keys() == {"numRecords", "minValues", "maxValues", "nullCount", "tightBounds"}
    version = newest(root).info.id

    after = in_both(
        "DELETE FROM TABLE_ WHERE id < 20",
        f"INSERT INTO TABLE_ {VALUES} FROM range(2000, 2100)",
        "MERGE INTO TABLE_ t USING (SELECT id FROM range(0, 3000, 11)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id < 1000 THEN DELETE WHEN MATCHED THEN UPDATE SET price = 0",
        every,
    )
    assert_ids(root, [int(row[0]) for row in after])
    delete(root, 0, 7)
    sql("OPTIMIZE TABLE_")
    sql("VACUUM TABLE_ RETAIN 200 HOURS")
    delete(root, 3, 7)
    sql("DELETE FROM TABLE_ WHERE id % 7 IN (0, 3)", copy)
    assert_ids(root, [int(row[0]) for row in in_both(every)])
    assert sql(every.replace("TABLE_", f"TABLE_ VERSION AS OF {version}")) == before
    assert {one.check for one in audit(open_table(root)).findings} <= {"orphan-vector-file", "orphan-data-file"}
    if kind == "constraints":
        refused = engines.answer("delta-sql", text=f"INSERT INTO delta.`{root}` VALUES (-1, 'p', '', 0)")
        assert "positive" in refused["error"]


def test_iceberg_of_version_2_in_spark(engines: Engines) -> None:
    root = Path(engines.ask("iceberg-create", name="older", files=2, stop=300, version=2))
    expected = list(range(300))

    def check(*gone: tuple[int, int]) -> None:
        """Check that the ids that these `delete` are gone, too, for Spark and for us."""
        expected[:] = [number for number in expected if all(number % step != first for first, step in gone)]
        assert engines.ask("iceberg-scan-name", name="older") == expected
        assert_ids(root, expected)

    engines.ask("iceberg-delete", name="older", where="id % 7 = 1")
    assert enable(open_table(root)).changes == ("format-version: 2 -> 3",)
    check((1, 7))
    engines.ask("iceberg-delete", name="older", where="id % 7 = 2")
    assert {vector.format for vector in open_table(root).snapshot().vectors} == {"iceberg"}
    delete(root, 3, 5)
    check((2, 7), (3, 5))
    engines.ask("iceberg-delete", name="older", where="id % 7 = 3")
    check((3, 7))
