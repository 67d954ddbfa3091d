"""Vectors as rows, and what differs between vectors, against plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import dvcodec
from dvcodec import RowSet, UsageError, delta, iceberg, paimon
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.jobs import convert, diff, explode, ranges
from dvcodec.spark.vectors import NamedVectors

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


Encode = Callable[[RowSet], bytes]


def frames(spark: SparkSession, rows: dict[str, RowSet], encode: Encode = iceberg.encode) -> DataFrame:
    data = [(name, bytearray(encode(one))) for name, one in rows.items()]
    return spark.createDataFrame(data, "data_file string, dv binary")


@pytest.mark.everywhere
def test_positions_and_ranges(spark: SparkSession) -> None:
    rows = samples()
    df = explode(frames(spark, rows).repartition(3), max_rows=1_000)
    assert df.dtypes == [("data_file", "string"), ("pos", "bigint")]
    found_positions = to_arrow(df)
    names, positions = found_positions["data_file"].to_numpy(), found_positions["pos"].to_numpy()
    for name, one in rows.items():
        assert positions[names == name].tolist() == one.to_numpy().tolist(), name
    df = ranges(frames(spark, rows).repartition(3), max_rows=1_000)
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


def two_states() -> tuple[dict[str, RowSet], dict[str, RowSet]]:
    chance = np.random.default_rng(11)
    old = {f"f{i} é": RowSet(chance.integers(0, 30_000, int(chance.integers(0, 900)))) for i in range(60)}
    new = {}
    for i, (name, rows) in enumerate(old.items()):
        if i % 6 != 5:
            change = RowSet(chance.integers(0, 30_000, 40))
            new[name] = (rows, rows | change, rows - change, rows ^ change, RowSet())[i % 6]
    new |= {"new": RowSet([1, 2]), "new and empty": RowSet()}
    for name, first, second in (
        ("large", RowSet(range(100_000)), RowSet(range(50_000, 120_000))),
        ("large and far", RowSet([1, 2**41]), RowSet([2, 2**41])),
        ("large, cleared", RowSet(range(0, 90_000, 2)), RowSet()),
        ("large, equal", RowSet(range(0, 90_000, 3)), RowSet(range(0, 90_000, 3))),
    ):
        old[name], new[name] = first, second
    return old, new


@pytest.mark.everywhere
def test_diff(spark: SparkSession) -> None:
    old, new = two_states()
    df = diff(frames(spark, old).repartition(3), frames(spark, new))
    assert [field.name for field in df.schema] == ["data_file", "added", "restored", "added_rows", "restored_rows"]
    found = {row["data_file"]: row for row in df.collect()}
    nothing = RowSet()
    want = {name: dvcodec.diff(old.get(name, nothing), new.get(name, nothing)) for name in {*old, *new}}
    assert set(found) == {name for name, change in want.items() if change.added or change.restored}
    for name, row in found.items():
        assert bytes(row["added"]) == iceberg.encode(want[name].added)
        assert bytes(row["restored"]) == iceberg.encode(want[name].restored)
        assert (row["added_rows"], row["restored_rows"]) == tuple(map(len, want[name]))


def test_diff_of_two_spellings(spark: SparkSession) -> None:
    old = {"/t/a": RowSet([1]), "s3://b/ts=10%3A00/x": RowSet([2]), "/t/same": RowSet([3]), "/t/a b": RowSet([4])}
    new = {"file:///t//a": RowSet([1, 5]), "s3a://b/ts=10%3A00/x": RowSet(), "file:/t/same": RowSet([3])}
    new |= {"/t/a b": RowSet([4]), "file:/t/a%20b": RowSet([6])}  # two files: they stand side by side
    found = {row["data_file"]: row[3:] for row in diff(frames(spark, old), frames(spark, new)).collect()}
    assert found == {"/t/a": (1, 0), "s3://b/ts=10%3A00/x": (0, 1), "file:/t/a%20b": (1, 0)}
    back = {row["data_file"]: row[3:] for row in diff(frames(spark, new), frames(spark, old)).collect()}
    assert back == {"file:///t//a": (0, 1), "s3a://b/ts=10%3A00/x": (1, 0), "file:/t/a%20b": (0, 1)}
    for one, other in (("/t/a b", "file:/t/a%20b"), ("file:/t/a%20b", "/t/a b")):
        sides = (frames(spark, {one: RowSet([1])}), frames(spark, {other: RowSet([1])}))
        with pytest.raises(Exception, match=r"'file:/t/a%20b' and '/t/a b' may be one data file"):
            diff(*sides).collect()
    sides = (frames(spark, {"/t/%c3%a9": RowSet([1])}), frames(spark, {"/t/%C3%A9": RowSet([1])}))
    with pytest.raises(Exception, match="may be one data file"):
        diff(*sides).collect()
    twice = {"/t/a": RowSet([1]), "file:/t/a": RowSet([2])}
    with pytest.raises(Exception, match="has 2 new vectors"):
        diff(frames(spark, old), frames(spark, twice)).collect()


def test_frames_that_differ_only_in_bytes(spark: SparkSession) -> None:
    rows = {"a": RowSet(range(1_000)), "b": RowSet([5]), "c": RowSet(range(70_000))}
    assert diff(frames(spark, rows), frames(spark, rows, paimon.encode)).collect() == []
    # The same bytes are not even read.
    broken = spark.createDataFrame([("a", bytearray(b"no vector"))], "data_file string, dv binary")
    assert diff(broken, broken).collect() == []


def test_diff_reports_vectors_it_cannot_compare(spark: SparkSession) -> None:
    good = frames(spark, {"a": RowSet([1]), "b": RowSet([2])})
    bad = bytearray(iceberg.encode(RowSet([1, 9])))
    bad[-1] ^= 1
    broken = spark.createDataFrame([("a", bad)], "data_file string, dv binary")
    nothing = spark.createDataFrame([("a", None, "why")], "data_file string, dv binary, error string")
    nameless = spark.createDataFrame([(None, bad)], "data_file string, dv binary")
    for old, new, message in (
        (good, broken, r"vector of a.*CRC-32"),
        (nothing, good, r"'a' has no vector \(why\)"),
        (nameless, good, r"name no data file"),
    ):
        with pytest.raises(Exception, match=message):
            diff(old, new).collect()
    with pytest.raises(UsageError, match="no dv"):
        diff(good, good.drop("dv"))


def rows_to_convert() -> dict[str, RowSet]:
    chance = np.random.default_rng(12)
    return {
        "none": RowSet(),
        "one": RowSet([2**31 - 1]),
        "large": RowSet(chance.integers(0, 10**6, 30_000)),
        "run": RowSet(range(40, 200_000)),
        **{f"f{i}": RowSet(chance.integers(0, 10**5, i * 20)) for i in range(25)},
    }


@pytest.mark.everywhere
@pytest.mark.parametrize("source", [iceberg.encode, partial(delta.encode, layout="native"), paimon.encode])
def test_convert(source: Encode, spark: SparkSession) -> None:
    rows = rows_to_convert()
    dvs = frames(spark, rows, source).select(
        sf.lit("k").alias("key"), "*", sf.lit(3).alias("size"), sf.lit("?").alias("format")
    )
    wanted: dict[str, tuple[Encode, str]] = {
        "iceberg": (iceberg.encode, "puffin"),
        "delta": (delta.encode, "delta"),
        "paimon64": (iceberg.encode, "delta"),
        "paimon32": (paimon.encode, "paimon"),
    }
    for to, (encode, wrap) in wanted.items():
        df = convert(dvs, to)  # type: ignore[arg-type]
        assert df.schema == dvs.schema
        found = {row["data_file"]: row for row in df.collect()}
        assert set(found) == set(rows)
        for name, row in found.items():
            assert bytes(row["dv"]) == encode(rows[name]), name
            assert (row["key"], row["size"], row["format"]) == ("k", len(row["dv"]), wrap)


def test_convert_reports_vectors_it_cannot_convert(spark: SparkSession) -> None:
    far = frames(spark, {"near": RowSet([1]), "far é": RowSet([2**31])})
    with pytest.raises(Exception, match="'far é': position 2147483648 does not fit a 32-bit vector"):
        convert(far, "paimon32").collect()
    assert convert(far, "paimon64").count() == 2
    odd = iceberg.encode(RowSet(range(5_000)), run_optimize=False)
    dvs = spark.createDataFrame([("a", bytearray(odd))], "data_file string, dv binary")
    assert bytes(convert(dvs, "delta").collect()[0]["dv"]) == odd, "what is already there is copied"
    bad: Any = bytearray(iceberg.encode(RowSet([1])))
    bad[-1] ^= 1
    with pytest.raises(Exception, match=r"vector of x.*CRC-32"):
        convert(spark.createDataFrame([("x", bad)], "data_file string, dv binary"), "iceberg").collect()
    with pytest.raises(
        UsageError,
        match=r"cannot convert to 'puffin', only to iceberg, .* did you mean 'iceberg'",
    ):
        convert(far, "puffin")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no data_file"):
        convert(far.drop("data_file"), "iceberg")
