"""Every example of docs/spark.md runs, top to bottom, and prints what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from test_docs import BLOCK, SPARK_PAGE, run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_examples_run(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, object] = {"spark": spark, "lake": str(tmp_path)}
    for _, block in BLOCK.findall(SPARK_PAGE.read_text()):
        run_python(block, names, SPARK_PAGE)
