"""Tables that dvcodec enabled deletion vectors in: engines do the same by themselves, read them and write on."""

from __future__ import annotations

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

COLUMNS = "id BIGINT, part STRING, price DECIMAL(38, 6)"
TABLES = {
    "plain": (COLUMNS, "", ""),
    "constraints": (
        f"{COLUMNS}, twice BIGINT GENERATED ALWAYS AS (id * 2)",
        "'delta.enableChangeDataFeed' = 'false', 'delta.constraints.positive' = 'id >= 0'",
        "PARTITIONED BY (part)",
    ),
    "tracked": (
        f"{COLUMNS}, at TIMESTAMP_NTZ",
        (
            "'delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', "
            "'delta.enableInCommitTimestamps' = 'true', "
            "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1'"
        ),
        "CLUSTER BY (id)",
    ),
}
"""Columns, properties and layout."""


def newest(root: Path) -> DeltaSnapshot:
    snapshot = open_table(root).snapshot()
    assert isinstance(snapshot, DeltaSnapshot)
    return snapshot


@pytest.mark.parametrize("name", TABLES)
def test_delta_spark(engines: Engines, name: str) -> None:
    columns, properties, layout = TABLES[name]
    root, copy = (engines.folder / f"{which} {name}".replace(" ", "-") for which in ("ours", "own"))

    def sql(text: str, at: Path = root) -> list[list[str]]:
        found: list[list[str]] = engines.ask("delta-sql", text=text.replace("TABLE_", f"delta.`{at}`"))
        return found

    def insert(start: int, stop: int) -> None:
        sql(f"INSERT INTO TABLE_ (id, part, price) SELECT id, 'p' || id % 3, id / 7 FROM range({start}, {stop}, 1, 2)")

    def check(expected: set[int]) -> None:
        assert {int(row[0]) for row in sql("SELECT id FROM TABLE_")} == expected
        ours = [one for batch in live_batches(open_table(root), columns=["id"]) for one in batch["id"].to_pylist()]
        assert (len(ours), set(ours)) == (len(expected), expected)
        assert audit(open_table(root), orphans=False).findings == ()

    given = ", ".join(filter(None, ["'delta.enableDeletionVectors' = 'false'", properties]))
    sql(f"CREATE TABLE TABLE_ ({columns}) USING delta {layout} TBLPROPERTIES ({given})")
    insert(0, 600)
    shutil.copytree(root, copy)
    before = newest(root)

    assert enable(open_table(root)).path is not None
    sql("ALTER TABLE TABLE_ SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", copy)
    ours, own = newest(root), newest(copy)
    for feature in ("reader_features", "writer_features"):
        listed = set(getattr(ours.protocol, feature))
        assert listed >= set(getattr(own.protocol, feature))
        # What the old protocol implied, and Spark leaves out where the table does not use it.
        assert listed - set(getattr(own.protocol, feature)) <= {
            "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns",
        }  # fmt: skip
    assert (ours.protocol.reader_version, ours.protocol.writer_version) == (3, 7)
    assert ours.metadata.record == own.metadata.record
    assert ours.metadata.record == {**before.metadata.record, "configuration": ours.metadata.configuration}
    expected = set(range(600))
    check(expected)

    sql("DELETE FROM TABLE_ WHERE id % 5 = 2")
    expected = {one for one in expected if one % 5 != 2}
    assert newest(root).vectors
    check(expected)
    insert(600, 700)
    expected |= set(range(600, 700))
    sql(
        "MERGE INTO TABLE_ t USING (SELECT id FROM range(590, 595)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 591 THEN DELETE WHEN MATCHED THEN UPDATE SET part = 'merged'"
    )
    expected -= {591}
    check(expected)
    assert int(sql("SELECT count(*) FROM TABLE_ WHERE part = 'merged'")[0][0]) == 3
    assert {int(row[0]) for row in sql("SELECT id FROM TABLE_ VERSION AS OF 1")} == set(range(600))
    if name == "constraints":
        refused = engines.answer("delta-sql", text=f"INSERT INTO delta.`{root}` (id, part, price) VALUES (-1, 'p', 0)")
        assert "positive" in refused["error"]
        assert sql("SELECT id FROM TABLE_ WHERE twice != id * 2") == []
    sql("OPTIMIZE TABLE_")
    check(expected)
    sql("VACUUM TABLE_")
    check(expected)
    (info,) = (one for one in open_table(root).snapshots() if one.id == 2)
    assert info.operation == "SET TBLPROPERTIES"


def ours_delete(root: Path, gone: range) -> None:
    assert run(committer_of(open_table(root)), Where("id", gone.__contains__)).committed


def assert_clean(root: Path, expected: set[int]) -> None:
    ours = [one for batch in live_batches(open_table(root), columns=["id"]) for one in batch["id"].to_pylist()]
    assert (len(ours), set(ours)) == (len(expected), expected)
    assert audit(open_table(root), orphans=False).findings == ()


@pytest.mark.parametrize("partition", [None, "part"])
def test_paimon_in_java(engines: Engines, partition: str | None) -> None:
    root = engines.folder / f"paimon-{partition}"
    off = {"deletion-vectors.enabled": "false"}
    engines.ask("paimon-create", root=str(root), stop=300, bits=32, partition=partition, options=off)
    assert enable(open_table(root)).changes == ("deletion-vectors.enabled: false -> true",)
    expected = set(range(300))
    assert set(engines.ask("paimon-scan", root=str(root))) == expected
    engines.ask("paimon-delete", root=str(root), where="id % 7 = 1")
    expected -= {one for one in expected if one % 7 == 1}
    assert set(engines.ask("paimon-scan", root=str(root))) == expected
    assert open_table(root).snapshot().vectors
    assert_clean(root, expected)
    engines.ask("paimon-insert", root=str(root), start=300, stop=350)
    expected |= set(range(300, 350))
    ours_delete(root, range(20, 40))
    expected -= set(range(20, 40))
    assert set(engines.ask("paimon-scan", root=str(root))) == expected
    engines.ask("paimon-compact", root=str(root))
    assert set(engines.ask("paimon-scan", root=str(root))) == expected
    assert_clean(root, expected)


def test_iceberg_in_spark(engines: Engines) -> None:
    root = Path(engines.ask("iceberg-create", name="older", files=2, stop=300, version=2))
    engines.ask("iceberg-delete", name="older", where="id % 7 = 1")
    expected = {one for one in range(300) if one % 7 != 1}
    assert enable(open_table(root)).changes == ("format-version: 2 -> 3",)
    assert set(engines.ask("iceberg-scan-name", name="older")) == expected
    engines.ask("iceberg-delete", name="older", where="id % 7 = 2")
    expected -= {one for one in expected if one % 7 == 2}
    assert {vector.format for vector in open_table(root).snapshot().vectors} == {"iceberg"}
    ours_delete(root, range(20, 40))
    expected -= set(range(20, 40))
    assert set(engines.ask("iceberg-scan-name", name="older")) == expected
    engines.ask("iceberg-delete", name="older", where="id = 50")
    assert set(engines.ask("iceberg-scan-name", name="older")) == expected - {50}
    assert_clean(root, expected - {50})
