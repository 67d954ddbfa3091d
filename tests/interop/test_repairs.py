"""Repairs that dvcodec commits to damaged tables of Spark: all engines read the same rows, and Spark deletes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import amounts
from cli_runner import run
from dvcodec.tables import open_table
from interop.engines import Engines
from tables.deleting.libraries import ids_by_library

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("spark")]

STOP = 2000
DAMAGE = {"bit": "correct-bits", "more": "take-from-snapshot", "the only vector": "restore-rows"}


class Delta:
    """A table of two data files with the column ``id``."""

    def __init__(self, engines: Engines, name: str) -> None:
        self.root = str(engines.folder / name)
        self._engines = engines
        on = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        self._sql(f"CREATE TABLE delta.`{self.root}` (id BIGINT) USING delta {on}")
        for start in (0, STOP // 2):
            self._sql(f"INSERT INTO delta.`{self.root}` SELECT id FROM range({start}, {start + STOP // 2}, 1, 1)")

    def _sql(self, text: str) -> list[list[str]]:
        found: list[list[str]] = self._engines.ask("delta-sql", text=text)
        return found

    def delete(self, where: str) -> None:
        self._sql(f"DELETE FROM delta.`{self.root}` WHERE {where}")

    def read(self) -> list[int]:
        return [int(row[0]) for row in self._sql(f"SELECT id FROM delta.`{self.root}` ORDER BY id")]

    def by_polars(self, pl: Any) -> Any:
        return pl.scan_delta(self.root)


class Iceberg:
    """The same, by the engines' own names."""

    def __init__(self, engines: Engines, name: str) -> None:
        self._engines, self._name = engines, name
        self.root = engines.ask("iceberg-create", name=name, files=2, stop=STOP, partition=None)

    def delete(self, where: str) -> None:
        self._engines.ask("iceberg-delete", name=self._name, where=where)

    def read(self) -> list[int]:
        return self._engines.read("iceberg", name=self._name)

    def by_polars(self, pl: Any) -> Any:
        return pl.scan_iceberg(open_table(self.root).metadata.source)  # type: ignore[attr-defined]


CASES: list[tuple[type[Delta | Iceberg], str]] = [(Delta, "more"), (Iceberg, "the only vector")]
if amounts.long:
    CASES = [(kind, damage) for kind in (Delta, Iceberg) for damage in DAMAGE]


def everywhere(table: Delta | Iceberg) -> Iterator[list[int]]:
    """Ids that Spark, the format's Python library and polars read."""
    yield table.read()
    yield ids_by_library({"location": table.root})
    yield sorted(table.by_polars(pytest.importorskip("polars")).collect()["id"].to_list())


@pytest.mark.filterwarnings("ignore:.*polars_iceberg.*")
@pytest.mark.parametrize(("kind", "damage"), CASES)
def test_spark_goes_on_after_a_repair(kind: type[Delta | Iceberg], damage: str, engines: Engines) -> None:
    table = kind(engines, f"repaired_{kind.__name__}_{damage}".replace(" ", "_").lower())
    if damage != "the only vector":
        table.delete("id % 11 = 3")
    table.delete("id % 7 = 2")
    snapshot = open_table(table.root).snapshot()
    vector = snapshot.vectors[0]
    in_file = set(pq.read_table(snapshot.files[str(vector.data_file)].location)["id"].to_pylist())
    data = bytearray(Path(vector.location).read_bytes())
    for offset in (40,) if damage == "bit" else (9, 40, 50):
        data[(vector.offset or 0) + offset] ^= 4
    Path(vector.location).write_bytes(data)

    flags = () if damage == "bit" else ("--accept-restored-rows",)
    done = run("repair", table.root, "--commit", "--json", *flags)
    assert (done.code, DAMAGE[damage] in [one["action"] for one in done.json["commit"]["actions"]]) == (0, True)
    back = set() if damage == "bit" else in_file
    first = damage != "the only vector"
    live = [n for n in range(STOP) if (n % 7 != 2 or n in back) and not (first and n % 11 == 3)]
    for found in everywhere(table):
        assert found == live
    table.delete("id < 100")
    for found in everywhere(table):
        assert found == [number for number in live if number >= 100]
    assert run("audit", table.root, "--no-orphans").code == 0
