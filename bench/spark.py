"""Spark jobs compared with the plans one would write without them, in one run on two cores. `make bench-spark`.

Every measurement is a whole job, including the Parquet read; rounds are interleaved, and medians are shown. Shuffle
bytes are Spark's own count; memory is the largest resident size of a Python worker, sampled ten times a second;
nanoseconds are processor time of the JVM and of Python. Data are in a folder that is kept between runs (``--data``).

    python bench/spark.py [build] [scan] [wide] [many] [paths] [skew] [apply] [udf] [delete] [audit] [--millions 20]
        [--rounds 3] [--warm-up 1] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.functions import pandas_udf

from dvcodec import RowSet, arrow, iceberg
from dvcodec.spark import jobs
from dvcodec.spark.columns import VECTORS
from dvcodec.spark.hand_over import packed
from spark_data import containers, flagged, positions, table_of_rows
from spark_meter import MILLION, Bench, Plans, session


def one_by_one(rows: pd.DataFrame) -> pd.DataFrame:
    """What one writes without dvcodec: for every data file one Python call and one bitmap of pyroaring."""
    bitmap = BitMap64(rows["pos"].to_numpy(np.uint64))
    bitmap.run_optimize()
    columns = {"data_file": rows["file_path"].iloc[:1], "cardinality": [len(bitmap)], "dv": [bitmap.serialize()]}
    return pd.DataFrame(columns)


def naive(df: DataFrame) -> DataFrame:
    return df.groupBy("file_path").applyInPandas(one_by_one, VECTORS)


def handed_over(df: DataFrame) -> DataFrame:
    """Send rows to Python and do nothing with them: a lower bound for every plan that does."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], ["rows"])

    return df.mapInArrow(counted, "rows long")


def build(bench: Bench, data: Path, millions: int) -> None:
    count = millions * MILLION
    folder = positions(data, "random", count, 1000)
    df = bench.spark.read.parquet(folder)
    plans: Plans = {
        "groupBy().applyInPandas, pyroaring": (1, lambda: naive(df)),
        "rows handed over": (9, lambda: handed_over(df)),
        "shuffle": (1, lambda: jobs.build_vectors(df, strategy="shuffle")),
        "partial": (9, lambda: jobs.build_vectors(df, strategy="partial")),
        "auto": (9, lambda: jobs.build_vectors(df)),
        "auto, eager": (9, lambda: jobs.build_vectors(df, eager=True)),
        "from Parquet paths": (9, lambda: jobs.build_vectors(folder)),
    }
    bench.compare(f"random {millions} M, 1000 files", count, "positions", plans)


def scan(bench: Bench, data: Path, millions: int) -> None:
    """Rows that match a predicate, in scan order; Spark lists the files."""
    hits = bench.spark.read.parquet(flagged(data, 2 * millions * MILLION, 1000)).where("flag")
    bench.compare(f"scan {millions} M, 1000 files", millions * MILLION, "positions", _of_hits(hits))


def wide(bench: Bench, data: Path, millions: int) -> None:
    """The same predicate on a table of 1 and of 80 columns."""
    for columns in (1, 80):
        hits = bench.spark.read.parquet(flagged(data, millions * MILLION, 20, columns)).where("flag")
        group = f"scan {millions // 2} M, {columns} columns"
        bench.compare(group, millions * MILLION // 2, "positions", _of_hits(hits, plain=False))


def _of_hits(hits: DataFrame, *, plain: bool = True) -> Plans:
    plans: Plans = {
        "DataFrame": (9, lambda: jobs.build_vectors(jobs.positions(hits))),
        "DataFrame, eager": (9, lambda: jobs.build_vectors(jobs.positions(hits), eager=True)),
    }
    if not plain:
        return plans
    place = sf.col("_metadata.file_path"), sf.col("_metadata.row_index")
    return plans | {
        "paths and positions cross": (9, lambda: jobs.build_vectors(jobs.positions(hits), strategy="partial")),
        "paths handed over": (9, lambda: handed_over(hits.select(*place))),
        "one long handed over": (9, lambda: handed_over(hits.select(packed(*place)))),
        "one long, never handed over": (9, lambda: hits.select(packed(*place))),
    }


def many(bench: Bench, data: Path, millions: int) -> None:
    """20 positions per data file."""
    most = millions * MILLION // 20
    for order, files in (("random", most // 10), ("random", most), ("scan", most)):
        count = 20 * files
        folder = positions(data, order, count, files)
        df = bench.spark.read.parquet(folder)
        plans: Plans = {
            "auto": (1, partial(jobs.build_vectors, df)),
            "auto, eager": (1, partial(jobs.build_vectors, df, eager=True)),
            "from Parquet paths": (1, partial(jobs.build_vectors, folder)),
        }
        if files < most:
            plans["groupBy().applyInPandas, pyroaring"] = (1, partial(naive, df))
        bench.compare(f"{order} {count // MILLION} M, {files:,} files", count, "positions", plans)


def paths(bench: Bench, data: Path, millions: int) -> None:
    for order in ("random", "scan"):
        folder = positions(data, order, millions * MILLION, 1000)
        plans: Plans = {
            "from Parquet paths": (9, partial(jobs.build_vectors, folder)),
        }
        bench.compare(f"{millions} M {order}", millions * MILLION, "positions", plans)


def skew(bench: Bench, data: Path, millions: int) -> None:
    plans: Plans = {}
    for order in ("random", "skewed"):
        df = bench.spark.read.parquet(positions(data, order, millions * MILLION, 1000))
        plans[order] = (9, partial(jobs.build_vectors, df))
        plans[f"{order}, eager"] = (9, partial(jobs.build_vectors, df, eager=True))
    bench.compare(f"skew, {millions} M", millions * MILLION, "positions", plans)


def apply(bench: Bench, data: Path, millions: int) -> None:
    chance = np.random.default_rng(7)
    _apply(bench, data, millions * MILLION, "1 % random", [_scattered(chance) for _ in range(millions)])
    _apply(bench, data, millions * MILLION, "20 % in runs", [_in_runs(chance) for _ in range(millions)])


def _scattered(chance: np.random.Generator) -> RowSet:
    return RowSet(chance.choice(MILLION, MILLION // 100, replace=False))


def _in_runs(chance: np.random.Generator) -> RowSet:
    first = int(chance.integers(0, 8000))
    return RowSet.from_ranges([(start, start + 2000) for start in range(first, MILLION - 2000, 10_000)])


def _apply(bench: Bench, data: Path, rows: int, name: str, sets: list[RowSet]) -> None:
    """Apply one vector to each data file of a million rows."""
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
        "plain scan": (9, lambda: df),
        "scan with metadata columns": (9, lambda: bare),
        "apply": (9, partial(jobs.apply, df, dvs)),
    }
    if deleted < 5 * MILLION:  # Spark refuses a larger broadcast
        assert bare.join(*arguments).count() == rows - deleted
        plans["anti-join with positions"] = (1, partial(bare.join, *arguments))
    assert jobs.apply(df, dvs).count() == rows - deleted
    bench.compare(f"apply {rows // MILLION} M, {name}", rows, "rows", plans)
    gone.unpersist()


def udf(bench: Bench, data: Path, millions: int) -> None:
    """Rows that are not deleted, by functions of one's own as docs/guides/udf.md has them, and by `jobs.apply`."""
    chance = np.random.default_rng(7)
    spark, rows = bench.spark, millions * MILLION
    folder = table_of_rows(data, rows)
    df = spark.read.parquet(folder)
    with_rows = df.select("*", "_metadata.file_path", "_metadata.row_index")
    vectors = {f"file:{folder}/{i:04d}.parquet": _scattered(chance) for i in range(millions)}
    stored = [(path, bytearray(iceberg.encode(one))) for path, one in vectors.items()]
    dvs = spark.createDataFrame(stored, "data_file string, dv binary")

    def live(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in pc.unique(batch["file_path"]).to_pylist():
                found = batch.filter(pc.equal(batch["file_path"], path))
                found = arrow.live_rows(found, vectors[path], row_index="row_index")
                yield found.drop_columns(["file_path", "row_index"])

    def live_pandas(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for path, found in frame.groupby("file_path"):
                keep = ~vectors[str(path)].contains(found["row_index"].to_numpy())
                yield found[keep].drop(columns=["file_path", "row_index"])

    @pandas_udf("boolean")  # type: ignore[call-overload,untyped-decorator,unused-ignore]
    def deleted(path: pd.Series, row: pd.Series) -> pd.Series:
        found = pd.Series(False, path.index)
        for name in path.unique():
            here = path == name
            found[here] = vectors[name].contains(row[here].to_numpy())
        return found

    plans: Plans = {
        "plain scan": (9, lambda: df),
        "apply": (9, lambda: jobs.apply(df, dvs)),
        "mapInArrow, live_rows": (9, lambda: with_rows.mapInArrow(live, df.schema)),
        "mapInPandas": (9, lambda: with_rows.mapInPandas(live_pandas, df.schema)),
        "pandas UDF": (9, lambda: df.where(~deleted("_metadata.file_path", "_metadata.row_index"))),
    }
    assert {plan().count() for _, plan in list(plans.values())[1:]} == {rows - sum(map(len, vectors.values()))}
    bench.compare(f"udf {millions} M, 1 % random", rows, "rows", plans)


def delete(bench: Bench, data: Path, millions: int) -> None:
    """Find a fifth of the rows of Parquet files by a predicate; bench/deletes.py measures commits."""
    rows = millions * MILLION
    folder, where = table_of_rows(data, rows), "amount BETWEEN 100 AND 299"
    df = bench.spark.read.parquet(folder)
    counts = []

    def found() -> DataFrame:
        counts.append(jobs.delete(bench.spark, folder, where, vectors=data / "unused", dry_run=True).rows)
        return bench.spark.range(0)

    plans: Plans = {
        "delete": (9, found),
        "build_vectors(positions())": (9, lambda: jobs.build_vectors(jobs.positions(df.where(where)))),
        "scan with the predicate": (9, lambda: df.where(where)),
    }
    bench.compare(f"{millions} M rows, a fifth hit", rows, "rows", plans)
    assert set(counts) == {df.where(where).count()}


def audit(bench: Bench, data: Path, millions: int) -> None:
    count = 10_000 * millions
    folder = containers(data, count, 100)
    places = jobs.read_vectors(folder).select("container", "offset", "size", "cardinality").localCheckpoint()
    plans: Plans = {
        "audit of paths": (9, lambda: jobs.audit(folder)),
        "audit of places": (9, lambda: jobs.audit(places)),
        "explode": (9, lambda: jobs.explode(folder)),
    }
    bench.compare(f"{count:,} vectors", count, "vectors", plans)


GROUPS = {
    "build": build,
    "scan": scan,
    "wide": wide,
    "many": many,
    "paths": paths,
    "skew": skew,
    "apply": apply,
    "udf": udf,
    "delete": delete,
    "audit": audit,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=[], help=f"of {', '.join(GROUPS)}; all by custom")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=0, help="rounds before, not measured: the JVM compiles")
    parser.add_argument(
        "--millions", type=int, default=20, help="positions, or rows of a table; many and audit have theirs"
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="plans whose name matches")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "dvcodec-bench"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    bench = Bench(session(), given.rounds, given.only, given.warm_up)
    bench.warm()
    for name in given.groups or GROUPS:
        GROUPS[name](bench, given.data, given.millions)
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in bench.lines], indent=1))


if __name__ == "__main__":
    main()
