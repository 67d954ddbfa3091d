"""dvcodec and Spark delete from one table at the same time: nothing is lost, and nothing comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

import amounts
from interop.driver import JAVA, need
from interop.engines import Engines
from interop.test_iceberg_rest import Server
from samples.rows import ids
from tables.deleting.racer import gone_after, open_door
from tables.deleting.races import Delete, State, Writers, check_history

# A JVM is large: none beside those of the other tests with Spark.
pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]

DELETES = amounts.of(12, 24)
ROWS = 1000
CONFLICTS = ("Concurrent", "CONCURRENT", "ValidationException", "CommitFailedException", "Cannot commit")
"""What Spark's errors say where another writer committed first."""


def statements(table: str) -> Iterator[tuple[str, set[int], set[int]]]:
    """Statements of Spark without end: text, ids that are gone after it, and ids that are new."""
    for turn in count():
        first, new = 3 * turn, ROWS + 10 * turn
        own = 500 + 2 * turn
        # Ids that dvcodec deletes at the same time, and some that it does not.
        yield f"DELETE FROM {table} WHERE id IN ({first}, {own})", {first, own}, set()
        yield f"INSERT INTO {table} SELECT id FROM range({new}, {new + 10})", set(), set(range(new, new + 10))
        keys = {first + 1, own + 1, new}
        source = " UNION ALL ".join(f"SELECT CAST({key} AS BIGINT) AS id" for key in sorted(keys))
        text = f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN DELETE"
        yield text, keys, set()


def race(
    door: dict[str, Any],
    table: str,
    run: Callable[[str], dict[str, Any]],
    is_lost: Callable[[Delete], bool] = lambda _: False,
) -> bool:
    """Let two processes and Spark write to a table of the ids from 0 to `ROWS`, in data files of a few hundred.

    Returns:
        False if `is_lost` says of a commit of dvcodec's that Spark has replaced it.
    """
    before = State.of(door)
    assert before.ids == set(range(ROWS))
    writers = Writers.start(door, 2, DELETES, steps=True)
    left, conflicts = set(range(ROWS)), 0
    for text, gone, new in islice(statements(table), DELETES // 2):
        writers.go()  # a delete by each
        while "error" in (answer := run(text)):
            assert any(word in answer["error"] for word in CONFLICTS), answer["error"]
            conflicts += 1
        left = (left | new) - gone
    found = writers.results()
    assert [one.number for one in found] == list(range(DELETES))
    if any(map(is_lost, found)):
        return False
    check_history(door, before, found, others=True)
    assert ids(open_door(door)) == sorted(left - gone_after(DELETES))
    retries = sum(one.retries for one in found)
    print(f"\n{table}: {conflicts} conflicts in {DELETES // 2} statements of Spark, {retries} in {DELETES} deletes")
    return True


def test_delta(engines: Engines) -> None:
    """Again if Spark replaced a commit: for local files, Delta Spark looks whether it exists, and then renames."""

    def sql(text: str) -> dict[str, Any]:
        return engines.answer("delta-sql", text=text)

    for turn in range(3):
        root = engines.folder / f"races{turn}"
        table = f"delta.`{root}`"
        properties = "'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '7'"
        create = f"CREATE TABLE {table} (id BIGINT) USING delta TBLPROPERTIES ({properties})"
        for text in (create, f"INSERT INTO {table} SELECT id FROM range(0, {ROWS}, 1, 4)"):
            assert "error" not in sql(text)

        def is_lost(one: Delete, log: Path = root / "_delta_log") -> bool:
            return one.snapshot is not None and "dvcodec" not in (log / f"{one.snapshot:020}.json").read_text()

        if race({"location": str(root)}, table, sql, is_lost):
            break
    else:
        pytest.fail("Spark replaced commits three times")
    found = sql(f"SELECT id FROM {table} ORDER BY id")["result"]
    assert [int(row[0]) for row in found] == ids(open_door({"location": str(root)}))


def test_iceberg_in_a_rest_catalog(engines: Engines, tmp_path: Path) -> None:
    rest = pytest.importorskip("pyiceberg.catalog.rest")
    need((JAVA / "target" / "classpath.txt").is_file(), "the program of interop/java")
    server = Server(tmp_path)
    try:
        engines.ask("iceberg-attach", uri=server.uri, name="racing")
        rest.RestCatalog("rest", uri=server.uri).create_namespace("races")
        modes = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "merge", "update"))
        engines.ask(
            "iceberg-run",
            statement="CREATE TABLE racing.races.t (id BIGINT) USING iceberg "
            f"TBLPROPERTIES ('format-version' = '3', {modes})",
        )
        engines.ask("iceberg-run", statement=f"INSERT INTO racing.races.t SELECT id FROM range(0, {ROWS}, 1, 4)")
        door = {"catalog": {"type": "rest", "uri": server.uri}, "name": "races.t"}
        assert race(door, "racing.races.t", lambda text: engines.answer("iceberg-run", statement=text))
        found = engines.ask("iceberg-run", statement="SELECT id FROM racing.races.t ORDER BY id")
        assert [row[0] for row in found] == ids(open_door(door))
    finally:
        server.close()
