"""Workers that die and tasks that fail while vectors are built and merged: the result is whole, or there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from dvcodec.spark import jobs
from dvcodec.spark.jobs import build
from samples.position_rows import reference, rows, write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Plan = Callable[[Iterator[Any]], Iterator[Any]]


def faulty(plan: Plan, marker: Path, how: str) -> Plan:
    """A plan whose first task dies (or fails) when it has read something; or all do."""
    path = str(marker)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import signal

        def broken() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield batch
                if how == "always fails":
                    raise RuntimeError("no more")
                try:
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                if how == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("failed once")

        yield from plan(broken())

    return run


def collected(df: DataFrame) -> dict[str, bytes]:
    found = df.collect()
    assert len({row["data_file"] for row in found}) == len(found)
    return {row["data_file"]: bytes(row["dv"]) for row in found}


@pytest.mark.parametrize("how", ["is killed", "fails"])
@pytest.mark.parametrize(
    ("module", "phase"),
    [(build, "encode_rows"), (build, "union_vectors"), (build, "_build")],
    ids=["encode", "union", "build"],
)
def test_a_task_that_dies_once_is_repeated(
    how: str, module: ModuleType, phase: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows("clustered", 9_000)
    df = spark.read.parquet(write(tmp_path / "deletes", table))
    monkeypatch.setattr(module, phase, faulty(getattr(module, phase), tmp_path / "died", how))
    strategy: build.Strategy = "shuffle" if phase == "_build" else "partial"
    assert collected(build.build_vectors(df, strategy=strategy)) == reference(table)
    assert (tmp_path / "died").exists()


def test_merging_survives_a_dead_worker(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows("random", 6_000)
    folder = write(tmp_path / "deletes", table)
    dvs = build.build_vectors(folder, spark=spark)
    module = sys.modules["dvcodec.spark.jobs.change"]  # a function of that name is in the package
    monkeypatch.setattr(module, "_merge", faulty(module._merge, tmp_path / "died", "is killed"))
    assert collected(jobs.merge(dvs, spark.read.parquet(folder))) == reference(table)
    assert (tmp_path / "died").exists()
