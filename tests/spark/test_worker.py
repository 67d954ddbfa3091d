"""Functions in Spark's Python workers, and what stays of a task in them."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from dvcodec.spark.tasks import settled

_SETTLE = """
import gc, sys
from dvcodec.spark.tasks import settle
assert not gc.get_freeze_count()
settle()
first = gc.get_freeze_count()
assert first > 10_000, first
settle()
assert gc.get_freeze_count() <= first, "only after more imports"
class Node: pass
node = Node(); node.itself = node
del node
assert gc.collect() >= 1, "later objects are collected as before"
for i in range(60): sys.modules[f"more_{i}"] = sys
settle()
assert gc.get_freeze_count() >= first
"""


def test_objects_of_modules_are_exempted_once() -> None:
    subprocess.run([sys.executable, "-c", _SETTLE], check=True)


@pytest.mark.everywhere
def test_a_worker_is_settled(spark: SparkSession) -> None:
    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch([pa.array([gc.get_freeze_count()])], ["frozen"])

    counted = spark.range(0, 4, 1, 4).mapInArrow(settled(frozen), "frozen long")
    assert all(row["frozen"] > 10_000 for row in counted.collect())
