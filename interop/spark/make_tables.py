"""Make tables that went through deletes, with the released Spark connectors, and write down what is true of them.

    make_tables.py FOLDER ENGINE...

See the README beside this file. Nothing here reads or writes a deletion vector: that is the connectors' work.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import delta_tables
import iceberg_tables
import paimon_library
import paimon_tables
import pyspark
from common import ODD, Maker, Place, Truth, write_truth
from pyspark.sql import SparkSession

SPARK = pyspark.__version__.rpartition(".")[0]
JARS = sorted((Path(__file__).parent / "target" / "jars" / f"spark-{SPARK}").glob("*.jar"))
MAKERS: dict[str, Maker] = {
    "iceberg": iceberg_tables.make,
    "delta": delta_tables.make,
    "paimon": paimon_tables.make,
    "paimon-library": paimon_library.make,
}
SMALL_JOBS = {
    # Hundreds of statements over few rows: planning, compiling and starting tasks is what takes time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
}
PLAIN = {
    "spark.sql.session.timeZone": "UTC",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}


def session(folder: Path, suffix: str = ODD) -> SparkSession:
    """Start Spark with all connectors that there are for its version."""
    if SPARK == "3.5":
        connectors = paimon_tables.config(str(folder / "paimon"))
    else:
        connectors = {
            "spark.sql.extensions": f"{delta_tables.EXTENSION},{iceberg_tables.EXTENSION}",
            **delta_tables.CATALOG,
            **iceberg_tables.config(str(folder / f"iceberg{suffix}")),
        }
    builder = SparkSession.builder.appName("dvcodec interop").master("local[2]")
    for key, value in {
        "spark.driver.extraClassPath": ":".join(map(str, JARS)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **PLAIN,
        **SMALL_JOBS,
        **connectors,
    }.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def announced(truths: Iterable[Truth]) -> Iterator[Truth]:
    """Tell what was made, and how long it took: these programs run wherever all tests run."""
    before = time.perf_counter()
    for truth in truths:
        took, before = time.perf_counter() - before, time.perf_counter()
        print(f"{truth.engine} {truth.name}: {len(truth.snapshots)} states, {took:.1f} s", flush=True)
        yield truth


def make(place: Place, engines: Iterable[str]) -> None:
    """Make the tables of some engines, and write down what is true of them."""
    (place.folder / "truth").mkdir(parents=True, exist_ok=True)
    java = place.jvm.java.lang.System.getProperty("java.version")
    versions = {"pyspark": pyspark.__version__, "java": java, "jars": [jar.name for jar in JARS]}
    for engine in engines:
        write_truth(place.folder, engine, versions, announced(MAKERS[engine](place)))


def main(folder: Path, engines: list[str], only: frozenset[str] | None, suffix: str) -> None:
    spark = session(folder, suffix)
    make(Place(spark, folder, only, suffix), engines)
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("engine", nargs="+", choices=list(MAKERS))
    parser.add_argument("--only", help="names of tables, with commas")
    parser.add_argument("--plain", action="store_true", help="give folders plain names")
    given = parser.parse_args()
    wanted = frozenset(given.only.split(",")) if given.only else None
    main(given.folder.resolve(), given.engine, wanted, "" if given.plain else ODD)
