"""Paimon tables with deletion vectors of 32 and of 64 bits, by Paimon's own library.

No Paimon connector for Spark 4 is to be had. What the library is asked to do is what the connector's DELETE does: rows
of append tables, found by Spark, are deleted by position; in tables with a primary key compaction makes the vectors.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from common import COLUMNS, ODD, Place, Snapshot, Truth, rows
from paimon_tables import SMALL_ROW_GROUPS, STORED_RECORDS, scan
from recipes import LARGE, SMALL

BASE = {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "parquet"}


def make(place: Place) -> Iterator[Truth]:
    for bits in (32, 64):
        options = BASE | {"deletion-vectors.bitmap64": str(bits == 64).lower()}
        for name, steps in (("plain", _plain), ("parts", _parts), ("large", _large), ("keyed", _keyed)):
            table = _Table(place, f"{name}{bits}", options)
            steps(table)
            yield table.truth(STORED_RECORDS if name == "keyed" else None)


def _plain(table: _Table) -> None:
    table.create(SMALL_ROW_GROUPS)
    table.write(rows(0, SMALL, 1))
    table.delete("id % 7 = 3")
    table.write(rows(SMALL, SMALL + 2000, 1))
    table.delete("id BETWEEN 2000 AND 2999 OR id = 9001")
    table.delete("id BETWEEN 2900 AND 3100 OR id % 50 = 1")


def _parts(table: _Table) -> None:
    table.create(SMALL_ROW_GROUPS, partition="part")
    table.write(rows(0, SMALL, 1))
    table.delete("id % 11 = 5")
    table.delete("part = 'two words' AND id > 4000")
    table.write(rows(SMALL, SMALL + 1000, 1))
    table.delete("part IN ('100%', 'x/y=z?&') AND id % 4 = 0")


def _large(table: _Table) -> None:
    """One file with scattered deletes, one with clustered ones."""
    table.create({})
    table.write(rows(0, LARGE, 1))
    table.write(rows(LARGE, 2 * LARGE, 1))
    table.delete(f"IF(id < {LARGE}, id % 3 = 0, id BETWEEN {LARGE + 1000} AND {LARGE + 67_000})")
    table.delete(f"IF(id < {LARGE}, id % 97 = 1, id BETWEEN {LARGE + 66_000} AND {LARGE + 68_000})")


def _keyed(table: _Table) -> None:
    table.create({"bucket": "2", **SMALL_ROW_GROUPS}, key="id")
    table.write(rows(0, SMALL, 1))
    table.write(
        f"SELECT id, part, concat(name, ' again') AS name, price, day FROM ({rows(0, 6000, 1)}) WHERE id % 5 = 0"
    )
    table.write(f"SELECT * FROM ({rows(0, 3000, 1)}) WHERE id % 7 = 1", delete=True)
    table.write(rows(SMALL - 200, SMALL + 300, 1))


class _Table:
    def __init__(self, place: Place, name: str, options: dict[str, str]) -> None:
        self._place, self._name, self._options = place, name, options
        self._root = str(place.folder / f"paimon {ODD}" / name)
        self._jvm = place.jvm
        self._library = self._jvm.dvcodec.interop.PaimonTables

    def create(self, options: dict[str, str], *, partition: str | None = None, key: str | None = None) -> None:
        self._library.create(self._root, partition, key, json.dumps(self._options | options))

    def write(self, query: str, *, delete: bool = False) -> None:
        lines = self._scratch()
        lines.write_text("\n".join(self._place.spark.sql(query).toJSON().collect()))
        self._library.write(self._root, str(lines), delete)

    def delete(self, predicate: str) -> None:
        found = defaultdict(list)
        _, files, _ = scan(self._jvm, self._root, cardinalities=True)
        rows = self._place.spark.read.parquet(*(file.path for file in files)).where(predicate)
        for row in rows.select("_metadata.file_name", "_metadata.row_index").collect():
            found[row.file_name].append(row.row_index)
        self._library.delete(self._root, json.dumps(found))

    def truth(self, condition: str | None) -> Truth:
        version, files, vectors = scan(self._jvm, self._root, cardinalities=True)
        lines = self._scratch()
        self._library.read(self._root, version, str(lines))
        live = self._place.spark.read.schema(COLUMNS).json(str(lines))
        kept = self._place.keep(live, "paimon-library", self._name, version)
        return Truth("paimon-library", self._name, self._root, [Snapshot(version, kept, files, vectors, condition)])

    def _scratch(self) -> Path:
        return self._place.folder / "rows.jsonl"
