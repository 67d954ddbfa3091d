"""explode and ranges, against RowSet."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

from dvcodec import RowSet, UsageError, iceberg
from dvcodec.spark.columns import LONG, STRING, struct
from dvcodec.spark.compat import frame_of, to_arrow
from dvcodec.spark.jobs import build_vectors, explode, ranges
from dvcodec.spark.jobs import explode as job
from dvcodec.spark.vectors import NamedVectors
from samples.position_rows import rows as position_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession


def samples() -> dict[str, RowSet]:
    chance = np.random.default_rng(3)
    return {
        "none": RowSet(),
        "one é": RowSet([7]),
        "far": RowSet([0, 2**31, 2**32 - 1, 2**32, 2**40 + 1]),
        "random": RowSet(chance.integers(0, 500_000, 30_000)),
        "dense": RowSet(np.flatnonzero(chance.random(200_000) < 0.6)),
        "run": RowSet.from_ranges([(3, 150_000), (2**32 - 10, 2**32 + 10), (2**32 + 11, 2**32 + 12)]),
        "every other": RowSet(range(0, 140_000, 2)),
        **{f"small {i}": RowSet(chance.integers(0, 5_000, i * 7)) for i in range(30)},
    }


def vectors(spark: SparkSession, rows: dict[str, RowSet]) -> DataFrame:
    data = [(name, bytearray(iceberg.encode(one))) for name, one in rows.items()]
    return spark.createDataFrame(data, "data_file string, dv binary")


@pytest.mark.everywhere
@pytest.mark.parametrize("max_rows", [1 << 20, 1_000])
def test_positions(max_rows: int, spark: SparkSession) -> None:
    rows = samples()
    df = explode(vectors(spark, rows).repartition(3), max_rows=max_rows)
    assert df.dtypes == [("data_file", "string"), ("pos", "bigint")]
    found = to_arrow(df)
    names, positions = found["data_file"].to_numpy(), found["pos"].to_numpy()
    for name, one in rows.items():
        assert positions[names == name].tolist() == one.to_numpy().tolist(), name


@pytest.mark.everywhere
@pytest.mark.parametrize("max_rows", [1 << 20, 1_000])
def test_ranges(max_rows: int, spark: SparkSession) -> None:
    rows = samples()
    df = ranges(vectors(spark, rows).repartition(3), max_rows=max_rows)
    assert df.dtypes == [("data_file", "string"), ("start", "bigint"), ("stop", "bigint")]
    found: defaultdict[str, list[list[int]]] = defaultdict(list)
    for name, start, stop in df.collect():
        found[name].append([start, stop])
    assert found == {name: one.ranges().tolist() for name, one in rows.items() if one}


def batches_of(rows: Iterable[RowSet]) -> pa.RecordBatch:
    frames = [iceberg.encode(one) for one in rows]
    names = pa.array([str(i) for i in range(len(frames))])
    return pa.record_batch([names, pa.array(frames, pa.binary()), pa.nulls(len(frames), pa.string())], ["f", "d", "e"])


def test_arrays_are_bounded() -> None:
    from dvcodec.spark.jobs.explode import _Arrays, _positions, _ranges

    batch = batches_of(samples().values())
    for expand in (_positions, _ranges):
        for limit in (1, 10, 70_000):
            rows = RowSet(range(0, 300, 3))
            source = batches_of([rows]) if limit == 1 else batch
            for part in _Arrays(expand, limit)(iter([source])):
                assert len(part.column(1).flatten()) <= limit
                assert min(part.column(1).value_lengths().to_pylist()) > 0


def test_ranges_go_on_over_many_containers() -> None:
    from dvcodec.spark.jobs.explode import _ranges_of_one

    one = RowSet.from_ranges([(10, 2**24 + 5), (2**24 + 6, 2**26), (2**27, 2**28 + 1), (2**32 - 3, 2**32 + 2**23)])
    batch = batches_of([one])
    vectors = NamedVectors.of(batch.column(0), batch.column(1))
    assert np.concatenate(list(_ranges_of_one(vectors, 0))).tolist() == one.ranges().tolist()


@pytest.mark.everywhere
def test_there_and_back(spark: SparkSession) -> None:
    table = position_rows("clustered", 5_000)
    df = frame_of(spark, table, struct(file_path=STRING, pos=LONG))
    want = {(row["file_path"], row["pos"]) for row in table.to_pylist()}
    found = explode(build_vectors(df)).collect()
    assert len(found) == len(want)
    assert {(row["data_file"], row["pos"]) for row in found} == want


def test_nulls_and_arguments(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([("x", None)], "data_file string, dv binary").withColumn("error", sf.lit("magic"))
    nameless = spark.createDataFrame([(None, bytearray(iceberg.encode(RowSet())))], "data_file string, dv binary")
    with pytest.raises(Exception, match=r"'x' has no vector \(magic\)"):
        explode(nothing).collect()
    with pytest.raises(Exception, match="1 vectors name no data file"):
        ranges(nameless).collect()
    with pytest.raises(UsageError, match="no data_file"):
        ranges(nothing.drop("data_file"))
    with pytest.raises(UsageError, match="max_rows must be at least 1"):
        explode(nothing, max_rows=0)


def test_the_package_names_the_jobs() -> None:
    assert callable(job)  # and not the module of the same name
