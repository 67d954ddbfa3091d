"""One Spark session for all tests here: classic, or over Spark Connect where DVCODEC_SPARK says ``connect``."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from spark.sessions import set_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = os.path.dirname(__file__)  # noqa: PTH120  (compared with strings below)
MODE = os.environ.get("DVCODEC_SPARK", "classic")

# The other Pythons of the gate have no Spark; where it has to be there, its absence is an error and not a skip.
if importlib.util.find_spec("pyspark") is None:
    if os.environ.get("DVCODEC_SPARK"):
        raise ImportError("DVCODEC_SPARK is set, but pyspark is not installed")
    collect_ignore_glob = ["test_*.py"]


SOURCES = ("docs", "functions", "paths", "source_faults", "source_read", "source_write", "zap_source")
"""Tests of sources, functions and pages; the others test jobs. A JVM is large: one session for each of the two."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Few processes have a session. pyspark's warnings are not ours."""
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.spark)
            group = "spark-sources" if item.path.stem.removeprefix("test_") in SOURCES else "spark-jobs"
            item.add_marker(pytest.mark.xdist_group(group))
            item.add_marker(pytest.mark.filterwarnings("default"))


COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, tasks tried up to four times as on a cluster. Plans are compiled over Spark Connect only."""
    from pyspark.sql import SparkSession

    set_up()
    builder = SparkSession.builder.appName("dvcodec tests")
    where = "local[2,4]"
    builder = builder.remote(where) if MODE == "connect" else builder.master(where)
    for key, value in COMPILED.items() if MODE == "connect" else ():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sources(spark: SparkSession) -> SparkSession:
    """The session with the data sources; Spark 3.5 has none in Python."""
    from dvcodec.spark import register
    from dvcodec.spark.compat import HAS_SOURCES

    register(spark)
    register(spark)  # does nothing
    if not HAS_SOURCES:
        pytest.skip("data sources in Python came with Spark 4.0")
    return spark
