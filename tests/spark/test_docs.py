"""Every example of the pages about Spark runs, top to bottom, and prints what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from test_docs import BLOCK, SPARK_PAGES, run_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("page", SPARK_PAGES, ids=lambda page: page.stem)
def test_examples_run(spark: SparkSession, tmp_path: Path, page: Path) -> None:
    names: dict[str, object] = {"spark": spark, "lake": str(tmp_path)}
    for _, block in BLOCK.findall(page.read_text()):
        run_python(block, names, page)
