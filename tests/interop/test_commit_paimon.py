"""Deletes that dvcodec commits to Paimon's append tables: Paimon reads the rows that are left, and writes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

import amounts
from dvcodec.tables import enable, open_table
from dvcodec.tables.paimon import DataFileMeta, PaimonTable
from interop.driver import PyPaimon
from interop.engines import PARTS, Engines, running
from interop.test_commits import STOP, Predicate, positions
from tables.paimon.deleting import assert_clean, delete, live

# A JVM is large: none beside those of the other tests with Spark.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]


@pytest.fixture
def connector(tmp_path: Path) -> Iterator[Engines]:
    """Spark's connector, of Paimon 0.9."""
    with running(tmp_path, "3.5") as found:
        yield found


class Ids:
    """Which ids a table has, and what deletes them by our commits and by Paimon's."""

    def __init__(self, stop: int) -> None:
        self.left = set(range(stop))

    def ours(self, root: str, gone: Predicate) -> int:
        """Delete by a commit of ours."""
        rows = {}
        for file in PaimonTable(root).snapshot().data_files:
            found = positions(file.location, gone)
            if found:
                rows[DataFileMeta.of(file).file_name] = found
        self.left = {number for number in self.left if not gone(number)}
        return delete(root, rows)

    def theirs(self, engines: Engines, root: str, where: str, gone: Predicate) -> None:
        """Delete by Paimon's own classes."""
        buckets = any(file.bucket for file in PaimonTable(root).snapshot().data_files)
        engines.ask("paimon-delete_in_buckets" if buckets else "paimon-delete", root=root, where=where)
        self.left = {number for number in self.left if not gone(number)}

    def insert(self, engines: Engines, root: str, start: int, stop: int) -> None:
        engines.ask("paimon-insert", root=root, start=start, stop=stop)
        self.left |= set(range(start, stop))

    def check(self, engines: Engines, root: str) -> None:
        """Check that Paimon and this library read the rows that are left, and that no file is left over."""
        assert engines.read("paimon", root=root) == live(root) == sorted(self.left)
        assert_clean(root)


LAYOUTS = {
    "partitioned": ("part", {}),
    "plain": (None, {"deletion-vector.index-file.target-size": "1 kb"}),
    "buckets": (None, {"bucket": "3", "bucket-key": "id"}),
    "index beside data, orc": ("part", {"index-file-in-data-file-dir": "true", "manifest.format": "orc"}),
    "row tracking, parquet": (None, {"row-tracking.enabled": "true", "manifest.format": "parquet"}),
}
"""The last two with their manifests in the other formats that Paimon has for them."""


CASES = [("partitioned", 64)]
if amounts.long:
    CASES += [("buckets", 64), *((layout, 32) for layout in LAYOUTS)]


@pytest.mark.parametrize(("layout", "bits"), CASES)
def test_paimon_writes_on(engines: Engines, layout: str, bits: int) -> None:
    """Where we have enabled vectors, too."""
    partition, options = LAYOUTS[layout]
    # Few files are many enough to be compacted.
    every = options | {"compaction.min.file-num": "2", "deletion-vectors.enabled": "false"}
    root = f"{engines.folder}/{layout} {bits}".replace(" ", "_").replace(",", "")
    engines.ask("paimon-create", root=root, stop=STOP, bits=bits, partition=partition, options=every)
    assert enable(open_table(root)).changes == ("deletion-vectors.enabled: false -> true",)
    ids = Ids(STOP)
    states = {1: sorted(ids.left)}

    def checked(snapshot: int | None = None) -> None:
        ids.check(engines, root)
        newest = PaimonTable(root).snapshot().info.id
        assert snapshot in (None, newest)
        states[newest] = sorted(ids.left)

    checked(ids.ours(root, lambda number: number % 11 == 3))
    ids.theirs(engines, root, "id < 20", lambda number: number < 20)
    checked()
    checked(ids.ours(root, lambda number: 100 < number < 300 or number % 11 == 4))
    # Data files of one part are removed; without partitions, this is a part of every file.
    checked(ids.ours(root, lambda number: number % len(PARTS) == 2))
    ids.insert(engines, root, STOP, STOP + 90)
    checked()
    checked(ids.ours(root, lambda number: number % 5 == 1))
    # All data files of the insert that have a row left.
    checked(ids.ours(root, lambda number: number >= STOP))
    ids.theirs(engines, root, "id % 17 = 4", lambda number: number % 17 == 4)
    checked()
    for version, expected in states.items():
        assert [row[0] for row in engines.ask("paimon-read", root=root, version=version)] == expected
        assert live(root, version) == expected
    if layout != "buckets":  # compaction of buckets is a writer's work
        ids.insert(engines, root, STOP + 90, STOP + 200)
        engines.ask("paimon-compact", root=root)
        assert PaimonTable(root).snapshot().info.operation == "COMPACT"
        checked()
        checked(ids.ours(root, lambda number: number % 5 == 2))
    engines.ask("paimon-expire", root=root, retain=1)
    assert len(PaimonTable(root).snapshots()) == 1
    checked()
    checked(ids.ours(root, lambda number: number % 5 == 3))
    ids.theirs(engines, root, "id % 19 = 4", lambda number: number % 19 == 4)
    checked()
    checked(ids.ours(root, lambda _: True))


@pytest.mark.long
def test_the_same_rows_as_by_sql_on_a_copy(connector: Engines) -> None:
    """Statements of dvcodec and of Paimon's own DELETE, each on its table; then both are written on.

    The metadata of 0.9 lacks what later releases added, and its Spark has SQL for all that is done to a table.
    """
    tables = {name: str(connector.folder / "paimon" / "db.db" / name) for name in ("mine", "twin")}

    def sql(name: str, text: str) -> list[list[str]]:
        found: list[list[str]] = connector.ask("paimon-sql", text=text.format(f"pai.db.{name}"))
        return found

    values = "SELECT /*+ COALESCE(1) */ id, 'p' || id % 3, IF(id % 7 = 0, NULL, 'row ' || id), CAST(id AS DOUBLE) / 8"
    sql("mine", "CREATE DATABASE IF NOT EXISTS pai.db")
    for name in tables:
        sql(
            name,
            "CREATE TABLE {} (id BIGINT, part STRING, name STRING, x DOUBLE) PARTITIONED BY (part) TBLPROPERTIES "
            "('bucket' = '-1', 'deletion-vectors.enabled' = 'true', 'file.format' = 'parquet')",
        )
        for start in (0, 200):
            sql(name, f"INSERT INTO {{}} {values} FROM range({start}, {start + 200})")

    def delete_in_both(where: str) -> None:
        assert open_table(tables["mine"]).delete(where).committed
        sql("twin", f"DELETE FROM {{}} WHERE {where}")
        rows = sql("mine", "SELECT * FROM {} ORDER BY id")
        assert rows == sql("twin", "SELECT * FROM {} ORDER BY id"), where
        assert [int(row[0]) for row in rows] == live(tables["mine"])
        assert_clean(tables["mine"])

    delete_in_both("id BETWEEN 30 AND 60 OR name IS NULL")
    delete_in_both("part = 'p1' AND NOT x < 40")
    delete_in_both("name LIKE '%9_' OR x * 8 IN (1, 2, 3.5)")
    delete_in_both("NOT (name > 'row 3' OR part = 'p2')")
    for name in tables:
        sql(name, f"INSERT INTO {{}} {values} FROM range(400, 450)")
        sql(name, "DELETE FROM {} WHERE id % 5 = 2")
        sql(name, "UPDATE {} SET id = id + 1000 WHERE id % 10 = 6")
    delete_in_both("id % 7 = 4")
    sql("mine", "CALL pai.sys.compact(table => 'db.mine')")
    delete_in_both("id % 11 = 4")
    first = sql("mine", "SELECT id FROM {} VERSION AS OF 1")
    assert sorted(int(row[0]) for row in first) == list(range(200))
    sql("mine", "CALL pai.sys.expire_snapshots(table => 'db.mine', retain_max => 1)")
    delete_in_both("id % 13 = 5")


def test_pypaimon_writes_on(engines: Engines, pypaimon: PyPaimon, tmp_path: Path) -> None:
    root = engines.ask("paimon-create", root=f"{tmp_path}/db.db/t", stop=STOP, bits=32, partition="part")
    ids = Ids(STOP)

    def checked() -> None:
        ids.check(engines, root)
        assert json.loads(pypaimon.run("table-scan", tmp_path)) == sorted(ids.left)

    ids.ours(root, lambda number: number % 11 == 3)
    checked()
    ids.ours(root, lambda number: number % len(PARTS) == 2 or number % 11 == 4)
    checked()
    lines = tmp_path / "lines"
    lines.write_text("\n".join(map(json.dumps, map(row, range(STOP, STOP + 50)))))
    pypaimon.run("table-append", tmp_path, lines)
    ids.left |= set(range(STOP, STOP + 50))
    checked()
    ids.ours(root, lambda number: number % 5 == 1)
    ids.theirs(engines, root, "id % 17 = 4", lambda number: number % 17 == 4)
    checked()


def row(number: int) -> dict[str, object]:
    """Return a row as `rows` in interop/spark/common.py has it."""
    return {
        "id": number,
        "part": PARTS[number % len(PARTS)],
        "name": f"row {number}",
        "price": None if number % 10 == 0 else number / 4,
        "day": str(date(2020, 1, 1) + timedelta(number % 400)),
    }
