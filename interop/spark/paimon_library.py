"""Paimon tables with deletion vectors of 32 and of 64 bits, by Paimon's own library.

No Paimon connector for Spark 4 is to be had. What the library is asked to do is what the connector's DELETE does: rows
of append tables, found by Spark, are deleted by position; in tables with a primary key compaction makes the vectors.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import Place, Snapshot, Truth, rows, wide
from paimon_tables import SMALL_ROW_GROUPS, STORED_RECORDS, describe, scan
from recipes import CLUSTERED, SCATTERED, SMALL, scattered_or_clustered

BASE = {"bucket": "-1", "deletion-vectors.enabled": "true", "file.format": "parquet"}
COLUMNS = [["id", "BIGINT"], ["part", "STRING"], ["name", "STRING"], ["price", "DOUBLE"], ["day", "DATE"]]
WIDE = [
    ["id", "INT"],
    ["part", "STRING"],
    ["ratio", "FLOAT"],
    ["amount", "DECIMAL(9, 2)"],
    ["at", "TIMESTAMP(6) WITH LOCAL TIME ZONE"],
    ["clock", "TIMESTAMP(3)"],
    ["raw", "BYTES"],
    ["flag", "BOOLEAN"],
    ["day", "DATE"],
]


def make(place: Place) -> Iterator[Truth]:
    for bits in (32, 64):
        options = BASE | {"deletion-vectors.bitmap64": str(bits == 64).lower()}
        for name, steps in STEPS.items():
            if place.wants(f"{name}{bits}"):
                table = _Table(place, f"{name}{bits}", options)
                steps(table)
                yield table.truth(head=name == "changed")


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
    table.write(rows(0, SCATTERED, 1))
    table.write(rows(SCATTERED, SCATTERED + CLUSTERED, 1))
    table.delete(scattered_or_clustered("id % 3 = 0", 1000, 67_000))
    table.delete(scattered_or_clustered("id % 97 = 1", 66_000, 68_000))


def _keyed(table: _Table) -> None:
    table.create({"bucket": "2", **SMALL_ROW_GROUPS}, keys=["id"])
    table.write(rows(0, SMALL, 1))
    table.write(
        f"SELECT id, part, concat(name, ' again') AS name, price, day FROM ({rows(0, 6000, 1)}) WHERE id % 5 = 0"
    )
    table.write(f"SELECT * FROM ({rows(0, 3000, 1)}) WHERE id % 7 = 1", delete=True)
    table.write(rows(SMALL - 200, SMALL + 300, 1))


def _changed(table: _Table) -> None:
    """Columns of old files are known by their ids; files are rewritten, one is all deleted; one snapshot is undone."""
    table.create(SMALL_ROW_GROUPS, columns=WIDE)
    table.write(wide(0, 60, 1))
    table.write(wide(60, 80, 1))
    table.delete("id % 7 = 1 OR id >= 60")
    types = table.library.type
    table.alter(
        lambda change: change.addColumn("extra", types("INT")),
        lambda change: change.renameColumn("ratio", "share"),
        lambda change: change.updateColumnType("id", types("BIGINT")),
        lambda change: change.updateColumnType("share", types("DOUBLE")),
        lambda change: change.updateColumnType("amount", types("DECIMAL(12, 2)")),
        lambda change: change.dropColumn("flag"),
    )
    first = table.jvm.org.apache.paimon.schema.SchemaChange.Move.first("flag")
    table.alter(lambda change: change.addColumn("flag", types("STRING"), None, first))
    table.write(
        f"SELECT * EXCEPT (flag, ratio), ratio AS share, 'new' AS flag, id * 10 AS extra FROM ({wide(80, 99, 1)})"
    )
    table.delete("id % 5 = 2")
    table.delete("id = 88")
    table.library.rollback(table.root, 5)
    table.library.tag(table.root, "kept", 2)
    table.alter(lambda change: change.setOption("compaction.min.file-num", "2"))
    table.library.compact(table.root)
    table.delete("id % 9 = 4")
    table.alter(lambda change: change.dropColumn("clock"))


def _merged(table: _Table) -> None:
    """Partitions, buckets and a primary key of two columns; compacted, and the oldest snapshots forgotten."""
    table.create({"bucket": "2", **SMALL_ROW_GROUPS}, keys=["id", "part"], partition="part")
    few = "SELECT id, IF(id % 2 = 0, 'a#b', '100%') AS part, name, price, day FROM "
    table.write(f"{few} ({rows(0, 200, 1)})")
    table.write(f"{few} ({rows(100, 150, 1)})")
    table.write(f"{few} ({rows(0, 30, 1)})", delete=True)
    table.library.compact(table.root)
    table.write(f"{few} ({rows(40, 60, 1)})")
    table.library.expire(table.root, 4)


STEPS = {
    "plain": _plain,
    "parts": _parts,
    "large": _large,
    "keyed": _keyed,
    "changed": _changed,
    "merged": _merged,
}


class _Table:
    def __init__(self, place: Place, name: str, options: dict[str, str]) -> None:
        self._place, self._name, self._options = place, name, options
        self.root = f"{place.folder_of('paimon')}/{name}"
        self.jvm: Any = place.jvm
        self.library: Any = self.jvm.dvcodec.interop.PaimonTables
        self._has_key = False

    def create(
        self,
        options: dict[str, str],
        *,
        columns: list[list[str]] = COLUMNS,
        partition: str | None = None,
        keys: list[str] | None = None,
    ) -> None:
        keys = keys or []
        columns = [[name, f"{type_} NOT NULL" if name in keys else type_] for name, type_ in columns]
        self._has_key = bool(keys)
        given = (json.dumps(columns), partition, json.dumps(keys), json.dumps(self._options | options))
        self.library.create(self.root, *given)

    def write(self, query: str, *, delete: bool = False) -> None:
        lines = self._scratch()
        lines.write_text("\n".join(self._place.spark.sql(query).toJSON().collect()))
        self.library.write(self.root, str(lines), delete)

    def delete(self, predicate: str) -> None:
        """Delete rows by a condition on id and part."""
        found = defaultdict(list)
        files, _ = scan(self.jvm, self.root, None, cardinalities=True)
        stored = self._place.spark.read.schema("id BIGINT, part STRING").parquet(*(file.path for file in files))
        for row in stored.where(predicate).select("_metadata.file_name", "_metadata.row_index").collect():
            found[row.file_name].append(row.row_index)
        self.library.delete(self.root, json.dumps(found))

    def alter(self, *changes: Any) -> None:
        paimon = self.jvm.org.apache.paimon
        schemas = paimon.schema.SchemaManager(paimon.fs.local.LocalFileIO(), paimon.fs.Path(self.root))
        listed = self.jvm.java.util.ArrayList()
        for change in changes:
            listed.add(change(paimon.schema.SchemaChange))
        schemas.commitChanges(listed)

    def truth(self, *, head: bool) -> Truth:
        def snapshot(version: int) -> Snapshot:
            files, vectors = scan(self.jvm, self.root, version, cardinalities=True)
            condition = STORED_RECORDS if self._has_key else None
            return Snapshot(version, self._live(version), files, vectors, condition)

        snapshots = describe(self.jvm, self.root, snapshot)
        latest = self._live(None) if head else None
        return Truth("paimon-library", self._name, self.root, snapshots, snapshots[-1].version, latest)

    def _live(self, version: int | None) -> str:
        lines = self._scratch()
        ddl = self.library.read(self.root, version, str(lines))
        live = self._place.spark.read.schema(f"{ddl}, _file STRING, _pos BIGINT").json(str(lines), mode="FAILFAST")
        return self._place.keep(live, "paimon-library", self._name, "head" if version is None else version)

    def _scratch(self) -> Path:
        return self._place.folder / "rows.jsonl"
