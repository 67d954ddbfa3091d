"""Commits to Delta tables: log files, written here action by action, and read by Delta."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from commit_rows import ids, listed
from common import COLUMNS, Place, rows
from pyspark.sql.types import StructType


def create(place: Place, root: str, files: int, stop: int, partition: str | None = None) -> str:
    """Make a table of so many tasks' rows, by Delta; without tasks only a log, which has no files yet."""
    if files:
        frame = place.spark.sql(rows(0, stop, files)).write.format("delta")
        frame = frame.option("delta.enableDeletionVectors", "true")
        (frame.partitionBy(partition) if partition else frame).save(root)
        return root
    features = ["deletionVectors"]
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": StructType.fromDDL(COLUMNS).json(),
        "partitionColumns": [partition] if partition else [],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": 0,
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    Path(root, "_delta_log").mkdir(parents=True)
    change(place, root, [{"protocol": protocol}, {"metaData": metadata}])
    return root


def delete(place: Place, root: str, where: str) -> None:
    """Let Delta delete rows."""
    place.spark.sql(f"DELETE FROM delta.`{root}` WHERE {where}")


def read(place: Place, root: str) -> list[list[Any]]:
    """Return what Spark reads."""
    return listed(place.spark.sql(f"SELECT * FROM delta.`{root}`"))


def scan(place: Place, root: str) -> list[int]:
    """Return the ids that Spark reads of a table of any columns."""
    return ids(place.spark.read.format("delta").load(root))


def change(_: Place, root: str, actions: list[dict[str, Any]]) -> int:
    """Write the next file of the log; return its version."""
    log = Path(root, "_delta_log")
    version = len([*log.glob("*.json")])
    info = {"commitInfo": {"timestamp": 0, "operation": "DELETE", "operationParameters": {}}}
    lines = [json.dumps(action, ensure_ascii=False) + "\n" for action in [info, *actions]]
    (log / f"{version:020}.json").write_text("".join(lines))
    return version


def sql(place: Place, text: str) -> list[list[Any]]:
    """Run a statement; return its rows as text."""
    return [[str(value) for value in row] for row in place.spark.sql(text).collect()]


COMMANDS = {"sql": sql, "create": create, "delete": delete, "read": read, "scan": scan, "change": change}
