"""What all engines' tables have in common: their rows, and how truth is written down."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id BIGINT, part STRING, name STRING, price DOUBLE, day DATE"
PARTS = ("plain", "two words", "100%", "a#b", "zażółć ☃", "x/y=z?&", "%20+{[1]}")
"""Values of the partition column. Engines write each in their own way into folders' names."""
ODD = " żółć #1 50%"
"""End of the names of those folders that engines take literally."""

ROW_GROUP_BYTES = 16 * 1024
ROW_GROUP_CHECK = 100
"""Rows after which a writer first looks whether its row group is full."""

WIDE = (
    "id INT, part STRING, ratio FLOAT, amount DECIMAL(9,2), at TIMESTAMP, clock TIMESTAMP_NTZ, raw BINARY, "
    "flag BOOLEAN, day DATE, point STRUCT<x: INT, y: FLOAT>, tags ARRAY<STRING>, props MAP<STRING, INT>"
)
"""Columns of the tables whose schema changes."""


def rows(start: int, stop: int, files: int) -> str:
    """Return a query for the rows of these ids, as so many tasks: what writes them makes one file of each."""
    parts = ", ".join(f"'{part}'" for part in PARTS)
    return (
        f"SELECT id, element_at(array({parts}), CAST(id % {len(PARTS)} AS INT) + 1) AS part, "
        "concat('row ', id) AS name, IF(id % 10 = 0, NULL, id * 0.25D) AS price, "
        f"date_add(DATE'2020-01-01', CAST(id % 400 AS INT)) AS day FROM range({start}, {stop}, 1, {files})"
    )


def wide(start: int, stop: int, files: int) -> str:
    """Return a query for rows of the columns `WIDE`, with nulls in each, and times that nanoseconds cannot hold."""
    return (
        "SELECT CAST(id AS INT) AS id, IF(id % 2 = 0, 'a#b', NULL) AS part, "
        "IF(id % 8 = 3, NULL, CAST(id / 3 AS FLOAT)) AS ratio, "
        "IF(id % 8 = 4, NULL, CAST(id * 1.25 AS DECIMAL(9,2))) AS amount, "
        "CASE id % 8 WHEN 5 THEN NULL WHEN 1 THEN TIMESTAMP'9999-12-31 23:59:59.999' "
        "ELSE timestamp_millis(id * 86399999) END AS at, "
        "IF(id % 8 = 6, NULL, CAST(timestamp_millis(id * 86399999 - 300000000000) AS TIMESTAMP_NTZ)) AS clock, "
        "IF(id % 8 = 7, NULL, unhex(hex(id))) AS raw, IF(id % 8 = 0, NULL, id % 2 = 0) AS flag, "
        "IF(id % 8 = 1, NULL, date_add(DATE'1969-12-01', CAST(id AS INT))) AS day, "
        "IF(id % 8 = 2, NULL, struct(CAST(id AS INT) AS x, IF(id % 4 = 1, NULL, CAST(id AS FLOAT)) AS y)) AS point, "
        "CASE id % 8 WHEN 3 THEN NULL WHEN 4 THEN array() ELSE array('a', NULL, string(id)) END AS tags, "
        "CASE id % 8 WHEN 5 THEN NULL WHEN 6 THEN map() ELSE map('k', CAST(id AS INT), 'none', NULL) END AS props "
        f"FROM range({start}, {stop}, 1, {files})"
    )


@dataclass
class DataFile:
    """A data file of a snapshot.

    Attributes:
        path: where it lies on this machine.
        rows: how many rows it has physically, as the engine recorded it.
        is_read: False if the engine's own reads leave the file out, whatever is in it.
    """

    path: str
    rows: int
    is_read: bool = True


@dataclass
class Vector:
    """A vector (or a file of position deletes) that a snapshot uses, as the engine recorded it.

    Attributes:
        data_file: `DataFile.path`; None where position deletes are for several.
        container: the file that holds it, on this machine.
        offset: of its frame, in bytes; None for position deletes.
        length: what the engine's metadata says of its length, in bytes; what that counts differs by engine.
        cardinality: None where the engine does not record it.
        details: the engine's own record of it.
    """

    data_file: str | None
    container: str
    offset: int | None
    length: int
    cardinality: int | None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Snapshot:
    """One state of a table: its files, its vectors, and its live rows as the engine returns them.

    Attributes:
        version: the engine's own number of it.
        live: Parquet, relative to the truth file; None where the engine itself can no longer read the state.
        data_files: what the state is made of.
        vectors: what is deleted of them.
        condition: what rows of the data files have to fulfil besides, as SQL; None = nothing.
        operation: what the engine calls the commit.
        timestamp_ms: when it was committed.
        parent: the version it was made from, None where the engine does not say.
    """

    version: int
    live: str | None
    data_files: list[DataFile]
    vectors: list[Vector]
    condition: str | None = None
    operation: str | None = None
    timestamp_ms: int | None = None
    parent: int | None = None


@dataclass
class Truth:
    """What is known of one table.

    Attributes:
        engine: name of the engine.
        name: name of the table.
        root: its folder.
        snapshots: those that the engine can name, the oldest first.
        current: the version that it is at.
        head: live rows as of now, where the schema was changed after the current version; else None.
    """

    engine: str
    name: str
    root: str
    snapshots: list[Snapshot]
    current: int
    head: str | None = None


@dataclass(frozen=True)
class Place:
    """Where tables are made: `folder` gets one folder for each engine, and the truth.

    Attributes:
        only: names of the tables that are wanted; None = all.
        suffix: end of engines' folders' names.
    """

    spark: SparkSession
    folder: Path
    only: frozenset[str] | None = None
    suffix: str = ODD

    @property
    def jvm(self) -> Any:
        """Spark's Java, for what SQL does not tell."""
        return self.spark._jvm  # noqa: SLF001

    def wants(self, name: str) -> bool:
        return self.only is None or name in self.only

    def folder_of(self, engine: str) -> str:
        return str(self.folder / f"{engine}{self.suffix}")

    def keep(self, live: DataFrame, engine: str, name: str, version: int | str) -> str:
        """Write the rows that an engine returned, all columns; return where."""
        relative = f"truth/{engine}-{name}-{version}.parquet"
        written = self.folder / f"{relative}.writing"  # its own: two Sparks write at the same time
        self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        live.coalesce(1).write.option("compression", "zstd").parquet(str(written))
        self.spark.conf.unset("spark.sql.parquet.outputTimestampType")
        (part,) = written.glob("part-*.parquet")
        part.rename(self.folder / relative)
        shutil.rmtree(written)
        return relative


Maker = Callable[[Place], Iterable[Truth]]
"""Makes all tables of one engine."""


def write_truth(folder: Path, name: str, versions: dict[str, Any], truths: Iterable[Truth]) -> None:
    """Write ``<name>.json``: versions of what made the tables, and what is known of each."""
    found = {"versions": versions, "tables": [asdict(truth) for truth in truths]}
    (folder / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False, indent=1))


def local(path: str) -> str:
    """Return an engine's name of a local file as a path: ``file:`` goes, nothing is decoded."""
    return "/" + path.removeprefix("file:").lstrip("/")
