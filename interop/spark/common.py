"""What all engines' tables have in common: their rows, and how truth is written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id BIGINT, part STRING, name STRING, price DOUBLE, day DATE"
PARTS = ("plain", "two words", "100%", "a#b", "zażółć ☃", "x/y=z?&", "%20+{[1]}")
"""Values of the partition column. Engines write each in their own way into folders' names."""
ODD = "żółć #1 50%"
"""Part of the names of those tables' folders whose engines take it literally."""

ROW_GROUP_BYTES = 16 * 1024
ROW_GROUP_CHECK = 100
"""Rows after which a writer first looks whether its row group is full."""


def rows(start: int, stop: int, files: int) -> str:
    """Return a query for the rows of these ids, as so many tasks: what writes them makes one file of each."""
    parts = ", ".join(f"'{part}'" for part in PARTS)
    return (
        f"SELECT id, element_at(array({parts}), CAST(id % {len(PARTS)} AS INT) + 1) AS part, "
        "concat('row ', id) AS name, IF(id % 10 = 0, NULL, id * 0.25D) AS price, "
        f"date_add(DATE'2020-01-01', CAST(id % 400 AS INT)) AS day FROM range({start}, {stop}, 1, {files})"
    )


@dataclass
class DataFile:
    """A data file of a snapshot.

    Attributes:
        path: where it lies on this machine.
        rows: how many rows it has physically, as the engine recorded it.
    """

    path: str
    rows: int


@dataclass
class Vector:
    """A vector that a snapshot uses, as the engine recorded it.

    Attributes:
        data_file: `DataFile.path`.
        container: the file that holds it, on this machine.
        offset: of its frame, in bytes.
        length: what the engine's metadata says of its length, in bytes; what that counts differs by engine.
        cardinality: None where the engine does not record it.
        details: the engine's own record of it.
    """

    data_file: str
    container: str
    offset: int
    length: int
    cardinality: int | None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Snapshot:
    """One state of a table: its files, its vectors, and its live rows as the engine returns them.

    Attributes:
        version: the engine's own number of it.
        live: a folder of Parquet files, relative to the truth file.
        condition: what rows of the data files have to fulfil besides, as SQL; None = nothing.
    """

    version: int
    live: str
    data_files: list[DataFile]
    vectors: list[Vector]
    condition: str | None = None


@dataclass
class Truth:
    """What is known of one table."""

    engine: str
    name: str
    root: str
    snapshots: list[Snapshot]


@dataclass(frozen=True)
class Place:
    """Where tables are made: `folder` gets one folder for each engine, and the truth."""

    spark: SparkSession
    folder: Path

    @property
    def jvm(self) -> Any:
        """Spark's Java, for what SQL does not tell."""
        return self.spark._jvm  # noqa: SLF001

    def keep(self, live: DataFrame, engine: str, name: str, version: int) -> str:
        """Write the rows that an engine returned; return where."""
        relative = f"truth/{engine}-{name}-{version}"
        live.select("id", "part", "name", "price", "day").coalesce(1).write.parquet(str(self.folder / relative))
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
