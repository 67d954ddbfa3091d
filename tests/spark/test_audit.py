"""audit: every vector of a lake, by its containers and by the places that metadata names."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as sf

from dvcodec import DecodeError, RowSet, UsageError, decode_at, delta, iceberg, paimon, sniff
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


def test_places_without_their_columns(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="no offset and no size"):
        audit(spark.createDataFrame([("a",)], "container string"))


def test_names_that_are_not_utf8(spark: SparkSession, tmp_path: Path) -> None:
    """A lone surrogate in a Puffin file, and bytes in the name of a file, are no reason to end the job."""
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
