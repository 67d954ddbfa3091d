"""Every vector of a lake verified, corrupt ones set apart, data files worth rewriting: against plain Python."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from dvcodec import DecodeError, RowSet, UsageError, decode_at, delta, iceberg, paimon, sniff
from dvcodec.spark import jobs
from dvcodec.spark.jobs import compaction_candidates
from dvcodec.spark.jobs.audit import audit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


PLACES = "container string, offset long, size long, cardinality long, data_file string, format string"


def lake(folder: Path) -> dict[str, dict[str, RowSet]]:
    """Containers of three formats, with a few hundred vectors: container -> data file -> rows."""
    chance = np.random.default_rng(4)
    made: dict[str, dict[str, RowSet]] = {}
    for name, count in (("a b.puffin", 200), ("c%.puffin", 3)):
        vectors = {f"s3://t/{name}/{i}.parquet": RowSet(chance.integers(0, 1 << 18, i + 1)) for i in range(count)}
        iceberg.write_deletion_vectors(folder / name, vectors)
        made[name] = vectors
    vectors = {str(i): RowSet(chance.integers(0, 1 << 18, 50)) for i in range(40)}
    delta.write_deletion_vectors(folder / "d.bin", vectors)
    paimon.write_deletion_vectors(folder / "index-1", vectors)
    return made | {"d.bin": vectors, "index-1": vectors}


def rows_of(df: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in df.collect()]


@pytest.mark.everywhere
def test_paths(spark: SparkSession, tmp_path: Path) -> None:
    made = lake(tmp_path)
    damaged = bytearray((tmp_path / "c%.puffin").read_bytes())
    damaged[30] ^= 4
    (tmp_path / "c%.puffin").write_bytes(damaged)
    found = rows_of(audit(tmp_path))
    assert len(found) == sum(map(len, made.values()))
    bad = [row for row in found if row["error"]]
    assert [(Path(row["container"]).name, row["crc_ok"], row["cardinality"]) for row in bad] == [
        ("c%.puffin", False, None)
    ]
    assert bad[0]["error"].startswith(f"{tmp_path}/c%.puffin at byte ")
    for row in found:
        if row["error"] is None and row["data_file"]:
            rows = made[Path(row["container"]).name][row["data_file"]]
            assert (row["cardinality"], row["min"], row["max"]) == (len(rows), rows.min, rows.max)
            assert tuple(row["containers"].values()) == tuple(rows.containers)


@pytest.mark.everywhere
def test_places(spark: SparkSession, tmp_path: Path) -> None:
    made = lake(tmp_path)
    places: list[tuple[object, ...]] = []
    want: dict[tuple[str, int], tuple[object, ...]] = {}
    for name, vectors in made.items():
        kind = "delta" if name == "d.bin" else None
        path = str(tmp_path / name)
        for ref, nth in zip(sniff(tmp_path / name).vectors, vectors, strict=True):
            data_file = ref.data_file or nth
            rows = vectors[data_file]
            # Delta's log and Paimon's 32-bit metadata leave out length field and CRC.
            size = ref.size - 8 if name in ("d.bin", "index-1") else ref.size
            places.append((path, ref.offset, None if len(places) % 9 == 0 else size, len(rows), data_file, kind))
            want[path, ref.offset] = (data_file, kind, len(rows), rows.min, rows.max, True, None)
    random.Random(3).shuffle(places)
    found = rows_of(audit(spark.createDataFrame(places, PLACES)))
    columns = ("data_file", "format", "cardinality", "min", "max", "crc_ok", "error")
    assert {(row["container"], row["offset"]): tuple(row[name] for name in columns) for row in found} == want


def test_places_that_are_wrong(spark: SparkSession, tmp_path: Path) -> None:
    iceberg.write_deletion_vectors(tmp_path / "x.puffin", {"a": RowSet(range(0, 99, 3)), "b": RowSet([5])})
    first, second = sniff(tmp_path / "x.puffin").vectors
    path = str(tmp_path / "x.puffin")
    size = (tmp_path / "x.puffin").stat().st_size
    places = [
        (path, first.offset, first.size, 33),
        (path, second.offset, second.size, 2),
        (path, second.offset, second.size - 1, 1),
        (path, first.offset + 1, first.size, None),
        (path, size - 3, 40, None),
        (path, size + 30, None, None),
        (path, -1, 10, None),
        (f"{path}.gone", 4, 40, None),
    ]
    df = spark.createDataFrame(places, "path string, offset int, size int, cardinality int")
    found = {(Path(row["container"]).name, row["offset"], row["size"]): row for row in rows_of(audit(df))}
    assert len(found) == len(places)
    assert found["x.puffin", first.offset, first.size]["error"] is None
    for (name, offset, length), row in found.items():
        if (offset, length) == (first.offset, first.size) and name == "x.puffin":
            continue
        assert row["error"], (name, offset, length)
        assert row["cardinality"] is None
        if name == "x.puffin" and offset == second.offset:
            with pytest.raises(DecodeError):
                decode_at(tmp_path / name, offset, length, cardinality=2 if length == second.size else 1)
    assert "No such file" in found["x.puffin.gone", 4, 40]["error"]
    assert "cardinality" in found["x.puffin", second.offset, second.size]["error"]
    with pytest.raises(UsageError, match="no offset and no size"):
        audit(df.select("path"))


def test_names_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """A lone surrogate in a Puffin file, and bytes in the name of a file, do not end the job."""
    frame = iceberg.encode(RowSet([1, 5]))
    properties = {"referenced-data-file": "a\ud800", "cardinality": "2"}
    blob = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1}
    blob |= {"offset": 4, "length": len(frame), "properties": properties}
    footer = json.dumps({"blobs": [blob], "properties": {}}).encode()
    tail = b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    (tmp_path / "a.puffin").write_bytes(b"PFA1" + frame + tail)
    iceberg.write_deletion_vectors(tmp_path / "b.puffin", {"b": RowSet([1])})
    with suppress(OSError):  # not every file system takes this name
        (tmp_path / "b.puffin").rename(tmp_path / os.fsdecode(b"\xff.puffin"))
    found = {row["data_file"]: row["error"] for row in audit(str(tmp_path), spark=spark).collect()}
    assert found == {"a\\ud800": "'a\\ud800': a data file whose name is not UTF-8", "b": None}
    places = [(bytearray(b"\xff"), 4, 10)]
    named = spark.createDataFrame(places, "container binary, offset long, size long")
    (row,) = audit(named.withColumn("container", sf.col("container").cast("string"))).collect()
    assert "No such file" in row["error"]


VALID = {f"f{i}": RowSet(range(0, 10 * i + 1, 3)) for i in range(40)}


def damaged(rows: RowSet) -> bytearray:
    found = bytearray(iceberg.encode(rows))
    found[-6] ^= 1
    return found


def test_everything_is_in_one_of_the_two(spark: SparkSession) -> None:
    rows: list[tuple[str | None, bytearray | None, int | None, int]] = [
        (name, bytearray(iceberg.encode(one)), len(one), i) for i, (name, one) in enumerate(VALID.items())
    ]
    some = RowSet([1, 5])
    rows += [
        ("narrow", bytearray(paimon.encode(some)), 2, 100),
        ("uncounted", bytearray(iceberg.encode(some)), None, 101),
        ("flipped", damaged(some), 2, 102),
        ("cut", bytearray(iceberg.encode(some))[:-1], 2, 103),
        ("empty", bytearray(), 2, 104),
        ("miscounted", bytearray(iceberg.encode(some)), 3, 105),
        ("missing", None, 2, 106),
        (None, bytearray(iceberg.encode(some)), 2, 107),
    ]
    dvs = spark.createDataFrame(rows, "data_file string, dv binary, cardinality long, number int").repartition(3)
    valid, apart = jobs.quarantine(dvs)
    assert valid.columns == dvs.columns
    assert {row["number"]: bytes(row["dv"]) for row in valid.collect()} == {
        number: bytes(dv) for _, dv, _, number in rows if dv is not None and number < 102
    }
    why = {row["number"]: row["error"] for row in apart.collect()}
    assert why.keys() == {102, 103, 104, 105, 106, 107}
    assert "CRC" in why[102]
    assert why[103]
    assert why[104]
    assert why[105] == "cardinality: expected 3, found 2"
    assert why[106] == "dv is null"
    assert why[107] == "data_file is null"
    with pytest.raises(UsageError, match="no dv"):
        jobs.quarantine(dvs.drop("dv"))


def test_a_damaged_lake(spark: SparkSession, tmp_path: Path) -> None:
    """Containers of which one is cut short and one has a flipped bit: what cannot be read is set apart."""
    for name, rows in VALID.items():
        iceberg.write_deletion_vectors(tmp_path / f"{name}.puffin", {name: rows})
    cut, flipped = tmp_path / "f7.puffin", tmp_path / "f9.puffin"
    cut.write_bytes(cut.read_bytes()[:-3])
    data = bytearray(flipped.read_bytes())
    data[20] ^= 4
    flipped.write_bytes(data)
    found = jobs.read_vectors(tmp_path, spark=spark)
    valid, apart = jobs.quarantine(found)
    assert valid.columns == apart.columns == found.columns
    assert sorted(Path(row["container"]).name for row in apart.collect() if row["error"]) == [cut.name, flipped.name]
    merged = {row["data_file"]: row["cardinality"] for row in jobs.merge(valid).collect()}
    assert merged == {name: len(rows) for name, rows in VALID.items() if name not in ("f7", "f9")}
    with pytest.raises(PySparkException, match="vectors name no data file"):  # what a job does without
        jobs.merge(found).collect()


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ([2.0, 1e300], r"cardinality: expected 1e+300, found 2"),
        (["2", "x"], "cardinality: expected x, found 2"),
        ([Decimal(2), Decimal(10**30)], f"cardinality: expected {10**30}, found 2"),
    ],
)
def test_a_cardinality_that_is_not_a_whole_number(spark: SparkSession, stated: list[Any], expected: str) -> None:
    kind = {float: "double", str: "string", Decimal: "decimal(38, 0)"}[type(stated[0])]
    dv = bytearray(iceberg.encode(RowSet([1, 5])))
    rows = [("a", dv, stated[0]), ("b", dv, stated[1])]
    valid, apart = jobs.quarantine(spark.createDataFrame(rows, f"data_file string, dv binary, cardinality {kind}"))
    assert [row["data_file"] for row in valid.collect()] == ["a"]
    assert [row["error"] for row in apart.collect()] == [expected]


def test_a_name_that_is_not_utf8(spark: SparkSession) -> None:
    """Spark's strings hold any bytes; the jobs after this one cannot name such a data file."""
    dv = bytearray(iceberg.encode(RowSet([1, 5])))
    rows = [(bytearray(b"a"), dv), (bytearray(b"\xff"), dv)]
    named = spark.createDataFrame(rows, "data_file binary, dv binary")
    named = named.withColumn("data_file", sf.col("data_file").cast("string"))
    valid, apart = jobs.quarantine(named)
    assert jobs.explode(valid).count() == 2
    assert [row["error"] for row in apart.select("error").collect()] == ["data_file is not UTF-8"]
    for run in (jobs.explode, lambda dvs: jobs.convert(dvs, "delta"), jobs.merge):
        with pytest.raises(PySparkException, match=r"UsageError: .*a data file whose name is not UTF-8"):
            run(named).collect()


SIZES = [
    ("untouched", 1_000, None, 10_000),
    ("hardly", 1_000, 99, 10_000),
    ("just", 1_000, 100, 90_000),
    ("much", 10_000, 9_000, 10_001),
    ("all", 50, 50, 700),
    ("empty", 0, None, 4),
    ("tiny", 4, 2, 300),
]


def stats(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(SIZES, "data_file string, rows long, cardinality int, bytes long")


def test_numbers(spark: SparkSession) -> None:
    df = compaction_candidates(stats(spark), size="bytes", min_ratio=0.1)
    assert df.columns == [*stats(spark).columns, "live_rows", "deleted_ratio", "fully_deleted", "gain"]
    found = [(r["data_file"], r["live_rows"], r["deleted_ratio"], r["fully_deleted"], r["gain"]) for r in df.collect()]
    assert found == [
        ("much", 1_000, 0.9, False, 9_001),
        ("just", 900, 0.1, False, 9_000),
        ("all", 0, 1.0, True, 700),
        ("tiny", 2, 0.5, False, 150),
    ]
    named = stats(spark).select("data_file", sf.col("rows").alias("record count"), sf.col("cardinality").alias("a.b"))
    for ratio, least, names in (
        (0.5, 1, ["much", "all", "tiny"]),
        (1.0, 1000, ["all"]),
        (0.05, 100, ["much", "just", "all"]),
    ):
        worth = compaction_candidates(named, rows="record count", deleted="a.b", min_ratio=ratio, min_deleted=least)
        assert [row["data_file"] for row in worth.collect()] == names


@pytest.mark.parametrize("numbers", [(10, 11), (None, 3), (5, -1)])
def test_numbers_that_cannot_be(numbers: tuple[Any, Any], spark: SparkSession) -> None:
    df = spark.createDataFrame([("a", *numbers)], "data_file string, rows long, cardinality long")
    with pytest.raises(Exception, match=r"a data file of .* rows cannot have .* deleted ones"):
        compaction_candidates(df).count()  # though no column is asked for


def test_arguments_of_candidates(spark: SparkSession) -> None:
    df = stats(spark)
    with pytest.raises(UsageError, match="no column x among data_file"):
        compaction_candidates(df, rows="x")
    with pytest.raises(UsageError, match="already have a column gain"):
        compaction_candidates(df.withColumn("gain", sf.lit(1)))
    for arguments in ({"min_ratio": 1.5}, {"min_deleted": -1}):
        with pytest.raises(UsageError, match="min_ratio must be between 0 and 1"):
            compaction_candidates(df, **arguments)
