"""Random conditions, read and deleted one after the other on a table of each format, and by DuckDB on a plain copy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import amounts
from dvcodec.tables import Table, audit, live_batches, open_table
from tables.deleting.random_tables import FORMATS, plain_rows
from tables.deleting.random_where import Predicate, random_predicate, random_rows

duckdb = pytest.importorskip("duckdb", "2.0")
INSERTS, ROWS, STATEMENTS = 5, 200, amounts.of(30, 200)
MOST = 20
"""Part of the live rows, as its denominator, that a statement may match without a further condition."""


class Plain:
    """The copy."""

    def __init__(self, rows: pa.Table) -> None:
        self._database = duckdb.connect(config={"threads": "1"})
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.register("source", rows)
        self._database.execute("CREATE TABLE plain AS SELECT * FROM source")

    def matching(self, where: str) -> set[int]:
        return {row[0] for row in self._database.execute(f"SELECT key FROM plain WHERE {where}").fetchall()}

    def delete(self, where: str) -> None:
        self._database.execute(f"DELETE FROM plain WHERE {where}")

    def keys(self) -> list[int]:
        return [row[0] for row in self._database.execute("SELECT key FROM plain ORDER BY key").fetchall()]

    def rows(self) -> Any:
        return self._database.sql("SELECT * FROM plain").to_arrow_table()


def live(table: Table, columns: list[str] | None = None) -> pa.Table:
    return pa.Table.from_batches(live_batches(table, columns=columns), table.snapshot().schema(columns))


def keys(table: Table) -> dict[str, list[int]]:
    """The keys of a table's data files by row position."""
    snapshot = table.snapshot()
    return {
        file.path: [key for part in snapshot.rows(file, columns=["key"]) for key in part.batch["key"].to_pylist()]
        for file in snapshot.data_files
    }


def bounded(chance: random.Random, plain: Plain, predicate: Predicate, *, sql: bool) -> tuple[Any, str, set[int]]:
    """A statement that leaves most rows: what dvcodec is asked, what DuckDB is asked, and the keys that match."""
    import pyarrow.compute as pc

    asked: Any = predicate.sql if sql else predicate.expression
    meant = predicate.sql if sql else predicate.meaning
    gone = plain.matching(meant)
    if len(gone) > len(plain.keys()) // MOST:
        first = chance.randrange(0, INSERTS * ROWS)
        last = first + chance.randrange(10, 60)
        extra = f"key BETWEEN {first} AND {last}"
        field: Any = pc.field("key")
        asked = f"({asked}) AND {extra}" if sql else asked & (field >= first) & (field <= last)
        meant = f"({meant}) AND {extra}"
        gone = plain.matching(meant)
    return asked, meant, gone


@pytest.mark.parametrize("name", FORMATS)
def test_random_statements(name: str, tmp_path: Path) -> None:
    make, read = FORMATS[name]
    assert_same_rows(tmp_path / "t", make, read, skips=name != "lance")  # which has no statistics of columns


def assert_same_rows(
    folder: Path, make: Callable[[Path, Sequence[pa.Table]], None], read: Callable[[Path], Any] | None, *, skips: bool
) -> None:
    """Delete by random statements, and compare what dvcodec and the format's library read with DuckDB's copy.

    Args:
        folder: where the table is to be.
        make: makes it.
        read: the format's library; None if there is none here.
        skips: whether statistics skip data files.
    """
    chance = random.Random(19)
    inserts = [random_rows(chance, number * ROWS, ROWS) for number in range(INSERTS)]
    make(folder, inserts)
    plain = Plain(pa.concat_tables(inserts))
    assert plain_rows(live(open_table(folder))) == plain_rows(plain.rows())
    of_files = keys(open_table(folder))
    committed = skipped = 0
    for number in range(STATEMENTS):
        sql = number % 2 == 0
        predicate = random_predicate(chance, sql=sql)
        asked, meant, gone = bounded(chance, plain, predicate, sql=sql)
        plain.delete(meant)
        selected = open_table(folder).to_reader(["key"], asked).read_all()
        assert sorted(selected["key"].to_pylist()) == sorted(gone), asked
        done = open_table(folder).delete(asked)
        found = [of_files[one.data_file.path][row] for one in done.deletes for row in one.rows - one.before]
        assert sorted(found) == sorted(gone), asked
        assert (done.rows, done.committed) == (len(gone), bool(gone)), asked
        committed += done.committed
        skipped += done.skipped
        if number % 10 == 9:
            assert sorted(live(open_table(folder), ["key"])["key"].to_pylist()) == plain.keys(), asked
        if number % 50 == 49:
            left = plain_rows(plain.rows())
            assert plain_rows(live(open_table(folder))) == left
            assert read is None or plain_rows(read(folder)) == left
    left = plain_rows(plain.rows())
    assert plain_rows(live(open_table(folder))) == left
    assert read is None or plain_rows(read(folder)) == left
    assert audit(open_table(folder)).findings == ()
    assert left
    assert committed > STATEMENTS // 3
    assert skipped or not skips
