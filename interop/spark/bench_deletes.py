"""Spark's own DELETE, for bench/deletes.py: a session that stays, in the environment of interop/spark.

    bench_deletes.py FOLDER

Takes lines of JSON: ``{"make": FORMAT, "rows": N, "files": N, "customers": N, "where": [SQL, ..]}`` makes a table in
the folder and counts what matches, ``{"delete": FOLDER, "where": SQL}`` deletes rows from it. The session is as Spark
comes, with both cores and the connectors; `make_tables.session` is for small tables.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import delta_tables
import iceberg_tables
from make_tables import JARS
from pyspark.sql import SparkSession

ORDERS = """
SELECT id, CAST(rand(1) * {customers} AS BIGINT) AS customer,
  timestamp_micros(1767225600000000 + CAST(rand(2) * 15552000000000 AS BIGINT)) AS ts,
  date_add(DATE'2026-01-01', CAST(rand(3) * 180 AS INT)) AS day,
  element_at(array('open', 'paid', 'sent', 'done', 'void'), 1 + CAST(rand(4) * 5 AS INT)) AS status,
  element_at(array('DE', 'FR', 'PL', 'US', 'JP', 'BR', 'IN'), 1 + CAST(rand(5) * 7 AS INT)) AS country,
  concat('order ', id, ' ', CAST(rand(6) * 1000000000 AS BIGINT)) AS note,
  CAST(rand(7) * 10000 AS DECIMAL(21, 2)) AS price, rand(8) AS weight, CAST(rand(9) AS FLOAT) AS discount,
  1 + CAST(rand(10) * 49 AS INT) AS items, rand(11) < 0.1 AS gift, string(CAST(rand(12) * 50000 AS INT)) AS sku
FROM range(0, {rows}, 1, {files})
"""
NAMES = {
    "delta": "delta.`{folder}/delta`",
    "iceberg": f"{iceberg_tables.CATALOG}.db.t",
    "iceberg2": f"{iceberg_tables.CATALOG}.db.t2",
}
MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none'"
PROPERTIES = {
    "delta": "'delta.enableDeletionVectors' = 'true'",
    "iceberg": f"'format-version' = '3', {MERGE_ON_READ}",
    "iceberg2": f"'format-version' = '2', {MERGE_ON_READ}",
}
FOLDERS = {"delta": "delta", "iceberg": "iceberg/db/t", "iceberg2": "iceberg/db/t2"}


def session(folder: Path) -> SparkSession:
    builder = SparkSession.builder.appName("dvcodec bench").master("local[2]")
    for key, value in {
        "spark.jars": ",".join(map(str, JARS)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.extensions": f"{delta_tables.EXTENSION},{iceberg_tables.EXTENSION}",
        **delta_tables.CATALOG,
        **iceberg_tables.config(str(folder / "iceberg")),
    }.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def make(spark: SparkSession, folder: Path, format_: str, where: list[str], **size: int) -> dict[str, Any]:
    name = NAMES[format_].format(folder=folder)
    select = ORDERS.format(**size)
    provider = format_.rstrip("2")
    spark.sql(f"CREATE TABLE {name} USING {provider} TBLPROPERTIES ({PROPERTIES[format_]}) AS {select}")
    matching = [spark.sql(f"SELECT count(*) FROM {name} WHERE {one}").first()[0] for one in where]
    return {"table": str(folder / FOLDERS[format_]), "matching": matching}


def delete(spark: SparkSession, folder: Path, table: str, where: str) -> dict[str, Any]:
    """Delete, and count what is gone; the copy is another table under the same name."""
    format_ = next(name for name, place in FOLDERS.items() if str(folder / place) == table)
    name = NAMES[format_].format(folder=folder)
    jvm: Any = spark._jvm  # noqa: SLF001
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    before = spark.sql(f"SELECT count(*) FROM {name}").first()[0]
    start = time.perf_counter()
    spark.sql(f"DELETE FROM {name} WHERE {where}").collect()
    seconds = time.perf_counter() - start
    gone = before - spark.sql(f"SELECT count(*) FROM {name}").first()[0]
    return {"seconds": seconds, "rows": gone, "process": jvm.ProcessHandle.current().pid()}


def main(folder: Path) -> None:
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # output of Spark is not an answer
        spark = session(folder)
        for line in sys.stdin:
            command = json.loads(line)
            if "make" in command:
                answer = make(spark, folder, command.pop("make"), **command)
            else:
                answer = delete(spark, folder, command["delete"], command["where"])
            print(json.dumps(answer), file=answers, flush=True)
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
