"""Workers that die and tasks that fail while vectors are built and merged: the result is whole, or there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from dvcodec.spark import jobs, register
from dvcodec.spark.jobs import build
from dvcodec.spark.sources import read_manifest
from samples.position_rows import reference, rows, write
from spark.sessions import environment

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


def test_what_is_built_while_workers_die_is_written_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    table = rows("random", 6_000)
    df = spark.read.parquet(write(tmp_path / "deletes", table))
    monkeypatch.setattr(build, "union_vectors", faulty(build.union_vectors, tmp_path / "died", "is killed"))
    lake = tmp_path / "lake"
    build.build_vectors(df, strategy="partial").write.format("dvcodec").mode("append").save(str(lake))
    assert (tmp_path / "died").exists()
    want = reference(table)
    assert sorted(read_manifest(str(lake))["data_file"].to_pylist()) == sorted(want)
    assert collected(spark.read.format("dvcodec").load(str(lake))) == want


def test_a_job_that_fails_for_good_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    df = spark.read.parquet(write(tmp_path / "deletes", rows("random", 6_000)))
    monkeypatch.setattr(build, "union_vectors", faulty(build.union_vectors, tmp_path / "died", "always fails"))
    lake = tmp_path / "lake"
    with pytest.raises(Exception, match="no more"):
        build.build_vectors(df, strategy="partial").write.format("dvcodec").mode("append").save(str(lake))
    assert not list(lake.glob("*.puffin"))


LOSING = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from dvcodec.spark import register
from dvcodec.spark.jobs import build

deletes, lake, shuffled, marker = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.local.dir", shuffled).getOrCreate()
register(spark)
union = build.union_vectors

def lossy(batches):
    for batch in batches:
        yield batch
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        lost = [file.name for file in Path(shuffled).rglob("shuffle_*") if not file.unlink()]
        Path(marker).write_text(" ".join(lost))
        time.sleep(0.5)

build.union_vectors = lambda batches: union(lossy(batches))
dvs = build.build_vectors(spark.read.parquet(deletes), strategy="partial", partitions=12)
dvs.write.format("dvcodec").mode("append").save(lake)
"""


def test_a_stage_whose_shuffled_vectors_are_lost_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    """A task loses all that was shuffled, as a dead executor does; in a session of its own, which it ruins."""
    register(spark)
    table = rows("random", 6_000)
    deletes, lake, shuffled, marker = (tmp_path / name for name in ("deletes", "lake", "shuffled", "lost"))
    write(deletes, table)
    shuffled.mkdir()
    program = tmp_path / "losing.py"
    program.write_text(LOSING)
    command = [sys.executable, str(program), *map(str, (deletes, lake, shuffled, marker))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "FetchFailed" in done.stderr
    assert marker.read_text().count("shuffle_") > 1
    want = reference(table)
    assert sorted(read_manifest(str(lake))["data_file"].to_pylist()) == sorted(want)
    assert collected(spark.read.format("dvcodec").load(str(lake))) == want
