"""Make tables that went through deletes, with the released Spark connectors, and write down what is true of them.

    make_tables.py FOLDER ENGINE...

See the README beside this file. Nothing here reads or writes a deletion vector: that is the connectors' work.
"""

from __future__ import annotations

import sys
from pathlib import Path

import delta_tables
import iceberg_tables
import paimon_library
import paimon_tables
import pyspark
from common import ODD, Maker, Place, write_truth
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
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def session(folder: Path) -> SparkSession:
    """Start Spark with all connectors that there are for its version."""
    if SPARK == "3.5":
        connectors = paimon_tables.config(str(folder / "paimon"))
    else:
        connectors = {
            "spark.sql.extensions": f"{delta_tables.EXTENSION},{iceberg_tables.EXTENSION}",
            **delta_tables.CATALOG,
            **iceberg_tables.config(str(folder / f"iceberg {ODD}")),
        }
    builder = SparkSession.builder.appName("dvcodec interop").master("local[2]")
    for key, value in {
        "spark.jars": ",".join(map(str, JARS)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1500m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **SMALL_JOBS,
        **connectors,
    }.items():
        builder = builder.config(key, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def main(folder: Path, engines: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    spark = session(folder)
    place = Place(spark, folder)
    java = place.jvm.java.lang.System.getProperty("java.version")
    versions = {"pyspark": pyspark.__version__, "java": java, "jars": [jar.name for jar in JARS]}
    for engine in engines:
        write_truth(folder, engine, versions, MAKERS[engine](place))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
