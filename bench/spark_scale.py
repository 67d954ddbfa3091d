"""A billion positions in 10,000 data files, and a million small vectors; each also at a tenth of the size.

Parquet paths and a DataFrame become Puffin containers with a manifest, which are audited and exploded. Needs about 12
GB of disk and half an hour.

    python bench/spark_scale.py [--data FOLDER] [--positions 1000000000] [--vectors 1000000] [--skip-dataframe]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dvcodec.spark import jobs
from dvcodec.spark.sources import read_manifest
from spark_data import positions
from spark_meter import MILLION, Bench, session


def written(dvs: DataFrame, folder: Path) -> None:
    """Write vectors into new Puffin containers."""
    shutil.rmtree(folder, ignore_errors=True)
    dvs.write.format("dvcodec").mode("append").option("target", "iceberg").save(str(folder))


def way(bench: Bench, data: Path, count: int, files: int, *, from_rows: bool) -> None:
    """Build, write, audit and explode the vectors of `count` positions in `files` data files."""
    source = positions(data, "scan", count, files)
    group = f"{count // MILLION} M over {files:,} files"
    target = data / "written"

    def once(name: str, unit: str, things: int, act: Callable[[], object]) -> None:
        bench.once(group, name, things, unit, act)

    once("paths to Puffin", "positions", count, lambda: written(jobs.build_vectors(source), target))
    manifest = read_manifest(str(target))
    assert len(manifest) == files, len(manifest)
    folder, spark = str(target), bench.spark
    sums: list[tuple[int, int]] = []

    def audited() -> None:
        found = jobs.audit(folder).agg(sf.count("*"), sf.count("error"), sf.sum("cardinality")).first()
        assert found is not None
        assert (found[0], found[1]) == (files, 0), found
        sums.append((int(found[2]), 0))

    def exploded() -> None:
        rows = jobs.explode(spark.read.format("dvcodec").load(folder))
        found = rows.agg(sf.count("*"), sf.sum("pos")).first()
        assert found is not None
        assert found[0] == sums[-1][0], found

    once("audit", "vectors", files, audited)
    once("explode and sum", "positions", count, exploded)
    if from_rows:
        rows = spark.read.parquet(source)
        once("DataFrame to Puffin", "positions", count, lambda: written(jobs.build_vectors(rows), target))
    shutil.rmtree(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=1000 * MILLION)
    parser.add_argument("--vectors", type=int, default=MILLION)
    parser.add_argument("--skip-dataframe", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "dvcodec-bench"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    bench = Bench(session(), 1)
    bench.warm()
    for part in (10, 1):
        way(bench, given.data, given.positions // part, 10_000 // part, from_rows=not given.skip_dataframe)
    for part in (10, 1):
        vectors = given.vectors // part
        way(bench, given.data, 20 * vectors, vectors, from_rows=False)
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in bench.lines], indent=1))


if __name__ == "__main__":
    main()
