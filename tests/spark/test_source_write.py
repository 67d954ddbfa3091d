"""Containers that the rest of the library reads, and manifests that name every vector."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException, PythonException
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from dvcodec import DecodeError, RowSet, UsageError, convert, decode_at, delta, iceberg, paimon, sniff
from dvcodec.io import Storage
from dvcodec.spark import jobs
from dvcodec.spark.compat import to_arrow
from dvcodec.spark.sources import files, read_manifest
from dvcodec.spark.sources import vectors as reading
from dvcodec.spark.sources import writer as writing
from dvcodec.spark.sources.files import FoundFiles
from dvcodec.spark.sources.options import ReadOptions, WriteOptions
from dvcodec.spark.sources.vectors import plan
from dvcodec.spark.sources.writer import CONTAINERS, VectorWriter, Written, committed_in, writer_of
from dvcodec.spark.vectors import MAGICS as TARGETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


VECTORS = StructType([StructField("data_file", StringType()), StructField("dv", BinaryType())])


@pytest.fixture(scope="module", autouse=True)
def _registered(sources: SparkSession) -> None:
    pass


def row_sets(count: int = 40, seed: int = 1) -> dict[str, RowSet]:
    chance = np.random.default_rng(seed)
    rows = {f"s3://lake/t/é #{i}.parquet": RowSet(chance.integers(0, 1 << 20, 60 * i)) for i in range(count)}
    return rows | {"runs": RowSet.from_ranges([(10, 200_000)]), "many": RowSet(range(0, 300_000, 3))}


def frames(rows: dict[str, RowSet]) -> dict[str, bytes]:
    """One frame each, in all three layouts and one that is not canonical."""
    encoders: list[Callable[[RowSet], bytes]] = [
        iceberg.encode,
        lambda one: delta.encode(one, layout="native"),
        paimon.encode,
        lambda one: iceberg.encode(one, run_optimize=False),
    ]
    return {name: encoders[i % 4](one) for i, (name, one) in enumerate(rows.items())}


def vectors(spark: SparkSession, dvs: dict[str, bytes], tasks: int = 2) -> DataFrame:
    items = [(name, bytearray(dv)) for name, dv in dvs.items()]
    return (
        spark.createDataFrame(items, VECTORS).repartitionByRange(tasks, "data_file").sortWithinPartitions("data_file")
    )


def write(df: DataFrame, path: Path | str, target: str = "iceberg", **options: object) -> None:
    writer = df.write.format("dvcodec").mode("append").option("target", target)
    for name, value in options.items():
        writer = writer.option(name.replace("_", "-"), str(value))
    writer.save(str(path))


def shown(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def containers(folder: Path) -> list[Path]:
    return [folder / name for name in shown(folder) if not name.startswith(("_", "."))]


def check_manifest(folder: Path, rows: dict[str, RowSet]) -> list[dict[str, Any]]:
    """Every vector is named once, where it is; nothing else is there."""
    found: list[dict[str, Any]] = read_manifest(str(folder)).to_pylist()
    assert Counter(row["data_file"] for row in found) == Counter(rows.keys())
    for row in found:
        rowset = rows[row["data_file"]]
        assert decode_at(row["path"], row["offset"], row["size"], cardinality=row["cardinality"]) == rowset
        assert row["file_size"] == Path(row["path"]).stat().st_size
    assert {row["path"] for row in found} == set(map(str, containers(folder)))
    assert all(
        name.startswith("_manifest-") for name in set(shown(folder)) - {path.name for path in containers(folder)}
    )
    return found


# ---------------------------------------------------------------------- what is written


@pytest.mark.everywhere
@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = row_sets()
    dvs = frames(rows)
    write(vectors(spark, dvs), tmp_path / "out", target)
    found = check_manifest(tmp_path / "out", rows)
    assert {row["format"] for row in found} == {target}
    assert len({row["path"] for row in found}) == 2
    names = {
        "iceberg": r"[0-9a-f]{32}-\d{5}-\d+-0\.puffin",
        "delta": r"deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin",
    }.get(target, r"index-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-0")
    assert all(re.fullmatch(names, path.name) for path in containers(tmp_path / "out"))
    for row in found:  # the bytes of `convert`: copied where the layout is the one wanted
        blob, path = tmp_path / "blob", Path(row["path"])
        blob.write_bytes(dvs[row["data_file"]])
        (location,) = convert(blob, target, tmp_path / "one", data_files=[row["data_file"]])
        want = (tmp_path / "one").read_bytes()[location.offset :][: location.size]
        assert path.read_bytes()[row["offset"] :][: row["size"]] == want
    again = spark.read.format("dvcodec").option("partition-bytes", "10k").load(str(tmp_path / "out")).collect()
    assert Counter(row["data_file"] for row in again) == Counter(rows.keys())
    assert {row["data_file"]: decode_at(bytes(row["dv"])) for row in again} == rows  # by the manifest, if need be
    assert all(row["error"] is None and row["cardinality"] == len(rows[row["data_file"]]) for row in again)


def test_puffin_files_are_those_of_the_library(spark: SparkSession, tmp_path: Path) -> None:
    rows = {f'{i} "é\\ü\x01': RowSet([i]) for i in range(9)}
    dvs = {name: iceberg.encode(one) for name, one in rows.items()}
    write(vectors(spark, dvs, 1), tmp_path / "out")
    iceberg.write_deletion_vectors(tmp_path / "one", dict(sorted(rows.items())), order="given")
    (path,) = containers(tmp_path / "out")
    assert path.read_bytes() == (tmp_path / "one").read_bytes()


def test_containers_have_a_size(spark: SparkSession, tmp_path: Path) -> None:
    rows = {f"{i:03d}": RowSet(range(0, 4000, i + 2)) for i in range(60)}
    dvs = {name: iceberg.encode(one) for name, one in rows.items()}
    for target in TARGETS:
        folder = tmp_path / target
        write(vectors(spark, dvs, 1), folder, target, target_bytes="8k")
        check_manifest(folder, rows)
        sizes = [sum(ref.size for ref in sniff(path).vectors) for path in containers(folder)]
        largest = max(map(len, dvs.values()))
        assert sum(sizes) == sum(ref.size for path in containers(folder) for ref in sniff(path).vectors)
        assert all(size < 8192 + largest for size in sizes)
        assert sum(size < 8192 for size in sizes) <= 1
        assert len(sizes) > 2
    write(vectors(spark, dvs, 1), tmp_path / "few", max_vectors=25)
    counts = sorted(len(sniff(path).vectors) for path in containers(tmp_path / "few"))
    assert counts == [10, 25, 25]


def test_a_footer_ends_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_FOOTER_BYTES", 4000)
    rows = {"x" * 300 + str(i): RowSet([i]) for i in range(20)}
    commit(writer(tmp_path), [batches(rows)])
    check_manifest(tmp_path, rows)
    assert [len(sniff(path).vectors) for path in containers(tmp_path)] == [5, 5, 5, 5]


def test_folders_are_spelled_as_the_user_does(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"a": RowSet([1])}
    for folder in (f"file:{tmp_path}/a%20b", f"local://{tmp_path}/c d", f"{tmp_path}/e%/"):
        write(vectors(spark, frames(rows), 1), folder, "delta")
        (row,) = read_manifest(folder).to_pylist()
        assert row["path"].startswith(folder.rstrip("/") + "/deletion_vector_")
        assert decode_at(row["path"], row["offset"], row["size"]) == rows["a"]
        (found,) = spark.read.format("dvcodec").load(folder).collect()
        assert (found["container"], found["data_file"]) == (row["path"], "a")
    assert shown(tmp_path) == ["a b", "c d", "e%"]


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", None)], "'a' has no vector"),
        ([(None, iceberg.encode(RowSet([1])))], "name no data file"),
        ([("a", iceberg.encode(RowSet([1]))[:-1] + b"x")], "vector of a at byte 38: CRC-32"),
        ([("ok", iceberg.encode(RowSet([1]))), ("a", b"")], "vector of a at byte 0: length field"),
        ([("a", iceberg.encode(RowSet([2**31])))], "'a': position 2147483648 does not fit"),
    ],
)
def test_vectors_that_are_refused(rows: list[tuple[str | None, bytes | None]], message: str, tmp_path: Path) -> None:
    to = writer(tmp_path, target="paimon32", max_vectors=5)
    names, dvs = zip(*rows, strict=True)
    valid = batches({"first": RowSet([7])})
    whole = pa.record_batch({"data_file": pa.array(names, pa.string()), "dv": pa.array(dvs, pa.binary())})
    for later in ([whole], [whole.slice(i, 1) for i in range(len(rows))]):
        with pytest.raises((UsageError, DecodeError), match=message):
            to.write(chain(valid, later))
        assert shown(tmp_path) == [Path(to.marker).name]  # what was begun is gone at once


def test_a_data_file_in_two_spellings(tmp_path: Path) -> None:
    to = writer(tmp_path, max_vectors=1)
    written = to.write(batches({"s3://b/x": RowSet([1]), "s3a://b//x": RowSet([2])}))
    assert len(written.containers) == 2
    with pytest.raises(UsageError, match="'s3a://b//x', also spelled 's3://b/x': merge them first"):
        to.commit([written])
    assert committed_in(str(tmp_path), None, Storage()) == {}


def test_a_cardinality_is_checked(tmp_path: Path) -> None:
    to = writer(tmp_path)
    dvs = pa.array([iceberg.encode(RowSet([1, 2])), iceberg.encode(RowSet())])
    for kind in (pa.int64(), pa.int32(), pa.uint8()):
        batch = pa.record_batch({"data_file": ["a", "b"], "dv": dvs, "cardinality": pa.array([2, None], kind)})
        assert len(to.write(iter([batch])).containers) == 1
    batch = pa.record_batch({"cardinality": pa.array([2, 3]), "dv": dvs, "data_file": ["a", "b"]})
    with pytest.raises(DecodeError, match=r"vector of b at byte 0: cardinality: expected 3 \(metadata\), found 0"):
        to.write(iter([batch]))
    batch = pa.record_batch({"data_file": ["a", "b"], "dv": dvs, "cardinality": ["2", "0"]})
    with pytest.raises(UsageError, match="column cardinality: expected integers, found string"):
        to.write(iter([batch]))


@pytest.mark.everywhere
def test_usage_errors(spark: SparkSession, tmp_path: Path) -> None:
    df = vectors(spark, frames({"a": RowSet([1])}))
    out = tmp_path / "out"
    for what, message in (
        (df.write.format("dvcodec").mode("overwrite"), "UsageError: mode overwrite is not supported"),
        (
            df.write.format("dvcodec").mode("append").option("target", "puffin"),
            "option target: expected one of iceberg, delta, .* did you mean 'iceberg'",
        ),
        (df.write.format("dvcodec").mode("append").option("targets", "x"), "unknown option 'targets'"),
        (df.write.format("dvcodec").mode("append").option("max-vectors", "99999"), "holds at most 65536 vectors"),
        (df.select("dv").write.format("dvcodec").mode("append"), "data_file is not one of them"),
        (df.selectExpr("data_file", "'x' as dv").write.format("dvcodec").mode("append"), "dv is not one of them"),
    ):
        with pytest.raises(PySparkException, match=message):
            what.save(str(out))
    with pytest.raises(PySparkException, match="a write needs one folder"):
        df.write.format("dvcodec").mode("append").save()
    assert not out.exists()


# ---------------------------------------------------------------------- what readers see


def writer(folder: Path, **options: object) -> VectorWriter:
    given = {"path": str(folder)} | {name.replace("_", "-"): str(value) for name, value in options.items()}
    return writer_of(WriteOptions.parse(given), VECTORS, overwrite=False)


def batches(rows: dict[str, RowSet]) -> Iterator[pa.RecordBatch]:
    for name, one in rows.items():
        yield pa.record_batch({"data_file": [name], "dv": pa.array([iceberg.encode(one)])})


def commit(to: VectorWriter, tasks: list[Iterator[pa.RecordBatch]]) -> list[Written]:
    written = [to.write(task) for task in tasks]
    to.commit([*written])
    return written


def seen(spark: SparkSession, folder: Path | str, **options: str) -> dict[str | None, RowSet | None]:
    reader = spark.read.format("dvcodec").schema("data_file string, dv binary")
    found = reader.options(**options).load(str(folder)).collect()
    names = [row["data_file"] for row in found if row["data_file"]]
    assert len(names) == len(set(names))
    return {row["data_file"]: None if row["dv"] is None else decode_at(bytes(row["dv"])) for row in found}


def test_what_no_manifest_names_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{f"{i}{k}": RowSet([i, k]) for k in range(3)} for i in range(4)]
    folder = tmp_path / "out"
    folder.mkdir()
    iceberg.write_deletion_vectors(folder / "by hand.puffin", rows[0])
    assert seen(spark, folder) == rows[0]
    commit(writer(folder), [batches(rows[1])])
    write(vectors(spark, frames(rows[2])), folder, "delta")
    assert seen(spark, folder) == rows[1] | rows[2]
    assert seen(spark, folder / "*.*") == rows[1] | rows[2]
    assert seen(spark, folder / "*.puffin") == rows[1]
    assert seen(spark, tmp_path / "*") == rows[1] | rows[2]
    assert seen(spark, folder / "by hand.puffin") == rows[0]
    assert len(seen(spark, folder, committed="false")) == 7  # a name for Delta's vectors is in the manifest alone
    running = writer(folder)
    written = running.write(batches(rows[3]))
    assert seen(spark, folder) == rows[1] | rows[2]
    running.abort([written])
    assert not (folder / written.containers[0]).exists()
    assert seen(spark, f"local://{folder}") == rows[1] | rows[2]


def test_the_first_write_into_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of it is there before its commit, nor if its driver dies or it fails."""
    running, failed, gone = writer(tmp_path), writer(tmp_path), writer(tmp_path)
    rows = {"a": RowSet([1])}
    written = [to.write(batches(rows)) for to in (running, failed, gone)]
    failed.commit([written[1]])
    assert seen(spark, tmp_path) == rows
    failed.abort([written[1], None])
    assert seen(spark, tmp_path) == {}
    running.commit([written[0]])
    assert seen(spark, tmp_path) == rows
    assert {path.name for path in containers(tmp_path)} == {*written[0].containers, *written[2].containers}


def test_a_commit_after_the_folder_was_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(writer(tmp_path), [batches({"a": RowSet([1])})])
    (path,) = containers(tmp_path)
    find_all = files.find_all
    monkeypatch.setattr(reading, "find_all", lambda *of: [FoundFiles([], one.folders) for one in find_all(*of)])
    (partition,) = plan(ReadOptions.parse({"path": str(tmp_path)}))
    assert [(part.path, part.size) for part in partition.splits] == [(str(path), path.stat().st_size)]


def test_a_container_that_is_gone_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    commit(writer(tmp_path, max_vectors=1), [batches({"a": RowSet([1]), "b": RowSet([2])})])
    gone = next(row for row in read_manifest(str(tmp_path)).to_pylist() if row["data_file"] == "a")
    Path(gone["path"]).unlink()
    found = {row["error"] is None: row for row in spark.read.format("dvcodec").load(str(tmp_path)).collect()}
    assert found[True]["data_file"] == "b"
    assert found[False]["container"] == gone["path"]
    assert "no such file" in found[False]["error"]


def test_a_manifest_that_is_damaged_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    commit(writer(tmp_path), [batches({"a": RowSet([1])})])
    (path,) = tmp_path.glob("_manifest-*")
    table = pq.read_table(path)
    for listed in (None, "[]", "{}", "[3]"):
        pq.write_table(table.replace_schema_metadata(listed and {CONTAINERS: listed}), path)
        with pytest.raises(DecodeError, match="list of containers: expected the names of 1 containers"):
            committed_in(str(tmp_path), None, Storage())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DecodeError, match="manifest: expected a manifest of a write"):
        read_manifest(str(tmp_path))
    with pytest.raises(PySparkException, match=r"NotCanonical: .*: manifest: expected a manifest of a write"):
        seen(spark, tmp_path)
    with pytest.raises(UsageError, match="no manifest"):
        read_manifest(str(tmp_path / "nowhere"))


MADE = {f"s3://lake/t/é #{i}.parquet": RowSet(range(i, 9000, i + 1)) for i in range(30)}


def made_vectors(spark: SparkSession) -> DataFrame:
    encoders = (iceberg.encode, paimon.encode)
    items = [(name, bytearray(encoders[i % 2](rows)), 5) for i, (name, rows) in enumerate(MADE.items())]
    return spark.createDataFrame(items, "data_file string, dv binary, other long").repartition(3)


@pytest.mark.everywhere
@pytest.mark.parametrize("target", ["iceberg", "paimon32"])
def test_every_target_of_the_job(
    target: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "folder"
    monkeypatch.chdir(tmp_path)
    found = jobs.write_vectors(made_vectors(spark), "new/folder", target=target)  # type: ignore[arg-type]
    assert found.equals(read_manifest(str(folder)))
    assert {row["data_file"]: decode_at(row["path"], row["offset"], row["size"]) for row in found.to_pylist()} == MADE
    assert set(found["format"].to_pylist()) == {target}
    again = to_arrow(jobs.read_vectors(folder, spark=spark).select("data_file", "cardinality", "crc_ok", "error"))
    expected = sorted((name, len(rows), True, None) for name, rows in MADE.items())
    assert sorted(tuple(row.values()) for row in again.to_pylist()) == expected
    jobs.write_vectors(made_vectors(spark).where("false"), folder)
    jobs.write_vectors(made_vectors(spark).selectExpr("concat('more ', data_file) AS data_file", "dv"), folder)
    assert jobs.read_vectors(folder, spark=spark).count() == 2 * len(MADE), "a second write is appended"


@pytest.mark.everywhere
def test_a_write_that_fails_is_not_seen(spark: SparkSession, tmp_path: Path) -> None:
    made = made_vectors(spark)
    corrupt = made.selectExpr("data_file", "concat(dv, X'00') AS dv")
    with pytest.raises(PythonException, match=r"Truncated|length field"):
        jobs.write_vectors(corrupt, tmp_path)
    with pytest.raises(UsageError, match="has no vector"):
        jobs.write_vectors(made.selectExpr("data_file", "CAST(NULL AS BINARY) AS dv"), tmp_path)
    with pytest.raises(UsageError, match="two vectors for the data file"):
        jobs.write_vectors(made.union(made), tmp_path)
    assert jobs.read_vectors(tmp_path, spark=spark).count() == 0
