"""The Spark jobs beside the plans that one would write without them, in one run on two cores. `make bench-spark`.

Every measurement is a whole job, Parquet read included; rounds are interleaved and medians shown. Shuffle bytes are
Spark's own count; memory is the largest resident size of a Python worker, looked at ten times a second. Data lie in a
folder that is kept between runs (``--data``).

    python bench/spark.py [build] [many] [paths] [skew] [apply] [audit] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dvcodec import RowSet, iceberg
from dvcodec.spark import jobs
from dvcodec.spark.schemas import VECTORS
from spark_data import containers, positions, table_of_rows
from spark_meter import MILLION, Bench, Plans, session


def one_by_one(table: pa.Table) -> pa.Table:
    """What a first attempt does for every data file: one Python call, one set, one blob."""
    rows = RowSet(table["pos"].to_numpy())
    columns = {"data_file": [table["file_path"][0].as_py()], "cardinality": [len(rows)], "dv": [iceberg.encode(rows)]}
    return pa.table(columns)


def naive(df: DataFrame) -> DataFrame:
    return df.groupBy("file_path").applyInArrow(one_by_one, VECTORS)


def build(bench: Bench, data: Path) -> None:
    folder = positions(data, "random", 20 * MILLION, 1000)
    df = bench.spark.read.parquet(folder)
    group = "build 20 M, 1000 files"
    plans: Plans = {
        "groupBy().applyInArrow": (1, lambda: naive(df)),
        "shuffle": (1, lambda: jobs.build_vectors(df, strategy="shuffle")),
        "partial": (9, lambda: jobs.build_vectors(df, strategy="partial")),
        "auto": (9, lambda: jobs.build_vectors(df)),
        "hash": (9, lambda: jobs.build_vectors(df, strategy="hash")),
        "from Parquet paths": (9, lambda: jobs.build_vectors(folder)),
    }
    bench.compare(group, 20 * MILLION, "positions", plans)


def many(bench: Bench, data: Path) -> None:
    for count, files in ((2 * MILLION, MILLION // 10), (20 * MILLION, MILLION)):
        folder = positions(data, "random", count, files)
        df = bench.spark.read.parquet(folder)
        plans: Plans = {
            "auto": (1, partial(jobs.build_vectors, df)),
            "from Parquet paths": (1, partial(jobs.build_vectors, folder)),
            "groupBy().applyInArrow": (1, partial(naive, df)),
        }
        bench.compare(f"build {count // MILLION} M, {files:,} files", count, "positions", plans)


def paths(bench: Bench, data: Path) -> None:
    for order in ("random", "scan"):
        folder = positions(data, order, 100 * MILLION, 1000)
        plans: Plans = {
            "from Parquet paths": (9, partial(jobs.build_vectors, folder)),
        }
        bench.compare(f"100 M {order}", 100 * MILLION, "positions", plans)


def skew(bench: Bench, data: Path) -> None:
    plans: Plans = {}
    for order in ("random", "skew"):
        df = bench.spark.read.parquet(positions(data, order, 20 * MILLION, 1000))
        plans[order] = (9, partial(jobs.build_vectors, df))
    bench.compare("skew, 20 M", 20 * MILLION, "positions", plans)


def apply(bench: Bench, data: Path) -> None:
    for rows in (20 * MILLION, 100 * MILLION):
        chance = np.random.default_rng(7)
        files = range(rows // MILLION)
        _apply(bench, data, rows, "1 % random", [_scattered(chance) for _ in files])
        _apply(bench, data, rows, "20 % in runs", [_in_runs(chance) for _ in files])


def _scattered(chance: np.random.Generator) -> RowSet:
    return RowSet(chance.choice(MILLION, MILLION // 100, replace=False))


def _in_runs(chance: np.random.Generator) -> RowSet:
    first = int(chance.integers(0, 8000))
    return RowSet.from_ranges([(start, start + 2000) for start in range(first, MILLION - 2000, 10_000)])


def _apply(bench: Bench, data: Path, rows: int, name: str, sets: list[RowSet]) -> None:
    """Apply one vector a data file of a million rows."""
    spark, folder = bench.spark, table_of_rows(data, rows)
    df = spark.read.parquet(folder)
    bare = df.select("*", sf.col("_metadata.file_path"), sf.col("_metadata.row_index"))
    vectors = [(f"{folder}/{i:04d}.parquet", bytearray(iceberg.encode(one))) for i, one in enumerate(sets)]
    dvs = spark.createDataFrame(vectors, "data_file string, dv binary")
    gone = jobs.explode(dvs).select(sf.concat(sf.lit("file:"), "data_file").alias("f"), sf.col("pos").alias("p"))
    gone = gone.persist()
    deleted = sum(map(len, sets))
    same = (sf.col("file_path") == sf.col("f")) & (sf.col("row_index") == sf.col("p"))
    arguments = (sf.broadcast(gone), same, "left_anti")
    plans: Plans = {
        "scan with metadata columns": (9, lambda: bare),
        "apply": (9, partial(jobs.apply, df, dvs)),
    }
    if deleted < 5 * MILLION:  # a larger broadcast is more than Spark takes
        assert bare.join(*arguments).count() == rows - deleted
        plans["anti-join with positions"] = (1, partial(bare.join, *arguments))
    assert jobs.apply(df, dvs).count() == rows - deleted
    bench.compare(f"apply {rows // MILLION} M, {name}", rows, "rows", plans)
    gone.unpersist()


def audit(bench: Bench, data: Path) -> None:
    folder = containers(data, 200_000, 100)
    source = bench.spark.read.format("dvcodec")
    places = source.option("columns", "container,offset,size,cardinality").load(folder).localCheckpoint()
    plans: Plans = {
        "audit of paths": (9, lambda: jobs.audit(folder)),
        "audit of places": (9, lambda: jobs.audit(places)),
        "explode": (9, lambda: jobs.explode(bench.spark.read.format("dvcodec").load(folder))),
    }
    bench.compare("200,000 vectors", 200_000, "vectors", plans)


GROUPS = {"build": build, "many": many, "paths": paths, "skew": skew, "apply": apply, "audit": audit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=[], help=f"of {', '.join(GROUPS)}; all by custom")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "dvcodec-bench"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    bench = Bench(session(), given.rounds)
    bench.warm()
    for name in given.groups or GROUPS:
        GROUPS[name](bench, given.data)
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in bench.lines], indent=1))


if __name__ == "__main__":
    main()
